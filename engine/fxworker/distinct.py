"""Sizes that differ where those that were made up for a constructor are the same.

`Block(64, 64)` says nothing of a layer that takes the width of what comes in where it is to take the width of what goes
out; `Block(64, 192)` does. So a model with made-up arguments is built with sizes that are told apart, if it runs so, or
if it then stops at a layer: what joins two values, as a shortcut does, may well want them to be of one size.
"""

import ast
import time
from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Final

from torch import nn

from fxengine.inputs import disagreements, infer_inputs
from fxengine.inputs.probe import Outcome
from fxworker.building import Built, built_as
from fxworker.choices import LEAST_SIZE, call_in
from fxworker.loading import Loaded
from fxworker.wire import Construct, TraceTarget

_FACTORS: Final = (1, 3, 5, 7, 11, 13)
"""What equal sizes are multiplied by, one after the other, so that what goes into one of them goes into each."""

_SECONDS: Final = 0.5
"""Seconds of processor time after which nothing more is tried."""

_ENDING: Final = 2
"""How many words at the end of two names make them alike."""

HOPELESS: Final = 8
"""Trials of inputs that end with the same complaint, after which there are no more."""


def with_distinct_sizes(built: Built, target: TraceTarget, loaded: Loaded) -> Built | None:
    """Return a model like one that was built with made-up arguments, with sizes that are told apart; None to keep it.

    Args:
        built: The model.
        target: What was built.
        loaded: The file's module.
    """
    construct, until = built.construct, time.process_time() + _SECONDS
    if construct is None or construct.location is not None or built.inputs:
        # A part of another model is as that has it, and the project says some sizes.
        return None
    for expression in _told_apart(construct.expression):
        other, left = built_as(expression, target, loaded), until - time.process_time()
        if other is None or not isinstance(other.root, nn.Module):
            continue
        if left <= 0:
            return None
        found = infer_inputs(other.root, budget_s=left, hopeless=HOPELESS)
        if found.complete or (found.stopped is not None and _is_at_layer(found.stopped, other.root, expression)):
            return Built(other.root, Construct(expression, "inferred"))
    return None


def are_distinct(expression: str) -> bool:
    """Return whether no two sizes in a construction are the same."""
    call = call_in(expression)
    return call is not None and not _equal_sizes(call)


def with_equal_sizes(expression: str, sizes: Collection[int]) -> str:
    """Return a construction with the least of some sizes in the place of each of them; "" if it has not all of them.

    Nor is there one where their names end alike: they are one size that has two names, and need not be told apart.
    """
    call = ast.parse(expression.strip(), mode="eval").body
    keywords = (each for each in ast.walk(call) if isinstance(each, ast.keyword))
    named = [(each.arg, each.value.value) for each in keywords if isinstance(each.value, ast.Constant)]
    endings = [{_ending(name) for name, value in named if value == size} for size in sizes]
    if len(endings) > 1 and any(len(ending) == _ENDING for ending in set.intersection(*endings)):
        return ""
    found = [each for each in ast.walk(call) if isinstance(each, ast.Constant) and each.value in sizes]
    if {each.value for each in found} != set(sizes):
        return ""
    for each in found:
        each.value = min(sizes)
    return ast.unparse(call)


def _ending(name: str | None) -> tuple[str, ...]:
    """Return the last words of a name: `embedding` and `dim` of `symbols_embedding_dim`."""
    return tuple((name or "").split("_")[-_ENDING:])


def _told_apart(expression: str) -> Iterator[str]:
    """Yield a construction with each of its equal sizes multiplied, then with each one of these left as it is."""
    call = call_in(expression)
    equal = _equal_sizes(call) if call is not None else []
    before = [ast.literal_eval(each) for each, _ in equal]
    for left in (None, *(range(len(equal)) if len(equal) > 1 else ())):
        for index, (number, factor) in enumerate(equal):
            number.value = before[index] * (1 if index == left else factor)
        if call is not None and equal:
            yield ast.unparse(call)


def _equal_sizes(call: ast.Call) -> list[tuple[ast.Constant, int]]:
    """Return the sizes in a call that another one before equals, each with what it is to be multiplied by."""
    found: dict[int, list[ast.Constant]] = defaultdict(list)
    # Layers that are handed in are to go together.
    layers = (each for each in ast.walk(call) if isinstance(each, ast.Call) and _is_layer(each))
    inside = {id(each) for layer in layers for each in ast.walk(layer)}
    for each in ast.walk(call):
        if (
            isinstance(each, ast.Constant)
            and type(each.value) is int
            and each.value >= LEAST_SIZE
            and id(each) not in inside
        ):
            found[each.value].append(each)
    # Of very many no product would still be a size.
    several = (each for each in found.values() if len(each) <= len(_FACTORS))
    return [pair for each in several for pair in zip(each[1:], _FACTORS[1:], strict=False)]


def _is_layer(call: ast.Call) -> bool:
    """Whether a call makes one of torch's layers, which stands in for a part."""
    return ast.unparse(call.func).startswith("torch.nn.")


def _is_at_layer(stopped: Outcome, root: nn.Module, expression: str) -> bool:
    """Whether a trial ended in a layer of torch's, as two sizes meet there that are told apart in a construction."""
    layer = dict(root.named_modules()).get(stopped.module)
    if not type(layer).__module__.startswith("torch.nn."):
        return False
    return any(with_equal_sizes(expression, sizes) for sizes in disagreements(stopped))

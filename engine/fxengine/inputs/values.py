"""Trial runs of small models on real data: whether the values of inputs fit, which shapes do not tell."""

import contextlib
import copy
import itertools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode

from fxengine.evaluation import evaluate
from fxengine.inputs.accounts import Accounts
from fxengine.inputs.faults import is_of_layout
from fxengine.inputs.probe import (
    REAL_LIMIT,
    Outcome,
    OutOfTime,
    UntilDeadline,
    module_of,
    moments_outside,
    preserved_state,
)
from fxengine.inputs.recipes import Recipe, TensorRecipe, call_arguments, leaves
from fxengine.shapes_only import wants_gradients

__all__ = ["are_kept", "are_small", "is_never_viewed", "is_small", "run_for_values"]

_FEW_NUMBERS = 1 << 23
"""The most parameters, and elements of inputs, of a model that is run on real data to see whether values fit."""

_LONGEST_RUN = 0.5
_RUNS = 2
"""Seconds of processor time after which runs on real data are broken off; how often they are before nothing is known.

The time of the first may go by with what is no matter of the model: torch loads what it needs for the first call of a
kind, a collection of garbage goes through all that the process holds.
"""

_OF_DEVICES = re.compile(r"meta|CUDA|NVIDIA|XPU|MPS|same device")
"""What is said by code that wants a device which is not there, or not the one that all else is on."""

_OF_SPREAD = re.compile(r"(^|[._])(\w+_)?(var|variance|std)$")
"""What is called so is never negative, or else what it divides is no number: what a norm has seen."""

_CPU = torch.device("cpu")
_META = torch.device("meta")


def is_small(root: Any, recipes: Mapping[str, Recipe]) -> bool:
    """Whether a model and its inputs are so small that a run on real data costs little."""
    numbers = 0
    if isinstance(root, nn.Module):
        own = itertools.chain(root.parameters(), root.buffers())
        numbers = sum(tensor.numel() for tensor in own if not is_lazy(tensor))
    return numbers <= _FEW_NUMBERS and are_small(recipes, _FEW_NUMBERS - numbers)


def are_small(recipes: Mapping[str, Recipe], most: int = _FEW_NUMBERS) -> bool:
    """Whether inputs have so few elements that making them costs little."""
    parts = [part for name, recipe in recipes.items() for _, part in leaves(recipe, (name,))]
    return sum(part.elements for part in parts if isinstance(part, TensorRecipe)) <= most


def are_kept(recipes: Mapping[str, Recipe]) -> bool:
    """Whether each input is so small that a run without data keeps the values of it, so that they can be read."""
    parts = [part for name, recipe in recipes.items() for _, part in leaves(recipe, (name,))]
    return all(part.elements <= REAL_LIMIT for part in parts if isinstance(part, TensorRecipe))


@dataclass(frozen=True, slots=True)
class _Failure:
    """What a run raised, on which inputs, and whether gradients were kept account of."""

    error: Exception
    values: Mapping[str, Any]
    gradients: bool


class _Following(TorchFunctionMode):
    """Keeps account of what runs on real data."""

    def __init__(self, accounts: Accounts) -> None:
        super().__init__()
        self.accounts = accounts
        self.calls = 0

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        self.calls += 1
        try:
            result = func(*args, **kwargs)
        except Exception as error:  # As in a run without data.
            self.accounts.note_failure(error, func, args, kwargs)
            raise
        self.accounts.note_result(result, args, kwargs)
        return result


def run_for_values(
    root: nn.Module,
    recipes: Mapping[str, Recipe],
    positional: int,
    outcome: Outcome,
    *,
    draws: int = 1,
    smaller: Iterable[Mapping[str, Recipe]] = (),
) -> Outcome | None:
    """Run a model on real data, its weights drawn at random where it has none, and return how that failed.

    What cannot be told for want of data elsewhere in the model, or of time, counts as no failure.

    Args:
        root: The model.
        recipes: What to pass, by parameter name, in the order of the signature.
        positional: How many of them to pass by position.
        outcome: How the run without data ended.
        draws: How many times other numbers are drawn for the inputs.
        smaller: Inputs that are smaller, on which the model is run where that takes too long.
    """
    for each in itertools.chain([recipes], smaller):
        with contextlib.suppress(OutOfTime):
            return _run(root, each, positional, outcome, draws)
    return None


def _run(
    root: nn.Module, recipes: Mapping[str, Recipe], positional: int, outcome: Outcome, draws: int
) -> Outcome | None:
    """Do what `run_for_values` says with some inputs.

    Raises:
        OutOfTime: It takes too long.
    """
    generator = torch.Generator().manual_seed(0)
    state: dict[str, torch.Tensor] = {}

    def run(values: Mapping[str, Any]) -> None:
        args, kwargs = call_arguments(values, positional)
        torch.func.functional_call(root, state, args, kwargs)

    with preserved_state(root) as parts, torch.random.fork_rng(devices=[]):
        evaluate(parts)
        state |= {
            name: torch.ones_like(tensor, device=_CPU) if _OF_SPREAD.search(name) else _drawn(tensor, generator)
            for name, tensor in itertools.chain(root.named_parameters(), root.named_buffers())
            if tensor.is_meta and _is_reached(root, name)
        }
        for part in parts:
            vars(part).update(_with_data(part, generator))
        for _ in range(_RUNS):
            try:
                failure = _first_failure(run, lambda: _drawn_times(draws, recipes, generator))
            except OutOfTime:
                continue
            if failure is None or _OF_DEVICES.search(str(failure.error)):
                return None
            found = _followed(root, failure, run, outcome)
            return None if found.accepted else found
    raise OutOfTime


def _is_reached(root: nn.Module, path: str) -> bool:
    """Whether code gets at a tensor by its path: what a class has by a part's name itself hides the part."""
    owner: Any = root
    for name in path.split("."):
        owner = getattr(owner, name, None)
    return owner is not None


def _drawn_times(draws: int, recipes: Mapping[str, Recipe], generator: torch.Generator) -> Iterator[Mapping[str, Any]]:
    """Yield inputs of other numbers each time."""
    return ({name: each.make(_CPU, generator) for name, each in recipes.items()} for _ in range(draws))


def _first_failure(
    run: Callable[[Mapping[str, Any]], None], inputs: Callable[[], Iterable[Mapping[str, Any]]]
) -> _Failure | None:
    """Return how the first run fails that does, None if each of them ends well.

    Gradients are kept account of where the model asks for some, as those of an energy by where things are.

    Raises:
        OutOfTime: They take too long.
    """
    failure = None
    for gradients in (False, True):
        failure = _failure(run, inputs(), gradients=gradients)
        if failure is None or not wants_gradients(failure.error):
            break
    return failure


def _failure(
    run: Callable[[Mapping[str, Any]], None], inputs: Iterable[Mapping[str, Any]], *, gradients: bool
) -> _Failure | None:
    with torch.set_grad_enabled(gradients), UntilDeadline(time.process_time() + _LONGEST_RUN):
        for values in inputs:
            try:
                run(_copied(values))
            except Exception as error:  # noqa: BLE001 - the user's code raises whatever it likes: it is what we want to know.
                return _Failure(error, values, gradients)
    return None


def _copied(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the same values to be run on: a model may change what it is given, and is given them again."""
    try:
        return copy.deepcopy(dict(values))
    except Exception:  # noqa: BLE001 - how an object is copied is up to its class.
        return values


def is_never_viewed(root: Any, recipes: Mapping[str, Recipe], positional: int, outcome: Outcome) -> bool:
    """Whether a run that ended with a view of what cannot be viewed so ends there on real data, too.

    Without data some functions return what lies otherwise in memory. Of large models nothing is known.

    Args:
        root: The model.
        recipes: What was passed.
        positional: How many of them by position.
        outcome: How the run without data ended.
    """
    if not is_of_layout(outcome.error) or not isinstance(root, nn.Module) or not is_small(root, recipes):
        return False
    found = run_for_values(root, recipes, positional, outcome)
    return found is not None and is_of_layout(found.error)


def _followed(
    root: nn.Module, failure: _Failure, run: Callable[[Mapping[str, Any]], None], outcome: Outcome
) -> Outcome:
    """Return how a run fails, after another one of which account is kept; what was known, if that does not fail."""
    accounts = Accounts()
    following = _Following(accounts)
    error = failure.error
    for name, value in failure.values.items():
        accounts.mark_input(value, (name,))
    try:
        with torch.set_grad_enabled(failure.gradients), following:
            run(failure.values)
    except Exception as again:  # noqa: BLE001 - as above.
        error = again
    return replace(
        outcome,
        calls=max(
            outcome.calls, following.calls
        ),  # Where a run without data stopped says nothing of how far this came.
        error=error,
        operation=accounts.operation_of(error),
        module=module_of(error, root),
        moments=moments_outside(error),
        account=accounts.of,
    )


def _with_data(part: nn.Module, generator: torch.Generator) -> dict[str, Any]:
    """Return the attributes of a module that are without data, with such, and on the device that this is on."""
    kept = vars(part).items()
    tensors = {name: _drawn(each, generator) for name, each in kept if isinstance(each, Tensor) and each.is_meta}
    return {**tensors, **{name: _CPU for name, each in kept if isinstance(each, torch.device) and each == _META}}


def _drawn(tensor: Tensor, generator: torch.Generator) -> Tensor:
    """Return a real tensor like one without data: small random numbers, zeros where they are integers."""
    if not tensor.is_floating_point():
        return torch.zeros(tensor.shape, dtype=tensor.dtype)
    return (0.02 * torch.randn(tensor.shape, generator=generator)).to(tensor.dtype)

"""Which sizes did not agree where a model stopped: what another model would have to be built with for them to do so.

Inputs are repaired by what an operation wants of its arguments (``repair``). Where nothing that is put in helps, two
sizes come from the model itself, and whoever has built it may want to know which.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it.
from torch import Tensor
from torch.nn.parameter import is_lazy

from fxengine.inputs.accounts import Operation
from fxengine.inputs.probe import SPATIAL, TRANSPOSED, Outcome

__all__ = [
    "Disagreement",
    "are_of_two_sizes",
    "differ_alike",
    "differ_by_times",
    "disagreement",
    "disagreements",
    "disagreements_told",
]

Disagreement: TypeAlias = tuple[int, int]
"""The size that something had, and the one that was wanted of it."""

_PRODUCTS: Final = frozenset({
    torch.matmul, torch.bmm, torch.mm, Tensor.matmul, Tensor.__matmul__, Tensor.__rmatmul__, Tensor.bmm, Tensor.mm,
})  # fmt: skip
_BY_CHANNEL: Final = frozenset({F.batch_norm, F.group_norm, F.instance_norm})
_BY_LAST: Final = frozenset({F.layer_norm, F.rms_norm})

_OF_WEIGHT: Final = frozenset({F.linear, *SPATIAL, *_BY_LAST, *_BY_CHANNEL, *_PRODUCTS})
"""What takes one size, which another tensor decides."""

_OF_TWO: Final = re.compile(
    r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)"
    r"|Sizes of tensors must match .* Expected (?:size )?(\d+)(?: in dimension \d+)? but got (?:size )?(\d+)"
)
"""What is said of two sizes that are to be the same, of which none is that of a layer."""

_UNDIVIDED: Final = re.compile(r"can't divide axis of length (\d+) in chunks of (\d+)")
"""What einops says of a size that is to be divided."""

_TOLD: Final = (
    r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)",
    r"to have (\d+) channels, but got (\d+) channels",
    r"mat1 and mat2 shapes cannot be multiplied \(\d+x(\d+) and (\d+)x\d+\)",
    r"must have same reduction dim, but got \[\d+, (\d+)\] X \[(\d+), \d+\]",
    r"expected input with shape \[\*?,? ?(\d+)\], but got input of size ?\[(?:\d+, )*(\d+)\]",
    r"(\d+) (?:is not|must be|should be|not) (?:divisible by|a multiple of|equal to) \D{0,16}(\d+)",
    r"has size (\d+) for operand \d+ which does not broadcast with previously seen size (\d+)",
    r"[Ee]xpected [^\d\[(]{0,40}(\d+)[^\d\[(]{1,40}?(?:got|received|found|but)[^\d\[(]{1,40}?(\d+)",
)
"""What messages say of two sizes."""

_VOLUMES: Final = re.compile(r"shape '\[([-\d, ]+)\]' is invalid for input of size (\d+)")
_MOST: Final = 4


def disagreements(outcome: Outcome) -> tuple[Disagreement, ...]:
    """Return the sizes that did not agree where a trial ended, the likeliest first; none where it was about others."""
    return _kept([*(_between(outcome.operation) if outcome.operation is not None else ()), *_told(outcome.said)])


def disagreement(outcome: Outcome) -> Disagreement | None:
    """Return the sizes that did not agree where a trial ended, if these are what it was about without a doubt.

    Of values that are joined some sizes may differ, and of two that are spread over each other. A size that is to be
    divided has the last part, with what is left over, and what each part should have.
    """
    message = outcome.said
    said = _OF_TWO.search(message)
    if said is not None:
        one, other = (int(each) for each in said.groups() if each is not None)
        return one, other
    if (left_over := _UNDIVIDED.search(message)) is not None:
        size, part = map(int, left_over.groups())
        return part + size % part, part
    operation = outcome.operation
    of_weight = _kept((*_of_weight(operation), *_of_stacked(operation))) if operation is not None else ()
    return next(iter(of_weight or disagreements_told(message)), None)


def differ_alike(met: Sequence[int], other: Sequence[int]) -> bool:
    """Return whether two sizes that do not agree differ by as much elsewhere, or by as many times."""
    (one, two), (one_there, two_there) = met, other
    return one - two == one_there - two_there or one * two_there == two * one_there


def differ_by_times(met: Sequence[int], other: Sequence[int], times: int, others: int) -> bool:
    """Return whether one of two sizes is the other a number of times, and as often as another number says elsewhere.

    They agree with a single time alone, where that number is of no use: one head, one group, one step.
    """
    pairs = (met, other), (met[::-1], other[::-1])
    return times > 1 and any(one[0] * times == one[1] and two[0] * others == two[1] for one, two in pairs)


def are_of_two_sizes(message: str) -> bool:
    """Whether a message says that two sizes are to be the same of which none is that of a layer."""
    return _OF_TWO.search(message) is not None


def disagreements_told(message: str) -> tuple[Disagreement, ...]:
    """Return the sizes of which a message says that they did not agree, the likeliest first."""
    return _kept(_told(message))


def _kept(found: Iterable[Disagreement]) -> tuple[Disagreement, ...]:
    kept = dict.fromkeys((got, wanted) for got, wanted in found if got != wanted and min(got, wanted) > 0)
    return tuple(kept)[:_MOST]


def _between(operation: Operation) -> Iterator[Disagreement]:
    """Yield what an operation got and what it wanted."""
    function, tensors = operation.function, operation.tensors
    if not _has_two(operation) or function is torch.einsum:
        return  # Which dimensions go together only the equation says.
    if function in _OF_WEIGHT:
        yield from _of_weight(operation)
    else:
        yield from _broadcast(function, tensors)


def _has_two(operation: Operation) -> bool:
    """Whether an operation has two tensors with dimensions; a weight that has none yet takes whatever it is given."""
    two = operation.tensors[:2]
    return len(two) > 1 and not any(is_lazy(each) for each in two) and all(each.dim() for each in two)


def _of_weight(operation: Operation) -> Iterator[Disagreement]:
    """Yield what an operation got and what its weight, or the other factor, wanted; nothing where there is none."""
    if operation.function not in _OF_WEIGHT or not _has_two(operation):
        return
    function, (first, second, *_) = operation.function, operation.tensors
    if function in SPATIAL:
        yield from _channels(operation, first, second)
    elif function is F.linear or function in _BY_LAST:
        yield first.shape[-1], second.shape[-1]
    elif function in _BY_CHANNEL and first.dim() > 1:
        yield first.shape[1], second.shape[-1]
    elif function in _PRODUCTS and second.dim() > 1:
        yield first.shape[-1], second.shape[-2]


def _of_stacked(operation: Operation) -> Iterator[Disagreement]:
    """Yield the only size in which one of several values that are put beside each other differs from the first."""
    shapes = [each.shape for each in operation.tensors] if operation.function is torch.stack else []
    other = next((each for each in shapes if each != shapes[0]), None)
    if other is not None and len(other) == len(shapes[0]):
        differing = [(one, two) for one, two in zip(shapes[0], other, strict=True) if one != two]
        yield from differing if len(differing) == 1 else ()


def _channels(operation: Operation, given: Tensor, weight: Tensor) -> Iterator[Disagreement]:
    groups = operation.kwargs.get("groups", operation.args[6] if len(operation.args) > 6 else 1)
    transposed = operation.function in TRANSPOSED
    wanted = weight.shape[0] if transposed else weight.shape[1] * (groups if isinstance(groups, int) else 1)
    if given.dim() == weight.dim():
        yield given.shape[1], wanted


def _broadcast(function: Callable[..., Any], tensors: Sequence[Tensor]) -> Iterator[Disagreement]:
    joins = function in {torch.cat, torch.concat, torch.stack}
    for one, other in itertools.pairwise(tensors):
        for a, b in zip(reversed(one.shape), reversed(other.shape), strict=False):
            if a != b and (joins or 1 not in {a, b}):
                yield a, b


def _told(message: str) -> Iterator[Disagreement]:
    for pattern in _TOLD:
        for found in re.findall(pattern, message):
            yield int(found[0]), int(found[1])
    volumes = _VOLUMES.search(message)
    if volumes is not None:
        wanted = math.prod(abs(int(each)) for each in volumes[1].split(","))
        given = int(volumes[2])
        common = math.gcd(wanted, given) or 1
        yield given // common, wanted // common

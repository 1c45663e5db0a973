"""Whether a model goes along a dimension that no inputs have, since the code itself says how many there are."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fxengine.inputs.probe import Outcome, probe
from fxengine.inputs.recipes import Recipe, tensors_in, with_part

__all__ = ["Missing", "lacks_dimension", "missing_dimension"]

_OUT_OF_RANGE = re.compile(r"Dimension out of range \(expected to be in range of \[-(\d+), \d+\], but got (-?\d+)\)")
_OTHER_RANK = re.compile(r"expected (\d)D input \(got (\d)D input\)")
_EXPANDED = re.compile(
    r"The expanded size of the tensor .*Target sizes: \[(-1, [^\]]*)\]\.  Tensor sizes: \[([^\]]*)\]"
)
_PERMUTED = re.compile(r"permute\(.*input\.dim\(\) = (\d+) is not equal to len\(dims\) = (\d+)")
"""What is said of dimensions that are to be kept, or to be moved, and are not there."""

_OF_RANKS = re.compile(
    r"too many values to unpack|Dimension out of range|tuple index out of range"
    r"|\b\d-?D\b|\b\d-?dim|dim\(\) = \d|number of dim|invalid for input of size"
)
"""What is said where there are too many dimensions."""

_SIZE = 4
"""What is put in for each dimension that is lacking."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A dimension that is not there, and how many there would have to be beside those that are."""

    wanted: int
    lacking: int


def missing_dimension(error: BaseException | None) -> Missing | None:
    """Return the dimension that an error says is not there; None for others."""
    other = _OTHER_RANK.match(str(error)) if isinstance(error, ValueError) else None
    if other is not None and int(other[1]) > int(other[2]):
        return Missing(int(other[1]) - 1, int(other[1]) - int(other[2]))
    if isinstance(error, RuntimeError):
        return _unkept(str(error))
    found = _OUT_OF_RANGE.match(str(error)) if isinstance(error, IndexError) else None
    if found is None:
        return None
    rank, wanted = int(found[1]), int(found[2])
    return Missing(wanted, (wanted + 1 if wanted >= 0 else -wanted) - rank)


def _unkept(message: str) -> Missing | None:
    """Return the dimension that is lacking where some are to be kept as they are, or to be put into another order."""
    expanded, permuted = _EXPANDED.match(message), _PERMUTED.match(message)
    if expanded is not None:
        wanted, there = (len(each.split(", ")) for each in expanded.groups())
    elif permuted is not None:
        there, wanted = map(int, permuted.groups())
    else:
        return None
    return Missing(wanted - 1, wanted - there) if wanted > there else None


def lacks_dimension(root: Any, recipes: Mapping[str, Recipe], positional: int, outcome: Outcome, limit: float) -> bool:
    """Return whether inputs with as many more dimensions as are lacking fail no later, and since they have so many.

    Args:
        root: The model.
        recipes: What was passed to it.
        positional: How many of them by position.
        outcome: How that ended: at a dimension that is not there.
        limit: The processor time of this process at which a trial is broken off.
    """
    missing = missing_dimension(outcome.error)
    if missing is None:
        return False
    tensors = tensors_in(recipes)
    for name, place, part in tensors:
        for at in dict.fromkeys((min(1, len(part.shape)), len(part.shape))):
            longer = part.with_shape((*part.shape[:at], *(_SIZE,) * missing.lacking, *part.shape[at:]))
            changed = {**recipes, name: with_part(recipes[name], place, longer)}
            found = probe(root, changed, positional, limit)
            if found.accepted or found.calls > outcome.calls or not _OF_RANKS.search(str(found.error)):
                return False
    return bool(tensors)

"""Inputs that say how large others are: tables of heights and widths, of lengths, of places.

What code does with the numbers in such a table it does elsewhere with shapes: it goes over them, makes tensors that
large, cuts others there. A graph holds for the numbers then, as it holds for shapes. This is done only for what decided
where a capture could not go on, if its numbers are at hand, and the graph asserts them: to look at them is to run.
"""

from collections.abc import Iterable
from typing import Any, Final

from torch import Tensor

from fxengine.capturing.arguments import Leaf

__all__ = ["NUMBERS_OF", "tables_among"]

NUMBERS_OF: Final = "tolist()"
"""How a guard on the numbers in a tensor reads after the tensor's own expression."""

_MOST: Final = 16
"""The most numbers in a table: what has more is likelier to be data, such as tokens."""


def tables_among(leaves: Iterable[Leaf], wanted: int) -> int:
    """Return those inputs whose numbers may be taken for known, as bits, of the ones that `wanted` says as bits."""
    return sum(1 << index for index, leaf in enumerate(leaves) if wanted >> index & 1 and _is_table(leaf.value))


def _is_table(value: Any) -> bool:
    """Whether a value is a tensor of several whole numbers, and no more than a table has, that are at hand."""
    if not isinstance(value, Tensor) or value.is_meta or value.is_floating_point() or value.is_complex():
        return False
    return value.dim() > 0 and 1 < value.numel() <= _MOST

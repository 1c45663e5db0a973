"""How large the integers are that a trial looks things up with: tensors without data do not tell.

Followed are integers of the inputs that are only laid out otherwise or cut, and those to which a number is added: as
zero may stand for what fills up, there is one more in the table than there are numbers to look up. What any numbers are
rounded to is mostly no place in a table: some are negative.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it.
from torch import Tensor

from fxengine.inputs.accounts import Accounts, Sources
from fxengine.inputs.recipes import Recipe, TensorRecipe

__all__ = ["Indices"]

_SUMS: Final = frozenset({torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__, Tensor.add_, Tensor.__iadd__})

_LAID_OUT: Final = frozenset({
    Tensor.__getitem__, Tensor.view, Tensor.reshape, torch.reshape, Tensor.flatten, torch.flatten, Tensor.unsqueeze,
    torch.unsqueeze, Tensor.squeeze, torch.squeeze, Tensor.transpose, torch.transpose, Tensor.permute, torch.permute,
    Tensor.expand, Tensor.repeat, Tensor.contiguous, Tensor.clone, torch.clone, Tensor.long, Tensor.int, Tensor.to,
    Tensor.masked_fill, torch.masked_fill, F.pad, Tensor.detach, Tensor.narrow, Tensor.t, Tensor.repeat_interleave,
    Tensor.split, torch.split, Tensor.chunk, torch.chunk, Tensor.unbind, torch.unbind,
})  # fmt: skip
"""What leaves each number as it is, or puts a small one in its place."""

_SCALED: Final = frozenset({
    Tensor.__mul__, Tensor.__rmul__, Tensor.mul, torch.mul, Tensor.__truediv__, Tensor.div, torch.div, Tensor.round,
    torch.round, Tensor.floor, torch.floor, Tensor.ceil, torch.ceil, Tensor.__sub__, Tensor.sub, torch.sub,
    Tensor.__add__, Tensor.__radd__, Tensor.add, torch.add,
})  # fmt: skip
"""What makes of any numbers any others, on the way to places in a table: `torch.round(share * 100).long()`."""

_WHOLE: Final = frozenset({torch.int64, torch.int32, torch.int16, torch.int8})

_FEW: Final = 2
"""As large as what is added to integers that a model keeps, and which nobody knows without data, fits most likely."""


_MOST_PARTS: Final = 64
"""Of how many parts of a tensor that is taken apart one knows what they are: it may have any number of rows."""


class Indices:
    """Knows how large integers are that come from the inputs of one run. Mutable: it grows with the run."""

    def __init__(self, accounts: Accounts, recipes: Mapping[str, Recipe], values: Mapping[str, Any]) -> None:
        """Note how large the integers are that tensors without data stand for.

        Args:
            accounts: Knows what comes from which input, and keeps it.
            recipes: How the inputs are made.
            values: The inputs.
        """
        self._accounts = accounts
        self._highs: dict[int, int] = {}
        self._limits: dict[Sources, int] = {}
        self._shifted: dict[int, Any] = {}
        self._fractions: set[int] = set()
        self._rounded: set[int] = set()
        for name, recipe in recipes.items():
            if isinstance(recipe, TensorRecipe) and recipe.fill == "integers":
                self._highs[id(values[name])] = recipe.high
                self._limits[frozenset({(name,)})] = recipe.high
            elif isinstance(recipe, TensorRecipe) and recipe.fill == "normal":
                self._fractions.add(id(values[name]))

    def are_given(self, indices: Any) -> bool:
        """Whether integers are an input as it is; what was computed is as large as data make it."""
        return id(indices) in self._highs

    def are_rounded(self, indices: Any) -> bool:
        """Whether integers are what any numbers are rounded to."""
        return id(indices) in self._rounded

    def look_up(self, indices: Any, table: Any) -> None:
        """Raise what a lookup on real data raises where the integers are larger than the table.

        Raises:
            IndexError: They are.
        """
        high = self._highs.get(id(indices), 0)
        if id(indices) in self._shifted and self._limits.get(self._accounts.of(indices), 0) > _FEW:
            high = sys.maxsize
        if isinstance(table, Tensor) and high > table.shape[0]:
            raise IndexError("index out of range in self")

    def pick(self, whole: Tensor, index: Any) -> None:
        """Raise what picking rows out of a tensor raises on real data where there are not so many: `table[steps]`.

        Raises:
            IndexError: There are not.
        """
        parts = index if isinstance(index, tuple) else (index,)
        for dimension, part in enumerate(parts):
            if part is None or part is Ellipsis or (isinstance(part, Tensor) and part.dtype is torch.bool):
                return
            high = self._highs.get(id(part), 0) or _needed(part)
            if dimension < whole.dim() and high > whole.shape[dimension]:
                size = whole.shape[dimension]
                raise IndexError(f"index {high - 1} is out of bounds for dimension {dimension} with size {size}")

    def note_result(self, func: Callable[..., Any], args: tuple[Any, ...], result: Any) -> None:
        """Note what a call has made of integers, or of what it rounds to such."""
        for part in result[:_MOST_PARTS] if isinstance(result, tuple | list) else ():
            self.note_result(func, args, part)
        if not isinstance(result, Tensor) or not args:
            return
        is_followed = func in _LAID_OUT or func in _SCALED
        if is_followed and (id(args[0]) in self._fractions or id(args[0]) in self._rounded):
            (self._fractions if result.is_floating_point() else self._rounded).add(id(result))
        if result.is_floating_point():
            return
        if func in _SUMS and self._is_shifted(*args[:2]):
            self._shifted[id(result)] = result
        high = self._highs.get(id(args[0]))
        if high is None or result.dtype is torch.bool:
            return
        if func in _LAID_OUT:
            self._highs[id(result)] = high
        elif func in _SUMS and len(args) > 1 and type(args[1]) is int:
            self._highs[id(result)] = high + args[1]

    def _is_shifted(self, *terms: Any) -> bool:
        """Whether integers of an input are added to such as the model keeps: where what is of each column begins."""
        are_whole = all(isinstance(each, Tensor) and each.dim() and not each.is_floating_point() for each in terms)
        return are_whole and len(terms) == 2 and sum(bool(self._accounts.of(each)) for each in terms) == 1


def _needed(rows: Any) -> int:
    """Return how many rows there have to be for some that are listed by their numbers; 0 for another index."""
    if isinstance(rows, list) or (hasattr(rows, "__array_interface__") and not isinstance(rows, Tensor)):
        try:
            rows = torch.as_tensor(rows, device="cpu")
        except (TypeError, ValueError, RuntimeError):
            return 0
    is_listed = isinstance(rows, Tensor) and not rows.is_meta and rows.dtype in _WHOLE and rows.numel() > 0
    return max(int(rows.max()) + 1, -int(rows.min())) if is_listed else 0

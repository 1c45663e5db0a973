"""What kernels for data refuse of dimensions and indices, and those for meta tensors do not."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it.
from torch import Tensor
from torch.utils import _pytree as pytree

_CHOOSING = frozenset({torch.int64, torch.int32, torch.uint8, torch.bool})
"""The types of tensors that say which items there are."""


def _check_grid(*args: Any, **_kwargs: Any) -> None:
    """Raise what `meshgrid` raises on real data; its own message shows the data, which are missing here.

    Raises:
        RuntimeError: A tensor has more than one dimension.
    """
    ranks = [value.dim() for value in pytree.tree_leaves(args) if isinstance(value, Tensor)]
    if max(ranks, default=0) > 1:
        raise RuntimeError(f"torch.meshgrid: Expected 0 or 1-dim tensors, but got one of rank {max(ranks)}")


def _check_dimension(x: Any = None, dim: Any = None, *_args: Any, **_kwargs: Any) -> None:
    """Raise what torch raises on real data where there is no such dimension; its kernel without data does not look.

    Raises:
        IndexError: There is none.
    """
    count = max(x.dim(), 1) if isinstance(x, Tensor) else 0
    if type(dim) is int and count and not -count <= dim < count:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-count}, {count - 1}], but got {dim})")


def _check_normalized(x: Any = None, _p: Any = 2.0, dim: Any = 1, *_args: Any, **_kwargs: Any) -> None:
    """Raise what `normalize` raises on real data.

    Raises:
        IndexError: There is no such dimension.
    """
    _check_dimension(x, dim)


def _check_index(x: Tensor, index: Any, _value: Any) -> None:
    """Raise what torch raises on real data for the tensors of an index; what sets items without data does not look.

    Raises:
        IndexError: One does not say which items there are, or a mask is not of the sizes that it chooses from.
    """
    items = index if isinstance(index, tuple) else (index,)
    if any(isinstance(each, Tensor) and each.dtype not in _CHOOSING for each in items):
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    count = sum(each.dim() if _is_mask(each) else _takes_one(each) for each in items)
    if count > x.dim():
        raise IndexError(f"too many indices for tensor of dimension {x.dim()}")
    # What is no tensor chooses first.
    shape, masks, left = list[int](), list[tuple[int, Tensor]](), list(x.shape)
    for each in items:
        taken = x.dim() - count if each is ... else each.dim() if _is_mask(each) else int(_takes_one(each))
        sizes, left = left[:taken], left[taken:]
        if _is_mask(each):
            masks.append((len(shape), each))
        shape += _chosen(each, sizes)
    shape += left
    for place, mask in masks:
        for at, size in enumerate(mask.shape):
            if size != shape[place + at]:
                raise IndexError(
                    f"The shape of the mask {list(mask.shape)} at index {at} does not match the shape of the "
                    f"indexed tensor {shape} at index {place + at}"
                )


def _is_mask(item: Any) -> bool:
    return isinstance(item, Tensor) and item.dtype is torch.bool


def _takes_one(item: Any) -> bool:
    """Whether an item of an index that is no mask is of a dimension of what is indexed."""
    return not (item is None or item is ... or isinstance(item, bool))


def _chosen(item: Any, sizes: list[int]) -> list[int]:
    """Return what an item of an index leaves of the sizes that it takes, before its tensors choose."""
    match item:
        case None | bool():
            return [1]
        case int():
            return []
        case slice(start=int() | None, stop=int() | None, step=int() | None):
            return [len(range(*item.indices(sizes[0])))]
        case _:
            return sizes


REFUSALS: Final[Mapping[Callable[..., Any], Callable[..., None]]] = {
    torch.meshgrid: _check_grid,
    F.normalize: _check_normalized,
    Tensor.__setitem__: _check_index,
    **dict.fromkeys(
        (F.softmax, F.log_softmax, torch.softmax, torch.log_softmax, Tensor.softmax, Tensor.log_softmax),
        _check_dimension,
    ),
}
"""What looks at the arguments of a function before it is called."""

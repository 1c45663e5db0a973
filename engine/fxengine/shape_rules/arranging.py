"""Rules of what puts numbers into other places: joining, indexing, shifting."""

from typing import Any

import torch
from torch import Tensor

from fxengine.shape_rules.shapes import broadcast, fits, new


def cat(tensors: Any, dim: Any = 0, *args: Any, **kwargs: Any) -> Tensor | None:
    """Tensors of one type, end to end."""
    if (
        args
        or kwargs
        or not isinstance(dim, int)
        or not _alike(tensors)
        or not -tensors[0].dim() <= dim < tensors[0].dim()
    ):
        return None
    first = tensors[0]
    dim %= first.dim()
    for other in tensors[1:]:
        if (*other.shape[:dim], *other.shape[dim + 1 :]) != (*first.shape[:dim], *first.shape[dim + 1 :]):
            return None
    total = sum(tensor.shape[dim] for tensor in tensors)
    return new(first, (*first.shape[:dim], total, *first.shape[dim + 1 :]))


def stack(tensors: Any, dim: Any = 0, *args: Any, **kwargs: Any) -> Tensor | None:
    """Tensors of one type and shape, along a dimension of their own."""
    if args or kwargs or not isinstance(dim, int) or not _alike(tensors):
        return None
    first = tensors[0]
    if any(other.shape != first.shape for other in tensors[1:]) or not -first.dim() - 1 <= dim <= first.dim():
        return None
    dim %= first.dim() + 1
    return new(first, (*first.shape[:dim], len(tensors), *first.shape[dim:]))


def _alike(tensors: Any) -> bool:
    """Whether these are tensors of one type and rank, and there is at least one."""
    if not isinstance(tensors, list | tuple) or not tensors or not isinstance(tensors[0], Tensor):
        return False
    first = tensors[0]
    return first.dim() > 0 and all(
        isinstance(other, Tensor) and other.dtype is first.dtype and other.dim() == first.dim() for other in tensors
    )


def triangle(x: Tensor, diagonal: Any = 0) -> Tensor | None:
    """Matrices, of which a part becomes zero."""
    return new(x, x.shape) if type(diagonal) is int and x.dim() > 1 and x.is_contiguous() else None


def with_places(index: Any) -> Any:
    """An index with the first place for each tensor of one whole number: whichever it says, it is a part of that size.

    torch takes such a part, as for a number of Python's, and looks at the data for that.
    """
    return tuple(map(with_places, index)) if type(index) is tuple else 0 if _is_number(index) else index


def _is_number(index: Any) -> bool:
    """Whether an index is one whole number in a tensor without data."""
    if not isinstance(index, Tensor) or index.dim() or not index.is_meta:
        return False
    return index.dtype not in {torch.bool, torch.uint8} and not index.is_floating_point() and not index.is_complex()


def indexed(x: Tensor, index: Any) -> Tensor | None:
    """The items of a tensor at places that whole numbers say, with whole dimensions among them."""
    parts = index if isinstance(index, tuple) else (index,)
    if any(map(_is_number, parts)):
        return x[with_places(parts)]
    places = [place for place, each in enumerate(parts) if isinstance(each, Tensor)]
    if not places or len(parts) > x.dim() or 0 in x.shape:
        return None
    shape: tuple[int, ...] = ()
    for place, each in enumerate(parts):
        if place in places:
            if each.dtype is not torch.int64 or not (fits(each.shape, shape) or fits(shape, each.shape)):
                return None
            shape = broadcast(each.shape, shape)
        elif not (isinstance(each, slice) and each == slice(None)):
            return None
    sizes = [size for place, size in enumerate(x.shape) if place not in places]
    # Where they do not stand side by side, what is chosen comes first.
    begin = places[0] if places[-1] - places[0] == len(places) - 1 else 0
    # The order in memory is torch's own matter for several dimensions.
    return new(x, (*sizes[:begin], *shape, *sizes[begin:])) if x.is_contiguous() and len(shape) > 0 else None

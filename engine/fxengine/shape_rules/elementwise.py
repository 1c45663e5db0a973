"""Rules of what is done with each number, with two that stand in the same place, or with all along a dimension."""

from typing import Any

import torch
from torch import Tensor

from fxengine.shape_rules.shapes import broadcast, fits, new


def elementwise(x: Any, *args: Any, **kwargs: Any) -> Tensor | None:
    """One floating point tensor in, one like it out, or the same where it is changed in place."""
    if not isinstance(x, Tensor) or not x.is_floating_point() or "out" in kwargs or "dtype" in kwargs:
        return None
    if args and args[-1] is True:  # May mean `inplace`.
        return None
    return x if kwargs.get("inplace") else x.clone()


def dropout(x: Any, p: float = 0.5, training: bool = True, inplace: bool = False, **kwargs: Any) -> Tensor | None:
    """One floating point tensor in, one like it out, and the same where nothing is dropped."""
    if not isinstance(x, Tensor) or not x.is_floating_point() or kwargs or not 0 <= p <= 1:
        return None
    return x.clone() if training and not inplace else x


def arithmetic(x: Any, y: Any, *args: Any, **kwargs: Any) -> Tensor | None:
    """Two operands of one floating point type that broadcast to one another."""
    if args or kwargs:
        return None
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        if x.dtype is not y.dtype or not x.is_floating_point():
            return None
        if fits(y.shape, x.shape):
            return x.clone()
        if fits(x.shape, y.shape):
            return y.clone()
        shape = broadcast(x.shape, y.shape)
        return new(x, shape) if x.is_contiguous() and y.is_contiguous() else None
    tensor, number = (x, y) if isinstance(x, Tensor) else (y, x)
    return tensor.clone() if type(number) in {int, float} and tensor.is_floating_point() else None


def comparison(x: Any, y: Any, *args: Any, **kwargs: Any) -> Tensor | None:
    """A tensor of numbers and a number, or another that broadcasts to it."""
    if args or kwargs or not isinstance(x, Tensor) or x.dtype is torch.bool:
        return None
    if type(y) in {int, float} or (isinstance(y, Tensor) and fits(y.shape, x.shape)):
        return x.to(torch.bool)
    return None


def masked_fill(x: Any, mask: Any, value: Any) -> Tensor | None:
    """A number in the places that a mask of truth values says."""
    if isinstance(mask, Tensor) and mask.dtype is torch.bool and fits(mask.shape, x.shape):
        return x.clone() if type(value) is float and x.is_floating_point() else None
    return None


def with_numbers(x: Any, *args: Any, **kwargs: Any) -> Tensor | None:
    """One floating point tensor in and numbers, one like it out."""
    if not isinstance(x, Tensor) or not x.is_floating_point() or not {*kwargs} <= {"min", "max", "exponent"}:
        return None
    numbers = [each for each in (*args, *kwargs.values()) if each is not None]
    return x.clone() if numbers and all(type(each) in {int, float} for each in numbers) else None


def softmax(x: Any, dim: Any = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor | None:
    """One floating point tensor in, one of its shape out, in the usual order in memory."""
    if not isinstance(x, Tensor) or not x.is_floating_point() or dtype not in {None, x.dtype}:
        return None
    return new(x, x.shape) if type(dim) is int and -x.dim() <= dim < x.dim() else None


def reduction(x: Tensor, dim: Any = None, keepdim: Any = False, **kwargs: Any) -> Tensor | None:
    """One floating point number for all along one dimension, along several, or of all."""
    return _reduced(x, dim, keepdim) if not kwargs and x.is_floating_point() else None


def _reduced(x: Tensor, dim: Any, keepdim: Any) -> Tensor | None:
    """One of what a tensor holds for all along one dimension, along several, or of all."""
    count = x.dim()
    dims = range(count) if dim is None else (dim,) if type(dim) is int else dim
    if type(keepdim) is not bool or not isinstance(dims, range | tuple | list):
        return None
    if not all(type(each) is int and -count <= each < count for each in dims):
        return None
    gone = {each % count for each in dims}
    if not gone or len(gone) != len(dims):
        return None
    kept = [1 if place in gone else size for place, size in enumerate(x.shape) if keepdim or place not in gone]
    return new(x, kept)


def truth(x: Any, *args: Any, **kwargs: Any) -> Tensor | None:
    """One tensor in, one of truth values out: what is asked of each number by itself."""
    return new(x, x.shape, torch.bool) if not args and not kwargs and x.is_contiguous() else None


def junction(x: Any, y: Any, *args: Any, **kwargs: Any) -> Tensor | None:
    """Two tensors of truth values in, one out."""
    if args or kwargs or not isinstance(x, Tensor) or not isinstance(y, Tensor):
        return None
    if x.dtype is not torch.bool or y.dtype is not torch.bool or not (x.is_contiguous() and y.is_contiguous()):
        return None
    return new(x, broadcast(x.shape, y.shape))


def choice(condition: Any, x: Any, y: Any) -> Tensor | None:
    """The numbers of one tensor or of another of its type, or a number, chosen by truth values."""
    tensors = [each for each in (condition, x, y) if isinstance(each, Tensor)]
    numbers = [each for each in (x, y) if not isinstance(each, Tensor)]
    if not isinstance(condition, Tensor) or condition.dtype is not torch.bool or len(tensors) < 2:
        return None
    like = tensors[-1]
    if any(each.dtype is not like.dtype for each in tensors[1:]) or not like.is_floating_point():
        return None
    if not all(type(each) in {int, float} for each in numbers) or not all(each.is_contiguous() for each in tensors):
        return None
    shape: tuple[int, ...] = ()
    for each in tensors:
        shape = broadcast(each.shape, shape)
    return new(like, shape)


def floored(x: Any, y: Any, *args: Any, **kwargs: Any) -> Tensor | None:
    """A division that is rounded, or what it leaves: of one tensor by a number, whose type and shape stay."""
    if args or kwargs or not isinstance(x, Tensor) or x.dtype is torch.bool or x.is_complex():
        return None
    fits_in = type(y) is int or (type(y) is float and x.is_floating_point())
    return x.clone() if fits_in and y else None


def running(x: Any, dim: Any, *args: Any, **kwargs: Any) -> Tensor | None:
    """What is computed of all numbers before each one along a dimension."""
    if args or kwargs or not x.is_floating_point() or type(dim) is not int or not -x.dim() <= dim < x.dim():
        return None
    return new(x, x.shape) if x.is_contiguous() else None


def log_sum_exp(x: Tensor, dim: Any, keepdim: Any = False, **kwargs: Any) -> Tensor | None:
    """As other reductions, but a dimension has to be said."""
    return reduction(x, dim, keepdim, **kwargs) if dim is not None else None


def norm(x: Tensor, p: Any = "fro", dim: Any = None, keepdim: Any = False, **kwargs: Any) -> Tensor | None:
    """The length of vectors along dimensions; norms of matrices are left to torch."""
    if p not in {"fro", None} and type(p) not in {int, float}:
        return None
    return reduction(x, dim, keepdim, **kwargs)


def vector_norm(x: Tensor, ord: Any = 2, dim: Any = None, keepdim: Any = False, **kwargs: Any) -> Tensor | None:  # noqa: A002 - torch's name.
    """The length of vectors along dimensions."""
    return norm(x, ord, dim, keepdim, **kwargs) if type(ord) in {int, float} else None


def any_or_all(x: Tensor, dim: Any = None, keepdim: Any = False, **kwargs: Any) -> Tensor | None:
    """Whether any or all of some truth values hold."""
    return _reduced(x, dim, keepdim) if not kwargs and x.dtype is torch.bool else None


def gated(x: Tensor, dim: Any = -1) -> Tensor | None:
    """Half of a tensor, weighted by the other half."""
    if type(dim) is not int or not -x.dim() <= dim < x.dim() or x.shape[dim] % 2:
        return None
    if not x.is_floating_point() or not x.is_contiguous():
        return None
    return new(x, [size // 2 if place == dim % x.dim() else size for place, size in enumerate(x.shape)])

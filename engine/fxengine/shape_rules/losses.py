"""Rules of losses and distances, and of how they change with what they are computed from."""

from typing import Any

import torch
from torch import Tensor

from fxengine.shape_rules.shapes import broadcast, new


def gradients(outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """How something changes with each of several tensors: for each as many numbers as it has."""
    del outputs, args, kwargs
    return tuple(torch.empty_like(each, device="meta") for each in ([inputs] if isinstance(inputs, Tensor) else inputs))


def ctc_loss(
    x: Tensor,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor | None:
    """A number for each sequence of a batch, or one for all."""
    del targets, input_lengths, target_lengths, blank, zero_infinity
    if reduction not in {"none", "mean", "sum"} or x.dim() not in {2, 3} or not x.is_floating_point():
        return None
    return new(x, (x.shape[1],) if reduction == "none" and x.dim() == 3 else ())


def loss(x: Any, target: Any, *args: Any, **kwargs: Any) -> Tensor | None:
    """How far numbers are from others of their shape: of each, or one number for all."""
    if args or not {*kwargs} <= {"reduction", "beta", "delta", "log_target"} or not isinstance(target, Tensor):
        return None
    reduced = kwargs.get("reduction", "mean")
    if x.shape != target.shape or x.dtype is not target.dtype or not x.is_floating_point():
        return None
    if reduced not in {"none", "mean", "sum"} or not (x.is_contiguous() and target.is_contiguous()):
        return None
    return new(x, x.shape if reduced == "none" else ())


def cosine_similarity(x: Tensor, y: Any, dim: Any = 1, eps: Any = 1e-8) -> Tensor | None:
    """The angle between vectors along a dimension."""
    del eps
    if not isinstance(y, Tensor) or x.dtype is not y.dtype or not x.is_floating_point() or type(dim) is not int:
        return None
    shape = broadcast(x.shape, y.shape)
    if not -len(shape) <= dim < len(shape):
        return None
    return new(x, [size for place, size in enumerate(shape) if place != dim % len(shape)])


def class_loss(
    x: Tensor,
    target: Any,
    weight: Any = None,
    ignore_index: Any = -100,
    reduction: Any = "mean",
    label_smoothing: Any = 0.0,
) -> Tensor | None:
    """How probable the right classes are, of which each example has one: of each, or one number for all."""
    del ignore_index, label_smoothing
    if x.dim() < 2 or target.dtype is not torch.int64 or not x.is_floating_point() or weight is not None:
        return None
    if (x.shape[0], *x.shape[2:]) != tuple(target.shape) or not target.is_contiguous():
        return None
    return new(x, target.shape if reduction == "none" else ()) if reduction in {"none", "mean", "sum"} else None

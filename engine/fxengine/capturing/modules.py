"""What torch's own modules make of shapes, in a few Python steps; torch's meta kernels of convolutions are slow.

A rule gets the module and the values of its arguments, all without data, and returns None where it is in doubt: then
the module runs.
"""

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor, nn

__all__ = ["MODULE_RULES"]


def _new(like: Tensor, shape: tuple[int, ...]) -> Tensor:
    return torch.empty(shape, dtype=like.dtype, device="meta")


def _convolution(module: Any, x: Tensor, *rest: Any) -> Tensor | None:
    """A convolution of a batch, with numbers for its padding."""
    spatial = len(module.kernel_size)
    shape = x.shape
    if rest or len(shape) != spatial + 2 or shape[1] != module.in_channels or x.dtype is not module.weight.dtype:
        return None
    if type(module.padding) is str:
        if module.padding == "same":
            return _new(x, (shape[0], module.out_channels, *shape[2:]))
        padding: tuple[int, ...] = (0,) * spatial
    else:
        padding = module.padding
    if any(len(each) != spatial for each in (module.stride, padding, module.dilation)):
        return None  # One number in a list stands for all dimensions.
    sizes = [shape[0], module.out_channels]
    for size, kernel, stride, pad, dilation in zip(
        shape[2:], module.kernel_size, module.stride, padding, module.dilation, strict=True
    ):
        out = (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
        if out <= 0:
            return None
        sizes.append(out)
    return _new(x, tuple(sizes))


def _linear(module: Any, x: Tensor, *rest: Any) -> Tensor | None:
    shape = x.shape
    if rest or not shape or shape[-1] != module.in_features or x.dtype is not module.weight.dtype:
        return None
    return _new(x, (*shape[:-1], module.out_features))


def _batch_norm_of(dims: int) -> Callable[..., Tensor | None]:
    def rule(module: Any, x: Tensor, *rest: Any) -> Tensor | None:
        if rest or x.dim() != dims or x.shape[1] != module.num_features or not x.is_floating_point():
            return None
        if module.weight is not None and module.weight.dtype is not x.dtype:
            return None
        return None if module.training and x.numel() <= x.shape[1] else x.clone()

    return rule


def _layer_norm(module: Any, x: Tensor, *rest: Any) -> Tensor | None:
    tail = module.normalized_shape
    if rest or tuple(x.shape[-len(tail) :]) != tuple(tail) or not x.is_floating_point():
        return None
    if module.weight is not None and module.weight.dtype is not x.dtype:
        return None
    return _new(x, tuple(x.shape))


def _activation(module: Any, x: Tensor, *rest: Any) -> Tensor | None:
    if rest or not x.is_floating_point():
        return None
    return x if getattr(module, "inplace", False) else x.clone()


def _dropout(module: Any, x: Tensor, *rest: Any) -> Tensor | None:
    if rest:
        return None
    return x.clone() if module.training and not module.inplace else x


def _identity(_: Any, x: Any, *rest: Any) -> Any:
    return None if rest else x


def _embedding(module: Any, x: Tensor, *rest: Any) -> Tensor | None:
    if rest or x.dtype not in {torch.int64, torch.int32}:
        return None
    return torch.empty((*x.shape, module.embedding_dim), dtype=module.weight.dtype, device="meta")


def _flatten(module: Any, x: Tensor, *rest: Any) -> Tensor | None:
    return None if rest else x.flatten(module.start_dim, module.end_dim)


MODULE_RULES: Final[dict[type[nn.Module], Callable[..., Any]]] = {
    nn.Conv1d: _convolution,
    nn.Conv2d: _convolution,
    nn.Conv3d: _convolution,
    nn.Linear: _linear,
    nn.BatchNorm2d: _batch_norm_of(4),
    nn.BatchNorm3d: _batch_norm_of(5),
    nn.LayerNorm: _layer_norm,
    **dict.fromkeys(
        (nn.ReLU, nn.ReLU6, nn.GELU, nn.SiLU, nn.Mish, nn.ELU, nn.LeakyReLU, nn.Sigmoid, nn.Tanh, nn.Hardswish,
         nn.Hardsigmoid, nn.Softmax, nn.Softplus),
        _activation,
    ),
    **dict.fromkeys((nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d), _dropout),
    nn.Identity: _identity,
    nn.Embedding: _embedding,
    nn.Flatten: _flatten,
}  # fmt: skip
"""The rule of each type of module; subclasses of these types have none."""

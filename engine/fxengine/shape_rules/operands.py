"""What kernels for data refuse and those for meta tensors do not."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it.
from torch import Tensor


def check_types(function: Callable[..., Any], args: Sequence[Any]) -> None:
    """Raise where kernels for data refuse operands and those for meta tensors do not.

    Raises:
        RuntimeError: Two operands should have one type, or as many channels.
        NotImplementedError: There is no kernel for integers.
    """
    name = _NEEDS_FLOATS.get(function)
    if name is not None and args and isinstance(args[0], Tensor) and not _is_inexact(args[0]):
        raise NotImplementedError(f"{name!r} not implemented for {str(args[0].dtype).removeprefix('torch.')!r}")
    if function not in _NEEDS_ONE_TYPE or len(args) < 2 or torch._C._is_any_autocast_enabled():
        return
    first, second = args[:2]
    if isinstance(first, Tensor) and isinstance(second, Tensor) and first.dtype is not second.dtype:
        raise RuntimeError(f"expected both operands to have the same dtype, but got {first.dtype} and {second.dtype}")
    if function in _TRANSPOSED and second.dim() - first.dim() in {0, 1}:
        shape = [1] * (second.dim() - first.dim()) + list(first.shape)
        if shape[1] != second.shape[0]:
            raise RuntimeError(
                f"Given transposed=1, weight of size {list(second.shape)}, expected input{shape} to have "
                f"{second.shape[0]} channels, but got {shape[1]} channels instead"
            )


def _is_inexact(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


_TRANSPOSED = frozenset({F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d})  # fmt: skip
_NEEDS_ONE_TYPE = frozenset({
    F.linear, F.conv1d, F.conv2d, F.conv3d, F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d, torch.conv1d,
    torch.conv2d, torch.conv3d, torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, torch.mm,
    F.scaled_dot_product_attention,
})  # fmt: skip
_NEEDS_FLOATS = {
    function: function.__name__
    for function in (
        F.layer_norm, F.rms_norm, F.group_norm, F.batch_norm, F.instance_norm, F.gelu, F.silu, F.softmax, F.mse_loss,
        F.adaptive_avg_pool2d, F.avg_pool2d,
    )
}  # fmt: skip

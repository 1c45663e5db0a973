"""Leaving tensors on the processor that code wants to have on an accelerator: a trace needs none.

The mode stands here, as what an exception has passed through in the engine is not taken for the user's code.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode

__all__ = ["BETWEEN", "MOVING", "OnTheSpot", "is_accelerator", "staying"]

MOVING: Final = frozenset(
    getattr(torch.Tensor, name) for name in ("cuda", "xpu", "hpu", "ipu", "pin_memory") if hasattr(torch.Tensor, name)
)
"""Methods that move a tensor to where there need be nothing."""


class OnTheSpot(TorchFunctionMode):
    """Leaves tensors on the processor that code wants to have on an accelerator."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call `func` without the device; what is symbolic is recorded as it is written."""
        named = dict(kwargs or {})
        if not all(issubclass(each, torch.Tensor) for each in types):
            return func(*args, **named)
        if func in MOVING:
            return args[0]
        if func is torch.Tensor.to:
            args = staying(args, named)
            return func(*args, **named) if args[1:] or named else args[0]
        if is_accelerator(named.get("device")):
            del named["device"]
        return func(*args, **named)


BETWEEN: Final = OnTheSpot.__torch_function__.__code__
"""What stands between the user's code and the functions of torch that it calls, on behalf of the former."""


def staying(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Return the arguments of `Tensor.to` without the device, if the tensor is on meta or that is an accelerator."""
    if args[0].is_meta or is_accelerator(kwargs.get("device")) or any(map(is_accelerator, args[1:2])):
        kwargs.pop("device", None)
        return (args[0], *(each for each in args[1:] if not isinstance(each, str | int | torch.device)))
    return args


def is_accelerator(device: Any) -> bool:
    """Whether what is given as a device is an accelerator, by its name, its number or itself."""
    if type(device) is int:
        return True
    name = device.type if isinstance(device, torch.device) else device
    return isinstance(name, str) and name.partition(":")[0] not in {"cpu", "meta"}

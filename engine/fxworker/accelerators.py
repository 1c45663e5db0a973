"""Models without a device: what their code asks of an accelerator, or of other processes, has an answer.

A model's tensors are made without one, and no trace needs any, so that it matters to nobody that there is none. Code
that asks whether there is one, or whether there are other processes, hears the truth, unless it raises then.
"""

import contextlib
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from types import FrameType
from typing import Any, Final

import torch
from torch import distributed
from torch.overrides import TorchFunctionMode

_TYPES: Final = ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool")


class Idle:
    """A stream of an accelerator, or an event in one: whatever it has to wait for is done."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        self.device = torch.device("cpu")

    def done(self, *_args: Any, **_kwargs: Any) -> bool:
        """Return that nothing is left to do."""
        return True

    wait = wait_stream = wait_event = synchronize = record = record_event = record_stream = query = done

    def elapsed_time(self, _end: Any) -> float:
        """Return that it took no time."""
        return 0.0


def _giving(value: Any) -> Callable[..., Any]:
    return lambda *_args, **_kwargs: value


def _idle_stream(*_args: Any, **_kwargs: Any) -> Idle:
    return Idle()


_OF_ACCELERATORS: Final[dict[str, Any]] = {
    "Stream": Idle,
    "Event": Idle,
    "current_stream": _idle_stream,
    "default_stream": _idle_stream,
    "current_device": _giving(0),
    "set_device": _giving(None),
    "synchronize": _giving(None),
    "get_device_capability": _giving((8, 0)),
    "get_device_name": _giving(""),
    **{f"{each}Tensor": getattr(torch, f"{each}Tensor") for each in _TYPES},
}

_OF_PROCESSES: Final[dict[str, Any]] = {
    "get_rank": _giving(0),
    "get_world_size": _giving(1),
    "barrier": _giving(None),
}


@contextlib.contextmanager
def without_devices(is_asserted: Callable[[FrameType], bool]) -> Generator[None]:
    """Let the body be executed as if the device and the process that it runs in were the only ones.

    Args:
        is_asserted: Whether a frame raises unless what it asks right now is so.
    """
    alone = not (distributed.is_available() and distributed.is_initialized())
    has_one = torch.cuda.is_available
    there = {"is_available": lambda: has_one() or is_asserted(sys._getframe(1))}
    places: list[tuple[Any, dict[str, Any]]] = [(torch.cuda, {**_OF_ACCELERATORS, **there})]
    if distributed.is_available() and alone:
        asked = {"is_initialized": lambda: is_asserted(sys._getframe(1))}
        places.append((distributed, {**_OF_PROCESSES, **asked}))
    before = [(place, name, getattr(place, name)) for place, values in places for name in values]
    try:
        for place, values in places:
            vars(place).update(values)
        yield
    finally:
        for place, name, value in before:
            setattr(place, name, value)


class OnTheSpot(TorchFunctionMode):
    """Leaves tensors on the processor that code wants to have on an accelerator."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call `func` without the device."""
        if func in MOVING:
            return args[0]
        named = dict(kwargs or {})
        if func is torch.Tensor.to:
            args = staying(args, named)
            return func(*args, **named) if args[1:] or named else args[0]
        if is_accelerator(named.get("device")):
            del named["device"]
        return func(*args, **named)


MOVING: Final = frozenset(
    getattr(torch.Tensor, name) for name in ("cuda", "xpu", "hpu", "ipu", "pin_memory") if hasattr(torch.Tensor, name)
)
"""Methods that move a tensor to where there need be nothing."""


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

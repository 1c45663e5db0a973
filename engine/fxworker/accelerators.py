"""Models without a device: what their code asks of an accelerator, or of other processes, has an answer.

A model's tensors are made without one, and no trace needs any, so that it matters to nobody that there is none. Code
that asks whether there is one, or whether there are other processes, hears the truth, unless it raises then.
"""

import contextlib
import sys
from collections.abc import Callable, Generator
from types import FrameType
from typing import Any, Final

import torch
from torch import distributed

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


class Alone:
    """A group of processes that has one."""

    def rank(self) -> int:
        """Return the number of this process."""
        return 0

    def size(self) -> int:
        """Return how many there are."""
        return 1


_OF_PROCESSES: Final[dict[str, Any]] = {
    "get_rank": _giving(0),
    "get_world_size": _giving(1),
    "init_process_group": _giving(None),
    "new_group": _giving(Alone()),
    **dict.fromkeys(("all_reduce", "barrier", "broadcast"), _giving(None)),
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

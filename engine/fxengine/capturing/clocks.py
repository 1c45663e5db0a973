"""Clocks that a model's code looks at: what they say is no constant, since each run is at another time."""

import inspect
import sys
import time
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any, Final

from torch import nn

from fxengine.patching import Patches
from fxengine.running import running_tracer
from fxengine.source import is_user_file

__all__ = ["patch_clocks"]

_CLOCKS: Final = frozenset(
    getattr(time, f"{clock}{unit}")
    for clock in ("time", "perf_counter", "monotonic", "process_time")
    for unit in ("", "_ns")
)

_LATER: Final = 999_983
"""By how many seconds a clock is ahead in a run that is captured after the first: no rounding hides that."""

_OF_A_SECOND: Final = 10**9


def patch_clocks(patches: Patches, root: nn.Module | Callable[..., Any]) -> None:
    """Note who looks at a clock, as long as the patches are held, also where a file of the model's has one as its own.

    Args:
        patches: What holds the replacements.
        root: What is captured.
    """
    for clock in _CLOCKS:
        patches.attribute(time, clock.__name__, _told)
    kinds = dict.fromkeys(map(type, root.modules())) if isinstance(root, nn.Module) else ()
    owners = [inspect.getattr_static(kind, "forward", None) for kind in kinds] or [root]
    namespaces = {id(each): each for owner in owners if (each := _globals_of(owner)) is not None}
    for namespace in namespaces.values():
        for name, value in [*namespace.items()]:
            if type(value) is BuiltinFunctionType and value in _CLOCKS:
                patches.item(namespace, name, value, _told)


def _globals_of(function: Any) -> dict[str, Any] | None:
    return getattr(inspect.unwrap(function), "__globals__", None)


def _told(original: Callable[..., Any]) -> Callable[..., Any]:
    """A stand-in for a clock, which is that for everybody but the code that is captured."""
    later = _LATER * (_OF_A_SECOND if original.__name__.endswith("_ns") else 1)

    def tell() -> Any:
        recording = getattr(running_tracer.get(), "recording", None)
        if recording is None or not is_user_file(sys._getframe(1).f_code.co_filename):
            return original()
        recording.has_seen_a_clock = True
        return original() + (later if recording.values.former is not None else 0)

    return tell

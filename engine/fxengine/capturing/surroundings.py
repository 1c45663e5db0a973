"""What has to be replaced while a capture runs, beside modules: the ways round `TorchFunctionMode`.

Scripted functions and `vmap` hand tensors to C++ that asks no mode. And where libraries ask whether the data may be
looked at, they ask whether the model is being compiled or exported: it is, in the sense of the question.
"""

import importlib
from collections.abc import Callable
from typing import Any, Final

import torch

from fxengine.patching import Patches
from fxengine.running import running_tracer

__all__ = ["patch_surroundings"]

_VMAP: Final = importlib.import_module("torch._functorch.vmap")
_LEVELS: Final = ("_vmap_increment_nesting", "_vmap_decrement_nesting")
_BATCHING: Final = ("_add_batch_dim", "_remove_batch_dim")


def patch_surroundings(patches: Patches) -> None:
    """Replace what this module is about, as long as the patches are held."""
    for flag in ("_is_compiling_flag", "_is_exporting_flag"):
        if hasattr(torch.compiler, flag):
            patches.attribute(torch.compiler, flag, lambda _: True)
    patches.attribute(torch._C.ScriptFunction, "__call__", _scripted)
    for name in (*_LEVELS, *_BATCHING):
        patches.attribute(_VMAP, name, _batching)


def _recording() -> Any:
    """What records in this context, if a capture runs here and no leaf does."""
    recording = getattr(running_tracer.get(), "recording", None)
    return None if recording is None or recording.quiet else recording


def _scripted(original: Callable[..., Any]) -> Callable[..., Any]:
    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        recording = _recording()
        if recording is None or not recording.is_symbolic(args, kwargs):
            return original(function, *args, **kwargs)
        return recording.call_object(function, original, args, kwargs)

    return call


def _batching(original: Callable[..., Any]) -> Callable[..., Any]:
    """A stand-in for one of the functions by which `vmap` opens and closes its levels, and tensors enter and leave."""

    def call(*args: Any, **kwargs: Any) -> Any:
        recording = _recording()
        if recording is None:
            return original(*args, **kwargs)
        return recording.call(original, original, args, kwargs)

    return call

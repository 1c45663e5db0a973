"""What has to be replaced while a capture runs, beside modules: the ways round `TorchFunctionMode`.

Scripted functions and `vmap` hand tensors to C++ that asks no mode. And where libraries ask whether the data may be
looked at, they ask whether the model is being compiled: it is, in the sense of the question.
"""

import dis
import importlib
import sys
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, Final

import torch
from torch import nn

from fxengine.capturing.unknown import asks_for_a_number
from fxengine.capturing.values import NotConstant
from fxengine.patching import Patches, code_with, copied
from fxengine.running import running_tracer
from fxengine.shims import loaded_shims
from fxengine.source import is_user_file
from fxengine.wrapping import registered_functions

__all__ = ["patch_surroundings"]

_VMAP: Final = importlib.import_module("torch._functorch.vmap")
_VMAP_API: Final = importlib.import_module("torch._functorch.apis")
_LEVELS: Final = ("_vmap_increment_nesting", "_vmap_decrement_nesting")
_BATCHING: Final = ("_add_batch_dim", "_remove_batch_dim")
_GRADIENTS: Final = importlib.import_module("torch._functorch.eager_transforms")
_DERIVING: Final = ("grad_and_value_impl", "_vjp_with_argnums", "_jvp_with_argnums")
_SEEDING: Final = ("manual_seed", "get_rng_state", "set_rng_state")
_NESTING: Final = ("nested_tensor", "as_nested_tensor")
_COPY_FREE_VARS: Final = dis.opmap["COPY_FREE_VARS"]
_WITHOUT_A_LINE: Final = b"\xf8"
"""What a table of lines says of one instruction that belongs to none."""


def patch_surroundings(patches: Patches, *, compiling: bool) -> None:
    """Replace what this module is about, as long as the patches are held.

    Args:
        patches: What holds them.
        compiling: Whether code that asks for it is told that it is being compiled.
    """
    if compiling:
        patches.attribute(torch.compiler, "_is_compiling_flag", lambda _: True)
    patches.attribute(torch._C.ScriptFunction, "__call__", _scripted)
    patches.attribute(torch.SymBool, "__bool__", _decided)
    # Whether the parameters of a distribution make sense only data can tell.
    patches.attribute(torch.distributions.Distribution, "_validate_args", lambda _: False)
    patches.attribute(nn.utils.stateless, "_functional_call", _functional_call)
    for name in (*_LEVELS, *_BATCHING):
        patches.attribute(_VMAP, name, _batching)
    for name in _DERIVING:
        patches.attribute(_GRADIENTS, name, _deriving)
    patches.attribute(torch.autograd, "backward", _filling)
    for name in _SEEDING:
        for owner in (torch, torch.random):
            patches.attribute(owner, name, _seeding)
    for name in _NESTING:
        patches.attribute(torch.nested, name, _nesting)
    patches.attribute(_VMAP_API, "vmap_impl", _vmap)
    for function, shapes in _leaf_functions().items():
        patches.code(function, _leaf_code(function, _leaf, shapes))
    apply: Any = vars(torch.autograd.Function)["apply"]
    if isinstance(apply, classmethod):
        patches.code(apply.__func__, _leaf_code(apply.__func__, _applied))
    else:  # Later versions of torch have it in C.
        patches.attribute(torch.autograd.Function, "apply", _applying)


def _leaf_functions() -> dict[FunctionType, Callable[..., Any] | None]:
    """What is a node as a whole: functions that somebody wrapped, and those of shims, with what gives their shapes."""
    wrapped = [namespace.get(name) for name, namespace in registered_functions()]
    found: dict[FunctionType, Callable[..., Any] | None] = {
        function: None
        for function in wrapped
        if isinstance(function, FunctionType) and is_user_file(function.__code__.co_filename)
    }
    for shim in loaded_shims():
        found.update({each: shapes for each, shapes in shim.leaf_functions() if isinstance(each, FunctionType)})
    return found


def _recording() -> Any:
    """What records in this context, if a capture runs here and no leaf does."""
    recording = getattr(running_tracer.get(), "recording", None)
    return None if recording is None or recording.quiet else recording


def _leaf(function: Callable[..., Any], original: Any, shapes: Any, args: Any, kwargs: Any) -> Any:
    """What a leaf function returns: the value of a node, where it is given what depends on the inputs."""
    recording = _recording()
    if recording is None or not recording.is_symbolic(args, kwargs):
        return original(*args, **kwargs)
    return recording.call(function, shapes or original, args, kwargs)


def _applied(_function: Any, original: Any, _shapes: Any, args: Any, kwargs: Any) -> Any:
    """What `autograd.Function.apply` returns: where gradients flow it is one node, since no other has its gradient."""
    recording = _recording()
    if recording is None or not torch.is_grad_enabled() or recording.in_vmap or recording.values.on_constants:
        return original(*args, **kwargs)
    cls, *given = args
    if not recording.is_symbolic(given, kwargs):
        return original(*args, **kwargs)
    return recording.call_object(cls, original, given, kwargs, "apply")


def _applying(descriptor: Any) -> Any:
    """A class method in place of one in C."""

    def original(cls: type, *args: Any, **kwargs: Any) -> Any:
        return descriptor.__get__(None, cls)(*args, **kwargs)

    def apply(cls: type, *args: Any, **kwargs: Any) -> Any:
        return _applied(None, original, None, (cls, *args), kwargs)

    return classmethod(apply)


def _stand_in(*args: Any, **kwargs: Any) -> Any:
    """The code that runs as a leaf function's. It has none of our globals, but brings along what it needs."""
    leaf: Any = "<leaf>"
    return leaf("<function>", "<original>", "<shapes>", args, kwargs)


def _leaf_code(function: FunctionType, leaf: Callable[..., Any], shapes: Callable[..., Any] | None = None) -> CodeType:
    """The code for a leaf function that calls `leaf`, with as many free variables as the function has."""
    original = copied(function)
    original.__kwdefaults__ = function.__kwdefaults__
    code = code_with(_stand_in.__code__, leaf=leaf, function=function, original=original, shapes=shapes)
    return _with_free_variables(code, function.__code__.co_freevars)


def _with_free_variables(code: CodeType, names: tuple[str, ...]) -> CodeType:
    """The code with free variables that it does not use.

    Its frames are given them as by any other code: CPython reads them, without a look at whether they are there, for
    whoever asks for the variables of a frame.
    """
    if not names:
        return code
    copying = bytes((_COPY_FREE_VARS, len(names)))
    return code.replace(
        co_code=copying + code.co_code, co_linetable=_WITHOUT_A_LINE + code.co_linetable, co_freevars=names
    )


def _scripted(original: Callable[..., Any]) -> Callable[..., Any]:
    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        recording = _recording()
        if recording is None or not recording.is_symbolic(args, kwargs):
            return original(function, *args, **kwargs)
        return recording.call_object(function, original, args, kwargs)

    return call


def _decided(original: Callable[..., Any]) -> Callable[..., Any]:
    """A stand-in for the question whether something holds of numbers that only data can tell: an assert says that."""

    def ask(number: Any) -> bool:
        try:
            return original(number)
        except Exception as error:
            recording = _recording()
            passing = recording.passing_value(sys._getframe(1)) if recording is not None else None
            if passing is None or not asks_for_a_number(error):
                raise
        torch._check(number if passing else torch.sym_not(number))
        return passing

    return ask


def _functional_call(original: Callable[..., Any]) -> Callable[..., Any]:
    """A stand-in for calls of modules with other parameters: a call of a leaf would not show these."""

    def call(*args: Any, **kwargs: Any) -> Any:
        recording = _recording()
        if recording is None:
            return original(*args, **kwargs)
        recording.in_functional_call += 1
        try:
            return original(*args, **kwargs)
        finally:
            recording.in_functional_call -= 1

    return call


def _batching(original: Callable[..., Any]) -> Callable[..., Any]:
    """A stand-in for one of the functions by which `vmap` opens and closes its levels, and tensors enter and leave."""

    def call(*args: Any, **kwargs: Any) -> Any:
        recording = _recording()
        if recording is None or recording.values.on_constants:
            return original(*args, **kwargs)
        return recording.call(original, original, args, kwargs)

    return call


def _deriving(original: Callable[..., Any]) -> Callable[..., Any]:
    """A stand-in for what derives functions: it looks through tensors, and no graph does; so it ends there."""

    def call(*args: Any, **kwargs: Any) -> Any:
        recording = _recording()
        if recording is None:
            return original(*args, **kwargs)
        raise recording.refusals.saying("`torch.func` derives a function here, whose calls cannot be recorded")

    return call


def _filling(original: Callable[..., Any]) -> Callable[..., Any]:
    """A stand-in for what fills `grad` of tensors that took part in others: no graph does, so it ends there."""

    def call(*args: Any, **kwargs: Any) -> Any:
        recording = _recording()
        if recording is None:
            return original(*args, **kwargs)
        recording.values.changed = True  # What the graph has computed is no part of what is derived in the rest.
        raise recording.refusals.saying("`backward` fills the gradients of tensors here, which a graph cannot record")

    return call


def _seeding(original: Callable[..., Any]) -> Callable[..., Any]:
    """A stand-in for what seeds torch's generator of random numbers, and tells or sets its state: each run does it."""

    def call(*args: Any, **kwargs: Any) -> Any:
        recording = _recording()
        return original(*args, **kwargs) if recording is None else recording.seed(original, args, kwargs)

    return call


def _nesting(original: Callable[..., Any]) -> Callable[..., Any]:
    """A stand-in for what nests tensors: one without data can only be nested where its rows follow each other."""

    def call(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        recording = _recording()
        is_strided = kwargs.get("layout") in {None, torch.strided}
        if recording is None or not is_strided or not recording.is_symbolic((tensors,), {}):
            return original(tensors, *args, **kwargs)
        raise recording.refusals.saying("tensors that depend on the inputs are nested here, which needs their data")

    return call


def _vmap(original: Callable[..., Any]) -> Callable[..., Any]:
    """A stand-in for `vmap` as a whole: on constants alone, which nobody knows beforehand, it is only carried out."""

    def call(*args: Any, **kwargs: Any) -> Any:
        recording = _recording()
        if recording is None or recording.values.on_constants or recording.in_vmap:
            return original(*args, **kwargs)
        recording.values.on_constants = True
        try:
            return original(*args, **kwargs)
        except NotConstant:
            pass
        finally:
            recording.values.on_constants = False
        recording.in_vmap = True
        try:
            return original(*args, **kwargs)
        finally:
            recording.in_vmap = False

    return call

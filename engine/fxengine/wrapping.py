"""Leaf functions: `wrap`, and what stands in a module's globals for a leaf function while a trace runs.

`wrap` only registers a name in the globals of the calling module. During a trace that global is replaced by a stand-in
which records a call when it sees a symbolic value among its arguments, and calls the original otherwise. What was
registered with torch.fx counts too, wherever torch.fx is loaded.
"""

import builtins
import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final, TypeVar, cast, overload

import torch

from fxengine.node import map_aggregate
from fxengine.patching import MISSING, Patches
from fxengine.proxy import Proxy

__all__ = ["_find_proxy", "wrap"]

_Wrapped = TypeVar("_Wrapped", bound=Callable[..., Any])

_wrapped_fns_to_patch: dict[tuple[int, str], dict[str, Any]] = {}
"""The wrap registry: the globals in which a name stands for a leaf function, by the globals' id and the name."""

_wrapped_methods_to_patch: list[tuple[type, str]] = []
"""Methods of classes that are recorded as calls, for those of `Tensor` that torch does not dispatch."""

if os.environ.get("FX_PATCH_GETITEM") == "1":
    _wrapped_methods_to_patch.append((torch.Tensor, "__getitem__"))


@overload
def wrap(fn_or_name: str) -> str: ...
@overload
def wrap(fn_or_name: _Wrapped) -> _Wrapped: ...
def wrap(fn_or_name: str | Callable[..., Any]) -> str | Callable[..., Any]:
    """Return `fn_or_name`, after making that global function of the calling module a leaf: calls of it are recorded.

    To be called at the top level of the module that calls the function, with its name, with the function, or as a
    decorator.

    Example:
        `wrap("len")` in a module lets its functions use `len` of a symbolic value::

            fxengine.wrap("len")


            def forward(x):
                return x / len(x)

    Raises:
        RuntimeError: The argument is neither a callable nor a string.
        NotImplementedError: The call is not at the top level of a module.
    """
    registered: object = fn_or_name
    if isinstance(registered, str):
        name = registered
    elif callable(registered):
        name = registered.__name__
    else:
        raise RuntimeError(  # noqa: TRY004 - torch.fx's exception.
            "Unsupported type for global function! Must be either a callable or string name"
        )
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped_fns_to_patch[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


def patch_wrapped_functions(patches: Patches) -> None:
    """Put stand-ins in place of every registered function and method, ours and torch.fx's."""
    patches.scattered(_registry(), _stand_in_for_name)
    for owner, name in registered_methods():
        patches.attribute(owner, name, lambda _, owner=owner, name=name: _create_wrapped_method(owner, name))


def patch_autowrapped(patches: Patches, namespace: dict[str, Any], function_ids: frozenset[int]) -> None:
    """Put stand-ins in place of the autowrapped functions among a module's globals, once for each trace."""
    if not patches.first_visit(namespace):
        return

    def stand_ins(meanings: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
        if function_ids.isdisjoint(map(id, meanings.values())):
            return {}
        found = {
            name: value
            for name, value in meanings.items()
            if id(value) in function_ids and not name.startswith("_") and callable(value)
        }
        return dict(zip(found, _stand_ins_for(tuple(found.values())), strict=True))

    patches.items(namespace, function_ids, stand_ins)


def registered_functions() -> Iterator[tuple[str, dict[str, Any]]]:
    """Give each registered name with the globals in which it is one, ours and torch.fx's."""
    for (_, name), namespace in _registry().items():
        yield name, namespace


def _registry() -> dict[tuple[int, str], dict[str, Any]]:
    theirs = sys.modules.get("torch.fx._symbolic_trace")
    return {**_wrapped_fns_to_patch, **getattr(theirs, "_wrapped_fns_to_patch", {})}


def registered_methods() -> Iterator[tuple[type, str]]:
    """Give each class with the name of a method whose calls are recorded, ours and torch.fx's."""
    theirs = sys.modules.get("torch.fx._symbolic_trace")
    yield from list(_wrapped_methods_to_patch)
    yield from list(getattr(theirs, "_wrapped_methods_to_patch", ()))


_PLAIN_FUNCTIONS: Final = frozenset({FunctionType, BuiltinFunctionType})


def _stand_in_for_name(name: str, meaning: Any) -> Callable[..., Any]:
    """Return the stand-in for what a registered name means, which is a builtin function where it means nothing else.

    Raises:
        KeyError: It means nothing at all.
    """
    if meaning is MISSING:
        if not hasattr(builtins, name):
            raise KeyError(name)
        meaning = getattr(builtins, name)
    return _stand_in_for(meaning)


def _stand_in_for(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the stand-in for a leaf function: the same one every time, for there are dozens in every trace."""
    if type(function) in _PLAIN_FUNCTIONS:
        return _known_stand_in_for(function)
    return _create_wrapped_func(function)


@functools.lru_cache(maxsize=512)
def _known_stand_in_for(function: FunctionType | BuiltinFunctionType) -> Callable[..., Any]:
    return _create_wrapped_func(function)


def _stand_ins_for(functions: tuple[Callable[..., Any], ...]) -> Iterable[Callable[..., Any]]:
    """Return the stand-ins for leaf functions that were found together, and mostly will be again."""
    if _PLAIN_FUNCTIONS.issuperset(map(type, functions)):
        return _known_stand_ins_for(functions)
    return map(_stand_in_for, functions)


@functools.lru_cache(maxsize=64)
def _known_stand_ins_for(functions: tuple[FunctionType | BuiltinFunctionType, ...]) -> tuple[Callable[..., Any], ...]:
    return tuple(map(_known_stand_in_for, functions))


def _create_wrapped_func(orig_fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the stand-in for a leaf function."""

    @functools.wraps(orig_fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy((args, kwargs))
        if proxy is None:
            return orig_fn(*args, **kwargs)
        result = proxy.tracer.create_proxy("call_function", orig_fn, args, kwargs)
        result.node.meta["is_wrapped"] = True
        return result

    return wrapped


def _create_wrapped_method(cls: type, name: str) -> Callable[..., Any]:
    """Return the stand-in for a method of a class."""
    orig_fn: Callable[..., Any] = getattr(cls, name)

    @functools.wraps(orig_fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy((args, kwargs))
        if proxy is None:
            return orig_fn(*args, **kwargs)
        return proxy.tracer.create_proxy("call_method", name, args, kwargs)

    return wrapped


def _find_proxy(*objects_to_search: object) -> Proxy | None:
    """Return the last symbolic value within the objects, or None if there is none."""
    found: list[Proxy] = []

    def note(value: Any) -> None:
        if isinstance(value, Proxy):
            found.append(value)

    map_aggregate(cast("Any", objects_to_search), note)
    return found[-1] if found else None


def find_proxy(value: Any) -> Proxy | None:
    """Return a symbolic value within tuples, lists, dicts and slices, or None if there is none."""
    if isinstance(value, Proxy):
        return value
    if isinstance(value, dict):
        value = value.values()
    elif isinstance(value, slice):
        value = (value.start, value.stop, value.step)
    elif not isinstance(value, tuple | list):
        return None
    for item in value:
        found = find_proxy(item)
        if found is not None:
            return found
    return None

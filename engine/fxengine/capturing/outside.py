"""What a model's code reaches and may change beside its modules: objects, attributes of classes, globals, caches.

A `Snapshot` knows what modules have, and the containers among that. Code keeps things elsewhere too: in an object that
a module has, in a class, in a global table, in what a decorated function remembers, in a variable of a function around,
in how far an iterator is. One look at all this before a run tells what that has changed, and puts it back.
"""

import inspect
import random
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from functools import partial
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import torch
from torch import Tensor, nn

from fxengine.capturing.keeping import (
    REMEMBERING,
    Names,
    Value,
    Watched,
    content_of,
    is_drawing,
    is_single,
    of_cell,
    of_numbers,
    of_single,
    of_slot,
)  # fmt: skip
from fxengine.capturing.objects import slots_of
from fxengine.capturing.reaching import globals_reached, is_of_user
from fxengine.hierarchy import modules_of, own_values
from fxengine.module_snapshot import CONTAINERS, MISSING, copied
from fxengine.recording import PLAIN_TYPES

__all__ = ["Outside"]

_CLOSED: Final = frozenset({
    *PLAIN_TYPES, type, BuiltinFunctionType, ModuleType, torch.dtype, torch.device, torch.Size, complex, bytes,
})  # fmt: skip
"""Types of what has nothing inside that code changes."""

_PARTS_OF_CLASSES: Final = frozenset({property, staticmethod, classmethod})
_OF_EVERY_MODULE: Final = frozenset(vars(nn.Module()))
_CONTAINING: Final = (dict, list, deque, set, tuple)
"""What containers are, also those whose class is somebody's own."""

_OWN: Final = frozenset({*CONTAINERS, REMEMBERING, ContextVar, partial})
_OF_ANYBODY: Final = (Tensor, torch.Generator, random.Random, Counter)
"""What is looked at in a namespace whoever has made its class."""

_OF_ITERATORS: Final = frozenset({"builtins", "itertools"})
"""Where the iterators come from whose state nobody sees."""

_NOBODYS: Final = frozenset({"torch", "builtins", "typing", "abc", "collections", "functools", "fxengine"})
"""Packages whose objects are not looked into."""

_REGISTRIES: Final = frozenset({"_parameters", "_buffers", "_modules"})

_MOST: Final = 4000
"""How many things are looked at."""

_MOST_ITEMS: Final = 64
"""How many items a container of another file has that is looked into."""

_DEEPEST: Final = 4
"""Through how many objects and containers a thing is looked for."""


class Outside:
    """What lay around a model when this was made; iterators are stood in for until it is put back.

    Attributes:
        tensors: The tensors that were found there and are no parameters, by identity, with how each is reached.
        generators: The generators of random numbers of torch's that were found, by identity.
    """

    def __init__(self, root: nn.Module | Callable[..., Any]) -> None:
        self.tensors: dict[int, tuple[Tensor, str]] = {}
        self.generators: dict[int, torch.Generator] = {}
        self._kept: list[Names | Value | Watched] = []
        self._numbers: list[Value] = []
        self._memories: list[Value] = []
        self._seen: set[int] = set()
        modules = modules_of(root) if isinstance(root, nn.Module) else []
        self._own = set(map(id, modules))
        self._ways: dict[type, Callable[..., None]] = {}
        self._ways_into_bases: tuple[tuple[Any, Callable[..., None]], ...] = (
            (_CONTAINING, self._look_into_container),
            (Tensor, self._note_tensor),
            (nn.Module, self._look_into_other_module),
            (partial, self._look_into_partial),
            (type, self._pass_by),
        )
        for module in modules:
            self._look_into_module(module)
        kinds = {cls: None for kind in dict.fromkeys(map(type, modules)) for cls in kind.__mro__ if _is_users(cls)}
        functions = [function for cls in kinds for function in _functions_of(cls)]
        if not isinstance(root, nn.Module):
            self._look_into_function(root, getattr(root, "__name__", "function"), 0)
            functions.append(root)
        for cls in kinds:
            self._look_into_class(cls)
        namespaces = {id(each): each for each in (getattr(inspect.unwrap(f), "__globals__", None) for f in functions)}
        for namespace in namespaces.values():
            if namespace is not None and is_of_user(namespace):
                self._look_into_globals(namespace)
        methods: dict[str, list[FunctionType]] = {}
        for name, value in (each for cls in kinds for each in vars(cls).items()):
            if type(value) is FunctionType and not name.startswith("__"):
                methods.setdefault(name, []).append(value)
        starts = [each for each in functions if type(each) is FunctionType]
        for namespace, names in globals_reached(starts, methods):
            if id(namespace) not in namespaces:
                self._look_elsewhere(namespace, names)

    def changed(self) -> list[str]:
        """How what is different now is reached."""
        return [name for kept in self._kept if kept.has_changed() for name in kept.different()]

    def has_moved_generators(self) -> bool:
        """Whether a generator of random numbers is not where it was."""
        return any(each.has_changed() for each in self._numbers)

    def forget(self) -> None:
        """Let functions that have remembered something forget all."""
        for kept in self._memories:
            if kept.has_changed():
                kept.restore()

    def restore(self) -> None:
        """Put everything back; a function that has remembered something forgets all."""
        for kept in (*self._kept, *self._numbers):
            if kept.has_changed() and type(kept) is not Watched:
                kept.restore()
        watched = [kept for kept in self._kept if type(kept) is Watched]
        for kept in watched:
            kept.restore()
        for kept in self._kept if watched else ():
            if type(kept) is Names and kept.has_changed():
                kept.forget_watched()

    def _look_into_module(self, module: nn.Module) -> None:
        attributes = vars(module)
        if _CLOSED.issuperset(map(type, own_values(attributes))):
            return
        for name, value in attributes.items():
            if name in _OF_EVERY_MODULE or type(value) in _CLOSED:
                continue
            if isinstance(value, Tensor):
                self._seen.add(id(value))
            else:
                self._look(value, name, 0, attributes, name)

    def _look_into_class(self, cls: type) -> None:
        if id(cls) in self._seen:
            return
        self._seen.add(id(cls))
        attributes = vars(cls)
        for name, value in [*attributes.items()]:
            kind = type(value)
            if kind in _CLOSED or kind in _PARTS_OF_CLASSES or name.startswith("__"):
                continue
            if kind is not FunctionType or _remembers(value):
                self._look(value, f"{cls.__name__}.{name}", 1, cls, name)
        self._kept.append(Names(cls.__name__, cls, attributes, dict(attributes)))

    def _look_into_globals(self, namespace: dict[str, Any]) -> None:
        module = namespace.get("__name__")
        for name, value in [*namespace.items()]:
            kind = type(value)
            if kind is type and value.__module__ == module:
                self._look_into_class(value)
            if kind in _CLOSED or name.startswith("__"):
                continue
            if kind is FunctionType:
                is_own = value.__module__ == module and _remembers(value)
            else:
                # Of other objects only those that are the module's own: there are loggers and libraries among them.
                is_own = kind in _OWN or kind.__module__ == module or isinstance(value, _OF_ANYBODY)
            if is_own or _is_iterator(kind):
                self._look(value, name, 1, namespace, name)
        self._kept.append(Names("", None, namespace, namespace.copy()))

    def _look_elsewhere(self, namespace: dict[str, Any], names: Iterable[str]) -> None:
        """Look at some names of another file; what its functions remember is no business of the model's."""
        for name in names:
            value = namespace[name]
            kind = type(value)
            if kind in {REMEMBERING, ModuleType, BuiltinFunctionType} or isinstance(value, type):
                continue
            self._kept.append(
                Value(name, partial(namespace.get, name, MISSING), value, partial(namespace.__setitem__, name))
            )
            is_small = kind in CONTAINERS and len(value) <= _MOST_ITEMS  # Others are tables of a library.
            if is_small or isinstance(value, _OF_ANYBODY) or _is_iterator(kind):
                self._look(value, name, _DEEPEST, namespace, name)

    def _look_into_function(self, function: Any, name: str, depth: int, *_: Any) -> None:
        function = getattr(function, "__func__", function)
        for variable, cell in zip(
            _free_variables(function), getattr(function, "__closure__", None) or (), strict=False
        ):
            self._look(content_of(cell), f"{name}.{variable}", depth + 1, cell, variable)
            self._kept.append(of_cell(f"{name}.{variable}", cell))
        for defaults in (getattr(function, "__defaults__", None), getattr(function, "__kwdefaults__", None)):
            self._look(defaults, name, depth)
        attributes = getattr(function, "__dict__", None)
        if attributes:
            self._look(attributes, name, depth)

    def _look(self, value: Any, name: str, depth: int, owner: Any = None, key: Any = None) -> None:
        """Note what a value is, and look at what is in it; `owner` has it under `key`."""
        kind = type(value)
        if kind in _CLOSED or id(value) in self._seen or depth > _DEEPEST or len(self._seen) > _MOST:
            return
        self._seen.add(id(value))
        way = self._ways.get(kind)
        if way is None:
            way = self._ways[kind] = self._way_into(kind)
        way(value, name, depth, owner, key)

    def _way_into(self, kind: type) -> Callable[..., None]:
        """How to look at what objects of a class are, and have."""
        if kind in {FunctionType, MethodType}:
            return self._look_into_function
        for bases, way in self._ways_into_bases:
            if issubclass(kind, bases):
                return way
        if _is_iterator(kind):
            return self._watch
        if is_single(kind) or is_drawing(kind):
            return self._note_single
        return partial(self._look_into_object, slots=slots_of(kind)) if _is_users(kind) else self._pass_by

    def _pass_by(self, *_: Any) -> None:
        """Of the objects of others nothing is known."""

    def _note_tensor(self, value: Tensor, name: str, *_: Any) -> None:
        if not (value.is_meta or isinstance(value, nn.Parameter)):
            self.tensors[id(value)] = (value, name)

    def _watch(self, value: Any, name: str, _depth: int, owner: Any, key: Any) -> None:
        put = _putting(owner, key)
        if put is not None:
            self._kept.append(Watched(name, value, put))

    def _note_single(self, value: Any, name: str, *_: Any) -> None:
        if not is_drawing(type(value)):
            kept = of_single(name, value)
            self._kept.append(kept)
            if type(value) is REMEMBERING:
                self._memories.append(kept)
            return
        self._numbers.append(of_numbers(name, value))
        if isinstance(value, torch.Generator):
            self.generators[id(value)] = value

    def _look_into_partial(self, value: Any, name: str, depth: int, *_: Any) -> None:
        for part in (value.func, value.args, value.keywords):
            self._look(part, name, depth)

    def _look_into_container(self, container: Any, name: str, depth: int, *_: Any) -> None:
        content: Any = container if isinstance(container, tuple) else copied(container)
        for key, item in content.items() if isinstance(container, dict) else enumerate(content):
            if type(item) not in _CLOSED:
                self._look(item, f"{name}[{key!r}]", depth + 1, container, key)
        if not isinstance(container, tuple):
            self._kept.append(Names(name, container, container, copied(container)))

    def _look_into_other_module(self, module: nn.Module, name: str, depth: int, *_: Any) -> None:
        """Look at what a module has that is no part of the model; those that are, are looked at by themselves."""
        if id(module) in self._own:
            return
        attributes = vars(module)
        for each, item in [*attributes.items()]:
            if type(item) not in _CLOSED and (each in _REGISTRIES or each not in _OF_EVERY_MODULE):
                self._look(item, f"{name}.{each}", depth + 1, attributes, each)
        self._kept.append(Names(name, module, attributes, attributes.copy()))

    def _look_into_object(self, value: Any, name: str, depth: int, *_: Any, slots: Iterable[str]) -> None:
        state = getattr(value, "__dict__", None)
        if type(state) is dict:
            for each, item in [*state.items()]:
                if type(item) not in _CLOSED:
                    self._look(item, f"{name}.{each}", depth + 1, state, each)
            self._kept.append(Names(name, value, state, state.copy()))
        for slot in slots:
            kept = of_slot(f"{name}.{slot}", value, slot)
            self._look(kept.before, kept.name, depth + 1)
            self._kept.append(kept)


def _is_users(cls: type) -> bool:
    """Whether a class is neither torch's nor Python's own, nor the engine's."""
    return cls.__module__.partition(".")[0] not in _NOBODYS


def _is_iterator(kind: type) -> bool:
    """Whether objects of a class are iterators that go on without its being seen."""
    return kind.__module__ in _OF_ITERATORS and hasattr(kind, "__next__")


def _remembers(function: Any) -> bool:
    """Whether a function has anything that may be different at its next call."""
    if function.__closure__ or function.__dict__ or function.__kwdefaults__:
        return True
    defaults = function.__defaults__
    return bool(defaults) and not _CLOSED.issuperset(map(type, defaults))


def _functions_of(cls: type) -> Iterable[Any]:
    return [value for name in ("forward", "__call__") if (value := vars(cls).get(name)) is not None]


def _free_variables(function: Any) -> tuple[str, ...]:
    code = getattr(function, "__code__", None)
    return () if code is None else code.co_freevars


def _putting(owner: Any, key: Any) -> Callable[[Any], None] | None:
    """What puts another thing in the place where a thing is; None where that cannot be."""
    if isinstance(owner, type):
        return partial(setattr, owner, key)
    if isinstance(owner, CellType):
        return partial(setattr, owner, "cell_contents")
    return partial(owner.__setitem__, key) if type(owner) in CONTAINERS - {set} else None

"""What a model's code reaches and may change beside its modules: objects, attributes of classes, globals, caches.

A `Snapshot` knows what modules have, and the containers among that. Code keeps things elsewhere too: in an object that
a module has, in a class, in a global table, in what a decorated function remembers, in a variable of a function around.
One look at all this before a run tells afterwards what the run has changed, and puts it back.
"""

import functools
import inspect
from collections.abc import Callable, Iterable
from types import BuiltinFunctionType, CellType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from fxengine.hierarchy import modules_of, own_values
from fxengine.module_snapshot import CONTAINERS, fill, has_content
from fxengine.recording import PLAIN_TYPES
from fxengine.source import is_user_file

__all__ = ["Outside"]

_REMEMBERING: Final = type(functools.lru_cache(len))
_CLOSED: Final = frozenset({
    *PLAIN_TYPES, type, BuiltinFunctionType, ModuleType, torch.dtype, torch.device, torch.Size, complex, bytes,
})  # fmt: skip
"""Types of what has nothing inside that code changes."""

_PARTS_OF_CLASSES: Final = frozenset({FunctionType, property, staticmethod, classmethod})
_OF_EVERY_MODULE: Final = frozenset(vars(nn.Module()))
_MOST: Final = 4000
"""How many things are looked at."""

_DEEPEST: Final = 4
"""Through how many objects and containers a thing is looked for."""


class _Kept(NamedTuple):
    """Something that can be changed, as it was.

    Attributes:
        name: How it is reached.
        owner: What has it, so that it lives on; the container itself, or what has names.
        now: What it has: the container itself, or the names of an object.
        before: A copy of that.
    """

    name: str
    owner: Any
    now: Any
    before: Any


class Outside:
    """What lay around a model when this was made.

    Attributes:
        tensors: The tensors that were found there and are no parameters, by identity, with how each is reached.
        generators: The generators of random numbers that were found, by identity.
    """

    def __init__(self, root: nn.Module | Callable[..., Any]) -> None:
        self.tensors: dict[int, tuple[Tensor, str]] = {}
        self.generators: dict[int, torch.Generator] = {}
        self._kept: list[_Kept] = []
        self._cells: list[tuple[str, CellType, Any]] = []
        self._remembering: list[tuple[str, Any, int]] = []
        self._states: list[tuple[torch.Generator, Tensor]] = []
        self._seen: set[int] = set()
        modules = modules_of(root) if isinstance(root, nn.Module) else []
        self._own = set(map(id, modules))
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
            if namespace is not None and _is_of_user(namespace):
                self._look_into_globals(namespace)

    def changed(self) -> list[str]:
        """How what is different now is reached."""
        names = [name for kept in self._kept if not has_content(kept.now, kept.before) for name in _different(kept)]
        names += [name for name, cell, before in self._cells if _content(cell) is not before]
        return names + [name for name, function, misses in self._remembering if _misses(function) != misses]

    def has_moved_generators(self) -> bool:
        """Whether a generator of random numbers is not where it was."""
        return any(not torch.equal(each.get_state(), state) for each, state in self._states)

    def restore(self) -> None:
        """Put everything back; a function that has remembered something forgets all."""
        for kept in self._kept:
            if not has_content(kept.now, kept.before):
                _put_back(kept)
        for _, cell, before in self._cells:
            if _content(cell) is not before:
                cell.cell_contents = before
        for generator, state in self._states:
            generator.set_state(state)
        for _, function, misses in self._remembering:
            if _misses(function) != misses:
                function.cache_clear()

    def _look_into_module(self, module: nn.Module) -> None:
        attributes = vars(module)
        if _CLOSED.issuperset(map(type, own_values(attributes))):
            return
        for name, value in attributes.items():
            if name not in _OF_EVERY_MODULE and type(value) not in _CLOSED:
                self._look(value, name, 0, is_of_module=True)

    def _look_into_class(self, cls: type) -> None:
        if id(cls) in self._seen:
            return
        self._seen.add(id(cls))
        attributes = vars(cls)
        self._kept.append(_Kept(cls.__name__, cls, attributes, dict(attributes)))
        for name, value in attributes.items():
            if type(value) not in _CLOSED and type(value) not in _PARTS_OF_CLASSES and not name.startswith("__"):
                self._look(value, f"{cls.__name__}.{name}", 1)

    def _look_into_globals(self, namespace: dict[str, Any]) -> None:
        self._kept.append(_Kept("", None, namespace, namespace.copy()))
        module = namespace.get("__name__")
        for name, value in [*namespace.items()]:
            kind = type(value)
            if kind is type and value.__module__ == module:
                self._look_into_class(value)
            if kind in _CLOSED or kind is FunctionType or name.startswith("__"):
                continue
            # Of other objects only those that are the module's own: there are loggers and libraries among them.
            is_own = kind in CONTAINERS or kind is _REMEMBERING or kind.__module__ == module
            if is_own or isinstance(value, Tensor | torch.Generator):
                self._look(value, name, 1)

    def _look_into_function(self, function: Any, name: str, depth: int) -> None:
        for variable, cell in zip(
            _free_variables(function), getattr(function, "__closure__", None) or (), strict=False
        ):
            value = _content(cell)
            self._cells.append((f"{name}.{variable}", cell, value))
            self._look(value, f"{name}.{variable}", depth + 1)

    def _look(self, value: Any, name: str, depth: int, *, is_of_module: bool = False) -> None:
        """Note what a value is, and look at what is in it."""
        kind = type(value)
        if kind in _CLOSED or id(value) in self._seen or depth > _DEEPEST or len(self._seen) > _MOST:
            return
        self._seen.add(id(value))
        if kind in {FunctionType, MethodType}:
            self._look_into_function(value, name, depth)
        elif kind is tuple or kind in CONTAINERS:
            self._look_into_container(value, name, depth)
        elif kind is _REMEMBERING:
            self._remembering.append((name, value, _misses(value)))
        elif isinstance(value, torch.Generator):
            self.generators[id(value)] = value
            self._states.append((value, value.get_state()))
        elif isinstance(value, Tensor):
            if not (is_of_module or value.is_meta or isinstance(value, nn.Parameter)):
                self.tensors[id(value)] = (value, name)
        elif id(value) not in self._own and not isinstance(value, type) and _is_users(kind):
            self._look_into_object(value, name, depth)

    def _look_into_container(self, container: Any, name: str, depth: int) -> None:
        if type(container) is not tuple:
            self._kept.append(_Kept(name, container, container, container.copy()))
        for key, item in [*container.items()] if isinstance(container, dict) else enumerate(container):
            if type(item) not in _CLOSED:
                self._look(item, f"{name}[{key!r}]", depth + 1)

    def _look_into_object(self, value: Any, name: str, depth: int) -> None:
        state = getattr(value, "__dict__", None)
        if type(state) is dict:
            self._kept.append(_Kept(name, value, state, state.copy()))
            for each, item in [*state.items()]:
                if type(item) not in _CLOSED:
                    self._look(item, f"{name}.{each}", depth + 1)


def _is_users(cls: type) -> bool:
    """Whether a class is neither torch's nor Python's own."""
    return cls.__module__.partition(".")[0] not in {"torch", "builtins", "typing", "abc", "collections", "functools"}


def _is_of_user(namespace: dict[str, Any]) -> bool:
    return is_user_file(str(namespace.get("__file__") or "<string>"))


def _functions_of(cls: type) -> Iterable[Any]:
    return [value for name in ("forward", "__call__") if (value := vars(cls).get(name)) is not None]


def _free_variables(function: Any) -> tuple[str, ...]:
    code = getattr(function, "__code__", None)
    return () if code is None else code.co_freevars


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # It is empty.
        return None


def _misses(function: Any) -> int:
    return function.cache_info().misses


def _different(kept: _Kept) -> list[str]:
    """How the names are reached that mean something else; the container where it is one."""
    now, before = kept.now, kept.before
    if kept.owner is now:
        return [kept.name]
    names = [name for name in {**before, **now} if name not in now or now[name] is not before.get(name, now)]
    return [f"{kept.name}.{name}" if kept.name else name for name in names]


def _put_back(kept: _Kept) -> None:
    now, before = kept.now, kept.before
    if isinstance(now, MappingProxyType):
        for name in [name for name in now if name not in before]:
            delattr(kept.owner, name)
        for name, value in before.items():
            if now.get(name) is not value:
                setattr(kept.owner, name, value)
    elif isinstance(now, dict):
        for name in [name for name in now if name not in before]:
            del now[name]
        for name, value in before.items():
            if name not in now or now[name] is not value:
                now[name] = value
    else:
        fill(now, before)

"""The inputs of a capture: placeholders with the names of parameters, and what is read out of them."""

import copy
import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final

import torch
from torch import Tensor, nn

from fxengine.capturing.held import Place
from fxengine.capturing.objects import is_record, state_of
from fxengine.recording import PLAIN_TYPES

__all__ = ["Leaf", "Parameters", "leaves_of"]


@dataclass(frozen=True, slots=True)
class Leaf:
    """Something in the inputs that is no container.

    Attributes:
        path: How it is reached: the name of the parameter, then keys, indices and names of attributes.
        expression: How that reads in source: `features[0].mask`.
        value: What it is.
    """

    path: tuple[Any, ...]
    expression: str
    value: Any


class Parameters:
    """The parameters of what is captured, and what the inputs give for each."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Bind inputs to parameters.

        Raises:
            TypeError: They do not fit the signature.
        """
        self.signature = inspect.signature(function)
        self.bound = self.signature.bind(*args, **kwargs)

    @property
    def given(self) -> dict[str, Any]:
        """What was given, by parameter."""
        return dict(self.bound.arguments)

    def placeholders(self) -> list[tuple[str, str, tuple[Any, ...]]]:
        """Name, target and default value of each parameter's placeholder.

        A keyword that has to be given, behind one that need not, is None by default: placeholders are no keywords.
        """
        found: list[tuple[str, str, tuple[Any, ...]]] = []
        is_behind = False
        for name, parameter in self.signature.parameters.items():
            star = _STARS.get(parameter.kind, "")
            default = parameter.default
            has_default = not star and default is not parameter.empty
            is_behind = (is_behind or has_default) and not star
            optional: tuple[Any, ...] = ((default if type(default) in PLAIN_TYPES else None),) if is_behind else ()
            found.append((name, f"{star}{name}", optional))
        return found


_DEEPEST: Final = 8
"""How many steps lead at most to something in the inputs that is looked for: objects may know each other."""

_CALLED: Final = (nn.Module, type, FunctionType, MethodType, BuiltinFunctionType, functools.partial)
"""What is there to be called; other objects may be callable besides, as graphs that give their keys so."""

_STARS: Final = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def leaves_of(given: Mapping[str, Any]) -> list[Leaf]:
    """What is in inputs, in order."""
    found: list[Leaf] = []
    for name, value in given.items():
        _rebuilt(value, (name,), name, lambda path, expression, leaf: found.append(Leaf(path, expression, leaf)))
    return found


def replaced(value: Any, place: Place, name: str, make: Callable[[tuple[Any, ...], str, Any, Place], Any]) -> Any:
    """An input with its tensors replaced; `make` gets path, expression, tensor, and its place in the graph."""
    places: dict[tuple[Any, ...], Place] = {(name,): place}

    def leaf(path: tuple[Any, ...], expression: str, found: Any) -> Any:
        return make(path, expression, found, _place_at(path, places)) if isinstance(found, Tensor) else found

    return _rebuilt(value, (name,), name, leaf)


def _place_at(path: tuple[Any, ...], places: dict[tuple[Any, ...], Place]) -> Place:
    known = places.get(path)
    if known is None:
        parent = _place_at(path[:-1], places)
        step = path[-1]
        if isinstance(step, Name):
            known = Place(None, made=("call_function", getattr, (parent, step.name), {}))
        else:
            known = Place(None, parent, step)
        places[path] = known
    return known


@dataclass(frozen=True, slots=True)
class Name:
    """A step of a path that is the name of an attribute."""

    name: str


def _rebuilt(
    value: Any, path: tuple[Any, ...], expression: str, leaf: Callable[[tuple[Any, ...], str, Any], Any]
) -> Any:
    """A copy of a value in which each leaf is what `leaf` returns for it."""
    if isinstance(value, Tensor | torch.Size) or type(value) in PLAIN_TYPES:
        return leaf(path, expression, value)
    if isinstance(value, tuple | list):
        items = [_rebuilt(item, (*path, i), f"{expression}[{i}]", leaf) for i, item in enumerate(value)]
        kind: Any = type(value)
        # The class of a record may want other things than its items.
        return tuple.__new__(kind, items) if is_record(value) else kind(items)
    if isinstance(value, dict):
        copied = copy.copy(value)
        for key, item in value.items():
            copied[key] = _rebuilt(item, (*path, key), f"{expression}[{key!r}]", leaf)
        return copied
    if len(path) <= _DEEPEST and _has_tensors(value, _DEEPEST - len(path)):
        try:
            copied = copy.copy(value)
        except Exception:  # noqa: BLE001 - how an object is copied is up to its class.
            return leaf(path, expression, value)
        for name, item in _parts(value).items():
            object.__setattr__(copied, name, _rebuilt(item, (*path, Name(name)), f"{expression}.{name}", leaf))
        return copied
    return leaf(path, expression, value)


def _has_tensors(value: Any, depth: int) -> bool:
    """Whether an object is a record of values, which may be taken apart, or keeps one, so many steps deep at most."""
    if isinstance(value, _CALLED):
        return False
    parts = _parts(value).values()
    if dataclasses.is_dataclass(value) or any(isinstance(item, Tensor | list | tuple | dict) for item in parts):
        return True
    return depth > 0 and any(_has_tensors(item, depth - 1) for item in parts if type(item) not in PLAIN_TYPES)


def _parts(value: Any) -> dict[str, Any]:
    """The attributes of an object, with the tensors that its class has for it."""
    shared: dict[str, Any] = {}
    for cls in reversed(type(value).__mro__):
        shared.update((name, item) for name, item in vars(cls).items() if isinstance(item, Tensor))
    return {**shared, **state_of(value)}

"""Objects in a graph that no argument can hold: those with tensors inside are built anew in each run, others are kept.

The outputs of models are often records of their library's own, such as caches. Inside a graph such an object is the
call of its class, if that is a record that is made from its fields, or a call of `rebuilt`.
"""

import importlib
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Final

from torch import Tensor, nn
from torch.utils import _pytree as pytree

from fxengine.node import Argument
from fxengine.recording import PLAIN_TYPES

__all__ = [
    "argument_of", "content_of", "is_record", "rebuilt", "slots_of", "state_of", "tensors_in", "with_tensors",
]  # fmt: skip

_DEEPEST: Final = 6
"""How deep what an object holds is compared; what lies deeper is only itself."""

_MOST: Final = 100_000
"""How many objects are looked at in the search for tensors."""


def rebuilt(cls: Any, state: dict[str, Any]) -> Any:
    """Return an object with these attributes, whose class is given, or named as `module:qualified name`."""
    if isinstance(cls, str):
        module, _, name = cls.partition(":")
        cls = importlib.import_module(module)
        for part in name.split("."):
            cls = getattr(cls, part)
    made = cls.__new__(cls)
    for name, value in state.items():
        object.__setattr__(made, name, value)
    return made


def argument_of(
    value: Any,
    create_arg: Callable[[Any], Argument],
    create_node: Callable[..., Any],
    keep: Callable[[Any], Any],
) -> Any:
    """Return what stands for an object in a node's arguments.

    Args:
        value: The object.
        create_arg: Makes an argument of what is in it.
        create_node: Makes a node.
        keep: Makes a node that reads an object as it is.
    """
    if next(tensors_in(value), None) is None:
        return keep(value)
    kind = type(value)
    if is_dataclass(value) and all(field.init for field in fields(value)):
        given = {field.name: getattr(value, field.name) for field in fields(value)}
        if isinstance(value, dict):
            # A record that leaves out what it was not given.
            given = {name: item for name, item in given.items() if item is not None}
        return create_node("call_function", kind, (), {name: create_arg(item) for name, item in given.items()})
    if isinstance(value, dict):
        items = {key: create_arg(item) for key, item in value.items()}
        return create_node("call_function", OrderedDict, (items,), {}) if kind is OrderedDict else items
    cls: Any = f"{kind.__module__}:{kind.__qualname__}" if _can_be_imported(kind) else keep(kind)
    state = {name: create_arg(item) for name, item in state_of(value).items()}
    return create_node("call_function", rebuilt, (cls, state), {})


def _can_be_imported(cls: type) -> bool:
    """Whether a class is found by its name in its module, as one that a function makes is not."""
    found: Any = sys.modules.get(cls.__module__)
    for name in cls.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is cls


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Yield the tensors in a value, in containers and attributes of objects, modules apart."""
    seen: set[int] = set()
    pending: list[Any] = [value]
    while pending and len(seen) < _MOST:
        item = pending.pop()
        if isinstance(item, Tensor):
            yield item
        if id(item) in seen or isinstance(item, Tensor | nn.Module | type | str | int | float):
            continue
        seen.add(id(item))
        if isinstance(item, dict):
            pending += item.values()
        elif isinstance(item, list | tuple | set | frozenset):
            pending += item
        elif not callable(item) or is_dataclass(item):
            pending += state_of(item).values()


def with_tensors(change: Callable[[Tensor], Any], value: Any) -> Any:
    """Return a value in which each tensor is what `change` returns for it. No class is asked to make its records."""

    def changed(leaf: Any) -> Any:
        if is_record(leaf):
            return tuple.__new__(type(leaf), [with_tensors(change, item) for item in leaf])
        return change(leaf) if isinstance(leaf, Tensor) else leaf

    return pytree.tree_map(changed, value, is_leaf=is_record)


def is_record(value: Any) -> bool:
    """Whether a value is a tuple whose items have names."""
    return isinstance(value, tuple) and hasattr(value, "_fields")


def state_of(value: Any) -> dict[str, Any]:
    """Return the attributes of an object, in its dict and in slots."""
    state = dict(getattr(value, "__dict__", ()))
    state.update((name, getattr(value, name)) for name in slots_of(type(value)) if hasattr(value, name))
    return state


def content_of(value: Any, depth: int = 0) -> Any:
    """Return what tells an object from others that hold something else, as something that can be compared.

    What is no plain value, container or object of nothing but attributes is only itself.
    """
    kind = type(value)
    if kind in PLAIN_TYPES:
        return (kind, repr(value))
    if kind in {list, tuple} and depth < _DEEPEST:
        return (kind, tuple(content_of(each, depth + 1) for each in value))
    if kind is dict and depth < _DEEPEST:
        items = ((content_of(key, depth + 1), content_of(each, depth + 1)) for key, each in value.items())
        return (kind, tuple(items))
    # Whoever says how it is copied has more than attributes.
    is_plain = kind.__reduce__ is object.__reduce__ and kind.__reduce_ex__ is object.__reduce_ex__
    state = state_of(value) if is_plain and not isinstance(value, type | nn.Module | Tensor) else {}
    if not state or depth >= _DEEPEST:
        return (kind, id(value))
    return (kind, content_of(state, depth + 1))


def slots_of(kind: type) -> list[str]:
    """Return the names of the attributes that objects of a class have in slots."""
    found: list[str] = []
    for cls in kind.__mro__:
        slots = cls.__dict__.get("__slots__", ())
        names = (slots,) if isinstance(slots, str) else slots
        found += [name for name in names if name not in {"__dict__", "__weakref__"}]
    return found

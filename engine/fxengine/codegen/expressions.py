"""Arguments as Python expressions."""

import enum
import itertools
import keyword
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

import torch
from torch._ops import HigherOrderOperator, OpOverload

from fxengine.codegen.global_names import GlobalNames
from fxengine.immutable_collections import immutable_dict, immutable_list
from fxengine.names import _get_qualified_name
from fxengine.node import Argument, Node

__all__ = ["KEYWORDS", "Expressions", "_format_target", "is_path"]

KEYWORDS: Final = frozenset(keyword.kwlist)

# torch before 2.10 has no opaque values.
_opaque: Any = sys.modules.get("torch._library.opaque_object")
_is_opaque: Callable[[type[Any]], bool] | None = getattr(_opaque, "is_opaque_value_type", None)
_opaque_repr: Callable[[Any], tuple[str, dict[str, Any]]] = getattr(
    _opaque, "get_opaque_obj_repr", lambda value: (repr(value), {})
)

_LITERALS: Final = (type(None), bool, int, float, str)
_CONSTANTS: Final = (
    complex,
    range,
    type(...),
    torch.dtype,
    torch.device,
    torch.memory_format,
    torch.layout,
)
"""Further types whose ``repr`` is an expression."""

_Write: TypeAlias = Callable[[Any], str]


class _LocalNames(dict[Node, str]):
    """The names of nodes in one generated function, each given when it is first looked up.

    A node of another graph, which no correct graph refers to, is called what it calls itself. A name differs from the
    node's own where a global has that already. Such a node also answers ``repr`` with the new name until ``restore``,
    for the sake of containers that are written by ``repr``.
    """

    __slots__ = ("_graph", "_named_before", "_namespace", "_overridden")

    def __init__(self, global_names: GlobalNames, graph: object) -> None:
        super().__init__()
        self._graph = graph
        self._namespace = global_names.namespace
        self._named_before = len(self._namespace._obj_to_name) != len(global_names.values)
        self._overridden: list[tuple[Node, Callable[[Node], str] | None]] = []

    def __missing__(self, node: Node) -> str:
        name = node._name
        if node.graph is not self._graph:
            return repr(node)
        if node._repr_fn is None and not self._named_before and self._namespace.keep_name(name):
            self[node] = name
            return name
        name = self[node] = self._namespace.create_name(name, node)
        if name != node._name or node._repr_fn is not None:
            self._overridden.append((node, node._repr_fn))
            node._repr_fn = self.__getitem__
        return name

    def restore(self) -> None:
        """Let all nodes answer ``repr`` as before; this is what the namespace remembers of their names."""
        for node, repr_fn in self._overridden:
            node._repr_fn = repr_fn
        self._overridden.clear()
        self.update(self._namespace._obj_to_name)
        self._namespace._obj_to_name = self
        del self._namespace


_BY_REPR: Final[Mapping[type[Any], _Write]] = dict.fromkeys((*_LITERALS, *_CONSTANTS), repr)


class _Writers(dict[type[Any], _Write]):
    """How values of each type are written; those of any other type ``otherwise``."""

    __slots__ = ("_otherwise",)

    def __init__(self, known: Mapping[type[Any], _Write], otherwise: _Write) -> None:
        super().__init__(known)
        self._otherwise = otherwise

    def __missing__(self, kind: type[Any]) -> _Write:
        self[kind] = self._otherwise
        return self._otherwise


def _has_parameter(graph: Any, name: str) -> bool:
    """Whether a graph's function has a parameter of a name."""
    inputs = itertools.takewhile(lambda node: node.op == "placeholder", getattr(graph, "nodes", ()))
    return any(node.target == name for node in inputs)


class Expressions:
    """Writes values as expressions of one generated function.

    Attributes:
        names: The name of each node's value.
        writers: By type, what writes a value.
        sound: Whether all that has been written is Python without doubt. Some values are written by a ``repr`` that
            may be anything.
    """

    __slots__ = ("_constant", "_globals", "names", "sound", "writers")

    def __init__(self, global_names: GlobalNames, graph: object, emphasise: Callable[[str], str] | None = None) -> None:
        """Write nodes of a graph and globals with names from ``global_names``; ``emphasise`` colours constants."""
        self._globals = global_names
        constants = _BY_REPR
        self._constant: _Write = repr
        if emphasise is not None:
            self._constant = lambda value: emphasise(repr(value))
            constants = dict.fromkeys(_BY_REPR, self._constant)
        self.sound = True
        self.names = _LocalNames(global_names, graph)
        self.writers = _Writers(
            {
                **constants,
                Node: self.names.__getitem__,
                tuple: self._tuple,
                immutable_list: self._list,
                immutable_dict: self._dict,
            },
            self._write_other,
        )
        if _has_parameter(graph, "device"):  # The parameter hides the class of that name.
            self.writers[torch.device] = lambda value: f"torch.{self._constant(value)}"

    def write(self, value: Any) -> str:
        """Return ``value`` as an expression."""
        return self.writers[type(value)](value)

    def arguments(self, args: Sequence[Argument], kwargs: Mapping[str, Argument]) -> str:
        """Return what stands between the parentheses of a call."""
        writers = self.writers
        if not kwargs and len(args) == 1:
            (arg,) = args
            return writers[type(arg)](arg)
        written = [writers[type(arg)](arg) for arg in args]
        if kwargs:
            written += [f"{key} = {writers[type(value)](value)}" for key, value in kwargs.items()]
            self.sound &= all(map(str.isidentifier, kwargs)) and KEYWORDS.isdisjoint(kwargs)
        return ", ".join(written)

    def operands(self, args: Iterable[Argument]) -> list[str]:
        """Return each of the arguments as an expression."""
        writers = self.writers
        return [writers[type(arg)](arg) for arg in args]

    def _tuple(self, items: tuple[Any, ...]) -> str:
        return f"({self.write(items[0])},)" if len(items) == 1 else f"({', '.join(self.operands(items))})"

    def _list(self, items: list[Any]) -> str:
        return f"[{', '.join(self.operands(items))}]"

    def _dict(self, items: dict[Any, Any]) -> str:
        self.sound &= _is_plain(items)
        return self._constant(items)

    def _opaque(self, value: Any) -> str:
        """Return the expression of a value that torch treats as a constant although it does not know its type."""
        text, needed = _opaque_repr(value)
        for name, kind in needed.items():
            self._globals.add(name, kind)
        return text

    def _write_other(self, value: Any) -> str:
        match value:
            case torch.Tensor():
                dtype = str(value.dtype).rpartition(".")[2]
                return f"torch.Tensor(size={list(value.size())}, dtype={dtype})"
            case tuple() if not hasattr(value, "_fields"):
                return self._tuple(value)
            case list():
                return self._list(value)
            case slice():
                return f"slice({self.write(value.start)}, {self.write(value.stop)}, {self.write(value.step)})"
            case _:
                text = self._write_unusual(value)
                self.sound &= is_path(text)
                return text

    def _write_unusual(self, value: Any) -> str:
        """Return the expression of a value that is written by a global, or as its type likes."""
        match value:
            case tuple():
                return f"{self._globals.add(_get_qualified_name(type(value)), type(value))}{tuple(value)!r}"
            case OpOverload() | HigherOrderOperator():
                return self._globals.add(_get_qualified_name(value), value)
            case enum.Enum():
                return f"{self._globals.add(type(value).__name__, type(value))}.{value.name}"
            case _ if _is_opaque is not None and _is_opaque(type(value)):
                return self._opaque(value)
            case _:
                return self._constant(value)


def _is_plain(value: object) -> bool:
    """Return whether the ``repr`` of a value is an expression without doubt."""
    kind = type(value)
    if kind is tuple or kind is immutable_list:
        return all(map(_is_plain, cast("Iterable[object]", value)))
    if kind is immutable_dict:
        return all(_is_plain(part) for item in cast("dict[object, object]", value).items() for part in item)
    return kind is Node or kind in _BY_REPR


def is_path(text: str) -> bool:
    """Return whether a text is a name, or an attribute of an attribute of a name."""
    return all(part.isidentifier() and part not in KEYWORDS for part in text.split("."))


def _format_target(base: str, target: str) -> str:
    """Return ``base.target``, with ``getattr`` for the parts of a dotted target that are no identifiers."""
    expression = base
    for part in target.split("."):
        expression = f"{expression}.{part}" if part.isidentifier() else f'getattr({expression}, "{part}")'
    return expression

"""Arguments as Python expressions."""

import enum
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload

from fxengine.codegen.global_names import GlobalNames
from fxengine.immutable_collections import immutable_list
from fxengine.names import _get_qualified_name
from fxengine.node import Argument, Node

__all__ = ["Expressions", "_format_target"]

# torch before 2.10 has no opaque values.
_opaque: Any = sys.modules.get("torch._library.opaque_object")
_is_opaque: Callable[[type[Any]], bool] | None = getattr(_opaque, "is_opaque_value_type", None)
_opaque_repr: Callable[[Any], tuple[str, dict[str, Any]]] = getattr(
    _opaque, "get_opaque_obj_repr", lambda value: (repr(value), {})
)

_LITERALS = frozenset({type(None), bool, int, float, str})


class Expressions:
    """Writes values as expressions of one generated function.

    A node is written as its name in the function, which differs from the node's own where a global has that name
    already. Such a node also answers ``repr`` with the new name until ``restore``, for the sake of containers that
    are written by ``repr``.
    """

    __slots__ = ("_emphasise", "_globals", "_names", "_overridden")

    def __init__(self, global_names: GlobalNames, emphasise: Callable[[str], str] | None = None) -> None:
        """Write nodes and globals with names from ``global_names``; ``emphasise`` colours constants."""
        self._globals = global_names
        self._emphasise = emphasise
        self._names = global_names.namespace._obj_to_name
        self._overridden: list[tuple[Node, Callable[[Node], str] | None]] = []

    def name_of(self, node: Node) -> str:
        """Return the name of the node's value."""
        return self._names.get(node) or self.define(node)

    def define(self, node: Node) -> str:
        """Return the name of the node's value, for the statement that makes the value."""
        name = self._globals.namespace.create_name(node._name, node)
        if (name != node._name or node._repr_fn is not None) and node._repr_fn != self.name_of:
            self._overridden.append((node, node._repr_fn))
            node._repr_fn = self.name_of
        return name

    def restore(self) -> None:
        """Let all nodes answer ``repr`` as before."""
        for node, repr_fn in self._overridden:
            node._repr_fn = repr_fn
        self._overridden.clear()

    def write(self, value: Any) -> str:
        """Return ``value`` as an expression; the kinds that are most frequent come first."""
        kind = type(value)
        if kind is Node:
            return self._names.get(value) or self.define(value)
        if kind in _LITERALS:
            return self._constant(value)
        if kind is tuple:
            return self._tuple(value)
        if kind is immutable_list:
            return self._list(value)
        return self._write_other(value)

    def arguments(self, args: Iterable[Argument], kwargs: Mapping[str, Argument]) -> str:
        """Return what stands between the parentheses of a call."""
        names = self._names
        written = [(names.get(arg) or self.define(arg)) if type(arg) is Node else self.write(arg) for arg in args]
        if kwargs:
            written += [f"{key} = {self.write(value)}" for key, value in kwargs.items()]
        return ", ".join(written)

    def operands(self, args: Iterable[Argument]) -> list[str]:
        """Return each of the arguments as an expression."""
        names = self._names
        return [(names.get(arg) or self.define(arg)) if type(arg) is Node else self.write(arg) for arg in args]

    def _constant(self, value: object) -> str:
        return repr(value) if self._emphasise is None else self._emphasise(repr(value))

    def _tuple(self, items: tuple[Any, ...]) -> str:
        return "(" + ", ".join([self.write(item) for item in items]) + (",)" if len(items) == 1 else ")")

    def _list(self, items: list[Any]) -> str:
        return "[" + ", ".join([self.write(item) for item in items]) + "]"

    def _opaque(self, value: Any) -> str:
        """Return the expression of a value that torch treats as a constant although it does not know its type."""
        text, needed = _opaque_repr(value)
        for name, kind in needed.items():
            self._globals.add(name, kind)
        return text

    def _write_other(self, value: Any) -> str:  # noqa: PLR0911 - one for each kind.
        match value:
            case tuple() if hasattr(value, "_fields"):
                return f"{self._globals.add(_get_qualified_name(type(value)), type(value))}{tuple(value)!r}"
            case OpOverload() | HigherOrderOperator():
                return self._globals.add(_get_qualified_name(value), value)
            case enum.Enum():
                return f"{self._globals.add(type(value).__name__, type(value))}.{value.name}"
            case torch.Tensor():
                dtype = str(value.dtype).rpartition(".")[2]
                return f"torch.Tensor(size={list(value.size())}, dtype={dtype})"
            case tuple():
                return self._tuple(value)
            case list():
                return self._list(value)
            case slice():
                return f"slice({self.write(value.start)}, {self.write(value.stop)}, {self.write(value.step)})"
            case _ if _is_opaque is not None and _is_opaque(type(value)):
                return self._opaque(value)
            case _:
                return self._constant(value)


def _format_target(base: str, target: str) -> str:
    """Return ``base.target``, with ``getattr`` for the parts of a dotted target that are no identifiers."""
    expression = base
    for part in target.split("."):
        expression = f"{expression}.{part}" if part.isidentifier() else f'getattr({expression}, "{part}")'
    return expression

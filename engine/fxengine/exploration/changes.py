"""Values that operations change in place: which state of a value an operation sees, and what a change makes of it.

A graph records `x.unsqueeze_(0)` as an operation like any other, and what comes after it still refers to `x`. So a
value has states, one for each change, and who reads it sees the one that the last change before it has left.
"""

import copy
import functools
import operator
from bisect import bisect_left
from typing import Any, Final

from torch import Tensor

from fxengine.graph import Graph
from fxengine.node import Node

_ITEMS: Final = frozenset({operator.setitem, operator.delitem})


class States:
    """The states of the values of a graph that grows. Mutable: it has seen the graph as far as it had come."""

    def __init__(self) -> None:
        self._seen: Node | None = None
        self._first: dict[Node, Node] = {}
        self._changes: dict[Node, list[Node]] = {}

    def of(self, value: Node, reader: Node | None) -> Node:
        """The value, or the operation that has changed it last before a reader; None reads after all that there is."""
        self._look_on(value.graph)
        first = self._first.get(value, value)
        changes = self._changes.get(first, [])
        place = len(changes) if reader is None else bisect_left(changes, reader)
        return changes[place - 1] if place else first

    def _look_on(self, graph: Graph) -> None:
        """Look at what was recorded since the last time."""
        if self._seen is None or self._seen.graph is not graph:
            self._seen = graph._root
            self._first.clear()
            self._changes.clear()
        while (node := self._seen._next) is not graph._root:
            value = _changed_by(node)
            if value is not None:
                first = self._first[node] = self._first.get(value, value)
                self._changes.setdefault(first, []).append(node)
            self._seen = node


def is_change(node: Node) -> bool:
    """Whether an operation changes its first argument in place."""
    return _changed_by(node) is not None


def changed(node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What an operation makes of its first argument, which is left as it is."""
    first, *others = args
    made = first.clone() if isinstance(first, Tensor) else copy.copy(first)
    target: Any = node.target
    if node.op == "call_method":
        getattr(made, target)(*others, **kwargs)
    else:
        target(made, *others, **kwargs)
    return made


def _changed_by(node: Node) -> Node | None:
    """The value that an operation changes in place; None if it changes none."""
    if node.op not in {"call_method", "call_function"} or not node.args or not _changes(node.target):
        return None
    value = node.args[0]
    return value if isinstance(value, Node) else None


@functools.lru_cache(maxsize=1024)
def _changes(target: Any) -> bool:
    """Whether a method or function changes its first argument, as its name tells."""
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    return (name[-1:] == "_" and name[-2:] != "__") or target in _ITEMS

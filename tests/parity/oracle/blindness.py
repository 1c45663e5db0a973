"""Symbolic values that may be anything: what calls give that were not traced through, and of which nothing is known."""

import operator
from collections.abc import Iterable, Iterator
from typing import Any

import torch.fx


class Blindness:
    """The nodes of a run whose values may be anything. Mutable."""

    def __init__(self) -> None:
        self._nodes: set[torch.fx.Node] = set()

    def __bool__(self) -> bool:
        return bool(self._nodes)

    def __iter__(self) -> Iterator[torch.fx.Node]:
        return iter(self._nodes)

    def add(self, node: torch.fx.Node) -> None:
        """Take a node for one whose value may be anything."""
        self._nodes.add(node)

    def covers(self, symbol: torch.fx.Proxy) -> bool:
        """Whether a symbolic value is such a value, or a part of one."""
        node = identity_of(symbol)
        while isinstance(node, tuple):
            node = node[0]
        while node is not None and node not in self._nodes:
            is_part = node.target in (getattr, operator.getitem)
            node = node.args[0] if is_part and isinstance(node.args[0], torch.fx.Node) else None
        return node is not None

    def among(self, values: Iterable[Any]) -> set[bool]:
        """For the symbolic values among some, and in lists of theirs, whether they may be anything."""
        return {self.covers(symbol) for symbol in _symbols_in(values)}


def identity_of(symbol: Any) -> Any:
    """What two symbolic values have in common that are the same: their node, or the attribute of the same value."""
    known = vars(symbol)
    if known.get("node") is not None or known.get("_node") is not None:
        return known.get("node") or known["_node"]
    return identity_of(known["root"]), known["attr"]


def _symbols_in(values: Iterable[Any]) -> Iterator[torch.fx.Proxy]:
    for value in values:
        if isinstance(value, torch.fx.Proxy):
            yield value
        elif isinstance(value, list | tuple):
            yield from _symbols_in(value)

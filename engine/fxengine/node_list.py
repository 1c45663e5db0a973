"""The list of a graph's nodes: how it is walked, where new nodes go in, and how nodes are found by what they do."""

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Literal, TypeAlias

from fxengine.node import Node, Target

if TYPE_CHECKING:
    from fxengine.graph import Graph

__all__ = ["_FindNodesLookupTable", "_InsertPoint", "_node_list"]

_Key: TypeAlias = tuple[str, Target | None]


class _node_list:  # noqa: N801 - the name is torch.fx's.
    """A view of a graph's nodes in order. The graph may be changed while one iterates, the current node erased."""

    __slots__ = ("direction", "graph")

    def __init__(self, graph: "Graph", direction: Literal["_prev", "_next"] = "_next") -> None:
        assert direction in {"_next", "_prev"}, f"direction must be '_next' or '_prev', got {direction}"
        self.graph = graph
        self.direction = direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        return (_backward if self.direction == "_prev" else _forward)(self.graph._root)

    def __reversed__(self) -> Iterator[Node]:
        return (_backward if self.direction == "_next" else _forward)(self.graph._root)


def _forward(root: Node) -> Iterator[Node]:
    node = root._next
    while node is not root:
        if not node._erased:
            yield node
        node = node._next


def _backward(root: Node) -> Iterator[Node]:
    node = root._prev
    while node is not root:
        if not node._erased:
            yield node
        node = node._prev


class _InsertPoint:
    """Sets the place where a graph puts new nodes; as a context manager, sets back the one before on exit."""

    __slots__ = ("graph", "orig_insert")

    def __init__(self, graph: "Graph", new_insert: Callable[[Node], None]) -> None:
        self.graph = graph
        self.orig_insert, graph._insert = graph._insert, new_insert

    def __enter__(self) -> None:
        """The place is set already: without ``with`` it stays."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.graph._insert = self.orig_insert


class _FindNodesLookupTable:
    """The nodes of a graph by opcode, those that call functions by function too."""

    __slots__ = ("table",)

    def __init__(self) -> None:
        self.table: dict[_Key, dict[Node, None]] = {}

    def __contains__(self, node: object) -> bool:
        return isinstance(node, Node) and node in self.table.get(_key(node), ())

    def insert(self, node: Node) -> None:
        """Add ``node`` under what it does now."""
        self.table.setdefault(_key(node), {})[node] = None

    def remove(self, node: Node) -> None:
        """Remove ``node``, which must do what it did when it was added."""
        self.table[_key(node)].pop(node)

    def find_nodes(self, *, op: str, target: Target | None = None) -> list[Node]:
        """Return the nodes with this opcode and target, in the order in which they were added."""
        if op == "call_function":
            assert target is not None, "target must not be None for call_function op"
            return list(self.table.get((op, target), ()))
        nodes = self.table.get((op, None), ())
        return [node for node in nodes if target is None or node._target == target]


def _key(node: Node) -> _Key:
    return node._op, node._target if node._op == "call_function" else None

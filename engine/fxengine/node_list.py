"""The list of a graph's nodes: how it is walked, where new nodes go in, and how nodes are found by what they do."""

from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from fxengine.arguments import freeze
from fxengine.immutable_collections import immutable_dict
from fxengine.names import _Namespace
from fxengine.node import Node, Target
from fxengine.node_fields import fill

if TYPE_CHECKING:
    from fxengine.graph import Graph
    from fxengine.graph_module import GraphModule

__all__ = ["NO_KWARGS", "NodeSequence", "_FindNodesLookupTable", "_InsertPoint", "_node_list"]

_Key: TypeAlias = tuple[str, Target | None]

NO_KWARGS: Final[dict[str, Any]] = immutable_dict()
"""The keyword arguments of a node without any."""

_blank_node = object.__new__


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


class NodeSequence:
    """The part of ``Graph`` that holds nodes: their list, their names, the place of new ones, and the table.

    Attributes:
        _root: Stands before the first node and after the last.
        _insert: Puts a new node in its place.
        _at_end: What ``_insert`` is if that is the end.
        _len: How many nodes there are.
        _graph_namespace: The names that are taken.
        _lookup_table: The table behind ``find_nodes``, once somebody has asked for it.
        _owning_module: The module that the graph's targets refer to.
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_at_end",
        "_graph_namespace",
        "_insert",
        "_len",
        "_lookup_table",
        "_owning_module",
        "_root",
    )

    def __init__(self, owning_module: "GraphModule | None") -> None:
        self._lookup_table: _FindNodesLookupTable | None = None
        self._owning_module = owning_module
        self._root: Node = Node(cast("Graph", self), "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._at_end = self._insert
        self._len = 0
        self._graph_namespace = _Namespace()

    @property
    def _find_nodes_lookup_table(self) -> _FindNodesLookupTable:
        """The table behind ``find_nodes``; made when it is first asked for and kept up to date from then on."""
        table = self._lookup_table
        if table is None:
            table = _FindNodesLookupTable()
            for node in _forward(self._root):
                table.insert(node)
            self._lookup_table = table
        return table

    def _append(
        self,
        op: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str,
        type_expr: Any | None = None,
        inputs: Iterable[Node] | None = None,
    ) -> Node:
        """Create a node out of parts that are right already; what ``create_node`` does after its checks.

        This is the way for a tracer, which has made the arguments itself.

        Args:
            op: One of the six opcodes.
            target: What is called or read, of the type that fits the opcode.
            args: The positional arguments, in which all lists and dicts are immutable ones.
            kwargs: The keyword arguments, an ``immutable_dict`` likewise.
            name: What the value should be called; made unique.
            type_expr: The annotation of the value.
            inputs: The nodes in ``args`` and ``kwargs``, each once, in order of appearance. None if they are still to
                be collected.
        """
        if inputs is None:
            inputs = dict[Node, None]()
            freeze(args, inputs)
            freeze(kwargs, inputs)
        node = _blank_node(Node)
        name = self._graph_namespace.create_name(name, None)
        fill(node, self, name, op, target, args, kwargs, type_expr, inputs)  # pyright: ignore[reportArgumentType] - a Graph.
        owner = self._owning_module
        if owner is not None:
            for hook in getattr(owner, "_create_node_hooks", None) or ():
                hook(node)
        if self._insert is self._at_end:
            root = self._root
            last = root._prev
            node._prev, node._next = last, root
            last._next = root._prev = node
            key = last._sort_key
            node._sort_key = (key[0] + 1,) if key else (0,)
        else:
            self._insert(node)
        if self._lookup_table is not None:
            self._lookup_table.insert(node)
        self._len += 1
        return node


def _key(node: Node) -> _Key:
    return node._op, node._target if node._op == "call_function" else None

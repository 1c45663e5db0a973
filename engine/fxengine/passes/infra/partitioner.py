"""Divides a graph by what a back end can run: as few and as large parts as can be, without circles."""

import itertools
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from operator import itemgetter

from fxengine.graph import own_graph
from fxengine.graph_module import GraphModule
from fxengine.names import _get_qualified_name
from fxengine.node import Node
from fxengine.passes.operator_support import OperatorSupportBase
from fxengine.passes.utils.fuser_utils import fuse_by_partitions

__all__ = ["CapabilityBasedPartitioner", "Partition"]

logger = logging.getLogger(__name__)

_NON_COMPUTE_OPS = frozenset({"torch.ops.aten.view", "_operator.getitem"})


class Partition:
    """A set of nodes. Mutable.

    Attributes:
        id: Its number.
        nodes: Its nodes in order, each with its place counted from the end of the graph, where that is known.
    """

    def __init__(
        self,
        id: int | None = None,  # noqa: A002 - torch.fx's name.
        nodes: Iterable[Node] | None = None,
        node_orders: Iterable[int] | None = None,
    ) -> None:
        self.id = id
        self.nodes: dict[Node, int | None] = {}
        if nodes is not None and node_orders is not None:
            self.nodes = dict(zip(nodes, node_orders, strict=True))
        elif nodes is not None:
            self.nodes = dict.fromkeys(nodes)

    def __repr__(self) -> str:
        return str(self.nodes)

    def add_node(self, node: Node, node_order: int | None = None) -> None:
        """Add a node."""
        self.nodes[node] = node_order

    def remove_node(self, node: Node) -> None:
        """Remove a node."""
        del self.nodes[node]

    def size(self) -> int:
        """Return how many nodes there are."""
        return len(self.nodes)


class _DependencyViewer:
    """What depends on each node of a graph as it is now, directly or through others.

    Attributes:
        downstreams: The nodes that depend on each.
    """

    def __init__(self, graph_module: GraphModule) -> None:
        self.downstreams: defaultdict[Node, set[Node]] = defaultdict(set)
        for node in reversed(graph_module.graph.nodes):
            for user in node.users:
                self.downstreams[node] |= {user, *self.downstreams[user]}

    def downstreams_of(self, node: Node) -> set[Node]:
        """Return the nodes that depend on ``node``."""
        return self.downstreams[node]


class CapabilityBasedPartitioner:
    """Proposes parts of a graph that a back end can run, and fuses them.

    Attributes:
        graph_module: The module whose graph is divided.
        operator_support: Says which nodes the back end can run.
        allows_single_node_partition: Keep parts with one node that computes something.
        non_compute_ops: Qualified names of functions that do not count as computing.
        allowed_single_node_partition_ops: Qualified names of functions that may be a part on their own all the same.
        skip_horizontal_fusion: Only join parts along data dependencies, not side by side.
    """

    def __init__(
        self,
        graph_module: GraphModule,
        operator_support: OperatorSupportBase,
        allows_single_node_partition: bool = False,
        non_compute_ops: Sequence[str] | None = None,
        allowed_single_node_partition_ops: Sequence[str] | None = None,
        skip_horizontal_fusion: bool = False,
    ) -> None:
        own_graph(graph_module.graph)
        self.graph_module = graph_module
        self.operator_support = operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = non_compute_ops or []
        self.allowed_single_node_partition_ops = allowed_single_node_partition_ops or []
        self.skip_horizontal_fusion = skip_horizontal_fusion
        self._submodules = dict(graph_module.named_modules())

    @cached_property
    def dependency_viewer(self) -> _DependencyViewer:
        """What depends on each node; made when it is first asked for."""
        return _DependencyViewer(self.graph_module)

    def _is_node_supported(self, node: Node) -> bool:
        return self.operator_support.is_node_supported(self._submodules, node)

    def propose_partitions(self) -> list[Partition]:
        """Return the parts: each holds supported nodes only and can become one node without a circle."""
        proposal = _Proposal(self.graph_module)
        for place, node in enumerate(reversed(self.graph_module.graph.nodes)):
            created = proposal.create(node, place) if self._is_node_supported(node) else None
            begin = [created] if created is not None else []
            if not self.skip_horizontal_fusion:
                proposal.merge_all([*begin, *proposal.in_order()])
            elif created is not None:
                proposal.merge_all([*begin, *proposal.parts_of(node.users)])
        for partition in proposal.partitions.values():
            ordered = sorted(partition.nodes.items(), key=lambda item: item[1] or 0, reverse=True)
            partition.nodes = dict(ordered)
        while proposal.reassign_items():
            pass
        kept = proposal.partitions.values()
        if not self.allows_single_node_partition:
            kept = [partition for partition in kept if self._weight(partition) > 1]
        return [partition for partition in kept if partition.size() > 0]

    def _weight(self, partition: Partition) -> int:
        """Return how many nodes compute something; what may stand alone counts twice."""
        ignored = _NON_COMPUTE_OPS | set(self.non_compute_ops)
        names = [_get_qualified_name(node.target) for node in partition.nodes if not isinstance(node.target, str)]
        return sum((name not in ignored) + (name in self.allowed_single_node_partition_ops) for name in names)

    def fuse_partitions(self, partitions: list[Partition], prefix: str = "fused_") -> GraphModule:
        """Make each part a submodule of the module, which is changed, and return it."""
        return fuse_by_partitions(self.graph_module, [partition.nodes for partition in partitions], prefix=prefix)

    def partition_and_fuse(self, prefix: str = "fused_") -> GraphModule:
        """Propose parts, make each a submodule, and return the module, which is changed."""
        return self.fuse_partitions(self.propose_partitions(), prefix=prefix)

    def remove_bookend_non_compute_ops(self, partitions: list[Partition]) -> None:
        """Take out of the parts what does not compute and lies at their edges."""
        for partition in partitions:
            inside = set(partition.nodes)
            removed: set[Node] = set()
            before = self._edge(inside, removed, lambda node: node.all_input_nodes)
            after = self._edge(inside, removed, lambda node: node.users)
            for node in list(partition.nodes):
                if self._is_non_compute(node) and (before(node) or after(node)):
                    removed.add(node)
            for node in removed:
                partition.remove_node(node)

    def _edge(
        self, inside: set[Node], removed: set[Node], neighbours: Callable[[Node], Iterable[Node]]
    ) -> Callable[[Node], bool]:
        """Return whether there is nothing that computes between a node and the edge, in one direction."""
        known: dict[Node, bool] = {}

        def is_free(node: Node) -> bool:
            if node.op == "placeholder" or node not in inside or node in removed:
                return True
            if node not in known:
                known[node] = self._is_non_compute(node) and all(map(is_free, neighbours(node)))
            return known[node]

        return is_free

    def _is_non_compute(self, node: Node) -> bool:
        return not isinstance(node.target, str) and _get_qualified_name(node.target) in self.non_compute_ops


class _Proposal:
    """The parts while they grow. Mutable.

    Invariants:
        No part can reach itself through nodes or parts outside of it.
    """

    def __init__(self, graph_module: GraphModule) -> None:
        self.graph_module = graph_module
        self.partitions: dict[int, Partition] = {}
        self.assignment: dict[Node, int] = {}
        self._first: dict[int, int] = {}
        """For each part the number of the oldest of the parts that it was made of."""
        self._users: dict[int, set[Node]] = {}
        self._reachable: dict[int, set[int]] = {}
        self._downstream: dict[Node, set[Node]] = {}
        self._numbers = itertools.count()
        for node in reversed(graph_module.graph.nodes):
            below = self._downstream[node] = set(node.users)
            for user in node.users:
                below |= self._downstream[user]

    def create(self, node: Node, place: int) -> int:
        """Make a part of one node and return its number."""
        number = next(self._numbers)
        self.assignment[node] = number
        self.partitions[number] = Partition(number, [node], [place])
        self._first[number] = number
        self._users[number] = set(node.users)
        self._reachable[number] = self._parts_below(node.users) - {number}
        return number

    def in_order(self) -> list[int]:
        """Return the parts, the oldest first."""
        return [number for number, _ in sorted(self._first.items(), key=itemgetter(1))]

    def parts_of(self, nodes: Iterable[Node]) -> list[int]:
        """Return the parts that ``nodes`` are in, each once."""
        return list(dict.fromkeys(self.assignment[node] for node in nodes if node in self.assignment))

    def merge_all(self, numbers: Iterable[int]) -> None:
        """Join the parts with the first one, as far as that makes no circle."""
        rest = iter(dict.fromkeys(numbers))
        current = next(rest, None)
        for other in rest:
            assert current is not None
            current = self._merge(current, other)

    def _merge(self, first: int, second: int) -> int:
        """Join two parts if they can be one; return the number of the part that the first is now in."""
        nodes, others = self.partitions[first].nodes, self.partitions[second].nodes
        users = (self._users[first] | self._users[second]) - nodes.keys() - others.keys()
        if self._leads_back(users, first, second):
            return first
        kept, gone = (second, first) if len(nodes) < len(others) else (first, second)
        removed = self.partitions.pop(gone)
        self.partitions[kept].nodes.update(removed.nodes)
        self.assignment.update(dict.fromkeys(removed.nodes, kept))
        self._first[kept] = min(self._first[kept], self._first.pop(gone))
        self._users.pop(gone)
        self._users[kept] = users
        reachable = self._reachable[kept] | self._reachable.pop(gone) | self._parts_below(users)
        self._reachable[kept] = reachable - {kept, gone}
        return kept

    def _leads_back(self, users: Iterable[Node], first: int, second: int) -> bool:
        """Return whether a path from ``users`` leads into one of two parts, through nodes or through other parts."""
        both = {first, second}
        for user in users:
            for node in (user, *self._downstream[user]):
                number = self.assignment.get(node)
                if number is not None and (number in both or not both.isdisjoint(self._reachable[number])):
                    return True
        return False

    def _parts_below(self, nodes: Iterable[Node]) -> set[int]:
        """Return the parts that can be reached from ``nodes``, and from the parts on the way."""
        found: set[int] = set()
        for start in nodes:
            for node in (start, *self._downstream[start]):
                number = self.assignment.get(node)
                if number is not None:
                    found |= {number, *self._reachable.get(number, ())}
        return found

    def reassign_items(self) -> bool:
        """Move what only takes a tuple apart to where the tuple is made; return whether anything moved."""
        moves: dict[Node, int | None] = {}
        for node in self.graph_module.graph.nodes:
            if all(_takes_item(user) for user in node.users):
                number = self.assignment.get(node)
                moves.update({user: number for user in node.users if self.assignment.get(user) != number})
        for node, number in moves.items():
            old = self.assignment.pop(node, None)
            if old is not None:
                self.partitions[old].remove_node(node)
            if number is not None:
                self.assignment[node] = number
                self.partitions[number].add_node(node)
        return bool(moves)


def _takes_item(node: Node) -> bool:
    return not isinstance(node.target, str) and _get_qualified_name(node.target) == "_operator.getitem"

"""What passes that divide graphs share: names of what nodes call, order, and groups that must stay together."""

import collections
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from fxengine.graph import Graph, own_graph
from fxengine.graph_module import GraphModule
from fxengine.names import _get_qualified_name
from fxengine.node import Node
from fxengine.passes.utils.ordering import topo_sort

__all__ = [
    "FxNetAccFusionsFinder",
    "get_acc_ops_name",
    "get_node_target",
    "is_node_output_tensor",
    "legalize_graph",
    "stable_topological_sort",
]

Tensors: TypeAlias = tuple[torch.Tensor] | list[torch.Tensor]
TensorOrTensors: TypeAlias = torch.Tensor | Tensors
NodeList: TypeAlias = list[Node]
NodeSet: TypeAlias = set[Node]
Names: TypeAlias = list[str]
CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}


def get_acc_ops_name(k: str | type) -> str:
    """Return the name of a function or type: in short for those of ``acc_ops``, else qualified."""
    if isinstance(k, str):
        return k
    if k.__module__ and "acc_ops" in k.__module__:
        return f"acc_ops.{k.__name__}"
    module = k.__module__.replace("torch._ops", "torch.ops") if k.__module__ else ""
    return f"{module}.{k.__name__}"


def get_node_target(submodules: Mapping[str, torch.nn.Module], node: Node) -> str:
    """Return the name of what ``node`` calls: a method's, a function's, or that of a module's type.

    Raises:
        AssertionError: The node is no call.
    """
    assert node.op in CALLABLE_NODE_OPS, f"Expect op types of {', '.join(CALLABLE_NODE_OPS)}, but found {node.op}"
    if node.op == "call_module":
        submodule = submodules[str(node.target)]
        return get_acc_ops_name(getattr(submodule, "_base_class_origin", type(submodule)))
    if isinstance(node.target, str):
        return node.target
    if "acc_ops" in (getattr(node.target, "__module__", None) or ""):
        return f"acc_ops.{node.target.__name__}"
    return _get_qualified_name(node.target)


def is_node_output_tensor(node: Node) -> bool:
    """Return whether ``node`` makes a tensor, as shape propagation noted in ``meta["type"]``."""
    found = node.meta.get("type")
    return found is not None and issubclass(found, torch.Tensor)


class FxNetAccFusionsFinder:
    """Finds groups of nodes that pass each other something that is no tensor, and so cannot be parted.

    Called without arguments it returns for each such node its group. Groups that are not wholly among the nodes it was
    given are taken out of these.

    Attributes:
        acc_nodes: The nodes that may be in groups; shrinks as groups that lead outside are dropped.
    """

    def __init__(self, module: GraphModule, acc_nodes: NodeSet) -> None:
        self.module = module
        self.nodes = list(module.graph.nodes)
        self.acc_nodes = acc_nodes
        self.node_index = {node: index for index, node in enumerate(self.nodes)}

    @dataclass
    class FusionGroup:
        """A group that is being put together. Mutable."""

        top_node_idx: int
        """The place of its first node in the graph."""
        nodes: NodeSet
        inputs: NodeSet
        nodes_need_process: NodeSet
        """Nodes whose neighbours have not been looked at."""

        def add_node(self, node: Node) -> None:
            """Add a node, and account for its inputs."""
            if node in self.nodes:
                return
            self.nodes_need_process.add(node)
            self.nodes.add(node)
            self.inputs.discard(node)
            self.inputs.update(
                source for source in node.all_input_nodes if source.op in CALLABLE_NODE_OPS and source not in self.nodes
            )

    def recursive_add_node(
        self,
        fusion_group: FusionGroup,
        inputs: Iterable[Node],
        visited: NodeSet | None = None,
    ) -> bool:
        """Add to the group every node on a path from it to one of ``inputs``; return whether there was a path."""
        for source in list(inputs):
            if visited is not None:
                if source in visited:
                    continue
                visited.add(source)
            if source.op not in CALLABLE_NODE_OPS or self.node_index[source] < fusion_group.top_node_idx:
                continue
            if source in fusion_group.nodes:
                return True
            if self.recursive_add_node(fusion_group, source.all_input_nodes, visited):
                fusion_group.add_node(source)
                return True
        return False

    def __call__(self) -> dict[Node, NodeSet]:
        """Return for each node that is in a group its group."""
        result: dict[Node, NodeSet] = {}
        for node in sorted(self.acc_nodes):
            eligible = node.op in CALLABLE_NODE_OPS and "tensor_meta" not in node.meta and node in self.acc_nodes
            if node in result or not eligible:
                continue
            group = self._group_around(node)
            if group.nodes <= self.acc_nodes:
                result.update(dict.fromkeys(group.nodes, group.nodes))
            else:
                self.acc_nodes -= group.nodes
        return result

    def _group_around(self, node: Node) -> FusionGroup:
        """Return the smallest group with ``node`` that exchanges only tensors with the rest."""
        group = self.FusionGroup(self.node_index[node], {node}, set(node.all_input_nodes), {node})
        while group.nodes_need_process:
            current = group.nodes_need_process.pop()
            self.recursive_add_node(group, group.inputs, visited=set())
            if "tensor_meta" not in current.meta:
                for user in current.users:
                    if user.op in CALLABLE_NODE_OPS and user not in group.nodes:
                        group.add_node(user)
                        self.recursive_add_node(group, group.inputs, visited=set())
            for source in current.all_input_nodes:
                if source.op in CALLABLE_NODE_OPS and "tensor_meta" not in source.meta and source not in group.nodes:
                    group.add_node(source)
                    group.top_node_idx = min(group.top_node_idx, self.node_index[source])
                    self.recursive_add_node(group, group.inputs, visited=set())
        return group


_FIRST_WHEN_READY: frozenset[Callable[..., Any]] = frozenset(
    {
        operator.add,
        operator.mul,
        operator.sub,
        operator.floordiv,
        operator.truediv,
        operator.mod,
        operator.le,
        operator.lt,
        operator.ge,
        operator.gt,
        operator.eq,
        operator.ne,
        torch.ops.aten.sym_constrain_range.default,
        torch.ops.aten.sym_constrain_range_for_size.default,
        torch.ops.aten._assert_async.msg,
        torch.ops.aten.scalar_tensor.default,
        torch.ops.aten._assert_scalar.default,
    }
)
"""What assertions about sizes are made of: they come before what relies on them."""


def legalize_graph(gm: GraphModule) -> GraphModule:
    """Give ``gm`` a graph of the same nodes, each after those it depends on, and return it.

    The order of independent nodes is not kept; ``stable_topological_sort`` keeps it.

    Raises:
        RuntimeError: Nodes depend on each other in a circle.
    """
    waiting = {node: len(node.all_input_nodes) for node in own_graph(gm.graph).nodes}
    ready = collections.deque(node for node, count in waiting.items() if not count)
    ordered: list[Node] = []
    while ready:
        node = ready.popleft()
        ordered.append(node)
        for user in node.users:
            waiting[user] -= 1
            if not waiting[user]:
                (ready.appendleft if user.target in _FIRST_WHEN_READY else ready.append)(user)
    if len(ordered) < len(waiting):
        left = [node for node, count in waiting.items() if count]
        raise RuntimeError(f"Input graph has cycles, unable to add {left}")
    return _reordered(gm, ordered)


def stable_topological_sort(gm: GraphModule) -> GraphModule:
    """Give ``gm`` a graph of the same nodes, each after those it depends on, otherwise in the old order; return it.

    Raises:
        AssertionError: Nodes depend on each other in a circle.
    """
    return _reordered(gm, topo_sort(gm.graph.nodes))


def _reordered(gm: GraphModule, nodes: list[Node]) -> GraphModule:
    graph = Graph()
    copies: dict[Node, Node] = {}
    for node in nodes:
        copies[node] = graph.node_copy(node, lambda source: copies[source])
    graph._codegen = gm.graph._codegen
    gm.graph = graph
    return gm

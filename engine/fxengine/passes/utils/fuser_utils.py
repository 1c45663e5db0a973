"""Sets of nodes of a graph become modules of their own, each called by one node."""

import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import getitem

from fxengine.graph import Graph
from fxengine.graph_module import GraphModule
from fxengine.names import found_in
from fxengine.node import Node
from fxengine.passes.tools_common import stable_topological_sort
from fxengine.passes.utils.common import lift_subgraph_as_module
from fxengine.passes.utils.ordering import topo_sort, validate_partition

__all__ = [
    "erase_nodes",
    "fuse_as_graphmodule",
    "fuse_by_partitions",
    "insert_subgm",
    "topo_sort",
    "validate_partition",
]

found_in(__name__, topo_sort, validate_partition)


def fuse_by_partitions(
    gm: GraphModule,
    partitions: Iterable[Mapping[Node, int | None]],
    prefix: str = "fused_",
    always_return_tuple: bool = False,
) -> GraphModule:
    """Make each of ``partitions`` a submodule ``fused_0``, ``fused_1``, ... of ``gm``, and return ``gm``.

    Args:
        gm: The module, changed in place.
        partitions: Sets of its nodes.
        prefix: The beginning of the submodules' names.
        always_return_tuple: Let submodules with one result return a tuple too.

    Raises:
        AssertionError: A partition cannot be one node, as it needs something that is computed from its own results.
    """
    for index, partition in enumerate(partitions):
        nodes = topo_sort(partition)
        fused, inputs, outputs = fuse_as_graphmodule(
            gm, nodes, f"{prefix}{index}", partition, always_return_tuple=always_return_tuple
        )
        insert_subgm(gm, fused, inputs, outputs, nodes[-1])
        erase_nodes(gm, nodes)
    stable_topological_sort(gm)
    gm.graph.lint()
    return gm


def fuse_as_graphmodule(
    gm: GraphModule,
    nodes: Sequence[Node],
    module_name: str,
    partition_lookup_table: Collection[Node] | None = None,
    *,
    always_return_tuple: bool = False,
) -> tuple[GraphModule, tuple[Node, ...], tuple[Node, ...]]:
    """Return ``nodes`` as a module, and which nodes of ``gm`` are its inputs and its outputs. ``gm`` is not changed.

    Args:
        gm: The module whose nodes they are.
        nodes: The nodes, each after those it depends on.
        module_name: The name of the new module's class.
        partition_lookup_table: The same nodes in a container that is quick to ask.
        always_return_tuple: Let a module with one result return a tuple too.

    Raises:
        AssertionError: They are not nodes of ``gm``, or they need what is computed from their results.
    """
    _check_belong(gm, nodes)
    assert validate_partition(nodes), "Invalid partition, found dependency cycles"
    inside = set(nodes) if partition_lookup_table is None else partition_lookup_table
    subgraph = Graph()
    placeholders: dict[Node, Node] = {}
    copies: dict[Node, Node] = {}

    def inner(node: Node) -> Node:
        if node in inside:
            return copies[node]
        if node not in placeholders:
            placeholder = subgraph.placeholder(node.name, type_expr=node.type)
            placeholder.meta = copy.copy(node.meta)
            placeholder.tensor = node.tensor
            placeholders[node] = placeholder
        return placeholders[node]

    for node in nodes:
        copies[node] = subgraph.node_copy(node, inner)
    outputs = tuple(node for node in nodes if any(user not in inside for user in node.users))
    results = tuple(copies[node] for node in outputs)
    subgraph.output(results[0] if len(results) == 1 and not always_return_tuple else results)
    subgraph.lint()
    fused, _ = lift_subgraph_as_module(gm, subgraph, comp_name="", class_name=module_name)
    return fused, tuple(placeholders), outputs


def _check_belong(gm: GraphModule, nodes: Sequence[Node]) -> None:
    for node in nodes:
        assert node.graph.owning_module is gm, f"{node} doesn't belong to passed in graph module {gm._get_name()}"
        assert not node._erased, f"{node} has been removed from owning graph"
        assert node in gm.graph._find_nodes_lookup_table, f"{node} is not found in graph module {gm._get_name()}"


def insert_subgm(
    gm: GraphModule,
    sub_gm: GraphModule,
    orig_inputs: tuple[Node, ...],
    orig_outputs: tuple[Node, ...],
    insertion_point: Node | None = None,
) -> GraphModule:
    """Call ``sub_gm`` in ``gm`` and let its results be used in place of ``orig_outputs``; return ``gm``.

    Args:
        gm: The module, changed in place.
        sub_gm: What to call; becomes a submodule named like its class.
        orig_inputs: The nodes to pass.
        orig_outputs: The nodes whose values it returns.
        insertion_point: The node after which it is called; by default the last of ``orig_outputs``.

    Raises:
        AssertionError: It is not said where to call it.
    """
    name = type(sub_gm).__name__
    gm.add_submodule(name, sub_gm)
    if insertion_point is None:
        insertion_point = next((node for node in reversed(gm.graph.nodes) if node in orig_outputs), None)
        assert insertion_point is not None, (
            "Cannot determine insertion point: no insertion_point provided and orig_outputs is empty. "
            "Pass the last partition node as insertion_point."
        )
    with gm.graph.inserting_after(insertion_point):
        call = gm.graph.call_module(name, args=orig_inputs, kwargs=None)
    returned = sub_gm.graph.output_node().args[0]
    if not orig_outputs:
        return gm
    if len(orig_outputs) == 1 and not isinstance(returned, tuple):
        orig_outputs[0].replace_all_uses_with(call, propagate_meta=True)
        return gm
    with gm.graph.inserting_before(call.next):
        for index, original in enumerate(orig_outputs):
            item = gm.graph.call_function(getitem, (call, index))
            original.replace_all_uses_with(item, propagate_meta=True)
    call.meta["val"] = tuple(original.meta.get("val") for original in orig_outputs)
    return gm


def erase_nodes(gm: GraphModule, nodes: Sequence[Node]) -> None:
    """Remove ``nodes``, each after those it depends on, from ``gm``'s graph."""
    for node in reversed(nodes):
        gm.graph.erase_node(node)

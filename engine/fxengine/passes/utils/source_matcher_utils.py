"""Nodes grouped by what they were before they were decomposed: the ``torch.nn.Linear`` that they came from.

The graph may be torch.fx's.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from fxengine.graph import Graph
from fxengine.node import Node
from fxengine.passes.utils.either_engine import is_node

__all__ = ["SourcePartition", "check_subgraphs_connected", "get_source_partitions"]


@dataclass
class SourcePartition:
    """The nodes that one call was decomposed into.

    Attributes:
        nodes: The nodes.
        source: The function or the type of module that was called.
        input_nodes: The nodes outside whose values they need, attributes apart.
        output_nodes: Those of them that are used outside.
        params: Those of them that fetch attributes.
    """

    nodes: list[Node]
    source: Any
    input_nodes: list[Node] = field(default_factory=list[Node])
    output_nodes: list[Node] = field(default_factory=list[Node])
    params: list[Node] = field(default_factory=list[Node])


def get_source_partitions(
    graph: Graph, wanted_sources: Collection[Any], filter_fn: Callable[[Node], bool] | None = None
) -> dict[Any, list[SourcePartition]]:
    """Return for each of ``wanted_sources`` that occurs the groups of nodes that came from it.

    Args:
        graph: A graph with notes on where its nodes come from, as torch.export leaves them in ``meta``.
        wanted_sources: Functions such as ``torch.nn.functional.linear``, their names, or types such as
            ``torch.nn.Linear``.
        filter_fn: Groups with a node for which this returns False are left out.
    """
    groups: dict[Any, dict[str, list[Node]]] = {}
    for node in graph.nodes:
        found = _source_of(node, wanted_sources)
        if found is not None:
            source, name = found
            groups.setdefault(source, {}).setdefault(name, []).append(node)
    return {
        source: [
            _partition(nodes, source) for nodes in named.values() if filter_fn is None or all(map(filter_fn, nodes))
        ]
        for source, named in groups.items()
    }


def _source_of(node: Node, wanted: Collection[Any]) -> tuple[Any, str] | None:
    """Return the wanted source that a node came from, and the name of the call."""
    stack = node.meta.get("source_fn_stack")
    if stack is not None:
        name, source = stack[-1]
        return (source, name) if source in wanted else None
    if node.meta.get("torch_fn") is not None:
        name, qualified = node.meta["torch_fn"]
        function = qualified.split(".")[1]
        if function in wanted:
            return function, name
    modules = node.meta.get("nn_module_stack")
    if node.op != "call_function" or not modules:
        return None
    name, module_type = list(modules.values())[-1]
    return next(((source, name) for source in wanted if _is_type(module_type, source)), None)


def _is_type(found: Any, wanted: Any) -> bool:
    """Whether a type, or its qualified name, is the wanted one or derives from it."""
    if not isinstance(wanted, type):
        return found == wanted
    if isinstance(found, type):
        return issubclass(found, wanted)
    return found == f"{wanted.__module__}.{wanted.__qualname__}"


def _partition(nodes: list[Node], source: Any) -> SourcePartition:
    inside = set(nodes)
    arguments = (value for node in nodes for value in node.args)
    inputs = (value for value in arguments if is_node(value) and value not in inside and value.op != "get_attr")
    outputs = [node for node in nodes if node.op != "get_attr" and not inside.issuperset(node.users)]
    return SourcePartition(nodes, source, _unique(inputs), outputs, [node for node in nodes if node.op == "get_attr"])


def _unique(nodes: Iterable[Node]) -> list[Node]:
    return list(dict.fromkeys(nodes))


def check_subgraphs_connected(subgraph1: SourcePartition, subgraph2: SourcePartition) -> bool:
    """Return whether a node of the second uses a node of the first."""
    return any(user in subgraph2.nodes for node in subgraph1.nodes for user in node.users)

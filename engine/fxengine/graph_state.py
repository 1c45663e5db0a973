"""How a graph is saved: as a flat list of what its nodes say, so that its length is no matter.

Nodes refer to each other by number in there. Code objects, local classes and the like do not survive; a node's origin
is saved as positions.
"""

import dataclasses
from typing import TYPE_CHECKING, Any, TypeAlias

from fxengine.arguments import freeze, map_leaves
from fxengine.node import Node
from fxengine.node_fields import fill
from fxengine.node_list import _node_list

if TYPE_CHECKING:
    from fxengine.graph import Graph
    from fxengine.source import Origin

_NodeState: TypeAlias = dict[str, Any]


class _Number(int):
    """The place of a node in its graph, where the node itself stands in an argument."""

    __slots__ = ()


def blank_graph(cls: "type[Graph]", length: int) -> "Graph":
    """Return a graph with ``length`` nodes that say nothing yet, so that other objects can refer to them."""
    graph = cls()
    root = graph._root
    for number in range(length):
        node = Node.__new__(Node)
        fill(node, graph, "", "root", "", (), {}, None, {})
        root.prepend(node)
        node._sort_key = (number,)
    graph._len = length
    return graph


def saved_state(graph: "Graph") -> dict[str, Any]:
    """Return what ``restore_state`` needs, with no node of the graph in it but those in ``meta``."""
    numbers = {node: _Number(number) for number, node in enumerate(graph.nodes)}
    tracer_cls = graph._tracer_cls
    local = tracer_cls is not None and "<locals>" in tracer_cls.__qualname__
    return {
        "nodes": [_saved_node(node, numbers) for node in graph.nodes],
        "namespace": graph._graph_namespace,
        "codegen": graph._codegen,
        "owning_module": graph._owning_module,
        "tracer_cls": None if local else tracer_cls,
        "tracer_extras": graph._tracer_extras,
        "co_fields": graph._co_fields,
        "attributes": graph.__dict__,
    }


def restore_state(graph: "Graph", state: dict[str, Any]) -> None:
    """Make a blank graph say what the saved one said."""
    graph._graph_namespace = state["namespace"]
    graph._codegen = state["codegen"]
    graph._owning_module = state["owning_module"]
    graph._tracer_cls = state["tracer_cls"]
    graph._tracer_extras = state["tracer_extras"]
    graph._co_fields = state["co_fields"]
    graph.__dict__.update(state["attributes"])
    nodes = list(_node_list(graph))
    for node, saved in zip(nodes, state["nodes"], strict=True):
        _restore_node(node, saved, nodes)


def _saved_node(node: Node, numbers: dict[Node, _Number]) -> _NodeState:
    def numbered(leaf: Any) -> Any:
        return numbers.get(leaf, leaf) if isinstance(leaf, Node) else leaf

    origin = node.origin
    return {
        "name": node._name,
        "op": node._op,
        "target": node._target,
        "type": node.type,
        "args": map_leaves(node._args, numbered),
        "kwargs": map_leaves(node._kwargs, numbered),
        "users": [numbers[user] for user in node.users if user in numbers],
        "meta": node.meta,
        "origin": None if origin is None else dataclasses.replace(origin, module_type=None),
        "tensor": node.tensor,
        "attributes": node.__dict__,
    }


def _restore_node(node: Node, saved: _NodeState, nodes: list[Node]) -> None:
    def looked_up(leaf: Any) -> Any:
        return nodes[leaf] if isinstance(leaf, _Number) else leaf

    inputs: dict[Node, None] = {}
    node._args = freeze(map_leaves(saved["args"], looked_up), inputs)
    node._kwargs = freeze(map_leaves(saved["kwargs"], looked_up), inputs)
    node._inputs = tuple(inputs)
    node._name, node._op, node._target = saved["name"], saved["op"], saved["target"]
    node.type, node.meta, node.tensor = saved["type"], saved["meta"], saved["tensor"]
    origin: Origin | None = saved["origin"]
    node._origin = origin
    node.users = {nodes[user]: None for user in saved["users"]}
    node.__dict__.update(saved["attributes"])

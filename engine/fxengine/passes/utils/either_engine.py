"""Graphs as passes see them that only read: those of torch.fx, from export and dynamo, are as good as this engine's.

Names, opcodes, targets, arguments and users are spelled the same. Only by their types do the nodes differ.
"""

import sys
from collections.abc import Iterable
from typing import Any, Final, TypeGuard

from fxengine.graph import Graph, own_graph
from fxengine.node import Node

__all__ = ["is_node", "nodes_of"]

_torch: Final[Any] = sys.modules.get("torch.fx")
_NODES: Final[tuple[type[Any], ...]] = (Node,) if _torch is None else (Node, _torch.Node)
_GRAPHS: Final[tuple[type[Any], ...]] = (Graph,) if _torch is None else (Graph, _torch.Graph)


def is_node(value: object) -> TypeGuard[Node]:
    """Return whether a value is a node of either engine."""
    return isinstance(value, _NODES)


def nodes_of(graph: Any) -> Iterable[Node]:
    """Return the nodes of a graph of either engine.

    Raises:
        AssertionError: It is no graph.
    """
    return graph.nodes if isinstance(graph, _GRAPHS) else own_graph(graph).nodes

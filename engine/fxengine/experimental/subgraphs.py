"""Steps that passes on modules share: to recognise a pair of calls, to replace a module, to take a part out."""

from collections.abc import Iterable, Mapping

from torch import nn

from fxengine.graph import Graph
from fxengine.graph_module import GraphModule
from fxengine.node import Node

__all__ = ["_parent_name", "extract_subgraph", "matches_module_pattern", "replace_node_module"]


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: Mapping[str, nn.Module]) -> bool:
    """Return whether the node of ``node``'s first argument, and it, call modules of the two types in ``pattern``."""
    if not node.args:
        return False
    for wanted, current in zip(pattern, (node.args[0], node), strict=False):
        if not isinstance(current, Node) or current.op != "call_module":
            return False
        if type(modules.get(str(current.target))) is not wanted:
            return False
    return True


def replace_node_module(node: Node, modules: dict[str, nn.Module], new_module: nn.Module) -> None:
    """Let ``node`` call ``new_module``: put it where its target points, and into ``modules``."""
    parent, name = _parent_name(str(node.target))
    modules[str(node.target)] = new_module
    setattr(modules[parent], name, new_module)


def extract_subgraph(orig_module: nn.Module, nodes: list[Node], inputs: list[Node], outputs: list[Node]) -> GraphModule:
    """Return a module of ``nodes`` alone, with ``inputs`` as parameters and ``outputs`` as its results, as a list.

    Args:
        orig_module: The module whose nodes they are.
        nodes: The nodes, each after those it depends on.
        inputs: The nodes whose values they need.
        outputs: Those of them whose values are returned.
    """
    graph = Graph()
    copies: dict[Node, Node] = {node: graph.placeholder(node.name) for node in inputs}
    for node in nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output([copies[node] for node in outputs])
    graph.lint()
    return GraphModule(orig_module, graph)


def _parent_name(target: str) -> tuple[str, str]:
    """Return the qualified name of the module that ``target`` is in, and the last part of ``target``."""
    parent, _, name = target.rpartition(".")
    return parent, name

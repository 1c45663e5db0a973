"""Dead code elimination: removes nodes that nobody uses and that have no effect."""

import logging
import sys
from typing import TYPE_CHECKING, Any

from torch._guards import TracingContext

if TYPE_CHECKING:
    from collections.abc import Callable

    from fxengine.graph import Graph
    from fxengine.graph_module import GraphModule
    from fxengine.node import Node

log = logging.getLogger(__name__)


def eliminate_dead_code(graph: "Graph", is_impure_node: "Callable[[Node], bool] | None" = None) -> bool:
    """Return whether anything was removed; ``Graph.eliminate_dead_code`` describes the arguments."""
    graph.lint()
    random_numbers_matter = _random_numbers_matter()
    removed: list[str] = []
    for node in reversed(graph.nodes):
        if is_impure_node is not None:
            removable = not is_impure_node(node) and not node.users
        else:
            removable = not node.users and not node.is_impure(random_numbers_matter)
        if removable:
            graph.erase_node(node)
            removed.append(node._name)
    if removed:
        log.info("The following nodes were dead code eliminated: %s", removed)
    changed_below = [child for child in _graph_modules_read(graph) if _without_dead_code(child)]
    return bool(removed or changed_below)


def _graph_modules_read(graph: "Graph") -> list["GraphModule"]:
    """Return the children of the graph's module that have graphs and are read by ``get_attr`` nodes."""
    if graph._owning_module is None:
        return []
    children: dict[str, Any] = {
        name: child for name, child in graph._owning_module.named_children() if "_graph" in vars(child)
    }
    if not children:
        return []
    read = {node._target for node in graph.find_nodes(op="get_attr", sort=False)}
    return [child for name, child in children.items() if name in read and isinstance(child.graph, type(graph))]


def _random_numbers_matter() -> bool:
    """Return whether drawing random numbers is an effect: always but while torch compiles and brings its own."""
    if TracingContext.try_get() is None:
        return True
    inductor: Any = sys.modules["torch._inductor.config"]
    return bool(inductor.fallback_random)


def _without_dead_code(graph_module: "GraphModule") -> bool:
    changed = graph_module.graph.eliminate_dead_code()
    graph_module.recompile()
    return changed

"""Dead code elimination: removes nodes that nobody uses and that have no effect."""

import functools
import logging
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from torch._guards import TracingContext

from fxengine.node import Node

if TYPE_CHECKING:
    from fxengine.graph import Graph
    from fxengine.graph_module import GraphModule

log = logging.getLogger(__name__)


def eliminate_dead_code(graph: "Graph", is_impure_node: Callable[[Node], bool] | None = None) -> bool:
    """Return whether anything was removed; ``Graph.eliminate_dead_code`` describes the arguments."""
    graph.lint()
    is_impure = is_impure_node or functools.partial(Node.is_impure, impure_random=_random_numbers_matter())
    removed: list[str] = []
    for node in reversed(graph.nodes):
        if not node.users and not is_impure(node):
            graph.erase_node(node)
            removed.append(node._name)
    if removed:
        log.info("The following nodes were dead code eliminated: %s", removed)
    changed_below = [child for child in _graph_modules_read(graph) if _without_dead_code(child)]
    return bool(removed or changed_below)


def _graph_modules_read(graph: "Graph") -> Iterator["GraphModule"]:
    """Yield the children of the graph's module that have graphs and are read by ``get_attr`` nodes."""
    if graph._owning_module is None:
        return
    children: dict[str, Any] = {
        name: child
        for name, child in graph._owning_module.named_children()
        if isinstance(getattr(child, "graph", None), type(graph))
    }
    if children:
        read = {node._target for node in graph.find_nodes(op="get_attr", sort=False)}
        yield from (child for name, child in children.items() if name in read)


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

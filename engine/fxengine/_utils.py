"""Descriptions of graphs for logs and messages, under the names that torch.fx's module of this name has."""

import sys
from typing import Any

from torch._logging._internal import LazyString

from fxengine.graph import Graph
from fxengine.graph_module import GraphModule
from fxengine.node import Node

__all__ = ["first_call_function_nn_module_stack", "get_node_context", "lazy_format_graph_code"]


def lazy_format_graph_code(name: str, gm: GraphModule, maybe_id: int | None = None, **kwargs: Any) -> "LazyString[[]]":
    """Return a string with the code of ``gm`` that is made only if somebody reads it.

    Args:
        name: What the graph is called in the log.
        gm: The graph module.
        maybe_id: A number after the name.
        **kwargs: Options of ``GraphModule.print_readable``; colours are left out if nobody would see them.
    """
    options: dict[str, Any] = {"print_output": False, **kwargs}
    is_terminal = getattr(sys.stdout, "isatty", None)
    if "colored" in options and is_terminal is not None and not is_terminal():
        options["colored"] = False
    title = name if maybe_id is None else f"{name} {maybe_id}"
    return LazyString(
        lambda: _format_graph_code(
            f"===== {title} =====\n", gm.forward.__code__.co_filename, gm.print_readable(**options)
        )
    )


def _format_graph_code(name: str, filename: str, graph_str: str) -> str:
    """Return what a log says of a graph."""
    return f"TRACED GRAPH\n {name} {filename} {graph_str}\n"


def first_call_function_nn_module_stack(graph: Graph) -> dict[str, Any] | None:
    """Return the module stack of the first call of a function that has one."""
    stacks = (
        node.meta["nn_module_stack"]
        for node in graph.nodes
        if node.op == "call_function" and "nn_module_stack" in node.meta
    )
    return next(stacks, None)


def get_node_context(node: Node, num_nodes: int = 2) -> str:
    """Return the lines of a node and those before it, ``num_nodes`` in all if there are so many."""
    lines: list[str] = []
    current = node
    for _ in range(num_nodes):
        lines.append(str(current.format_node()))
        if current.op == "root":
            break
        current = current.prev
    return "\n".join(reversed(lines))

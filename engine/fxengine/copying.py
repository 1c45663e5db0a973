"""Copies of nodes and graphs, made from node to node, so that the length of a graph is no matter."""

import contextlib
import copy
import gc
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from fxengine.arguments import Argument, copy_argument
from fxengine.immutable_collections import immutable_dict
from fxengine.node import Node, map_arg

if TYPE_CHECKING:
    from fxengine.graph import Graph


def copy_into(
    graph: "Graph", source: "Graph", val_map: dict[Node, Node], *, return_output_node: bool
) -> Argument | tuple[Argument, Node] | None:
    """Copy the nodes of ``source`` into ``graph``; ``Graph.graph_copy`` describes the arguments and the result."""
    with _collection_paused():
        for node in source.nodes:
            if node in val_map:
                continue
            if node._op == "output":
                result = map_arg(node._args[0], val_map.__getitem__)
                return (result, node) if return_output_node else result
            val_map[node] = _copied(graph, node, val_map)
    return None


def deep_copy(graph: "Graph", copied: "Graph", memo: dict[int, Any] | None) -> "Graph":
    """Return ``copied``, an empty graph made a copy of ``graph``; ``memo`` notes which node is the copy of which."""
    val_map: dict[Node, Node] = {}
    result = copy_into(copied, graph, val_map, return_output_node=True)
    copied._codegen = copy.deepcopy(graph._codegen)
    copied._co_fields = dict(graph._co_fields)
    if isinstance(result, tuple):
        value, old_output = result
        assert isinstance(old_output, Node)
        val_map[old_output] = with_facts_of(old_output, copied.output(value, old_output.type))
    if memo is not None:
        memo.update((id(old), new) for old, new in val_map.items())
    return copied


@contextlib.contextmanager
def _collection_paused() -> Generator[None]:
    """Keep the garbage collector from looking, again and again, at what is being made: none of it is garbage yet.

    Of the time for copying a graph of 60,000 nodes the collector would take two thirds.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def with_facts_of(node: Node, copied: Node) -> Node:
    """Return ``copied`` with what is known about ``node``."""
    copied.meta = copy.copy(node.meta)
    copied._mark = node._mark
    copied.tensor = node.tensor
    return copied


def _copied(graph: "Graph", node: Node, val_map: dict[Node, Node]) -> Node:
    """Copy a node whose inputs have copies; what ``Graph.node_copy`` does, without checking the arguments again."""
    inputs: dict[Node, None] = {}
    args = copy_argument(node._args, val_map, inputs)
    kwargs = copy_argument(node._kwargs, val_map, inputs) if node._kwargs else _NO_KWARGS
    copied = graph._append(node._op, node._target, args, kwargs, node._name, node.type, inputs)
    return with_facts_of(node, copied)


_NO_KWARGS: dict[str, Any] = immutable_dict()

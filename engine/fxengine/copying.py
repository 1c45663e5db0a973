"""Copies of nodes and graphs, made from node to node, so that the length of a graph is no matter."""

import contextlib
import copy
import functools
import gc
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from fxengine.arguments import Argument, copy_argument
from fxengine.node import Node, Target, map_arg
from fxengine.node_fields import fill
from fxengine.node_list import NO_KWARGS

if TYPE_CHECKING:
    from fxengine.graph import Graph


def copy_into(
    graph: "Graph", source: "Graph", val_map: dict[Node, Node], *, return_output_node: bool
) -> Argument | tuple[Argument, Node] | None:
    """Copy the nodes of ``source`` into ``graph``; ``Graph.graph_copy`` describes the arguments and the result."""
    # Nobody watches a graph without a module, and nothing has to be kept up to date but the list itself.
    plain = graph._owning_module is None and graph._lookup_table is None and graph._insert is graph._at_end
    append = functools.partial(_appended, graph) if plain else graph._append
    with _collection_paused():
        for node in source.nodes:
            if node in val_map:
                continue
            if node._op == "output":
                result = map_arg(node._args[0], val_map.__getitem__)
                return (result, node) if return_output_node else result
            inputs: dict[Node, None] = {}
            args = tuple([copy_argument(arg, val_map, inputs) for arg in node._args])
            kwargs = copy_argument(node._kwargs, val_map, inputs) if node._kwargs else NO_KWARGS
            copied = append(node._op, node._target, args, kwargs, node._name, node.type, inputs)
            val_map[node] = with_facts_of(node, copied)
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
    if node._meta is not None:
        meta = node.meta
        copied.meta = meta.copy() if type(meta) is dict else copy.copy(meta)
    copied._mark = node._mark
    copied.tensor = node.tensor
    return copied


def _appended(
    graph: "Graph",
    op: str,
    target: Target,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    name: str,
    type_expr: Any | None,
    inputs: dict[Node, None],
) -> Node:
    """Append a node to a graph without a module, a table of nodes, or a place for new nodes other than the end."""
    namespace = graph._graph_namespace
    if not namespace.keep_name(name):
        name = namespace.create_name(name, None)
    node = Node.__new__(Node)
    fill(node, graph, name, op, target, args, kwargs, type_expr, inputs)
    root = graph._root
    last = root._prev
    node._prev, node._next = last, root
    last._next = root._prev = node
    node._sort_key = (last._sort_key[0] + 1,) if last is not root else (0,)
    graph._len += 1
    return node

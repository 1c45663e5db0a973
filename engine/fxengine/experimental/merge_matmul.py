"""One large matrix product in place of several with the same right side: ``A @ C`` and ``B @ C`` are rows of one."""

import itertools
import operator
from typing import Any

import torch
from torch import nn

from fxengine._symbolic_trace import symbolic_trace
from fxengine.graph_module import GraphModule
from fxengine.node import Node
from fxengine.passes.tools_common import legalize_graph
from fxengine.proxy import Proxy

__all__ = ["are_nodes_independent", "may_depend_on", "merge_matmul", "split_result_tensors"]


def split_result_tensors(result: torch.Tensor, inputs: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Return the rows of ``result`` that each of the stacked ``inputs`` led to."""
    counts = [0] * len(inputs) if isinstance(result, Proxy) else [given.shape[0] for given in inputs]
    return torch.split(result, counts)


def may_depend_on(a: Node, b: Node, search_depth: int = 6) -> bool:
    """Return whether ``a`` depends on ``b``, or possibly does.

    Args:
        a: The later node.
        b: The earlier one.
        search_depth: How many steps to go back; what lies further may be ``b``.
    """
    if a is b:
        return True
    inputs = a.all_input_nodes
    if not inputs:
        return False
    return search_depth == 0 or any(may_depend_on(source, b, search_depth - 1) for source in inputs)


def are_nodes_independent(nodes: list[Node]) -> bool:
    """Return whether it is certain that none of ``nodes`` depends on another."""
    return not any(may_depend_on(a, b) or may_depend_on(b, a) for a, b in itertools.combinations(nodes, 2))


def merge_matmul(in_mod: nn.Module) -> GraphModule:
    """Return ``in_mod``, traced, with one ``torch.matmul`` for all independent ones of the same right side."""
    module = symbolic_trace(in_mod)
    products: dict[Node | str, list[Node]] = {}
    for node in module.graph.find_nodes(op="call_function", target=torch.matmul):
        _, right = node.args
        assert isinstance(right, Node)
        # The same attribute may be read more than once.
        products.setdefault(str(right.target) if right.op == "get_attr" else right, []).append(node)
    merged = False
    for nodes in products.values():
        # Asked now and not before: products that were merged may have made these depend on each other.
        if len(nodes) > 1 and are_nodes_independent(nodes):
            _merge(module, nodes)
            merged = True
    if merged:
        legalize_graph(module)
    module.recompile()
    module.graph.lint()
    return module


def _merge(module: GraphModule, nodes: list[Node]) -> None:
    """Add the large product at the end of the graph, and use its parts in place of ``nodes``."""
    graph = module.graph
    lefts: Any = [node.args[0] for node in nodes]
    shared: Any = nodes[0].args[1]
    if shared.op == "get_attr":
        shared = graph.get_attr(shared.target)
    stacked = graph.call_function(torch.cat, (lefts,))
    product = graph.call_function(torch.matmul, (stacked, shared))
    parts = graph.call_function(split_result_tensors, (product, lefts))
    results = [graph.call_function(operator.getitem, (parts, index)) for index in range(len(nodes))]
    for node, result in zip(nodes, results, strict=True):
        node.replace_all_uses_with(result)
        graph.erase_node(node)

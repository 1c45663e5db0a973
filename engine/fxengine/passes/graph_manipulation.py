"""Exchanging what nodes call, and how many bytes nodes take."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from fxengine.graph_module import GraphModule
from fxengine.node import Node, Target
from fxengine.passes.shape_prop import ShapeProp, TensorMetadata

__all__ = ["get_size_of_all_nodes", "get_size_of_node", "get_tensor_meta", "replace_target_nodes_with", "size_bytes"]


def replace_target_nodes_with(
    fx_module: GraphModule, old_op: str, old_target: Target, new_op: str, new_target: Target
) -> None:
    """Let every node with the one opcode and target have the other; the module is changed and recompiled."""
    for node in list(fx_module.graph.nodes):
        if node.op == old_op and node.target == old_target:
            node.op = new_op
            node.target = new_target
    fx_module.recompile()


class size_bytes(NamedTuple):  # noqa: N801 - torch.fx's name.
    """How many bytes a node takes.

    Attributes:
        output_size: Those of its result.
        total_size: Those of its result and of the parameters of the module that it calls.
    """

    output_size: int
    total_size: int


def get_size_of_all_nodes(fx_module: GraphModule, args: Sequence[torch.Tensor] | None = None) -> None:
    """Give each node an attribute ``size_bytes``; run shape propagation on ``args`` first, if they are given.

    Raises:
        RuntimeError: A node's shape is not known.
    """
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op != "output":
            setattr(node, "size_bytes", get_size_of_node(fx_module, node))  # noqa: B010 - not one of Node's own.


def get_tensor_meta(node: Node) -> TensorMetadata:
    """Return what shape propagation found out about ``node``.

    Raises:
        RuntimeError: It has not run.
    """
    meta = node.meta.get("tensor_meta")
    if not meta:
        raise RuntimeError(
            f"Node {node} has no tensor metadata associated with it! Check that shape propagation has run."
        )
    return meta


def get_size_of_node(fx_module: GraphModule, node: Node) -> size_bytes:
    """Return how many bytes ``node`` takes, parameters counted in the type of its result.

    Raises:
        RuntimeError: Its shape is not known.
    """
    meta = get_tensor_meta(node)
    state: Any = fx_module.get_submodule(str(node.target)).parameters() if node.op == "call_module" else ()
    elements = meta.shape.numel()
    width = meta.dtype.itemsize
    return size_bytes(width * elements, width * (elements + sum(parameter.numel() for parameter in state)))

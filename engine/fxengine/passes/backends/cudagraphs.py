"""Partitions that can run as CUDA graphs: those in which nothing but CUDA tensors goes in and out."""

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from fxengine.graph_module import GraphModule
from fxengine.node import Node
from fxengine.passes.fake_tensor_prop import FakeTensorProp
from fxengine.passes.infra.partitioner import CapabilityBasedPartitioner
from fxengine.passes.operator_support import OperatorSupport
from fxengine.passes.tools_common import CALLABLE_NODE_OPS

__all__ = ["CudaGraphsSupport", "partition_cudagraphs"]


class CudaGraphsSupport(OperatorSupport):
    """Supports calls that take and make only CUDA tensors, as ``FakeTensorProp`` noted in ``meta``."""

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:  # noqa: ARG002
        """Return whether all tensors that ``node`` takes and makes are on a CUDA device."""
        if node.op not in CALLABLE_NODE_OPS or node.target is torch.ops.aten.embedding_dense_backward.default:
            return False
        if node.target is operator.getitem:
            return True
        return all(_is_on_cuda(each) for each in (*node.all_input_nodes, node))


def _is_on_cuda(node: Node) -> bool:
    """Whether none of the tensors in the node's value is elsewhere."""
    value: Any = node.meta["val"] if "val" in node.meta else node.meta["fake_result"]
    return all(leaf.device.type == "cuda" for leaf in pytree.tree_iter(value) if isinstance(leaf, torch.Tensor))


def partition_cudagraphs(gm: GraphModule, inputs: Sequence[object]) -> GraphModule:
    """Return ``gm`` with each largest part that CUDA graphs can run as a submodule.

    Args:
        gm: The graph module; it is changed.
        inputs: Its inputs, whose devices count and not their values.
    """
    FakeTensorProp(gm).propagate(*inputs)
    partitioner = CapabilityBasedPartitioner(gm, CudaGraphsSupport(), allows_single_node_partition=True)
    return partitioner.fuse_partitions(partitioner.propose_partitions())

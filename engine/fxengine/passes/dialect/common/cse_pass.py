"""Common subexpressions: what is computed twice from the same values is computed once.

Two nodes are the same if they call the same thing with the same arguments, as far as calling it twice gives the
same twice: not random numbers, not what has effects, not modules in training mode.
"""

from collections.abc import Hashable
from typing import Any

import torch
from torch import nn

from fxengine.graph import Graph
from fxengine.graph_module import GraphModule
from fxengine.node import Node, Target
from fxengine.passes.infra.pass_base import PassBase, PassResult

__all__ = ["CSEPass", "get_CSE_banned_ops"]

_aten = torch.ops.aten

rand_ops = {
    _aten.dropout,
    _aten._fused_dropout,
    _aten._standard_gamma,
    _aten.bernoulli,
    _aten.multinomial,
    _aten.native_dropout,
    _aten.normal,
    _aten.poisson,
    _aten.binomial,
    _aten.rrelu,
    _aten.rand_like,
    _aten.rand,
    _aten.randint,
    _aten.randn,
    _aten.randperm,
}
inplace_ops = {
    _aten.add_,
    _aten.sub_,
    _aten.mul_,
    _aten.div_,
    _aten.pow_,
    _aten.lerp_,
    _aten.relu_,
    _aten.sigmoid_,
    _aten.tanh_,
}


def get_CSE_banned_ops() -> set[Any]:  # noqa: N802 - torch.fx's name.
    """Return ATen's operators that draw random numbers or change an argument."""
    return rand_ops | inplace_ops


class CSEPass(PassBase):
    """Merges nodes that compute the same.

    Attributes:
        banned_ops: Functions, or packets of ATen overloads, whose calls are never merged.
    """

    def __init__(self, banned_ops: set[Any] | None = None) -> None:
        self.banned_ops = banned_ops or set()

    def call(self, graph_module: GraphModule) -> PassResult:
        """Return a new module without repetitions, or ``graph_module`` itself if there are none."""
        graph = Graph()
        copies: dict[Node, Node] = {}
        known: dict[Hashable, Node] = {}
        merged = False
        for node in graph_module.graph.nodes:
            key = self._key(node, copies, graph_module)
            if key is not None and key in known:
                copies[node] = known[key]
                merged = True
                continue
            copies[node] = graph.node_copy(node, copies.__getitem__)
            if key is not None:
                known[key] = copies[node]
        if not merged:
            return PassResult(graph_module, modified=False)
        graph._codegen = graph_module.graph._codegen
        return PassResult(GraphModule(graph_module, graph), modified=True)

    def _key(self, node: Node, copies: dict[Node, Node], module: nn.Module) -> Hashable | None:
        """Return what nodes that compute the same have in common, or None if ``node`` must stay."""
        if not node.op.startswith("call") or _packet(node.target) in self.banned_ops or node.is_impure():
            return None
        if node.op == "call_module" and module.get_submodule(str(node.target)).training:
            return None
        if node.op == "call_method" and str(node.target).endswith("_") and not str(node.target).endswith("__"):
            return None
        return node.op, node.target, _frozen(node.args, copies), _frozen(node.kwargs, copies)


def _packet(target: Target) -> Any:
    """Return the operator that ``target`` is an overload of, or ``target``."""
    return getattr(target, "overloadpacket", target)


def _frozen(value: Any, copies: dict[Node, Node]) -> Hashable:
    """Return something that is equal for equal arguments; 1, 1.0 and True differ."""
    match value:
        case Node():
            return copies[value]
        case list() | tuple():
            return type(value), tuple(_frozen(item, copies) for item in value)
        case dict():
            return dict, tuple((key, _frozen(item, copies)) for key, item in value.items())
        case slice():
            return slice, tuple(_frozen(item, copies) for item in (value.start, value.stop, value.step))
        case torch.Tensor():
            return torch.Tensor, id(value)
        case _:
            return type(value), value

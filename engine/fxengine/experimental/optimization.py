"""Simplifications of models for inference: batch norms folded into what comes before them, dropout taken out."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from fxengine._symbolic_trace import symbolic_trace
from fxengine.graph import Graph
from fxengine.graph_module import GraphModule
from fxengine.interpreter import Transformer
from fxengine.node import Argument, Node, Target

__all__ = ["extract_subgraph", "fuse", "matches_module_pattern", "remove_dropout", "replace_node_module"]

_FUSIBLE: tuple[tuple[type[nn.Module], type[nn.Module]], ...] = (
    (nn.Conv1d, nn.BatchNorm1d),
    (nn.Conv2d, nn.BatchNorm2d),
    (nn.Conv3d, nn.BatchNorm3d),
    (nn.Linear, nn.BatchNorm1d),
)


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
    parent, _, name = str(node.target).rpartition(".")
    modules[str(node.target)] = new_module
    setattr(modules[parent], name, new_module)


def fuse(model: nn.Module, inplace: bool = False, no_trace: bool = False) -> nn.Module:
    """Return ``model`` with each batch norm folded into the convolution or linear layer before it.

    The result computes what ``model`` computes in evaluation mode. Pairs stay as they are where the first layer's
    result or either layer is used elsewhere too, or the batch norm keeps no statistics.

    Args:
        model: The model, in evaluation mode.
        inplace: Change ``model``'s layers rather than copies.
        no_trace: Take ``model``, if it is a graph module, as it is, rather than tracing it.
    """
    if not inplace:
        model = copy.deepcopy(model)
    traced = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules: dict[str, nn.Module] = dict(traced.named_modules())
    graph = copy.deepcopy(traced.graph)
    for pattern in _FUSIBLE:
        for norm in list(graph.find_nodes(op="call_module")):
            if not matches_module_pattern(pattern, norm, modules) or not _is_alone(graph, norm):
                continue
            first = norm.args[0]
            assert isinstance(first, Node)
            layer: Any = modules[str(first.target)]
            statistics: Any = modules[str(norm.target)]
            if not statistics.track_running_stats:
                continue
            fuse_layer: Any = fuse_linear_bn_eval if isinstance(layer, nn.Linear) else fuse_conv_bn_eval
            replace_node_module(first, modules, fuse_layer(layer, statistics))
            norm.replace_all_uses_with(first)
            graph.erase_node(norm)
    return GraphModule(traced, graph)


def _is_alone(graph: Graph, norm: Node) -> bool:
    """Whether nothing but ``norm`` uses what goes into it, and both modules are called once."""
    first = norm.args[0]
    assert isinstance(first, Node)
    calls = [node.target for node in graph.find_nodes(op="call_module")]
    return len(first.users) == 1 and calls.count(first.target) == 1 and calls.count(norm.target) == 1


class _DropoutRemover(Transformer):
    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(self.fetch_attr(str(target)), nn.Dropout):
            (only,) = args
            return only
        return super().call_module(target, args, kwargs)


def remove_dropout(model: nn.Module) -> nn.Module:
    """Return ``model``, traced, without its dropout layers."""
    return _DropoutRemover(symbolic_trace(model)).transform()


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

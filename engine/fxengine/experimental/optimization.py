"""Simplifications of models for inference: batch norms folded into what comes before them, dropout taken out.

``optimize_for_inference`` does both and then lets oneDNN have its own layout where that pays (``mkldnn_layout``).
"""

import copy
from typing import Any

from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from fxengine._symbolic_trace import Tracer, symbolic_trace
from fxengine.experimental.mkldnn_layout import (
    MklSubgraph,
    UnionFind,
    convert_layout,
    gen_mkl_autotuner,
    mkldnn_map,
    mkldnn_supported,
    mkldnn_supported_unknown,
    modules_to_mkldnn,
    reset_modules,
    use_mkl_length,
)
from fxengine.experimental.subgraphs import (
    _parent_name,
    extract_subgraph,
    matches_module_pattern,
    replace_node_module,
)
from fxengine.graph import Graph
from fxengine.graph_module import GraphModule
from fxengine.interpreter import Transformer
from fxengine.node import Argument, Node, Target

__all__ = [
    "MklSubgraph",
    "UnionFind",
    "_parent_name",
    "extract_subgraph",
    "fuse",
    "gen_mkl_autotuner",
    "matches_module_pattern",
    "mkldnn_map",
    "mkldnn_supported",
    "mkldnn_supported_unknown",
    "modules_to_mkldnn",
    "optimize_for_inference",
    "remove_dropout",
    "replace_node_module",
    "reset_modules",
    "use_mkl_length",
]

_FUSIBLE: tuple[tuple[type[nn.Module], type[nn.Module]], ...] = (
    (nn.Conv1d, nn.BatchNorm1d),
    (nn.Conv2d, nn.BatchNorm2d),
    (nn.Conv3d, nn.BatchNorm3d),
    (nn.Linear, nn.BatchNorm1d),
)


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


def optimize_for_inference(
    model: nn.Module, pass_config: dict[str, Any] | None = None, tracer: type[Tracer] = Tracer
) -> nn.Module:
    """Return ``model`` with batch norms folded, dropout taken out, and oneDNN's layout where it pays.

    Nothing may share memory with anything else in ``model``.

    Args:
        model: The model, in evaluation mode, single precision and on the CPU.
        pass_config: What differs from ``{"conv_bn_fuse": True, "remove_dropout": True, "mkldnn_layout_optimize":
            {"heuristic": use_mkl_length}}``. The last may be False.
        tracer: The tracer for the third step.

    Raises:
        RuntimeError: ``mkldnn_layout_optimize`` is neither False nor a dict with a heuristic.
    """
    config: dict[str, Any] = {
        "conv_bn_fuse": True,
        "remove_dropout": True,
        "mkldnn_layout_optimize": {"heuristic": use_mkl_length},
        **(pass_config or {}),
    }
    if config["conv_bn_fuse"]:
        model = fuse(model)
    if config["remove_dropout"]:
        model = remove_dropout(model)
    layout = config["mkldnn_layout_optimize"]
    if layout is False:
        return model
    if not isinstance(layout, dict):
        raise RuntimeError("mkldnn_layout_optimize config is not a dict")  # noqa: TRY004 - torch.fx's exception.
    if "heuristic" not in layout:
        raise RuntimeError("Heuristic not found in mkldnn_layout_optimize config")
    return convert_layout(model, layout["heuristic"], tracer())

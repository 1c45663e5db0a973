"""Batch norms of inference are folded into the convolutions and linear layers before them.

In evaluation mode a batch norm multiplies each channel by a number and adds another. A layer that computes its channels
as weighted sums can do that with its own weight and bias, so the norm's node goes. Layer and norm may each be a module
or a function of torch with its parameters fetched by ``get_attr``; layers are convolutions of every rank, transposed
ones too, and linear layers. ``experimental.optimization.fuse`` has torch.fx's rules, which cover modules alone.
"""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from fxengine._symbolic_trace import symbolic_trace
from fxengine.graph_module import GraphModule
from fxengine.node import Node

__all__ = ["fuse_conv_bn"]

_CONVOLUTIONS = (torch.conv1d, torch.conv2d, torch.conv3d)
_TRANSPOSED_CONVOLUTIONS = (torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d)
_PARAMETERS: dict[Any, str] = {
    **dict.fromkeys(_CONVOLUTIONS, "input weight bias stride padding dilation groups"),
    **dict.fromkeys(_TRANSPOSED_CONVOLUTIONS, "input weight bias stride padding output_padding groups dilation"),
    functional.linear: "input weight bias",
    functional.batch_norm: "input running_mean running_var weight bias training momentum eps",
}
"""What the parameters of the functions are called, in order."""

_LINEAR: frozenset[Any] = frozenset({nn.Linear, functional.linear})
_TRANSPOSED: frozenset[Any] = frozenset({
    nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d, *_TRANSPOSED_CONVOLUTIONS
})  # fmt: skip
"""Their weights have the input's channels first, then the output's of one group; all others the output's first."""
_LAYERS: frozenset[Any] = frozenset({nn.Conv1d, nn.Conv2d, nn.Conv3d, *_CONVOLUTIONS}) | _LINEAR | _TRANSPOSED
_METADATA: frozenset[Any] = frozenset({"ndim", "shape", "dtype", "device", "size", "dim"})
_NORMS: frozenset[Any] = frozenset({nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d})


def fuse_conv_bn(module: nn.Module) -> GraphModule:
    """Return ``module`` with its batch norms folded into the layers before them.

    The result computes the same up to rounding, has one node less for each pair, and shares all other submodules
    and parameters with ``module``, which is not changed. A pair stays as it is where

    - the norm is in training mode or keeps no statistics,
    - the layer's result is used elsewhere too (asking for its shape does not count),
    - layer or norm has hooks, is a subclass, or has parameters that are computed,
    - a linear layer's result is known to have more than two dimensions (``ShapeProp`` notes that), as the norm's
      channels are then not the layer's.

    A layer that is called several times is copied for each norm that it is fused with.

    Args:
        module: A graph module, or a module that is traced first.

    Raises:
        TraceError: ``module`` cannot be traced.
    """
    traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
    name = type(traced).__name__
    fused = GraphModule(traced, copy.deepcopy(traced.graph), name)
    for node in list(fused.graph.nodes):
        statistics = _statistics_of(fused, node)
        layer = node.all_input_nodes[0] if statistics is not None else None
        if layer is None or not _feeds_only(layer, node):
            continue
        found = _parameters_of(fused, layer)
        if found is None or statistics is None or not _fits(found, statistics, layer):
            continue
        _replace(fused, layer, _folded(found, statistics))
        node.replace_all_uses_with(layer)
        _erase_with_attributes(fused, node)
    return GraphModule(fused, fused.graph, name)  # Leaves behind what no node refers to any more.


@dataclass(frozen=True, slots=True)
class _Statistics:
    """What a batch norm does: ``(x - mean) / sqrt(var + eps) * weight + bias``."""

    mean: Tensor
    var: Tensor
    weight: Tensor | None
    bias: Tensor | None
    eps: float


@dataclass(frozen=True, slots=True)
class _Parameters:
    """The weight and bias of a layer, and how its channels lie in the weight."""

    weight: Tensor
    bias: Tensor | None
    kind: Any
    groups: int

    @property
    def channels(self) -> int:
        return self.weight.shape[1] * self.groups if self.kind in _TRANSPOSED else self.weight.shape[0]


def _statistics_of(module: GraphModule, node: Node) -> _Statistics | None:
    """Return what ``node`` does if it is a batch norm that has its statistics from before, else None."""
    if node.op == "call_module":
        norm: Any = module.get_submodule(str(node.target))
        if type(norm) not in _NORMS or norm.training or norm.running_mean is None or _has_hooks(norm):
            return None
        return _Statistics(norm.running_mean, norm.running_var, norm.weight, norm.bias, norm.eps)
    if node.op != "call_function" or node.target is not functional.batch_norm:
        return None
    given = _arguments(node)
    if given.get("training", False) is not False:
        return None
    fetched = [_fetched(module, given.get(name)) for name in ("running_mean", "running_var", "weight", "bias")]
    mean, var, weight, bias = fetched
    known = all(isinstance(each, Tensor | None) for each in fetched)
    eps = given.get("eps", 1e-5)
    if not known or mean is None or var is None or not isinstance(eps, float):
        return None
    return _Statistics(mean, var, weight, bias, eps)


def _parameters_of(module: GraphModule, node: Node) -> _Parameters | None:
    """Return the parameters of the layer that ``node`` calls, if it is one that a norm can be folded into."""
    if node.op == "call_module":
        layer: Any = module.get_submodule(str(node.target))
        if type(layer) not in _LAYERS or _has_hooks(layer):
            return None
        return _Parameters(layer.weight, layer.bias, type(layer), getattr(layer, "groups", 1))
    if node.op != "call_function" or node.target not in _LAYERS:
        return None
    given = _arguments(node)
    weight, bias = _fetched(module, given["weight"]), _fetched(module, given.get("bias"))
    groups = given.get("groups", 1)
    if not isinstance(weight, Tensor) or not isinstance(bias, Tensor | None) or not isinstance(groups, int):
        return None
    return _Parameters(weight, bias, node.target, groups)


def _fits(found: _Parameters, statistics: _Statistics, layer: Node) -> bool:
    """Return whether the layer's channels are the norm's."""
    dimensions = len(layer.tensor.shape) if layer.tensor is not None else None
    if found.kind in _LINEAR and dimensions not in {2, None}:
        return False
    return found.channels == statistics.mean.numel() and found.weight.is_floating_point()


def _folded(found: _Parameters, statistics: _Statistics) -> tuple[nn.Parameter, nn.Parameter]:
    """Return the weight and bias with which the layer does the norm's work as well."""
    with torch.no_grad():
        scale = torch.rsqrt(statistics.var + statistics.eps)
        if statistics.weight is not None:
            scale = scale * statistics.weight
        bias = (found.bias if found.bias is not None else 0) - statistics.mean
        bias = bias * scale + (statistics.bias if statistics.bias is not None else 0)
        weight = found.weight
        if found.kind in _TRANSPOSED:
            # Inputs of a group meet the outputs of the same group: both have the group as their outer part.
            grouped = weight.unflatten(0, (found.groups, -1))
            factor = scale.view(found.groups, 1, -1, *[1] * (weight.dim() - 2))
            weight = (grouped * factor).flatten(0, 1)
        else:
            weight = weight * scale.view(-1, *[1] * (weight.dim() - 1))
    trained = found.weight.requires_grad
    return (
        nn.Parameter(weight.to(found.weight.dtype), trained),
        nn.Parameter(bias.to(found.weight.dtype), trained),
    )


def _replace(module: GraphModule, node: Node, parameters: tuple[nn.Parameter, nn.Parameter]) -> None:
    """Let ``node`` compute with new parameters, whoever else uses the old ones."""
    weight, bias = parameters
    if node.op == "call_module":
        layer: Any = copy.copy(module.get_submodule(str(node.target)))
        layer._parameters = {**layer._parameters, "weight": weight, "bias": bias}
        node.target = _place_for(module, node)
        module.add_submodule(node.target, layer)
        return
    given = _arguments(node)
    old = [value for value in (given["weight"], given.get("bias")) if isinstance(value, Node)]
    with module.graph.inserting_before(node):
        for name, parameter in (("weight", weight), ("bias", bias)):
            target = _unused(module, f"{node.name}_fused_{name}")
            module.register_parameter(target, parameter)
            given[name] = module.graph.get_attr(target)
    node.args, node.kwargs = (given.pop("input"),), given
    _erase_unused(module, old)


def _place_for(module: GraphModule, node: Node) -> str:
    """Return where a layer's copy goes: into the layer's place, unless somebody else needs what is there."""
    target = str(node.target)
    layer = module.get_submodule(target)
    calls = [
        call for call in module.graph.find_nodes(op="call_module") if module.get_submodule(str(call.target)) is layer
    ]
    parent = module.get_submodule(target.rpartition(".")[0])
    fetched = any(str(each.target).startswith(f"{target}.") for each in module.graph.find_nodes(op="get_attr"))
    # What is no bare container is a module of the original, which must stay as it is.
    if len(calls) == 1 and not fetched and (parent is module or type(parent) is nn.Module):
        return target
    return _unused(module, f"{target.replace('.', '_')}_fused")


def _unused(module: nn.Module, name: str) -> str:
    """Return ``name``, numbered if the module has something of that name."""
    candidate, number = name, 0
    while hasattr(module, candidate):
        number += 1
        candidate = f"{name}_{number}"
    return candidate


def _erase_with_attributes(module: GraphModule, node: Node) -> None:
    """Erase ``node``, and what was fetched for it alone."""
    sources = node.all_input_nodes
    module.graph.erase_node(node)
    _erase_unused(module, sources)


def _erase_unused(module: GraphModule, nodes: list[Node]) -> None:
    for node in nodes:
        if node.op == "get_attr" and not node.users:
            module.graph.erase_node(node)


def _arguments(node: Node) -> dict[str, Any]:
    """Return the arguments of a call of one of the functions by the names of its parameters."""
    return {**dict(zip(_PARAMETERS[node.target].split(), node.args, strict=False)), **node.kwargs}


def _fetched(module: GraphModule, value: Any) -> Any:
    """Return the attribute that a ``get_attr`` node fetches; anything but a node as it is."""
    if not isinstance(value, Node):
        return value
    if value.op != "get_attr":
        return value
    owner, _, name = str(value.target).rpartition(".")
    return getattr(module.get_submodule(owner), name)


def _feeds_only(layer: Node, norm: Node) -> bool:
    """Return whether ``layer`` is the value that ``norm`` normalises, and nobody else needs what is in it."""
    given = norm.args[0] if norm.args else norm.kwargs.get("input")
    return given is layer and all(user is norm or _asks_for_metadata(user, layer) for user in layer.users)


def _asks_for_metadata(user: Node, value: Node) -> bool:
    """Return whether ``user`` asks ``value`` for what it has in common with its norm, such as its shape."""
    if not user.args or user.args[0] is not value:
        return False
    asked = user.args[1] if user.target is getattr and len(user.args) > 1 else user.target
    return asked in _METADATA


def _has_hooks(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)

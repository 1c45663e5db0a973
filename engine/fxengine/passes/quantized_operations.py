"""What torch's int8 kernels can do: which nodes of a graph, and with what in their place.

The tables are data for ``quantization``: *layers* have weights and become quantized modules, *joins* compute something
new from int8 values and need a scale for it, *carriers* do with int8 values what they do with others and keep their
scale. A rectifier after a layer or a join is done by the same kernel.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.ao.nn import quantized
from torch.ao.nn.intrinsic import quantized as intrinsic
from torch.nn import functional

from fxengine.graph_module import GraphModule
from fxengine.node import Node

__all__ = ["Unit", "changes_in_place", "is_carrier", "quantized_join", "quantized_layer", "unit_at"]


@dataclass(frozen=True, slots=True)
class Unit:
    """What one kernel does.

    Attributes:
        start: The layer or join.
        end: The rectifier after it, if the kernel does that too, else ``start``.
        inputs: The values that it takes as int8.
        layer: The layer's module; None for joins.
    """

    start: Node
    end: Node
    inputs: tuple[Node, ...]
    layer: nn.Module | None

    @property
    def rectifies(self) -> bool:
        """Whether a rectifier is part of it."""
        return self.end is not self.start


_LAYERS: dict[type[nn.Module], tuple[Any, Any]] = {
    nn.Linear: (quantized.Linear, intrinsic.LinearReLU),
    nn.Conv1d: (quantized.Conv1d, intrinsic.ConvReLU1d),
    nn.Conv2d: (quantized.Conv2d, intrinsic.ConvReLU2d),
    nn.Conv3d: (quantized.Conv3d, intrinsic.ConvReLU3d),
}
"""The quantized module of each layer, without and with a rectifier."""

_ADD, _MULTIPLY, _CONCATENATE, _HARDSWISH = "add", "mul", "cat", "hardswish"
_JOINS: dict[Any, str] = {
    **dict.fromkeys((operator.add, operator.iadd, torch.add, "add", "add_"), _ADD),
    **dict.fromkeys((operator.mul, operator.imul, torch.mul, "mul", "mul_"), _MULTIPLY),
    **dict.fromkeys((torch.cat, torch.concat), _CONCATENATE),
    **dict.fromkeys((functional.hardswish, nn.Hardswish), _HARDSWISH),
}
_RECTIFIERS: frozenset[Any] = frozenset({nn.ReLU, functional.relu, functional.relu_, torch.relu, "relu", "relu_"})
_RECTIFIED_JOINS = frozenset({_ADD, _MULTIPLY, _CONCATENATE})

_CARRIERS: frozenset[Any] = _RECTIFIERS | {
    nn.ReLU6, nn.Hardtanh, nn.Hardsigmoid, nn.Sigmoid,
    nn.MaxPool1d, nn.MaxPool2d, nn.AvgPool2d, nn.AvgPool3d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d,
    nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.Identity, nn.Flatten, nn.Unflatten, nn.ChannelShuffle,
    functional.relu6, functional.hardtanh, functional.hardsigmoid, functional.max_pool1d, functional.max_pool2d,
    functional.avg_pool2d, functional.avg_pool3d, functional.adaptive_avg_pool2d, functional.adaptive_avg_pool3d,
    functional.dropout, functional.dropout2d, torch.max_pool2d, torch.sigmoid, functional.sigmoid,
    torch.flatten, torch.transpose, torch.permute, torch.reshape, torch.squeeze, torch.unsqueeze, torch.chunk,
    torch.mean, operator.getitem,
    "view", "reshape", "flatten", "permute", "transpose", "contiguous", "squeeze", "unsqueeze", "chunk", "detach",
    "mean", "sigmoid",
}  # fmt: skip


def kind_of(module: GraphModule, node: Node) -> Any:
    """Return what ``node`` calls, as the tables name it: a type of modules, a function, a method's name."""
    return type(module.get_submodule(str(node.target))) if node.op == "call_module" else node.target


def unit_at(module: GraphModule, node: Node) -> Unit | None:
    """Return the unit that begins with ``node``, if it is one that there is a kernel for."""
    if not node.op.startswith("call"):
        return None
    kind = kind_of(module, node)
    layer = None
    if kind in _LAYERS and node.op == "call_module":
        layer = module.get_submodule(str(node.target))
        if not _is_supported(layer) or len(node.args) != 1 or node.kwargs:
            return None
        inputs: Any = node.args
    elif kind in _JOINS:
        inputs = _inputs_of_join(_JOINS[kind], node)
    else:
        return None
    if not inputs or not all(isinstance(value, Node) for value in inputs):
        return None
    return Unit(node, _end_of(module, node, layer), tuple(inputs), layer)


def _inputs_of_join(join: str, node: Node) -> Any:
    if join == _CONCATENATE:
        plain = set(node.kwargs) <= {"dim"} and bool(node.args) and isinstance(node.args[0], list | tuple)
        return node.args[0] if plain else None
    expected = 1 if join == _HARDSWISH else 2
    return node.args if len(node.args) == expected and set(node.kwargs) <= {"inplace"} else None


def _end_of(module: GraphModule, node: Node, layer: nn.Module | None) -> Node:
    if len(node.users) != 1 or (layer is None and _JOINS[kind_of(module, node)] not in _RECTIFIED_JOINS):
        return node
    (user,) = node.users
    return user if user.op.startswith("call") and kind_of(module, user) in _RECTIFIERS else node


def _is_supported(layer: Any) -> bool:
    """Return whether there is a kernel for a layer's configuration."""
    if layer.weight.dtype is not torch.float32 or layer._forward_hooks or layer._forward_pre_hooks:
        return False
    return isinstance(layer, nn.Linear) or (layer.padding_mode == "zeros" and not isinstance(layer.padding, str))


def is_carrier(module: GraphModule, node: Node) -> bool:
    """Return whether ``node`` does with its first argument, as int8, what it does with it as floats."""
    return node.op.startswith("call") and bool(node.args) and kind_of(module, node) in _CARRIERS


def changes_in_place(module: GraphModule, node: Node) -> bool:
    """Return whether ``node`` overwrites its first argument."""
    if node.op == "call_module":
        return bool(getattr(module.get_submodule(str(node.target)), "inplace", False))
    if node.op == "call_method":
        name = str(node.target)
        return name.endswith("_") and not name.endswith("__")
    return node.op == "call_function" and (
        node.target in {operator.iadd, operator.imul, operator.setitem, functional.relu_}
        or bool(node.kwargs.get("inplace"))
    )


def quantized_join(
    module: GraphModule, unit: Unit, inputs: list[Node], scale: float, zero_point: int
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the operator of a join, and its arguments with these inputs and this scale of the result."""
    name = _JOINS[kind_of(module, unit.start)]
    kernel = getattr(torch.ops.quantized, f"{name}_relu" if unit.rectifies else name)
    if name != _CONCATENATE:
        return kernel, (*inputs, scale, zero_point)
    dim = unit.start.args[1] if len(unit.start.args) > 1 else unit.start.kwargs.get("dim", 0)
    return kernel, (inputs, dim, scale, zero_point)


def quantized_layer(unit: Unit, scale: float, zero_point: int) -> nn.Module:
    """Return the quantized module of a layer; its result has this scale and zero point."""
    layer: Any = unit.layer
    bias = None if layer.bias is None else layer.bias.detach()
    make: Any = _LAYERS[type(layer)][unit.rectifies]
    if isinstance(layer, nn.Linear):
        made = make(layer.in_features, layer.out_features, bias is not None)
    else:
        made = make(
            layer.in_channels,
            layer.out_channels,
            layer.kernel_size,
            stride=layer.stride,
            padding=layer.padding,
            dilation=layer.dilation,
            groups=layer.groups,
            bias=bias is not None,
        )
    made.set_weight_bias(_int8(layer.weight.detach()), bias)
    made.scale, made.zero_point = scale, zero_point
    return made


def _int8(weight: Tensor) -> Tensor:
    """Return a weight as int8, each output channel with a scale of its own and zero at zero."""
    largest = weight.flatten(1).abs().amax(1)
    scales = (largest / 127.5).clamp(min=torch.finfo(torch.float32).eps).double()
    return torch.quantize_per_channel(weight, scales, torch.zeros_like(scales, dtype=torch.int64), 0, torch.qint8)

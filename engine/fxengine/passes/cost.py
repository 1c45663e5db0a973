"""What a model's operations cost in arithmetic and memory traffic, from shapes alone.

The model runs without data (see ``shapes_only``) while every torch function that it calls is counted, those inside
leaf modules included. A multiplication with its addition counts as two operations, as in torch's own
``torch.utils.flop_counter`` and in the data sheets that peaks are quoted from. Cheap functions are counted too,
roughly: they matter where nothing else happens.

Memory traffic is what would move if every operation read its inputs and wrote its result once: the least that an
eager run moves, and more than a compiler's fused one would.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from fxengine.graph_module import GraphModule
from fxengine.node import Node
from fxengine.passes.shape_prop import ShapeProp, ShapeReport
from fxengine.shapes_only import ShapesOnly, to_meta

__all__ = ["Cost", "CostProp", "graph_costs", "model_cost", "shapes_and_costs"]


@dataclass(frozen=True, slots=True)
class Cost:
    """What an operation does, or several together.

    Attributes:
        flops: Floating point operations.
        bytes: Bytes read and written.
        macs: Multiplications with an addition in products of matrices and convolutions, which are what the figures
            of papers count; each is two of ``flops``.
    """

    flops: int = 0
    bytes: int = 0
    macs: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.flops + other.flops, self.bytes + other.bytes, self.macs + other.macs)


_FREE = Cost()


class _Work(NamedTuple):
    """The arithmetic of a call: multiplications with an addition in products, and all other operations."""

    macs: float
    others: float = 0


_Formula: TypeAlias = Callable[[tuple[Any, ...], Mapping[str, Any], Any], _Work]
"""From the arguments and the result of a call to its arithmetic."""


class _Counter(ShapesOnly):
    """Runs for shapes and adds up what is called."""

    def __init__(self, module: nn.Module | None = None) -> None:
        super().__init__(module)
        self.total = _FREE

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        calls = self.calls
        result = super().__torch_function__(func, types, args, kwargs)
        if self.calls != calls:
            self.total += _cost_of_call(func, args, kwargs or {}, result)
        return result


def model_cost(
    root: nn.Module | Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None
) -> Cost:
    """Return what one call of ``root`` costs.

    Raises:
        Exception: Whatever ``root`` raises on these inputs, as it also does where it needs data.
    """
    inputs, named = pytree.tree_map_only(Tensor, to_meta, (args, dict(kwargs or {})))
    counter = _Counter(root if isinstance(root, nn.Module) else None)
    with torch.no_grad(), counter:
        root(*inputs, **named)
    return counter.total


def graph_costs(module: GraphModule, args: tuple[Any, ...]) -> dict[Node, Cost]:
    """Return what each node of a graph costs, as far as the graph runs without data.

    Args:
        module: The graph and its state. Shapes are noted on its nodes on the way.
        args: The values of its placeholders; their tensors may be on meta.
    """
    return shapes_and_costs(module, args)[1]


def shapes_and_costs(
    module: GraphModule, args: tuple[Any, ...], *, device: torch.device | None = None
) -> tuple[ShapeReport, dict[Node, Cost]]:
    """Note the shapes of all nodes, as ``ShapeProp.propagate_partial`` does, and return its report and all costs.

    Args:
        module: The graph and its state.
        args: The values of its placeholders; their tensors may be on meta.
        device: What ``node.tensor`` is to say of where tensors lie.
    """
    propagation = CostProp(module)
    report = propagation.propagate_partial(*args, device=device)
    return report, propagation.costs


class CostProp(ShapeProp):
    """Finds shapes, and counts what each node calls meanwhile."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.costs: dict[Node, Cost] = {}
        self._counter = _Counter()

    def _shapes_only(self) -> ShapesOnly:
        self._counter = _Counter(self.module)
        return self._counter

    def _run_for_shape(self, node: Node) -> Any:
        self._counter.total = _FREE
        return super()._run_for_shape(node)

    def _record(self, node: Node, result: Any) -> Any:
        self.costs[node] = self._counter.total
        return super()._record(node, result)


_PLAIN: Final = frozenset({bool, int, float, str, torch.Size, torch.dtype, torch.device})
"""Types of arguments that hold no tensors."""


def _cost_of_call(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> Cost:
    name = getattr(func, "__name__", "")
    if name in _VIEWS or name == "__get__":
        return _FREE
    moved = sum(tensor.numel() * tensor.element_size() for tensor in _tensors((args, dict(kwargs), result)))
    if name in {
        "embedding",
        "index_select",
        "gather",
        "__getitem__",
    }:  # Reads as much as it writes, not the whole table.
        moved = 2 * sum(tensor.numel() * tensor.element_size() for tensor in _tensors(result))
    formula = _FORMULAS.get(name.strip("_"), _one_per_output)
    work = formula(args, kwargs, result)
    return Cost(round(2 * work.macs + work.others), moved, round(work.macs))


def _tensors(value: Any) -> list[Tensor]:
    """Return the tensors in a value. Most containers are plain ones, which take no registry to look into."""
    kind = type(value)
    if kind is tuple or kind is list:
        return [tensor for each in value for tensor in _tensors(each)]
    if kind is dict:
        return [tensor for each in value.values() for tensor in _tensors(each)]
    if isinstance(value, Tensor):
        return [value]
    if value is None or kind in _PLAIN:
        return []
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def _argument(args: tuple[Any, ...], kwargs: Mapping[str, Any], place: int, name: str, default: Any = None) -> Any:
    return args[place] if len(args) > place else kwargs.get(name, default)


def _numel(value: Any) -> int:
    return sum(tensor.numel() for tensor in _tensors(value))


def _one_per_output(_args: tuple[Any, ...], _kwargs: Mapping[str, Any], result: Any) -> _Work:
    return _Work(0, _numel(result))


def _per_output(count: float) -> _Formula:
    """Return the formula of a function that does ``count`` operations for each element of its result."""
    return lambda _args, _kwargs, result: _Work(0, count * _numel(result))


def _per_input(count: float) -> _Formula:
    """Return the formula of a function that does ``count`` operations for each element of its arguments."""
    return lambda args, _kwargs, _result: _Work(0, count * _numel(args))


def _bilinear(args: tuple[Any, ...], _kwargs: Mapping[str, Any], result: Any) -> _Work:
    """Outputs · in1 · in2."""
    return _Work(_numel(result) * args[0].shape[-1] * args[1].shape[-1])


def _linear(args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> _Work:
    """Rows · in · out, and one addition an output for the bias."""
    weight = _argument(args, kwargs, 1, "weight")
    bias = _argument(args, kwargs, 2, "bias")
    return _Work(_numel(result) * weight.shape[-1], _numel(result) * (bias is not None))


def _convolution(args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> _Work:
    """Outputs · (in channels / groups) · kernel: the weight has that many numbers for each output channel."""
    weight = _argument(args, kwargs, 1, "weight")
    bias = _argument(args, kwargs, 2, "bias")
    return _Work(_numel(result) * math.prod(weight.shape[1:]), _numel(result) * (bias is not None))


def _transposed_convolution(args: tuple[Any, ...], kwargs: Mapping[str, Any], _result: Any) -> _Work:
    """As a convolution with input and output exchanged: each input meets the kernel of its channel."""
    weight = _argument(args, kwargs, 1, "weight")
    return _Work(_argument(args, kwargs, 0, "input").numel() * math.prod(weight.shape[1:]))


def _matmul(args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> _Work:
    """Outputs · inner dimension."""
    first = _argument(args, kwargs, 0, "input")
    return _Work(_numel(result) * first.shape[-1])


def _addmm(args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> _Work:
    """As a matrix product, and one addition an output."""
    first = _argument(args, kwargs, 1, "mat1")
    return _Work(_numel(result) * first.shape[-1], _numel(result))


def _einsum(args: tuple[Any, ...], _kwargs: Mapping[str, Any], result: Any) -> _Work:
    """The product of the sizes of all indices, once for each operand beyond the first."""
    equation, *operands = args
    tensors = _tensors(operands)
    if not isinstance(equation, str) or "." in equation:
        return _Work(_numel(result) * (tensors[0].shape[-1] if tensors else 1))
    terms = re.sub(r"\s", "", equation).partition("->")[0].split(",")
    sizes = {
        index: size
        for term, tensor in zip(terms, tensors, strict=False)
        for index, size in zip(term, tensor.shape, strict=False)
    }
    if len(tensors) < 2 or not sizes:
        return _Work(0, math.prod(sizes.values()) if sizes else _numel(result))
    return _Work(math.prod(sizes.values()) * (len(tensors) - 1))


def _attention(args: tuple[Any, ...], kwargs: Mapping[str, Any], _result: Any) -> _Work:
    """Two matrix products, scores · (E + Ev), and about five operations a score for scaling and softmax."""
    query = _argument(args, kwargs, 0, "query")
    key = _argument(args, kwargs, 1, "key")
    value = _argument(args, kwargs, 2, "value")
    scores = math.prod(query.shape[:-1]) * key.shape[-2]
    return _Work(scores * (query.shape[-1] + value.shape[-1]), 5 * scores)


def _multi_head_attention(args: tuple[Any, ...], kwargs: Mapping[str, Any], _result: Any) -> _Work:
    """Four projections, rows · in · out each, and the attention of all heads; sequences come before batches."""
    query, key, value, width = args[:4]
    batch = query.shape[1] if query.dim() == 3 else 1
    targets, sources = query.shape[0], key.shape[0]
    heads = _argument(args, kwargs, 4, "num_heads")
    projections = targets * 2 * width * width + sources * width * (key.shape[-1] + value.shape[-1])
    scores = batch * targets * sources
    return _Work(batch * projections + 2 * scores * width, 5 * scores * heads)


def _pool(args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> _Work:
    """One operation for each element under the window at each output."""
    kernel = _argument(args, kwargs, 1, "kernel_size", 1)
    given = _argument(args, kwargs, 0, "input")
    spatial = given.dim() - 2
    window = math.prod(kernel) if isinstance(kernel, list | tuple) else kernel**spatial
    return _Work(0, _numel(_tensors(result)[:1]) * window)


def _recurrent(gates: int) -> _Formula:
    """Return the formula of a recurrent layer: at each step matrix products with input and state, and the cell."""

    def formula(args: tuple[Any, ...], _kwargs: Mapping[str, Any], result: Any) -> _Work:
        weights = [tensor for tensor in _tensors(args[2:]) if tensor.dim() == 2]
        given = args[0]
        steps = given.numel() // max(1, given.shape[-1])
        hidden = _tensors(result)[0].shape[-1]
        return _Work(steps * sum(weight.numel() for weight in weights), steps * 4 * gates * hidden)

    return formula


_MOVING_NOTHING = """
    view view_as transpose permute unsqueeze squeeze expand expand_as chunk split tensor_split unbind narrow
    select detach flatten unflatten reshape swapaxes swapdims movedim moveaxis t T mT contiguous to type_as
    diagonal unfold as_strided size dim broadcast_to empty empty_like new_empty dropout feature_dropout
    dropout2d identity real imag
"""
_VIEWS = frozenset(_MOVING_NOTHING.split())
"""Functions that move nothing, or nothing that is sure to be moved."""

_TABLE: tuple[tuple[str, _Formula], ...] = (
    ("linear", _linear),
    ("bilinear", _bilinear),
    ("conv1d conv2d conv3d", _convolution),
    ("conv_transpose1d conv_transpose2d conv_transpose3d", _transposed_convolution),
    ("matmul bmm mm mv dot rmatmul", _matmul),
    ("addmm baddbmm addbmm", _addmm),
    ("einsum", _einsum),
    ("scaled_dot_product_attention", _attention),
    ("multi_head_attention_forward", _multi_head_attention),
    ("layer_norm group_norm instance_norm", _per_output(8)),
    ("rms_norm", _per_output(5)),
    ("batch_norm normalize", _per_output(4)),
    ("softmax log_softmax", _per_output(5)),
    ("gelu mish", _per_output(8)),
    ("silu sigmoid tanh hardswish softplus elu selu", _per_output(4)),
    ("max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d lp_pool2d", _pool),
    ("adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d", _per_input(1)),
    ("sum mean prod max min amax amin argmax argmin norm cumsum", _per_input(1)),
    ("var std var_mean logsumexp", _per_input(3)),
    ("interpolate", _per_output(7)),
    ("grid_sample", _per_output(11)),
    ("embedding getitem setitem cat concat stack pad clone copy roll flip repeat gather", _per_output(0)),
    (
        "zeros ones full arange zeros_like ones_like index_select masked_fill where bool float half long",
        _per_output(0),
    ),
    ("tril triu", _per_output(0)),
    ("lstm", _recurrent(4)),
    ("gru", _recurrent(3)),
    ("rnn_tanh rnn_relu", _recurrent(1)),
)
_FORMULAS = {name: formula for names, formula in _TABLE for name in names.split()}
"""The formulas by name, which torch's functions, the functional ones and the methods of tensors share."""

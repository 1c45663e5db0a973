"""Shape propagation: runs a graph on example inputs and notes on each node what tensor it makes.

``propagate`` does what torch.fx's pass does: it runs for real, on the tensors given, and stops at the first error.
``propagate_partial`` runs for the shapes alone (see ``shapes_only``), needs neither memory nor time worth speaking
of, and goes on after an error: whatever does not depend on the failing node is still found, and each failure says
which node, which error, and what went in.
"""

import inspect
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn
from torch._guards import detect_fake_mode
from torch.utils import _pytree as pytree

from fxengine.bytecode import unpacked_at
from fxengine.graph_module import GraphModule
from fxengine.interpreter import Interpreter
from fxengine.names import dtype_abbreviation
from fxengine.node import Node, TensorFacts, map_aggregate
from fxengine.shapes_only import ShapesOnly, needs_data, to_meta

__all__ = ["PartialShapeProp", "ShapeFailure", "ShapeProp", "ShapeReport", "TensorMetadata", "describe"]


_ASKING = (nn.Transformer, nn.TransformerEncoder, nn.TransformerDecoder)
"""Layers that look whether a mask which they are given is causal, unless they are told."""

_TRIAL_LIMIT = 1 << 24
"""The most elements, inputs and state together, on which a node that failed is tried for real."""


class TensorMetadata(NamedTuple):
    """What shape propagation knows of a tensor; the value of ``node.meta["tensor_meta"]``."""

    shape: torch.Size
    dtype: torch.dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: torch.memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ShapeFailure:
    """One node that could not be run on the shapes that reached it.

    Attributes:
        node: The node.
        error: What it raised, as it was raised.
        inputs: For each node among its arguments its name and what it was, as ``("x", "f32[2, 3]")``.
        needs_data: The node wanted data and was given shapes only: no fault of the model, but the end of what can
            be said.
    """

    node: Node
    error: Exception
    inputs: tuple[tuple[str, str], ...]
    needs_data: bool


@dataclass(frozen=True, slots=True)
class ShapeReport:
    """What ``propagate_partial`` found.

    Attributes:
        failures: The nodes that raised, in the order of the graph; empty if the graph runs.
        unknown: The nodes that have no shape as they depend on a failure.
        result: What the graph returns, with tensors on meta; None unless everything ran.
    """

    failures: tuple[ShapeFailure, ...] = ()
    unknown: tuple[Node, ...] = ()
    result: Any = None

    @property
    def complete(self) -> bool:
        """Whether every node ran."""
        return not self.failures


class PartialShapeProp(Interpreter):
    """Notes on each node the shape and type of its result, which it finds without data, and goes on after an error.

    ``node.meta["tensor_meta"]`` gets the result with each tensor in it replaced by a ``TensorMetadata``,
    ``node.meta["type"]`` the type of the result, and ``node.tensor`` the facts of a result that is a tensor.
    """

    def __init__(self, gm: GraphModule, fake_mode: Any = None) -> None:
        """Prepare to run ``gm``, under torch's ``FakeTensorMode`` if one is given or active."""
        super().__init__(gm)
        self.fake_mode: Any = fake_mode or detect_fake_mode()
        self._fake_tensors: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._device: torch.device | None = None

    def propagate_partial(self, *args: Any, device: torch.device | None = None) -> ShapeReport:
        """Note the shapes of all nodes that can be run on ``args``, without their data, and report those that cannot.

        Args:
            *args: The graph's inputs. Their tensors may be on meta; data in them is not looked at.
            device: What ``node.tensor`` is to say of where tensors lie; by default the first input's device, or the CPU
                where that is meta.
        """
        self._device = device or _device_of(args)
        inputs = pytree.tree_map_only(torch.Tensor, to_meta, args)
        failures: list[ShapeFailure] = []
        self.env = {}
        self.args_iter = iter(self.graph.process_inputs(*inputs))
        unknown: dict[Node, None] = {}
        result = None
        with torch.no_grad(), self._shapes_only():
            for node in self.graph.nodes:
                if any(source in unknown for source in node.all_input_nodes):
                    unknown[node] = None
                    continue
                try:
                    self.env[node] = result = self._record(node, self._run_for_shape(node))
                except Exception as error:  # noqa: BLE001 - the user's operators raise whatever they like: a finding.
                    unknown[node] = None
                    failures.append(ShapeFailure(node, error, _inputs_of(node, self.env), needs_data(error)))
        self._device = None
        return ShapeReport(tuple(failures), tuple(unknown), None if unknown else result)

    def _shapes_only(self) -> ShapesOnly:
        """Return the mode in which shapes are found; a subclass may have one that finds more."""
        return ShapesOnly(self.module)

    def fetch_attr(self, target: str) -> Any:
        """Return the attribute, as a fake tensor or a module of fake tensors if there is a fake mode."""
        value = super().fetch_attr(target)
        return self._fake(value) if self.fake_mode is not None and isinstance(value, torch.Tensor) else value

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the submodule, with fake parameters if there is a fake mode."""
        submodule = self.fetch_attr(target)
        if isinstance(submodule, _ASKING):
            kwargs = {**_unasked(submodule, args), **kwargs}
        if self.fake_mode is None:
            return submodule(*args, **kwargs)
        state = {**dict(submodule.named_parameters()), **dict(submodule.named_buffers())}
        fakes = {name: self._fake(tensor) for name, tensor in state.items()}
        return torch.func.functional_call(submodule, fakes, args, kwargs)

    def _run_for_shape(self, node: Node) -> Any:
        """Execute ``node`` without data; if that fails, ask again with data.

        Kernels for meta tensors have faults, and words, of their own.

        Raises:
            Exception: What the node raises with data, or without if it cannot be had.
            ValueError: It is part of an unpacking into more or fewer targets than there are items.
        """
        _check_unpacking(node, self.env)
        if node.op == "placeholder" and str(node.target).startswith("*"):
            return self._starred(node)
        try:
            return super().run_node(node)
        except Exception as error:  # The user's operators raise whatever they like.
            if needs_data(error) or not node.op.startswith("call"):
                raise
        with torch._C.DisableTorchFunction():
            result = self._run_on_zeros(node)
            return pytree.tree_map_only(torch.Tensor, to_meta, result)

    def _starred(self, node: Node) -> Any:
        """Return what `**kwargs` takes, one argument of the graph, or `*args`, all that are left but that one."""
        if str(node.target).startswith("**"):
            return next(self.args_iter, {})
        rest = list(self.args_iter)
        named = any(str(each.target).startswith("**") for each in self.graph.nodes if each.op == "placeholder")
        self.args_iter = iter(rest[-1:] if named else ())
        return rest[:-1] if named else rest

    def _run_on_zeros(self, node: Node) -> Any:
        """Execute ``node`` on tensors full of zeros, its module's state included."""
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        submodule = self.fetch_attr(str(node.target)) if node.op == "call_module" else None
        state = dict(submodule.state_dict(keep_vars=True)) if submodule is not None else {}
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs, state)) if isinstance(leaf, torch.Tensor)]
        if sum(tensor.numel() for tensor in tensors) > _TRIAL_LIMIT:
            return super().run_node(node)
        args, kwargs, state = pytree.tree_map_only(torch.Tensor, _zeros, (args, kwargs, state))
        if submodule is not None:
            return torch.func.functional_call(submodule, state, args, kwargs)
        return getattr(self, node.op)(node.target, args, kwargs)

    def _fake(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the one fake tensor that stands for ``tensor``."""
        known = self._fake_tensors.get(id(tensor))
        if known is None:
            known = self._fake_tensors[id(tensor)] = (tensor, self.fake_mode.from_tensor(tensor))
        return known[1]

    def _record(self, node: Node, result: Any) -> Any:
        """Note ``result`` on ``node`` and return it."""
        found = False

        def describe(value: Any) -> Any:
            nonlocal found
            if not isinstance(value, torch.Tensor):
                return value
            found = True
            return _extract_tensor_metadata(value)

        with torch._C.DisableTorchFunction():
            described = map_aggregate(result, describe)
            if isinstance(result, torch.Tensor):
                node.tensor = TensorFacts(tuple(result.shape), result.dtype, self._device or result.device)
        if found:
            node.meta["tensor_meta"] = described
        node.meta["type"] = type(result)
        return result


class ShapeProp(PartialShapeProp):
    """Notes on each node the shape and type of its result, which it computes.

    Example:
        >>> traced = symbolic_trace(torch.nn.Linear(4, 8))
        >>> _ = ShapeProp(traced).propagate(torch.randn(2, 4))
        >>> [node.meta["tensor_meta"].shape for node in traced.graph.nodes]
        [torch.Size([2, 4]), torch.Size([2, 8]), torch.Size([2, 8])]
    """

    def propagate(self, *args: Any) -> Any:
        """Run the graph on ``args``, note the shapes, and return its result.

        Raises:
            RuntimeError: A node raised; its own exception is the cause.
        """
        if self.fake_mode is None:
            return super().run(*args)
        with self.fake_mode:
            return super().run(*pytree.tree_map_only(torch.Tensor, self._fake, args))

    def run_node(self, n: Node) -> Any:
        """Execute ``n`` and note what it made."""
        try:
            result = super().run_node(n)
        except Exception as error:  # The user's operators raise whatever they like; it goes on as the cause.
            raise RuntimeError(f"ShapeProp error for: node={n.format_node()} with meta={n.meta}") from error
        return self._record(n, result)


def describe(value: Any) -> str:
    """Return a value as it is shown to people: a tensor as ``f32[2, 3]``, containers likewise, all else by its type.

    Facts about a tensor are shown as the tensor is.
    """
    match value:
        case torch.Tensor() | TensorFacts():
            return f"{dtype_abbreviation(value.dtype)}[{', '.join(map(str, value.shape))}]"
        case tuple() | list():
            return f"({', '.join(map(describe, value))})"
        case bool() | int() | float() | str() | None:
            return repr(value)
        case _:
            return type(value).__name__


def _zeros(tensor: torch.Tensor) -> torch.Tensor:
    """Return zeros that lie in memory as the tensor does: it follows from that how they can be viewed."""
    if tensor.layout is not torch.strided or not tensor.numel():
        return torch.zeros(tensor.shape, dtype=tensor.dtype, device="cpu")
    strides = tensor.stride()
    extent = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, strides, strict=True))
    return torch.zeros(extent, dtype=tensor.dtype, device="cpu").as_strided(tensor.shape, strides)


def _check_unpacking(node: Node, env: Mapping[Node, Any]) -> None:
    """Raise what Python raises where a tensor is unpacked, and does not have as many items as there are targets.

    Raises:
        ValueError: It does not.
    """
    mark = node._mark
    if node.target is not operator.getitem or not isinstance(node.args[0], Node) or type(node.args[1]) is not int:
        return
    if type(mark) is not tuple or len(mark) <= 2 or mark[2] < 0:
        return
    with torch._C.DisableTorchFunction():
        unpacked = env.get(node.args[0])
        items = len(unpacked) if isinstance(unpacked, torch.Tensor) and unpacked.dim() else None
    targets = unpacked_at(mark[1], mark[2]) if items is not None else None
    if items is None or targets is None or items == targets:
        return
    if items > targets:
        raise ValueError(f"too many values to unpack (expected {targets})")
    raise ValueError(f"not enough values to unpack (expected {targets}, got {items})")


def _inputs_of(node: Node, env: Mapping[Node, Any]) -> tuple[tuple[str, str], ...]:
    with torch._C.DisableTorchFunction():
        return tuple((source.name, describe(env[source])) for source in node.all_input_nodes)


def _unasked(module: nn.Module, args: tuple[Any, ...]) -> dict[str, bool]:
    """Return what spares a transformer a look whether its mask is causal, which changes no shape of what it gives."""
    parameters = list(inspect.signature(module.forward).parameters.values())[len(args) :]
    return {each.name: False for each in parameters if each.name.endswith("is_causal") and each.default is None}


def _device_of(args: tuple[Any, ...]) -> torch.device:
    """Return where the first tensor among ``args`` lies, and the CPU if it lies nowhere."""
    tensors = [leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, torch.Tensor)]
    return tensors[0].device if tensors and not tensors[0].is_meta else torch.device("cpu")


def _extract_tensor_metadata(result: torch.Tensor, include_contiguity: bool = True) -> TensorMetadata:
    """Return the ``TensorMetadata`` of ``result``; without its memory format if ``include_contiguity`` is false."""
    is_strided = result.layout is torch.strided
    return TensorMetadata(
        shape=result.shape,
        dtype=result.dtype,
        requires_grad=result.requires_grad,
        stride=result.stride() if is_strided else (),
        memory_format=_memory_format(result) if include_contiguity and is_strided else None,
        is_quantized=result.is_quantized,
        qparams=_quantization(result) if result.is_quantized else {},
    )


def _memory_format(tensor: torch.Tensor) -> torch.memory_format | None:
    for memory_format in (torch.contiguous_format, torch.channels_last, torch.channels_last_3d):
        if tensor.is_contiguous(memory_format=memory_format):
            return memory_format
    return None


def _quantization(tensor: torch.Tensor) -> dict[str, Any]:
    """Return scheme, scale and zero point of a quantized tensor; those of each channel as lists."""
    scheme = tensor.qscheme()
    found: dict[str, Any] = {"qscheme": scheme}
    if scheme in {torch.per_tensor_affine, torch.per_tensor_symmetric}:
        found |= {"scale": tensor.q_scale(), "zero_point": tensor.q_zero_point()}
    else:
        found |= {
            "scale": tensor.q_per_channel_scales().tolist(),
            "zero_point": tensor.q_per_channel_zero_points().tolist(),
            "axis": tensor.q_per_channel_axis(),
        }
    return found

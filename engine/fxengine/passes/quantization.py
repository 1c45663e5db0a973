"""Post-training quantization: a graph of floats becomes a graph that computes with int8 where there are kernels for it.

Three steps. ``prepare`` puts observers where int8 values will be, ``calibrate`` shows them data, ``convert`` replaces
layers by torch's own quantized modules, with scales from what was observed. ``quantize`` does all three. Weights are
int8 with a scale for each output channel, activations uint8 with one scale each. Values become int8 before the first
layer and stay so as long as kernels can take them; the rest of the graph computes with floats, as before.

It does not train, and decides nothing by itself that could cost accuracy unseen: compare the results.
"""

import io
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.ao.quantization.observer import HistogramObserver

from fxengine.graph import Graph
from fxengine.graph_module import GraphModule
from fxengine.node import Node, map_arg
from fxengine.passes.fuse_conv_bn import fuse_conv_bn
from fxengine.passes.quantized_operations import (
    Unit,
    changes_in_place,
    is_carrier,
    quantized_join,
    quantized_layer,
    unit_at,
)

__all__ = [
    "Observer",
    "QuantizationBackendError",
    "QuantizationOptions",
    "calibrate",
    "convert",
    "prepare",
    "quantize",
    "saved_bytes",
]


class QuantizationBackendError(RuntimeError):
    """This build of torch, or this machine, has no int8 kernels of the kind that was asked for."""


@dataclass(frozen=True, slots=True)
class QuantizationOptions:
    """How a model is quantized.

    Attributes:
        engine: Whose kernels: ``x86``, ``onednn``, ``fbgemm`` or ``qnnpack``; by default the one torch has chosen.
        reduce_range: Use 7 bits for activations, since sums of products of 8 bits may overflow in the kernels ``x86``
            and ``fbgemm`` on processors without VNNI; by default just there.
        skip: Qualified names of layers that keep computing with floats, such as a sensitive first or last one.
    """

    engine: str | None = None
    reduce_range: bool | None = None
    skip: frozenset[str] = frozenset()


class Observer(nn.Module):
    """Passes on what it is given, and learns the range of its numbers. Mutable while calibrating.

    Attributes:
        fits: Whether everything that it saw was a tensor of single floats; else nothing is quantized here.
        seen: How many values it saw.
    """

    def __init__(self, *, reduce_range: bool) -> None:
        super().__init__()
        self.fits = True
        self.seen = 0
        self.range = HistogramObserver(quant_min=0, quant_max=127 if reduce_range else 255)

    def forward(self, value: Any) -> Any:
        """Return ``value``, and take note of it."""
        self.seen += 1
        if isinstance(value, Tensor) and value.dtype is torch.float32:
            self.range(value.detach())
        else:
            self.fits = False
        return value

    def scale_and_zero_point(self) -> tuple[float, int] | None:
        """Return how numbers in the range that was seen are best written as uint8; None if nothing fit was seen."""
        if not self.fits or not self.seen:
            return None
        scale, zero_point = self.range.calculate_qparams()
        return float(scale), int(zero_point)


def quantize(module: nn.Module, batches: Iterable[Any], options: QuantizationOptions | None = None) -> GraphModule:
    """Return ``module`` quantized with ranges from ``batches``: ``prepare``, ``calibrate`` and ``convert``."""
    prepared = prepare(module, options)
    calibrate(prepared, batches)
    return convert(prepared)


def prepare(module: nn.Module, options: QuantizationOptions | None = None) -> GraphModule:
    """Return ``module`` with batch norms folded and an ``Observer`` wherever an int8 value will be.

    It computes what ``module`` computes and shares its parameters, apart from folded ones.

    Args:
        module: A graph module, or a module that is traced first; in evaluation mode.
        options: How to quantize.

    Raises:
        QuantizationBackendError: There are no kernels.
        ValueError: ``module`` is in training mode, or ``skip`` names what it does not have.
        TraceError: ``module`` cannot be traced.
    """
    chosen = options or QuantizationOptions()
    engine = _engine(chosen.engine)
    if module.training:
        raise ValueError("only a model in evaluation mode can be quantized: call `eval()` first")
    prepared = fuse_conv_bn(module)
    absent = chosen.skip - {name for name, _ in prepared.named_modules()}
    if absent:
        raise ValueError(f"to be skipped, but not called in the graph: {', '.join(sorted(absent))}")
    may_overflow = engine in {"x86", "fbgemm"} and not _has_vnni()
    reduce_range = may_overflow if chosen.reduce_range is None else chosen.reduce_range
    units, observed = _plan(prepared, chosen.skip)
    for number, node in enumerate(observed):
        target = f"observer_{number}"
        prepared.add_submodule(target, Observer(reduce_range=reduce_range))
        with prepared.graph.inserting_after(node):
            observer = prepared.graph.call_module(target, (node,))
        node.replace_all_uses_with(observer, lambda user, observer=observer: user is not observer)
    prepared.meta["quantization"] = _Plan(engine, frozenset(unit.start.name for unit in units))
    prepared.recompile()
    return prepared


def calibrate(prepared: GraphModule, batches: Iterable[Any]) -> None:
    """Run ``prepared`` on ``batches``, so that its observers learn what there is.

    Args:
        prepared: What ``prepare`` returned.
        batches: Inputs: each a tensor, or a tuple of positional arguments.
    """
    with torch.no_grad():
        for batch in batches:
            prepared(*batch) if isinstance(batch, tuple) else prepared(batch)


def convert(prepared: GraphModule) -> GraphModule:
    """Return the quantized model: int8 wherever ``prepared`` observed values that fit.

    It takes and returns floats. What was not observed, or saw no data, computes with floats.

    Raises:
        QuantizationBackendError: There are no kernels.
        ValueError: No observer has seen any data, or ``prepare`` did not make this.
    """
    plan = prepared.meta.get("quantization")
    observers = [each for each in prepared.modules() if isinstance(each, Observer)]
    if not isinstance(plan, _Plan):
        raise ValueError("convert takes what prepare has returned")  # noqa: TRY004 - the module's state, not its type.
    if observers and not any(observer.seen for observer in observers):
        raise ValueError("nothing was observed: call `calibrate` before `convert`")
    with _using(_engine(plan.engine)):
        converter = _Converter(prepared, plan.units)
        graph = converter.convert()
    converted = GraphModule(converter.targets, graph, type(prepared).__name__)
    return converted.eval()


def saved_bytes(module: nn.Module) -> int:
    """Return how many bytes the state of ``module`` takes in a file."""
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    return file.getbuffer().nbytes


@dataclass(frozen=True, slots=True)
class _Plan:
    """What ``prepare`` leaves for ``convert``.

    Attributes:
        engine: Whose kernels.
        units: The names of the nodes with which the units begin that are to be int8.
    """

    engine: str
    units: frozenset[str]


def _plan(module: GraphModule, skip: frozenset[str]) -> tuple[list[Unit], list[Node]]:
    """Return the units that are to be int8, and the values to observe: their results, and what must become int8.

    A layer is worth making its input int8, a join is not: it is one of them where all its inputs are int8 anyway.
    """
    shared = _overwritten(module)
    int8: set[Any] = set()
    observed: dict[Node, None] = {}
    units: list[Unit] = []
    for node in module.graph.nodes:
        unit = None if str(node.target) in skip else unit_at(module, node)
        if unit is not None and (unit.layer is not None or int8.issuperset(unit.inputs)):
            if shared.isdisjoint((*unit.inputs, unit.end)):
                units.append(unit)
                observed |= dict.fromkeys((*(value for value in unit.inputs if value not in int8), unit.end))
                int8.add(unit.end)
        elif is_carrier(module, node) and node.args[0] in int8:
            int8.add(node)
    return units, list(observed)


def _overwritten(module: GraphModule) -> set[Node]:
    """Return the values that one user overwrites while there are others, who may see that."""
    return {
        node
        for node in module.graph.nodes
        if len(node.users) > 1
        and any(user.args and user.args[0] is node and changes_in_place(module, user) for user in node.users)
    }


@dataclass(slots=True)
class _Value:
    """A value of the prepared graph in the new one, in each form that was asked for so far.

    Attributes:
        floats: The node of its floats.
        int8: The node of its int8 form.
        scale: Scale and zero point of its int8 form, where it was observed.
    """

    floats: Node | None = None
    int8: Node | None = None
    scale: tuple[float, int] | None = None


class _Converter:
    """Builds the quantized graph. Mutable.

    Attributes:
        units: The names of the nodes with which units begin.
        graph: The new graph.
        targets: What its nodes refer to, by qualified name.
    """

    def __init__(self, prepared: GraphModule, units: frozenset[str]) -> None:
        self.prepared = prepared
        self.units = units
        self.graph = Graph()
        self.targets: dict[str, Any] = {}
        self._values: dict[Node, _Value] = {}
        self._rest: dict[Node, Unit] = {}
        """Units whose beginning was met and whose rectifier was not."""

    def convert(self) -> Graph:
        """Return the new graph."""
        self.graph.set_codegen(self.prepared.graph._codegen)
        for node in self.prepared.graph.nodes:
            self._convert_node(node)
        return self.graph

    def _convert_node(self, node: Node) -> None:
        module = self.prepared
        if (observer := self._observer(node)) is not None:
            assert isinstance(node.args[0], Node)
            value = self._values[node] = self._values[node.args[0]]
            value.scale = observer.scale_and_zero_point()
            return
        unit = self._rest.pop(node, None) or (unit_at(module, node) if node.name in self.units else None)
        scale = self._scale_for(unit) if unit is not None else None
        if unit is not None and scale is not None:
            if unit.end is node:
                self._values[node] = _Value(int8=self._kernel(unit, *scale))
                self._inherit(node, self._values[node].int8)
            else:
                self._rest[unit.end] = unit
            return
        first = node.args[0] if node.args else None
        source = self._values.get(first) if isinstance(first, Node) else None
        rest: Any = map_arg(node.args[1:], self._floats)
        kwargs: Any = map_arg(node.kwargs, self._floats)
        if source is not None and source.int8 is not None and _asks_for_shape(node):
            self._values[node] = _Value(floats=self._copy(node, (source.int8, *rest), kwargs))
        elif source is not None and source.int8 is not None and is_carrier(module, node):
            self._values[node] = _Value(int8=self._copy(node, (source.int8, *rest), kwargs))
        else:
            args: Any = map_arg(node.args, self._floats)
            self._values[node] = _Value(floats=self._copy(node, args, kwargs))

    def _observer(self, node: Node) -> Observer | None:
        if node.op != "call_module":
            return None
        called = self.prepared.get_submodule(str(node.target))
        return called if isinstance(called, Observer) else None

    def _scale_for(self, unit: Unit) -> tuple[float, int] | None:
        """Return scale and zero point of a unit's result, if it was observed and all inputs can be had as int8."""
        if len(unit.end.users) != 1:
            return None
        observer = self._observer(next(iter(unit.end.users)))
        values = [self._values[source] for source in unit.inputs]
        # A range that is not known stays with floats, and so does a join where that befell a layer before it.
        known = all(value.int8 is not None or (value.scale and unit.layer is not None) for value in values)
        return observer.scale_and_zero_point() if observer is not None and known else None

    def _kernel(self, unit: Unit, scale: float, zero_point: int) -> Node:
        """Add the call of a unit's kernel."""
        inputs = [self._int8(source) for source in unit.inputs]
        if unit.layer is None:
            return self.graph.call_function(*quantized_join(self.prepared, unit, inputs, scale, zero_point))
        target, number = str(unit.start.target), 0
        is_shared = sum(str(call.target) == target for call in self.prepared.graph.find_nodes(op="call_module")) > 1
        while (is_shared and not number) or target in self.targets:  # Each call has a scale of its own.
            number += 1
            target = f"{unit.start.target}_{number}"
        self.targets[target] = quantized_layer(unit, scale, zero_point)
        return self.graph.call_module(target, tuple(inputs))

    def _int8(self, node: Node) -> Node:
        value = self._values[node]
        if value.int8 is None:
            assert value.floats is not None
            assert value.scale is not None
            args = (value.floats, *value.scale, torch.quint8)
            value.int8 = self.graph.call_function(torch.quantize_per_tensor, args)
        return value.int8

    def _floats(self, node: Node) -> Node:
        value = self._values[node]
        if value.floats is None:
            assert value.int8 is not None
            value.floats = self.graph.call_method("dequantize", (value.int8,))
        return value.floats

    def _copy(self, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Node:
        """Add a node like ``node`` with other arguments."""
        copied = self.graph.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        self._inherit(node, copied)
        if node.op == "call_module":
            self.targets[str(node.target)] = self.prepared.get_submodule(str(node.target))
        elif node.op == "get_attr":
            owner, _, name = str(node.target).rpartition(".")
            self.targets[str(node.target)] = getattr(self.prepared.get_submodule(owner), name)
        return copied

    @staticmethod
    def _inherit(node: Node, copied: Node | None) -> None:
        """Let a node of the new graph know where it comes from."""
        assert copied is not None
        copied.origin = node.origin
        copied.meta = dict(node.meta)


def _asks_for_shape(node: Node) -> bool:
    if node.op not in {"call_function", "call_method"}:
        return False
    asked = node.args[1] if node.target is getattr else node.target
    return asked in {"shape", "ndim", "size", "dim", "device"}


def _engine(wanted: str | None) -> str:
    """Return the name of the kernels to use.

    Raises:
        QuantizationBackendError: There are none, or not those.
    """
    supported = [name for name in torch.backends.quantized.supported_engines if name != "none"]
    name = wanted or torch.backends.quantized.engine
    if name not in supported:
        raise QuantizationBackendError(
            f"no int8 kernels `{name}` here; this build of torch has {', '.join(supported) or 'none at all'}"
        )
    return name


def _has_vnni() -> bool:
    """Return whether the processor adds products of 8 bits without losing any; False where torch cannot tell."""
    ask = getattr(torch.cpu, "_is_vnni_supported", None)
    return ask is not None and bool(ask())


@contextmanager
def _using(engine: str) -> Generator[None]:
    """Let weights be packed for ``engine`` meanwhile."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = engine
    try:
        yield
    finally:
        torch.backends.quantized.engine = before

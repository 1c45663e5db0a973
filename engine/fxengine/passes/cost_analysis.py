"""What a model needs, and how fast a machine could run it at best, without running it and without the machine.

Shapes go through the graph on the meta device, so a model of any size is analysed in about the time of its trace. For
each node there are operations, memory traffic, parameters and the bytes of values that are alive; a *roofline* then
says how long a machine of a given speed and bandwidth must take at least. What one operation costs is the matter of
``cost``; what it really takes on a device that is there, of ``profiling``.
"""

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from fxengine._symbolic_trace import symbolic_trace
from fxengine.graph_module import GraphModule
from fxengine.node import Node
from fxengine.passes.cost import Cost, CostProp
from fxengine.passes.shape_prop import ShapeReport

__all__ = ["CostAnalysis", "NodeCost", "Roofline", "analyse_costs"]


@dataclass(frozen=True, slots=True)
class NodeCost:
    """What one call of a graph needs.

    Attributes:
        node: The call.
        cost: Its operations and memory traffic.
        parameters: How many numbers its module has as parameters.
        result_bytes: Bytes that its result takes and that were not there before; none for views.
        live_bytes: Bytes of values that are alive while it runs, its result included, and the graph's inputs.
    """

    node: Node
    cost: Cost
    parameters: int
    result_bytes: int
    live_bytes: int

    @property
    def intensity(self) -> float:
        """Operations for each byte moved; zero where nothing moves."""
        return _intensity(self.cost)


@dataclass(frozen=True, slots=True)
class Roofline:
    """The least time that a machine needs: each call is held up by its arithmetic or by its memory traffic.

    Attributes:
        seconds: All calls together.
        memory_bound: The share of that time in calls that wait for memory, 0 to 1.
        by_node: The seconds of each call.
    """

    seconds: float
    memory_bound: float
    by_node: dict[Node, float]


@dataclass(frozen=True, slots=True)
class CostAnalysis:
    """What a graph needs.

    Attributes:
        nodes: What each call needs, in order; those alone that could be run on shapes.
        total: All calls together.
        parameters: How many numbers the model has as parameters.
        parameter_bytes: The bytes of parameters and buffers.
        peak_bytes: The most bytes of values that are alive at once when each is freed after its last use. What an
            operation needs for itself in between is not known from shapes and comes on top.
        peak_node: The call at which that is so; None in a graph without calls.
        shapes: What shape propagation found; ``shapes.complete`` says whether the figures are those of the whole.
    """

    nodes: tuple[NodeCost, ...]
    total: Cost
    parameters: int
    parameter_bytes: int
    peak_bytes: int
    peak_node: Node | None
    shapes: ShapeReport

    @property
    def intensity(self) -> float:
        """Operations for each byte moved, over the whole."""
        return _intensity(self.total)

    def roofline(self, *, flops: float, bandwidth: float) -> Roofline:
        """Return the least time on a machine.

        Args:
            flops: Its floating point operations a second, for the type in use.
            bandwidth: The bytes that its memory reads and writes a second.

        Raises:
            ValueError: One of them is not positive.
        """
        if flops <= 0 or bandwidth <= 0:
            raise ValueError("a machine's speed and bandwidth are positive")
        computing = {each.node: each.cost.flops / flops for each in self.nodes}
        moving = {each.node: each.cost.bytes / bandwidth for each in self.nodes}
        by_node = {node: max(computing[node], moving[node]) for node in computing}
        seconds = sum(by_node.values())
        waiting = sum(time for node, time in by_node.items() if moving[node] > computing[node])
        return Roofline(seconds, waiting / seconds if seconds else 0.0, by_node)

    def table(self, limit: int | None = None) -> str:
        """Return the calls as lines of text, the most expensive first, and a line for the whole.

        Args:
            limit: The most calls to show; by default all.
        """
        rows = sorted(self.nodes, key=lambda each: each.cost.flops, reverse=True)[:limit]
        lines = [f"{'node':32} {'MFLOPs':>10} {'MB moved':>9} {'FLOPs/B':>8} {'parameters':>11} {'MB alive':>9}"]
        lines += [
            f"{each.node.name[:32]:32} {each.cost.flops / 1e6:10.2f} {each.cost.bytes / 1e6:9.2f}"
            f" {each.intensity:8.1f} {each.parameters:11,} {each.live_bytes / 1e6:9.2f}"
            for each in rows
        ]
        total = self.total
        lines.append(
            f"{'all':32} {total.flops / 1e6:10.2f} {total.bytes / 1e6:9.2f} {self.intensity:8.1f}"
            f" {self.parameters:11,} {self.peak_bytes / 1e6:9.2f}"
        )
        return "\n".join(lines)


def analyse_costs(module: nn.Module, *args: Any) -> CostAnalysis:
    """Return what one call ``module(*args)`` needs, from shapes alone.

    A graph module's nodes get their shapes noted on the way.

    Args:
        module: A graph module, or a module that is traced first; it may be on the meta device.
        *args: The inputs. Their tensors may be on meta; data in them is not looked at.

    Raises:
        TraceError: ``module`` cannot be traced.
    """
    traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
    propagation = _Values(traced)
    report = propagation.propagate_partial(*args)
    live = propagation.live_bytes()
    calls = [node for node in traced.graph.nodes if node.op.startswith("call") and node in propagation.costs]
    nodes = tuple(
        NodeCost(
            node,
            propagation.costs[node],
            _parameters_of(traced, node),
            propagation.made.get(node, 0),
            live[node],
        )
        for node in calls
    )
    peak = max(nodes, key=lambda each: each.live_bytes, default=None)
    return CostAnalysis(
        nodes,
        sum((each.cost for each in nodes), Cost()),
        sum(each.numel() for each in traced.parameters()),
        sum(each.numel() * each.element_size() for each in (*traced.parameters(), *traced.buffers())),
        peak.live_bytes if peak is not None else 0,
        peak.node if peak is not None else None,
        report,
    )


class _Values(CostProp):
    """Counts costs, and notes in which memory the values of the nodes lie.

    Values stay alive until the run ends, so that equal addresses mean the same memory: a view, or a value that was
    changed in place.
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.made: dict[Node, int] = {}
        """For each node the bytes that its value takes and no earlier one."""
        self._held: dict[Node, dict[int, int]] = {}
        """For each node its memory: address and bytes."""
        self._seen: set[int] = set()

    def _record(self, node: Node, result: Any) -> Any:
        held: dict[int, int] = {}
        if node.op != "get_attr":
            with torch._C.DisableTorchFunction():
                for tensor in pytree.tree_leaves(result):
                    if isinstance(tensor, Tensor) and tensor.layout is torch.strided:
                        storage = tensor.untyped_storage()
                        held[storage._cdata] = storage.nbytes()
        self._held[node] = held
        self.made[node] = sum(size for address, size in held.items() if address not in self._seen)
        self._seen |= held.keys()
        return super()._record(node, result)

    def live_bytes(self) -> dict[Node, int]:
        """Return for each node how many bytes of values are alive while it runs."""
        nodes = list(self.graph.nodes)
        place = {node: index for index, node in enumerate(nodes)}
        span: dict[int, tuple[int, int, int]] = {}
        for node, held in self._held.items():
            # Whoever calls holds the inputs until the end.
            last = len(nodes) if node.op == "placeholder" else max((place[user] for user in node.users), default=0)
            for address, size in held.items():
                begin, end, _ = span.get(address, (place[node], place[node], size))
                span[address] = (begin, max(end, last), size)
        change = [0] * (len(nodes) + 2)
        for begin, end, size in span.values():
            change[begin] += size
            change[end + 1] -= size
        return dict(zip(nodes, accumulate(change), strict=False))


def _parameters_of(module: GraphModule, node: Node) -> int:
    if node.op != "call_module":
        return 0
    return sum(parameter.numel() for parameter in module.get_submodule(str(node.target)).parameters())


def _intensity(cost: Cost) -> float:
    return cost.flops / cost.bytes if cost.bytes else 0.0

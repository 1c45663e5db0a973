"""Convolutional networks in the layout of oneDNN: conversions around each operation it has, then taken out in between.

What remains are regions that convert at their borders alone. A heuristic says of each whether it is worth the two
conversions. The pass takes it that no two values share memory.
"""

import copy
import logging
import operator
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import torch
from torch import nn
from torch.nn import functional
from torch.utils import mkldnn as torch_mkldnn

from fxengine._symbolic_trace import Tracer
from fxengine.experimental.subgraphs import extract_subgraph, replace_node_module
from fxengine.graph import Graph
from fxengine.graph_module import GraphModule
from fxengine.interpreter import Interpreter
from fxengine.node import Node, map_arg

__all__ = [
    "MklSubgraph",
    "UnionFind",
    "convert_layout",
    "gen_mkl_autotuner",
    "mkldnn_map",
    "mkldnn_supported",
    "mkldnn_supported_unknown",
    "modules_to_mkldnn",
    "reset_modules",
    "use_mkl_length",
]

log = logging.getLogger(__name__)

mkldnn_supported: Final[list[Any]] = [
    nn.Conv2d,
    nn.Linear,
    nn.BatchNorm2d,
    nn.ReLU,
    nn.MaxPool2d,
    nn.AvgPool2d,
    nn.AdaptiveAvgPool2d,
    torch.relu,
    torch.transpose,
    torch.sigmoid,
    functional.relu,
    functional.avg_pool2d,
    functional.adaptive_avg_pool2d,
]
"""What oneDNN has: types of modules, and functions."""

mkldnn_supported_unknown: Final[list[Any]] = [operator.add, operator.mul]
"""What it has for its own tensors: converted only where an argument comes from there anyway."""

mkldnn_map: Final[dict[type[nn.Module], Callable[[Any, torch.dtype], nn.Module]]] = {
    nn.Conv2d: torch_mkldnn.MkldnnConv2d,
    nn.Linear: torch_mkldnn.MkldnnLinear,
    nn.BatchNorm2d: lambda module, _: torch_mkldnn.MkldnnBatchNorm(module),
}
"""How modules are made that keep their parameters in oneDNN's layout."""


class MklSubgraph:
    """A region of a graph that runs in oneDNN's layout.

    Attributes:
        fx_graph: The graph; its attribute ``old_modules`` gives for each converted module the original.
        nodes: What is computed in the region.
        start_nodes: The conversions into the layout.
        end_nodes: The conversions back.
    """

    def __init__(self, fx_graph: Graph) -> None:
        self.fx_graph = fx_graph
        self.nodes: list[Node] = []
        self.start_nodes: list[Node] = []
        self.end_nodes: list[Node] = []


class UnionFind:
    """Sets of numbers below ``n`` that can be joined; each set is known by one of its members."""

    def __init__(self, n: int) -> None:
        self.parent: list[int | None] = [None] * n
        self.size: list[int] = [0] * n

    def make_set(self, v: int) -> None:
        """Make a set of ``v`` alone."""
        self.parent[v] = v
        self.size[v] = 1

    def find(self, v: int) -> int:
        """Return the member by which the set of ``v`` is known; ``v`` must be in one."""
        root = v
        while (parent := self.parent[root]) != root:
            assert parent is not None, "Parent is None"
            root = parent
        while v != root:
            above = self.parent[v]
            self.parent[v] = root
            assert above is not None
            v = above
        return root

    def join(self, a: int, b: int) -> int | None:
        """Make one set of those of ``a`` and ``b``; return ``a``'s member if they were one already."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return a
        if self.size[a] < self.size[b]:
            a, b = b, a
        self.parent[b] = a
        self.size[a] += self.size[b]
        return None


def modules_to_mkldnn(nodes: Sequence[Node], modules: dict[str, nn.Module]) -> dict[nn.Module, nn.Module]:
    """Let ``nodes`` call modules that keep their parameters in oneDNN's layout; return the originals by replacement."""
    originals: dict[nn.Module, nn.Module] = {}
    for node in nodes:
        if node.op != "call_module":
            continue
        module = modules[str(node.target)]
        convert = mkldnn_map.get(type(module))
        if convert is not None:
            converted = convert(module, torch.float)
            originals[converted] = copy.deepcopy(module)
            replace_node_module(node, modules, converted)
    return originals


def reset_modules(
    nodes: Iterable[Node], modules: dict[str, nn.Module], old_modules: dict[nn.Module, nn.Module]
) -> None:
    """Let ``nodes`` call the original modules again where ``modules_to_mkldnn`` replaced them."""
    for node in nodes:
        if node.op == "call_module" and modules[str(node.target)] in old_modules:
            replace_node_module(node, modules, old_modules[modules[str(node.target)]])


def use_mkl_length(graph: MklSubgraph) -> bool:
    """Return whether the region has more than two operations."""
    return len(graph.nodes) > 2


def gen_mkl_autotuner(
    example_inputs: list[torch.Tensor], iters: int = 10, warmup: int = 1
) -> Callable[[MklSubgraph], bool]:
    """Return a heuristic that runs each region in both layouts and says which was faster.

    Args:
        example_inputs: The inputs of the model, for the sizes of what goes into a region.
        iters: How often a region is run to take the time.
        warmup: How often it is run before.
    """

    def seconds(run: Callable[[], object]) -> float:
        for _ in range(warmup):
            run()
        begin = time.perf_counter()
        for _ in range(iters):
            run()
        return time.perf_counter() - begin

    def is_faster(region: MklSubgraph) -> bool:
        module = region.fx_graph.owning_module
        assert module is not None, "fx_graph.owning_module must not be None"
        measured = _Sizes(module)
        measured.run(*example_inputs)
        inputs = [torch.randn(measured.sizes[node]) for node in region.start_nodes]
        results = [node.args[0] for node in region.end_nodes]
        part = extract_subgraph(
            module, region.nodes, region.start_nodes, [node for node in results if isinstance(node, Node)]
        )
        converted = seconds(lambda: [value.to_dense() for value in part(*[given.to_mkldnn() for given in inputs])])
        reset_modules(part.graph.nodes, dict(part.named_modules()), vars(region.fx_graph)["old_modules"])
        return converted < seconds(lambda: part(*inputs))

    return is_faster


class _Sizes(Interpreter):
    """Notes the size of each tensor in a run."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.sizes: dict[Node, torch.Size] = {}

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        if isinstance(result, torch.Tensor):
            self.sizes[n] = result.shape
        return result


def convert_layout(model: nn.Module, is_worthwhile: Callable[[MklSubgraph], bool], tracer: Tracer) -> GraphModule:
    """Return ``model`` with the regions that are worth it in oneDNN's layout.

    Args:
        model: The model, on the CPU and in single precision; its convertible modules are replaced.
        is_worthwhile: Says of each region whether it is to be converted.
        tracer: Traces a copy of the model.
    """
    graph = tracer.trace(copy.deepcopy(model))
    modules: dict[str, nn.Module] = dict(model.named_modules())
    for node in graph.nodes:
        if _is_supported(node, modules):
            _surround(node)
    originals = modules_to_mkldnn(list(graph.nodes), modules)
    vars(graph)["old_modules"] = originals
    GraphModule(model, graph)  # Becomes the graph's owner, which a heuristic may run.
    _cancel_conversions(graph)
    for region in _regions(graph):
        if not is_worthwhile(region):
            for node in region.start_nodes + region.end_nodes:
                dense = node.args[0]
                assert isinstance(dense, Node)
                node.replace_all_uses_with(dense)
                graph.erase_node(node)
            reset_modules(region.nodes, modules, originals)
    log.info("mkldnn conversions: %s", sum(_converts(node, "to_mkldnn", "to_dense") for node in graph.nodes))
    graph.lint()
    return GraphModule(model, graph)


def _is_supported(node: Node, modules: dict[str, nn.Module]) -> bool:
    """Whether the node is to run in oneDNN's layout, given that what stands before it has been decided.

    Raises:
        AssertionError: A module is not in single precision, or not on the CPU.
    """
    if node.op == "call_module":
        module = modules[str(node.target)]
        parameter = next(module.parameters(), None)
        if type(module) not in mkldnn_supported:
            return False
        if parameter is not None:
            assert parameter.dtype == torch.float, "this pass is only for torch.float modules"
            assert parameter.device == torch.device("cpu"), "this pass is only for CPU modules"
        return True
    if node.op != "call_function":
        return False
    if node.target in mkldnn_supported_unknown:
        return any(isinstance(arg, Node) and _converts(arg, "to_dense") for arg in node.args)
    return node.target in mkldnn_supported


def _surround(node: Node) -> None:
    """Convert what goes into a node, and convert back what comes out."""
    graph = node.graph
    with graph.inserting_before(node):
        node.args = map_arg(node.args, lambda source: graph.call_method("to_mkldnn", (source,)))
    with graph.inserting_after(node):
        dense = graph.call_method("to_dense", (node,))
    node.replace_all_uses_with(dense)
    dense.args = (node,)


def _cancel_conversions(graph: Graph) -> None:
    """Take out conversions back that are followed by nothing but conversions there."""
    for node in graph.find_nodes(op="call_method", target="to_dense"):
        converted = node.args[0]
        assert isinstance(converted, Node)
        for user in list(node.users):
            if _converts(user, "to_mkldnn"):
                user.replace_all_uses_with(converted)
                graph.erase_node(user)
        if not node.users:
            graph.erase_node(node)


def _regions(graph: Graph) -> list[MklSubgraph]:
    """Return the regions: what is reached from conversions without leaving the layout, joined where paths meet."""
    nodes = list(graph.nodes)
    sets = UnionFind(len(nodes))
    color: dict[Node, int] = {}
    for place, node in enumerate(nodes):
        if _converts(node, "to_mkldnn"):
            sets.make_set(place)
            color[node] = place
        elif _converts(node, "to_dense"):
            assert node.all_input_nodes[0] in color, "Expected color for to_dense input"
        else:
            inside = sorted({sets.find(color[source]) for source in node.all_input_nodes if source in color})
            if inside:
                color[node] = inside[0]
            for other in inside[1:]:
                sets.join(inside[0], other)
    regions: dict[int, MklSubgraph] = {}
    for node in nodes:
        ends = _converts(node, "to_dense")
        colored = node.all_input_nodes[0] if ends else node
        if colored not in color:
            continue
        region = regions.setdefault(sets.find(color[colored]), MklSubgraph(graph))
        starts = _converts(node, "to_mkldnn")
        (region.end_nodes if ends else region.start_nodes if starts else region.nodes).append(node)
    return list(regions.values())


def _converts(node: Node, *methods: str) -> bool:
    return node.op == "call_method" and node.target in methods

"""The parts of a graph that is split for an accelerator: how nodes are sorted into them, and what they get."""

import copy
import heapq
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from fxengine.graph import Graph
from fxengine.graph_module import GraphModule
from fxengine.node import Node
from fxengine.passes.tools_common import CALLABLE_NODE_OPS, NodeList, NodeSet

__all__ = ["FxNetSplitterInternalError", "Sorting", "SplitResult", "Subgraph", "generate_inputs_for_submodules"]


class FxNetSplitterInternalError(Exception):
    """A graph cannot be split, since nodes depend on each other in a circle or have been tagged already."""


@dataclass
class Subgraph:
    """A part of a graph that is being put together. Mutable.

    Attributes:
        is_acc: Whether it goes to the accelerator.
        nodes: Its nodes.
        device_ordinal: The accelerator that it goes to, where there are several.
    """

    is_acc: bool
    nodes: NodeList
    device_ordinal: int | None = None


class SplitResult(NamedTuple):
    """A graph module that was split.

    Attributes:
        split_module: The module that calls the submodules.
        submodule_inputs: What each submodule gets, by its name.
        non_acc_submodule_prefix: What the names of submodules that do not go to the accelerator begin with; those of
            the others begin with ``_run_on_acc_``.
    """

    split_module: GraphModule
    submodule_inputs: dict[str, Any]
    non_acc_submodule_prefix: str


def generate_inputs_for_submodules(
    model: torch.nn.Module, inputs: Sequence[Any], target_submodules: Iterable[str], deepcopy: bool = False
) -> dict[str, Any]:
    """Return what submodules get when ``model`` is called with ``inputs``.

    Args:
        model: The model, in which no module has two names.
        inputs: Its inputs.
        target_submodules: The names of the submodules.
        deepcopy: Return copies, as the inputs are before anything changes them in place.
    """
    wanted = set(target_submodules)
    results: dict[str, Any] = {}

    def noting(name: str) -> Callable[[torch.nn.Module, tuple[Any, ...]], None]:
        def note(_: torch.nn.Module, given: tuple[Any, ...]) -> None:
            results[name] = copy.deepcopy(given) if deepcopy else given

        return note

    handles = [
        module.register_forward_pre_hook(noting(name))
        for name, module in model.named_modules()
        if name in wanted and not isinstance(module, torch.jit.ScriptModule)
    ]
    try:
        with torch.no_grad():
            model(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    return results


class Sorting:
    """Sorts nodes into parts: takes what it can for one, in the order of the graph, then goes on with the other."""

    def __init__(
        self, graph: Graph, acc_nodes: Collection[Node], deps: Mapping[Node, NodeSet], fusions: Mapping[Node, NodeSet]
    ) -> None:
        """Prepare to sort.

        Args:
            graph: The graph that the nodes are in.
            acc_nodes: Those that the accelerator can take.
            deps: The calls that a call must come after.
            fusions: For nodes that must not be parted from others, the group that they are in.
        """
        self.acc_nodes = acc_nodes
        self.fusions = fusions
        self.places = {node: place for place, node in enumerate(graph.nodes)}
        self.waiting = {node: len(sources) for node, sources in deps.items()}
        self.followers: dict[Node, NodeList] = defaultdict(list)
        for node, sources in deps.items():
            for source in sources:
                self.followers[source].append(node)
        self.found: NodeSet = set()
        self.ready: tuple[list[tuple[int, Node]], list[tuple[int, Node]]] = ([], [])
        self.left = 0

    def run(self, others: NodeSet, accelerated: NodeSet) -> list[Subgraph]:
        """Return the parts.

        Args:
            others: The nodes that can come first and that the accelerator cannot take.
            accelerated: Those that it can take.

        Raises:
            FxNetSplitterInternalError: Nodes wait for each other, or there are none.
        """
        for_acc = not any(not self.waiting.get(node) for node in others)
        self._find(others | accelerated)
        subgraphs: list[Subgraph] = []
        nodes: NodeList = []
        while self.left:
            if self.ready[for_acc]:
                nodes.append(heapq.heappop(self.ready[for_acc])[1])
                self._visit(nodes[-1])
                continue
            if not nodes:
                raise FxNetSplitterInternalError("Subgraph can't be empty")
            subgraphs.append(Subgraph(is_acc=for_acc, nodes=nodes))
            for_acc, nodes = not for_acc, []
        if nodes:
            subgraphs.append(Subgraph(is_acc=for_acc, nodes=nodes))
        if not subgraphs:
            raise FxNetSplitterInternalError("Couldn't create subgraphs")
        return subgraphs

    def _find(self, nodes: Iterable[Node]) -> None:
        """Put nodes that are to be sorted, and were not met before, where they are taken from."""
        for node in nodes:
            if node not in self.found:
                self.found.add(node)
                self.left += 1
                self._offer(node)

    def _visit(self, node: Node) -> None:
        self.left -= 1
        for follower in self.followers[node]:
            self.waiting[follower] -= 1
            if follower in self.found:
                self._offer(follower)
        self._find(self.fusions.get(node, ()))
        self._find(user for user in node.users if user.op in CALLABLE_NODE_OPS)

    def _offer(self, node: Node) -> None:
        """Make a node available if it waits for nothing any more."""
        if not self.waiting.get(node):
            heapq.heappush(self.ready[node in self.acc_nodes], (self.places[node], node))

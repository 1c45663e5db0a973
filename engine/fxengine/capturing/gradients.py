"""Whether gradients flow through a value of a captured graph, which the tensors without data need not know.

It is found by going through the graph, when code asks for the first time, from where it was asked before.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor, nn

from fxengine.graph import Graph
from fxengine.node import Node
from fxengine.silent.mutation import changed_by, viewed

if TYPE_CHECKING:
    from fxengine.capturing.held import Held

__all__ = ["Gradients"]

_WITHOUT: Final = frozenset({
    "data", "detach", "detach_", "empty_like", "full_like", "grad", "new_empty", "new_full", "new_ones", "new_tensor",
    "new_zeros", "ones_like", "rand_like", "randint_like", "randn_like", "zeros_like",
})  # fmt: skip
"""Functions, methods and attributes whose results have no history."""


class Gradients:
    """Which values of a graph that is being made have gradients. Mutable."""

    def __init__(self, graph: Graph, root: nn.Module, held: Callable[[], Iterable["Held"]]) -> None:
        """Of a graph with the modules of `root`; `held` returns what the graph knows of tensors."""
        self._graph = graph
        self._root = root
        self._held = held
        self._enabled = torch.is_grad_enabled()
        self._flows: dict[Node, bool] = {}
        self._begins: set[Node] = set()
        self._last: Node | None = None

    def flow(self, node: Node) -> bool:
        """Whether gradients flow through a node's value, as far as the graph has come."""
        self._go_on()
        return self._flows[node]

    def begin(self, node: Node) -> bool:
        """Whether a node's value is a leaf, where they end: all that have none are."""
        return not self.flow(node) or node in self._begins

    def _go_on(self) -> None:
        pending = self._graph.nodes if self._last is None else _after(self._last)
        given: dict[Node, Tensor] | None = None
        for node in pending:
            if node.op in {"placeholder", "get_attr"}:
                if given is None:
                    given = {each.node: each.tensor for each in self._held() if each.node is not None}
                tensor = given.get(node)
                self._set(node, tensor is not None and tensor.requires_grad, begins=True)
            else:
                self._add(node)
            self._last = node

    def _add(self, node: Node) -> None:
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        if node.target is torch._C._set_grad_enabled:
            self._enabled = bool(node.args[0])
        if node.target is getattr:
            name = str(node.args[1])
        changed = changed_by(node, self._root)
        if name == "requires_grad_":
            first: Any = node.args[0]
            wanted = bool(node.args[1] if len(node.args) > 1 else node.kwargs.get("requires_grad", True))
            begins = not self._flows[first] or first in self._begins
            self._set(node, wanted, begins=begins)
            return
        flows = self._enabled and name not in _WITHOUT and self._takes(node, name)
        if node.tensor is not None and not (node.tensor.dtype.is_floating_point or node.tensor.dtype.is_complex):
            flows = False
        if changed is not None and name not in _WITHOUT:
            flows = flows or self._flows[changed]
            whole: Node | None = changed
            while whole is not None and flows:  # What a part of has gradients has them.
                self._set(whole, flows=True, begins=False)
                whole = viewed(whole)
        self._set(node, flows, begins=False)

    def _takes(self, node: Node, name: str) -> bool:
        """Whether anything has gradients that a node computes with."""
        if node.target is torch.autograd.grad and not node.kwargs.get("create_graph", False):
            return False
        if any(self._flows[each] for each in node.all_input_nodes):
            return True
        if node.op != "call_module":
            return False
        return any(each.requires_grad for each in self._root.get_submodule(name).parameters())

    def _set(self, node: Node, flows: bool, *, begins: bool) -> None:
        self._flows[node] = flows
        if begins:
            self._begins.add(node)
        else:
            self._begins.discard(node)


def _after(node: Node) -> Iterable[Node]:
    """The nodes after one, to the end of its graph."""
    found: list[Node] = []
    each = node.next
    while each.op != "root":
        found.append(each)
        each = each.next
    return found

"""What splitting for an accelerator would give: what is supported, what the parts need, and how fast they could be."""

import math
from collections.abc import Collection, Sequence
from typing import Any, Protocol

import torch

from fxengine.graph_module import GraphModule
from fxengine.node import Node
from fxengine.passes.graph_drawer import FxGraphDrawer
from fxengine.passes.graph_manipulation import get_size_of_node
from fxengine.passes.shape_prop import ShapeProp
from fxengine.passes.tools_common import CALLABLE_NODE_OPS, get_node_target, is_node_output_tensor

__all__ = ["NodeSupport", "SplitPreview", "submodule_inputs"]


class Part(Protocol):
    """What is reported of a part."""

    is_acc: bool
    nodes: list[Node]


class NodeSupport:
    """Which calls of a graph module are supported."""

    def __init__(self, module: GraphModule, supported: Collection[Node]) -> None:
        self.module = module
        self.supported = supported

    def report(self) -> str:
        """Return the names of what is called, and the dtypes given, first of what is supported."""
        submodules = dict(self.module.named_modules())
        calls = [node for node in self.module.graph.nodes if node.op in CALLABLE_NODE_OPS]
        lines: list[str] = []
        for title, is_supported in (("Supported", True), ("Unsupported", False)):
            kinds: dict[str, dict[Any, None]] = {}
            for node in calls:
                if (node in self.supported) is is_supported:
                    kinds.setdefault(get_node_target(submodules, node), {})[_dtypes(node)] = None
            lines += [f"\n{title} node types in the model:\n"]
            lines += [f"{name}: ({args}, {dict(kwargs)})\n" for name, given in kinds.items() for args, kwargs in given]
        return "".join(lines)

    def draw(self, path: str) -> None:
        """Write a drawing in which what is supported and what is not has a colour."""
        supported = self.supported

        class Drawer(FxGraphDrawer):
            def _get_node_style(self, node: Node) -> dict[str, str]:
                is_call = node.op in CALLABLE_NODE_OPS
                color = "chartreuse1" if node in supported else "crimson" if is_call else "AliceBlue"
                return {**super()._get_node_style(node), "fillcolor": color}

        Drawer(self.module, "node_support", ignore_getattr=True).get_main_dot_graph().write(path)


def _dtypes(node: Node) -> tuple[tuple[torch.dtype | None, ...], tuple[tuple[str, torch.dtype | None], ...]]:
    """The dtypes of a call's arguments, None where one has none; such at the end are left out."""
    positional = [_dtype(arg) if isinstance(arg, Node) else None for arg in node.args]
    while positional and positional[-1] is None:
        positional.pop()
    named = tuple((name, _dtype(arg)) for name, arg in node.kwargs.items() if isinstance(arg, Node))
    return tuple(positional), named


def _dtype(node: Node) -> torch.dtype | None:
    return getattr(node.meta.get("tensor_meta"), "dtype", None)


class SplitPreview:
    """A report on a split module that is being written. Mutable."""

    def __init__(self, other_name: str, bandwidth: float) -> None:
        """Begin a report.

        Args:
            other_name: What the names of submodules begin with that do not go to the accelerator.
            bandwidth: Bytes that go to the accelerator and back in a second.
        """
        self.other_name = other_name
        self.bandwidth = bandwidth
        self.lines: list[str] = []
        self.max_qps = bandwidth
        self.bottleneck = ""

    def say(self, text: str) -> None:
        """Add to the report."""
        self.lines.append(text)

    def count(self, when: str, parts: Sequence[Part]) -> None:
        """Say how many parts there are."""
        accelerated = sum(part.is_acc for part in parts)
        self.say(
            f"{when} removing small acc subgraphs, total {len(parts)} subgraphs are created: "
            f"{accelerated} acc subgraphs and {len(parts) - accelerated} cpu subgraphs.\n"
        )

    def list(self, parts: Sequence[Part]) -> None:
        """Say how large the parts are."""
        for number, part in enumerate(parts):
            name = "_run_on_acc_" if part.is_acc else self.other_name
            self.say(f"{name}{number}: {len(part.nodes)} node(s)\n")

    def draw(self, split: GraphModule) -> None:
        """Draw the split module and its submodules, each to a file."""
        for name, drawing in FxGraphDrawer(split, "preview", ignore_getattr=True).get_all_dot_graphs().items():
            drawing.write(f"{name}.dot")

    def measure(self, name: str, submodule: GraphModule, inputs: Sequence[Any]) -> None:
        """Say how many bytes go in and out of a submodule, and how often in a second that can be."""
        self.say(f"\nProcessing acc submodule {name}\n")
        ShapeProp(submodule).propagate(*inputs)
        self.say("Checking inputs...\n")
        placeholders = submodule.graph.find_nodes(op="placeholder")
        taken = sum(self._bytes("Input", submodule, node) for node in placeholders)
        self.say("Checking outputs...\n")
        results = submodule.graph.output_node().all_input_nodes
        made = sum(self._bytes("Output", submodule, node) for node in results)
        most = max(taken, made)
        qps = self.bandwidth / most if most else math.inf
        self.say(
            f"Total input size in bytes is {taken}, total output size in bytes is {made}, "
            f"theoretical max qps (bounds by PCIe bandwidth) for this submodule is {qps}.\n"
        )
        if qps < self.max_qps:
            self.max_qps = qps
            self.bottleneck = name

    def _bytes(self, role: str, submodule: GraphModule, node: Node) -> int:
        if is_node_output_tensor(node):
            return get_size_of_node(submodule, node).output_size
        self.say(f"{role} {node.name} is not a tensor, this might cause problems during lowering!\n")
        return 0

    def report(self) -> str:
        """Return the report."""
        self.say(
            f"\nTheoretical max qps (bounds by PCIe bandwidth) for this model is {self.max_qps}, "
            f"bottleneck is submodule {self.bottleneck}."
        )
        return "".join(self.lines)


def submodule_inputs(module: torch.nn.Module, submodule: torch.nn.Module, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Return what ``submodule`` gets when ``module`` is called with ``inputs``."""
    seen: list[tuple[Any, ...]] = []
    handle = submodule.register_forward_pre_hook(lambda _, given: seen.append(given))
    try:
        module(*inputs)
    finally:
        handle.remove()
    assert seen, "Forward pre-hook did not capture inputs"
    return seen[-1]

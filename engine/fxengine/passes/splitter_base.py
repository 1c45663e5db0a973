"""Splitting for an accelerator: what it supports goes into as few submodules as possible, the rest into others.

A subclass of ``_SplitterBase`` for a backend says how a submodule is lowered; what is supported is said by an
``OperatorSupportBase``. What passes something that is no tensor to or from the rest is not given to the accelerator.
"""

import argparse
import os
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any, Final

import torch

from fxengine.graph_module import GraphModule
from fxengine.names import found_in
from fxengine.node import Node
from fxengine.passes.node_events import (
    ALL_SUFFIX,
    DUMP_PREFIX,
    ENV_FX_NET_ACC_SPLITTER_TRACKER_DUMP_PATH,
    ENV_FX_NET_ACC_SPLITTER_TRACKER_MODE,
    ENV_FX_NET_ACC_SPLITTER_TRACKER_TRACKED_NODES,
    NODES_SUFFIX,
    TRACKER_DUMP_PATH,
    TRACKER_MODE,
    NodeEvent,
    NodeEventTracker,
)
from fxengine.passes.operator_support import OperatorSupportBase
from fxengine.passes.shape_prop import ShapeProp
from fxengine.passes.split_utils import move_non_tensor_nodes_on_boundary, split_by_tags
from fxengine.passes.splitter_parts import (
    FxNetSplitterInternalError,
    Sorting,
    SplitResult,
    Subgraph,
    generate_inputs_for_submodules,
)
from fxengine.passes.splitter_previews import NodeSupport, SplitPreview, submodule_inputs
from fxengine.passes.tools_common import (
    CALLABLE_NODE_OPS,
    FxNetAccFusionsFinder,
    NodeList,
    NodeSet,
    Tensors,
    is_node_output_tensor,
)

__all__ = [
    "ALL_SUFFIX",
    "DEFAULT_ALLOW_NON_TENSOR",
    "DEFAULT_MIN_ACC_MODULE_SIZE",
    "DEFAULT_SKIP_FUSION",
    "DUMP_PREFIX",
    "ENV_FX_NET_ACC_SPLITTER_TRACKER_DUMP_PATH",
    "ENV_FX_NET_ACC_SPLITTER_TRACKER_MODE",
    "ENV_FX_NET_ACC_SPLITTER_TRACKER_TRACKED_NODES",
    "NODES_SUFFIX",
    "TRACKER_DUMP_PATH",
    "TRACKER_MODE",
    "FxNetAccNodesFinder",
    "FxNetSplitterInternalError",
    "NodeEvent",
    "NodeEventTracker",
    "SplitResult",
    "Subgraph",
    "_SplitterBase",
    "_SplitterSettingBase",
    "generate_inputs_for_submodules",
]

found_in(
    __name__,
    FxNetSplitterInternalError,
    NodeEvent,
    NodeEventTracker,
    SplitResult,
    Subgraph,
    generate_inputs_for_submodules,
)

DEFAULT_MIN_ACC_MODULE_SIZE: Final = 1
DEFAULT_SKIP_FUSION: Final = False
DEFAULT_ALLOW_NON_TENSOR: Final = False

_MERGE_VARIABLE: Final = "_SPLITTER_MERGE_OVERLAPPING_FUSIONS"


class _SplitterSettingBase:
    """What a splitter heeds; options of the program's command line come before what is passed here.

    Attributes:
        min_acc_module_size: Smaller submodules are not given to the accelerator (``--min-acc-module-size``).
        skip_fusion: Nodes that pass each other something that is no tensor may be parted (``--skip-fusion``).
        allow_non_tensor: What is no tensor may go to and from the accelerator (``--allow-non-tensor``).
        max_acc_splits: With more submodules than this, if it is positive, ``generate_split_results`` fails.
        move_non_tensor_nodes_on_boundary: Nodes that make what is no tensor move to where it is used
            (``--move-non-tensor-nodes-on-boundary``).
    """

    def __init__(
        self,
        min_acc_module_size: int = DEFAULT_MIN_ACC_MODULE_SIZE,
        skip_fusion: bool = DEFAULT_SKIP_FUSION,
        allow_non_tensor: bool = DEFAULT_ALLOW_NON_TENSOR,
        max_acc_splits: int = -1,
        move_non_tensor_nodes_on_boundary: bool = False,
    ) -> None:
        options = _command_line_options()
        self.min_acc_module_size: int = options.min_acc_module_size or min_acc_module_size
        self.skip_fusion: bool = options.skip_fusion or skip_fusion
        self.allow_non_tensor: bool = options.allow_non_tensor or allow_non_tensor
        self.max_acc_splits = max_acc_splits
        self.move_non_tensor_nodes_on_boundary: bool = (
            options.move_non_tensor_nodes_on_boundary or move_non_tensor_nodes_on_boundary
        )


def _command_line_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name in ("min-acc-module-size", "max-acc-splits"):
        parser.add_argument(f"--{name}", f"--{name.replace('-', '_')}", type=int)
    for name in ("skip-fusion", "allow-non-tensor", "move-non-tensor-nodes-on-boundary"):
        parser.add_argument(f"--{name}", f"--{name.replace('-', '_')}", action="store_true")
    return parser.parse_known_args()[0]


class FxNetAccNodesFinder:
    """Finds the nodes that the accelerator can take.

    Where only tensors may go to and from it, a node is left out that gets something else from one that is left out,
    or gives something else to such a one. In ``acc → acc → acc → cpu``, with no tensors, all are left out.

    Attributes:
        acc_nodes: The nodes that are found.
        tracker: What happened to each node meanwhile.
    """

    def __init__(self, module: GraphModule, operator_support: OperatorSupportBase, allow_non_tensor: bool) -> None:
        self.module = module
        self.operator_support = operator_support
        self.allow_non_tensor = allow_non_tensor
        self.acc_nodes: NodeSet = set()
        self.tracker = NodeEventTracker(int(TRACKER_MODE), DUMP_PREFIX)

    def reduce_acc_nodes_non_tensor_input_helper(self, cpu_worklist: NodeList) -> None:
        """Leave out the users of these nodes, which are left out and make no tensors, and so on."""
        while cpu_worklist:
            node = cpu_worklist.pop(0)
            for user in node.users:
                if user not in self.acc_nodes:
                    continue
                self.acc_nodes.remove(user)
                self.tracker.add(user, "acc_del|user_of_new_cpu_node", node)
                if not is_node_output_tensor(user):
                    self.tracker.add(user, "new_cpu_node|non_tensor_output")
                    cpu_worklist.append(user)

    def reduce_acc_nodes_non_tensor_input(self) -> None:
        """Leave out nodes that get something that is no tensor from nodes that are left out."""
        sources: NodeList = []
        for node in self.module.graph.nodes:
            if node.op in CALLABLE_NODE_OPS and node not in self.acc_nodes and not is_node_output_tensor(node):
                self.tracker.add(node, "new_cpu_node|callable_non_tensor_input")
                sources.append(node)
        self.reduce_acc_nodes_non_tensor_input_helper(sources)

    def reduce_acc_nodes_non_tensor_output(self) -> None:
        """Leave out nodes that give something that is no tensor to nodes that are left out."""
        while True:
            found: NodeList = []
            for node in sorted(self.acc_nodes):
                outside = next((user for user in node.users if user not in self.acc_nodes), None)
                if outside is not None and not is_node_output_tensor(node):
                    found.append(node)
                    self.tracker.add(node, "acc_del|non_tensor_output_with_cpu_user", outside)
            if not found:
                return
            self.acc_nodes.difference_update(found)
            self.reduce_acc_nodes_non_tensor_input_helper(found)

    def __call__(self) -> NodeSet:
        """Return the nodes that the accelerator can take."""
        submodules = dict(self.module.named_modules())
        self.acc_nodes = set()
        for node in self.module.graph.nodes:
            if node.op not in CALLABLE_NODE_OPS:
                self.tracker.add(node, "init_cpu|not_callable")
            elif not self.operator_support.is_node_supported(submodules, node):
                self.tracker.add(node, "init_cpu|operator_support")
            else:
                self.tracker.add(node, "init_acc|callable_and_operator_supported")
                self.acc_nodes.add(node)
        if not self.allow_non_tensor:
            self.reduce_acc_nodes_non_tensor_input()
            self.reduce_acc_nodes_non_tensor_output()
        self.tracker.dump()
        return self.acc_nodes


class _SplitterBase:
    """Splits a graph module; calling it returns the split module.

    Example:
        With ``sin`` and ``cos`` supported and ``+`` not, ``torch.sin(a) + torch.cos(a)`` becomes::

            def forward(self, a):
                _run_on_acc_0 = self._run_on_acc_0(a)
                getitem = _run_on_acc_0[0]
                getitem_1 = _run_on_acc_0[1]
                _run_on_cpu_1 = self._run_on_cpu_1(getitem, getitem_1)
                return _run_on_cpu_1

    Attributes:
        acc_nodes: The nodes that the accelerator can take.
        fusions: For nodes that must not be parted from others, the group that they are in.
        deps: The calls that a call must come after.
        tags: The names of the submodules in their order, once the nodes are tagged with them.
    """

    PCIe_BW = 100 * 2**30
    """Bytes that go to the accelerator and back in a second."""

    def __init__(
        self,
        module: GraphModule,
        sample_input: Sequence[Any],
        operator_support: OperatorSupportBase,
        settings: _SplitterSettingBase,
        non_acc_submodule_name: str = "_run_on_cpu_",
        return_tuple: bool = False,
        nodes_finder: FxNetAccNodesFinder | None = None,
    ) -> None:
        """Find what the accelerator can take.

        Args:
            module: The graph module, on which shape propagation is run.
            sample_input: Its inputs.
            operator_support: Says what the accelerator supports.
            settings: What else is to be heeded.
            non_acc_submodule_name: What the names of submodules begin with that do not go to the accelerator.
            return_tuple: Let submodules with one result return a tuple too.
            nodes_finder: Finds what the accelerator can take.
        """
        assert isinstance(module, GraphModule), f"Expected GraphModule, got {type(module)}"
        self.module = module
        ShapeProp(self.module).propagate(*sample_input)
        self.settings = settings
        self.operator_support = operator_support
        self.sample_input = sample_input
        finder = nodes_finder or FxNetAccNodesFinder(module, operator_support, settings.allow_non_tensor)
        self.acc_nodes = finder()
        self.fusions: dict[Node, NodeSet] = {}
        if not self.settings.skip_fusion:
            self.fusions = FxNetAccFusionsFinder(module, self.acc_nodes)()
            self._merge_overlapping_fusions()
        self.deps = self.find_deps()
        self.update_deps_for_fusions()
        self.non_acc_submodule_name = non_acc_submodule_name
        self._node_submodule_map: dict[str, str] = {}
        self._return_tuple = return_tuple
        self.tags: list[str] = []

    def get_node_submodule_map(self) -> dict[str, str]:
        """Return the name of the submodule that each node went to, by the node's name."""
        return self._node_submodule_map

    def find_deps(self) -> dict[Node, NodeSet]:
        """Return the calls that each call uses directly."""
        deps: dict[Node, NodeSet] = defaultdict(set)
        for node in self.module.graph.nodes:
            if node.op in CALLABLE_NODE_OPS:
                for user in node.users:
                    if user.op != "output":
                        deps[user].add(node)
        return deps

    def update_deps_for_fusions(self) -> None:
        """Let what is in one group come after the same nodes, and users of a group after all of it."""
        for node, fusion in self.fusions.items():
            for neighbor in fusion:
                self.deps[node].update(self.deps[neighbor] - fusion)
                for user in neighbor.users:
                    if user not in fusion:
                        self.deps[user].add(node)

    def _merge_overlapping_fusions(self) -> None:
        """Make one group of those that share nodes, if the environment says so: they would wait for each other."""
        if os.environ.get(_MERGE_VARIABLE, "0") != "1":
            return
        groups: list[NodeSet] = list({id(group): group for group in self.fusions.values()}.values())
        merged: list[NodeSet] = []
        for group in groups:
            apart = [other for other in merged if group.isdisjoint(other)]
            joined = group.union(*(other for other in merged if not group.isdisjoint(other)))
            merged = [*apart, joined]
        if len(merged) < len(groups):
            self.fusions.update((node, group) for group in merged for node in group)

    def _lower_model_to_backend(self, mod: GraphModule, inputs: Tensors) -> torch.nn.Module:  # noqa: ARG002
        """Return ``mod`` as the accelerator runs it; for subclasses."""
        return mod

    def _find_culprit(self, mod: GraphModule, inputs: Tensors) -> str:  # noqa: ARG002 - for subclasses.
        """Return a report on what in ``mod`` the accelerator cannot take; for subclasses."""
        return "Unable to find a culprit because _find_culprit() function is not implemented."

    def _draw_graph_based_on_node_support(self, mod: GraphModule, supported_nodes: Collection[Node]) -> None:
        """Draw the graph, with what is supported and what is not in colour, to ``node_support.dot``."""
        NodeSupport(mod, supported_nodes).draw("node_support.dot")

    def node_support_preview(self, dump_graph: bool = False) -> str:
        """Print and return what is supported and what is not: the names of what is called, and the dtypes given.

        Args:
            dump_graph: Draw the graph too.
        """
        submodules = dict(self.module.named_modules())
        calls = [node for node in self.module.graph.nodes if node.op in CALLABLE_NODE_OPS]
        supported = [node for node in calls if self.operator_support.is_node_supported(submodules, node)]
        if dump_graph:
            self._draw_graph_based_on_node_support(self.module, supported)
        return _printed(NodeSupport(self.module, supported).report())

    def split_preview(self, dump_graph: bool = False) -> str:
        """Split a module that is thrown away, and print and return what the parts need and whether they run.

        Args:
            dump_graph: Draw the split module and its submodules too.
        """
        subgraphs = self.put_nodes_into_subgraphs()
        preview = SplitPreview(self.non_acc_submodule_name, self.PCIe_BW)
        preview.count("Before", subgraphs)
        subgraphs = self.remove_small_acc_subgraphs(subgraphs)
        preview.count("After", subgraphs)
        preview.list(subgraphs)
        self.tag(subgraphs)
        split = self.split(remove_tag=True)
        split.eval()
        if dump_graph:
            preview.draw(split)
        for node in split.graph.nodes:
            if node.op == "call_module" and "acc" in str(node.target):
                name = str(node.target)
                submodule: Any = getattr(split, name)
                inputs = submodule_inputs(split, submodule, self.sample_input)
                preview.measure(name, submodule, inputs)
                preview.say(self._try_out(submodule, inputs))
        return _printed(preview.report())

    def _try_out(self, submodule: GraphModule, inputs: Any) -> str:
        """Lower a submodule and run it; say what came of it."""
        try:
            lowered = self._lower_model_to_backend(submodule, inputs)
        except RuntimeError:
            return f"Run into an error during lowering!\n{self._find_culprit(submodule, inputs)}"
        try:
            lowered(*inputs)
        except RuntimeError:
            return f"Run into an error during inference!\n{self._find_culprit(submodule, inputs)}"
        return "Lowering and running succeed!\n"

    def find_reverse_deps(self, tag_id: int | None = None) -> dict[Node, NodeSet]:
        """Return the calls that use each call directly, only those in submodules before ``tag_id`` if that is given."""
        result: dict[Node, NodeSet] = defaultdict(set)
        for node in self.module.graph.nodes:
            if node.op not in CALLABLE_NODE_OPS:
                continue
            for user in node.users:
                if user.op in CALLABLE_NODE_OPS and (tag_id is None or _number(_tag(user)) < tag_id):
                    result[node].add(user)
        return result

    def update_reverse_deps_for_fusions(self, deps: dict[Node, NodeSet]) -> None:
        """Give all of a group the same users, those outside of it, and what it uses all of it as users."""
        processed: NodeSet = set()
        for first, fusion in self.fusions.items():
            if first in processed:
                continue
            users: NodeSet = set().union(*(deps[node] for node in fusion)) - fusion
            for node in fusion:
                deps[node] = users
                for source in node.all_input_nodes:
                    if source not in fusion:
                        deps[source].update(fusion)
                processed.add(node)

    def find_parent_nodes_of_subgraph(self, tag: str) -> NodeSet:
        """Return the calls in other submodules that nodes with the tag ``tag`` use."""
        return {
            source
            for node in self.module.graph.nodes
            if node.op in CALLABLE_NODE_OPS and _tag(node) == tag
            for source in node.all_input_nodes
            if source.op in CALLABLE_NODE_OPS and _tag(source) != tag
        }

    def extend_acc_subgraph(self, tag: str) -> None:
        """Give the tag ``tag`` to nodes before that submodule which the accelerator can take and nobody else uses."""
        deps = self.find_reverse_deps(tag_id=_number(tag))
        self.update_reverse_deps_for_fusions(deps)
        parents = self.find_parent_nodes_of_subgraph(tag)
        visited: NodeSet = set()
        while True:
            node = next((each for each in sorted(parents) if each in self.acc_nodes and deps[each] <= visited), None)
            if node is None:
                return
            setattr(node, "tag", tag)  # noqa: B010 - an attribute of the user's, not of Node.
            parents.remove(node)
            visited.add(node)
            parents |= self.fusions.get(node, set()) - visited
            parents |= {source for source in node.all_input_nodes if source.op in CALLABLE_NODE_OPS} - visited

    def starter_nodes(self) -> tuple[NodeSet, NodeSet]:
        """Return the nodes that use inputs or attributes of the module, or nothing: first the others, then acc's."""
        starters: tuple[NodeSet, NodeSet] = (set(), set())
        for node in self.module.graph.nodes:
            if node.op == "call_function" and not node.all_input_nodes:
                starters[node in self.acc_nodes].add(node)
            elif node.op in {"placeholder", "get_attr"}:
                for user in node.users:
                    starters[user in self.acc_nodes].add(user)
        return starters

    def put_nodes_into_subgraphs(self) -> list[Subgraph]:
        """Return parts, by turns for the accelerator and not, each as large as it can be after those before it.

        Raises:
            FxNetSplitterInternalError: Nodes wait for each other, or there are none.
        """
        return Sorting(self.module.graph, self.acc_nodes, self.deps, self.fusions).run(*self.starter_nodes())

    def remove_small_acc_subgraphs(self, subgraphs: list[Subgraph]) -> list[Subgraph]:
        """Return the parts, in which those for the accelerator that are too small are joined with the one before."""
        result: list[Subgraph] = []
        for subgraph in subgraphs:
            count = len(subgraph.nodes)
            if subgraph.is_acc and count >= self.settings.min_acc_module_size:
                result.append(subgraph)
                continue
            if subgraph.is_acc:
                _printed(
                    "Eliminating acc subgraph because it's smaller than the threshold: "
                    f"{count} < {self.settings.min_acc_module_size}"
                )
            if result and (subgraph.is_acc or not result[-1].is_acc):
                result[-1].nodes.extend(subgraph.nodes)
            else:
                subgraph.is_acc = False
                result.append(subgraph)
        return result

    def tag(self, subgraphs: list[Subgraph]) -> None:
        """Give each node the name of the submodule that it goes to.

        Raises:
            FxNetSplitterInternalError: A node has one.
        """
        self.tags = []
        for number, subgraph in enumerate(subgraphs):
            tag = f"_run_on_acc_{number}" if subgraph.is_acc else f"{self.non_acc_submodule_name}{number}"
            self.tags.append(tag)
            for node in subgraph.nodes:
                if hasattr(node, "tag"):
                    raise FxNetSplitterInternalError(f"Node {node} was already tagged")
                setattr(node, "tag", tag)  # noqa: B010 - an attribute of the user's, not of Node.
                self._node_submodule_map[node.name] = tag

    def split(self, remove_tag: bool = False) -> GraphModule:
        """Return the module split by its nodes' tags.

        Args:
            remove_tag: Take the tags off the nodes of the original.
        """
        split: Any = split_by_tags(self.module, self.tags, return_tuple=self._return_tuple)
        if remove_tag:
            for node in self.module.graph.nodes:
                vars(node).pop("tag", None)
        return split

    def __call__(self) -> GraphModule:
        """Return the split module."""
        subgraphs = self.put_nodes_into_subgraphs()
        if self.settings.move_non_tensor_nodes_on_boundary:
            move_non_tensor_nodes_on_boundary(list(subgraphs))
        subgraphs = self.remove_small_acc_subgraphs(subgraphs)
        accelerated = sum(subgraph.is_acc for subgraph in subgraphs)
        _printed(f"Got {accelerated} acc subgraphs and {len(subgraphs) - accelerated} non-acc subgraphs")
        self.tag(subgraphs)
        return self.split()

    def generate_split_results(self) -> SplitResult:
        """Return the split module with what its submodules get.

        Raises:
            ValueError: There are more submodules than the settings allow.
        """
        split = self()
        names = [name for name, _ in split.named_children()]
        if 0 < self.settings.max_acc_splits < len(names):
            raise ValueError(
                "Cannot fulfill max_acc_splits limit. "
                "This may cause split fragmentation and "
                "result in performance issues."
            )
        inputs = generate_inputs_for_submodules(split, self.sample_input, names)
        return SplitResult(split, inputs, self.non_acc_submodule_name)


def _printed(report: str) -> str:
    print(report)  # noqa: T201 - it is how a splitter reports.
    return report


def _tag(node: Node) -> str:
    return vars(node)["tag"]


def _number(tag: str) -> int:
    """The number of the submodule with this name."""
    return int(tag.rpartition("_")[2])

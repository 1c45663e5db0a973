"""Runs of parts of a graph module in two ways, and what comes of comparing their results.

``net_min_base`` decides which parts; here one of them becomes a submodule, gets its inputs, is run and reported on.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from fxengine.graph_module import GraphModule
from fxengine.node import Node, map_arg
from fxengine.passes.shape_prop import ShapeProp
from fxengine.passes.split_utils import split_by_tags
from fxengine.passes.tools_common import (
    CALLABLE_NODE_OPS,
    FxNetAccFusionsFinder,
    Names,
    NodeList,
    NodeSet,
    TensorOrTensors,
    Tensors,
)

__all__ = [
    "Comparison",
    "FxNetMinimizerBadModuleError",
    "FxNetMinimizerResultMismatchError",
    "FxNetMinimizerRunFuncError",
    "_MinimizerSettingBase",
    "say",
]


class FxNetMinimizerBadModuleError(Exception):
    """The nodes do not make one submodule."""


class FxNetMinimizerRunFuncError(Exception):
    """``run_a`` or ``run_b`` failed."""


class FxNetMinimizerResultMismatchError(Exception):
    """The results differ."""


@dataclass
class _MinimizerSettingBase:
    """How culprits are searched for.

    Attributes:
        accumulate_error: What ``run_b`` gets is what it made itself, not what ``run_a`` made.
        traverse_method: ``sequential``, ``binary``, ``accumulate``, ``skip``, ``defined`` or ``block``.
        find_all: Go on after the first culprit.
        return_intermediate: Let ``run_nodes`` return the results of all nodes.
        all_outputs: Compare everything that a part passes on, not only its last node's result.
    """

    accumulate_error: bool = False
    traverse_method: str = "sequential"
    find_all: bool = False
    return_intermediate: bool = False
    all_outputs: bool = False

    def __str__(self) -> str:
        return "FX Minimizer Settings:\n" + "".join(f"\t{name}: {value}\n" for name, value in vars(self).items())


class Comparison:
    """Runs parts of a graph module in two ways and compares the results.

    Attributes:
        a_outputs: What ``run_a`` made so far, by node's name; the inputs too.
        b_outputs: What ``run_b`` made.
        results: What ``compare_fn`` said, by the names of what was compared.
        reports: The lines about each run.
        iteration: The number of runs.
        fusions: For nodes that must not be parted from others, the group that they are in.
    """

    def __init__(
        self,
        module: GraphModule,
        sample_input: Tensors,
        compare_fn: Callable[[TensorOrTensors, TensorOrTensors, Names], tuple[float, bool]],
        settings: _MinimizerSettingBase,
        module_exporter: Callable[[Tensors, GraphModule, str], None] | None = None,
        exclusion_fn: Callable[[NodeList, int, int], None] | None = None,
    ) -> None:
        """Prepare to run parts of ``module``.

        Args:
            module: The graph module, on which shape propagation is run.
            sample_input: Its inputs.
            compare_fn: Returns for two results, with the names of the nodes that made them, how well they agree, as a
                number, and whether that will do.
            settings: How to search.
            module_exporter: Gets the inputs, the part and a name where results differ: once for each way.
            exclusion_fn: Removes from a list of nodes, between two places, those that are not to be run.
        """
        assert isinstance(module, GraphModule), f"Expected GraphModule, got {type(module)}"
        self.module = module
        self.sample_input = sample_input
        self.compare_fn = compare_fn
        self.module_exporter = module_exporter
        self.settings = settings
        self.exclusion_fn = exclusion_fn
        self.a_outputs: dict[str, Any] = {}
        self.b_outputs: dict[str, Any] = {}
        self.results: dict[Any, Any] = {}
        self.reports: list[list[str]] = []
        self.iteration = 0
        self.run_shape_prop()
        calls = {node for node in module.graph.nodes if node.op in CALLABLE_NODE_OPS}
        self.fusions = FxNetAccFusionsFinder(module, calls)()
        placeholders = [node.name for node in module.graph.find_nodes(op="placeholder")]
        assert len(placeholders) == len(sample_input), (
            f"Placeholder count ({len(placeholders)}) does not match sample_input count ({len(sample_input)})"
        )
        self.a_outputs.update(zip(placeholders, sample_input, strict=True))
        self.b_outputs.update(self.a_outputs)

    def run_shape_prop(self) -> None:
        """Note the shapes of all nodes; for subclasses that have other means."""
        ShapeProp(self.module).propagate(*self.sample_input)

    def run_a(self, mod: GraphModule, inputs: Tensors, report_idx: int = -1) -> TensorOrTensors:  # noqa: ARG002
        """Return what ``mod`` makes of ``inputs`` in the one way; for subclasses.

        Args:
            mod: A part of the graph module.
            inputs: What it gets.
            report_idx: The place of the report on this run.
        """
        raise RuntimeError("run_a() is not implemented.")

    def run_b(self, mod: GraphModule, inputs: Tensors, report_idx: int = -1) -> TensorOrTensors:  # noqa: ARG002
        """Return what ``mod`` makes of ``inputs`` in the other way; for subclasses.

        Args:
            mod: A part of the graph module.
            inputs: What it gets.
            report_idx: The place of the report on this run.
        """
        raise RuntimeError("run_b() is not implemented.")

    def _store_outputs(self, a_result: TensorOrTensors, b_result: TensorOrTensors, submodule: GraphModule) -> None:
        """Keep what a part made, for the parts that use it."""
        returned: Any = submodule.graph.output_node().args[0]
        if isinstance(returned, Node):
            self.a_outputs[returned.name] = a_result
            self.b_outputs[returned.name] = b_result
            return
        for place, node in enumerate(returned):
            self.a_outputs[node.name] = a_result[place]
            self.b_outputs[node.name] = b_result[place]

    def _get_submod_inputs(self, main_module: GraphModule, submod_path: str) -> tuple[Tensors, Tensors]:
        """Return what a submodule gets for ``run_a`` and for ``run_b``: what was kept, else what a run of all shows."""
        submodule = getattr(main_module, submod_path)
        names = [node.name for node in submodule.graph.find_nodes(op="placeholder")]
        if set(names) <= self.a_outputs.keys():
            a_input: Any = [self.a_outputs[name] for name in names]
            b_input: Any = [self.b_outputs[name] for name in names]
        else:
            if self.settings.accumulate_error:
                say(f"Can't find previous stored outputs named {names}!")
            a_input = b_input = self._seen_inputs(main_module, submodule)
        return (a_input, b_input) if self.settings.accumulate_error else (a_input, a_input)

    def _seen_inputs(self, main_module: GraphModule, submodule: torch.nn.Module) -> Any:
        """What a submodule gets when the whole is run as it is."""
        seen: list[Any] = [[]]
        handle = submodule.register_forward_pre_hook(lambda _, given: seen.append(given))
        main_module(*self.sample_input)
        handle.remove()
        return seen[-1]

    def _tag_nodes(self, selected_nodes: NodeSet) -> None:
        """Tag the nodes of a part with ``minimize``, those that come after with ``main_1``, the others ``main_0``."""
        later: set[Node] = set()
        for node in self.module.graph.nodes:
            if node.op not in CALLABLE_NODE_OPS:
                continue
            chosen = node in selected_nodes
            if chosen or not later.isdisjoint(node.all_input_nodes):
                later.add(node)
            tag = "minimize" if chosen else "main_1" if node in later else "main_0"
            setattr(node, "tag", tag)  # noqa: B010 - an attribute of the user's, not of Node.

    def _build_submodule(self, nodes: NodeSet) -> tuple[GraphModule, str]:
        """Return the graph module with ``nodes`` as a submodule, and the submodule's name.

        Raises:
            FxNetMinimizerBadModuleError: They do not make one.
        """
        self._tag_nodes(nodes)
        split: Any = split_by_tags(self.module, ["main_0", "minimize", "main_1"])
        names = [name for name, _ in split.named_children() if "minimize" in name]
        match names:
            case [name]:
                return split, name
            case []:
                raise FxNetMinimizerBadModuleError(f"Minimize submodule was not found with nodes {nodes}")
            case _:
                raise FxNetMinimizerBadModuleError(f"Expected only one minimize submodule with nodes {nodes}")

    def _run_and_compare(
        self, split_module: GraphModule, submod_name: str, output_names: Names, report_idx: int = -1
    ) -> None:
        """Run a submodule in both ways and compare the results.

        Args:
            split_module: The module that the submodule is part of.
            submod_name: The submodule's name.
            output_names: The nodes whose results it returns; what the others need if there are none.
            report_idx: The place of the report on this run; the last one's if it is negative.

        Raises:
            FxNetMinimizerRunFuncError: A run failed.
            FxNetMinimizerResultMismatchError: The results differ.
        """
        submodule: GraphModule = getattr(split_module, submod_name)
        inputs = self._get_submod_inputs(split_module, submod_name)
        if not self.reports:
            self.reports.append([])
            self.iteration = 1
        report = self.reports[report_idx if report_idx >= 0 else self.iteration - 1]
        report.append("Run and compare ...")
        if output_names and not self.settings.all_outputs:
            _return_only(submodule, output_names)
        key: Any = map_arg(submodule.graph.output_node().args, _name_of)
        a_result, b_result = self._run(submodule, submod_name, inputs, report, report_idx)
        names: Any = output_names
        agreement, is_same = self.compare_fn(
            a_result, b_result, [str(name) for name in key] if names is None else output_names
        )
        self.results[key] = agreement
        report.append(f"Numerical accuracy = {agreement}")
        if not is_same:
            report.append(f"Result mismatch for {key}")
            raise FxNetMinimizerResultMismatchError(f"Result mismatch for {self._exported(submodule, inputs, key)}")

    def _run(
        self, submodule: GraphModule, name: str, inputs: tuple[Tensors, Tensors], report: list[str], report_idx: int
    ) -> tuple[TensorOrTensors, TensorOrTensors]:
        try:
            a_result = self.run_a(submodule, inputs[0], report_idx)
            b_result = self.run_b(submodule, inputs[1], report_idx)
            self._store_outputs(a_result, b_result, submodule)
        except Exception as error:  # A back end of the user's is run, which raises whatever it likes.
            report.append(f"Exception raised when running {name}: {error}")
            raise FxNetMinimizerRunFuncError(f"Exception raised when running {name}: {error}") from error
        return a_result, b_result

    def _exported(self, submodule: GraphModule, inputs: tuple[Tensors, Tensors], key: Any) -> Any:
        """Export a part whose results differ, if that is wanted; return what it is called then, else ``key``."""
        if self.module_exporter is None:
            return key
        name = key[-1] if isinstance(key, tuple) else key
        name = str(name[0]) if isinstance(name, tuple) else name
        for given, way in zip(inputs, ("_cpu", "_acc"), strict=True):
            self.module_exporter(given, submodule, name + way)
        return name

    def print_report(self, report: list[str]) -> None:
        """Print the lines of a report."""
        for place, line in enumerate(report):
            say(f" . {line}" if place else line)

    def print_reports(self) -> None:
        """Print all reports."""
        for report in self.reports:
            self.print_report(report)


def _return_only(submodule: GraphModule, names: Names) -> None:
    """Let a part return the results of the nodes with these names."""
    graph = submodule.graph
    graph.erase_node(graph.output_node())
    nodes = [node for node in graph.nodes if node.name in names]
    graph.output(nodes[0] if len(nodes) == 1 else tuple(nodes))
    graph.lint()
    submodule.recompile()


def _name_of(node: Node) -> Any:
    return node.name


def say(text: object) -> None:
    """Print something that is reported."""
    print(text)  # noqa: T201 - it is how a minimizer reports.

"""The smallest part of a graph module that a back end gets wrong: it is run in two ways, whole and in pieces.

A subclass of ``_MinimizerBase`` says what the two ways are (``run_a``, ``run_b``). How pieces are chosen is a matter
of ``settings.traverse_method``: one node after the other, by halves, ever longer from the beginning, between nodes to
skip, one given piece, or the borders of the culprit from both ends.
"""

import logging
from typing import Final, TypeAlias

from fxengine.names import found_in
from fxengine.passes.net_min_runs import (
    Comparison,
    FxNetMinimizerBadModuleError,
    FxNetMinimizerResultMismatchError,
    FxNetMinimizerRunFuncError,
    _MinimizerSettingBase,
    say,
)
from fxengine.passes.tools_common import CALLABLE_NODE_OPS, NodeList, NodeSet

__all__ = [
    "FxNetMinimizerBadModuleError",
    "FxNetMinimizerResultMismatchError",
    "FxNetMinimizerRunFuncError",
    "_MinimizerBase",
    "_MinimizerSettingBase",
]

found_in(
    __name__,
    FxNetMinimizerBadModuleError,
    FxNetMinimizerResultMismatchError,
    FxNetMinimizerRunFuncError,
    _MinimizerSettingBase,
)

log = logging.getLogger(__name__)

_Failures: TypeAlias = tuple[type[FxNetMinimizerRunFuncError], type[FxNetMinimizerResultMismatchError]]
_FAILURES: Final[_Failures] = (FxNetMinimizerRunFuncError, FxNetMinimizerResultMismatchError)
_SPLIT_FURTHER: Final = "Proceed to split and lower the halves of the current sub-module individually."


class _MinimizerBase(Comparison):
    """Finds the nodes of a graph module whose results differ between two ways to run it."""

    def minimize(
        self,
        start: str | None = None,
        end: str | None = None,
        skip_nodes: list[str] | None = None,
        find_last_node: bool | None = None,
    ) -> NodeSet:
        """Return the culprits: nodes that fail, or whose results differ.

        Args:
            start: The name of the node to start with; the first one if None.
            end: The name of the node to end with; the last one if None.
            skip_nodes: For ``skip``, the names of nodes to leave out.
            find_last_node: For ``block``, search for the last node of the culprit, or else the first; both if None.

        Raises:
            RuntimeError: There is no such way to search, or ``skip_nodes`` is missing.
        """
        say(self.settings)
        say(self.module.graph)
        nodes = self._collect_nodes(start, end)
        match self.settings.traverse_method:
            case "sequential":
                return self._sequential_traverse(nodes)
            case "binary":
                return self._binary_traverse(nodes)
            case "accumulate":
                return self._accumulate_traverse(nodes)
            case "skip":
                if skip_nodes is None:
                    raise RuntimeError("'skip_nodes' can't be None when 'traverse_method' is 'skip'.")
                return self._skip_traverse(nodes, skip_nodes)
            case "defined":
                return self._defined_traverse(nodes)
            case "block":
                return self._block_traverse(nodes, find_last_node)
            case unknown:
                raise RuntimeError(f"Unknown traverse method {unknown}!")

    def run_nodes(self, start: str | None = None, end: str | None = None) -> None:
        """Run one piece, and print what went wrong if anything did.

        Args:
            start: The name of its first node; the first one of all if None.
            end: The name of its last node; the last one of all if None.
        """
        nodes = self._collect_nodes(start, end)
        piece = self._with_fusions(nodes)
        names = [node.name for node in nodes] if self.settings.return_intermediate else []
        try:
            self._run_and_compare(*self._build_submodule(piece), names)
        except _FAILURES as failure:
            say(failure)

    def _collect_nodes(self, start: str | None, end: str | None) -> NodeList:
        """Return the calls between two nodes, these included."""
        nodes: NodeList = []
        inside = start is None
        for node in self.module.graph.nodes:
            if node.op not in CALLABLE_NODE_OPS:
                continue
            inside = inside or node.name == start
            if inside:
                nodes.append(node)
            if node.name == end:
                break
        return nodes

    def _with_fusions(self, nodes: NodeList) -> NodeSet:
        """The nodes, and those that must not be parted from them."""
        return set(nodes).union(*(self.fusions.get(node, ()) for node in nodes))

    def _excluded(self, nodes: NodeList, start: int, end: int) -> bool:
        """Take out of ``nodes`` what the user excludes; return whether nothing is left."""
        if self.exclusion_fn is not None:
            self.exclusion_fn(nodes, start, end)
        return not nodes

    def _new_report(self, *lines: str) -> list[str]:
        report = list(lines)
        self.reports.append(report)
        return report

    def _conclude(self, report: list[str], *lines: str) -> None:
        report.extend(lines)
        self.print_report(report)

    def _sequential_traverse(self, nodes: NodeList) -> NodeSet:
        """Run one node after the other."""
        culprits: NodeSet = set()
        for node in nodes:
            self.iteration += 1
            report = self._new_report(f"Sequential traverse iteration {self.iteration}.", f"Visit node: {node.name}")
            log.info("Visit node: %s", node.name)
            if self._excluded([node], -1, -1):
                self._conclude(report, f"User exclusion : {node.name}")
                if not self.settings.find_all:
                    return culprits
                continue
            piece = self.fusions.get(node, {node})
            try:
                self._run_and_compare(*self._build_submodule(piece), [node.name])
            except FxNetMinimizerResultMismatchError:
                culprits.add(node)
                self._conclude(report, f"Found culprit from numeric error: {node}")
            except FxNetMinimizerRunFuncError:
                culprits |= piece
                self._conclude(report, f"Found culprit from run error: {node}")
            else:
                self.print_report(report)
            if culprits and not self.settings.find_all:
                return culprits
        return culprits

    def _binary_traverse(self, nodes: NodeList) -> NodeSet:
        """Run all, and by halves what goes wrong."""
        return self._binary_search_impl(nodes, 0, len(nodes))

    def _binary_search_impl(self, all_nodes: NodeList, start_idx: int, end_idx: int) -> NodeSet:
        nodes = all_nodes[start_idx:end_idx]
        if self._excluded(nodes, start_idx, end_idx):
            self._new_report("All nodes are excluded by user")
            return set()
        self.iteration += 1
        report = self._new_report(
            f"Binary search iteration {self.iteration}",
            f"From node index {start_idx}:{nodes[0].name} to {end_idx - 1}:{nodes[-1].name}. "
            f"Size of the interested node list is {len(nodes)}",
        )
        piece = set(nodes)
        try:
            self._run_and_compare(*self._build_submodule(piece), [nodes[-1].name])
        except _FAILURES:
            if len(nodes) == 1:
                self._conclude(
                    report,
                    "This is the last node in the sub-module. "
                    f"Search in the current branch is successful with culprit = {piece}.",
                )
                return piece
            self._conclude(report, _SPLIT_FURTHER)
        else:
            self._conclude(report, "No discrepancy found.")
            return set()
        middle = start_idx + len(nodes) // 2
        culprits = self._binary_search_impl(all_nodes, start_idx, middle)
        if not culprits or self.settings.find_all:
            culprits |= self._binary_search_impl(all_nodes, middle, end_idx)
        if not culprits:
            self._conclude(
                report,
                "Further split and lowering found no errors. "
                f"Unable to minimize the submodule with list of nodes: {nodes}",
            )
        return culprits

    def _accumulate_traverse(self, nodes: NodeList) -> NodeSet:
        """Run ever longer pieces from the beginning, until one goes wrong."""
        if self.settings.find_all:
            say("'Find All' mode is not supported in accumulate traversal.")
            return set()
        piece: NodeSet = set()
        for node in nodes:
            self.iteration += 1
            report = self._new_report(f"Accumulate traverse iteration {self.iteration}.", f"Add node: {node.name}")
            piece.add(node)
            try:
                self._run_and_compare(*self._build_submodule(piece), [node.name])
            except _FAILURES:
                self._conclude(report, f"Found culprit {node}")
                return {node}
            self.print_report(report)
        return set()

    def _defined_traverse(self, nodes: NodeList) -> NodeSet:
        """Run all as one piece; return it if it goes wrong."""
        if self._excluded(nodes, -1, -1):
            self._new_report("All nodes are excluded by user")
            return set()
        report = [f"Defined graph from {nodes[0].name} to {nodes[-1].name}"]
        piece = set(nodes)
        try:
            self._run_and_compare(*self._build_submodule(piece), [nodes[-1].name])
        except _FAILURES:
            self._conclude(report, f"Found culprit {piece}")
            return piece
        self.print_report(report)
        return set()

    def _skip_traverse(self, all_nodes: NodeList, skip_nodes: list[str]) -> NodeSet:
        """Run the pieces between nodes that are left out."""
        culprits: NodeSet = set()
        start = 0
        for place, node in enumerate(all_nodes):
            if node.name in skip_nodes:
                if place > start:
                    culprits |= self._skip_traverse_impl(all_nodes, start, place)
                start = place + 1
        if start < len(all_nodes):
            culprits |= self._skip_traverse_impl(all_nodes, start, len(all_nodes))
        return culprits

    def _skip_traverse_impl(self, all_nodes: NodeList, start_idx: int, end_idx: int) -> NodeSet:
        nodes = all_nodes[start_idx:end_idx]
        piece = self._with_fusions(nodes)
        if self.exclusion_fn is not None:
            self.exclusion_fn(nodes, start_idx, end_idx)
            piece = set(nodes)
        self.iteration += 1
        report = self._new_report(
            f" Nodes block {self.iteration}.",
            f"From node index {start_idx} to {end_idx - 1}. Size of the interested node list is {len(nodes)}",
        )
        try:
            self._run_and_compare(*self._build_submodule(piece), [])
        except FxNetMinimizerResultMismatchError:
            self._conclude(report, f"Found culprit from numeric error: {piece}")
        except FxNetMinimizerRunFuncError:
            self._conclude(report, f"Found culprit from run error: {piece}")
        else:
            self._conclude(report, "No discrepancy found.")
            return set()
        return piece

    def _block_traverse(self, nodes: NodeList, find_last_node: bool | None) -> NodeSet:
        """Find the last node up to which things go wrong, then the first from which on they do."""
        report = self._new_report(f"Block search from {nodes[0].name} to {nodes[-1].name}", "*" * 50)
        last: int | None = len(nodes) - 1
        first: int | None = 0
        if find_last_node is not False:
            self._conclude(report, "Start searching for last node in culprit")
            last = self._block_traverse_impl(nodes, 0, len(nodes) - 1, True)
            if last is None:
                self._conclude(report, "No culprits found")
                return set()
            self._conclude(report, "Finish Pass 1", f"Find end_idx = {last}:{nodes[last].name}")
        if not find_last_node:
            second = ["Start searching for first node in culprit"]
            self.print_report(second)
            first = self._block_traverse_impl(nodes, 0, last or len(nodes) - 1, False)
            if first is None:
                self._conclude(report, "No culprits found")
                return set()
            second.append("*" * 50)
            self.reports.append(second)
            self._conclude(second, "Finish Pass 2", f"Find start_idx = {first}:{nodes[first].name}")
        found = self._new_report(f"Finish searching, found minimum block ({nodes[first]},{nodes[last]})")
        self.print_report(found)
        return set(nodes[first : last + 1])

    def _block_traverse_impl(self, nodes: NodeList, start_idx: int, end_idx: int, find_last_node: bool) -> int | None:
        """Return the place of the last node of the culprit, or the first, between two places; None if there is none."""
        middle = (start_idx + end_idx) // 2
        at_end = start_idx == middle == end_idx
        goes_wrong, report = self._block_goes_wrong(nodes, start_idx, end_idx, find_last_node)
        if at_end and goes_wrong:
            self._conclude(
                report,
                "This is the last node in the sub-module. ",
                "Search in the current branch is successful with node :",
                f"{start_idx}, node name: {nodes[start_idx].name}.",
            )
            return start_idx
        if at_end:
            if start_idx != (len(nodes) - 1 if find_last_node else 0):
                # Between this node and its neighbour lies the border.
                return start_idx + (1 if find_last_node else -1)
            self._conclude(report, f"At {'last' if find_last_node else 'first'} node, no culprits found.")
            return None
        self._conclude(report, _SPLIT_FURTHER)
        if goes_wrong is find_last_node:
            return self._block_traverse_impl(nodes, start_idx, middle, find_last_node)
        return self._block_traverse_impl(nodes, middle + 1, end_idx, find_last_node)

    def _block_goes_wrong(
        self, nodes: NodeList, start_idx: int, end_idx: int, find_last_node: bool
    ) -> tuple[bool, list[str]]:
        """Run from the first node to the middle of two places, or from there to the last; return the report too."""
        middle = (start_idx + end_idx) // 2
        piece = nodes[: middle + 1] if find_last_node else nodes[middle:]
        if self.exclusion_fn is not None:
            self.exclusion_fn(piece, -1, -1)
        first, last = piece[0].name, piece[-1].name
        self.iteration += 1
        report = self._new_report(
            "=" * 30,
            f"Block search iteration {self.iteration}",
            f"Search for {'last' if find_last_node else 'first'} node in culprits",
            f"From node index {start_idx}:{nodes[start_idx].name} to {end_idx}:{nodes[end_idx].name}. ",
            f"Subgraph constructed by {first} to {last}",
            f"Targeting node: {last if find_last_node else first}",
            f"Size of the interested node list is {end_idx - start_idx + 1}",
        )
        try:
            self._run_and_compare(*self._build_submodule(set(piece)), [last], len(self.reports) - 1)
        except _FAILURES:
            report.append(f"Culprits found from node {first} to {last}.")
            return True, report
        report.append(f"Culprits not found from node start to {middle}:{nodes[middle].name}.")
        return False, report

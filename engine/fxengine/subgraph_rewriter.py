"""Replaces every occurrence of a pattern in a graph by something else, both written as functions.

The pattern and the replacement are traced; ``passes.utils.matcher_utils`` finds the one, this module puts the other
in its place.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import torch

from fxengine._symbolic_trace import symbolic_trace
from fxengine.graph import Graph, own_graph
from fxengine.graph_module import GraphModule
from fxengine.node import Node
from fxengine.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]

_Part: TypeAlias = Callable[..., Any] | Graph | GraphModule
_Filter: TypeAlias = Callable[[InternalMatch, Graph, Graph], bool]
_Maker: TypeAlias = Callable[[InternalMatch, Graph, Graph], Graph]


class Match(NamedTuple):
    """One occurrence of a pattern.

    Attributes:
        anchor: The node of the pattern from which it was found.
        nodes_map: The graph's node for each node of the pattern.
    """

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """One occurrence of a pattern that was replaced.

    Attributes:
        anchor: The node of the pattern from which it was found.
        nodes_map: The graph's former node for each node of the pattern.
        replacements: The nodes that were put in their place.
    """

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def replace_pattern(
    gm: GraphModule,
    pattern: Callable[..., Any] | GraphModule,
    replacement: Callable[..., Any] | GraphModule,
) -> list[Match]:
    """Replace every occurrence of ``pattern`` in ``gm`` by ``replacement``, and return where that was.

    Occurrences do not overlap; of those that would, the first is taken. Values that the pattern computes and does
    not return must not be used elsewhere. The parameters of both functions correspond in their order.

    Example:
        >>> def pattern(w1, w2):
        ...     return torch.cat([w1, w2]).sum()
        >>> def replacement(w1, w2):
        ...     return torch.stack([w1, w2])
        >>> replace_pattern(traced_module, pattern, replacement)

    Args:
        gm: The module, changed in place and recompiled.
        pattern: What to find.
        replacement: What to put in its place.

    Raises:
        AssertionError: The two do not have as many parameters, or do not return as many values, as each other; or the
            pattern computes nothing, so that the output itself is an occurrence.
    """
    return [Match(found.anchor, found.nodes_map) for found in _replace_pattern(gm, pattern, replacement)]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: _Part,
    replacement: _Part | None = None,
    match_filters: list[_Filter] | None = None,
    ignore_literals: bool = False,
    replacement_callback: _Maker | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """Replace as ``replace_pattern`` does, but only what passes all filters, and return what was put there.

    Args:
        gm: The module, changed in place and recompiled.
        pattern: What to find.
        replacement: What to put in its place, unless ``replacement_callback`` is given.
        match_filters: Called with an occurrence, the graph and the pattern; return whether to replace it.
        ignore_literals: Constants in the pattern match any constant.
        replacement_callback: Called with an occurrence, the graph and the pattern; returns what to put in its place.
        node_name_match: Nodes whose name contains this match whatever is compared with them.

    Raises:
        AssertionError: There is neither a replacement nor a callback, or parameters or results do not correspond.
    """
    return _replace_pattern(
        gm, pattern, replacement, match_filters or (), ignore_literals, replacement_callback, node_name_match
    )


def _replace_pattern(
    gm: GraphModule,
    pattern: _Part,
    replacement: _Part | None = None,
    match_filters: Sequence[_Filter] = (),
    ignore_literals: bool = False,
    replacement_callback: _Maker | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    pattern_graph = _graph_of(pattern)
    matcher = SubgraphMatcher(pattern_graph, ignore_literals=ignore_literals)
    matches = [
        match
        for match in matcher.match(own_graph(gm.graph), node_name_match=node_name_match)
        if all(accepts(match, gm.graph, pattern_graph) for accepts in match_filters)
    ]
    common = _graph_of(replacement) if replacement is not None else None
    rewriter = _Rewriter(gm.graph, pattern_graph)
    replaced: list[ReplacedPatterns] = []
    for match in matches:
        graph = common if replacement_callback is None else replacement_callback(match, gm.graph, pattern_graph)
        assert graph is not None, "Must provide either a replacement GraphModule or a replacement callback"
        replaced.append(rewriter.replace(match, graph))
    gm.recompile()
    if isinstance(replacement, torch.nn.Module):
        _replace_attributes(gm, replacement)
    return replaced


def _graph_of(part: _Part) -> Graph:
    if isinstance(part, GraphModule):
        return part.graph
    return part if isinstance(part, Graph) else symbolic_trace(part).graph


class _Rewriter:
    """Replaces matches one after the other, of which a later one may begin where an earlier one ended."""

    def __init__(self, graph: Graph, pattern: Graph) -> None:
        self.graph = graph
        self.pattern = pattern
        self.changed: dict[Node, Node] = {}

    def replace(self, match: InternalMatch, replacement: Graph) -> ReplacedPatterns:
        """Put a copy of ``replacement`` in the place of ``match``."""
        placeholders = [node for node in replacement.nodes if node.op == "placeholder"]
        assert len(match.placeholder_nodes) == len(placeholders), (
            f"Placeholder count mismatch: {len(match.placeholder_nodes)} vs {len(placeholders)}"
        )
        self._update(match)
        copies: dict[Node, Node] = dict(zip(placeholders, match.placeholder_nodes, strict=True))
        with self.graph.inserting_before(self._insertion_point(match)):
            results = self.graph.graph_copy(replacement, copies)
        returned: Sequence[Any] = (results,) if isinstance(results, Node) else results  # pyright: ignore[reportAssignmentType] - a tuple of nodes.
        added = [node for node in copies.values() if node not in match.placeholder_nodes]
        assert len(match.returning_nodes) == len(returned), (
            f"Returning nodes count mismatch: {len(match.returning_nodes)} vs {len(returned)}"
        )
        for old, new in zip(match.returning_nodes, returned, strict=True):
            old.replace_all_uses_with(new)
            self.changed[old] = new
        for node in reversed(self.pattern.nodes):
            if node.op not in {"placeholder", "output"}:
                self.graph.erase_node(match.nodes_map[node])
        return ReplacedPatterns(match.anchors[0], match.nodes_map, added)

    def _update(self, match: InternalMatch) -> None:
        """Let inputs that an earlier replacement removed be what it put in their place."""
        match.placeholder_nodes = [self._current(node) for node in match.placeholder_nodes]
        for node, found in match.nodes_map.items():
            if node.op == "placeholder":
                match.nodes_map[node] = self._current(found)

    def _current(self, value: Any) -> Any:
        """Return what is now in the place of a node; a placeholder may also have matched a constant."""
        return self.changed.get(value, value) if isinstance(value, Node) else value

    def _insertion_point(self, match: InternalMatch) -> Node:
        """Return the first user of what the match returns, or what follows the last of that if nobody uses it.

        Raises:
            AssertionError: Nothing follows it: the match is the graph's output.
        """
        users = {user for node in match.returning_nodes for user in node.users}
        if users:
            return min(users)
        follower = max(match.returning_nodes).next
        assert follower.op != "root", "The insert point can't be None"
        return follower


def _replace_attributes(gm: GraphModule, replacement: torch.nn.Module) -> None:
    """Give ``gm`` copies of the submodules and attributes of ``replacement`` that its graph now names.

    Raises:
        RuntimeError: A name leads nowhere in either.
    """
    gm.delete_all_unused_submodules()
    if isinstance(replacement, GraphModule):
        replacement.graph.lint()
    for node in gm.graph.nodes:
        if node.op not in {"call_module", "get_attr"}:
            continue
        target = str(node.target)
        if _attribute(gm, target) is not None:
            continue
        theirs = _attribute(replacement, target)
        if theirs is None:
            raise RuntimeError(
                'Attempted to create a "',
                node.op,
                '" node during subgraph rewriting '
                f"with target {target}, but the referenced attribute does not exist in the replacement GraphModule",
            )
        ours = copy.deepcopy(theirs)
        if isinstance(ours, torch.nn.Module):
            gm.add_submodule(target, ours)
        else:
            setattr(gm, target, ours)
    gm.graph.lint()


def _attribute(root: torch.nn.Module, target: str) -> Any | None:
    path, _, name = target.rpartition(".")
    try:
        owner = root.get_submodule(path)
    except AttributeError:
        return None
    return getattr(owner, name, None)

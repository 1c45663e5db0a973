"""Finds a small graph, the pattern, inside a large one.

Matching starts at the pattern's *anchors* (what only its output uses) and goes backwards along arguments in both
graphs at once: a value has one producer but many users, so backwards there is one path. With several anchors, their
matches must agree; that is found by trying all candidates for each.

Pattern and graph may be torch.fx's, each for itself.
"""

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from fxengine.graph import Graph
from fxengine.node import Node
from fxengine.passes.utils.either_engine import is_node, nodes_of
from fxengine.passes.utils.ordering import validate_partition

__all__ = ["InternalMatch", "SubgraphMatcher"]

_EDGES = frozenset({"placeholder", "output"})


@dataclass
class InternalMatch:
    """One occurrence of a pattern. Mutable while it is being found.

    Attributes:
        anchors: The pattern's nodes from which the match was found.
        nodes_map: The graph's node for each of the pattern's.
        placeholder_nodes: The graph's nodes (or constants) that stand for the pattern's placeholders.
        returning_nodes: The graph's nodes that stand for what the pattern returns.
        name_node_map: The graph's nodes by the names that the pattern gives them; see
            ``SubgraphMatcherWithNameNodeMap``.
    """

    anchors: list[Node]
    nodes_map: dict[Node, Node] = field(default_factory=dict[Node, Node])
    placeholder_nodes: list[Node] = field(default_factory=list[Node])
    returning_nodes: list[Node] = field(default_factory=list[Node])
    name_node_map: dict[str, Node] = field(default_factory=dict[str, Node])

    def __copy__(self) -> "InternalMatch":
        return InternalMatch(
            self.anchors, self.nodes_map.copy(), self.placeholder_nodes.copy(), self.returning_nodes.copy()
        )


class SubgraphMatcher:
    """Finds the occurrences of a pattern in graphs.

    Attributes:
        pattern: The pattern.
        pattern_anchors: The nodes from which it is searched.
        pattern_placeholder_nodes: Its inputs.
        pattern_returning_nodes: What it returns.
    """

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        """Prepare to find ``pattern``.

        Args:
            pattern: The graph to find, without dead code.
            match_output: The pattern's output is part of it: only whole graphs match.
            match_placeholder: The pattern's placeholders match placeholders only, rather than anything.
            remove_overlapping_matches: Of matches that share nodes keep the first.
            ignore_literals: Constants match any constant.

        Raises:
            ValueError: The pattern is empty.
            AssertionError: It has dead code.
        """
        self.pattern = pattern
        self.match_output = match_output
        self.match_placeholder = match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        if not len(pattern.nodes):
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        for node in pattern.nodes:
            assert node.op == "output" or node.is_impure() or node.users, (
                "SubgraphMatcher cannot be initialized with an pattern with dead code"
            )
        output = next(iter(reversed(pattern.nodes)))
        self.pattern_placeholder_nodes = [node for node in pattern.nodes if node.op == "placeholder"]
        self.pattern_returning_nodes: list[Node] = output.all_input_nodes
        self.pattern_anchors: list[Node] = (
            [output] if match_output else [node for node in output.all_input_nodes if len(node.users) == 1]
        )

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """Return the occurrences of the pattern in ``graph``.

        Each is self-contained: apart from its inputs and what it returns, none of its nodes is used outside. Where
        overlapping matches are removed, each could also become one node without a circle.

        Args:
            graph: Where to search.
            node_name_match: Nodes whose name contains this match whatever is compared with them.
        """
        candidates = {
            anchor: [node for node in nodes_of(graph) if self._nodes_are_equal(anchor, node, node_name_match)]
            for anchor in self.pattern_anchors
        }
        found: list[InternalMatch] = []
        searched = [(anchor, nodes) for anchor, nodes in candidates.items() if nodes]
        if searched:
            self._search(searched, InternalMatch(self.pattern_anchors), found, node_name_match)
        contained = [match for match in found if self._is_contained(match.nodes_map)]
        if not self.remove_overlapping_matches:
            return contained
        valid = [match for match in contained if validate_partition(list(_inner_nodes(match)))]
        return self._remove_overlapping_matches(valid)

    def _search(
        self,
        searched: Sequence[tuple[Node, list[Node]]],
        match: InternalMatch,
        found: list[InternalMatch],
        node_name_match: str,
    ) -> None:
        """Add to ``found`` every way to match all anchors in ``searched`` that agrees with ``match``."""
        if not searched:
            match.placeholder_nodes = [match.nodes_map[node] for node in self.pattern_placeholder_nodes]
            match.returning_nodes = [match.nodes_map[node] for node in self.pattern_returning_nodes]
            found.append(match)
            return
        (anchor, nodes), *rest = searched
        for node in nodes:
            attempt = copy.copy(match)
            if self._match_nodes(anchor, node, attempt, node_name_match):
                self._search(rest, attempt, found, node_name_match)

    def _match_nodes(self, pn: Node, gn: Node, match: InternalMatch, node_name_match: str = "") -> bool:
        """Return whether the pattern's ``pn``, with all before it, matches the graph's ``gn``; note it in ``match``.

        After a failure ``match`` is of no more use.
        """
        if pn in match.nodes_map:
            return match.nodes_map[pn] == gn
        if gn in match.nodes_map.values() or not self._nodes_are_equal(pn, gn, node_name_match):
            return False
        match.nodes_map[pn] = gn
        if pn.op == "placeholder":
            return True
        arguments = _comparable_arguments(pn, gn)
        return arguments is not None and self._match_args(*arguments, match)

    def _match_args(self, first: Sequence[Any], second: Sequence[Any], match: InternalMatch) -> bool:
        if len(first) != len(second):
            return False
        return all(self._match_argument(a, b, match) for a, b in zip(first, second, strict=True))

    def _match_argument(self, a: Any, b: Any, match: InternalMatch) -> bool:
        if is_node(a) and is_node(b):
            return self._match_nodes(a, b, match)
        if isinstance(a, list | tuple) and isinstance(b, list | tuple):
            return self._match_args(a, b, match)
        return self._match_literals(a, b, match) or self.ignore_literals

    def _match_literals(self, pn: Any, gn: Any, match: InternalMatch) -> bool:
        """Return whether two arguments, of which at most one is a node, match: a placeholder may be a constant."""
        if is_node(pn):
            if pn.op != "placeholder":
                return False
            if pn in match.nodes_map:
                return match.nodes_map[pn] == gn
            match.nodes_map[pn] = gn
            return True
        return not is_node(gn) and type(gn) is type(pn) and gn == pn

    def _nodes_are_equal(self, pn: Node, gn: Node, node_name_match: str = "") -> bool:
        """Return whether two nodes do the same, their arguments apart."""
        if not self.match_placeholder and pn.op == "placeholder":
            return True
        if node_name_match and node_name_match in gn.name:
            return True
        if pn.op != gn.op:
            return False
        if pn.op in _EDGES:
            return True
        return self._match_attributes(pn, gn) if pn.op == "get_attr" else pn.target == gn.target

    def _match_attributes(self, pn: Node, gn: Node) -> bool:
        """Return whether two attributes are tensors of one type; their values do not matter.

        Raises:
            RuntimeError: They are something else.
        """
        first, second = _attribute_of(pn), _attribute_of(gn)
        if type(first) is not type(second):
            return False
        if isinstance(first, torch.Tensor):
            return True
        raise RuntimeError(f"Unsupported type {first} when matching attributes")

    def _is_contained(self, nodes_map: dict[Node, Node]) -> bool:
        """Return whether nothing outside uses what is inside, apart from what the pattern returns."""
        inside = {gn: pn for pn, gn in nodes_map.items() if pn.op != "placeholder"}
        return all(
            user in inside for gn, pn in inside.items() if pn not in self.pattern_returning_nodes for user in gn.users
        )

    def _remove_overlapping_matches(self, matches: list[InternalMatch]) -> list[InternalMatch]:
        taken: set[Node] = set()
        kept: list[InternalMatch] = []
        for match in matches:
            nodes = set(_inner_nodes(match))
            if taken.isdisjoint(nodes):
                taken |= nodes
                kept.append(match)
        return kept


def _inner_nodes(match: InternalMatch) -> Iterable[Node]:
    """Return the graph's nodes that a match would replace."""
    return (gn for pn, gn in match.nodes_map.items() if pn.op not in _EDGES)


def _attribute_of(node: Node) -> Any:
    module: Any = node.graph.owning_module
    assert module is not None, "the graph of an attribute must belong to a module"
    for atom in str(node.target).split("."):
        module = getattr(module, atom)
    return module


def _comparable_arguments(pn: Node, gn: Node) -> tuple[list[Any], list[Any]] | None:
    """Return the arguments of both nodes in one order, or None if they were passed in ways that cannot be compared."""
    same_form = len(pn.args) == len(gn.args) and list(pn.kwargs) == list(gn.kwargs)
    if same_form:
        return [*pn.args, *pn.kwargs.values()], [*gn.args, *gn.kwargs.values()]
    if pn.op == "call_function" and isinstance(pn.target, torch._ops.OpOverload):
        return _all_arguments(pn, pn.target), _all_arguments(gn, pn.target)
    return None


def _all_arguments(node: Node, target: "torch._ops.OpOverload[..., Any]") -> list[Any]:
    """Return an operator's arguments in the order of its schema, defaults included."""
    found: list[Any] = []
    for place, argument in enumerate(target._schema.arguments):
        if argument.name in node.kwargs:
            found.append(node.kwargs[argument.name])
        elif not argument.kwarg_only and place < len(node.args):
            found.append(node.args[place])
        else:
            found.append(argument.default_value)
    return found

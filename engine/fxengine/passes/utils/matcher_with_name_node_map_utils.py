"""Patterns whose nodes have names: what a match found can be asked for by them."""

from typing import Any, cast

from torch.utils import _pytree as pytree

from fxengine.graph import Graph
from fxengine.graph_module import GraphModule
from fxengine.node import Node
from fxengine.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher

__all__ = ["SubgraphMatcherWithNameNodeMap"]


class SubgraphMatcherWithNameNodeMap(SubgraphMatcher):
    """Finds a pattern and says which node of the graph each named node of the pattern became.

    The pattern returns, last, a dictionary of the nodes to name::

        def pattern(x, weight):
            conv = F.conv2d(x, weight)
            relu = F.relu(conv)
            return relu, {"conv": conv, "relu": relu}

    After ``match`` each match has ``match.name_node_map["conv"]``.
    """

    def __init__(
        self,
        pattern_gm: GraphModule,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        """Take the names out of ``pattern_gm``, which is changed, and prepare to find the rest.

        Raises:
            AssertionError: The pattern does not return at least one value and a dictionary.
        """
        pattern_gm, self.name_node_map = _split_to_graph_and_name_node_map(pattern_gm)
        super().__init__(pattern_gm.graph, match_output, match_placeholder, remove_overlapping_matches, ignore_literals)

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """Return the occurrences of the pattern, with their named nodes."""
        matches = super().match(graph, node_name_match)
        for match in matches:
            match.name_node_map.update({name: match.nodes_map[node] for name, node in self.name_node_map.items()})
        return matches


def _split_to_graph_and_name_node_map(gm: GraphModule) -> tuple[GraphModule, dict[str, Node]]:
    """Remove the dictionary of names from what ``gm``, of either engine, returns, and return both."""
    output = next(iter(reversed(gm.graph.nodes)))
    codegen: Any = gm.graph._codegen
    info: Any = getattr(codegen, "pytree_info", None)
    assert info is not None, "the pattern must be a graph with a pytree signature, as torch.export makes them"
    returned: Any = pytree.tree_unflatten(cast("list[Any]", output.args[0]), cast("pytree.TreeSpec", info.out_spec))
    assert isinstance(returned, tuple), "Expecting the pattern graph to return a tuple"
    assert len(returned) >= 2, "Expecting the pattern graph to have at least two outputs"
    *values, names = returned
    assert isinstance(names, dict), "Expecting the input graph to have a dict output as the last element"
    flat, spec = pytree.tree_flatten(values)
    output.args = (flat,)
    codegen.pytree_info = info._replace(out_spec=spec)
    gm.recompile()
    return gm, names

"""Parts of graphs as modules of their own, and whether two graphs are the same."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from fxengine.graph import Graph
from fxengine.graph_module import GraphModule
from fxengine.passes.utils.matcher_utils import SubgraphMatcher

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]


class HolderModule(nn.Module):
    """Holds attributes, so that a part of a graph finds them under the same names as the whole did."""

    def __init__(self, d: Mapping[str, nn.Module | None]) -> None:
        super().__init__()
        for name, module in d.items():
            self.add_module(name, module)


def lift_subgraph_as_module(
    gm: GraphModule, subgraph: Graph, comp_name: str = "", class_name: str = "GraphModule"
) -> tuple[GraphModule, dict[str, str]]:
    """Return a graph module for ``subgraph`` that shares what it needs of ``gm``'s state.

    Args:
        gm: The module whose nodes the subgraph's are copies of.
        subgraph: The part.
        comp_name: The part's name in the whole; only for the mapping that is returned.
        class_name: The name of the new module's class.

    Returns:
        The module, and for each attribute's name in ``gm`` its new name in the whole.
    """
    holder = HolderModule({})
    renamed: dict[str, str] = {}
    for node in subgraph.nodes:
        if node.op not in {"call_module", "get_attr"}:
            continue
        target = str(node.target)
        *path, leaf = target.split(".")
        owner: nn.Module = holder
        original: Any = gm
        for atom in path:
            if not hasattr(owner, atom):
                owner.add_module(atom, HolderModule({}))
            owner = getattr(owner, atom)
            original = getattr(original, atom)
        setattr(owner, leaf, getattr(original, leaf))
        renamed[target] = f"{comp_name}.{target}"
    return GraphModule(holder, subgraph, class_name), renamed


def compare_graphs(left: Graph, right: Graph) -> bool:
    """Return whether two graphs have the same nodes, connected alike, with the same inputs and outputs in order."""
    return bool(SubgraphMatcher(left, match_output=True, match_placeholder=True).match(right))

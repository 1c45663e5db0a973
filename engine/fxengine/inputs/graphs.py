"""Graphs: the class of those that are one object, and tables of nodes and edges that are of several kinds.

What is passed by kind is called `x_dict` and `edge_index_dict`: a kind of edges is written as the nodes it leaves, what
it is called, and the nodes it reaches.
"""

import contextlib
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from types import SimpleNamespace
from typing import Any, Final, TypeGuard

import torch
from torch import nn

from fxengine.inputs.clues import EDGES, NODES, Clues
from fxengine.inputs.names import is_of_graph
from fxengine.inputs.recipes import Recipe, Record, TensorRecipe

__all__ = ["by_kind", "kind_of_graph"]

_HOME: Final = "torch_geometric.data"
_OF_SEVERAL: Final = frozenset({"num_graphs", "ptr"})
"""Where graphs that are one object have their class, and what one of them alone has not."""

_NODE_TYPES: Final = "node_types"
"""How a layer calls the list of the kinds of nodes that it knows."""

_Kind = tuple[str, str, str]

_OF_NODES: Final = re.compile(
    r"(x|h|z|n|node|feat(ure)?s?|(n|node)_?(x|feats?|features?|embs?)|(emb|embedding)s?)_dicts?"
)
_OF_EDGES: Final = re.compile(r"(edge_?(index|indices|idx)|adj(_t)?)_dicts?")
_OF_EACH_EDGE: Final = re.compile(r"edge_?(attrs?|feats?|features?|weights?)_dicts?")
_OF_GRAPHS: Final = re.compile(r"batch_dicts?")
"""What tables by kind are called: of nodes, of edges, of numbers for each edge, and of the graph each node is in."""


def by_kind(name: str, clues: Clues) -> Record | None:
    """Return what a parameter of this name holds for each kind, None where it holds none, or where none are known.

    Rows of nodes are as wide as the model's first layer says; edges join any nodes of the kinds that they are between.
    """
    width = clues.widths[0]
    tables: tuple[tuple[re.Pattern[str], Callable[[], Iterable[Any]], TensorRecipe], ...] = (
        (_OF_NODES, lambda: _nodes(clues), TensorRecipe((NODES, width))),
        (_OF_GRAPHS, lambda: _nodes(clues), TensorRecipe((NODES,), "zeros", torch.int64)),
        (_OF_EDGES, lambda: _edges(clues), TensorRecipe((2, EDGES), "integers", torch.int64, NODES)),
        (_OF_EACH_EDGE, lambda: _edges(clues), TensorRecipe((EDGES, width))),
    )
    for pattern, kinds, table in tables:
        if pattern.fullmatch(name):
            items: tuple[tuple[Any, Recipe], ...] = tuple((kind, table) for kind in kinds())
            return Record(items, f"the kinds that the model knows, by the name `{name}`") if items else None
    return None


def kind_of_graph(read: Collection[str]) -> Callable[..., Any]:
    """Return the class of an object of which this is read: that of graphs, where a library has it that is imported.

    It has methods which nothing else has, as `clone`, and what is known of a graph by what it has.
    """
    found = getattr(sys.modules.get(_HOME), "Data", None)
    is_one = is_of_graph(read) and _OF_SEVERAL.isdisjoint(read)
    return found if isinstance(found, type) and is_one else SimpleNamespace


def _nodes(clues: Clues) -> list[str]:
    """Return the kinds of nodes between which the model knows edges, or which it says that there are."""
    ends = [end for leaving, _, reaching in _edges(clues) for end in (leaving, reaching)]
    lists = [vars(module).get(_NODE_TYPES) for module in clues.modules.values()]
    said = [each for several in lists if isinstance(several, list | tuple) for each in several if isinstance(each, str)]
    return list(dict.fromkeys([*said, *ends]))


def _edges(clues: Clues) -> list[_Kind]:
    """Return the kinds of edges that the model has parts for, or keeps in a list."""
    return list(dict.fromkeys(kind for module in clues.modules.values() for kind in _edges_of(module)))


def _edges_of(module: nn.Module) -> Iterator[_Kind]:
    if isinstance(module, nn.ModuleDict):
        # It may give its keys as what they stand for, though it keeps them as texts; how is up to its class.
        with contextlib.suppress(Exception):
            yield from [*filter(_is_kind, module.keys())]
    for value in vars(module).values():
        lists = value if isinstance(value, tuple) else (value,)
        for several in lists:
            yield from filter(_is_kind, several) if isinstance(several, list | tuple) else ()


def _is_kind(value: object) -> TypeGuard[_Kind]:
    return isinstance(value, tuple) and len(value) == 3 and all(isinstance(each, str) for each in value)

"""Inputs of models of graphs: objects of a class that has them, and tables by kind."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import nn

from fxengine.inputs import infer_inputs, materialize
from fxengine.inputs.clues import Clues
from fxengine.inputs.graphs import by_kind, kind_of_graph

KINDS = [("user", "rates", "item"), ("item", "rated_by", "user")]


class Gathered(nn.Module):
    """One kind of edges."""

    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, 8)

    def forward(self, leaving, edges, count):
        rows = self.fc(leaving)[edges[0]]
        return torch.zeros(count, 8).index_add(0, edges[1], rows)


def outputs(root):
    """The inferred inputs, and what eager makes of them."""
    inputs = infer_inputs(root)
    assert inputs.complete, inputs.failures
    args, kwargs = materialize(inputs)
    return inputs, root(*args, **kwargs)


class ByKind(nn.ModuleDict):
    """Its keys are tuples, which it keeps as texts."""

    def __init__(self, parts):
        super().__init__({"|".join(kind): part for kind, part in parts.items()})

    def keys(self):
        return [tuple(each.split("|")) for each in self]

    def items(self):
        return [(tuple(each.split("|")), part) for each, part in super().items()]


class Network(nn.Module):
    def __init__(self, kinds):
        super().__init__()
        self.parts = ByKind({kind: Gathered(16) for kind in kinds})

    def forward(self, x_dict, edge_index_dict, batch_dict):
        found = {}
        for kind, part in self.parts.items():
            leaving, _, reaching = kind
            assert len(x_dict[reaching]) == len(batch_dict[reaching])
            found[reaching] = part(x_dict[leaving], edge_index_dict[kind], len(x_dict[reaching]))
        return found


class Listing(nn.Module):
    def __init__(self, metadata):
        super().__init__()
        self.metadata = metadata
        self.fc = nn.Linear(16, 8)

    def forward(self, x_dict, edge_index_dict, edge_attr_dict):
        return {
            kind: self.fc(x_dict[kind[0]])[edge_index_dict[kind][0]] * edge_attr_dict[kind].mean(-1, keepdim=True)
            for kind in self.metadata[1]
        }


def test_tables_have_the_kinds_that_the_parts_of_a_model_are_for():
    inputs, found = outputs(Network(KINDS))
    edges = ", ".join(f"{kind!r}: torch.randint(0, 16, (2, 32))" for kind in KINDS)
    assert inputs.recipes["edge_index_dict"].expression == f"{{{edges}}}"
    assert inputs.recipes["x_dict"].expression == "{'user': torch.randn(16, 16), 'item': torch.randn(16, 16)}"
    assert {name: tuple(each.shape) for name, each in found.items()} == {"item": (16, 8), "user": (16, 8)}


def test_tables_have_the_kinds_that_a_model_keeps_in_a_list():
    inputs, found = outputs(Listing((["user", "item"], KINDS)))
    assert set(found) == set(KINDS)
    assert inputs.recipes["edge_attr_dict"].expression.count("torch.randn(32, 16)") == len(KINDS)


@pytest.mark.parametrize("name", ["x_dict", "edge_index_dict", "edge_attr_dict", "state_dict"])
def test_nothing_is_made_up_where_no_kinds_are_known(name):
    assert by_kind(name, Clues(nn.Linear(4, 4))) is None


class Data:
    """A graph as one object, which keeps what it is made of in another."""

    def __init__(self, x=None, edge_index=None, **more):
        self.__dict__["_store"] = Store({"x": x, "edge_index": edge_index, **more})

    def __getattr__(self, name):
        kept = self.__dict__["_store"]._mapping
        if name not in kept:
            raise AttributeError(f"'Store' object has no attribute {name!r}")
        return kept[name]

    def __setattr__(self, name, value):
        self.__dict__["_store"]._mapping[name] = value

    def __deepcopy__(self, memo):
        return self.clone()

    def clone(self):
        return type(self)(**{name: each.clone() for name, each in self.__dict__["_store"]._mapping.items()})


class Store:
    def __init__(self, mapping):
        self._mapping = mapping


Data.__module__ = "torch_geometric.data.data"


def pooled(cluster, data):
    groups, count = cluster.unique(return_inverse=True)[1], int(cluster.max()) + 1
    return Data(x=torch.zeros(count, data.x.shape[1]).index_add(0, groups, data.x), coarse=data.coarse)


class Pooling(nn.Module):
    """It clones what it is given, changes it, and reads more of what a function makes of it."""

    def __init__(self):
        super().__init__()
        self.fc, self.own = nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, data):
        kept = data.clone()
        data.x = self.fc(data.x)[data.edge_index[0]].mean(0) + data.x
        data = pooled(data.cluster0, data)
        assert data.coarse.dim() == 1
        return self.own(kept.x).sum() + data.x.sum()


def test_a_graph_is_an_object_of_the_class_that_graphs_have(monkeypatch):
    home = ModuleType("torch_geometric.data")
    home.Data = Data
    monkeypatch.setitem(sys.modules, "torch_geometric.data", home)
    inputs, _ = outputs(Pooling())
    (graph,) = inputs.recipes.values()
    assert graph.expression.startswith("torch_geometric.data.data.Data(x=torch.randn(16, 6), ")
    assert "cluster0=torch.randint(0, 8, (16,))" in graph.expression
    assert {name for name, _ in graph.items} == {"x", "edge_index", "cluster0", "coarse"}


def test_without_the_library_it_is_any_object_with_what_is_read(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch_geometric.data", raising=False)
    assert kind_of_graph(["x", "edge_index"]) is SimpleNamespace


class Odd(nn.ModuleDict):
    """Nothing of it is what one would think."""

    node_types = property(lambda self: 1 / 0)

    def keys(self):
        raise RuntimeError("no keys")


@pytest.mark.parametrize("kinds", [3, torch.ones(3), None, "user"])
def test_what_is_called_so_may_be_anything(kinds):
    root = Network(KINDS)
    root.odd, root.node_types = Odd(), kinds
    assert [each for each, _ in by_kind("x_dict", Clues(root)).items] == ["user", "item"]

"""What says which items of something are taken is whole numbers, wherever the code shows it."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from fxworker.arguments import Search
from fxworker.building import attempt


class Table:
    """A table of who is a neighbour of whom, as plain code keeps one."""

    def __init__(self, count, pairs):
        self.table = np.zeros((count, count))
        for one, other in pairs:
            self.table[one, other] = 1


class Neighbours(nn.Module):
    def __init__(self, count, edges):
        super().__init__()
        self.register_buffer("table", torch.tensor(Table(count, edges).table))


class Spiral(nn.Module):
    """Takes items where it is called."""

    def __init__(self, width, order):
        super().__init__()
        self.order = order
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return self.fc(torch.index_select(x, 1, self.order.view(-1)))


class Several(nn.Module):
    def __init__(self, width, orders):
        super().__init__()
        self.parts = nn.ModuleList([Spiral(width, orders[at]) for at in range(2)])
        self.sizes = [each.size(0) for each in orders]


class Kept(nn.Module):
    """Keeps them as a buffer, which is made of them."""

    def __init__(self, columns):
        super().__init__()
        self.register_buffer("columns", torch.as_tensor(columns).long())
        self.fc = nn.Linear(len(columns), 8)

    def forward(self, x):
        return self.fc(x[:, self.columns])


class Tree(nn.Module):
    """Takes the parent of each by a variable."""

    def __init__(self, width, parents):
        super().__init__()
        self.parents = parents
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        found = [x]
        for at in range(1, len(self.parents)):
            parent = self.parents[at]
            found.append(self.fc(found[parent]))
        return found[-1]


class Related(nn.Module):
    """Has the edges of a graph, each of a type."""

    def __init__(self, width, edge_index, edge_type):
        super().__init__()
        self.edge_index, self.edge_type = edge_index, edge_type
        self.weights = nn.Parameter(torch.ones(8, width, width))

    def forward(self, x):
        source, target = self.edge_index
        told = torch.einsum("ei,eio->eo", x[source], self.weights[self.edge_type])
        return torch.zeros_like(x).index_add(0, target, told)


class Faces(nn.Module):
    """Has several in each row."""

    def __init__(self, vertices, faces):
        super().__init__()
        table = np.zeros([vertices.shape[0]] * 2)
        table[faces[:, 0], faces[:, 1]] = 1
        self.register_buffer("table", torch.from_numpy(table))


EDGES = "torch.zeros(2, 64, dtype=torch.int64)"
ORDER = "torch.zeros(64, 64, dtype=torch.int64)"


@pytest.mark.parametrize(
    ("cls", "expression"),
    [
        (Neighbours, "Neighbours(count=2, edges=[(0, 0), (1, 1)])"),
        (Spiral, "Spiral(width=64, order=torch.zeros(64, dtype=torch.int64))"),
        (Several, f"Several(width=64, orders=[{ORDER}, {ORDER}])"),
        (Kept, "Kept(columns=torch.zeros(64, dtype=torch.int64))"),
        (Tree, "Tree(width=64, parents=[0, 0])"),
        (Related, f"Related(width=64, edge_index={EDGES}, edge_type=torch.zeros(64, dtype=torch.int64))"),
        (Faces, "Faces(vertices=torch.ones(64), faces=torch.zeros(64, 64, dtype=torch.int64))"),
    ],
)
def test_they_are_found(cls, expression):
    scope = {cls.__name__: cls, "torch": torch, "SimpleNamespace": SimpleNamespace}
    search = Search(cls.__name__, cls, scope, partial(attempt, real=False))
    assert (search.run() or ("",))[0] == expression, (search.tried, search.error)

"""Inputs that are objects, or lists of them, that are joined, selected by or attended to: found by what code does."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - torch's own name for it.

from fxengine.inputs import infer_inputs
from tests.support.feeding import fed


class Crystal:
    """A graph with methods."""

    def __init__(self, atom_types, positions, name: str, cutoff: float = 5.0):
        self.atom_types = atom_types
        self.positions = positions
        self.name = name
        self.cutoff = cutoff

    def distances(self) -> Tensor:
        return (self.positions[:, None] - self.positions[None]).norm(dim=-1).clamp(max=self.cutoff)


class OfCrystals(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8)

    def forward(self, crystal: Crystal) -> Tensor:
        return crystal.distances()[..., None] * self.embed(crystal.atom_types)


def test_an_object_of_a_class_that_the_code_knows_is_made_of_what_its_constructor_takes():
    inferred = fed(OfCrystals())
    assert isinstance(inferred.args[0], Crystal)
    assert inferred.expression.startswith("Crystal(")


class Cells(nn.Module):
    """Goes over objects that it says nothing of."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8)

    def forward(self, graphs):
        return torch.stack([self._row(graph) for graph in graphs])

    def _row(self, graph):
        return self.embed(graph.atomic_number).sum(0) * torch.linalg.det(graph.lattice)


def test_items_of_which_attributes_are_read_are_objects():
    inferred = fed(Cells())
    assert [set(vars(each)) for each in inferred.args[0]] == [{"atomic_number", "lattice"}] * 2


class Parted(nn.Module):
    """Joins what is given for each example."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, targets: dict[str, Tensor], predictions: dict[str, Tensor]) -> Tensor:
        wanted, found = torch.cat(targets["forces"], 0), torch.cat(predictions["forces"], 0)
        return self.weight * (wanted - found).abs().mean()


def test_what_is_joined_is_several():
    targets, predictions = fed(Parted()).args
    assert len(targets["forces"]) == len(predictions["forces"]) == 2


class Neighbours(nn.Module):
    """Selects rows by what nobody says anything of."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 4)

    def forward(self, rows: Tensor, centre: Tensor) -> Tensor:
        return torch.index_select(self.head(rows), 0, centre)


def test_what_selects_rows_is_a_vector_of_integers_even_if_the_rows_are_many():
    inferred = infer_inputs(Neighbours())
    assert inferred.complete
    assert inferred.args[1].dtype is torch.int64
    assert inferred.args[1].dim() == 1


class Attending(nn.Module):
    """Calls what it attends to as labels are called."""

    def __init__(self):
        super().__init__()
        self.heads = 4

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Attend.

        Args:
            x: Queries [b x s x d].
            y: Keys [b x t x d].
        """
        query, key = (each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in (x, y))
        return F.scaled_dot_product_attention(query, key, key)


def test_what_is_attended_to_has_floating_point_numbers():
    inferred = fed(Attending())
    assert all(each.is_floating_point() for each in inferred.args)


class Likelihood(nn.Module):
    """Is told what a model has predicted as a distribution."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, output, target):
        return -self.weight * output.log_prob(target.float()).mean()


def test_what_is_asked_for_probabilities_is_a_distribution():
    assert isinstance(fed(Likelihood()).args[0], torch.distributions.Distribution)


class Columned(nn.Module):
    """Compares numbers with what is called as classes are."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        return self.weight * F.mse_loss(target, output)


def test_what_takes_no_integers_gets_none():
    assert all(each.is_floating_point() for each in fed(Columned()).args)


class Head(nn.Module):
    """Puts what it makes of each level in the place of that."""

    def __init__(self, channels=(64, 128, 256)):
        super().__init__()
        self.levels = len(channels)
        self.m = nn.ModuleList(nn.Conv2d(each, 75, 1) for each in channels)

    def forward(self, x):
        for i in range(self.levels):
            x[i] = self.m[i](x[i])
            batch, _, height, width = x[i].shape
            x[i] = x[i].view(batch, 3, 25, height, width).permute(0, 1, 3, 4, 2).contiguous()
        return x


def test_what_layers_reach_one_by_one_by_a_number_is_a_list_though_its_items_are_replaced():
    (levels,) = fed(Head()).args
    assert [each.shape[1] for each in levels] == [64, 128, 256]


class Graph(nn.Module):
    """Joins what neighbours have, over one step and over two, of each of several graphs."""

    def __init__(self, channels=32, graphs=3, order=2):
        super().__init__()
        self.mlp = nn.Conv2d((order * graphs + 1) * channels, 16, 1)
        self.order = order

    def forward(self, x, support):
        out = [x]
        for each in support:
            reached = x
            for _ in range(self.order):
                reached = torch.einsum("ncvl,vw->ncwl", reached, each)
                out.append(reached)
        return self.mlp(torch.cat(out, dim=1))


def test_there_are_as_many_items_as_what_they_are_joined_to_takes():
    x, support = fed(Graph()).args
    assert (x.shape[1], len(support)) == (32, 3)
    x, support = fed(Graph(graphs=2)).args
    assert x.shape[1] * (2 * len(support) + 1) == 5 * 32


class OfGraphs(nn.Module):
    """Attends to nodes, to one for the whole and to edges, where a matrix of each graph says that they are near."""

    def __init__(self, width=16, heads=4):
        super().__init__()
        self.whole = nn.Parameter(torch.zeros(1, width))
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(width, heads, 32), 1)
        self.heads = heads

    def forward(self, nodes, edges, adj):
        whole = self.whole.expand(nodes.size(0), 1, -1)
        steps = torch.cat([nodes, whole, edges], 1).transpose(0, 1)
        far = [(adj[i] == 0).unsqueeze(0).repeat(self.heads, 1, 1) for i in range(len(adj))]
        return self.encoder(steps, mask=torch.cat(far))


def test_what_a_mask_is_made_of_has_the_sides_that_are_attended_to():
    nodes, edges, adj = fed(OfGraphs()).args
    side = nodes.shape[1] + 1 + edges.shape[1]
    assert adj.shape == (len(nodes), side, side)


class ByNumber(nn.Module):
    """Takes some of the many levels that an encoder gives, by their numbers."""

    def __init__(self):
        super().__init__()
        self.low = nn.Conv2d(8, 4, 1)
        self.high = nn.Conv2d(16, 4, 1)

    def forward(self, features):
        low, high = features[4], features[11]
        return self.low(low) + F.interpolate(self.high(high), size=low.shape[2:])


def test_there_are_as_many_items_as_are_taken_by_their_numbers():
    inferred = fed(ByNumber())
    assert len(inferred.args[0]) == 12
    assert len(inferred.failures) <= 3


class ByDegree(nn.Module):
    """Looks something up by a name that is put together."""

    def __init__(self):
        super().__init__()
        self.degree_in, self.degree_out = 1, 2
        self.weights = nn.Parameter(torch.ones(6, 5))

    def forward(self, features, basis):
        kernel = basis[f"{self.degree_in},{self.degree_out}"]
        return features @ self.weights + kernel[str(self.degree_in)]


def test_a_name_that_is_put_together_is_looked_up():
    _, basis = fed(ByDegree()).args
    assert set(basis["1,2"]) == {"1"}


class Columns(nn.Module):
    """Takes columns by lists of their numbers, which torch does not check without data."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(1, 8), nn.Linear(1, 8), nn.Linear(1, 8)])

    def forward(self, x: Tensor) -> list[Tensor]:
        return [layer(x[:, [at]]) for at, layer in enumerate(self.layers)]


def test_there_are_the_columns_that_are_listed():
    inferred = infer_inputs(Columns())
    assert inferred.complete
    assert inferred.args[0].shape[1] >= 3
    Columns()(torch.randn(inferred.args[0].shape))


class OfSubspaces(nn.Module):
    """Takes columns by an array of their numbers."""

    def __init__(self):
        super().__init__()
        self.columns = np.arange(6)[:, None] + np.arange(3)
        self.layer = nn.Linear(18, 8)

    def forward(self, x):
        return self.layer(x[:, self.columns].flatten(1))


def test_there_are_the_columns_that_an_array_lists():
    inferred = infer_inputs(OfSubspaces())
    assert inferred.complete
    assert inferred.args[0].shape[1] >= 8
    OfSubspaces()(torch.randn(inferred.args[0].shape))


class Skipping(nn.Module):
    """Goes on with less than it needs where it is not given what skips layers."""

    def __init__(self):
        super().__init__()
        self.own = nn.Conv2d(3, 16, 1)
        self.skipped = nn.Conv2d(8, 16, 1)
        self.out = nn.Conv2d(24, 4, 1)

    def forward(self, x: Tensor, skip: Tensor | None = None) -> Tensor:
        x = self.own(x)
        if skip is not None:
            x = torch.cat([x * self.skipped(skip).sigmoid(), skip], dim=1)
        return self.out(x)


def test_what_may_be_left_out_is_given_where_a_layer_needs_it():
    inferred = infer_inputs(Skipping())
    assert inferred.complete
    assert len(inferred.args) + len(inferred.kwargs) == 2


class Stages(nn.Module):
    """Takes pictures apart by their numbers, after the first of them."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv2d(8, 8, 1) for _ in range(3)])

    def forward(self, *features: Tensor) -> Tensor:
        features = features[1:][::-1]
        out = self.layers[0](features[0])
        for index in range(1, len(self.layers)):
            out = out + self.layers[index](features[index])
        return out


def test_there_are_as_many_as_are_taken_of_those_that_are_left():
    inferred = infer_inputs(Stages())
    assert inferred.complete
    assert len(inferred.args) >= 4


class Propagating(nn.Module):
    """Takes the two rows of a table of edges apart."""

    def forward(self, nodes: Tensor, eidx: Tensor, weights: Tensor) -> Tensor:
        r"""Propagate.

        Parameters
        ----------
        nodes
            Data of vertices (:math:`n_{vertices} \times n_{features}`)
        weights
            Weights of edges (:math:`n_{edges}`)
        """
        source, target = eidx
        return torch.zeros_like(nodes).index_add(0, target, nodes[source] * weights.unsqueeze(1))


def test_each_edge_has_what_is_said_of_edges():
    nodes, edges, weights = fed(Propagating()).args
    assert edges.shape == (2, *weights.shape)
    assert len(nodes) > 2

"""Objects and dictionaries among the inputs: what the code reads of them, with what its layers want of that."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import pytest
import torch
from torch import Tensor, nn

from fxengine.inputs import infer_inputs
from tests.support.feeding import fed


def attended(x, edge_index):
    source, target = edge_index
    return torch.zeros_like(x).index_add(0, target, x[source])


class Convolution(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.linear = nn.Linear(channels, width)

    def forward(self, x, edge_index, edge_attr=None):
        x = attended(self.linear(x), edge_index)
        return x if edge_attr is None else x + edge_attr.mean()


class OfGraphs(nn.Module):
    """Reads what it needs of a graph that it says nothing of."""

    def __init__(self):
        super().__init__()
        self.first = Convolution(5, 16)
        self.second = Convolution(16, 16)
        self.edges = nn.Linear(3, 16)
        self.head = nn.Linear(16, 2)

    def forward(self, data):
        x, edge_index, batch = data.x, data.edge_index, data.batch
        x = self.first(x, edge_index, self.edges(data.edge_attr)).relu()
        x = self.second(x, edge_index)
        pooled = x.new_zeros(int(batch.max()) + 1, x.shape[1]).index_add(0, batch, x)
        return self.head(pooled)


def test_a_graph_has_what_is_read_of_it():
    inferred = fed(OfGraphs())
    data = inferred.args[0]
    assert set(vars(data)) == {"x", "edge_index", "batch", "edge_attr"}
    assert data.x.shape[1] == 5
    assert data.edge_attr.shape[1] == 3
    assert data.edge_index.shape[0] == 2
    assert data.batch.shape == data.x.shape[:1]
    assert not inferred.failures


class Data:
    """What a graph is in libraries: nothing is needed, and everything may be there."""

    def __init__(self, x=None, edge_index=None, edge_attr=None, y=None, pos=None, **kwargs):
        self.x, self.edge_index, self.edge_attr, self.y, self.pos = x, edge_index, edge_attr, y, pos
        for name, value in kwargs.items():
            setattr(self, name, value)


class OfData(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Convolution(5, 16)

    def forward(self, data: Data):
        return self.first(data.x, data.edge_index) + self._placed(data)

    @staticmethod
    def _placed(graph):
        return graph.pos.sum()


def test_an_object_of_a_class_has_what_is_read_of_it():
    inferred = fed(OfData())
    assert isinstance(inferred.args[0], Data)
    assert inferred.args[0].x.shape[1] == 5


class Positioned(nn.Module):
    """Whether positions are read depends on what only a run tells."""

    def __init__(self):
        super().__init__()
        self.first = Convolution(5, 16)
        self.place = nn.Linear(3, 16)

    def forward(self, data: Data):
        x = self.first(data.x, data.edge_index)
        if x.shape[1] > 3:
            x = x + self.place(data.pos)
        return x


def test_what_is_none_by_default_is_given_where_it_is_read():
    inferred = fed(Positioned())
    assert inferred.args[0].pos.shape == (inferred.args[0].x.shape[0], 3)


class OfColumns(nn.Module):
    """Looks columns up by their names, those of words in a function further in."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 8)
        self.numbers = nn.Linear(7, 8)

    def forward(self, batch: dict[str, Tensor]):
        return self.numbers(batch["numbers"]).sum() + self._embedded(batch).sum()

    def _embedded(self, batch):
        return self.words(batch["word_ids"]).mean(1)


def test_a_dictionary_has_what_is_looked_up_in_it():
    inferred = fed(OfColumns())
    batch = inferred.args[0]
    assert batch["numbers"].shape[-1] == 7
    assert not batch["word_ids"].is_floating_point()
    assert not inferred.failures


class Loss(nn.Module):
    """Compares predictions with what is true of each picture."""

    def forward(self, outputs: dict[str, Tensor], targets: list[dict[str, Tensor]]):
        labels = torch.cat([each["labels"] for each in targets])
        boxes = torch.cat([each["boxes"] for each in targets])
        widths = boxes[:, 2:] - boxes[:, :2]
        assert bool((widths >= 0).all())
        return outputs["logits"].sum() + labels.sum() + widths.sum() - len(labels) / len(boxes)


def test_items_have_what_is_looked_up_in_them():
    targets = fed(Loss()).args[1]
    assert [set(each) for each in targets] == [{"labels", "boxes"}] * 2
    assert targets[0]["boxes"].shape == (*targets[0]["labels"].shape, 4)


class Tied(nn.Module):
    """As heads that share their weights with a layer which they are given."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)

    def forward(self, x, embedding):
        return nn.functional.linear(self.norm(x), embedding.weight, embedding.bias)


def test_what_has_a_weight_has_that_of_a_layer():
    layer = fed(Tied()).args[1]
    assert layer.weight.shape == (8, 8)
    assert layer.bias.shape == (8,)


class OfSteps(nn.Module):
    """Goes over as many steps of a table as it is made for, each of which has numbers that may be missing."""

    def __init__(self):
        super().__init__()
        self.steps = 3
        self.cell = nn.GRUCell(10, 8)
        self.past = nn.Linear(8, 5)

    def forward(self, inputs: dict):
        x, mask, deltas = inputs["X"], inputs["missing_mask"], inputs["deltas"]
        state = x.new_zeros(x.shape[0], 8)
        found = []
        for step in range(self.steps):
            known = mask[:, step] * x[:, step] + (1 - mask[:, step]) * self.past(state) * deltas[:, step]
            state = self.cell(torch.cat([known, mask[:, step]], 1), state)
            found.append(known)
        return torch.stack(found, 1) * mask - x


def test_what_says_which_numbers_were_measured_has_one_for_each():
    inputs = fed(OfSteps(), budget_s=10.0).args[0]
    assert {each.shape for each in inputs.values()} == {(2, 3, 5)}


class Smoothed(nn.Module):
    """Needs more steps than there are."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(5, 5)

    def forward(self, inputs: dict):
        x = self.head(inputs["x"]) * inputs["observed_mask"]
        assert x.shape[1] > 0
        return nn.functional.avg_pool1d(x.transpose(1, 2), 100)


def test_entries_of_one_shape_become_longer_together():
    inputs = fed(Smoothed(), budget_s=10.0).args[0]
    assert inputs["x"].shape == inputs["observed_mask"].shape
    assert inputs["x"].shape[1] >= 100


class Memory(NamedTuple):
    """What a cell keeps from step to step."""

    state: Tensor
    trace: Tensor


class Remembering(nn.Module):
    """Makes its state where there is none, in shapes that nothing else tells."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(10, 8)

    def forward(self, x: Tensor, memory: Memory | None):
        if memory is None:
            memory = Memory(x.new_zeros(x.shape[0], 8), x.new_zeros(x.shape[0], 10, 8))
        state = self.layer(x) + memory.state
        return Memory(state, memory.trace + x[:, :, None] * state[:, None])


def test_an_object_that_is_made_where_there_is_none_is_none():
    inferred = fed(Remembering())
    assert inferred.expression == "torch.randn(2, 10), None"
    assert inferred.failures == ()


class Scaled(nn.Module):
    """Takes one number for the weights of a layer."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, weight: Tensor):
        return self.layer(x, weight.sum())


@pytest.mark.parametrize("layer", [nn.functional.linear, nn.functional.conv1d], ids=["linear", "conv1d"])
def test_weights_of_no_layer_end_no_search(layer):
    assert not infer_inputs(Scaled(layer), budget_s=0.2).complete


class Batch(Protocol):
    """What is observed, and what is known of it."""

    seen: Tensor
    known: Tensor


class OfBatch(nn.Module):
    """Takes what has the attributes of a batch."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(10, 8)

    def forward(self, batch: Batch):
        return self.layer(batch.seen) + batch.known.sum()


def test_what_a_protocol_describes_is_an_object_with_what_is_read():
    inferred = fed(OfBatch())
    assert inferred.expression == "SimpleNamespace(seen=torch.randn(2, 10), known=torch.randn(2, 10))"
    assert inferred.failures == ()


class Refusing:
    """Is only made elsewhere."""

    def __init__(self, seen: Tensor):
        raise ValueError(f"no batch of {seen}")


class OfRefusing(OfBatch):
    """Takes what cannot be made."""

    def forward(self, batch: Refusing):
        return self.layer(batch.seen)


def test_where_time_is_over_before_an_object_is_made_there_is_none():
    inferred = infer_inputs(OfRefusing(), budget_s=0.0)
    assert not inferred.complete
    assert inferred.args == ()
    assert "no batch" in inferred.failures[0].error


class OfSeveral(nn.Module):
    """Sums what the edges and the nodes of several graphs have, by which graph each is of."""

    def __init__(self):
        super().__init__()
        self.edges = nn.Linear(10, 8)
        self.nodes = nn.Linear(6, 8)

    def forward(self, edge_index, edge_attr, x, node_batch, edge_batch):
        nodes = self.nodes(x)
        edges = self.edges(edge_attr) + nodes[edge_index[0]]
        summed = nodes.new_zeros(4, 8).index_add(0, node_batch, nodes)
        return summed.index_add(0, edge_batch, edges)


def test_which_graph_each_node_and_each_edge_is_of_goes_by_its_name():
    inferred = fed(OfSeveral())
    assert [each.shape for each in inferred.args] == [(2, 32), (32, 10), (16, 6), (16,), (32,)]


@dataclass
class Window:
    past: Tensor
    future: Tensor | None = None
    state: Any = None

    def whole(self):
        return self.past


class OfWindow(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 4), nn.Linear(6, 4)

    def forward(self, x_in: Window):
        x = x_in.whole()
        future = x_in.future
        batch, _, _ = x.shape
        x = self.first(x)
        if self.second.bias is not None:
            future = nn.functional.pad(input=future, pad=(0, 0, 0, x.shape[1] - future.shape[1]))
            x = x + self.second(future).view(batch, -1, 4)
        return x


def test_a_field_that_is_none_is_given_where_a_name_for_it_is_used():
    assert "future=torch.randn(2, 6)" in fed(OfWindow()).expression


class OverEdges(nn.Module):
    """Goes over edges whose ends it is called after, and looks up by keyword what lies at them."""

    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(8, 4), nn.Linear(8, 4)

    def forward(self, node_attr, edge_index):
        src, dst = edge_index
        weights = (self.query(node_attr)[dst] * self.key(node_attr)[src]).sum(-1)
        largest = torch.zeros(len(node_attr)).scatter_reduce(0, dst, weights, "amax", include_self=False)
        return weights - torch.gather(input=largest, dim=0, index=dst)


def test_what_is_unpacked_into_its_rows_is_a_table_of_edges():
    inferred = fed(OverEdges())
    assert inferred.args[1].shape[0] == 2
    assert inferred.args[1].dtype is torch.int64

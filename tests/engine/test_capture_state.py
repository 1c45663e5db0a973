"""What runs change in a model: each run of the graph changes it too, and what it decided is asserted."""

import copy
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import fxengine
from tests.support.capturing import captured_for_many_runs

X = torch.randn(2, 4)


class _ByViews(nn.Module):
    """Changes its own tensors by way of views of them, made before and after."""

    def __init__(self):
        super().__init__()
        self.register_buffer("counts", torch.zeros(4))
        self.register_buffer("sums", torch.zeros(2, 4))
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        last = self.counts[3:]
        early = x * last
        self.counts.view(-1).add_(1)
        self.counts[1:].mul_(2)
        for count in self.counts:
            count.add_(1)
        self.sums[0] += x[1]
        self.norm(x)
        return early + x * self.counts + last * self.sums.t()[0, 1] + self.norm.running_mean[1:3].sum()


@pytest.mark.parametrize("training", [False, True])
def test_changes_by_way_of_views_are_those_of_the_graph(training):
    net = _ByViews().train(training)

    twin = captured_for_many_runs(net, X)

    torch.testing.assert_close(net.counts, twin.counts)
    torch.testing.assert_close(net.sums, twin.sums)


class _Plain(nn.Module):
    """Has a tensor that is no buffer, and changes it."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Module()
        self.inner.steps = torch.zeros(4)

    def forward(self, x):
        scaled = x * (self.inner.steps + 2)
        self.inner.steps += 1
        self.inner.steps[0] = x[0, 0]
        return scaled + self.inner.steps


def test_tensors_that_are_attributes_are_changed_by_each_run_and_not_by_the_capture():
    net = _Plain()

    fxengine.capture(net, X)
    assert torch.equal(net.inner.steps, torch.zeros(4))

    captured_for_many_runs(net, X)


class _Moving(nn.Module):
    """Asks for what it has changed in this run."""

    def __init__(self, change):
        super().__init__()
        self.register_buffer("marks", torch.zeros(2, dtype=torch.long))
        self.norm = nn.BatchNorm1d(4)
        self.change = change

    def forward(self, x):
        self.change(self.marks, self.norm, x)
        seen = self.norm.num_batches_tracked if self.norm.training else self.marks.sum()
        return x * 2 if seen == 1 else x


def _set(marks, _norm, _x):
    marks[0] = 1


def _add(marks, _norm, _x):
    marks[0].add_(1)


@pytest.mark.parametrize(
    ("change", "training"), [(_set, False), (_add, False), (lambda _marks, norm, x: norm(x), True)]
)
def test_what_a_run_has_changed_is_not_known_from_before(change, training):
    net = _Moving(change).train(training)

    found = fxengine.capture(net, X)

    twin = copy.deepcopy(net)
    assert found.rest is not None
    for _ in range(2):
        torch.testing.assert_close(found.graph_module(X), twin(X))


class _First(nn.Module):
    """Does something else in its first run, or goes round in a table."""

    def __init__(self, kind):
        super().__init__()
        self.register_buffer("begun", torch.tensor(False))
        self.register_buffer("place", torch.zeros(1, dtype=torch.long))
        self.register_buffer("table", torch.zeros(6, 4))
        self.kind = kind

    def forward(self, x):
        if self.kind == "begun":
            if not self.begun:
                self.table[:2] = x
                self.begun.fill_(True)
        elif self.kind == "place":
            place = int(self.place)
            self.table[place : place + 2] = x
            self.place[0] = (place + 2) % 6
        else:
            x = x * 2 if self.place < 1 else x
            self.place = self.place + 1
        return x + self.table.sum(0)


@pytest.mark.parametrize(
    ("kind", "said"), [("begun", "begun == False"), ("place", r"place == \[0\]"), ("set", "place ==")]
)
def test_what_a_buffer_decides_that_each_run_changes_is_asserted(kind, said):
    net = _First(kind)
    found = fxengine.capture(net, X)
    twin = copy.deepcopy(net)

    assert found.problems == ()
    torch.testing.assert_close(found.graph_module(X), twin(X))
    with pytest.raises(AssertionError, match=said):
        found.graph_module(X)


class _Exchanged(nn.Module):
    """Lets two buffers change places, and changes one of them."""

    def __init__(self):
        super().__init__()
        self.register_buffer("one", torch.zeros(2, 4))
        self.register_buffer("other", torch.zeros(2, 4))

    def forward(self, x):
        self.one, self.other = self.other, self.one
        self.one.add_(x)
        return x + self.other


class _Halved(nn.Module):
    """Changes a parameter, and then does what a graph cannot."""

    def __init__(self, change):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.change = change

    def forward(self, x):
        self.change(self.weight)
        x = x * self.weight
        return x + 1 if x.sum() > 0 else x


def _in_place(weight):
    weight.data.mul_(0.5)


def _set_anew(weight):
    weight.data = weight.data * 0.5


class _Apart(nn.Module):
    """Keeps its layers as plain objects from the first run on, so that only one of them is where it is needed."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

    def forward(self, x):
        if isinstance(self.layers, nn.ModuleList):
            layers = list(self.layers)
            del self.layers
            self.layers = layers
        return self.layers[0](x).relu()


@pytest.mark.parametrize("make", [_Exchanged, _Apart, lambda: _Halved(_in_place), lambda: _Halved(_set_anew)])
def test_what_cannot_be_repeated_by_a_graph_is_done_once_by_the_models_own_code(make):
    net = make()
    found = fxengine.capture(net, X)
    twin = copy.deepcopy(net)

    assert found.rest is not None
    for _ in range(3):
        fresh = torch.randn_like(X)
        torch.testing.assert_close(found.graph_module(fresh), twin(fresh))


class _Counting(nn.Module):
    """Counts its runs, by which is decided, in front of what a graph cannot do."""

    def __init__(self):
        super().__init__()
        self.steps = 0
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        self.steps += 1
        x = self.layer(x * self.steps)
        return x + 1 if x.sum() > 0 else x


def test_what_a_later_run_computes_otherwise_is_not_taken_from_the_graph():
    net = _Counting()
    found = fxengine.capture(net, X)
    twin = copy.deepcopy(net)

    for _ in range(3):
        torch.testing.assert_close(found.graph_module(X), twin(X))


def test_buffers_that_decide_and_are_assigned_are_not_constants_where_the_next_capture_fails():
    class Deciding(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", torch.ones(()))

        def forward(self, x):
            y = x * self.scale
            self.scale = self.scale + x.abs().sum()
            return y * 2 if self.scale > 100 else y

    net = Deciding()
    found = fxengine.capture(net, X)
    twin = copy.deepcopy(net)

    for _ in range(3):
        torch.testing.assert_close(found.graph_module(X * 20), twin(X * 20))


class _Pair(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.real, self.imag = nn.Parameter(torch.randn(size)), nn.Parameter(torch.randn(size))


class _Accessing(nn.Module):
    """Gives the two tensors of a part where it is asked for the part."""

    def __init__(self):
        super().__init__()
        self.weight = _Pair(8)

    def __getattr__(self, name):
        found = super().__getattr__(name)
        return SimpleNamespace(real=found.real, imag=found.imag) if isinstance(found, _Pair) else found

    def forward(self, x):
        weight = self.weight
        return x * weight.real - weight.imag


def test_a_part_that_is_given_as_something_else_keeps_its_tensors():
    model, x = _Accessing(), torch.randn(2, 8)
    captured = fxengine.capture(model, (x,))
    assert captured.problems == ()
    torch.testing.assert_close(captured.graph_module(x), model(x))

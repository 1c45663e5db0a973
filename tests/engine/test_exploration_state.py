"""A snapshot of a model sees what has changed in it, and puts it back."""

import random
from typing import Any

import pytest
import torch
from torch import nn

from fxengine import diagnose
from fxengine.module_snapshot import MISSING, Snapshot


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.count = 0
        self.table: dict[str, Any] = {"a": [1, {2: set()}]}
        self.empty: list[int] = []
        self.register_buffer("steps", torch.zeros(1))


def test_what_has_not_changed_is_no_change() -> None:
    model = Model()
    snapshot = Snapshot(model)
    assert not snapshot.changed()
    assert snapshot.changes(snapshot.changed()) == ()


def test_changes_say_what_and_where() -> None:
    model = Model()
    snapshot = Snapshot(model)
    model.count = 1
    model.inner.new = "x"
    model.table["a"][1][2].add(3)
    model.empty.append(1)
    model.steps += 1
    model.added = nn.ReLU()
    del model.inner.bias
    found = {(change.module_path, change.name): change for change in snapshot.changes(snapshot.changed())}
    assert {key: change.kind for key, change in found.items()} == {
        ("", "count"): "attribute",
        ("inner", "new"): "attribute",
        ("", "empty"): "contents",
        ("", "steps"): "data",
        ("", "added"): "attribute",
        ("inner", "bias"): "attribute",
    }
    assert (found["", "count"].before, found["", "count"].after) == (0, 1)
    assert found["inner", "new"].before is MISSING
    assert found["inner", "bias"].after is MISSING


def test_everything_is_put_back_and_is_the_same() -> None:
    model = Model()
    inner, bias, table, deep = model.inner, model.inner.bias, model.table, model.table["a"][1][2]
    names = list(vars(model))
    snapshot = Snapshot(model)
    torch.manual_seed(1)
    state = torch.get_rng_state()
    random.seed(1)
    again = Snapshot(model)
    torch.rand(3)
    random.random()
    model.count, model.extra = 5, 6
    model.table["a"][1][2].add(3)
    model.table["b"] = 1
    model.empty.append(1)
    model.inner = nn.Linear(2, 2)
    del model.steps
    assert again.has_drawn()
    snapshot.restore()
    assert not snapshot.changed()
    assert list(vars(model)) == names
    assert (model.count, model.empty) == (0, [])
    assert model.inner is inner
    assert model.inner.bias is bias
    assert model.table is table
    assert model.table == {"a": [1, {2: set()}]}
    assert model.table["a"][1][2] is deep
    again.restore()
    assert torch.equal(torch.get_rng_state(), state)
    assert not again.has_drawn()


def test_the_data_of_small_buffers_are_put_back() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(()))
            self.register_buffer("rows", torch.zeros(3))
            self.view = self.rows[1:]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(1)
            self.rows[0] = 5
            self.rows.unsqueeze_(0)
            if x.sum() > 0:
                self.count.add_(10)
            return x + self.count

    model = Counting()
    rows = model.rows
    diagnose(model)
    assert model.count == 0
    assert model.rows is rows
    assert rows.tolist() == [0, 0, 0]
    rows[1] = 7
    assert model.view[0] == 7


def test_constants_of_a_tracer_are_no_changes() -> None:
    model = Model()
    snapshot = Snapshot(model)
    model._tensor_constant0 = torch.ones(1)
    assert snapshot.changed()
    assert snapshot.changes(snapshot.changed()) == ()


class Recurrent(nn.Module):
    """Keeps what it has computed, and a list of how large that was."""

    def __init__(self):
        super().__init__()
        self.cell, self.scale = nn.Linear(8, 8), torch.ones(8)
        self.state, self.size = torch.zeros(1, 8), None

    def forward(self, x):
        if self.size is None:
            self.size = [x.shape[1]]
        for step in range(3 if self.size[0] > 2 else 2):
            self.state = torch.tanh(self.cell(x[:, step]) + self.state) * self.scale
        return self.state


@pytest.mark.parametrize("given", [True, False], ids=["inputs", "a search for them"])
def test_what_a_run_keeps_is_not_in_the_model_afterwards_nor_while_inputs_are_looked_for(given):
    model = Recurrent()
    before, seen = dict(vars(model)), []

    def find(graph):
        seen.append(({**vars(model)}, model(torch.randn(1, 3, 8)).shape, len(graph.nodes)))
        model.size, model.state = before["size"], before["state"]
        return (torch.randn(1, 3, 8),), {}

    diagnosis = diagnose(model, torch.randn(1, 3, 8) if given else find)
    assert diagnosis.reached_end
    assert {"state", "scale"} <= {str(node.target) for node in diagnosis.graph.nodes}
    assert dict(vars(model)) == before
    if not given:
        ((state, shape, nodes),) = seen
        assert {name: state[name] for name in before} == before
        assert (shape, nodes > 2) == ((1, 8), True)

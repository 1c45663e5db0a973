"""Values that outlive a diagnosis: another one of the same model finds the same with them, and nothing stale."""

import sys

import pytest
import torch
from torch import nn

from fxengine import wrap
from fxengine.exploration import Memory, diagnose_in_steps
from fxengine.exploration.values import Values

EVALUATED = Values._evaluated
INPUTS = (torch.zeros(2, 4),)


def doubled(x):
    return [x, x]


def tripled(x):
    return [x, x, x]


@wrap
def split(x):
    return doubled(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 6)
        self.register_buffer("offset", torch.zeros(6))

    def forward(self, x):
        x = self.layer(x) + self.offset
        rows, columns = x.shape
        return [each.relu() for each in x.reshape(columns // rows, -1)]


@pytest.fixture
def evaluated(monkeypatch):
    """The nodes whose values were computed."""
    found: list[str] = []

    def noted(values, node, read, arguments):
        found.append(node.name)
        return EVALUATED(values, node, read, arguments)

    monkeypatch.setattr(Values, "_evaluated", noted)
    return found


def nodes(model, memory, inputs=INPUTS):
    return [node.name for node in next(diagnose_in_steps(model, (inputs, {}), memory=memory)).graph.nodes]


def settled(model, inputs=INPUTS, replaceable=()):
    memory = Memory(replaceable)
    first = nodes(model, memory, inputs)
    memory.settle()
    return memory, first


def test_what_was_found_is_not_computed_again(evaluated):
    model = Net()
    memory, first = settled(model)
    assert {"layer", "add", "reshape"} <= set(evaluated)
    assert sum(name.startswith("relu") for name in first) == 3
    evaluated.clear()
    assert nodes(model, memory) == first
    assert evaluated == []


def test_other_inputs_have_other_values():
    model = Net()
    memory, _ = settled(model)
    for width in (3, 5):
        found = nodes(model, memory, (torch.zeros(width, 4),))
        assert found == nodes(model, None, (torch.zeros(width, 4),))


class Wide(nn.Module):
    """As many items as its layer makes of them."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 4, 1)

    def forward(self, x):
        return [each + 1 for each in self.conv(x).transpose(0, 2)]


def test_a_layer_that_was_set_to_something_else_is_asked_again():
    model = Wide()
    inputs = (torch.zeros(1, 3, 8),)
    memory, first = settled(model, inputs)
    assert sum(name.startswith("add") for name in first) == 8
    model.conv.stride = (2,)
    assert sum(name.startswith("add") for name in nodes(model, memory, inputs)) == 4


def test_a_layer_in_the_place_of_another_is_asked_for_its_own():
    model = Wide()
    inputs = (torch.zeros(1, 3, 8),)
    memory, _ = settled(model, inputs)
    model.conv = nn.Conv1d(3, 4, 3)
    assert sum(name.startswith("add") for name in nodes(model, memory, inputs)) == 6


class Typed(nn.Module):
    def forward(self, x):
        steps = torch.arange(x.size(0)) / 2
        return x + 1 if steps.dtype == torch.float32 else x * 2


def test_what_torch_is_set_to_counts():
    model = Typed()
    memory, first = settled(model)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        found, afresh = nodes(model, memory), nodes(model, None)
    finally:
        torch.set_default_dtype(before)
    assert found == afresh != first


class Splitting(nn.Module):
    def forward(self, x):
        return [each.relu() for each in split(x)]


@pytest.mark.parametrize(("replaceable", "expected"), [((), 2), ((__file__,), 3)])
def test_what_ran_code_that_may_be_replaced_is_not_kept(monkeypatch, replaceable, expected):
    model = Splitting()
    memory, first = settled(model, replaceable=replaceable)
    assert sum(name.startswith("relu") for name in first) == 2
    monkeypatch.setattr(doubled, "__code__", tripled.__code__)
    assert sum(name.startswith("relu") for name in nodes(model, memory)) == expected


class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.layer.register_forward_hook(lambda _module, _args, output: cut(output))

    def forward(self, x):
        return [each.relu() for each in self.layer(x)]


def cut(x):
    return x[:1]


def uncut(x):
    return x


def test_the_hooks_of_a_layer_are_code_that_may_be_replaced(monkeypatch):
    model = Hooked()
    inputs = (torch.zeros(5, 4),)
    memory, first = settled(model, inputs, (__file__,))
    assert sum(name.startswith("relu") for name in first) == 1
    monkeypatch.setattr(cut, "__code__", uncut.__code__)
    assert sum(name.startswith("relu") for name in nodes(model, memory, inputs)) == 5


def test_who_watches_is_not_noticed():
    seen: list[str] = []

    def mine(frame, _event, _argument):
        seen.append(frame.f_code.co_name)

    sys.setprofile(mine)
    try:
        settled(Splitting(), replaceable=(__file__,))
        assert sys.getprofile() is mine
    finally:
        sys.setprofile(None)
    assert "forward" in seen

"""Sizes and numbers that only data can tell are values of the graph, as long as nothing is decided by them."""

import copy
import itertools
import subprocess
import sys

import pytest
import torch
from torch import nn

import fxengine
from tests.support.capturing import captured, targets

X = torch.randn(6, 4)


class Loops(nn.Module):
    """A graph's convolution: edges from a node to itself are taken out, and added anew for all nodes."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x, edges, weights):
        others = edges[0] != edges[1]
        edges, weights = edges[:, others], weights[others]
        loops = torch.arange(x.size(0), device=x.device)
        edges = torch.cat([edges, torch.stack([loops, loops])], dim=1)
        weights = torch.cat([weights, weights.new_ones(x.size(0))])
        source, target = edges
        degrees = torch.zeros(x.size(0)).scatter_add_(0, target, torch.ones(edges.size(1)))
        messages = self.linear(x)[source] * (weights / degrees[source]).view(-1, 1)
        return messages.new_zeros(x.size(0), messages.size(-1)).index_add_(0, target, messages)


class Experts(nn.Module):
    """Each expert sees the rows that are its."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 3)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Dropout(0.0), nn.Linear(8, 4))
            for _ in range(3)
        )

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(2)
        result = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows, places = torch.where(chosen == number)
            result[rows] += weights[rows, places, None] * expert(x[rows])
        return result


def _sizes(x):
    y = x[x > 0]
    z = x.relu()[x > 0]
    return (y + z).reshape(y.shape[0], 1), torch.zeros(2 * y.numel() + 1, y.size(0) // 2), torch.cat([y, z]).shape[0]


def _numbers(x):
    count = (x > 0).sum().item()
    return x * count, torch.arange(count), torch.arange(2, (x > 0).sum() + 3), x.sum().item() * 2.0, -count % 3


def _lists(x):
    first, second = (x > 0).sum(0)[:2].tolist()
    return torch.full((first, second), 1.5), [x[:first], x[second:]]


def _selections(x):
    values, inverse = torch.unique(x.round(), return_inverse=True)
    return x.nonzero(), torch.argwhere(x), x.masked_select(x < 0), values[inverse], torch.where(x > 0)[0]


def _repeated(x):
    return x.repeat_interleave((x[:, 0] > 0).long() + 1, dim=0).sum(0)


@pytest.mark.parametrize("model", [_sizes, _numbers, _lists, _selections, _repeated, Experts()])
def test_what_data_select_goes_on_as_a_value_of_the_graph(model):
    found = captured(model, X)

    assert found.rest is None
    for _ in range(5):
        x = torch.randn(6, 4)
        torch.testing.assert_close(found.graph_module(x), model(x))


def test_edges_of_graphs_may_be_selected():
    edges, weights = torch.tensor([[0, 1, 2, 3, 3], [1, 1, 0, 2, 5]]), torch.rand(5)

    found = captured(Loops(), X, edges, weights)

    names = targets(found)
    assert names.count("size") == 1
    assert "clone" not in names


def test_what_is_decided_by_such_a_number_is_told_on_its_line():
    def decide(x):
        y = x[x > 0]
        y = y * y.numel()
        if y.numel() > 3:
            return y
        return -y

    found = fxengine.capture(decide, X)

    (problem,) = found.problems
    assert isinstance(problem.exception, fxengine.capturing.DataDependent)
    assert problem.site.text == "y.numel() > 3"
    assert found.rest is not None
    torch.testing.assert_close(found.graph_module(X), decide(X))


@pytest.mark.parametrize(
    "decide",
    [
        lambda x: x[: int(x[x > 0].shape[0])],
        lambda x: x * len(x[x > 0]),
        lambda x: x[(x > 9).sum().item()],
        lambda x: next(row * 2 for row in x[x > 0]),
        lambda x: {3: x}.get(x[x > 0].shape[0], -x),
        lambda x: torch.stack([x + n for n in range((x > -9).sum().item())]),
        lambda x: x * float(f"{x[x > 0].sum().item():.2f}"),
        lambda x: x * sum(one == other for one, other in itertools.pairwise((x > 0).flatten().tolist())),
    ],
)
def test_python_that_wants_such_a_number_gets_the_rest_of_the_run(decide):
    found = fxengine.capture(decide, X)

    assert [type(problem.exception).__name__ for problem in found.problems] == ["DataDependent"]
    torch.testing.assert_close(found.graph_module(X), decide(X))


def test_what_is_assumed_of_such_numbers_is_asserted():
    def f(x):
        return x[x > 0] + x[x > 1]

    found = fxengine.capture(f, X)

    assert found.problems == ()
    ones = torch.full((6, 4), 2.0)
    torch.testing.assert_close(found.graph_module(ones), f(ones))
    with pytest.raises((AssertionError, RuntimeError)):
        found.graph_module(torch.tensor([[0.5, 0.7, 2.0, 3.0]] * 6))


def test_a_mask_that_was_changed_selects_otherwise():
    def f(x):
        mask = x > 0
        first = x[mask]
        mask[0] = False
        mask[x > 1] = False
        second = x[mask]
        return first.shape[0] - second.shape[0], torch.zeros(second.shape[0]), first.sum() * second.sum()

    captured(f, X)


def test_such_numbers_say_where_they_come_from():
    def f(x):
        y = x[x > 0]
        return torch.zeros(y.shape[0] * 2 + 1)

    found = captured(f, X)

    lines = {str(node): node.origin.frames[-1].line for node in found.graph.nodes if node.op == "call_function"}
    assert lines["mul"] == lines["zeros"] == lines["getitem"] + 1


@pytest.mark.parametrize(
    ("captures", "loaded", "problems"),
    [
        ("capture(torch.nn.ReLU(), x)", "False", "0"),
        ("capture(lambda x: x[x > 0], x, may_load=False)", "False", "1"),
        ("capture(lambda x: x[x > 0], x)", "True", "0"),
        ("capture(lambda x: x[x > 0], x); found = capture(lambda x: x.nonzero(), x, may_load=False)", "True", "0"),
    ],
)
def test_what_such_numbers_need_is_loaded_for_them_only(captures, loaded, problems):
    code = f"""
import sys, torch
from fxengine import capture
x = torch.ones(2)
found = {captures}
print("torch._dynamo" in sys.modules, len(found.problems))
"""

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert said.split() == [loaded, problems]


def test_a_constant_says_where_a_slice_of_what_data_selects_begins():
    def f(x):
        half = torch.tensor([2])[0]
        rows = x[x.sum(1) > -100]
        return rows[:, :half] * rows[:, half:]

    assert fxengine.capture(f, torch.randn(3, 4)).problems == ()
    captured(f, torch.randn(3, 4))


class Steps(nn.Module):
    """Has a row for each step, and keeps what it makes of the one that it is given."""

    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.randn(9, 4))
        self.register_buffer("kept", torch.zeros(9, 4))

    def forward(self, x, step):
        x = x + self.rows[step]
        x[:, step[()]] *= 2
        self.kept[step] = x[0]
        return x, self.kept


def test_one_number_among_the_inputs_takes_a_part_whichever_it_is():
    net = Steps()
    found = fxengine.capture(copy.deepcopy(net), (X, torch.tensor(3)))

    assert not found.problems
    assert not found.guards
    for step in (1, 3, 0):
        torch.testing.assert_close(found.graph_module(X, torch.tensor(step)), net(X, torch.tensor(step)))

"""Models that no trace gets through, captured with their inputs; shapes that do not fit, with where they come from."""

import sys

from tests.worker.harness import marked, of, only_problem

WINDOWS = """import torch
from torch import nn


class Windows(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        rows = [self.fc(row) for row in x]
        if x.shape[1] > 2:
            rows.append(rows[0])
        return torch.stack(rows)


if __name__ == "__main__":
    Windows()(torch.randn(3, 4))
"""

MISFIT = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(32, 2)

    def forward(self, x):
        return self.second(self.first(x).relu())


if __name__ == "__main__":
    Net()(torch.randn(3, 8))
"""


def test_a_model_that_no_trace_gets_through_is_captured_with_its_inputs(worker, model):
    net = of(worker.trace(model(WINDOWS)), "Windows")

    assert net.captured
    assert net.status == "partial"
    assert {(problem.code, problem.severity, problem.value) for problem in net.problems} == {
        ("FX001", "warning", "True"),
        ("FX003", "error", "3 items"),
    }
    guards = {guard.expression: (guard.value, guard.location) for guard in net.guards}
    assert guards["x.shape[0]"][0] == "3"
    # From CPython 3.13 on what a comprehension goes through has a place.
    site = "x" if sys.version_info >= (3, 13) else "[self.fc(row) for row in x]"
    assert marked(WINDOWS, guards["x.shape[0]"][1]) == site


def test_a_model_that_traces_needs_no_capture(worker, model):
    net = of(worker.trace(model(MISFIT.replace("32", "16"))), "Net")

    assert net.status == "complete"
    assert not net.captured


def test_shapes_that_do_not_fit_are_told_with_where_each_size_comes_from(worker, model):
    problem = only_problem(worker.trace(model(MISFIT)))

    assert problem.code == "FX201"
    assert marked(MISFIT, problem.location) == "self.second(self.first(x).relu())"
    assert problem.explanation.endswith(
        "16 is the output of `self.first = nn.Linear(8, 16)` (line 8); "
        "32 is in_features of `self.second = nn.Linear(32, 2)` (line 9)"
    )
    related = {marked(MISFIT, each.location): each.message for each in problem.related}
    assert related["self.second = nn.Linear(32, 2)"] == "32 is in_features of `self.second = nn.Linear(32, 2)`"
    assert related["self.first = nn.Linear(8, 16)"] == "16 is the output of `self.first = nn.Linear(8, 16)`"

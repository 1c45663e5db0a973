"""A request whose time is over: what was known by then is told, and the next one goes on with what was left."""

import sys

import pytest

from fxls.discovery import discover
from fxworker import tracing
from fxworker.loading import Document
from fxworker.never import Search
from fxworker.patience import OutOfPatience
from fxworker.wire import Limits, TraceRequest
from tests.worker.harness import all_problems, of

NET = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(7, 3)

    def forward(self, x):
        return self.layer(x)


class Sized(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""
STUCK = """\
from torch import nn


class {name}(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(7, 3)

    def forward(self, x):
        if type(x).__name__ != "Proxy":
            sum(range(10**12))
        return self.layer(x)
"""
THREE = "".join(STUCK.format(name=name) for name in ("First", "Second", "Third"))


UNFIT = """\
from torch import nn


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Linear(8, width), nn.Linear(width + 1, 8)

    def forward(self, x):
        return self.second(self.first(x))
"""


@pytest.fixture(params=[NET])
def traced(model, request):
    text = request.param
    path = str(model(text, "late_net.py"))
    asked = TraceRequest(1, path, text, discover(path, text).targets)
    document = Document.of(asked)
    document.enter(asked)
    yield lambda: tracing.trace(asked, document, lambda _index, _guess: None)
    sys.modules.pop(document.name, None)


def test_what_there_was_no_time_for_is_said_and_done_the_next_time(traced, monkeypatch):
    with monkeypatch.context() as hurried:
        hurried.setattr(tracing, "_GUESSING", 0.0)
        report = traced()
    fed = traced()

    assert of(report, "Net").status == "complete"
    assert of(report, "Net").inputs is None
    (problem,) = report.problems
    assert (problem.code, problem.severity) == ("FX104", "information")
    assert problem.message.startswith("`Net`: no time was left to look for inputs")
    (unbuilt,) = of(report, "Sized").problems
    assert unbuilt.code == "FX103"
    assert "no time was left to look for arguments" in unbuilt.explanation
    assert (report.unfinished, fed.unfinished) == (True, False)
    assert fed.problems == ()
    assert of(fed, "Net").inputs is not None
    assert of(fed, "Sized").status == "complete"


def test_what_is_remembered_is_not_forgotten_for_want_of_time(traced, monkeypatch):
    first = traced()
    with monkeypatch.context() as hurried:
        hurried.setattr(tracing, "_GUESSING", 0.0)
        traced()
    again = traced()

    for name in ("Net", "Sized"):
        assert of(again, name).inputs == of(first, name).inputs
        assert of(again, name).construct == of(first, name).construct


def test_models_whose_guesses_hang_one_after_the_other_are_told_all_the_same(worker, model):
    report = worker.trace(model(THREE), limits=Limits(seconds=4.0))

    assert {each.qualname: each.status for each in report.targets} == dict.fromkeys(
        ("First", "Second", "Third"), "complete"
    )
    assert {each.code for each in all_problems(report)} == {"FX104"}
    assert {each.severity for each in all_problems(report)} == {"information"}


@pytest.mark.parametrize("traced", [UNFIT], indirect=True)
def test_a_search_in_vain_is_told_even_if_no_time_is_left_to_find_out_why(traced, monkeypatch):
    def out_of_patience(_search):
        raise OutOfPatience

    monkeypatch.setattr(Search, "hopeless", out_of_patience)
    (problem,) = all_problems(traced())
    assert (problem.code, "self.second(self.first(x))" in problem.explanation) == ("FX202", True)

"""Fixes of slips: what is proposed for a constructor that fails, and when it holds."""

import asyncio
from dataclasses import replace

import pytest

from fxls.discovery import discover
from fxls.fixes.proposing import proposals
from fxls.fixes.source import Source
from fxls.fixes.verifying import changed, with_fixes
from fxls.text.mapper import Mapper
from fxworker.texts import digest
from fxworker.wire import Location, Problem, Slip, Span, TargetReport, TraceReport
from tests.support.snapshots import PATH

BUILT = """from torch import nn


class Net(nn.Module):
    def __init__(self, dim):
        {}
        self.fc = {}

    def forward({}, x):
        return self.fc(x)
"""
FIRST = "super().__init__()\n        "
BASE = "AttributeError: cannot assign module before Module.__init__() call"


@pytest.mark.parametrize(
    ("before", "original", "meant", "after"),
    [
        (
            ("self.dim = dim", "nn.Linear(4, 4)", "self"),
            BASE,
            "",
            (f"{FIRST}self.dim = dim", "nn.Linear(4, 4)", "self"),
        ),
        (
            ('"""A net."""', "nn.Linear(4, 4)", "self"),
            BASE,
            "",
            ('"""A net."""\n        super().__init__()', "nn.Linear(4, 4)", "self"),
        ),
        (
            ("self.a = dim\n        super().__init__()", "nn.Linear(4, 4)", "self"),
            BASE,
            "",
            ("super().__init__()\n        self.a = dim", "nn.Linear(4, 4)", "self"),
        ),
        (("super().__init__", "nn.Linear(4, 4)", "self"), BASE, "", ("super().__init__()", "nn.Linear(4, 4)", "self")),
        (
            ("super(Net).__init__()", "nn.Linear(4, 4)", "self"),
            BASE,
            "",
            ("super().__init__()", "nn.Linear(4, 4)", "self"),
        ),
        (
            ("super(Net).__init__(dim, 3, bias=False)", "nn.Linear(4, 4)", "self"),
            "TypeError: super() takes no keyword arguments",
            "",
            ("super().__init__(dim, 3, bias=False)", "nn.Linear(4, 4)", "self"),
        ),
        (
            ("super().__init__()", "nn.Sequential([dim])", "self"),
            "TypeError: list is not a Module subclass",
            "",
            ("super().__init__()", "nn.Sequential(*[dim])", "self"),
        ),
        (
            ("super().__init__()", "nn.Sequential(nn.ReLU)", "self"),
            "TypeError: torch.nn.modules.activation.ReLU is not a Module subclass",
            "",
            ("super().__init__()", "nn.Sequential(nn.ReLU())", "self"),
        ),
        (
            ("super().__init__()", "nn.linear", "self"),
            "",
            "nn.Linear",
            ("super().__init__()", "nn.Linear", "self"),
        ),
    ],
)
def test_proposals_for_what_is_not_built(before, original, meant, after):
    text = BUILT.format(*before)
    call = text.index(before[1])
    mapper = Mapper(text)
    span = Span(*mapper.at_offset(call), *mapper.at_offset(call + len(before[1])))
    slip = Slip("name", meant) if meant else None
    problem = Problem("FX102", "error", "cannot be built", Location(PATH, span), original=original, slip=slip)
    source = Source.of(PATH, text)
    assert source is not None
    assert [changed(source.mapper, each)[0] for each in proposals(source, problem)] == [BUILT.format(*after)]


def test_a_method_gets_the_parameter_self():
    text = BUILT.format("super().__init__()", "nn.ReLU()", "self").replace("forward(self, ", "forward(")
    problem = Problem("FX009", "error", "no `self`", Location(PATH, Span(9, 8, 9, 15)), slip=Slip("self"))
    source = Source.of(PATH, text)
    assert source is not None
    (found,) = proposals(source, problem)
    assert changed(source.mapper, found)[0] == BUILT.format("super().__init__()", "nn.ReLU()", "self")


@pytest.mark.parametrize(
    ("code", "line", "holds"),
    [("FX001", 10, True), ("FX201", 10, True), ("FX102", 8, False), ("FX201", 6, False)],
    ids=["of the trace", "of shapes", "the same once more", "on the line of the fix"],
)
def test_a_model_that_is_built_may_show_what_else_is_wrong_with_it(code, line, holds):
    text = BUILT.format("self.dim = dim", "nn.Linear(4, 4)", "self")
    unbuilt = Problem("FX102", "error", "no", Location(PATH, Span(7, 8, 7, 15)), original=BASE, target="Net")
    behind = replace(unbuilt, code=code, location=Location(PATH, Span(line, 8, line, 9)))

    def report(of: str, problem: Problem) -> TraceReport:
        target = TargetReport("Net", "class", Span(4, 6, 4, 9), "partial", problems=(problem,))
        return TraceReport(1, PATH, digest(of), "partial", (target,))

    async def trial(changed_text: str):
        return discover(PATH, changed_text), report(changed_text, behind)

    made = asyncio.run(with_fixes(report(text, unbuilt), text, trial))
    (problem,) = made.targets[0].problems
    assert [each.verified for each in problem.fixes] == [True] * holds

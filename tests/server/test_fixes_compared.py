"""Fixes that hold when they are traced, compared in numbers with what they change."""

import asyncio
import textwrap
from dataclasses import replace

import pytest

from fxls.discovery import discover
from fxls.fixes.comparing import compared
from fxls.fixes.verifying import with_fixes
from fxworker.texts import digest
from fxworker.wire import (
    MET,
    Construct,
    Digest,
    Inputs,
    Location,
    ModuleFacts,
    Problem,
    Sample,
    Span,
    TargetReport,
    TraceReport,
)
from tests.support.snapshots import PATH

TEXT = textwrap.dedent("""\
    import torch
    from torch import nn


    class Net(nn.Module):
        def forward(self, x):
            if x.max() > 1 and x.min() < 0:
                x = x / 2
            return x
    """)
WHOLE = Span(7, 11, 7, 38)
FIRST = Span(7, 11, 7, 22)
FACTS = ModuleFacts("Net", 10, 40, 100)


def problem(span: Span) -> Problem:
    return Problem("FX001", "error", "a branch", Location(PATH, span), target="Net", kind="data-dependent")


def report(*problems: Problem, **changes) -> TraceReport:
    target = TargetReport(
        "Net",
        "class",
        Span(5, 6, 5, 9),
        "partial",
        Construct("Net()", "no arguments"),
        Inputs("torch.randn(2)", "inferred"),
        FACTS,
        problems=problems,
    )
    return TraceReport(1, PATH, digest(TEXT), "partial", (replace(target, **changes),))


def given(value: float, *met: str, variant: str = "given") -> Sample:
    return Sample(variant, (Digest("", "torch.float32 [1]", (1.0, value, abs(value), value)),), (), met)


def offered(before: TraceReport, *answers: tuple[Sample, ...]) -> tuple[list[tuple[str, str]], list[str]]:
    """The fixes with what they prove, where each run of a text gives the next samples; and the texts that were run."""
    waiting, texts = list(answers), []

    async def trial(text: str):
        return discover(PATH, text), report()

    async def sampler(text: str, targets):
        texts.append(text)
        (target,) = targets
        assert (target.constructs, target.inputs) == (
            (Construct("Net()", "no arguments"),),
            (Inputs("torch.randn(2)", "inferred"),),
        )
        return report(samples=waiting.pop(0))

    made = asyncio.run(with_fixes(before, TEXT, trial, sampler))
    return [(fix.title, fix.proof) for fix in made.targets[0].problems[0].fixes], texts


def test_the_text_is_run_once_with_its_conditions_noted_and_then_each_change():
    same = (given(1.0, "0 True", "1 True"),)
    fixes, texts = offered(report(problem(WHOLE), problem(FIRST)), *[same] * 9)
    assert f"if {MET}(0, {MET}(1, x.max() > 1) and x.min() < 0):" in texts[0]
    assert sum(MET in each for each in texts) == 1
    assert fixes[0][1] == "traces; same outputs on 1 input, only True met"


def test_a_change_after_which_the_outputs_differ_is_not_offered():
    fixes, texts = offered(report(problem(WHOLE)), (given(1.0),), (given(2.0),), (given(1.0 + 1e-6),))
    assert [title[:4] for title, _ in fixes] == ["Move"]
    assert len(texts) == 3


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"inputs": None}, "no inputs are known"),
        ({"facts": replace(FACTS, parameters=10**9)}, "the model is too large for that"),
        ({"facts": replace(FACTS, flops=10**12)}, "the model is too large for that"),
    ],
)
def test_what_cannot_be_run_is_offered_and_says_that_numbers_are_not_compared(changes, reason):
    fixes, texts = offered(report(problem(WHOLE), **changes))
    assert texts == []
    assert {proof for _, proof in fixes} == {f"traces; numbers are not compared: {reason}"}


def test_outcomes_are_those_of_the_inputs_that_were_compared():
    before = (given(1.0, "0 True"), given(2.0, "0 False", variant="zero"), Sample("small", error="ValueError: no"))
    assert compared(before, before, 0).proof == "traces; same outputs on 2 inputs, both outcomes met"
    assert compared(before[:1], before, 0).proof == "traces; same outputs on 1 input, only True met"
    assert not compared(before, (before[0], Sample("zero", error="ValueError: no")), 0).holds
    assert compared(before[2:], before).proof.endswith("the model itself raises ValueError: no")
    assert compared((), before).proof.endswith("the model could not be run in time")


def test_halves_are_compared_as_such():
    def half(value: float) -> tuple[Sample, ...]:
        return (Sample("given", (Digest("", "torch.float16 [1]", (1.0, value, value)),)),)

    assert compared(half(1.0), half(1.005)).holds
    assert not compared(half(1.0), half(1.1)).holds

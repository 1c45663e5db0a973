"""Models run on variants of their inputs, before and after a change of their text."""

from dataclasses import replace

import pytest

from fxls.fixes.comparing import compared
from fxworker.wire import MET, Construct, Inputs, Sample, Span, TraceTarget
from tests.worker.harness import of

NET = """import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.fc = nn.Linear(dim, 4)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        y = self.norm(self.fc(x))
        return {"out": y, "top": y.max()}
"""

TARGET = TraceTarget(
    "Net", "class", Span(6, 6, 6, 9), (Construct("Net()", "directive"),), (Inputs("torch.randn(3, 8)", "directive"),)
)


@pytest.fixture
def samples(worker, model):
    def run(text: str, target: TraceTarget = TARGET) -> dict[str, Sample]:
        request = replace(worker.request(model(text), text, targets=(target,)), sample=True)
        worker.send(request)
        return {each.variant: each for each in of(worker.receive(), "Net").samples}

    return run


def test_a_model_is_run_on_variants_of_its_inputs(samples):
    found = samples(NET)
    assert list(found) == ["given", "scaled", "small", "zero", "twice the batch", "training", "another seed"]
    assert not any(each.error for each in found.values())
    assert [(each.name, each.form) for each in found["given"].outputs] == [
        ("['out']", "torch.float32 [3, 4]"),
        ("['top']", "torch.float32 []"),
    ]
    assert found["twice the batch"].outputs[0].form == "torch.float32 [6, 4]"
    assert found["given"].outputs == found["another seed"].outputs
    assert found["given"].outputs != found["zero"].outputs
    names = [each.name for each in found["given"].left]
    assert "buffer norm.running_mean" in names
    left = {variant: {each.name: each for each in found[variant].left} for variant in ("given", "training")}
    assert left["given"]["buffer norm.running_mean"] != left["training"]["buffer norm.running_mean"]


def test_values_do_not_depend_on_what_else_is_drawn(samples):
    other = NET.replace("        self.fc =", "        self.noise = torch.randn(5)\n        self.fc =")
    assert samples(NET)["given"].outputs == samples(other)["given"].outputs


def test_nothing_is_hidden_by_layers_that_begin_with_zeros(samples):
    text = NET.replace("        self.norm", "        nn.init.zeros_(self.fc.weight)\n        self.norm")
    assert all(samples(text)["given"].outputs[0].numbers[2:4])


def test_outcomes_of_conditions_are_noted(samples):
    text = NET.replace("        return", f"        if {MET}(3, y.max() > 0.5):\n            y = -y\n        return")
    met = {outcome for each in samples(text).values() for outcome in each.met}
    assert met == {"3 True", "3 False"}


def test_what_a_model_raises_is_an_answer(samples):
    found = samples(NET.replace("        return", "        assert x.shape[0] == 3, 'three'\n        return"))
    assert found["twice the batch"].error == "AssertionError: three"
    assert not found["given"].error


def test_what_cannot_be_built_or_fed_has_no_samples_or_says_why(samples):
    assert samples(NET.replace("super().__init__()", "raise ValueError(dim)")) == {}
    (complaint,) = {each.error for each in samples(NET, replace(TARGET, inputs=(Inputs("1 / 0", "call"),))).values()}
    assert complaint == "ZeroDivisionError: division by zero"


@pytest.mark.parametrize(
    ("before", "after", "holds", "proof"),
    [
        ("y.max()", "torch.amax(y)", True, "traces; same outputs on 5 inputs"),
        ("y.max()", "y.min()", False, "the changed model gives other outputs"),
        ("y.max()", "y.max(0)[0]", False, "the changed model gives other outputs"),
        ("y.max()", "y.max(7)", False, "the changed model raises IndexError: Dimension out of range"),
        ("F.dropout(y)", "F.dropout(F.relu(y))", True, "traces; numbers are not compared: they are random"),
        (
            "x.mul_(2)",
            "x * 2",
            True,
            "traces; same outputs on 5 inputs, but an argument is left with other values",
        ),
        ("y.nothing()", "y.max()", True, "traces; numbers are not compared: the model itself raises AttributeError"),
    ],
)
def test_two_texts_are_compared(samples, before, after, holds, proof):
    one, other = (tuple(samples(NET.replace("y.max()", each)).values()) for each in (before, after))
    verdict = compared(one, other)
    assert verdict.holds is holds
    assert verdict.proof.startswith(proof)

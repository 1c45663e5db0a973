"""What is told in words of a problem: the operand that is meant, what mends it, and how sure it is."""

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from fxworker.wire import Problem
from tests.worker.harness import Worker, marked, of

HEAD = """import numpy as np
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width=None):
        super().__init__()
        self.p = 0.5
        self.step = np.prod([2, 2])
        self.fc = nn.Linear(8, 8)
        if width is not None:
            self.context = nn.Linear(width, 8)

"""


def told(
    worker: Worker, model: Callable[..., Path], forward: str, code: str, head: str = HEAD
) -> list[tuple[str, Problem]]:
    """What is told of a model with such a forward under a code, with the text at each place."""
    text = head + textwrap.indent(textwrap.dedent(forward).strip() + "\n", "    ")
    problems = of(worker.trace(model(text)), "Net").problems
    return [(marked(text, each.location), each) for each in problems if each.code == code]


def test_the_last_of_several_operands_is_the_one_that_is_asked(worker, model):
    forward = """
    def forward(self, x, force=False):
        if not self.training or self.p == 0.0 or force:
            return x
        return self.fc(x)
    """
    assert [place for place, _ in told(worker, model, forward, "FX001")] == ["force"]


@pytest.mark.parametrize(
    ("test", "headline", "hint"),
    [
        ("not (flag and self.p)", "decides whether an assertion holds", "concrete_args"),
        ("flag or self.p", "decides whether an assertion holds", "concrete_args"),
        ("self.p and flag", "is asserted", "concrete_args"),
        ("x.sum() > 0 and self.p", "is asserted", "torch._assert(x.sum() > 0, message)"),
        ("not x.sum() > 0", "decides whether an assertion holds", "torch.where"),
    ],
)
def test_only_what_has_to_hold_is_said_to_be_asserted(test, headline, hint, worker, model):
    forward = f"""
    def forward(self, x, flag=False):
        assert {test}
        return self.fc(x)
    """
    ((_, problem),) = told(worker, model, forward, "FX001")
    assert headline in problem.message
    assert hint in problem.hint.splitlines()[0]


def test_an_assertion_that_fails_for_the_inputs_is_one_problem(worker, model):
    forward = """
    def forward(self, x, rate=None):
        if rate is None:
            rate = self.p
        assert rate == self.p, f"{rate}"
        return self.fc(x)
    """
    assert [place for place, _ in told(worker, model, forward, "FX001")] == ["rate == self.p"]
    assert not told(worker, model, forward, "FX009")


def test_what_an_optional_input_leads_to_is_said(worker, model):
    forward = """
    def forward(self, x, context=None):
        x = self.fc(x)
        if context is not None:
            x = x + self.context(context)
        return x
    """
    ((place, problem),) = told(worker, model, forward, "FX009")
    assert place == "self.context"
    assert 'concrete_args={"context": None}' in problem.hint
    given = forward.replace("context=None", "context")
    assert all("concrete_args" not in each.hint for _, each in told(worker, model, given, "FX009"))


@pytest.mark.parametrize(
    ("body", "code", "hint"),
    [
        ("b, d, device = *x.shape, x.device\n    y = 1 if d > 4 else 2", "FX001", "shapes"),
        ("y = torch.tanh(x)\n    n = len(y.shape)", "FX002", "`y.ndim`"),
        ("y = torch.tanh(x)\n    n = len(y)", "FX002", "`y.shape[0]`"),
        ("n = x.shape[0] / self.step", "FX008", "`int(…)`"),
        ("y = torch.zeros_like(x)\n    y[..., 0] = 1", "FX005", "select_scatter"),
    ],
)
def test_words_are_those_of_the_code(body, code, hint, worker, model):
    forward = f"def forward(self, x):\n    {body}\n    return self.fc(x)\n"
    ((_, problem),) = told(worker, model, forward, code)
    assert hint in f"{problem.message} {problem.hint}"


def test_a_shape_that_only_guessed_inputs_have_is_doubted(worker, model):
    forward = """
    def forward(self, x):
        if not self.training:
            return x
        b, n, d, device = *x.shape, x.device
        return self.fc(x) + torch.arange(n, device=device).sum()
    """
    problems = told(worker, model, forward, "FX009")
    assert all(each.severity == "warning" and "inferred" in each.explanation for _, each in problems)


def test_what_is_left_to_subclasses_is_no_error(worker, model):
    forward = """
    def compute(self, x):
        \"\"\"Compute it.\"\"\"
        raise NotImplementedError("for others")

    def forward(self, x):
        return self.compute(x)
    """
    ((_, problem),) = told(worker, model, forward, "FX009")
    assert problem.severity == "information"
    said = HEAD.replace("class Net", "# fx: Net()\nclass Net")
    ((_, problem),) = told(worker, model, forward, "FX009", said)
    assert problem.severity == "error"

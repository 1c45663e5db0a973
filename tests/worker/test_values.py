"""Models whose traces ask for the values of their own tensors: these are known when a model is built for real."""

from collections.abc import Callable
from pathlib import Path

from tests.worker.harness import Worker, of

Write = Callable[..., Path]

COUNTING = """import torch
from torch import nn


class Book(nn.Module):
    def __init__(self, size=64):
        super().__init__()
        self.register_buffer("seen", torch.zeros(size))
        self.fc = nn.Linear(8, size)

    def forward(self, x):
        if torch.any(self.seen < 2):
            x = x * 2
        return self.fc(x)
"""


def test_a_branch_on_what_a_buffer_holds_is_decided_by_that(worker: Worker, model: Write) -> None:
    book = of(worker.trace(model(COUNTING)), "Book")
    assert (book.status, book.problems) == ("complete", ())
    assert [each.name for each in book.nodes] == ["x", "mul", "fc", "output"]
    assert book.nodes[2].tensor is not None
    assert book.nodes[2].tensor.shape == (2, 64)


def test_a_model_that_cannot_be_built_for_real_says_what_its_trace_asked_for(
    worker: Worker, model: Callable[..., Path]
) -> None:
    huge = COUNTING.replace("size=64", "size=1 << 40")
    (problem,) = of(worker.trace(model(huge)), "Book").problems
    assert problem.code == "FX009"

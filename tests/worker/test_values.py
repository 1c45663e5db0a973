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


REMEMBERING = """import functools

import torch
from torch import nn


@functools.lru_cache(maxsize=None)
def basis(size):
    return torch.eye(size) * torch.ones(size).cumsum(0)


@functools.lru_cache(maxsize=None)
def scaled(size):
    found = basis(size) / basis(size).norm()
    assert torch.all(found >= 0)
    return found


class Turned(nn.Module):
    def __init__(self, size=8):
        super().__init__()
        for each in (2, size):
            self.register_buffer(f"turn{each}", scaled(each))
        self.keep = nn.Buffer(torch.randn(size), persistent=False) if hasattr(nn, "Buffer") else None

    def forward(self, x):
        return x @ self.turn8
"""


def test_what_functions_remember_of_a_model_without_values_does_not_hinder_one_with_them(
    worker: Worker, model: Write
) -> None:
    turned = of(worker.trace(model(REMEMBERING)), "Turned")
    assert (turned.status, turned.problems) == ("complete", ())
    assert turned.inputs is not None

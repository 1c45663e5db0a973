"""Mistakes that sizes hide which are the same by chance: those of made-up arguments, and those of inputs."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from fxworker.callers import is_constructing
from tests.worker.harness import Worker, marked, of

BLOCK = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(out_channels)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)))
"""

GATED = """from torch import nn


class Net(nn.Module):
    def __init__(self, dim, hidden_dim):
        super().__init__()
        self.value = nn.Linear(dim, hidden_dim)
        self.gate = nn.Linear(dim, hidden_dim)
        self.out = nn.Linear(hidden_dim, dim)

    def forward(self, x):
        return self.out(self.value(x) * self.gate(x).sigmoid())
"""

TRANSFORMING = """from torch import nn


class Net(nn.Module):
    def __init__(self, image_size, patch_size, dim, mlp_dim):
        super().__init__()
        assert image_size % patch_size == 0
        self.to_patches = nn.Conv2d(3, dim, patch_size, patch_size)
        self.norm = nn.LayerNorm(dim)
        self.inner = nn.Linear(dim, mlp_dim)
        self.outer = nn.Linear(mlp_dim, dim)

    def forward(self, image):
        x = self.to_patches(image).flatten(2, 3).transpose(1, 2)
        return x + self.outer(self.inner(self.norm(x)).relu())
"""

CROSSED = """from torch import nn


class Net(nn.Module):
    def __init__(self, query_dim, context_dim, heads, dim_head):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(query_dim, heads * dim_head)
        self.to_k = nn.Linear(context_dim, heads * dim_head)
        self.to_v = nn.Linear(context_dim, heads * dim_head)

    def forward(self, x, context):
        b, n, _ = x.shape
        q = self.to_q(x).view(b, n, self.heads, -1).transpose(1, 2)
        k = self.to_k(context).view(b, context.shape[1], self.heads, -1).transpose(1, 2)
        v = self.to_v(context).view(b, context.shape[1], self.heads, -1).transpose(1, 2)
        return (q @ k.transpose(-1, -2)).softmax(-1) @ v
"""

ATTENDING = """from torch import nn


class Net(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        weights = q @ k.transpose(-1, -2)
        return (weights.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d)
"""

PATCHED = """from torch import nn


class Net(nn.Module):
    def __init__(self, in_chans, embed_dim, patch_size):
        super().__init__()
        self.proj = nn.Conv2d(in_chans, embed_dim, patch_size, patch_size)
        self.norm = nn.LayerNorm(embed_dim)

    def forward(self, x):
        x = self.proj(x).flatten(2).transpose(1, 2)
        return self.norm(x)
"""

SHORTCUT = """from torch import nn


class Net(nn.Module):
    def __init__(self, inplanes, planes):
        super().__init__()
        self.conv = nn.Conv2d(inplanes, planes, 3, padding=1)

    def forward(self, x):
        return x + self.conv(x)
"""

MIXING = """from torch import nn


class Net(nn.Module):
    def __init__(self, image_size, patch_size, dim):
        super().__init__()
        steps = (image_size // patch_size) ** 2
        self.proj = nn.Conv2d(3, dim, patch_size, patch_size)
        self.mix = nn.Linear(steps, steps)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        x = self.mix(self.proj(x).flatten(2))
        return self.norm(x.transpose(1, 2))
"""

TWICE_NAMED = """from torch import nn


class Net(nn.Module):
    def __init__(self, vocab_size, symbols_embedding_dim, encoder_embedding_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, symbols_embedding_dim)
        self.conv = nn.Conv1d(encoder_embedding_dim, encoder_embedding_dim, 3, padding=1)

    def forward(self, ids):
        return self.conv(self.embedding(ids).transpose(1, 2))
"""

RIGHT = {
    "block": BLOCK,
    "gated": GATED,
    "crossed": CROSSED,
    "attending": ATTENDING,
    "patched": PATCHED,
    "shortcut": SHORTCUT,
    "mixing": MIXING,
    "twice named": TWICE_NAMED,
}

WRONG = [
    (BLOCK, "nn.BatchNorm2d(out_channels)", "nn.BatchNorm2d(in_channels)", "self.norm("),
    (GATED, "self.out = nn.Linear(hidden_dim, dim)", "self.out = nn.Linear(dim, hidden_dim)", "self.out("),
    (GATED, "self.gate = nn.Linear(dim, hidden_dim)", "self.gate = nn.Linear(hidden_dim, dim)", "self.gate("),
    (CROSSED, "self.to_k = nn.Linear(context_dim", "self.to_k = nn.Linear(query_dim", "self.to_v("),
    (ATTENDING, "q @ k.transpose(-1, -2)", "q @ k", "q @ k"),
    (PATCHED, ".transpose(1, 2)", "", "self.norm("),
    (TRANSFORMING, "nn.LayerNorm(dim)", "nn.LayerNorm(mlp_dim)", "self.norm("),
]


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_what_is_right_is_fed(text: str, worker: Worker, model: Callable[..., Path]) -> None:
    target = of(worker.trace(model(text)), "Net")
    assert not target.problems
    assert target.inputs is not None


def test_sizes_that_are_made_up_are_told_apart(worker: Worker, model: Callable[..., Path]) -> None:
    target = of(worker.trace(model(GATED)), "Net")
    assert target.construct is not None
    assert target.construct.expression == "Net(dim=64, hidden_dim=192)"


def test_sizes_that_a_shortcut_wants_alike_are_not(worker: Worker, model: Callable[..., Path]) -> None:
    path = model(SHORTCUT)
    for _ in range(2):
        target = of(worker.trace(path), "Net")
        assert target.construct is not None
        assert target.construct.expression == "Net(inplanes=64, planes=64)"


@pytest.mark.parametrize(("right", "old", "new", "place"), WRONG, ids=[each[2] or "untransposed" for each in WRONG])
def test_what_only_equal_sizes_hide_is_told_at_first_and_when_it_is_typed(
    right: str, old: str, new: str, place: str, worker: Worker, model: Callable[..., Path]
) -> None:
    text = right.replace(old, new, 1)
    assert text != right
    for before in ("", right):
        path = model(before or text)
        worker.trace(path)
        path = model(text)
        for _ in range(2):
            (problem,) = of(worker.trace(path), "Net").problems
            assert (problem.code, problem.severity) == ("FX201", "warning")
            assert marked(text, problem.location).startswith(place)


READING = """from torch import nn


class Net(nn.Module):
    def __init__(self, vocab_size{words}, embed_dim{width}, classes{classes}):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embed_dim)
        self.conv = nn.Conv1d(embed_dim, classes, 3, padding=1)

    def forward(self, tokens):
        return self.conv(self.embedding(tokens){turned}).mean(-1)
"""
BY_DEFAULT = {"words": "=500", "width": "=128", "classes": "=10"}
CALLED = {"words": "", "width": "", "classes": ""}
CALL = """

if __name__ == "__main__":
    print(Net(500, 128, classes=10))
"""


@pytest.mark.parametrize(("head", "tail"), [(BY_DEFAULT, ""), (CALLED, CALL)], ids=["by default", "called"])
def test_a_transposition_that_is_missing_is_told_of_what_somebody_builds(
    head: dict[str, str], tail: str, worker: Worker, model: Callable[..., Path]
) -> None:
    assert not of(worker.trace(model(READING.format(**head, turned=".transpose(1, 2)") + tail)), "Net").problems
    text = READING.format(**head, turned="") + tail
    (problem,) = of(worker.trace(model(text)), "Net").problems
    assert problem.code == "FX201"
    assert marked(text, problem.location).startswith("self.conv(")


MIXED = """from torch import nn


class Net(nn.Module):
    def __init__(self, steps=64, dim=64):
        super().__init__()
        self.proj = nn.Conv2d(3, dim, 4, 4)
        self.mix = nn.Linear(steps, steps)

    def forward(self, x):
        return self.mix(self.proj(x).flatten(2))
"""


def test_sizes_that_are_the_same_by_default_may_be_other_ones(worker: Worker, model: Callable[..., Path]) -> None:
    target = of(worker.trace(model(MIXED)), "Net")
    assert not target.problems
    assert target.inputs is not None


def test_whether_a_constructor_runs_is_asked_of_no_value_of_its_closure() -> None:
    class Strange:
        def __getattr__(self, name: str) -> object:
            raise AssertionError(name)

    value = Strange()

    def inner() -> tuple[Strange, FrameType]:
        return value, sys._getframe()

    assert not is_constructing(inner()[1])

"""Mistakes that stay whatever numbers were made up, as sizes stay apart with each; and those that a graph misses."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.worker.harness import Worker, marked, of

PATCHES = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, channels, patch, width, transformer):
        super().__init__()
        size = channels * patch**2
        self.unfold = nn.Unfold(patch, stride=patch)
        self.norm = nn.LayerNorm(size)
        self.first = nn.Linear(size, width)
        self.transformer = transformer
        self.last = nn.Linear(width, 10)

    def forward(self, x):
        rows = [self.norm(each) for each in self.unfold(x).transpose(1, 2).split(x.shape[0])]
        return self.last(self.transformer(self.first(torch.cat(rows))))
"""

RESIDUAL = """from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads, ratio):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.inner = nn.Linear(width, ratio * width)
        self.outer = nn.Linear(ratio * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        x = x + ((q @ k.transpose(-2, -1)).softmax(dim=-1) @ v).transpose(1, 2).reshape(x.shape)
        return x + self.outer(self.inner(x).relu())
"""

HEADS = """import torch
from einops import rearrange
from torch import nn


class Net(nn.Module):
    def __init__(self, width, heads, head_width=16):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(width, 3 * heads * head_width)
        self.out = nn.Linear(heads * head_width, width)

    def forward(self, x):
        q, k, v = map(lambda t: rearrange(t, "b n (h d) -> b h n d", h=self.heads), self.to_qkv(x).chunk(3, dim=-1))
        x = torch.einsum("bhij,bhjd->bhid", torch.einsum("bhid,bhjd->bhij", q, k).softmax(dim=-1), v)
        x = rearrange(x, "b h n d -> b n (h d)")
        return self.out(x)
"""

HISTORY = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(8, width)
        self.second = nn.Linear(width, width)

    def forward(self, x, history: list | None = None):
        history = [*(history if history is not None else [])]
        history.append(self.first(x))
        history.append(self.second(history[-1]))
        return torch.stack(history).mean(dim=0)


if __name__ == "__main__":
    net = Net(16)
    print(net(torch.randn(4, 8)).shape)
"""

STAGES = """from torch import nn


class Net(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        assert len(channels) == 9
        self.stem = nn.Conv2d(3, channels[0], 1)
        self.stages = nn.ModuleList()
        for before, after in zip(channels, channels[1:]):
            self.stages.append(nn.Sequential(nn.Conv2d(before, after, 3, 2, 1), nn.BatchNorm2d(after), nn.ReLU()))
        self.head = nn.Linear(channels[-1], width)

    def forward(self, x):
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
        return self.head(x.mean((2, 3)))
"""


@pytest.mark.parametrize(
    ("text", "right", "wrong", "place"),
    [
        (PATCHES, "nn.Linear(size, width)", "nn.Linear(size + 1, width)", "self.first(torch.cat"),
        (PATCHES, "nn.LayerNorm(size)", "nn.LayerNorm(size - 1)", "self.norm(each)"),
        (RESIDUAL, "nn.Linear(ratio * width, width)", "nn.Linear(ratio * width, width + 1)", "x + self.outer"),
        (RESIDUAL, "nn.Linear(width, ratio * width)", "nn.Linear(width, ratio * width + 2)", "self.outer(self.inner"),
        (RESIDUAL, "nn.Linear(width, 3 * width)", "nn.Linear(width, 3 * width + 3)", "self.qkv(x).reshape"),
        (HISTORY, "nn.Linear(width, width)", "nn.Linear(width, width + 1)", "torch.stack(history)"),
    ],
)
def test_what_no_made_up_number_mends_is_told(
    text: str, right: str, wrong: str, place: str, worker: Worker, model: Callable[..., Path]
) -> None:
    (target,) = worker.trace(model(text)).targets
    assert not any(each.code == "FX201" for each in target.problems)
    broken = text.replace(right, wrong)
    (target,) = worker.trace(model(broken)).targets
    (problem,) = (each for each in target.problems if each.code.startswith("FX2"))
    assert problem.code == "FX201"
    assert marked(broken, problem.location).startswith(place)


def test_what_none_of_many_numbers_mends_is_told_without_a_right_model_before(
    worker: Worker, model: Callable[..., Path]
) -> None:
    broken = STAGES.replace("nn.BatchNorm2d(after)", "nn.BatchNorm2d(after * 2)")
    (target,) = worker.trace(model(broken)).targets
    (problem,) = target.problems
    assert problem.code == "FX201"
    assert marked(broken, problem.location) == "stage(x)"


@pytest.mark.corpus
def test_what_only_a_single_head_would_mend_is_told(library_worker: Worker, model: Callable[..., Path]) -> None:
    wrong = HEADS.replace('        x = rearrange(x, "b h n d -> b n (h d)")\n', "")
    told = {text: of(library_worker.trace(model(text)), "Net").problems for text in (wrong, HEADS)}
    assert not any(each.code.startswith("FX2") for each in told[HEADS])
    (problem,) = (each for each in told[wrong] if each.code.startswith("FX2"))
    assert (problem.code, marked(wrong, problem.location)) == ("FX201", "self.out(x)")


def test_what_something_stands_in_for_may_give_what_is_wanted(worker: Worker, model: Callable[..., Path]) -> None:
    (target,) = worker.trace(model(PATCHES.replace("nn.Linear(width, 10)", "nn.Linear(width + 1, 10)"))).targets
    assert not any(each.code == "FX201" for each in target.problems)


def test_both_sizes_are_told_of_what_the_model_alone_comes_to(worker: Worker, model: Callable[..., Path]) -> None:
    (target,) = worker.trace(model(HISTORY.replace("nn.Linear(width, width)", "nn.Linear(width, width + 1)"))).targets
    (problem,) = (each for each in target.problems if each.code == "FX201")
    assert problem.severity == "error"
    assert "f32[4, 16]" in problem.explanation
    assert "16 is the output of `self.first = nn.Linear(8, width)` (line 8)" in problem.explanation
    assert "17 is the output of `self.second = nn.Linear(width, width + 1)` (line 9)" in problem.explanation


SCALED = """import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, channels, kernel_size, stride, scale, squeezed):
        super().__init__()
        if channels % scale or kernel_size % 2 == 0:
            raise ValueError("channels are to be parts of as many")
        self.conv = nn.Conv1d(channels, channels, kernel_size, stride)
        self.first = nn.Linear(channels + 1, squeezed)
        self.last = nn.Linear(squeezed, channels)

    def forward(self, x):
        x = self.conv(x)
        return x * self.last(self.first(x.mean(dim=2)).relu()).sigmoid().unsqueeze(2)
"""

ARRAYS = """import numpy as np
from torch import nn


class Net(nn.Module):
    def __init__(self, features=24):
        super().__init__()
        self.first = nn.Conv2d(3, features, 4, 4)
        self.last = nn.Conv2d(features + 1, 10, 1)

    def forward(self, images):
        if (np.remainder(images.shape[2:], np.power(2, 4)) > 0).any():
            raise ValueError("sides are to be multiples of 16")
        return self.last(self.first(images))
"""


@pytest.mark.parametrize(("text", "place"), [(SCALED, "self.first(x.mean"), (ARRAYS, "self.last(self.first")])
def test_what_is_apart_is_told_where_not_all_numbers_can_be_changed_or_a_trace_ends_before(
    text: str, place: str, worker: Worker, model: Callable[..., Path]
) -> None:
    (target,) = worker.trace(model(text)).targets
    (problem,) = (each for each in target.problems if each.code.startswith("FX2"))
    assert problem.code == "FX201"
    assert marked(text, problem.location).startswith(place)
    (target,) = worker.trace(model(text.replace(" + 1", ""))).targets
    assert not any(each.code.startswith("FX2") for each in target.problems)

"""Pictures that fit no layer, or no other pictures, whatever their sides, though strips of them, or points, would."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.worker.harness import Worker, marked, of

DIGITS = """from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 16, 5), nn.ReLU(), nn.MaxPool2d(2))
        self.head = nn.Linear(16 * 12 * 12, 10)

    def forward(self, x):
        return self.head(self.conv(x))
"""


@pytest.mark.parametrize("text", [DIGITS, DIGITS.replace(", 5)", ", 5, padding=2)").replace("12", "8")])
def test_pictures_that_are_not_flattened_are_told(text: str, worker: Worker, model: Callable[..., Path]) -> None:
    path = model(text)
    for _ in range(2):
        (problem,) = of(worker.trace(path), "Net").problems
        assert (problem.code, problem.severity) == ("FX201", "warning")
        assert marked(text, problem.location) == "self.head(self.conv(x))"
        assert "would be when flattened" in problem.explanation


@pytest.mark.parametrize(
    "text",
    [
        DIGITS.replace("self.conv(x))", "self.conv(x).flatten(1))"),
        DIGITS.replace("16 * 12 * 12", "256"),
        DIGITS.replace("16 * 12 * 12", "16").replace("self.conv(x))", "self.conv(x).permute(0, 2, 3, 1))"),
    ],
    ids=["flattened", "along a side", "along the channels"],
)
def test_pictures_that_fit_a_layer_are_not(text: str, worker: Worker, model: Callable[..., Path]) -> None:
    target = of(worker.trace(model(text)), "Net")
    assert not target.problems
    assert target.inputs is not None


SHORTCUT = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.beside = nn.Conv2d(8, 16, 1)

    def forward(self, x):
        return self.down(x) + self.beside(x)
"""


@pytest.mark.parametrize(
    "joined", ["self.down(x) + self.beside(x)", "torch.cat([self.down(x), self.beside(x)], dim=1)"]
)
def test_pictures_of_which_one_has_half_the_side_are_told(
    joined: str, worker: Worker, model: Callable[..., Path]
) -> None:
    text = SHORTCUT.replace("self.down(x) + self.beside(x)", joined)
    path = model(text)
    for _ in range(2):
        (problem,) = of(worker.trace(path), "Net").problems
        assert (problem.code, problem.severity) == ("FX201", "warning")
        assert marked(text, problem.location) == joined
        assert "f32[2, 16, 112, 112]" in problem.explanation
        assert "112 is what `self.down" in problem.explanation


@pytest.mark.parametrize(
    "text",
    [
        SHORTCUT.replace("8, 16, 1)", "8, 16, 1, stride=2)"),
        SHORTCUT.replace("self, x)", "self, x, small)").replace("beside(x)", "beside(small)"),
        SHORTCUT.replace("self.beside(x)", "self.beside(x.mean((2, 3), keepdim=True))"),
    ],
    ids=["as long", "of its own", "a point"],
)
def test_pictures_that_fit_each_other_are_not(text: str, worker: Worker, model: Callable[..., Path]) -> None:
    assert all(each.code != "FX201" for each in of(worker.trace(model(text)), "Net").problems)


ROWS = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.head = nn.Linear(32 * 7 * 7, 10)

    def forward(self, x):
        x = self.conv(x)
        return self.head(x.view(-1, 32 * 7 * 7))


Net()(torch.randn(2, 1, 28, 28))
"""


@pytest.mark.parametrize("view", ["x.view(-1, 32 * 7 * 7)", "torch.reshape(x, (-1, self.head.in_features))"])
def test_pictures_that_become_several_rows_each_are_told(view, worker: Worker, model: Callable[..., Path]) -> None:
    text = ROWS.replace("x.view(-1, 32 * 7 * 7)", view)
    (problem,) = of(worker.trace(model(text)), "Net").problems
    assert (problem.code, problem.severity, problem.original) == ("FX201", "warning", "")
    assert marked(text, problem.location) == view
    assert "8 rows are made of a batch of 2, as each of it has 32 × 14 × 14 = 6272 and not 1568" in problem.message
    assert problem.misfit is not None
    assert problem.misfit.shapes == ((2, 32, 14, 14),)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("28, 28", "14, 14"),
        ("x.view(-1, 32 * 7 * 7))", "x.view(-1, 32 * 7 * 7)).view(x.shape[0], -1)"),
        ("-1, 32 * 7 * 7))", "-1, 32 * 7 * 7)).view(2, 4, 10)"),
        ("x.view(-1, 32 * 7 * 7)", "x.permute(0, 2, 3, 1).reshape(-1, 14 * 32).repeat(1, 4)[:, :1568]"),
        ("self.head(x.view(-1, 32 * 7 * 7))", "x.view(-1, 14 * 14)"),
        ("self.head(x.view(-1, 32 * 7 * 7))", "x.view(2 * 4, 8 * 14 * 14)"),
    ],
    ids=["as large as the layer", "in rows again", "in groups again", "lines", "channels", "groups"],
)
def test_rows_that_are_meant_are_not(before, after, worker: Worker, model: Callable[..., Path]) -> None:
    text = ROWS.replace(before, after)
    assert text != ROWS
    assert not of(worker.trace(model(text)), "Net").problems


PYRAMID = """import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.stages = nn.ModuleList(nn.Conv2d(16, 16, 3, stride=2, padding=1) for _ in range(3))
        self.deep = nn.Conv2d(16, 16, 3, stride=2, padding=1)

    def forward(self, x):
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
        return torch.cat([x, F.interpolate(self.deep(x), scale_factor=4)], dim=1)
"""


def test_a_proportion_that_rounding_hides_at_some_sides_is_told(worker: Worker, model: Callable[..., Path]) -> None:
    (problem,) = of(worker.trace(model(PYRAMID)), "Net").problems
    assert (problem.code, problem.severity) == ("FX201", "warning")
    assert marked(PYRAMID, problem.location) == "torch.cat([x, F.interpolate(self.deep(x), scale_factor=4)], dim=1)"
    assert not of(worker.trace(model(PYRAMID.replace("scale_factor=4", "scale_factor=2"))), "Net").problems


SCAN = """from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv3d(1, 8, 3, padding=1)
        self.head = nn.Linear(8 * 24 * 24 * 24, 2)

    def forward(self, x):
        return self.head(self.conv(x).flatten(1))
"""


def test_a_single_channel_is_not_left_out_of_cubes(worker: Worker, model: Callable[..., Path]) -> None:
    target = of(worker.trace(model(SCAN)), "Net")
    assert not target.problems
    assert target.inputs is not None

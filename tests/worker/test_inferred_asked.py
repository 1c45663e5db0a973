"""What code asks of items further in: how many they are, how many dimensions, of a class that is known by its name."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from fxworker.arguments import Search
from fxworker.building import attempt
from fxworker.variations import of_length_within


class Resolution(nn.Module):
    def __init__(self, config, resolution):
        super().__init__()
        assert len(resolution) == 3, f"a resolution has three numbers, got {resolution}"
        self.fc = nn.Linear(sum(resolution), config.width)


class Resolutions(nn.Module):
    """Asks for as many items as it has parts, and these for as many in each."""

    def __init__(self, config):
        super().__init__()
        assert len(config.resolutions) == 3
        self.parts = nn.ModuleList([Resolution(config, each) for each in config.resolutions])


class Normalized(nn.Module):
    """Takes the shape of an example apart."""

    def __init__(self, model, im):
        super().__init__()
        _, _, height, width = im.shape
        self.model = model
        self.scale = 1.0 / max(height, width)


class NearLoss(nn.Module):
    def forward(self, x, y):
        return (x - y).abs().mean()


class FarLoss(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.margin = margin

    def forward(self, x, y):
        return (self.margin - (x - y).abs()).mean()


class Supporting(nn.Module):
    """Wraps what a method lists by the names of classes."""

    def __init__(self, loss):
        super().__init__()
        self.check(type(loss).__name__)
        self.loss = loss

    @staticmethod
    def supported():
        return ["UnheardOf", "FarLoss", "NearLoss"]

    @classmethod
    def check(cls, name):
        if name not in cls.supported():
            raise Exception(f"{cls.__name__} has no use for {name}")  # noqa: TRY002 — As people write it.

    def forward(self, x, y):
        return self.loss(x, y)


class Asserting(nn.Module):
    def __init__(self, loss):
        super().__init__()
        kind = loss.__class__.__name__
        assert kind in ("FarLoss", "Unknown")
        self.loss = loss


@pytest.mark.parametrize(
    ("cls", "expression"),
    [
        (
            Resolutions,
            "Resolutions(config=SimpleNamespace(resolutions=[(2, 2, 2), (2, 2, 2), (2, 2, 2)], width=64))",
        ),
        (Normalized, "Normalized(model=torch.nn.Identity(), im=torch.ones(1, 3, 64, 64))"),
        (Supporting, "Supporting(loss=NearLoss())"),
        (Asserting, "Asserting(loss=FarLoss(margin=64))"),
    ],
)
def test_they_are_found(cls, expression):
    scope = {"SimpleNamespace": SimpleNamespace, "torch": torch, **globals()}
    search = Search(cls.__name__, cls, scope, partial(attempt, real=False))
    assert (search.run() or ("",))[0] == expression, (search.tried, search.error)
    assert search.trials <= 13


def test_what_is_of_another_length_further_in_gets_that():
    assert of_length_within("[(2, 2), (2, 2)]", 3) == ["[(2, 2, 2), (2, 2, 2)]"]
    assert of_length_within("([1], [2])", 2) == ["([1, 1], [2, 2])"]
    assert of_length_within("torch.ones(64)", 2) == ["torch.ones(64, 64)"]
    for each in ("[1, 2]", "[]", "'ab'", "[[], []]"):
        assert of_length_within(each, 3) == []
    assert of_length_within("[[1]]", -1) == []

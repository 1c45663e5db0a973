"""Inputs whose values matter: what goes wrong on real data is mended as what goes wrong without."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - torch's own name for it.

from fxengine.inputs import infer_inputs
from tests.support.feeding import fed


class ByClass(nn.Module):
    """As losses that go over the classes that occur."""

    def forward(self, picture: Tensor, labels: Tensor):
        chances = picture.softmax(1)[:, 0].flatten()
        losses = [((labels == each).flatten().float() - chances).abs().mean() for each in labels.unique()]
        return torch.stack(losses).mean()


def test_what_does_not_fit_behind_values_is_mended():
    inferred = fed(ByClass())
    picture, labels = inferred.args
    assert labels.numel() == picture.numel() // picture.shape[1]


class Pixels(nn.Module):
    """As models of pictures whose values are the classes to be told."""

    def __init__(self):
        super().__init__()
        self.head = nn.Conv2d(1, 20, 1)

    def forward(self, image: Tensor):
        return F.cross_entropy(self.head(image), image[:, 0].long())


def test_numbers_that_are_taken_for_classes_are_not_negative():
    assert fed(Pixels()).recipes["image"].fill == "uniform"


class Either(nn.Module):
    """Fails with half of all numbers."""

    def __init__(self, sign):
        super().__init__()
        self.sign = sign

    def forward(self, pixel_values: Tensor):
        if self.sign * float(pixel_values.flatten()[0]) > 0:
            return pixel_values
        raise ValueError("cannot go on")


def test_what_reads_values_is_run_with_several():
    for sign in (1, -1):
        found = infer_inputs(Either(sign), budget_s=0.2)
        assert any("cannot go on" in each.error for each in found.failures)


class OfColumns(nn.Module):
    """A table of numbers whose first columns are codes that a table of vectors has."""

    def __init__(self):
        super().__init__()
        self.codes = nn.ModuleList(nn.Embedding(rows, 4) for rows in (30, 7))
        self.out = nn.Linear(11, 1)

    def forward(self, features: Tensor):
        vectors = [table(features[:, index].long()) for index, table in enumerate(self.codes)]
        numbers = features[:, 2:]
        return self.out(torch.cat([*vectors, numbers], 1))


def test_numbers_that_are_codes_of_a_table_are_whole_and_below_its_size():
    inferred = fed(OfColumns())
    recipe = inferred.recipes["features"]
    assert recipe.dtype is torch.float32
    assert recipe.expression == "torch.randint(0, 7, (2, 5), dtype=torch.float32)"

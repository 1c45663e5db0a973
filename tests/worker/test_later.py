"""Arguments that only the methods of a model say anything about: the constructor does no more than to keep them."""

from functools import partial

import pytest
from torch import nn

from fxworker.arguments import Search
from fxworker.building import attempt


class Kept(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.value = value


class Squeezing(Kept):
    def forward(self, x):
        return x.squeeze(dim=self.value)


class Opening(Kept):
    def forward(self, x):
        return x.unsqueeze(self.value)


class Over(Kept):
    def forward(self, x):
        return sum(x * each for each in self.value)


class Counted(Kept):
    def forward(self, x):
        for at, each in enumerate(self.value):
            x = x + at * each
        return x


class Chosen(Kept):
    def forward(self, x):
        if self.value == "poisson":
            return x.exp()
        raise NotImplementedError(self.value)


class Looked(Kept):
    def forward(self, x):
        return x[: self.value["input"], : self.value["output"]]


class Tabled(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.methods = {"mean": lambda x: x.mean(), "sum": lambda x: x.sum()}
        self.method = self.methods[value]


class TabledBelow(nn.Module):
    def __init__(self, value):
        super().__init__()
        layers = nn.ModuleDict({"wide": nn.Linear(9, 9), "narrow": nn.Linear(3, 3)})
        self.layer = layers[value]


class OfAnother(Kept):
    def forward(self, value):
        return [each for each in value if each != "none"]


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (Squeezing, "1"), (Opening, "1"), (Over, "[64, 64]"), (Counted, "[64, 64]"), (Chosen, "'poisson'"),
        (Looked, "{'input': 64, 'output': 64}"), (OfAnother, "64"),
        (Tabled, "'mean'"), (TabledBelow, "'wide'"),
    ],
)  # fmt: skip
def test_what_a_method_does_with_it_says_what_it_is(cls, expected):
    expression, _ = Search(cls.__name__, cls, {cls.__name__: cls}, partial(attempt, real=False)).run()
    assert expression == f"{cls.__name__}(value={expected})"


class Batched(nn.Module):
    def __init__(self, batch_size, seed, number_of_series, dec_num_layer):
        super().__init__()
        self.rnn = nn.LSTM(number_of_series, 4, num_layers=dec_num_layer)
        self.batch_size, self.seed = batch_size, seed


def test_names_say_how_much():
    expression, _ = Search("Batched", Batched, {"Batched": Batched}, partial(attempt, real=False)).run()
    assert expression == "Batched(batch_size=2, seed=0, number_of_series=2, dec_num_layer=2)"

"""What code asks of items further in: how many they are, how many dimensions, of a class that is known by its name."""

import typing
from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from fxworker.arguments import Search
from fxworker.building import attempt
from fxworker.variations import of_length_within
from tests.worker.harness import of


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


class Windowed(nn.Module):
    """Takes what is any of Python's own kinds."""

    def __init__(self, window_size: int, table: typing.Any = None):
        super().__init__()
        assert isinstance(window_size, Sequence)
        assert isinstance(table, typing.Mapping)
        self.fc = nn.Linear(window_size[0] * window_size[1], 4 + len(table))


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
        assert kind in ("FarLoss", "UnheardOf")
        self.loss = loss


class Holding(nn.Module):
    """Can be made, and has nothing in it."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def forward(self, x):
        return x


SYMBOLS = ("", "H", "He", "Li")


class Element(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return self.fc(x)


class Elements(Holding):
    """Takes names that are in a table alone."""

    def __init__(self, parts: dict[str, Element]):
        super().__init__()
        if any(each not in SYMBOLS for each in parts):
            raise ValueError("These are no symbols of elements")
        self.elements = nn.ModuleDict(parts)
        self.count = len(parts)


class Several(nn.Module):
    def __init__(self, holders: list[Holding]):
        super().__init__()
        self.holders = nn.ModuleList(holders)


class Fused(nn.Module):
    """Reads what only a subclass has of what it is given, far inside."""

    def __init__(self, several: Several):
        super().__init__()
        self.parts = nn.ModuleList(each.elements["H"] for each in several.holders)


class Collection(nn.Module):
    """May be made of its own kind."""

    def __init__(self, metrics: "Collection | Element"):
        super().__init__()
        self.metrics = metrics


class Tracker(nn.Module):
    def __init__(self, metrics: Collection):
        super().__init__()
        self.first = metrics.metrics


class Labelled(nn.Module):
    """Takes two tables of which one is the other turned round."""

    def __init__(self, id2label, label2id):
        super().__init__()
        assert len(id2label) == len(label2id)
        if any(label2id[label] != number for number, label in id2label.items()):
            raise ValueError("These disagree")
        self.fc = nn.Linear(4, max(id2label) + 1)


class Captioning(nn.Module):
    """Takes an object that is counted, read and called."""

    def __init__(self, vocab):
        super().__init__()
        self.embed = nn.Embedding(len(vocab), 4)
        self.start = vocab(vocab.start)


LABELLED = (
    "Labelled(id2label={0: '<pad>', 1: '<unk>', 2: 'a', 3: 'b'}, label2id={'<pad>': 0, '<unk>': 1, 'a': 2, 'b': 3})"
)

CALLED = "'__len__': lambda self: 1000, '__call__': lambda self, *_, **__: 0"
ELEMENTS = "Elements(parts={'H': Element(width=64), 'He': Element(width=64)})"


class Playing(nn.Module):
    """Has a picture go through layers that leave nothing of small ones."""

    def __init__(self, *, c: int, h: int, w: int):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(c, 8, 8, stride=4), nn.Conv2d(8, 8, 4, stride=2), nn.Conv2d(8, 8, 3))
        self.fc = nn.Linear(self.layers(torch.zeros(1, c, h, w)).numel(), 4)


class Squeezing(nn.Module):
    def __init__(self, in_channels, ratio=16):
        super().__init__()
        self.squeeze = nn.Conv2d(in_channels, in_channels // ratio, 1)


class Encoding(nn.Module):
    def __init__(self, units, encoders=1):
        super().__init__()
        if encoders == 1:
            self.fc = nn.Linear(len([0] * (units + 1)), 4)
        else:
            self.fcs = nn.ModuleList(nn.Linear(units[at], 4) for at in range(encoders))


@pytest.mark.parametrize(
    ("cls", "expression"),
    [
        (Encoding, "Encoding(units=64)"),
        (Squeezing, "Squeezing(in_channels=64)"),
        (Elements, ELEMENTS),
        (Labelled, LABELLED),
        (Captioning, f"Captioning(vocab=type('Called', (SimpleNamespace,), {{{CALLED}}})(start=64))"),
        (
            Fused,
            f"Fused(several=Several(holders=[{ELEMENTS}, {ELEMENTS}]))",
        ),
        (Tracker, "Tracker(metrics=Collection(metrics=Element(width=64)))"),
        (
            Resolutions,
            "Resolutions(config=SimpleNamespace(resolutions=[(2, 2, 2), (2, 2, 2), (2, 2, 2)], width=64))",
        ),
        (Normalized, "Normalized(model=torch.nn.Identity(), im=torch.ones(1, 3, 64, 64))"),
        (Playing, "Playing(c=3, h=96, w=96)"),
        (Windowed, "Windowed(window_size=[2, 2, 2, 2], table={})"),
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


class Kernel(nn.Module):
    def __init__(self, scale: float = 1.0):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(scale))


class Product(nn.Module):
    def __init__(self, *parts: Kernel):
        super().__init__()
        self.parts = nn.ModuleList(parts)


class Stack(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)


@pytest.mark.parametrize(
    ("cls", "expression"),
    [(Product, "Product(Kernel(), Kernel())"), (Stack, "Stack(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))")],
)
def test_what_takes_any_number_of_things_is_given_some(cls, expression):
    search = Search(cls.__name__, cls, {"torch": torch, **globals()}, partial(attempt, real=False))
    assert (search.run() or ("",))[0] == expression
    assert search.trials == 1


MADE = """
from torch import nn

class Coder(nn.Module):
    def __init__(self, encoder, quantizer, rate):
        super().__init__()
        self.encoder, self.quantizer = encoder, quantizer
        self.frames = rate // quantizer.hop

    def forward(self, x):
        return self.quantizer(self.encoder(x))

    @staticmethod
    def _base_model(width, hop):
        quantizer = nn.Linear(width, 4)
        quantizer.hop = hop
        return Coder(nn.Conv1d(1, 8, 4), quantizer, 16000)

    @staticmethod
    def coder_model_16khz(width: int = 21):
        return Coder._base_model(width, 320)

    @classmethod
    def model_kinds(cls):
        return ["coder_model_16khz"]
"""


def test_a_method_that_makes_a_model_is_preferred_to_what_stands_in_for_its_parts(worker, model):
    found = of(worker.trace(model(MADE)), "Coder")
    assert found.construct.expression == "Coder.coder_model_16khz()"
    assert (found.status, found.problems) == ("complete", ())

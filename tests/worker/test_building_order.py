"""What is built does not depend on where in its file a class stands, nor on which class is built first."""

import ast
import random
import sys
from pathlib import Path

import pytest

from fxls.discovery import discover
from fxworker.building import Built, build
from fxworker.loading import Document, load
from fxworker.wire import TraceRequest
from tests.worker.harness import of

CONFIGURED = """
from dataclasses import dataclass
import torch
from torch import nn

@dataclass
class SmallConfig:
    width: int = 8
    depth: int = 2

@dataclass
class LargeConfig:
    width: int = 16
    depth: int = 4

class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.fc = nn.Linear(config.width, config.width)

    def forward(self, x):
        return self.fc(x)

class Net(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.depth))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""

DEFAULTS = """
import torch
from torch import nn

class First(nn.Module):
    def __init__(self, quux=24):
        super().__init__()
        self.fc = nn.Linear(quux, 2)

    def forward(self, x):
        return self.fc(x)

class Second(nn.Module):
    def __init__(self, quux=48):
        super().__init__()
        self.fc = nn.Linear(quux, 2)

    def forward(self, x):
        return self.fc(x)

class Third(nn.Module):
    def __init__(self, quux):
        super().__init__()
        self.fc = nn.Linear(quux, 2)

    def forward(self, x):
        return self.fc(x)
"""

PARTS = """
from __future__ import annotations
import abc
import torch
from torch import nn

class Encoder(nn.Module, abc.ABC):
    @abc.abstractmethod
    def forward(self, x): ...

class ConvEncoder(Encoder):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.conv = nn.Conv2d(3, width, 3)

    def forward(self, x):
        return self.conv(x)

class AttentionEncoder(Encoder):
    def __init__(self, width, heads):
        super().__init__()
        self.width = width
        self.attention = nn.MultiheadAttention(width, heads)

    def forward(self, x):
        return self.attention(x, x, x)[0]

class Classifier(nn.Module):
    def __init__(self, encoder: Encoder, kind: str):
        super().__init__()
        self.encoder = encoder
        self.norm = getattr(nn, kind)(encoder.width)

    def forward(self, x):
        return self.norm(self.encoder(x))

class Pair(nn.Module):
    def __init__(self, conv_encoder, decoder_head):
        super().__init__()
        self.first, self.second = conv_encoder, decoder_head
        self.out = nn.Linear(conv_encoder.width, 2)

    def forward(self, x):
        return self.out(self.second(self.first(x)))
"""

ORDERS = 4


def built(path: Path, text: str, seed: int) -> dict[str, str]:
    """Return how each class of a file is built, asked for in an order that the seed chooses."""
    path.write_text(text)
    targets = list(discover(str(path), text).targets)
    random.Random(seed).shuffle(targets)
    request = TraceRequest(1, str(path), text, tuple(targets), (str(path.parent),))
    loaded = load(request, Document.of(request))
    found = {}
    for target in targets:
        result = build(target, loaded)
        assert isinstance(result, Built), (target.qualname, result)
        found[target.qualname] = result.construct.expression
    return found


def reordered(text: str, seed: int) -> str:
    """Return a file with its classes in another order, none above one that it is derived from."""
    tree = ast.parse(text)
    classes = [each for each in tree.body if isinstance(each, ast.ClassDef)]
    random.Random(seed).shuffle(classes)
    names = {each.name for each in classes}
    ordered, done = [], set()
    while classes:
        free = next(each for each in classes if {ast.unparse(base) for base in each.bases} & names <= done)
        classes.remove(free)
        done.add(free.name)
        ordered.append(free)
    rest = [each for each in tree.body if not isinstance(each, ast.ClassDef)]
    return ast.unparse(ast.Module([*rest, *ordered], []))


@pytest.mark.parametrize("text", [CONFIGURED, DEFAULTS, PARTS], ids=["configured", "defaults", "parts"])
def test_the_order_of_classes_changes_nothing(tmp_path, monkeypatch, text):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    answers = [built(tmp_path / f"order_{seed}.py", reordered(text, seed), seed) for seed in range(ORDERS)]
    assert all(each == answers[0] for each in answers[1:]), answers


def test_what_takes_any_number_of_parts_is_built_of_some(worker, model):
    text = """
from torch import nn

class Scale(nn.Module):
    def __init__(self, factor: float = 2.0):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor

class Product(nn.Module):
    def __init__(self, *parts: Scale):
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x):
        return self.parts[0](x) * self.parts[1](x)
"""
    product = of(worker.trace(model(text)), "Product")
    assert product.construct is not None
    assert product.construct.expression == "Product(Scale(), Scale())"
    assert (product.status, product.problems) == ("complete", ())

"""Options that a configuration has by names with a prefix, which code takes off before it hands them on."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from fxworker.arguments import Search
from fxworker.building import attempt


def without(prefix, config):
    return {name[len(prefix) :]: value for name, value in vars(config).items() if name.startswith(prefix)}


class Encoder(nn.Module):
    def __init__(self, hidden, layers, kernel_size):
        super().__init__()
        self.parts = nn.ModuleList(nn.Conv1d(hidden, hidden, kernel_size) for _ in range(layers))


class HandedOn(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.encoder = Encoder(**without("enc_", config))
        self.out = nn.Linear(config.enc_hidden, config.width)


class LookedUp(nn.Module):
    def __init__(self, options):
        super().__init__()
        own = {name.replace("dec_", ""): value for name, value in options.items() if name.startswith("dec_")}
        self.fc = nn.Linear(own["hidden"], options["width"])


@pytest.mark.parametrize(
    ("cls", "expression"),
    [
        (
            HandedOn,
            "HandedOn(config=SimpleNamespace(enc_hidden=64, width=64, enc_layers=2, enc_kernel_size=3))",
        ),
        (LookedUp, "LookedUp(options={'width': 64, 'dec_hidden': 64})"),
    ],
)
def test_they_are_found(cls, expression):
    scope = {cls.__name__: cls, "torch": torch, "SimpleNamespace": SimpleNamespace}
    search = Search(cls.__name__, cls, scope, partial(attempt, real=False))
    assert (search.run() or ("",))[0] == expression, (search.tried, search.error)

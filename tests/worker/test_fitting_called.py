"""What models hold that is called while they run, as only their running shows."""

import pytest

STEPPING = """
from torch import nn

class Greedy(nn.Module):
    def __init__(self, modules):
        super().__init__()
        self.net, self.other = modules

    def step(self, x):
        found, attention = self.net.decode(x, None)
        return self.other.blend(found, attention)

    def forward(self, x):
        return self.step(x)
"""

PREPARING = """
from torch import nn

class Vocoder(nn.Module):
    def __init__(self, settings=None):
        super().__init__()
        if settings is None or "generator" not in settings:
            raise ValueError("Need settings['generator']")
        self.kept = [settings["generator"]]
        self.is_new = True

    def forward(self, features):
        if self.is_new:
            self.kept[0].remove_weight_norm()
            self.is_new = False
        return features * 2
"""

PARTS = """
from torch import nn

class Reader(nn.Module):
    def __init__(self, parts=None, options=None):
        super().__init__()
        if options is None:
            raise ValueError("options are needed")
        if not isinstance(options, dict):
            raise TypeError("options must be a mapping")
        self.parts = nn.ModuleDict(parts)
        self.options = options

    def forward(self, waves, lengths):
        states = self.parts.encoder(waves, lengths)
        tokens, _, _, weights = self.parts.decoder(states, lengths)
        return tokens * weights
"""


@pytest.mark.parametrize("text", [STEPPING, PREPARING, PARTS], ids=["results", "nothing", "parts"])
def test_what_is_called_is_given_as_it_is_called(worker, model, text):
    (target,) = worker.trace(model(text)).targets
    assert target.inputs is not None
    assert "forward" in target.construct.expression or "lambda" in target.construct.expression
    assert not [each for each in target.problems if each.severity == "error"]

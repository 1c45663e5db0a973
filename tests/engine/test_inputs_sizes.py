"""Inputs of the sizes that a model keeps under the names which its code gives to their axes."""

import torch
from torch import Tensor, nn

from tests.support.feeding import fed


class Sensors(nn.Module):
    """Keeps how many sensors there are, and says it in the shape of its input alone."""

    def __init__(self, num_sensors: int = 7, window: int = 12):
        super().__init__()
        self.num_sensors = num_sensors
        self.window = window
        self.mix = nn.Parameter(torch.ones(num_sensors, num_sensors))

    def forward(self, x: Tensor) -> Tensor:  # (batch, window, sensors)
        return torch.tanh(x) if x.shape[1:] == (self.window, self.num_sensors) else x.new_zeros(0)


def test_axes_are_as_long_as_what_the_model_keeps_under_their_names():
    assert fed(Sensors()).args[0].shape == (2, 12, 7)


class Forecast(nn.Module):
    """Takes sequences of any length, and says how long its own are."""

    def __init__(self, seq_len: int = 48):
        super().__init__()
        self.seq_len = seq_len
        self.rnn = nn.GRU(5, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.rnn(x)[0][:, -1]


def test_sequences_of_vectors_are_as_long_as_the_model_says():
    assert fed(Forecast()).args[0].shape == (2, 48, 5)


class Language(nn.Module):
    """Says how many tokens it takes at the most."""

    def __init__(self, seq_len: int = 512):
        super().__init__()
        self.seq_len = seq_len
        self.embed = nn.Embedding(50, 8)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.embed(tokens)


def test_sequences_of_tokens_are_short():
    assert fed(Language()).args[0].shape == (2, 16)

"""Putting models into evaluation for a while, as `eval()` does: with what some of their modules make ready for it.

A module may keep what it computes of its weights alone while they do not change: `def train(self, mode)` makes it, and
its forward asks for it where it is not trained. What it has made is taken away again by whoever keeps its state.
"""

from collections.abc import Iterable
from contextlib import suppress

import torch
from torch import nn

__all__ = ["evaluate", "has_own_train"]


def evaluate(parts: Iterable[nn.Module]) -> None:
    """Put modules into evaluation, each by itself, and let those do what they do then that have a say in it."""
    every = list(parts)
    for part in every:
        part.training = False
    for part in filter(has_own_train, every):
        with suppress(Exception), torch.no_grad():  # The user's code, which may raise whatever it likes.
            part.train(False)


def has_own_train(part: nn.Module) -> bool:
    """Whether a module does something of its own when it is put into training, or out of it."""
    return type(part).train is not nn.Module.train

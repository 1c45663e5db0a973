"""A model whose forward pass takes a while and leaves the processor alone."""

import time

import torch
from torch import nn


class Slow(nn.Module):
    """A layer, and a wait that a graph holds as one call."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return waited(self.layer(x))


@torch.fx.wrap
def waited(x: torch.Tensor) -> torch.Tensor:
    time.sleep(1)
    return x

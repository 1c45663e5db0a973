"""A model of our own: it is traced before any other, so that no other has to do anything for the first time."""

import torch
from torch import nn


class Sample(nn.Module):
    """A model of the usual parts, which warms up what tracing and shape propagation import and remember."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3), nn.BatchNorm2d(width), nn.ReLU(), nn.Flatten(2))
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.scale = nn.Parameter(torch.zeros(1, 1, width))
        self.drop = nn.Dropout(0.1)
        self.head = nn.Embedding(10, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Mix everything once."""
        x = self.norm(self.stem(x).transpose(1, 2)) * self.scale
        for layer in self.layers:
            x = x + self.drop(nn.functional.gelu(layer(x)))
        batch, _, width = x.shape
        x = torch.cat([x.reshape(batch, -1, width).softmax(-1), x @ x.mT @ x], dim=1)
        return x.mean(1)[:, None] + self.head.weight

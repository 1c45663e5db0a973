"""Blocks that ask their values in several ways, each of which stops a symbolic trace."""

import torch
from torch import nn


class Block(nn.Module):
    """One linear layer that looks at what it computed."""

    def __init__(self, dim: int, limit: float) -> None:
        super().__init__()
        self.limit = limit
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.proj(x)
        if y.abs().max() > self.limit:
            y = y / y.abs().max()
        if x.shape[0] > 16:
            y = y - y.mean()
        y[y > 3] = 0.0
        return x + y / len(y)


class Stack(nn.Module):
    """Twelve of them."""

    def __init__(self, dim: int = 32, depth: int = 12) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(dim, 4.0) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return torch.relu(x)  # fx: ignore[FX001]


if __name__ == "__main__":
    print(Stack()(torch.randn(2, 32)).shape)

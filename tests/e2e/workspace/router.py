"""A mixture of two experts whose gate decides, for the whole batch at once, which of them run."""

import torch
from torch import nn


class Expert(nn.Module):
    """Two layers; never called alone."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x)))


class Router(nn.Module):
    """One expert where the gate is sure, both where it is not."""

    def __init__(self, dim: int = 64, threshold: float = 0.9) -> None:
        super().__init__()
        self.threshold = threshold
        self.gate = nn.Linear(dim, 2)
        self.first = Expert(dim)
        self.second = Expert(dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = self.gate(x).softmax(dim=-1)
        if gate.max() > self.threshold:
            return self.first(x)
        return gate[..., :1] * self.first(x) + gate[..., 1:] * self.second(x)


if __name__ == "__main__":
    print(Router(dim=64)(torch.randn(2, 16, 64)).shape)

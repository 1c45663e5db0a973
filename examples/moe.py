"""A mixture of experts whose router decides in Python, from the values of the gates. Does not trace.

Each token goes to its two best experts. Written as loops over the experts, the routing asks which of them got any
token (FX001, data-dependent), counts the tokens (FX002) and writes their results into place (FX005). None of it can be
decided before data flows; `DenseMoE` computes the same thing in a way that a graph can hold, and is compared below.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class MoEConfig:
    dim: int = 32
    hidden: int = 64
    experts: int = 4
    active: int = 2
    layers: int = 2
    classes: int = 10


class Expert(nn.Module):
    """A gated feed-forward network on `[…, dim]`."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(dim, hidden, bias=False)
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Router(nn.Module):
    """Tokens `[tokens, dim]` → weights and numbers of the best experts, each `[tokens, active]`."""

    def __init__(self, config: MoEConfig) -> None:
        super().__init__()
        self.active = config.active
        self.gate = nn.Linear(config.dim, config.experts, bias=False)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        probabilities = F.softmax(self.gate(tokens), dim=-1)
        weights, chosen = probabilities.topk(self.active, dim=-1)
        return weights / weights.sum(dim=-1, keepdim=True), chosen


class SparseMoE(nn.Module):
    """Runs each expert on the tokens that chose it, and only if there are any."""

    def __init__(self, config: MoEConfig) -> None:
        super().__init__()
        self.router = Router(config)
        self.experts = nn.ModuleList(Expert(config.dim, config.hidden) for _ in range(config.experts))

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, -2)
        weights, chosen = self.router(tokens)
        out = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            picked = (chosen == number).any(dim=-1)
            if not picked.any():
                continue
            weight = (weights * (chosen == number)).sum(dim=-1)
            out[picked] = out[picked] + weight[picked, None] * expert(tokens[picked])
        return out.view_as(x)


class DenseMoE(nn.Module):
    """The same function with every expert run on every token: more arithmetic, no decisions, and it traces."""

    def __init__(self, sparse: SparseMoE) -> None:
        super().__init__()
        self.router = sparse.router
        self.experts = sparse.experts

    def forward(self, x: Tensor) -> Tensor:
        weights, chosen = self.router(x)
        parts = []
        for number, expert in enumerate(self.experts):
            weight = (weights * (chosen == number)).sum(dim=-1, keepdim=True)
            parts.append(weight * expert(x))
        return torch.stack(parts).sum(dim=0)


class MoEClassifier(nn.Module):
    """A sequence `[batch, time, dim]` → logits `[batch, classes]`, by way of a few residual expert layers."""

    def __init__(self, config: MoEConfig) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(config.dim) for _ in range(config.layers))
        self.layers = nn.ModuleList(SparseMoE(config) for _ in range(config.layers))
        self.head = nn.Linear(config.dim, config.classes)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        if lengths is None:
            return self.head(x.mean(dim=1))
        # Sequences of different length: average over what is there of each.
        rows = [x[row, : int(lengths[row])].mean(dim=0) for row in range(len(x))]
        return self.head(torch.stack(rows))


def main() -> None:
    torch.manual_seed(0)
    config = MoEConfig()
    model = MoEClassifier(config).eval()
    x = torch.randn(3, 12, config.dim)
    with torch.inference_mode():
        logits = model(x, torch.tensor([12, 7, 3]))
        sparse = model.layers[0]
        torch.testing.assert_close(DenseMoE(sparse)(x), sparse(x))
    print(f"logits {tuple(logits.shape)}")


if __name__ == "__main__":
    main()

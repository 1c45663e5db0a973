"""A recommender in the manner of DLRM: bags of categories and a few numbers become one probability. Traces as it stands.

After Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation Systems". The loop goes
over the modules, whose number is known, and never over a tensor; the pairs are picked by a constant buffer of indices.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class RecommenderConfig:
    dense_features: int = 13
    table_sizes: tuple[int, ...] = (1000, 200, 50, 5000)
    dim: int = 16
    bottom: tuple[int, ...] = (64, 32)
    top: tuple[int, ...] = (64, 32)


def mlp(sizes: list[int]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for narrow, wide in zip(sizes, sizes[1:]):
        layers += [nn.Linear(narrow, wide), nn.ReLU()]
    return nn.Sequential(*layers)


class EmbeddingTables(nn.Module):
    """Category numbers `[batch, tables, bag]` → vectors `[batch, tables, dim]`, each the sum over a bag."""

    def __init__(self, config: RecommenderConfig) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(n, config.dim, mode="sum") for n in config.table_sizes)

    def forward(self, categories: Tensor) -> Tensor:
        vectors = [table(categories[:, index]) for index, table in enumerate(self.tables)]
        return torch.stack(vectors, dim=1)


class Interaction(nn.Module):
    """Vectors `[batch, n, dim]` → the inner products of all pairs `[batch, n · (n − 1) / 2]`."""

    rows: Tensor
    columns: Tensor

    def __init__(self, vectors: int) -> None:
        super().__init__()
        rows, columns = torch.tril_indices(vectors, vectors, offset=-1)
        self.register_buffer("rows", rows, persistent=False)
        self.register_buffer("columns", columns, persistent=False)

    def forward(self, vectors: Tensor) -> Tensor:
        products = vectors @ vectors.transpose(1, 2)
        return products[:, self.rows, self.columns]


class Recommender(nn.Module):
    """Numbers `[batch, dense]` and categories `[batch, tables, bag]` → the probability of a click, `[batch]`."""

    def __init__(self, config: RecommenderConfig) -> None:
        super().__init__()
        vectors = 1 + len(config.table_sizes)
        pairs = vectors * (vectors - 1) // 2
        self.bottom = mlp([config.dense_features, *config.bottom, config.dim])
        self.tables = EmbeddingTables(config)
        self.interaction = Interaction(vectors)
        self.top = mlp([config.dim + pairs, *config.top])
        self.head = nn.Linear(config.top[-1], 1)

    def forward(self, dense: Tensor, categories: Tensor) -> Tensor:
        summary = self.bottom(dense)
        vectors = torch.cat([summary[:, None], self.tables(categories)], dim=1)
        features = torch.cat([summary, self.interaction(vectors)], dim=-1)
        return self.head(self.top(features)).squeeze(-1).sigmoid()


def main() -> None:
    torch.manual_seed(0)
    config = RecommenderConfig()
    model = Recommender(config).eval()
    categories = torch.stack([torch.randint(0, n, (8, 3)) for n in config.table_sizes], dim=1)
    with torch.inference_mode():
        clicks = model(torch.randn(8, config.dense_features), categories)
    print(f"probabilities {tuple(clicks.shape)}")


if __name__ == "__main__":
    main()

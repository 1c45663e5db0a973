"""Vision transformer: patches, pre-norm attention blocks, a class token. Traces as it stands.

After Dosovitskiy et al., "An Image is Worth 16x16 Words". Shapes are taken apart with `flatten` and `unflatten`, which
need no number of the batch, and where a size is needed it goes into the graph as a value (`x.shape[0]`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class ViTConfig:
    """A tiny one by default."""

    image_size: int = 64
    patch_size: int = 8
    dim: int = 96
    depth: int = 4
    heads: int = 3
    mlp_ratio: float = 4.0
    num_classes: int = 10
    dropout: float = 0.0
    pool: str = "token"

    @property
    def patches(self) -> int:
        return (self.image_size // self.patch_size) ** 2


class PatchEmbed(nn.Module):
    """Image `[batch, 3, height, width]` → patches `[batch, patches, dim]`."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, config.dim, config.patch_size, config.patch_size)

    def forward(self, image: Tensor) -> Tensor:
        return self.proj(image).flatten(2).transpose(1, 2)


class Attention(nn.Module):
    """Multi-head self-attention on `[batch, tokens, dim]`."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.dropout = config.dropout
        self.qkv = nn.Linear(config.dim, 3 * config.dim)
        self.proj = nn.Linear(config.dim, config.dim)

    def forward(self, x: Tensor) -> Tensor:
        qkv = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        out = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0.0)
        return self.proj(out.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        hidden = int(config.dim * config.mlp_ratio)
        self.fc1 = nn.Linear(config.dim, hidden)
        self.fc2 = nn.Linear(hidden, config.dim)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.fc2(self.drop(F.gelu(self.fc1(x)))))


class Block(nn.Module):
    """Attention and a multilayer perceptron, each behind a norm and beside a shortcut."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.dim)
        self.attn = Attention(config)
        self.norm2 = nn.LayerNorm(config.dim)
        self.mlp = Mlp(config)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    """Image `[batch, 3, size, size]` → logits `[batch, num_classes]`."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.pool = config.pool
        self.patch_embed = PatchEmbed(config)
        self.class_token = nn.Parameter(torch.zeros(1, 1, config.dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, config.patches + 1, config.dim))
        self.blocks = nn.Sequential(*(Block(config) for _ in range(config.depth)))
        self.norm = nn.LayerNorm(config.dim)
        self.head = nn.Linear(config.dim, config.num_classes)
        nn.init.trunc_normal_(self.pos_embed, std=0.02)
        nn.init.trunc_normal_(self.class_token, std=0.02)

    def forward(self, image: Tensor) -> Tensor:
        x = self.patch_embed(image)
        token = self.class_token.expand(x.shape[0], -1, -1)
        x = torch.cat([token, x], dim=1) + self.pos_embed
        x = self.norm(self.blocks(x))
        # `self.pool` is a string of ours: the branch is settled when the model is traced.
        x = x[:, 0] if self.pool == "token" else x[:, 1:].mean(dim=1)
        return self.head(x)


def main() -> None:
    torch.manual_seed(0)
    config = ViTConfig()
    model = VisionTransformer(config).eval()
    with torch.inference_mode():
        logits = model(torch.randn(2, 3, config.image_size, config.image_size))
    print(f"logits {tuple(logits.shape)}, {sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters")


if __name__ == "__main__":
    main()

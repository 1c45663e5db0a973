"""A small GPT with a key-value cache and a sampling loop. Does not trace.

Written the usual way: the length of the prompt is a Python number, and it checks, slices and counts with it. Under a
symbolic trace that number is symbolic, so the assertion asks it for a truth value (FX001), and the causal mask, which is
a buffer, is sliced by it (FX004). Both questions are about shapes alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Cache = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class GPTConfig:
    """A toy by default; `block_size` is the longest context."""

    vocab_size: int = 256
    block_size: int = 64
    layers: int = 3
    heads: int = 4
    dim: int = 64
    dropout: float = 0.0


class CausalSelfAttention(nn.Module):
    """Attention to what came before, on `[batch, time, dim]`, with the keys and values of earlier calls."""

    mask: Tensor

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.dim, 3 * config.dim)
        self.proj = nn.Linear(config.dim, config.dim)
        self.drop = nn.Dropout(config.dropout)
        causal = torch.ones(config.block_size, config.block_size, dtype=torch.bool).tril()
        self.register_buffer("mask", causal, persistent=False)

    def forward(self, x: Tensor, past: Cache | None = None) -> tuple[Tensor, Cache]:
        batch, time, dim = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (t.view(batch, time, self.heads, dim // self.heads).transpose(1, 2) for t in (q, k, v))
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)

        total = k.size(2)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.qkv.in_features // self.heads)
        scores = scores.masked_fill(~self.mask[total - time : total, :total], float("-inf"))
        out = self.drop(F.softmax(scores, dim=-1)) @ v
        out = out.transpose(1, 2).reshape(batch, time, dim)
        return self.proj(out), (k, v)


class Block(nn.Module):
    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.dim)
        self.attn = CausalSelfAttention(config)
        self.norm2 = nn.LayerNorm(config.dim)
        self.mlp = nn.Sequential(
            nn.Linear(config.dim, 4 * config.dim),
            nn.GELU(),
            nn.Linear(4 * config.dim, config.dim),
            nn.Dropout(config.dropout),
        )

    def forward(self, x: Tensor, past: Cache | None = None) -> tuple[Tensor, Cache]:
        attended, present = self.attn(self.norm1(x), past)
        x = x + attended
        return x + self.mlp(self.norm2(x)), present


class GPT(nn.Module):
    """Token numbers `[batch, time]` → logits `[batch, time, vocab]` and the cache to pass along with the next token."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.token_embedding = nn.Embedding(config.vocab_size, config.dim)
        self.position_embedding = nn.Embedding(config.block_size, config.dim)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.dim)
        self.head = nn.Linear(config.dim, config.vocab_size, bias=False)
        self.head.weight = self.token_embedding.weight
        self.apply(self._init_weights)

    @staticmethod
    def _init_weights(module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, tokens: Tensor, past: list[Cache] | None = None) -> tuple[Tensor, list[Cache]]:
        time = tokens.size(1)
        seen = 0 if past is None else past[0][0].size(2)
        assert seen + time <= self.config.block_size, "the context is longer than block_size"

        positions = torch.arange(seen, seen + time, device=tokens.device)
        x = self.token_embedding(tokens) + self.position_embedding(positions)
        cache = []
        for index, block in enumerate(self.blocks):
            x, present = block(x, None if past is None else past[index])
            cache.append(present)
        return self.head(self.norm(x)), cache

    @torch.inference_mode()
    def generate(self, prompt: Tensor, new_tokens: int, temperature: float = 1.0) -> Tensor:
        """The prompt `[batch, time]` with sampled tokens appended; each step feeds one token and the cache."""
        tokens, step, past = prompt, prompt, None
        for _ in range(new_tokens):
            logits, past = self(step, past)
            probabilities = F.softmax(logits[:, -1] / temperature, dim=-1)
            step = torch.multinomial(probabilities, num_samples=1)
            tokens = torch.cat([tokens, step], dim=1)
        return tokens


def main() -> None:
    torch.manual_seed(0)
    model = GPT(GPTConfig()).eval()
    logits, _ = model(torch.randint(0, 256, (2, 16)))
    print(f"logits {tuple(logits.shape)}")
    print(f"sampled {model.generate(torch.zeros(1, 4, dtype=torch.long), new_tokens=8).tolist()}")


if __name__ == "__main__":
    main()

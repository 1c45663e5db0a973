"""A denoising network in small: time embedding, residual blocks, cross-attention to a text. Traces as it stands.

The shape of the U-Nets of latent diffusion (Rombach et al., "High-Resolution Image Synthesis with Latent Diffusion
Models"). The frequencies of the time embedding are counted from a constant of ours, so they become part of the graph as
a constant; the optional text is a decision about `None`, which a trace settles by the argument's default.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class DenoiserConfig:
    in_channels: int = 4
    width: int = 32
    time_dim: int = 64
    text_dim: int = 48
    heads: int = 4
    groups: int = 8


class TimeEmbedding(nn.Module):
    """Step numbers `[batch]` → vectors `[batch, time_dim]`: sines and cosines, then a perceptron."""

    frequencies: Tensor

    def __init__(self, config: DenoiserConfig) -> None:
        super().__init__()
        half = config.width // 2
        frequencies = torch.exp(-math.log(10_000.0) * torch.arange(half) / half)
        self.register_buffer("frequencies", frequencies, persistent=False)
        self.mlp = nn.Sequential(
            nn.Linear(config.width, config.time_dim),
            nn.SiLU(),
            nn.Linear(config.time_dim, config.time_dim),
        )

    def forward(self, step: Tensor) -> Tensor:
        angles = step.float()[:, None] * self.frequencies[None, :]
        return self.mlp(torch.cat([angles.cos(), angles.sin()], dim=-1))


class ResidualBlock(nn.Module):
    """Two convolutions, the time added between them as a scale and a shift of the channels."""

    def __init__(self, in_channels: int, out_channels: int, config: DenoiserConfig) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(config.groups, in_channels)
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, padding=1)
        self.time = nn.Linear(config.time_dim, 2 * out_channels)
        self.norm2 = nn.GroupNorm(config.groups, out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1)
        self.shortcut = nn.Identity() if in_channels == out_channels else nn.Conv2d(in_channels, out_channels, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        hidden = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.time(F.silu(time))[:, :, None, None].chunk(2, dim=1)
        hidden = self.norm2(hidden) * (1 + scale) + shift
        return self.shortcut(x) + self.conv2(F.silu(hidden))


class CrossAttention(nn.Module):
    """Pixels `[batch, pixels, dim]` look at a context `[batch, words, context_dim]`, or at themselves without one."""

    def __init__(self, dim: int, context_dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.kv = nn.Linear(context_dim, 2 * dim, bias=False)
        self.proj = nn.Linear(dim, dim)

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        context = x if context is None else context
        k, v = self.kv(context).chunk(2, dim=-1)
        out = F.scaled_dot_product_attention(self.split(self.q(x)), self.split(k), self.split(v))
        return self.proj(out.transpose(1, 2).flatten(2))


class TransformerBlock(nn.Module):
    """Self-attention, attention to the text and a perceptron over the pixels of `[batch, channels, height, width]`."""

    def __init__(self, channels: int, config: DenoiserConfig) -> None:
        super().__init__()
        self.norm_in = nn.GroupNorm(config.groups, channels)
        self.norm1 = nn.LayerNorm(channels)
        self.self_attention = CrossAttention(channels, channels, config.heads)
        self.norm2 = nn.LayerNorm(channels)
        self.text_attention = CrossAttention(channels, config.text_dim, config.heads)
        self.norm3 = nn.LayerNorm(channels)
        self.mlp = nn.Sequential(nn.Linear(channels, 4 * channels), nn.GELU(), nn.Linear(4 * channels, channels))

    def forward(self, x: Tensor, text: Tensor) -> Tensor:
        height, width = x.shape[-2], x.shape[-1]
        pixels = self.norm_in(x).flatten(2).transpose(1, 2)
        pixels = pixels + self.self_attention(self.norm1(pixels))
        pixels = pixels + self.text_attention(self.norm2(pixels), text)
        pixels = pixels + self.mlp(self.norm3(pixels))
        return x + pixels.transpose(1, 2).unflatten(2, (height, width))


class Denoiser(nn.Module):
    """Noisy latent `[batch, 4, h, w]`, step `[batch]`, text `[batch, words, text_dim]` → the noise in the latent."""

    def __init__(self, config: DenoiserConfig) -> None:
        super().__init__()
        width = config.width
        self.time = TimeEmbedding(config)
        self.stem = nn.Conv2d(config.in_channels, width, 3, padding=1)
        self.down = ResidualBlock(width, width, config)
        self.pool = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.middle = ResidualBlock(2 * width, 2 * width, config)
        self.attention = TransformerBlock(2 * width, config)
        self.unpool = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.up = ResidualBlock(2 * width, width, config)
        self.norm = nn.GroupNorm(config.groups, width)
        self.head = nn.Conv2d(width, config.in_channels, 3, padding=1)

    def forward(self, latent: Tensor, step: Tensor, text: Tensor) -> Tensor:
        time = self.time(step)
        fine = self.down(self.stem(latent), time)
        coarse = self.attention(self.middle(self.pool(fine), time), text)
        joined = torch.cat([fine, self.unpool(coarse)], dim=1)
        return self.head(F.silu(self.norm(self.up(joined, time))))


def main() -> None:
    torch.manual_seed(0)
    config = DenoiserConfig()
    model = Denoiser(config).eval()
    with torch.inference_mode():
        noise = model(torch.randn(2, 4, 16, 16), torch.tensor([10, 500]), torch.randn(2, 7, config.text_dim))
    print(f"noise {tuple(noise.shape)}")


if __name__ == "__main__":
    main()

"""U-Net for segmentation, with skip connections that fit images of odd size. Stops torch.fx on a question of shape.

Halving an odd height and doubling it again loses a row, so the decoder pads where the sizes differ. The comparison is of
shapes alone: for images of one size it always goes the same way, but torch.fx traces without shapes and stops (FX001).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class UNetConfig:
    """`width` channels at full resolution, twice as many at each level below."""

    in_channels: int = 1
    classes: int = 2
    width: int = 16
    levels: int = 3
    bilinear: bool = False


class DoubleConv(nn.Sequential):
    """Two times: 3×3 convolution, norm, rectifier."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(
            nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
        )


class Down(nn.Module):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.pool = nn.MaxPool2d(2)
        self.conv = DoubleConv(in_channels, out_channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(self.pool(x))


class Up(nn.Module):
    """Doubles the resolution, fits the result to the encoder's feature map of that level, and joins the two."""

    def __init__(self, in_channels: int, out_channels: int, *, bilinear: bool) -> None:
        super().__init__()
        if bilinear:
            self.up = nn.Sequential(
                nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
                nn.Conv2d(in_channels, out_channels, 1),
            )
        else:
            self.up = nn.ConvTranspose2d(in_channels, out_channels, 2, stride=2)
        self.conv = DoubleConv(2 * out_channels, out_channels)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        x = self.up(x)
        if x.shape[-2:] != skip.shape[-2:]:
            rows = skip.shape[-2] - x.shape[-2]
            columns = skip.shape[-1] - x.shape[-1]
            x = F.pad(x, (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2))
        return self.conv(torch.cat([skip, x], dim=1))


class UNet(nn.Module):
    """Image `[batch, in_channels, height, width]` → logits `[batch, classes, height, width]`."""

    def __init__(self, config: UNetConfig) -> None:
        super().__init__()
        widths = [config.width * 2**level for level in range(config.levels + 1)]
        pairs = list(zip(widths, widths[1:]))
        self.stem = DoubleConv(config.in_channels, config.width)
        self.down = nn.ModuleList(Down(narrow, wide) for narrow, wide in pairs)
        self.up = nn.ModuleList(Up(wide, narrow, bilinear=config.bilinear) for narrow, wide in reversed(pairs))
        self.head = nn.Conv2d(config.width, config.classes, 1)

    def forward(self, image: Tensor) -> Tensor:
        features = [self.stem(image)]
        for down in self.down:
            features.append(down(features[-1]))
        x = features.pop()
        for up in self.up:
            x = up(x, features.pop())
        return self.head(x)


def main() -> None:
    torch.manual_seed(0)
    model = UNet(UNetConfig()).eval()
    with torch.inference_mode():
        even = model(torch.randn(2, 1, 64, 64))
        odd = model(torch.randn(1, 1, 75, 50))
    print(f"logits {tuple(even.shape)} and {tuple(odd.shape)}")


if __name__ == "__main__":
    main()

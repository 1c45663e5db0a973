"""ResNet for images: basic and bottleneck blocks, stages, zero-initialised residuals. Traces as it stands.

After He et al., "Deep Residual Learning for Image Recognition". The decisions in the forward passes are made on
attributes that the constructor has set, never on a tensor, so every one of them is settled when the model is traced.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class ResNetConfig:
    """How deep and how wide."""

    depths: tuple[int, int, int, int] = (2, 2, 2, 2)
    width: int = 64
    bottleneck: bool = False
    num_classes: int = 1000
    zero_init_residual: bool = True

    @classmethod
    def resnet18(cls, **changes) -> ResNetConfig:
        return cls(depths=(2, 2, 2, 2), **changes)

    @classmethod
    def resnet50(cls, **changes) -> ResNetConfig:
        return cls(depths=(3, 4, 6, 3), bottleneck=True, **changes)


def conv_bn(in_channels: int, out_channels: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, kernel, stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(out_channels),
    )


class BasicBlock(nn.Module):
    """Two 3×3 convolutions around a shortcut."""

    expansion = 1

    def __init__(self, in_channels: int, channels: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = conv_bn(in_channels, channels, 3, stride)
        self.conv2 = conv_bn(channels, channels, 3)
        self.shortcut = None
        if stride != 1 or in_channels != channels:
            self.shortcut = conv_bn(in_channels, channels, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.shortcut is None else self.shortcut(x)
        out = F.relu(self.conv1(x))
        out = self.conv2(out)
        return F.relu(out + identity)


class Bottleneck(nn.Module):
    """1×1, 3×3, 1×1, the stride on the middle one."""

    expansion = 4

    def __init__(self, in_channels: int, channels: int, stride: int = 1) -> None:
        super().__init__()
        out_channels = channels * self.expansion
        self.conv1 = conv_bn(in_channels, channels, 1)
        self.conv2 = conv_bn(channels, channels, 3, stride)
        self.conv3 = conv_bn(channels, out_channels, 1)
        self.shortcut = None
        if stride != 1 or in_channels != out_channels:
            self.shortcut = conv_bn(in_channels, out_channels, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.shortcut is None else self.shortcut(x)
        out = F.relu(self.conv1(x))
        out = F.relu(self.conv2(out))
        out = self.conv3(out)
        return F.relu(out + identity)


class ResNet(nn.Module):
    """Image `[batch, 3, height, width]` → logits `[batch, num_classes]`."""

    def __init__(self, config: ResNetConfig) -> None:
        super().__init__()
        self.config = config
        block = Bottleneck if config.bottleneck else BasicBlock
        self.stem = nn.Sequential(
            conv_bn(3, config.width, 7, stride=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        stages = []
        channels = config.width
        for index, depth in enumerate(config.depths):
            width = config.width * 2**index
            blocks = []
            for number in range(depth):
                stride = 2 if index > 0 and number == 0 else 1
                blocks.append(block(channels, width, stride))
                channels = width * block.expansion
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.ModuleList(stages)
        self.head = nn.Linear(channels, config.num_classes)
        self._init_weights()

    def _init_weights(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        if self.config.zero_init_residual:
            for module in self.modules():
                if isinstance(module, BasicBlock):
                    nn.init.zeros_(module.conv2[1].weight)
                elif isinstance(module, Bottleneck):
                    nn.init.zeros_(module.conv3[1].weight)

    def forward_features(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
        return x

    def forward(self, x: Tensor) -> Tensor:
        x = self.forward_features(x)
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)
        return self.head(x)


def main() -> None:
    torch.manual_seed(0)
    model = ResNet(ResNetConfig.resnet18(num_classes=10)).eval()
    with torch.inference_mode():
        logits = model(torch.randn(2, 3, 64, 64))
    print(f"logits {tuple(logits.shape)}, {sum(p.numel() for p in model.parameters()) / 1e6:.1f} M parameters")


if __name__ == "__main__":
    main()

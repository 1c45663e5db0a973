"""An anchor-free detection head on a feature pyramid, with its post-processing. Does not trace.

The features come as a list of unknown length that `forward` walks (FX003), the learned scales stand in a plain Python
list where no module can see them (FX007), the grid of points is made by NumPy from symbolic sizes (FX006), and the
post-processing asks how many boxes are left before it goes on (FX001, FX002).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class HeadConfig:
    channels: int = 32
    classes: int = 5
    strides: tuple[int, ...] = (8, 16, 32)
    tower: int = 2
    score_threshold: float = 0.05
    iou_threshold: float = 0.6
    detections: int = 20


class Scale(nn.Module):
    """A learned factor, one for each level of the pyramid."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


def tower(config: HeadConfig) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(config.tower):
        layers += [
            nn.Conv2d(config.channels, config.channels, 3, padding=1),
            nn.GroupNorm(8, config.channels),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers)


def overlaps(box: Tensor, others: Tensor) -> Tensor:
    """Intersection over union of one box `[4]` with others `[n, 4]`."""
    top_left = torch.maximum(box[:2], others[:, :2])
    bottom_right = torch.minimum(box[2:], others[:, 2:])
    intersection = (bottom_right - top_left).clamp(min=0).prod(dim=-1)
    areas = (others[:, 2:] - others[:, :2]).prod(dim=-1)
    return intersection / (areas + (box[2:] - box[:2]).prod() - intersection).clamp(min=1e-6)


def suppress(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    """The numbers of the boxes that no better box covers, best first."""
    order = scores.argsort(descending=True)
    kept = []
    while order.numel() > 0:
        best = order[0]
        kept.append(best)
        order = order[1:]
        order = order[overlaps(boxes[best], boxes[order]) < threshold]
    return torch.stack(kept)


class DetectionHead(nn.Module):
    """Feature maps, finest first, each `[1, channels, height, width]` → boxes `[n, 4]`, scores `[n]`, labels `[n]`."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        self.config = config
        self.class_tower = tower(config)
        self.box_tower = tower(config)
        self.class_logits = nn.Conv2d(config.channels, config.classes, 3, padding=1)
        self.box_deltas = nn.Conv2d(config.channels, 4, 3, padding=1)
        self.scales = [Scale() for _ in config.strides]
        # So that at the start nearly everything is background.
        nn.init.constant_(self.class_logits.bias, -float(np.log((1 - 0.01) / 0.01)))

    def points(self, feature: Tensor, stride: int) -> Tensor:
        """The centres of the feature map's cells, in pixels, `[height · width, 2]`."""
        height, width = feature.shape[-2:]
        ys, xs = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
        centres = np.stack([xs, ys], axis=-1).reshape(-1, 2)
        return torch.as_tensor((centres + 0.5) * stride, dtype=feature.dtype, device=feature.device)

    def level(self, feature: Tensor, number: int) -> tuple[Tensor, Tensor]:
        """Boxes `[cells, 4]` and class probabilities `[cells, classes]` of one level."""
        stride = self.config.strides[number]
        logits = self.class_logits(self.class_tower(feature))
        deltas = F.relu(self.scales[number](self.box_deltas(self.box_tower(feature)))) * stride
        deltas = deltas[0].flatten(1).T
        points = self.points(feature, stride)
        boxes = torch.cat([points - deltas[:, :2], points + deltas[:, 2:]], dim=-1)
        return boxes, logits[0].flatten(1).T.sigmoid()

    def forward(self, features: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        boxes, probabilities = [], []
        for number, feature in enumerate(features):
            level_boxes, level_probabilities = self.level(feature, number)
            boxes.append(level_boxes)
            probabilities.append(level_probabilities)
        return self.select(torch.cat(boxes), torch.cat(probabilities))

    def select(self, boxes: Tensor, probabilities: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The best boxes, at most `detections` of them, without duplicates of a class."""
        scores, labels = probabilities.max(dim=-1)
        keep = scores > self.config.score_threshold
        boxes, scores, labels = boxes[keep], scores[keep], labels[keep]
        if boxes.numel() == 0:
            return boxes, scores, labels
        # Boxes of different classes are moved apart, so that they do not suppress each other.
        offset = labels[:, None] * (boxes.max() + 1)
        kept = suppress(boxes + offset, scores, self.config.iou_threshold)
        if len(kept) > self.config.detections:
            kept = kept[: self.config.detections]
        return boxes[kept], scores[kept], labels[kept]


def main() -> None:
    torch.manual_seed(0)
    config = HeadConfig(score_threshold=0.005)
    model = DetectionHead(config).eval()
    pyramid = [torch.randn(1, config.channels, 128 // stride, 128 // stride) for stride in config.strides]
    with torch.inference_mode():
        boxes, scores, labels = model(pyramid)
    print(f"boxes {tuple(boxes.shape)}, scores {tuple(scores.shape)}, labels {tuple(labels.shape)}")


if __name__ == "__main__":
    main()

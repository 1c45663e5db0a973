"""The C++ operators of torchvision that its import and its detectors need, for a build whose extension does not load.

PyPI's torchvision is built for CUDA, and beside a CPU build of torch its extension is left out, whereupon a plain
`import torchvision` fails because the schema of `nms` is missing. `make corpus` copies this file into `.corpus` and
lets `torchvision/extension.py` import it: the library imports anywhere without help from the importing program.
The pooling operators are not here: torchvision brings Python versions of those.
"""

import torch
from torch.library import Library

_fragment = Library("torchvision", "FRAGMENT")
_fragment.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
_fragment.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def _overlaps(box: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """Intersection over union, `[n]`, of one box `[4]` and others `[n, 4]`, corners as `x1, y1, x2, y2`."""
    top_left = torch.maximum(box[:2], others[:, :2])
    bottom_right = torch.minimum(box[2:], others[:, 2:])
    intersection = (bottom_right - top_left).clamp(min=0).prod(dim=1)
    area = (box[2:] - box[:2]).prod()
    areas = (others[:, 2:] - others[:, :2]).prod(dim=1)
    return intersection / (area + areas - intersection)


def _nms(dets: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    """The indices of the boxes that are kept, best score first."""
    left = scores.argsort(descending=True, stable=True)
    kept: list[torch.Tensor] = []
    while left.numel():
        best, left = left[0], left[1:]
        kept.append(best)
        left = left[_overlaps(dets[best], dets[left]) <= iou_threshold]
    return torch.stack(kept) if kept else left


_fragment.impl("nms", _nms, "CPU")

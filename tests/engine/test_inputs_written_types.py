"""Annotations that are read as they are written, since what defines them is not installed, or says nothing."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fxengine.inputs.written_types import axes_written, kinds_written
from tests.support.feeding import fed


class TensorType:
    """As torchtyping has it; nothing is left of what it is told."""

    def __class_getitem__(cls, _axes):
        return Any


Float = Int = Bool = TensorType


class OfTorchtyping(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 8)

    def forward(self, seq: TensorType["b", "n", int], lengths: TensorType["b", int], extra: TensorType["b", "n", 8]):  # noqa: F821
        assert not seq.is_floating_point()
        assert not lengths.is_floating_point()
        return self.table(seq) + extra + lengths[:, None, None]


class OfJaxtyping(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 8)

    def forward(
        self,
        seq: Int["b n"],  # noqa: F722
        weights: Float[Tensor, "b n d"],  # noqa: F722
        kept: Bool["b n"] | None,  # noqa: F722
    ):
        assert kept is None or kept.dtype == torch.bool
        return (self.table(seq) * weights.softmax(-1)).sum(-1)


@pytest.mark.parametrize(
    ("root", "axes", "kinds"),
    [
        (
            OfTorchtyping(),
            {"seq": "b n", "lengths": "b", "extra": "b n 8"},
            {"seq": "LongTensor", "lengths": "LongTensor"},
        ),
        (OfJaxtyping(), {"seq": "b n", "weights": "b n d", "kept": "b n"}, {"seq": "LongTensor", "kept": "BoolTensor"}),
    ],
    ids=["torchtyping", "jaxtyping"],
)
def test_axes_and_kinds_are_told_by_annotations_as_they_are_written(root, axes, kinds):
    assert axes_written(root, list(axes)) == axes
    assert kinds_written(root, list(axes)) == kinds
    inferred = fed(root)
    assert inferred.args[0].dtype == torch.int64
    assert not inferred.failures

"""Inputs that are kept as they are: what only weights are to blame for, and sizes that layers keep as tensors."""

import torch
from torch import Tensor, nn

from fxengine.inputs import infer_inputs


class Diverging(nn.Module):
    """Makes of its weights, whatever they are given, what no distribution takes."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)

    def forward(self, x: Tensor):
        rows = torch.stack([self.first(each) for each in x])
        return torch.distributions.Normal(rows * float("nan"), 1.0, validate_args=True).mean


def test_what_weights_make_is_not_looked_for_a_way_out_of_by_larger_inputs():
    inferred = infer_inputs(Diverging(), budget_s=60.0)
    assert inferred.complete
    assert inferred.expression == "torch.randn(2, 8)"


class Stepping(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(8, 4)
        setattr(self.cell, "input_size", torch.tensor(8))  # noqa: B010 - no checker would let it be.

    def forward(self, x: Tensor):
        return self.cell(x)[0]


def test_sizes_that_a_layer_keeps_as_tensors_are_numbers():
    assert infer_inputs(Stepping()).expression == "torch.randn(2, 8)"

"""Which sizes did not agree where a model stopped."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - torch's own name for it.

from fxengine.inputs import disagreements, infer_inputs


class Own(nn.Module):
    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, x):
        return self.call(torch.zeros(2, 6, 8, 8) + 0 * x.sum())


@pytest.mark.parametrize(
    ("call", "sizes"),
    [
        (lambda x: F.conv2d(x, torch.zeros(4, 5, 1, 1)), (6, 5)),
        (lambda x: F.conv2d(x, torch.zeros(4, 5, 1, 1), groups=2), (6, 10)),
        (lambda x: F.conv_transpose2d(x, torch.zeros(4, 5, 1, 1)), (6, 4)),
        (lambda x: F.linear(x, torch.zeros(4, 5)), (8, 5)),
        (lambda x: F.layer_norm(x, (5,), torch.zeros(5)), (8, 5)),
        (lambda x: x @ torch.zeros(5, 4), (8, 5)),
        (lambda x: x + torch.zeros(2, 12, 8, 8), (6, 12)),
        (lambda x: torch.cat([x, torch.zeros(2, 6, 4, 8)], 1), (8, 4)),
    ],
)
def test_an_operation_tells_what_it_got_and_what_it_wanted(call, sizes):
    found = infer_inputs(Own(call), budget_s=0.5)
    assert not found.complete
    assert found.stopped is not None
    assert sizes in disagreements(found.stopped)


def test_a_model_that_runs_has_not_stopped():
    assert infer_inputs(nn.Linear(4, 2)).stopped is None


class Labelled(nn.Module):
    """Has a flag for each of twice as many points as it is given."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(3, 24)
        self.other = nn.Embedding(1, 24)

    def forward(self, points, labels):
        _, _ = labels.shape
        x = self.embed(torch.cat([points] * 2, 1))
        x[labels == 0] += self.other.weight
        return x


def test_a_mask_has_as_many_flags_as_there_are_rows():
    found = infer_inputs(Labelled().eval(), budget_s=30.0)
    assert found.complete
    assert len(found.failures) == 1


class Assigned(nn.Module):
    """Puts what a layer makes of one input in the place of what another makes."""

    def __init__(self):
        super().__init__()
        self.whole = nn.Linear(3, 24)
        self.part = nn.Linear(5, 24)

    def forward(self, coords, kept):
        y = self.whole(coords)
        y[:, 1:] = self.part(kept)
        return y


def test_what_is_assigned_is_no_index():
    _, kept = infer_inputs(Assigned().eval(), budget_s=30.0).args
    assert (kept.dtype, kept.shape) == (torch.float32, (2, 1, 5))

"""Of what rank inputs are where no layer says so: sums over named axes, outer products, losses, tables."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - torch's own name for it.

from fxengine.inputs import materialize
from tests.support.feeding import fed


class Frequencies(nn.Module):
    """Each number times each frequency."""

    def forward(self, x: Tensor):
        frequencies = torch.exp(-torch.arange(8, device=x.device))
        angles = x[:, None] * frequencies[None, :]
        return torch.cat((angles.sin(), angles.cos()), dim=-1)


def test_what_each_of_is_multiplied_with_each_of_others_is_a_row_of_numbers():
    (x,) = fed(Frequencies()).args
    assert x.dim() == 1


class Attend(nn.Module):
    """Attention of several heads without weights."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor):
        weights = torch.einsum("b h i d, b h j d -> b h i j", q, k).softmax(-1)
        return torch.einsum("bhij,bhjd->bhid", weights, v)


def test_what_is_summed_over_named_axes_has_these():
    inferred = fed(Attend())
    assert {each.dim() for each in inferred.args} == {4}
    assert not inferred.failures
    assert inferred.args[0].shape[-1] == 64


class Nearest(nn.Module):
    """Each head attends to what is most like its queries, and keys say what that is."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor):
        likeness = torch.einsum("b h i d, b h j d -> b h i j", q, k)
        nearest = likeness.argmax(-1)[..., None].expand(-1, -1, -1, v.shape[-1])
        return v.gather(2, nearest)


def test_what_is_gathered_from_has_the_dimensions_of_what_tells_where():
    inferred = fed(Nearest())
    assert {each.dim() for each in inferred.args} == {4}


class SquaredLoss(nn.Module):
    """The mean square of the errors."""

    def forward(self, input: Tensor, target: Tensor):  # noqa: A002 - as torch's own losses call it.
        return ((input - target) ** 2).mean()


class EntropyLoss(nn.Module):
    """The entropy of classes."""

    def forward(self, input: Tensor, target: Tensor):  # noqa: A002 - as torch's own losses call it.
        return F.cross_entropy(input, target)


def test_losses_are_of_vectors_and_of_targets_that_fit_them():
    predicted, target = fed(SquaredLoss()).args
    assert predicted.dim() == 2
    assert target.shape == predicted.shape
    scores, labels = fed(EntropyLoss()).args
    assert scores.dim() == 2
    assert labels.shape == scores.shape[:1]


class OfColumns(nn.Module):
    """A model of a table without a layer that says so."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(8, 64))

    def forward(self, X: Tensor):
        return F.linear(X, self.weight)


def test_a_table_has_rows_of_numbers():
    (table,) = fed(OfColumns()).args
    assert table.shape == (2, 64)


class VectorEncoder(nn.Module):
    """Encodes what is observed."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 8)

    def forward(self, x: Tensor):
        return self.layer(x).relu()


def test_an_encoder_is_not_one_of_sequences_by_its_name_alone():
    assert fed(VectorEncoder()).args[0].shape == (2, 5)


class NamedByAxes(nn.Module):
    """The names of its inputs end in their axes."""

    def __init__(self):
        super().__init__()
        self.layer = nn.GRU(24, 8, batch_first=True)

    def forward(self, frames_BxLxM: Tensor, seq_lengths_B: Tensor):
        packed = nn.utils.rnn.pack_padded_sequence(frames_BxLxM, seq_lengths_B, batch_first=True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.layer(packed)[0], batch_first=True)[0]


def test_axes_behind_a_name_are_those_of_the_input():
    inferred = fed(NamedByAxes())
    frames, lengths = inferred.args
    assert frames.shape == (2, 16, 24)
    assert lengths.shape == (2,)
    assert "torch.full" in inferred.expression


class OfLengths(nn.Module):
    """What it is told of the lengths is not called so."""

    def __init__(self):
        super().__init__()
        self.layer = nn.GRU(24, 8, batch_first=True)

    def forward(self, x: Tensor, valid: Tensor):
        packed = nn.utils.rnn.pack_padded_sequence(x, valid, batch_first=True, enforce_sorted=False)
        return self.layer(packed)[1]


def test_what_sequences_are_packed_by_are_their_lengths():
    assert "torch.full((2,), 16)" in fed(OfLengths()).expression


class OfTyped(nn.Module):
    """Looks at the type itself."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 8)

    def forward(self, levels: Any):
        assert type(levels) is list
        return sum(self.layer(each) for each in levels)


def test_the_type_that_is_asserted_is_given():
    assert fed(OfTyped()).expression.startswith("[")


class Filtered(nn.Module):
    """Takes a spectrum with its two parts behind each other, and looks at some frames together."""

    def __init__(self):
        super().__init__()
        self.pad = nn.ConstantPad2d((0, 0, 4, 0), 0.0)

    def forward(self, spectrum: Tensor) -> Tensor:
        frames = self.pad(torch.view_as_complex(spectrum)).unfold(2, 5, 1)
        return frames.mean(-1)


def test_the_parts_of_complex_numbers_are_a_dimension_more():
    sizes = fed(Filtered()).args[0].shape
    assert (len(sizes), sizes[-1]) == (5, 2)


class InSteps(nn.Module):
    """Writes what it is given step by step into what goes to a layer, twice as wide."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(6, 8))

    def forward(self, x):
        steps = torch.zeros(3, *x.shape)
        for step in range(3):
            steps[step] = x
        x = torch.cat([steps, steps], dim=2)
        count, batch, _ = x.shape
        return sum(F.linear(x[step], self.weight) for step in range(count)).view(batch, 6)


def test_what_was_written_into_is_of_what_was_written():
    inferred = fed(InSteps())
    assert inferred.args[0].shape == (2, 4)
    assert len(inferred.failures) == 2


class OfClouds(nn.Module):
    """Takes the points of two clouds together, whose features a layer takes side by side."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 8)
        self.norm = nn.BatchNorm1d(8)

    def forward(self, *clouds: Tensor):
        joined = torch.cat((clouds[0], clouds[1]), dim=1)
        return self.norm(self.layer(joined.max(dim=-1)[0]))


def test_what_a_layer_takes_of_the_points_of_several_clouds_is_joined_before():
    inferred = fed(OfClouds())
    assert [each.shape for each in inferred.args] == [(2, 32, 16), (2, 32, 16)]
    assert len(inferred.failures) <= 4


class InOneRow(nn.Module):
    """Lays the steps of two series side by side, which have as many as a layer takes."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(8, 4)
        self.layer = nn.Linear(24 * 8 + 24 * 4, 16)

    def forward(self, series: Tensor, known: Tensor):
        rows = [each.reshape(len(each), -1) for each in (series, self.embed(known))]
        return self.layer(torch.cat(rows, dim=-1))


def test_what_is_laid_side_by_side_has_as_many_steps_as_fit_a_layer():
    inferred = fed(InOneRow())
    assert [each.shape for each in inferred.args] == [(2, 24, 8), (2, 24, 8)]
    assert len(inferred.failures) == 1


class Positions(nn.Module):
    """Adds a vector to each step, by a table that is cut, or as long as the sequence."""

    def __init__(self, *shape: int, along: int | None):
        super().__init__()
        self.register_buffer("table", torch.zeros(shape))
        self.along = along

    def forward(self, x):
        if self.along is None:
            return x + self.table
        return x + (self.table[:, : x.size(1)] if self.along else self.table[: x.size(0)])


@pytest.mark.parametrize(
    ("positions", "shape"),
    [
        (Positions(1, 500, 24, along=1), (2, 16, 24)),
        (Positions(500, 1, 24, along=0), (2, 16, 24)),
        (Positions(1, 36, 24, along=None), (2, 36, 24)),
        (Positions(20, 20, along=None), (2, 3, 20, 20)),
    ],
)
def test_what_meets_a_table_of_vectors_is_a_sequence(positions, shape):
    assert fed(positions).args[0].shape == shape


class InEachPicture(nn.Module):
    """Takes three numbers of each point, for one picture."""

    def __init__(self):
        super().__init__()
        self.attend = nn.MultiheadAttention(24, 2, batch_first=True)
        self.weights = nn.Parameter(torch.ones(3, 2))

    def forward(self, x, places):
        """Weigh places.

        Args:
            x: of shape (batch, points, channels)
            places: of shape (batch, points, 3)
        """
        weighed = places[:, :, None, :, :] @ self.weights
        return self.attend(x, x, x)[0][..., None] * weighed.view(*x.shape[:2], 1, 2)


def test_the_numbers_of_a_point_stay_the_last():
    x, places = fed(InEachPicture()).args
    assert places.shape == (*x.shape[:2], 1, 3)


class Besides(nn.Module):
    """Takes sizes with something else beside them."""

    def __init__(self):
        super().__init__()
        self.heads = 2
        self.kept = nn.Identity()

    def forward(self, x):
        b, n, d, heads, device = *self.kept(x).shape, self.heads, x.device
        return x.reshape(b, n, heads, d // heads) + torch.zeros((), device=device)


def test_sizes_are_counted_without_what_stands_beside_them():
    assert len(fed(Besides()).args[0].shape) == 3


class Multiplies(nn.Module):
    """Multiplies what it is given, batch by batch or not."""

    def __init__(self, *, in_batches: bool):
        super().__init__()
        self.in_batches = in_batches

    def forward(self, a, b):
        return torch.bmm(a, b) if self.in_batches else a.mm(b)


@pytest.mark.parametrize(("in_batches", "rank"), [(True, 3), (False, 2)])
def test_factors_have_the_rank_that_their_product_takes(in_batches, rank):
    inferred = fed(Multiplies(in_batches=in_batches))
    assert {each.dim() for each in inferred.args} == {rank}
    assert len(inferred.failures) == 1


class Biaffine(nn.Module):
    """Sums up by an equation what it has put ones to the end of."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 25, 25))

    def forward(self, x, y):
        x, y = (torch.cat((each, torch.ones_like(each[..., :1])), -1) for each in (x, y))
        return torch.einsum("bxi,oij,byj->boxy", x, self.weight, y)


def test_what_is_summed_up_has_the_axes_of_its_equation():
    inferred = fed(Biaffine())
    assert [(each.dim(), each.shape[-1]) for each in inferred.args] == [(3, 24), (3, 24)]
    assert len(inferred.failures) <= 2


class OfLevels(nn.Module):
    """Takes the first of what it is given as a picture, channels last."""

    def forward(self, embeddings: Tensor) -> Tensor:
        return embeddings[0].permute(0, 3, 1, 2).mean((-2, -1))


def test_an_input_has_as_many_more_dimensions_as_a_part_of_it_lacks():
    inferred = fed(OfLevels())
    assert inferred.args[0].dim() == 5


class Encodes(nn.Module):
    """Joins places in a picture with a number of each, for two pictures."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Conv1d(3, 8, 1)

    def forward(self, data):
        first = self.encode(data["keypoints0"], data["scores0"])
        return first.mean(-1) + self.encode(data["keypoints1"], data["scores1"]).mean(-1)

    def encode(self, keypoints, scores):
        return self.encoder(torch.cat([keypoints.transpose(1, 2), scores.unsqueeze(1)], dim=1))


def test_what_is_joined_has_the_rank_of_what_it_is_joined_to():
    (data,) = fed(Encodes()).args
    assert data["keypoints0"].shape[2:] == (2,)
    assert data["scores0"].shape == data["keypoints0"].shape[:2]


class OfClasses(nn.Module):
    """Compares scores of seven classes with others."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 7)

    def forward(self, x, wanted):
        assert wanted.dtype == torch.int64
        return nn.functional.cross_entropy(self.fc(x), wanted)


def test_there_are_as_many_classes_as_scores():
    root = OfClasses()
    inferred = fed(root)
    x, _ = materialize(inferred)[0]
    assert inferred.recipes["wanted"].high == root.fc(x).shape[1]


class InGroups(nn.Module):
    """Takes the examples twelve by twelve, as the faces of a sphere."""

    def __init__(self):
        super().__init__()
        self.see = nn.Conv2d(3, 4, 1)

    def forward(self, x):
        faces = self.see(x)
        return faces.view(-1, 12, *faces.shape[1:]).mean(1)


def test_examples_that_are_taken_together_are_as_many():
    assert fed(InGroups()).args[0].shape[0] == 12


class Corresponding(nn.Module):
    """Takes two tables of as many points, and says of how many at least."""

    def forward(self, kp1, kp2):
        """Match points.

        Args:
            kp1: points :math:`(B, N, 2)`, or one example's
            kp2: as many
        """
        for each in (kp1, kp2):
            if each.dim() != 2:
                raise ValueError(f"Shape dimension mismatch: expected 2 dimensions, got {each.dim()}")
        if kp1.shape != kp2.shape or kp1.shape[0] < 4:
            raise ValueError(
                f"kp1 and kp2 should be of equal shape, of at least [4, 2], got {kp1.shape} and {kp2.shape}"
            )
        return kp1 @ kp2.T


def test_what_a_message_wants_of_several_inputs_is_given_to_all_of_them():
    one, other = fed(Corresponding(), budget_s=2.0).args
    assert one.shape == other.shape == (4, 2)

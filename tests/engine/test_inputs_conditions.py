"""Inputs that a search finds by what the user's code asks of numbers: those computed from sizes, and those in lists."""

import ast
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

from fxengine.classification import moments_of
from fxengine.inputs import infer_inputs
from fxengine.inputs.conditions import conditions
from tests.support.feeding import fed

if TYPE_CHECKING:
    from decimal import Decimal


class OfVolumes(nn.Module):
    """As losses that work on what has so many dimensions in space, and know of nothing else."""

    def forward(self, data: Tensor):
        n_dim = len(data.shape) - 2
        if n_dim == 5:
            channels = data.shape[1]
        return data * torch.ones(channels, *(1,) * n_dim)


def test_a_name_without_a_value_asks_for_a_branch_that_gives_it_one():
    inferred = fed(OfVolumes())
    assert len(inferred.args[0].shape) == 7
    assert len(inferred.failures) < 3


class OfSteps(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.LayerNorm(8)

    def forward(self, x: Tensor):
        batch, length, width = self.first(x).shape
        steps = (length - 4) // 3
        if steps != 9:
            raise ValueError("wrong number of steps")
        return x[:, 4:].view(batch, steps, 3, width)


def test_a_number_is_followed_to_the_size_that_it_was_computed_from():
    inferred = fed(OfSteps())
    assert inferred.args[0].shape == (2, 31, 8)
    assert len(inferred.failures) == 1


class InFrames(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.LayerNorm(8)

    def forward(self, x: Tensor, grid: list[int]):
        frames, height, width = grid
        batch, _, features = self.first(x).shape
        return x.reshape(batch, frames, height, width, features)


def test_a_picture_of_tokens_gets_frames_where_three_sizes_are_wanted():
    inferred = fed(InFrames())
    assert inferred.args[1] == [1, 4, 4]


class AfterAToken(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.LayerNorm(8)

    def forward(self, x: Tensor, grid: list[int]):
        frames, height, width = grid
        return self.first(x)[:, 1:].reshape(x.shape[0], frames, height, width, 8)


def test_a_token_that_is_cut_off_is_made_up_for():
    inferred = fed(AfterAToken())
    assert inferred.args[0].shape == (2, 17, 8)
    assert inferred.args[1] == [1, 4, 4]


class Merging(nn.Module):
    """As the layers of window attention that are told the sides of the picture."""

    def __init__(self):
        super().__init__()
        self.reduction = nn.Linear(8, 4)

    def forward(self, x, H, W):
        batch, length, width = x.shape
        assert length == H * W, "input feature has wrong size"
        return self.reduction(x.view(batch, H, W, width))


def test_what_sizes_are_made_of_is_a_number():
    inferred = fed(Merging())
    assert inferred.args[1:] == (4, 4)
    assert not inferred.failures


def check(condition, message):
    if not condition:
        raise RuntimeError(message)


class Checked(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.resolution = (5, 7)
        self.how = how

    def forward(self, x: Tensor):
        height, width = self.resolution
        _, length, _ = x.shape
        self.how(length == height * width, "input feature has wrong size")
        return self.norm(x)


def test_what_a_function_checks_is_made_to_hold():
    for how in (torch._assert, check):
        inferred = fed(Checked(how))
        assert inferred.args[0].shape == (2, 35, 8)
        assert len(inferred.failures) == 1


class Step(nn.Module):
    def forward(self, x: Tensor, denoiser):
        return x - denoiser(x, 0.1, verbose=False)


def test_a_function_of_several_arguments_returns_the_first():
    assert "lambda" in fed(Step(), budget_s=5.0).expression


class WithPrior(nn.Module):
    def forward(self, x: Tensor, prior):
        return x - prior.grad(x, 0.1)


def test_an_object_is_not_taken_for_a_tensor_because_tensors_have_what_is_called():
    assert "grad" in fed(WithPrior(), budget_s=5.0).expression


class OfShapes(nn.Module):
    """Says what shape its input has, the batch apart, as a tuple of its own."""

    def __init__(self):
        super().__init__()
        self.input_shape = (5, 9, 12, 20)
        self.first = nn.Conv3d(5, 2, 1)

    def forward(self, x):
        assert x.shape[1:] == self.input_shape
        return self.first(x)


def test_a_part_of_a_shape_that_is_checked_leaves_the_rest():
    inferred = fed(OfShapes())
    assert inferred.args[0].shape == (2, 5, 9, 12, 20)
    assert len(inferred.failures) == 1


class Stepping(nn.Module):
    def forward(self, x, settings):
        return x * settings["stride"].mean() + (settings["weight"] + settings["bias"]).mean()


def test_all_keys_that_are_looked_up_are_given_at_once():
    inferred = fed(Stepping(), budget_s=5.0)
    assert set(inferred.args[1]) == {"stride", "weight", "bias"}
    assert len(inferred.failures) < 3


class HalfAnnotated(nn.Module):
    def forward(self, x: "Decimal", steps: "list[int]"):
        return x.sum() * len([*steps, 1])


def test_an_annotation_counts_though_another_cannot_be_resolved():
    assert isinstance(fed(HalfAnnotated(), budget_s=5.0).args[1], list)


class CheckedByName(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(20))

    def forward(self, x: Tensor):
        fits = x.shape[-1] == self.weight.shape[0]
        if not fits:
            raise ValueError("wrong shape")
        return x * self.weight


def test_a_condition_that_has_a_name_is_looked_up():
    inferred = fed(CheckedByName())
    assert inferred.args[0].shape[-1] == 20
    assert len(inferred.failures) < 5


def test_what_generated_code_has_let_go_of_is_looked_up():
    class Checked(nn.Module):
        def forward(self, x: Tensor):
            torch._assert(x.shape[-1] == 20, "wrong size")
            return x.relu()

    inferred = fed(torch.fx.symbolic_trace(Checked()))
    assert inferred.args[0].shape[-1] == 20
    assert len(inferred.failures) == 1


class OfSpectra(nn.Module):
    def forward(self, spectrum: Tensor):
        return torch.istft(spectrum, n_fft=30, window=torch.ones(30))


def test_a_spectrum_is_complex_and_has_the_frequencies_of_its_window():
    inferred = fed(OfSpectra())
    assert inferred.args[0].is_complex()
    assert inferred.args[0].shape[-2] == 16


class AlongOne(nn.Module):
    def forward(self, x: Tensor, along):
        if along == "rows":
            return x.sum(0)
        if along == "columns":
            return x.sum(1)
        raise ValueError(f"nothing lies along {along}")


class Otherwise(nn.Module):
    def forward(self, x: Tensor, along):
        if along == "rows":
            x = x.sum(0)
        elif along == "columns":
            x = x.sum(1)
        else:
            raise ValueError(f"nothing lies along {along}")
        return x


@pytest.mark.parametrize("model", [AlongOne, Otherwise])
def test_what_is_compared_with_texts_is_one_of_them(model):
    inferred = fed(model())
    assert inferred.args[1] in {"rows", "columns"}
    assert not inferred.failures


class OfLists(nn.Module):
    def forward(self, *scales):
        assert all(isinstance(each, (tuple, list)) for each in scales), "lists are wanted"
        return [sum(each) for each in scales]


def test_each_of_the_inputs_is_of_a_type():
    inferred = fed(OfLists())
    assert all(isinstance(each, list) for each in inferred.args)
    assert len(inferred.failures) == 1


class OfPacked(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(6, 6)

    def forward(self, frames):
        if not isinstance(frames, nn.utils.rnn.PackedSequence):
            raise NotImplementedError("only packed frames")
        return self.cell(frames.data)


def test_what_is_to_be_packed_is_packed():
    inferred = fed(OfPacked())
    assert inferred.args[0].data.shape[1] == 6


class OfType(nn.Module):
    """As what loads pictures as they lie on a disk, and as what is asked for before it is looked up."""

    def __init__(self, check):
        super().__init__()
        self.check = check

    def forward(self, x: Tensor):
        self.check(x)
        return x.float() / 255


def _bytes(x: Tensor):
    assert x.dtype == torch.uint8, "pictures are bytes"


def _wholes(x: Tensor):
    if x.dtype not in (torch.int32, torch.int64):
        raise TypeError("no such numbers")


def _no_fractions(x: Tensor):
    if x.is_floating_point():
        raise TypeError("no such numbers")


@pytest.mark.parametrize(
    ("check", "dtype"), [(_bytes, torch.uint8), (_wholes, torch.int32), (_no_fractions, torch.int64)]
)
def test_a_type_that_is_asked_for_is_given(check, dtype):
    inferred = fed(OfType(check))
    assert inferred.args[0].dtype is dtype
    assert len(inferred.failures) == 1


class OfTables(nn.Module):
    """A dictionary of which one table may be left out in general, and not in a model that has layers for it."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(9, 4) for _ in range(3))

    def forward(self, x: dict[str, Tensor]):
        assert "numbers" in x or "codes" in x, "one of both has to be there"
        numbers, codes = x.get("numbers", torch.empty(0, 0)), x.get("codes", torch.empty(0, 0))
        assert codes.shape[1] == len(self.tables), "a column for each table"
        assert numbers.shape[1] == 2, "two columns"
        return torch.cat([table(codes[:, index]) for index, table in enumerate(self.tables)], 1) + numbers.sum()


def test_what_is_looked_up_with_something_else_for_it_is_given_where_that_does_not_do():
    assert fed(OfTables()).args[0]["codes"].shape == (2, 3)


class FrameByFrame(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 3)

    def forward(self, x: Tensor):
        return torch.stack([self.layer(x[:, :, index]) for index in range(60)], 2)


def test_what_is_looked_at_place_by_place_is_long_enough_soon():
    inferred = fed(FrameByFrame())
    assert inferred.args[0].shape[:3] == (2, 3, 64)
    assert len(inferred.failures) < 10


class OfRanks(nn.Module):
    """As what is made for videos, and takes sequences, too."""

    def forward(self, x: Tensor):
        if x.dim() == 5:
            dims = (2, 3, 4)
        elif x.dim() == 3:
            dims = (2,)
        else:
            raise ValueError("of another rank")
        return x.mean(dims)


def test_the_first_of_several_ways_is_the_usual_one():
    with pytest.raises(ValueError, match="of another rank") as raised:
        OfRanks()(torch.ones(2, 2))
    (*_, moment) = moments_of(raised.value.__traceback__)
    assert [ast.unparse(test) for test, _ in conditions(moment)] == ["x.dim() == 5", "x.dim() == 3"]
    assert fed(OfRanks()).args[0].dim() == 5


class OfOne(nn.Module):
    """As measures that take one example at a time."""

    def __init__(self, check):
        super().__init__()
        self.check = check
        self.first = nn.Conv2d(3, 8, 3)

    def forward(self, in0: Tensor, in1: Tensor):
        self.check(in0)
        return self.first(in0 - in1)


def _by_item(x: Tensor):
    assert x.size()[0] == 1


def _by_shape(x: Tensor):
    if x.shape[0] != 1:
        raise ValueError("one at a time, please")


def _by_size(x: Tensor):
    batch = x.size(0)
    assert batch == 1


def _by_length(x: Tensor):
    assert len(x) == 1


@pytest.mark.parametrize("check", [_by_item, _by_shape, _by_size, _by_length])
def test_a_batch_of_one_is_given_where_it_is_asked_for(check):
    inferred = fed(OfOne(check))
    assert [each.shape[0] for each in inferred.args] == [1, 1]
    assert len(inferred.failures) == 1


class Voices(nn.Module):
    """Keeps how many examples there are as a tensor."""

    def __init__(self):
        super().__init__()
        self.count = torch.tensor(6)

    def forward(self, pitch: Tensor):
        assert pitch.shape == (self.count,)
        return pitch.unsqueeze(1)


def test_a_size_that_is_asserted_may_be_a_tensor_of_one_number():
    assert fed(Voices()).args[0].shape == (6,)


class Deformable(nn.Module):
    """Samples from levels that lie in one row, of which a list says how high and wide they are."""

    def __init__(self):
        super().__init__()
        self.n_levels = 3
        self.proj = nn.Linear(8, 8)

    def forward(self, value: Tensor, value_shapes: list):
        assert sum(each[0] * each[1] for each in value_shapes) == value.shape[1]
        parts = self.proj(value).split([height * width for height, width in value_shapes], dim=1)
        return torch.cat([part.mean(1) for part in parts], -1)


def test_what_a_comprehension_adds_up_is_as_long_as_is_asserted():
    inferred = fed(Deformable())
    assert inferred.args[1] == [[4, 4]] * 3
    assert inferred.args[0].shape == (2, 48, 8)


class Truncated(nn.Module):
    """Takes a number that lies between two."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 4)

    def forward(self, z, truncation):
        assert 0 < truncation <= 1
        return self.fc(z) * round(truncation * 10)


def test_what_is_to_lie_between_two_numbers_does():
    assert fed(Truncated()).args[1] == 0.5


class Padded(nn.Module):
    """Has a mask that says what is padding."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(16, 8)
        self.rnn = nn.GRU(8, 8, batch_first=True)

    def forward(self, src, src_mask):
        lengths = list(src_mask.data.eq(0).long().sum(1))
        packed = nn.utils.rnn.pack_padded_sequence(self.table(src), lengths, batch_first=True, enforce_sorted=False)
        return self.rnn(packed)[1]


def test_a_mask_says_what_is_no_part_of_an_example_where_nothing_else_would_be_left():
    found = infer_inputs(Padded())
    assert found.usable, found.failures
    assert "torch.zeros(2, 16, dtype=torch.bool)" in found.expression


class Unworded(nn.Module):
    """Is made for a vocabulary that is empty."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(0, 8)
        self.fc = nn.Linear(8, 2)

    def forward(self, words, features):
        return self.fc(features) + self.table(words).sum()


def test_an_empty_vocabulary_ends_no_search():
    found = infer_inputs(Unworded())
    assert not found.usable
    assert found.failures


class Placed(nn.Module):
    """Channels that say where each pixel lies are joined to those of the picture before they are counted."""

    def __init__(self, channels):
        super().__init__()
        self.channels = channels
        self.conv = nn.Conv2d(channels, 4, 1)

    def forward(self, x):
        rows = torch.linspace(0, 1, x.shape[2])[:, None].expand(len(x), 1, *x.shape[2:])
        x = torch.cat([x, rows, rows * rows, rows.flip(2)], 1)
        assert x.size()[1] == self.channels, f"{x.size()[1]} {self.channels}"
        return self.conv(x)


def test_what_is_joined_to_an_input_is_taken_off_it():
    assert fed(Placed(7)).args[0].shape[1] == 4

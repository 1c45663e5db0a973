"""Inputs that a search finds by what a model complained about: flags, pictures that belong together, lengths."""

import pytest
import torch
from torch import Tensor, nn

from fxengine.inputs import infer_inputs, materialize
from fxengine.inputs.clues import Clues
from fxengine.inputs.moves import Moves
from fxengine.inputs.probe import Outcome
from fxengine.inputs.recipes import TensorRecipe
from tests.support.feeding import fed


class Remembering(nn.Module):
    """As language models whose default is a memory that their own settings cannot make."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(20, 8)

    def forward(self, input_ids: Tensor, use_memory: bool | None = None, verbose: bool = False):
        use_memory = use_memory if use_memory is not None else True
        if use_memory and verbose is not None:
            raise AttributeError("'Settings' object has no attribute 'depth'")
        return self.tokens(input_ids)


def test_what_a_flag_asks_for_is_done_without_where_it_does_not_work():
    inferred = fed(Remembering())
    assert inferred.recipes["use_memory"].expression == "False"
    assert "verbose" not in inferred.recipes


class TwoPictures(nn.Module):
    """Two pictures of which one is four times as large; on the way down and up their sides must stay even."""

    def __init__(self):
        super().__init__()
        self.sample_size = 12
        self.hint = nn.Conv2d(3, 4, 4, stride=4)
        self.down = nn.Conv2d(4, 4, 3, stride=2, padding=1)

    def forward(self, sample: Tensor, hint: Tensor):
        x = sample + self.hint(hint)
        y = self.down(self.down(self.down(x)))
        for _ in range(3):
            y = nn.functional.interpolate(y, scale_factor=2.0)
        return x + y


def test_pictures_that_belong_together_grow_together():
    sample, hint = fed(TwoPictures(), budget_s=20.0).args
    assert sample.shape[-1] % 8 == 0
    assert hint.shape[-1] == 4 * sample.shape[-1]


class OfTokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.LayerNorm(8)

    def forward(self, hidden_states: Tensor, num_frames: int, height: int, width: int):
        batch, _, features = self.first(hidden_states).shape
        return hidden_states.view(batch, num_frames, height, width, features)


def test_sides_of_a_picture_of_tokens_are_as_many_as_there_are_tokens():
    inferred = fed(OfTokens())
    assert inferred.kwargs == {}
    assert inferred.args[1:] == (1, 4, 4)
    assert not inferred.failures


class Large(nn.Module):
    """Reads values of its inputs, and has more weights than are run on for real."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(1 << 16, 256, device="meta")

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None):
        if bool((input_ids < 0).any()):
            return None
        hidden = self.tokens(input_ids)
        return hidden * attention_mask.unsqueeze(-1)


def test_what_comes_after_a_value_is_tried_with_values_where_a_model_is_large():
    inferred = infer_inputs(Large(), budget_s=20.0)
    assert inferred.complete
    assert inferred.recipes.keys() == {"input_ids", "attention_mask"}


class Bounded(nn.Module):
    """Asks for two things at once, of which one is a tensor of several numbers."""

    def forward(self, x: Tensor, names: list[str]):
        bounds = torch.tensor([1.0, 2.0])
        if not (bounds and len(names) == 2):
            raise ValueError("two names are needed")
        return x


class Emptied(nn.Module):
    """Joins what is nothing with an input."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)

    def forward(self, x: Tensor):
        x = self.first(x)
        return x + x[..., :0]


@pytest.mark.parametrize("module", [Bounded(), Emptied()])
def test_a_search_in_vain_ends_and_tells_why(module):
    inferred = infer_inputs(module, budget_s=1.0)
    assert not inferred.complete
    assert inferred.failures


class Pyramid(nn.Module):
    """Takes one picture for each of its layers, by names that it does not know."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Conv2d(channels, 8, 1) for channels in (4, 6, 10))

    def forward(self, x: dict[str, Tensor]):
        values = list(x.values())
        last = self.blocks[-1](values[-1])
        return last + sum(block(value) for block, value in zip(self.blocks, values, strict=True))


def test_an_empty_dictionary_gets_as_many_pictures_as_there_are_layers():
    (pictures,) = fed(Pyramid(), budget_s=20.0).args
    assert [picture.shape[1] for picture in pictures.values()] == [4, 6, 10]


class Parted(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(6)

    def forward(self, memory: Tensor, spatial_shapes: list[tuple[int, int]]):
        return self.norm(memory).split([height * width for height, width in spatial_shapes], dim=1)


def test_what_is_split_is_as_long_as_its_parts_together():
    memory, shapes = fed(Parted()).args
    assert memory.shape[1] == sum(height * width for height, width in shapes)


class Drawn(nn.Module):
    """Draws what it is not given, on a device that a CPU does not have."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)

    def forward(self, x: Tensor, z: Tensor | None = None):
        x = self.first(x)
        if z is None:
            z = torch.randn(x.shape, device=x.get_device())
        return x + z


def test_what_is_only_made_for_want_of_an_input_need_not_be_made():
    assert fed(Drawn()).recipes.keys() == {"x", "z"}


class UpBlock(nn.Module):
    """Pictures of features that are joined, and what is known of the time."""

    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(2, 12)
        self.conv = nn.Conv2d(12, 6, 3, padding=1)
        self.time = nn.Linear(10, 6)

    def forward(self, hidden_states: Tensor, res_hidden_states_list: list[Tensor], temb: Tensor):
        x = torch.cat([hidden_states, res_hidden_states_list[-1]], 1)
        return self.conv(self.norm(x)) + self.time(temb)[:, :, None, None]


def test_hidden_states_of_a_convolutional_block_are_pictures():
    hidden, residuals, time = fed(UpBlock(), budget_s=20.0).args
    assert hidden.dim() == residuals[-1].dim() == 4
    assert time.shape == (hidden.shape[0], 10)


@torch.jit.script
def gated(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sin() * x + 1.0 / (y.exp() + 1e-6)


class Scripted(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(8, 8, 3, padding=1)

    def forward(self, x: Tensor):
        for _ in range(4):
            x = gated(x, self.first(x))
        return x


def test_scripted_functions_run_without_data():
    assert not fed(Scripted()).failures


class Packed(nn.Module):
    """Lengths of sequences that cannot be longer than these, and a summary that is repeated for each step."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(30, 8)
        self.rnn = nn.GRU(8, 6)

    def forward(self, src: Tensor, src_len: Tensor):
        packed = nn.utils.rnn.pack_padded_sequence(self.tokens(src), src_len.cpu(), enforce_sorted=False)
        return self.rnn(packed)[1]


def test_lengths_are_no_larger_than_what_they_are_the_lengths_of():
    src, lengths = materialize(fed(Packed(), budget_s=20.0))[0]
    assert lengths.max() <= src.shape[0]


class Repeated(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.LayerNorm(6)

    def forward(self, summary: Tensor, steps: Tensor):
        summary = summary.unsqueeze(1).repeat(1, steps.shape[1], 1)
        return torch.cat((summary, self.first(steps)), dim=2)


def test_what_is_repeated_with_a_new_dimension_has_one_less():
    summary, _ = fed(Repeated()).args
    assert summary.dim() == 2


class Windowed(nn.Module):
    """Cuts pictures into patches, and these into windows."""

    def __init__(self):
        super().__init__()
        self.image_size = 30
        self.patches = nn.Conv2d(3, 4, 5, stride=5)

    def forward(self, pixel_values: Tensor):
        x = self.patches(pixel_values)
        batch, channels, height, width = x.shape
        return x.reshape(batch, channels, height // 4, 4, width // 4, 4, -1)


def test_patches_divide_into_windows():
    (pictures,) = fed(Windowed()).args
    assert pictures.shape[-1] == pictures.shape[-2] == 40


class Everywhere(nn.Module):
    """Attends from each place of a picture to each other, channels last."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(64, 192)

    def forward(self, x: Tensor):
        batch, height, width, _ = x.shape
        q, k, v = self.qkv(x).view(batch, height * width, 3, 64).unbind(2)
        return (q @ k.transpose(1, 2)).softmax(-1) @ v


def test_pictures_with_channels_last_are_made_smaller_too():
    (pictures,) = infer_inputs(Everywhere()).args
    assert pictures.shape[1] == pictures.shape[2] < 100
    assert pictures.shape[3] == 64


class Spectral(nn.Module):
    """Looks for the dimension that has as many frequencies as it knows."""

    def forward(self, estimate: Tensor, reference: Tensor):
        if 33 not in estimate.shape:
            raise ValueError("Could not find dimension with 33 elements in input tensors, verify your inputs")
        return estimate - reference


def test_a_number_of_elements_that_is_looked_for_is_given():
    estimate, reference = fed(Spectral()).args
    assert 33 in estimate.shape
    assert estimate.shape == reference.shape


class Analytic(nn.Module):
    def forward(self, x: Tensor):
        return x.real + x.imag


def test_complex_numbers_are_given_where_they_are_asked_for():
    (x,) = fed(Analytic()).args
    assert x.is_complex()


class OfPositions(nn.Module):
    """Takes two numbers, which must be alike for what it looks up."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(1, 4)

    def forward(self, i, j):
        positions = torch.arange(-j + 1, i, dtype=torch.float32)
        rows = torch.arange(j - i, j)[:, None] - torch.arange(j)[None, :] + (j - 1)
        return self.first(positions[:, None])[rows]


def test_numbers_are_given_where_a_function_of_torch_wants_them():
    numbers = fed(OfPositions(), budget_s=20.0).args
    assert all(isinstance(number, int) for number in numbers)


class Contracted(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)

    def forward(self, query: Tensor, logits: Tensor):
        return torch.einsum("bhid,bhij->bhjd", self.first(query), logits)


def test_an_equation_tells_the_ranks_of_its_operands():
    query, logits = fed(Contracted(), budget_s=20.0).args
    assert query.dim() == logits.dim() == 4


class OfOnePicture(nn.Module):
    """Its own columns are laid out for as many pictures as there are, but there is one of them."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(90, 8)
        self.patches = nn.Conv2d(3, 8, 16, stride=16)
        self.columns = nn.Embedding(14, 8)

    def forward(self, input_ids: Tensor, pixel_values: Tensor):
        grid = self.patches(pixel_values).movedim(1, -1)
        grid = grid + self.columns.weight.view(grid.shape[0], 1, grid.shape[2], grid.shape[3])
        return torch.cat([self.tokens(input_ids), grid.flatten(1, 2)], 1)


def test_what_was_made_for_a_batch_of_one_gets_one():
    inferred = fed(OfOnePicture())
    assert [each.shape[0] for each in inferred.args] == [1, 1]
    assert len(inferred.failures) < 3


class Patched(nn.Module):
    """All pictures lie one behind the other; a table says how many rows and columns of patches each has."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 16, stride=16)
        self.places = nn.Embedding(10_000, 8)
        self.spare = nn.Parameter(torch.empty(3000, 3000))  # Too large to be run.

    def forward(self, pixel_values: Tensor, target_sizes: Tensor):
        grid = self.patches(pixel_values).flatten(2).transpose(1, 2)
        places = torch.cat([torch.arange(height * width) for height, width in target_sizes.tolist()])
        return grid + self.places(places)[None]


def test_a_table_says_of_what_size_the_pictures_are():
    found = infer_inputs(Patched())

    (pixels, table), _ = materialize(found)
    assert found.complete
    assert sum(height * width for height, width in table.tolist()) == pixels.shape[-1] * pixels.shape[-2] // 256
    Patched()(pixels, table)


class OfPatches(nn.Module):
    """Its input is cut into patches already."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Conv3d(4, 32, (1, 2, 4), stride=(1, 2, 4))
        self.norm = nn.LayerNorm(32)

    def forward(self, hidden_states: Tensor):
        """Embed.

        Args:
            hidden_states: [B, max_patches, C, pt, ph, pw] - the patches.
        """
        batch, count, *patch = hidden_states.shape
        return self.norm(self.embed(hidden_states.reshape(batch * count, *patch)).reshape(batch, count, -1))


def test_axes_of_patches_are_as_long_as_what_cuts_them():
    inferred = fed(OfPatches())
    assert inferred.args[0].shape[2:] == (4, 1, 2, 4)
    assert not inferred.failures


class OfFoldedPatches(nn.Module):
    """Patches of two by two are laid out in the channels, which come last, and nothing tells how many these are."""

    def __init__(self):
        super().__init__()
        self.hidden_size = 48
        self.embed = nn.Linear(4 * 5, 48)

    def forward(self, x: Tensor):
        batch, frames, height, width, channels = x.shape
        x = x.view(batch, frames, height // 2, 2, width // 2, 2, channels).permute(0, 1, 2, 4, 3, 5, 6)
        return self.embed(x.flatten(4))


def test_what_was_a_factor_of_a_size_is_changed_in_proportion():
    inferred = fed(OfFoldedPatches())
    assert inferred.args[0].shape[-1] == 5
    assert len(inferred.failures) == 1


class OfSeveralPictures(nn.Module):
    """A list of pictures, channels first, none of which is a batch."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(4 * 5, 48)

    def forward(self, x: list[Tensor]):
        folded = []
        for picture in x:
            channels, _frames, height, width = picture.shape
            patches = picture.view(channels, -1, height // 2, 2, width // 2, 2).permute(1, 2, 4, 3, 5, 0)
            folded.append(patches.flatten(3).flatten(0, 2))
        return self.embed(torch.stack(folded))


def test_the_items_of_a_list_are_changed_together():
    inferred = fed(OfSeveralPictures())
    first, *others = inferred.args[0]
    assert first.shape[0] == 5
    assert all(other.shape == first.shape for other in others)
    assert len(inferred.failures) < 5


class OfFrames(nn.Module):
    """What numbers the frames is taken for pictures at first."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Conv3d(4, 8, (1, 16, 16), stride=(1, 16, 16))

    def forward(self, hidden_states: Tensor, of_latents: Tensor):
        latents = self.embed(hidden_states)
        places = torch.meshgrid(of_latents.float(), torch.arange(float(latents.shape[-1])), indexing="ij")
        return latents.mean(3) + torch.stack(places).sum(0)


def test_what_makes_a_grid_is_a_row():
    inferred = fed(OfFrames())
    assert len(inferred.args[1].shape) <= 1


class Pairs(nn.Module):
    """Two pictures through the same layers, which take off what lies at the borders."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 4, 10), nn.MaxPool2d(2), nn.Conv2d(4, 4, 7), nn.MaxPool2d(2), nn.Conv2d(4, 4, 4),
            nn.MaxPool2d(2), nn.Conv2d(4, 16, 4),
        )  # fmt: skip
        self.head = nn.Linear(16 * 6 * 6, 8)

    def forward(self, one, other):
        return (self.head(self.layers(one).flatten(1)) - self.head(self.layers(other).flatten(1))).abs()


def test_pictures_of_one_size_get_another_together_that_is_reckoned_from_what_borders_take_off():
    inferred = fed(Pairs(), budget_s=2.0)
    assert [each.shape for each in inferred.args] == [(2, 1, 112, 112)] * 2
    assert len(inferred.failures) < 5


def test_sound_that_is_too_short_is_made_longer():
    place = ("x",)
    moves = Moves({"x": TensorRecipe((2, 512))}, Outcome(1), Clues(nn.Identity()))
    assert (2, 4096) in {change.recipes["x"].shape for change in moves.grow(frozenset({place}))}


class Unmade(nn.Module):
    """Computes with an attribute that no constructor gives it, after some checks."""

    def __init__(self):
        super().__init__()
        self.see = nn.Conv2d(3, 8, 1)

    def forward(self, x: Tensor, y: Tensor):
        COUNTED.append(x.shape)
        return self.see(x) * y.mean() + self.sea(x)


COUNTED: list[torch.Size] = []


def test_a_fault_of_the_code_ends_a_search_soon():
    inferred = infer_inputs(Unmade(), budget_s=5.0)
    assert inferred.usable
    assert not inferred.complete
    assert len(COUNTED) < 20


class Columns(nn.Module):
    """As encoders of atoms, with a table for each column of codes."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(8, 4) for _ in range(3))

    def forward(self, codes: Tensor):
        total = 0
        for column in range(codes.shape[1]):
            total = total + self.tables[column](codes[:, column])
        return total


def test_there_are_no_more_columns_than_layers_for_them():
    inferred = fed(Columns())
    assert inferred.recipes["codes"].shape[1] == 3


def test_no_size_is_changed_in_a_proportion_that_no_size_has():
    place = frozenset({("x",)})
    moves = Moves({"x": TensorRecipe((2, 3, 64, 64))}, Outcome(1), Clues(nn.Identity()))
    assert not any(min(change.recipes["x"].shape) < 0 for change in moves.resize(place, 2, -3))

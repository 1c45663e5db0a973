"""Inputs that fit and are not too heavy, lookups that only data can tell, and ranks that the code around tells."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it.
from torch import Tensor, nn

from fxengine.inputs import infer_inputs
from fxengine.inputs.reading import patterns_said
from fxengine.shapes_only import ShapesOnly
from tests.support.feeding import fed


class Wide(nn.Module):
    """Few elements, each the sum of very many products."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(64, 32, 33, device="meta")

    def forward(self, x: Tensor):
        return self.conv(x)


class Attending(nn.Module):
    """Attention of every place of a picture to every other."""

    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(4, 64)

    def forward(self, x: Tensor):
        tokens = self.norm(x).flatten(2).transpose(1, 2)[:, None]
        return F.scaled_dot_product_attention(tokens, tokens, tokens)


class Upwards(nn.Module):
    """Makes a huge volume of a small one, without a product."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm3d(8)

    def forward(self, x: Tensor):
        return F.interpolate(self.norm(x), scale_factor=8.0)


@pytest.mark.parametrize("module", [Wide(), Attending(), Upwards()], ids=lambda module: type(module).__name__)
def test_pictures_are_as_small_as_a_machine_can_do_in_a_moment(module: nn.Module):
    shape = fed(module).args[0].shape
    assert shape[-1] < 224
    assert len(set(shape[2:])) == 1 or len(shape) == 5


class Positions(nn.Module):
    """Looks positions up that are made of the sizes of pictures, of which it knows eight."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 4, 4, stride=4)
        self.rows = nn.Parameter(torch.randn(8, 4))

    def forward(self, img: Tensor):
        x = self.patches(img)
        return x + self.rows[torch.arange(x.shape[2])].t()[None, :, :, None]


def test_a_table_of_positions_limits_the_picture():
    assert fed(Positions()).args[0].shape[-1] // 4 <= 8


class Regions(nn.Module):
    """Looks at sizes of the input's shape one by one."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, bag: Tensor):
        sizes = bag.shape
        return self.conv(bag.reshape(sizes[0] * sizes[1], sizes[2], sizes[3], sizes[4]))


def test_the_rank_is_as_high_as_the_code_looks():
    assert fed(Regions()).args[0].dim() == 5


class Windows(nn.Module):
    """Unpacks a shape with something else beside it."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.heads = 2

    def forward(self, x: Tensor):
        b, h, w, rows, columns, d, heads = *x.shape, self.heads
        return self.norm(x).reshape(b * h * w, rows * columns, heads, d // heads)


def test_what_stands_beside_an_unpacked_shape_is_no_size():
    assert fed(Windows()).args[0].dim() == 6


class Blocks(nn.Module):
    """Takes a mask of a kind of its own."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Tensor, block_mask):
        x = self.norm(x)
        return x if block_mask is None else x * block_mask.BLOCK_SIZE.size


def test_a_mask_of_another_kind_is_none():
    assert fed(Blocks()).args[1] is None


class Told(nn.Module):
    """Takes bags. The expected shape of input data is `[B, N, C, H, W]`, and the output has classes."""

    def forward(self, x):
        return x


def test_a_sentence_tells_the_shape_of_the_input():
    assert patterns_said(Told(), ["x"]) == {"x": ["B N C H W"]}


def test_transposed_convolutions_count_channels_without_data():
    layer = nn.ConvTranspose2d(4, 2, 3)
    with ShapesOnly(layer), pytest.raises(RuntimeError, match="to have 4 channels, but got 3"):
        layer(torch.ones(1, 3, 8, 8))


class Joined(nn.Module):
    """Joins two pictures below each other, which is to give the size that it knows."""

    def __init__(self):
        super().__init__()
        self.image_size = (64, 32)
        self.conv = nn.Conv2d(3, 4, 4, stride=4)

    def forward(self, pixel_values: Tensor, prompt_pixel_values: Tensor):
        x = torch.cat([pixel_values, prompt_pixel_values], dim=2)
        if tuple(x.shape[-2:]) != self.image_size:
            raise ValueError(f"Input image size ({x.shape[-2]}*{x.shape[-1]}) doesn't match model (64*32).")
        return self.conv(x)


def test_pictures_have_a_size_together():
    assert [tuple(each.shape[-2:]) for each in fed(Joined()).args] == [(32, 32), (32, 32)]


def check_shape(x: Tensor, axes: list[str]):
    """Raise unless the axes that are numbers are as long, as libraries' own checks do."""
    if x.dim() != len(axes):
        raise TypeError(f"Shape dimension mismatch: expected {len(axes)} dimensions, got {x.dim()}.")
    for place, (axis, size) in enumerate(zip(axes, x.shape, strict=True)):
        if axis.isdigit() and int(axis) != size:
            raise TypeError(f"Shape mismatch at dimension {place}: expected {axis}, got {size}.")


class Checking(nn.Module):
    """Checks what it gets before it does anything."""

    def forward(self, segments: Tensor, maps: Tensor):
        check_shape(segments, ["N", "2", "2"])
        check_shape(maps, ["B", "C", "H", "W"])
        return segments.sum() + maps.sum()


def test_checks_of_shapes_tell_them():
    assert patterns_said(Checking(), ["segments", "maps"]) == {"segments": ["N 2 2"], "maps": ["B C H W"]}
    segments, maps = fed(Checking()).args
    assert segments.shape[1:] == (2, 2)
    assert maps.dim() == 4


class CheckingElsewhere(nn.Module):
    """The same where the source says nothing: how far the code came is seen from the lines."""

    def __init__(self):
        super().__init__()
        self.check = check_shape
        self.axes = [["N", "2", "2"], ["N", "5", "2"], ["B", "1", "7"]]

    def forward(self, one: Tensor, other: Tensor, third: Tensor):
        self.check(one, self.axes[0])
        self.check(other, self.axes[1])
        self.check(third, self.axes[2])
        return one.sum() + other.sum() + third.sum()


def test_lines_count_where_nothing_was_called():
    assert [tuple(each.shape[1:]) for each in fed(CheckingElsewhere(), budget_s=20.0).args] == [(2, 2), (5, 2), (1, 7)]


class OfGraph(nn.Module):
    """Adds to each node what its neighbours have."""

    def __init__(self):
        super().__init__()
        self.in_channels = 5
        self.weight = nn.Parameter(torch.ones(5, 3))

    def forward(self, x: Tensor, edge_index: Tensor, pos: Tensor):
        source, target = edge_index[0], edge_index[1]
        return (x + torch.zeros_like(x).index_add(0, target, x[source])) @ self.weight + pos


def test_inputs_of_a_graph_have_a_row_for_each_node():
    x, edges, places = fed(OfGraph()).args
    assert x.shape == (16, 5)
    assert edges.shape == (2, 32)
    assert places.shape == (16, 3)


class Listening(nn.Module):
    """Halves sound so often that only a long one is left with something."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Conv1d(1, 1, 8, stride=4) for _ in range(4)))

    def forward(self, hidden_states: Tensor):
        return self.layers(hidden_states.float())


def test_sound_is_long_enough():
    assert fed(Listening()).args[0].shape[-1] >= 1024


class Sides(nn.Module):
    """Knows as many rows and columns as it has tables for, channels last, and the time besides."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(6, 4)
        self.register_buffer("table", torch.randn(128, 4))

    def forward(self, hidden_states: Tensor, timestep: Tensor):
        """Hidden states: (B, H, W, C)."""
        x = self.embed(hidden_states)
        _, h, w, _ = hidden_states.shape
        return x + self.table[torch.arange(h)][:, None] + self.table[torch.arange(w)] + timestep[:, None, None, None]


def test_pictures_with_channels_last_are_as_small_as_a_table():
    assert max(fed(Sides()).args[0].shape) <= 128


class SteppingUp(nn.Module):
    """A step up of a network that went down: what comes from below is joined with what was there before."""

    def __init__(self, transposed: bool):
        super().__init__()
        self.up = nn.ConvTranspose2d(24, 12, 2, stride=2) if transposed else nn.Upsample(scale_factor=2)
        self.conv = nn.Conv2d(24, 4, 3, padding=1)

    def forward(self, x1: Tensor, x2: Tensor):
        x1 = self.up(x1)
        rows, columns = x2.shape[2] - x1.shape[2], x2.shape[3] - x1.shape[3]
        x1 = F.pad(x1, [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2])
        return self.conv(torch.cat([x2, x1], dim=1))


@pytest.mark.parametrize(("transposed", "channels"), [(False, [12, 12]), (True, [24, 12])])
def test_what_takes_several_tensors_at_once_is_shared_out(transposed: bool, channels: list[int]):
    inferred = fed(SteppingUp(transposed))
    assert [each.shape[1] for each in inferred.args] == channels
    assert len(inferred.failures) < 8


class Beside(nn.Module):
    """Very much to do for a batch of pictures and single ones that are as large."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(512, 512, 5, padding=2, device="meta")

    def forward(self, x: Tensor, shortcuts: list[Tensor]):
        return self.conv(x) + shortcuts[0]


def test_single_pictures_beside_a_batch_become_smaller_with_it():
    x, shortcuts = fed(Beside()).args
    assert x.shape[-1] == shortcuts[0].shape[-1] < 224


class Pairs(nn.Module):
    """Compares each microphone with each other, and then looks at data."""

    def forward(self, signals: Tensor):
        count = signals.shape[2]
        one, other = torch.triu_indices(count, count)
        pairs = signals[:, :, one] * signals[:, :, other]
        return pairs.var(1).unique() * count


def test_what_no_machine_holds_is_made_of_shorter_inputs():
    (signals,) = infer_inputs(Pairs(), budget_s=60.0).args
    assert signals.shape[2] <= 1000

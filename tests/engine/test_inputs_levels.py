"""Inputs of other kinds: adjacency, sparse matrices, lists of words, and pictures of features in several levels."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - torch's own name for it.

from fxengine.inputs import infer_inputs
from tests.support.feeding import fed


class OverNeighbours(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(10, 4))

    def forward(self, x, adj):
        return torch.spmm(adj, torch.mm(x, self.weight))


def test_what_goes_with_an_adjacency_has_a_row_for_each_node():
    x, adjacency = fed(OverNeighbours()).args
    assert x.shape == (16, 10)
    assert adjacency.shape == (16, 16)


class OfEntries(nn.Module):
    """Looks at the entries of a matrix that are there."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(6, 4)

    def forward(self, matrix, x):
        rows, columns = matrix.coalesce().indices()
        values = matrix.coalesce().values()
        return torch.zeros(16, 4).index_add(0, rows, self.head(x)[columns] * values[:, None])


def test_what_has_entries_is_a_sparse_matrix():
    inferred = fed(OfEntries())
    assert ".to_sparse()" in inferred.expression


class OfWords(nn.Module):
    """Fills lists of words up to one length."""

    def __init__(self):
        super().__init__()
        self.table = {"a": 1, "the": 2}
        self.embed = nn.Embedding(4, 8)

    def forward(self, examples):
        longest = max(len(words) for words in examples)
        filled = [words + [""] * (longest - len(words)) for words in examples]
        return self.embed(torch.tensor([[self.table.get(word, 0) for word in words] for words in filled]))


def test_what_lists_are_joined_to_are_lists_of_words():
    examples = fed(OfWords()).args[0]
    assert all(isinstance(word, str) for words in examples for word in words)


class Pyramid(nn.Module):
    """Goes over the levels of a dictionary from the smallest pictures up."""

    def __init__(self):
        super().__init__()
        self.inner = nn.ModuleList([nn.Conv2d(channels, 16, 1) for channels in (8, 12, 20)])

    def forward(self, x: dict[str, Tensor]):
        levels = list(x.values())
        last = self.inner[-1](levels[-1])
        for index in range(len(levels) - 2, -1, -1):
            lateral = self.inner[index](levels[index])
            last = lateral + F.interpolate(last, size=lateral.shape[-2:])
        return last


def test_pictures_of_features_in_several_levels_become_smaller():
    levels = list(fed(Pyramid()).args[0].values())
    assert [level.shape for level in levels] == [(2, 8, 64, 64), (2, 12, 32, 32), (2, 20, 16, 16)]


class Paths(nn.Module):
    """Joins each level of a list of volumes with the next smaller one; which cell takes which only a run can tell."""

    def __init__(self):
        super().__init__()
        self.places = [0, 1, 2]
        self.cells = nn.ModuleDict({str((0, place)): nn.Conv3d(4 << place, 8, 1) for place in self.places})

    def forward(self, x: list[Tensor]):
        levels = [self.cells[str((0, index))].forward(x[place]) for index, place in enumerate(self.places)]
        second = levels[1] + F.interpolate(levels[2], scale_factor=2.0)
        return levels[0] + F.interpolate(second, scale_factor=2.0)


def test_volumes_of_features_in_several_levels_become_smaller():
    assert [level.shape for level in fed(Paths()).args[0]] == [(2, 4, *[16] * 3), (2, 8, *[8] * 3), (2, 16, *[4] * 3)]


class Heads(nn.Module):
    """Goes over a list that is called as one of its items might be."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1))

    def forward(self, x: list[Tensor]):
        return [self.conv(feature) for feature in x]


def test_a_list_whose_name_is_no_plural_holds_no_lists():
    assert all(isinstance(each, Tensor) for each in infer_inputs(Heads().eval(), hopeless=2).args[0])


class Decoder(nn.Module):
    """Takes volumes apart, the smallest of which goes to a layer first."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv3d(4, 4, 3, padding=1) for _ in range(5)])
        self.up = nn.ModuleList([nn.ConvTranspose3d(4, 4, 2, 2) for _ in range(4)])

    def forward(self, volumes):
        first, second, third, fourth, last = volumes
        y = self.layers[4](last)
        for index, skipped in enumerate((fourth, third, second, first)):
            y = self.layers[3 - index](self.up[index](y) + skipped)
        return y


def test_as_many_volumes_as_are_taken_apart_become_smaller():
    inferred = infer_inputs(Decoder().to("meta"))
    assert inferred.complete
    assert [volume.shape[-1] for volume in inferred.args[0]] == [64, 32, 16, 8, 4]


class Heavy(nn.Module):
    """Joins pictures of two sizes, the smaller of which is a multiple of nothing that is usual."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(64, 64, 33, padding=16)

    def forward(self, x: Tensor, skip: Tensor):
        """Join.

        Args:
            x: of shape (B, 64, 14, 14).
            skip: of shape (B, 64, 1792, 1792).
        """
        assert skip.shape[-1] == 128 * x.shape[-1]
        return self.conv(skip) + F.interpolate(x, scale_factor=128)


def test_pictures_of_several_sizes_are_made_smaller_together():
    x, skip = infer_inputs(Heavy().to("meta"), budget_s=5.0).args
    assert x.shape[-1] == 4
    assert skip.shape[-1] == 512


class Weighed(nn.Module):
    """Sums over the edges of a graph, each with its weight."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(6, 4)

    def forward(self, x_s, x_t, edge_index_p, edge_weight_p, query_edges):
        messages = self.head(x_s)[edge_index_p[0]] * edge_weight_p.unsqueeze(-1)
        summed = torch.zeros_like(self.head(x_t)).index_add(0, edge_index_p[1], messages)
        return summed[query_edges[0]] * summed[query_edges[1]]


def test_each_edge_has_a_weight_and_each_node_a_row():
    inferred = fed(Weighed())
    assert [tuple(each.shape) for each in inferred.args] == [(16, 6), (16, 6), (2, 32), (32,), (2, 32)]
    assert not inferred.failures


class Remembering(nn.Module):
    """Raises where what may be left out is."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(6, 8)

    def forward(self, x: Tensor, state: Tensor | None = None):
        if state is not None:
            return self.cell(x, state)
        else:  # noqa: RET505 - as such code is written.
            raise ValueError("what was before is required")


def test_what_raises_where_something_is_none_wants_it():
    assert "state" in fed(Remembering()).recipes


class Restored(nn.Module):
    def __init__(self):
        super().__init__()
        self.denoise = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, y, strength=0.5):
        return y - strength * self.denoise(y)


def test_what_is_measured_is_no_class():
    inferred = fed(Restored())
    assert inferred.args[0].shape[1] == 3
    assert not inferred.failures


class Paired(nn.Module):
    """Works on pictures, texts, or both."""

    def __init__(self):
        super().__init__()
        self.see = nn.Sequential(nn.Conv2d(3, 8, 8, stride=8), nn.Flatten(2))
        self.read = nn.Embedding(50, 8)

    def forward(self, image: Tensor | None = None, text: Tensor | None = None):
        seen = self.see(image).mean(-1) if image is not None else None
        read = self.read(text).mean(1).relu() if text is not None else None
        return (seen, read) if seen is None or read is None else seen @ read.t()


def test_a_text_goes_beside_a_picture_where_neither_has_to_be_given():
    image, text = fed(Paired()).args
    assert image.dim() == 4
    assert not text.is_floating_point()


class Padded(nn.Module):
    """Pads what has one dimension behind the channels, whatever the first layer is that it goes to."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, (3, 1))

    def forward(self, fake: Tensor):
        padded = F.pad(fake, (0, 1), "reflect")
        return self.conv(padded.reshape(padded.shape[0], 1, -1, 1))


def test_what_is_padded_at_two_ends_has_one_dimension_behind_the_channels():
    inferred = infer_inputs(Padded())
    assert inferred.complete
    assert len(inferred.failures) == 1


class OfLevels(nn.Module):
    """Goes over levels that lie one after the other in a row."""

    def forward(self, x: Tensor, src_spatial_shapes, src_level_start_index):
        levels = []
        for (height, width), start in zip(src_spatial_shapes.tolist(), src_level_start_index.tolist(), strict=True):
            level = x[:, start : start + height * width]
            levels.append(level.reshape(level.shape[0], -1).mean())
        return torch.stack(levels)


def test_levels_begin_where_their_rows_and_columns_say():
    inferred = fed(OfLevels())
    assert inferred.args[1].tolist() == [[4, 4], [4, 4]]
    assert inferred.args[2].tolist() == [0, 16]


class Upwards(nn.Module):
    """Adds what layers make of smaller and smaller pictures; what they pad is not the same."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.ConvTranspose2d(8, 8, 3, (2, 4), 1), nn.ConvTranspose2d(6, 8, 3, (2, 4), 1)
        self.further = nn.ConvTranspose2d(8, 8, (7, 4), (2, 4), 1)
        self.third = nn.ConvTranspose2d(4, 8, (5, 4), (2, 4), 1)
        self.last, self.fourth = nn.ConvTranspose2d(8, 4, (3, 5), 2, 1), nn.ConvTranspose2d(2, 4, 3, (2, 4), 1)

    def forward(self, maps: list[Tensor]):
        found = self.first(maps[0]).relu() + self.second(maps[1]).relu()
        found = self.further(found).relu() + self.third(maps[2]).relu()
        return self.last(found) + self.fourth(maps[3])


def test_pictures_are_as_large_as_what_layers_that_pad_otherwise_make_of_others():
    (maps,) = fed(Upwards()).args
    assert maps[0].shape[2] < maps[2].shape[2] < maps[3].shape[2]


class TopDown(nn.Module):
    """Makes pictures of features twice as large to add them to those of the level before."""

    def __init__(self):
        super().__init__()
        self.inner = nn.ModuleList([nn.Conv2d(channels, 16, 1) for channels in (20, 12, 8)])

    def forward(self, xs: list[Tensor]):
        last = len(self.inner) - 1
        assert len(xs) == len(self.inner)
        found = self.inner[0](xs[last])
        for index in range(last - 1, -1, -1):
            found = self.inner[last - index](xs[index]) + F.interpolate(found, scale_factor=2.0)
        return found


def test_pictures_that_are_enlarged_level_by_level_are_half_as_large_in_each():
    levels = fed(TopDown(), budget_s=10.0).args[0]
    assert [level.shape for level in levels] == [(2, 8, 64, 64), (2, 12, 32, 32), (2, 20, 16, 16)]


class Reversed(nn.Module):
    """Goes over a copy of a list from its end."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(6, 6)

    def forward(self, trends):
        coarse, *finer = trends.copy()[::-1]
        for trend in finer:
            coarse = trend + self.head(coarse)
        return coarse


def test_what_is_copied_is_a_list():
    assert isinstance(fed(Reversed()).args[0], list)


class Weighted(nn.Module):
    """Adds up what lies at each level of a row of all."""

    def __init__(self):
        super().__init__()
        self.num_levels = 3
        self.weights = nn.Parameter(torch.ones(3, 2))

    def forward(self, memory, spatial_shapes, level_start_index, valid_ratios):
        assert (spatial_shapes[:, 0] * spatial_shapes[:, 1]).sum() == memory.shape[1]
        weighted = valid_ratios * self.weights
        return memory[:, level_start_index] * weighted.sum(-1)[..., None]


def test_there_are_as_many_levels_as_the_model_says_and_what_they_hold_in_all():
    memory, shapes, starts, ratios = fed(Weighted()).args
    assert (shapes.shape, starts.shape, ratios.shape) == ((3, 2), (3,), (2, 3, 2))
    assert memory.shape[1] == 48


class OfSpeakers(nn.Module):
    """Takes any number of them."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, 8)
        self.speakers = nn.Embedding(4, 8)

    def forward(self, x, speaker_ids):
        return self.head(x).mean() + self.speakers(speaker_ids).mean()


def test_who_speaks_is_one_for_all_that_is_said():
    _, speakers = fed(OfSpeakers()).args
    assert speakers.dim() == 1


class Counting(nn.Module):
    """Takes as many pictures of features as it has levels, with a mask for each."""

    def __init__(self):
        super().__init__()
        self.depths = {5: "five"}

    def forward(self, features: list[Tensor], masks: list[Tensor]):
        if str(self.depths.get(len(features))) != "five":
            raise ValueError(f"there must be depth=5 of them, but there are {len(features)}")
        return [each.mean() + mask.float().mean() for each, mask in zip(features, masks, strict=True)]


def test_lists_get_as_many_items_as_a_message_wants():
    assert [len(each) for each in fed(Counting()).args] == [5, 5]


class Looks(nn.Module):
    """Looks at places of three levels."""

    def __init__(self):
        super().__init__()
        self.n_levels = 3
        self.offsets = nn.Linear(24, 6)

    def forward(self, query, reference_points):
        offsets = self.offsets(query)
        return reference_points + offsets.view(*offsets.shape[:2], self.n_levels, 2)


def test_a_query_has_a_place_that_it_looks_at_in_each_level():
    query, references = fed(Looks()).args
    assert references.shape == (*query.shape[:2], 3, 2)


class Sequential(nn.Module):
    def __init__(self):
        super().__init__()
        self.attend = nn.MultiheadAttention(24, 2)

    def forward(
        self,
        queries: Tensor,  # nq, bs, d_model
        boxes: Tensor,  # nq, bs, 4
    ):
        attended = self.attend(queries, queries, queries)[0]
        return attended[..., None] * boxes[:, :, None]


def test_the_order_of_axes_that_a_comment_tells_is_that_of_what_a_layer_takes():
    queries, boxes = fed(Sequential()).args
    assert (queries.shape, boxes.shape) == ((16, 2, 24), (16, 2, 4))


class Merges(nn.Module):
    """Makes one of several patches beside each other, as many as it is told for each picture."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 4)

    def forward(self, hidden_states, grid_thw, merge_sizes):
        counts = [
            (height // side) * (width // side)
            for (_, height, width), side in zip(grid_thw.tolist(), merge_sizes.tolist(), strict=True)
        ]
        return self.fc(hidden_states).view(sum(counts), -1)


def test_how_many_patches_become_one_goes_with_how_many_there_are():
    inferred = fed(Merges())
    assert inferred.args[2].shape == (1,)
    assert len(inferred.args[1]) == 1


class OverLevels(nn.Module):
    """Puts the levels of a pyramid into a row, with the positions of each and what of it is padding."""

    def __init__(self):
        super().__init__()
        self.num_feature_levels = 3
        self.norm = nn.LayerNorm(24)
        self.level_embed = nn.Parameter(torch.zeros(3, 24))

    def forward(self, srcs, masks, pos_embeds):
        flat, where, padded = [], [], []
        for level, (src, mask, pos_embed) in enumerate(zip(srcs, masks, pos_embeds, strict=True)):
            batch, channels, height, width = src.shape
            flat.append(src.reshape(batch, channels, height * width).transpose(1, 2))
            where.append(pos_embed.flatten(2).transpose(1, 2) + self.level_embed[level])
            padded.append(mask.flatten(1))
        row = self.norm(torch.cat(flat, 1) + torch.cat(where, 1))
        return row.masked_fill(torch.cat(padded, 1)[..., None], 0.0)


def test_what_a_forward_goes_over_as_pictures_is_a_list_of_them_with_what_goes_beside():
    inferred = fed(OverLevels())
    sources, masks, positions = inferred.args
    assert [each.shape for each in sources] == [(2, 24, 16, 16), (2, 24, 8, 8), (2, 24, 4, 4)]
    assert [each.shape for each in positions] == [each.shape for each in sources]
    assert {each.dtype for each in masks} == {torch.bool}
    assert not inferred.failures


class Deepest(nn.Module):
    """Goes over what encoders give, the deepest first."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Conv2d(each, 8, 1) for each in (32, 16, 4))

    def forward(self, features):
        features = features[::-1]
        return sum(block(each).mean((2, 3)) for block, each in zip(self.blocks, features, strict=False))


class Looping(Deepest):
    def forward(self, features):
        total = 0.0
        for block, each in zip(self.blocks, reversed(list(features)), strict=False):
            total = total + block(each).mean((2, 3))
        return total


@pytest.mark.parametrize("model", [Deepest(), Looping()])
def test_a_list_that_is_turned_has_what_layers_take_in_its_own_order(model):
    (features,) = fed(model).args
    assert [each.shape[1] for each in features] == [4, 16, 32]


class Skipping(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x, skips):
        for skip in skips[::-1]:
            x = self.conv(x) + skip
        return x


class Inverse(nn.Module):
    def forward(self, coefficients):
        low, high = coefficients
        for each in high[::-1]:
            low = low + each.mean()
        return low


def test_what_is_turned_is_a_list():
    x, skips = fed(Skipping()).args
    assert [each.shape for each in skips] == [x.shape] * 3
    ((_, high),) = fed(Inverse()).args
    assert isinstance(high, list)

"""Inputs that belong together: what is joined, what comes in pairs or by keys, and what only a compiled run shows."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - torch's own name for it.

from fxengine.inputs import infer_inputs
from tests.support.feeding import fed


class AcrossPictures(nn.Module):
    """A mask has no dimension for heads, so that with several pictures each attends in the place of all."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Conv2d(3, 8, 8, stride=8)

    def forward(self, sample: Tensor):
        x = self.embed(sample)
        batch, channels, height, width = x.shape
        tokens = x.flatten(2).transpose(1, 2).unsqueeze(1)
        mask = torch.zeros(batch, height * width, height * width)
        attended = nn.functional.scaled_dot_product_attention(tokens, tokens, tokens, attn_mask=mask)
        return attended.squeeze(1).reshape(batch, height, width, channels)


def test_what_makes_more_of_several_examples_gets_one():
    inferred = fed(AcrossPictures())
    assert inferred.args[0].shape[0] == 1
    assert len(inferred.failures) < 3


class OfSizes(nn.Module):
    """Each number of two tables becomes a third of a vector, and the vector has three parts."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Conv2d(4, 24, 4, stride=4)
        self.resolutions = nn.Linear(1, 8)
        self.ratios = nn.Linear(1, 8)

    def forward(self, sample: Tensor, resolution: Tensor, aspect_ratio: Tensor):
        batch = sample.shape[0]
        sizes = self.resolutions(resolution.reshape(-1, 1).float()).reshape(batch, -1)
        ratios = self.ratios(aspect_ratio.reshape(-1, 1).float()).reshape(batch, -1)
        return self.embed(sample) + torch.cat([sizes, ratios], 1)[:, :, None, None]


def test_of_joined_tables_one_has_so_many_columns_less_as_numbers_are_too_much():
    _, resolution, ratio = fed(OfSizes()).args
    assert sorted([resolution.shape, ratio.shape]) == [(2, 1), (2, 2)]


class Conditioned(nn.Module):
    """Of what is joined only the whole is unpacked."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Conv2d(6, 8, 3, padding=1)

    def forward(self, condition: Tensor, features: Tensor, memory: Tensor):
        whole = torch.cat([condition, features, memory], dim=1)
        batch, channels, frames, height, width = whole.shape
        return self.embed(whole.permute(0, 2, 1, 3, 4).reshape(batch * frames, channels, height, width))


def test_what_is_joined_gets_more_dimensions_together():
    joined = fed(Conditioned(), budget_s=6.0).args
    assert [each.dim() for each in joined] == [5, 5, 5]
    assert sum(each.shape[1] for each in joined) == 6


class JoinedBehind(nn.Module):
    """What is joined has fewer dimensions at first than the one that it is joined along."""

    def forward(self, features: Tensor, memory: Tensor):
        return torch.cat([features, memory], dim=3).sum()


def test_what_is_joined_along_a_dimension_that_it_lacks_gets_that():
    features, memory = fed(JoinedBehind(), budget_s=20.0).args
    assert features.dim() == memory.dim() >= 4


class OfManyFeatures(nn.Module):
    """What is known of the input may be given as well, and some of it has to be."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(3, 8)

    def forward(self, x: Tensor, settings: dict[str, Tensor] | None = None):
        known = {**(settings or {}), "x": x}
        return self.embed(known["x"]) * known["is_real"].bool().unsqueeze(-1)


def test_a_key_that_nobody_gave_stands_in_an_optional_dictionary():
    inferred = fed(OfManyFeatures(), budget_s=6.0)
    assert "'is_real'" in inferred.recipes["settings"].expression


class AsksBeforehand(nn.Module):
    """Whether a mask hides anything is asked of what was made of it, unless the model is compiled."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(100_000, 128)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, states: Tensor):
        x = self.tokens(input_ids)
        longer = nn.functional.pad(attention_mask.float(), (0, 1 << 16))
        if not torch.compiler.is_compiling() and bool((longer > 1).all()):
            return x
        return x.unflatten(-1, (2, 64))[:, :, 0] + states


def test_what_is_behind_a_look_at_data_is_run_as_when_compiling():
    inferred = infer_inputs(AsksBeforehand().to("meta"), budget_s=6.0)
    assert inferred.complete
    assert inferred.args[2].shape[-1] == 64


class Pairs(nn.Module):
    """What is attended to comes with its mask, in pairs."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(12, 8)

    def forward(self, encodings_and_masks, x: Tensor):
        joined = torch.cat([encoding * one.unsqueeze(-1) for encoding, one in encodings_and_masks], dim=1)
        masks = torch.cat([one for _, one in encodings_and_masks], dim=1)
        assert masks.dtype is torch.bool
        return self.embed(x).mean(1, keepdim=True) + joined * masks.unsqueeze(-1)


def test_pairs_that_a_comprehension_unpacks_are_what_they_are_called():
    (encoding, mask), *others = fed(Pairs(), budget_s=20.0).args[0]
    assert encoding.is_floating_point()
    assert mask.dtype is torch.bool
    assert len(others) == 1


class Counted(nn.Module):
    """Which example each row belongs to, although it is called a mask."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(12, 8)

    def forward(self, x: Tensor, order_mask: Tensor):
        counts = torch.bincount(order_mask, minlength=x.shape[0])
        return self.embed(x).sum() / counts


def test_what_is_counted_are_whole_numbers_in_a_row():
    inferred = fed(Counted())
    order = inferred.args[1]
    assert order.dim() == 1
    assert not order.is_floating_point()
    assert order.dtype is not torch.bool
    assert len(inferred.failures) < 5


class BesideAMask(nn.Module):
    """A video gets a further channel from the mask of a picture, which is made as large."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Conv3d(5, 8, (1, 8, 8), stride=(1, 8, 8))

    def forward(self, sample: Tensor, padding_mask: Tensor):
        batch, _, frames, height, width = sample.shape
        mask = padding_mask.float()
        single = mask.dim() < 4
        mask = nn.functional.interpolate(mask.unsqueeze(0) if single else mask, size=(height, width))
        mask = mask.squeeze(0) if single else mask
        return self.embed(torch.cat([sample, mask.unsqueeze(2).repeat(batch, 1, frames, 1, 1)], dim=1))


def test_what_becomes_as_large_as_a_picture_is_one():
    inferred = fed(BesideAMask(), budget_s=10.0)
    sample, mask = inferred.args
    assert sample.shape[1] == 4
    assert mask.shape == (1, 1, *sample.shape[-2:])


class OfPatches(nn.Module):
    """Channels, joined by a mask, in patches of four."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(4 * 22, 8)

    def forward(self, latents: torch.Tensor):
        batch, _, height, width = latents.shape
        joined = torch.cat([latents, torch.zeros(batch, 2, height, width, device=latents.device)], dim=1)
        patches = joined.reshape(batch, -1, height // 2, 2, width // 2, 2).permute(0, 2, 4, 1, 3, 5)
        return self.embed(patches.flatten(3))


def test_what_a_mask_is_joined_to_before_it_is_cut_into_patches():
    inferred = fed(OfPatches())
    assert inferred.args[0].shape[1] == 20
    assert len(inferred.failures) <= 2


class Grids(nn.Module):
    def forward(self, x: torch.Tensor, spatial_shapes: torch.LongTensor):
        for height, width in spatial_shapes.tolist():
            x = x[:, : height * width].reshape(2, height, width, -1).flatten(1, 2)
        return x


def test_rows_and_columns_for_each():
    assert fed(Grids()).args[1].shape == (2, 2)


class Scored(nn.Module):
    """A vector sums over the nodes."""

    def __init__(self):
        super().__init__()
        self.weight, self.mix = nn.Parameter(torch.ones(21)), nn.Parameter(torch.ones(5, 21))

    def forward(self, x: torch.Tensor):
        assert x.dim() == 4
        return torch.matmul(torch.matmul(x.permute(0, 3, 2, 1), self.weight), self.mix)


def test_what_a_vector_is_multiplied_with_is_as_long():
    inferred = fed(Scored())
    assert inferred.args[0].shape == (2, 21, 5, 5)
    assert len(inferred.failures) < 3


class OfBlocks(nn.Module):
    """Each block gives the tokens of patches and the one of the class."""

    def __init__(self):
        super().__init__()
        self.scores = nn.Linear(2 * 64, 10)

    def forward(self, blocks: Any, targets: Any):
        known = torch.cat([class_token for _, class_token in blocks[-2:]], dim=-1)
        return {"scores": self.scores(known.float()), "targets": targets}


def test_the_token_of_the_class_is_no_number_of_one():
    blocks, targets = fed(OfBlocks(), budget_s=6.0).args
    assert [class_token.is_floating_point() for _, class_token in blocks] == [True, True]
    assert not targets.is_floating_point()


class Filling(nn.Module):
    """As models that fill in what a mask has taken out of a picture."""

    def __init__(self):
        super().__init__()
        self.steps = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 3, padding=1))

    def forward(self, image: Tensor, hidden: Tensor):
        filled = self.steps(torch.cat([image * (1 - hidden), hidden], 1))
        return hidden * filled + (1 - hidden) * image


def test_what_is_joined_to_a_picture_has_one_channel():
    inferred = fed(Filling())
    assert [each.shape[1] for each in inferred.args] == [3, 1]


class Detecting(nn.Module):
    """As those that look for objects: a picture of features and what says where each is are put in order alike."""

    def __init__(self):
        super().__init__()
        self.attend = nn.MultiheadAttention(16, 2)

    def forward(self, src: Tensor, mask: Tensor, queries: Tensor, pos_embed: Tensor):
        count, channels, height, width = src.shape
        src = src.flatten(2).permute(2, 0, 1)
        pos_embed = pos_embed.flatten(2).permute(2, 0, 1)
        queries = queries.unsqueeze(1).repeat(1, count, 1)
        placed = src + pos_embed
        src, _ = self.attend(placed, placed, src, key_padding_mask=mask.flatten(1))
        found, _ = self.attend(queries, src + pos_embed, src, key_padding_mask=mask.flatten(1))
        return found, src.permute(1, 2, 0).view(count, channels, height, width)


def test_what_is_put_in_order_alike_has_the_same_sizes():
    inferred = fed(Detecting())
    src, mask, queries, pos = inferred.args
    assert src.shape == pos.shape
    assert src.shape[1] == queries.shape[-1] == 16
    assert mask.flatten(1).shape == (src.shape[0], src.shape[2] * src.shape[3])
    assert mask.shape[1] <= 56 * 56  # Each pixel attends to each other.


class Difference(nn.Module):
    """As measures of two things of which one alone goes to a layer by itself."""

    def __init__(self):
        super().__init__()
        self.see = nn.Conv2d(3, 8, 3)

    def forward(self, in0, in1):
        return self.see(in0) - self.see(in0 + in1)


class Contrast(nn.Module):
    """As losses that compare each of one batch with each of another."""

    def forward(self, z_i, z_j):
        z = torch.cat((z_i, z_j))
        return torch.diag(z @ z.t(), len(z_i)).sum()


@pytest.mark.parametrize("model", [Difference(), Contrast()])
def test_two_that_are_called_alike_are_alike(model):
    inferred = fed(model)
    one, other = inferred.args
    assert one.shape == other.shape
    assert not inferred.failures


class Diagonal(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.LayerNorm(8)

    def forward(self, x):
        return torch.diag(self.first(x))


def test_a_message_about_ranks_is_read():
    inferred = fed(Diagonal())
    assert len(inferred.args[0].shape) == 2
    assert len(inferred.failures) == 1


class Distilling(nn.Module):
    def layer_loss(self, one, other):
        height, width = one.shape[2:]
        return F.mse_loss(one, other) / (height * width)

    def forward(self, teacher: dict[str, Tensor], student: dict[str, Tensor]):
        return torch.stack([self.layer_loss(teacher[layer], student[layer]) for layer in teacher]).sum()


def test_dictionaries_of_which_nothing_is_looked_up_by_name_have_the_same_keys():
    found = fed(Distilling())
    teacher, student = found.args
    assert list(teacher) == list(student) == ["0", "1"]
    assert all(one.dim() == 4 and one.shape == student[key].shape for key, one in teacher.items())


class Measured(nn.Module):
    """Asks how wide two inputs are together."""

    def __init__(self):
        super().__init__()
        self.width, self.layer = 48, nn.Linear(48, 4)

    def forward(self, trunk, inputs):
        joined = torch.cat((trunk, inputs), dim=-1)
        assert joined.shape[-1] == self.width
        return self.layer(joined)


def test_what_is_joined_is_as_wide_together_as_the_code_asks():
    trunk, inputs = fed(Measured()).args
    assert (trunk.dim(), trunk.shape[-1] + inputs.shape[-1]) == (inputs.dim(), 48)
    assert len(fed(Measured()).failures) == 1


def _shaped(dimensions):
    """Return an annotation as jaxtyping makes them of whole numbers."""
    return type("Int", (), {"dim_str": dimensions, "dtypes": ["int32", "int64"]})


class Pooled(nn.Module):
    """Takes as many rows of each example as are said of its parts, one after the other."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Tensor, part_lens: _shaped("b n"), lengths: _shaped("b")):
        x = self.norm(x)
        if (part_lens.sum(-1) > x.shape[1]).any() or (lengths > x.shape[1]).any():
            raise ValueError("longer than there is")
        return x.cumsum(1).gather(1, (part_lens.cumsum(-1) - 1)[..., None].expand(-1, -1, x.shape[-1]))


def test_the_lengths_of_parts_are_no_more_together_than_there_is():
    inferred = fed(Pooled())
    assert (inferred.complete, inferred.failures) == (True, ())
    assert inferred.expression.endswith("torch.full((2, 16), 1), torch.full((2,), 16)")

"""Rules about shapes: each answers what a real run gives, order in memory included, and nothing where that raises."""

import itertools
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch.utils import _pytree as pytree

from fxengine.shape_rules import answer


@dataclass(frozen=True)
class Of:
    """A tensor to be made: whole numbers stay below `high`, `turned` exchanges two dimensions."""

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    high: int = 2
    turned: bool = False

    def made(self, device: str) -> Tensor:
        """Return it on a device."""
        if self.dtype.is_floating_point:
            value = torch.rand(self.shape, dtype=self.dtype, device=device)
        else:
            value = torch.randint(0, self.high, self.shape, device=device).to(self.dtype)
        return value.transpose(0, 1) if self.turned else value


def calls(*choices, **named):
    """All calls with one of each list of arguments."""
    for values in itertools.product(*choices, *named.values()):
        yield values[: len(choices)], dict(zip(named, values[len(choices) :], strict=True))


IMAGE = Of((2, 3, 8, 6))
ROWS = [Of((4, 6)), Of((2, 4, 6)), Of((6,)), Of(()), Of((6, 4), turned=True), Of((4, 6), torch.float64)]
INTEGERS = [Of((4, 6), torch.int64), Of((4, 6), torch.bool)]
PLACES = Of((5,), torch.int64)

CASES = {
    F.interpolate: [
        *calls(
            [IMAGE, Of((2, 3, 8)), Of((2, 3, 4, 4, 4))],
            [None],
            [2, 0.5, 1.3, (2, 1.5)],
            ["nearest", "bilinear", "linear", "trilinear", "area"],
        ),
        *calls(
            [IMAGE, Of((2, 3, 8))],
            [5, (4, 9), [7], (0, 1)],
            [None],
            ["bicubic", "nearest-exact", "bilinear"],
            [None, True, False],
        ),
        *calls([Of((3, 8, 6)), IMAGE], [None], [None, 2], ["nearest", "strange"], [None], [None, True]),
    ],
    F.grid_sample: calls(
        [IMAGE, Of((2, 3, 4, 4, 4))],
        [Of((2, 5, 7, 2)), Of((2, 5, 7, 3)), Of((1, 5, 7, 2)), Of((2, 5, 6, 7, 3)), Of((2, 5, 7, 2), torch.float64)],
        mode=["bilinear", "nearest", "bicubic"],
        padding_mode=["zeros", "border", "none"],
        align_corners=[True, None],
    ),
    F.adaptive_avg_pool1d: calls([Of((2, 3, 8)), Of((3, 8)), IMAGE], [1, 4, (3,), (1, 2), 0]),
    F.adaptive_avg_pool2d: calls([IMAGE, Of((3, 8, 6)), Of((2, 3, 8))], [1, (4, None), (None, 2), 3, (2,)]),
    F.adaptive_avg_pool3d: calls([Of((2, 3, 4, 4, 4)), IMAGE], [1, (2, None, 4), 5]),
    F.instance_norm: calls(
        [IMAGE, Of((2, 3, 8)), Of((3, 8)), Of((2, 3, 1)), Of((2, 3, 8, 6), torch.int64)],
        [None],
        [None],
        [None, Of((3,)), Of((4,))],
        [None, Of((3,))],
    ),
    F.prelu: calls([IMAGE, *ROWS], [Of((1,)), Of((3,)), Of((6,)), Of((1,), torch.float64)]),
    torch._VF.lstm_cell: calls(
        [Of((2, 5)), Of((2, 4)), Of((5,))],
        [(Of((2, 3)), Of((2, 3))), (Of((3, 3)), Of((3, 3)))],
        [Of((12, 5))],
        [Of((12, 3))],
        [None, Of((12,))],
        [None, Of((12,))],
    ),
    torch._VF.gru_cell: calls(
        [Of((2, 5)), Of((2, 4))], [Of((2, 3)), Of((3, 3))], [Of((9, 5))], [Of((9, 3))], [Of((9,)), Of((8,))], [Of((9,))]
    ),
    torch._VF.rnn_tanh_cell: calls(
        [Of((2, 5))], [Of((2, 3)), Of((2, 4))], [Of((3, 5))], [Of((3, 3))], [Of((3,))], [Of((3,))]
    ),
    torch.addmm: calls([Of((3,)), Of((2, 3)), Of((2, 1)), Of((4, 3))], [Of((2, 5)), Of((2, 4))], [Of((5, 3))]),
    F.multi_head_attention_forward: [
        ((query, source, source, 6, heads, Of((18, 6)), Of((18,)), None, None, False, 0.0, Of((6, 6)), Of((6,))), more)
        for query in (Of((4, 2, 6)), Of((4, 3, 6)), Of((4, 6)))
        for source in (Of((5, 2, 6)), Of((5, 2, 6), torch.float64))
        for heads in (2, 4)
        for more in (
            {"training": True, "key_padding_mask": None, "use_separate_proj_weight": False},
            {"need_weights": False, "attn_mask": Of((4, 5))},
            {"key_padding_mask": Of((2, 5), torch.bool), "average_attn_weights": False},
            {"attn_mask": Of((4, 5, 2, 6)[:3])},
            {"attn_mask": Of((4, 4, 5), torch.bool)},
        )
    ],
    Tensor.__getitem__: calls(
        [Of((4, 6, 3)), Of((4, 6)), Of((6, 4, 3), turned=True)],
        [
            PLACES,
            (PLACES,),
            (PLACES, PLACES),
            (slice(None), PLACES),
            (PLACES, slice(None), PLACES),
            (slice(None), PLACES, PLACES),
            (Of((5, 1), torch.int64), Of((1, 7), torch.int64)),
            (PLACES, Of((4,), torch.int64)),
            (slice(1, 2), PLACES),
            (PLACES, None),
            (0, PLACES),
            (Of((), torch.int64), slice(None)),
            Of((), torch.int32),
            (slice(1, 3), Of((), torch.int64)),
            (Of((), torch.int64), PLACES),
            (Of((), torch.int64), Of((), torch.int64)),
            Of((), torch.bool),
            (Of((5,), torch.int32), PLACES),
            (PLACES,) * 4,
        ],
    ),
    torch.tril: calls([*ROWS, *INTEGERS], [0, 1, -1]),
    Tensor.triu: calls([*ROWS, *INTEGERS], diagonal=[0, 2]),
    F.glu: calls([*ROWS, IMAGE], [-1, 0, 1, 5]),
    torch.where: calls(
        [Of((4, 6), torch.bool), Of((6,), torch.bool), Of((4, 6))],
        [Of((4, 6)), 0.0, 1, Of((4, 6), torch.float64)],
        [Of((4, 1)), Of((4, 6), torch.int64), 2.0, Of((5, 6))],
    ),
    torch.logical_and: calls(
        [Of((4, 6), torch.bool), *ROWS[:2]], [Of((4, 1), torch.bool), Of((3, 6), torch.bool), Of((6,), torch.int64)]
    ),
    Tensor.__or__: calls(
        [Of((4, 6), torch.bool), Of((4, 6), torch.int64)], [Of((6,), torch.bool), True, Of((4, 6), torch.int64)]
    ),
    torch.isnan: calls([*ROWS, *INTEGERS]),
    Tensor.any: calls([*ROWS, *INTEGERS], [0, -1, 3]),
    Tensor.all: [*calls([Of((4, 6), torch.bool)], [1], [True, False]), *calls(INTEGERS)],
    Tensor.__floordiv__: calls([*ROWS, *INTEGERS], [2, 0.5, True, Of((6,))]),
    Tensor.__mod__: calls([*ROWS, *INTEGERS], [2, 0.5, 0]),
    torch.cumsum: calls([*ROWS, *INTEGERS], [0, -1, 4]),
    torch.logsumexp: calls([*ROWS, *INTEGERS], [0, -1, (0, 1), None], [True, False]),
    Tensor.norm: calls([*ROWS, *INTEGERS], ["fro", 2, 1, None, "nuc"], [None, -1, (0, 1)], [True, False]),
    torch.linalg.vector_norm: calls([*ROWS, *INTEGERS], [2, 1.0], [None, -1, 7], [True, False]),
    F.mse_loss: calls(
        [*ROWS, *INTEGERS],
        [Of((4, 6)), Of((4, 6), torch.float64), Of((6,))],
        reduction=["mean", "none", "sum", "other"],
    ),
    F.smooth_l1_loss: calls([Of((4, 6))], [Of((4, 6)), Of((3, 6))], beta=[0.5]),
    F.binary_cross_entropy_with_logits: calls(ROWS, [Of((4, 6)), Of(())], reduction=["mean", "none"]),
    F.kl_div: calls(ROWS, [Of((4, 6)), Of((6,))], reduction=["sum", "none", "batchmean"]),
    F.binary_cross_entropy: calls(ROWS, [Of((4, 6)), Of((6,))], reduction=["none", "sum"]),
    F.cross_entropy: calls(
        [Of((4, 6)), Of((2, 6, 3)), Of((6,))],
        [Of((4,), torch.int64), Of((2, 3), torch.int64), Of((), torch.int64), Of((4, 6)), Of((2,), torch.int64)],
        reduction=["mean", "none", "other"],
        label_smoothing=[0.0, 0.1],
    ),
    F.nll_loss: calls([Of((4, 6)), Of((2, 6, 3, 2))], [Of((4,), torch.int64), Of((2, 3, 2), torch.int64), Of((4,))]),
    F.normalize: calls(ROWS, dim=[-1, 0], out=[None]),
    F.cosine_similarity: calls(
        [Of((4, 6)), Of((2, 4, 6)), Of((6,))],
        [Of((4, 6)), Of((1, 6)), Of((3, 6)), Of((4, 6), torch.float64)],
        [1, -1, 0, 4],
    ),
}


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_a_rule_says_what_a_real_run_gives(function):
    answered = 0
    for args, kwargs in CASES[function]:
        given, named = pytree.tree_map_only(Of, lambda each: each.made("meta"), (args, kwargs))
        data, more = pytree.tree_map_only(Of, lambda each: each.made("cpu"), (args, kwargs))
        try:
            found = answer(function, given, named)
        except RuntimeError:
            with pytest.raises(RuntimeError):
                function(*data, **more)
            continue
        if found is None:
            continue
        answered += 1
        real = function(*data, **more)
        for ours, theirs in zip(pytree.tree_leaves(found), pytree.tree_leaves(real), strict=True):
            if theirs is None:
                assert ours is None
                continue
            assert (ours.shape, ours.dtype, ours.is_meta) == (theirs.shape, theirs.dtype, True), (args, kwargs)
            assert ours.stride() == theirs.stride(), (args, kwargs)
    assert answered

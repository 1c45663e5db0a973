"""Running for shapes alone: the same shapes and types as real runs give, state untouched, small constants real."""

import itertools

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from fxengine.shape_rules import RULES
from fxengine.shapes_only import ShapesOnly, needs_data


def meta(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device="meta")


CALLS = {
    "relu": F.relu,
    "relu_inplace": lambda x: F.relu(x + 0, inplace=True),
    "gelu": lambda x: F.gelu(x, approximate="tanh"),
    "dropout": lambda x: F.dropout(x, 0.5, training=True),
    "int_sigmoid": lambda x: torch.sigmoid(x.long()),
    "add_row": lambda x: x + x[:, :1],
    "add_reversed": lambda x: 1 - x,
    "add_wider": lambda x: x[:, :1] + x,
    "add_int": lambda x: x + x.long(),
    "add_half": lambda x: x.half() + x,
    "add_bool": lambda x: x * True,
    "alpha": lambda x: torch.add(x, x, alpha=2),
    "div_int": lambda x: x.long() / 2,
    "outer": lambda x: x[:, :, None] * x[:, None, :],
    "outer_sum": lambda x: x[:, None] + x[None, :, :1].contiguous(),
    "outer_strided": lambda x: x.t()[:, None] - x[None, :, :4],
    "softmax": lambda x: x.softmax(-1),
    "softmax_by_name": lambda x: torch.softmax(x.t(), dim=0),
    "softmax_wider": lambda x: F.softmax(x, dim=1, dtype=torch.float64),
    "softmax_of_scalar": lambda x: F.log_softmax(x[0, 0], 0),
    "log_softmax": lambda x: F.log_softmax(x.half(), dim=-2),
    "compare": lambda x: x > 0.5,
    "compare_bool": lambda x: (x > 0.5) == (x > 0.1),
    "masked_fill": lambda x: x.masked_fill(x > 0, float("-inf")),
    "linear": lambda x: F.linear(x, torch.ones(3, 6), torch.ones(3)),
    "conv": lambda x: F.conv2d(x.view(1, 2, 3, 4), torch.ones(6, 1, 2, 3), torch.ones(6), (1, 2), 1, 1, 2),
    "conv_same": lambda x: F.conv1d(x[None], torch.ones(3, 4, 3), padding="same"),
    "conv_dilated": lambda x: F.conv1d(x[None], torch.ones(3, 4, 2), None, 2, 1, 3),
    "conv_cube": lambda x: F.conv3d(x.view(1, 1, 2, 3, 4), torch.ones(5, 1, 1, 2, 3), stride=[1, 1, 2]),
    "conv_unbatched": lambda x: F.conv1d(x, torch.ones(3, 4, 3)),
    "conv_double": lambda x: F.conv1d(x.double()[None], torch.ones(3, 4, 3, dtype=torch.float64)),
    "linear_vector": lambda x: F.linear(x[0], torch.ones(3, 6)),
    "matmul": lambda x: x @ x.t(),
    "matmul_vector": lambda x: x @ x[0],
    "matmul_batch": lambda x: torch.matmul(x[None], x.t().expand(2, 6, 4)[:1]),
    "matmul_broadcast": lambda x: torch.matmul(x[None, None], x.t().expand(2, 6, 4)),
    "matmul_bool": lambda x: x.bool().int() @ x.t().int(),
    "layer_norm": lambda x: F.layer_norm(x, (6,), torch.ones(6)),
    "rms_norm": lambda x: F.rms_norm(x, [6]),
    "group_norm": lambda x: F.group_norm(x.view(4, 6, 1), 3, eps=1e-3),
    "batch_norm": lambda x: F.batch_norm(x, torch.zeros(6), torch.ones(6)),
    "batch_norm_train": lambda x: F.batch_norm(x, None, None, training=True),
    "attention": lambda x: F.scaled_dot_product_attention(*(x.view(1, 2, 2, 6),) * 3),
    "attention_mask": lambda x: F.scaled_dot_product_attention(*(x.view(1, 2, 2, 6),) * 3, attn_mask=torch.zeros(2, 2)),
    "attention_value": lambda x: F.scaled_dot_product_attention(*(x[None, None],) * 2, x[None, None, :, :3]),
    "attention_groups": lambda x: F.scaled_dot_product_attention(
        x.view(1, 4, 2, 3), *(x[:2].view(1, 2, 2, 3),) * 2, is_causal=True, enable_gqa=True
    ),
    "cat": lambda x: torch.cat([x, x[:, :2]], dim=-1),
    "cat_types": lambda x: torch.cat([x, x.half()]),
    "stack": lambda x: torch.stack((x, x), 1),
    "stack_last": lambda x: torch.stack((x, x), dim=-1),
    "adaptive_pool": lambda x: F.adaptive_avg_pool2d(x.view(1, 2, 4, 3), (2, None)),
    "mean": lambda x: x.mean(),
    "mean_dim": lambda x: x.mean((0, 1), keepdim=True),
    "mean_int": lambda x: x.mean(dtype=torch.float64),
    "sum_dim": lambda x: x.sum(-1, keepdim=True),
    "sum_dims": lambda x: torch.sum(x[None], dim=[0, -2]),
    "sum_bools": lambda x: (x > 0).sum(1),
    "sum_number": lambda x: x[0, 0].sum(),
    "power": lambda x: (x**2).pow(0.5).clamp(min=1e-4, max=1),
    "power_of_tensors": lambda x: x.pow(x[0]),
    "power_int": lambda x: x.long().pow(2),
    "type_name": lambda x: torch.zeros(3, 4).type(x.type()) @ x,
    "type_of_integers": lambda x: x.type("torch.LongTensor"),
    "type_of_cuda": lambda x: x.long().type(torch.FloatTensor),
    "normalize": lambda x: F.normalize(x, dim=1),
    "linear_named": lambda x: F.linear(input=x, weight=torch.ones(3, 6), bias=torch.ones(3)),
    "add_named": lambda x: torch.add(x, other=x) + torch.matmul(input=x, other=x.t()).sum(),
    "relu_named": lambda x: F.relu(input=x) + F.softmax(input=x, dim=-1),
    "istft": lambda x: torch.istft(
        torch.stft(x.repeat(1, 9), 8, 3, window=torch.ones(8), return_complex=True), 8, 3, window=torch.ones(8)
    ),
    "istft_length": lambda x: torch.istft(
        torch.stft(x.double().repeat(1, 9), 9, return_complex=True, onesided=False, window=torch.ones(9).double()),
        9, onesided=False, length=40, return_complex=True, window=torch.ones(9).double(),
    ),
    "ctc": lambda x: F.ctc_loss(
        x.view(6, 2, 2).log_softmax(-1), torch.ones(2, 1).long(), torch.tensor([6, 6]), torch.tensor([1, 1]),
        reduction="none",
    ),
    "ctc_mean": lambda x: F.ctc_loss(
        x.view(6, 2, 2).log_softmax(-1), torch.ones(2, 1).long(), torch.tensor([6, 6]), torch.tensor([1, 1])
    ),
    "lstsq": lambda x: torch.linalg.lstsq(x, x[:, :2]).solution,
    "corrcoef": lambda x: torch.corrcoef(x) + x.cov(),
    "combinations": lambda x: torch.combinations(x[0]),
    "gaussian": lambda x: F.gaussian_nll_loss(x, x, x.abs(), reduction="none"),
    "histogram": lambda x: torch.histogram(x, 5)[0],
    "expanded": lambda x: x[:, :1].expand(4, 9) + 1,
    "transposed": lambda x: x.t().relu().reshape(-1),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_shapes_and_types_are_those_of_a_real_run(name):
    call = CALLS[name]
    real = call(torch.rand(4, 6))
    with ShapesOnly():
        found = call(meta(4, 6))
    assert (found.shape, found.dtype, found.is_meta) == (real.shape, real.dtype, True)


BROKEN = {
    "layer_norm": lambda x: F.layer_norm(x, (5,)),
    "group_norm": lambda x: F.group_norm(x.view(4, 6, 1), 4),
    "batch_norm": lambda x: F.batch_norm(x, torch.zeros(5), torch.ones(5)),
    "one_value": lambda x: F.batch_norm(x[:1], None, None, training=True),
    "add": lambda x: x + x[:, :3],
    "cat": lambda x: torch.cat([x, x[:, :3]]),
    "cat_dim": lambda x: torch.cat([x, x], 2),
    "stack": lambda x: torch.stack([x, x[:, :3]]),
    "attention": lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None, :, :3], x[None, None]),
    "attention_groups": lambda x: F.scaled_dot_product_attention(
        x.view(1, 4, 2, 3), *(x[:3].view(1, 3, 2, 3),) * 2, enable_gqa=True
    ),
    "sum_dim": lambda x: x.sum(2),
    "sum_twice": lambda x: x.sum((0, -2)),
    "linear": lambda x: F.linear(x, torch.ones(3, 5)),
    "linear_bias": lambda x: F.linear(x, torch.ones(3, 6), torch.ones(2)),
    "matmul": lambda x: x @ x,
    "linear_integers": lambda x: F.linear(x.long(), torch.ones(3, 6)),
    "linear_half": lambda x: F.linear(x.half(), torch.ones(3, 6)),
    "matmul_types": lambda x: x @ x.t().double(),
    "layer_norm_integers": lambda x: F.layer_norm(x.long(), (6,)),
    "attention_types": lambda x: F.scaled_dot_product_attention(x[None], x[None].half(), x[None]),
    "transposed": lambda x: F.conv_transpose1d(x[None], torch.ones(3, 2, 3)),
    "transposed_alone": lambda x: F.conv_transpose1d(x, torch.ones(3, 2, 3)),
    "normalize_dim": lambda x: F.normalize(x[0]),
    "convolution_integers": lambda x: F.conv1d(x[None].long(), torch.ones(2, 4, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_fails_for_real_fails_here(name):
    with pytest.raises((RuntimeError, ValueError, IndexError)):
        BROKEN[name](torch.rand(4, 6))
    with ShapesOnly(), pytest.raises((RuntimeError, ValueError, IndexError)) as caught:
        BROKEN[name](meta(4, 6))
    assert not needs_data(caught.value)


@pytest.mark.parametrize(
    "shapes", [((4, 6), (4, 3)), ((2, 4, 6), (3, 1)), ((5,), (2, 1, 4)), ((2, 3), (4, 1, 3, 1, 1, 2))]
)
def test_what_does_not_broadcast_is_told_in_the_words_of_the_kernels_for_data(shapes):
    with pytest.raises(RuntimeError) as real:
        torch.add(*map(torch.rand, shapes))
    with ShapesOnly(), pytest.raises(RuntimeError) as found:
        torch.add(*(meta(*shape) for shape in shapes))
    assert str(found.value) == str(real.value)


def test_every_rule_belongs_to_a_function_of_torch():
    assert all(callable(function) for function in RULES)
    assert len(RULES) > 100


def test_parameters_and_buffers_stay_as_they_are():
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    with torch.no_grad(), ShapesOnly(module):
        assert module(meta(5, 3)).shape == (5, 4)
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())


def test_small_constants_keep_their_values():
    with ShapesOnly():
        x = meta(2, 5)
        assert torch.arange(x.shape[1], device=x.device).tolist() == [0, 1, 2, 3, 4]
        assert torch.arange(3).type_as(x).tolist() == torch.arange(3).to(x).tolist() == [0.0, 1.0, 2.0]
        assert x.device == torch.device("cpu")
        assert torch.zeros(1 << 10, 1 << 10).shape == (1 << 10, 1 << 10)


def test_a_constant_that_was_overwritten_has_no_values():
    with ShapesOnly():
        table = torch.zeros(2, 3)
        table[:, 0] = meta(2)
        with pytest.raises((RuntimeError, NotImplementedError)) as caught:
            table.tolist()
    assert needs_data(caught.value)


READS = {
    "item": lambda x: x.sum().item(),
    "bool": lambda x: bool(x.sum() > 0),
    "tolist": lambda x: x.tolist(),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "unique": torch.unique,
    "numpy": lambda x: x.numpy(),
}  # fmt: skip


@pytest.mark.parametrize("name", READS)
def test_reading_data_is_recognised(name):
    with ShapesOnly(), pytest.raises((RuntimeError, NotImplementedError, TypeError)) as caught:
        READS[name](meta(3, 4))
    assert needs_data(caught.value)


def test_moves_between_devices_only_change_types():
    with ShapesOnly():
        x = meta(2, 3)
        moved = [
            x.cpu(),
            x.to("cpu"),
            x.to(torch.device("cuda")),
            x.to("cuda:0", torch.float16, non_blocking=True),
            x.cuda(),
        ]
        assert [value.dtype for value in moved] == [
            torch.float32,
            torch.float32,
            torch.float32,
            torch.float16,
            torch.float32,
        ]
        assert x.to(moved[3]).dtype is torch.float16
        assert x.to(dtype=torch.float64).dtype is torch.float64


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: nn.LSTM(3, 4, 2), (5, 2, 3)),
        (lambda: nn.TransformerEncoderLayer(8, 2, batch_first=True), (2, 5, 8)),
        (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.InstanceNorm2d(4), nn.PReLU(), nn.PixelShuffle(2)), (2, 3, 9, 9)),
        (lambda: nn.Sequential(nn.Conv1d(3, 4, 3), nn.GLU(1), nn.AdaptiveMaxPool1d(2), nn.Flatten()), (2, 3, 9)),
        (lambda: nn.ConvTranspose2d(3, 4, 2, stride=2), (2, 3, 5, 5)),
    ],
)
def test_layers_give_the_shapes_of_a_real_run(make, shape):
    module = make().eval()
    real = module(torch.rand(shape))
    with torch.no_grad(), ShapesOnly(module):
        found = module(meta(*shape))
    flat = torch.utils._pytree.tree_leaves(found)
    expected = torch.utils._pytree.tree_leaves(real)
    assert [(a.shape, a.dtype) for a in flat] == [(b.shape, b.dtype) for b in expected]


def test_binary_operations_agree_over_shapes_and_types():
    shapes = [(), (1,), (3,), (2, 3), (2, 1), (4, 1, 3)]
    dtypes = [torch.float32, torch.float16, torch.int64, torch.bool]
    for (a, b), (c, d) in itertools.product(itertools.product(shapes, repeat=2), itertools.product(dtypes, repeat=2)):
        real = torch.ones(a, dtype=c) * torch.ones(b, dtype=d)
        with ShapesOnly():
            found = meta(*a, dtype=c) * meta(*b, dtype=d)
        assert (found.shape, found.dtype) == (real.shape, real.dtype)


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda x: x.new_ones(3, dtype=torch.long), [1, 1, 1]),
        (lambda x: x.long().new_zeros((2,)), [0, 0]),
        (lambda x: x.new_full((2,), 7, dtype=torch.int32), [7, 7]),
        (lambda x: torch.full_like(x[0, :2], 5, dtype=torch.long), [5, 5]),
        (lambda x: torch.ones_like(x[0, :2] > 0), [True, True]),
    ],
)
def test_whole_numbers_that_have_of_another_tensor_only_type_and_shape_are_real(make, wanted):
    with ShapesOnly():
        assert make(meta(2, 6)).tolist() == wanted


def test_a_size_may_be_a_number_of_such_a_tensor():
    def shrink(x):
        lengths = x.shape[1] * x.new_ones(2, dtype=torch.long) - 1
        return F.interpolate(x[None, :, : lengths[0]], size=lengths[1])

    with ShapesOnly():
        found = shrink(meta(2, 6))

    assert found.shape == shrink(torch.zeros(2, 6)).shape


def test_what_is_written_into_such_a_tensor_is_not_known():
    with ShapesOnly():
        lengths = meta(2, 6).new_ones(2, dtype=torch.long)
        lengths[0] = meta(3, dtype=torch.long).sum()
        with pytest.raises(RuntimeError) as caught:
            (lengths + 0).tolist()
    assert needs_data(caught.value)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_how_long_packed_sequences_are_stays_known(kind):
    layer, x = kind(3, 4, bidirectional=True), torch.randn(5, 2, 3)

    def padded(given: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(given, torch.tensor([3, 4]), enforce_sorted=False)
        found, lengths = nn.utils.rnn.pad_packed_sequence(layer(packed)[0])
        assert lengths.tolist() == [3, 4]
        return found

    hollow = x.to("meta")
    with ShapesOnly(layer):
        assert padded(hollow).shape == (4, 2, 8)
    assert padded(x).shape == (4, 2, 8)


def test_rows_and_columns_with_data_make_nothing_large():
    with ShapesOnly():
        places = torch.arange(1 << 20)
        mask = (places[:, None] >= places[None]) & (places[None] < 9)
        few = torch.arange(4)[:, None] >= torch.arange(4)
        over_columns = torch.vmap(lambda row, column: (row >= column) & (row > 3), (None, 0))
        over_both = torch.vmap(over_columns, (0, None))(places, places)
    assert over_both.shape == mask.shape
    assert mask.shape == (1 << 20, 1 << 20)
    assert few.sum() == 10


def test_what_is_made_for_each_row_of_a_vmap_is_one_for_each_row():
    def one_hot(row):
        made = row.new_zeros(4)
        made[row] = 1
        return made

    with ShapesOnly():
        found = torch.vmap(one_hot)(meta(3, dtype=torch.long))
    assert found.shape == (3, 4)


def test_what_is_no_row_makes_no_grid_whatever_its_data():
    with ShapesOnly():
        assert [each.shape for each in torch.meshgrid(meta(3), torch.arange(2.0), indexing="ij")] == [(3, 2)] * 2
        with pytest.raises(RuntimeError, match="Expected 0 or 1-dim tensors") as caught:
            torch.meshgrid(meta(2, 3), torch.arange(2.0), indexing="ij")
    assert not needs_data(caught.value)


def test_a_size_that_is_no_whole_number_wants_no_data():
    x = torch.empty(2, 8, device="meta")
    for size, wants in ((4.0, False), (torch.empty((), dtype=torch.int64, device="meta"), True)):
        with ShapesOnly(), pytest.raises((RuntimeError, TypeError)) as caught:
            x.new_zeros((2, size))
        assert needs_data(caught.value) is wants


@pytest.mark.parametrize("soft", [F.softmax, Tensor.softmax, F.log_softmax, torch.softmax])
def test_a_dimension_that_is_not_there_is_none_to_go_along(soft):
    x, hollow = torch.empty(2, 8), torch.empty(2, 8, device="meta")
    with pytest.raises(IndexError) as theirs:
        soft(x, dim=2)
    with ShapesOnly(), pytest.raises(IndexError) as ours:
        soft(hollow, dim=2)
    assert str(ours.value) == str(theirs.value)
    with ShapesOnly():
        assert soft(hollow, dim=-2).shape == x.shape


@pytest.mark.parametrize(
    "index",
    [
        lambda: torch.ones(3, dtype=torch.bool),
        lambda: (slice(None), torch.ones(3, dtype=torch.bool)),
        lambda: (..., torch.ones(4, 5, dtype=torch.bool)),
        lambda: (None, 0, torch.ones(4, 6, dtype=torch.bool)),
        lambda: (slice(1, None), slice(2), torch.ones(4, dtype=torch.bool)),
        lambda: torch.ones(2, 3, 5, 7, dtype=torch.bool),
        lambda: torch.ones(2),
        lambda: (slice(None), 0, torch.ones(5, dtype=torch.bool)),
        lambda: (..., torch.ones(5, dtype=torch.bool)),
        lambda: torch.tensor([0, 1]),
    ],
)
def test_items_that_cannot_be_set_are_told_as_with_data(index):
    def told(device):
        x = torch.zeros(2, 4, 5, device=device)
        try:
            x[index()] = 1.0
        except IndexError as error:
            return str(error)

    with ShapesOnly():
        without = told("meta")
    assert without == told("cpu")

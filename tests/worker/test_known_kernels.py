"""What functions of absent packages do that have to be compiled, or need an accelerator: by what loops make of it."""

import math

import pytest
import torch

from fxworker.known_kernels import known_kernel
from tests.worker.harness import of

INDEX = torch.tensor([0, 2, 0, 1, 2, 2])
REDUCED = {
    "sum": lambda rows: rows.sum(0), "add": lambda rows: rows.sum(0), "mean": lambda rows: rows.mean(0),
    "mul": lambda rows: rows.prod(0), "max": lambda rows: rows.amax(0), "min": lambda rows: rows.amin(0),
}  # fmt: skip


def rows(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("kind", REDUCED)
@pytest.mark.parametrize("dim", [0, 1, -2])
def test_rows_of_each_group_are_taken_together(kind, dim):
    src = rows(6, 4) if dim == 0 else rows(3, 6, 4)
    expected = torch.stack(
        [REDUCED[kind](src.movedim(dim, 0)[group == INDEX]) for group in range(3)], dim if dim == 0 else 1
    )
    given = (src, INDEX, dim) if dim == 0 else (src, INDEX.view(1, 6).expand(3, 6), dim)
    found = known_kernel(f"torch_scatter.scatter_{kind}")(*given, dim_size=4)
    values, places = found if kind in {"max", "min"} else (found, None)
    assert torch.allclose(values.narrow(dim, 0, 3), expected)
    assert not values.narrow(dim, 3, 1).any()
    if places is not None:
        held = src.gather(dim, places.narrow(dim, 0, 3))
        assert torch.equal(held, expected)
        assert places.narrow(dim, 3, 1).eq(6).all()  # A group without rows.
    assert known_kernel("torch_scatter.scatter")(*given, reduce="mean").shape[dim] == 3


def test_what_is_given_to_be_added_to_is_added_to():
    src, out = rows(6, 4), torch.ones(3, 4)
    found = known_kernel("torch_scatter.scatter_sum")(src, INDEX, dim=0, out=out)
    assert found is out
    assert torch.allclose(out, 1 + torch.zeros(3, 4).index_add(0, INDEX, src))
    meta = known_kernel("torch_scatter.scatter_sum")(src.to("meta"), INDEX.to("meta"), dim=0, out=out.to("meta"))
    assert meta.shape == (3, 4)


def test_shares_make_one_in_each_group():
    src = rows(6, 4)
    shares = known_kernel("torch_scatter.scatter_softmax")(src, INDEX, dim=0)
    for group in range(3):
        assert torch.allclose(shares[group == INDEX], src[group == INDEX].softmax(0))
    assert torch.allclose(known_kernel("torch_scatter.composite.scatter_log_softmax")(src, INDEX, 0), shares.log())


def test_rows_that_follow_each_other_are_taken_together():
    src = rows(6, 4)
    found = known_kernel("torch_scatter.segment_csr")(src, torch.tensor([0, 2, 2, 6]), reduce="sum")
    assert torch.allclose(found, torch.stack([src[:2].sum(0), torch.zeros(4), src[2:].sum(0)]))


def attended(query, key, value, scale=None, causal=False):
    """Attention of one sequence and one head."""
    scores = query @ key.T * (scale or 1 / math.sqrt(query.shape[-1]))
    if causal:
        seen = torch.ones_like(scores, dtype=torch.bool).tril(key.shape[0] - query.shape[0])
        scores = scores.masked_fill(~seen, -math.inf)
    return scores.softmax(-1) @ value


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_over_steps_and_heads(causal):
    query, key, value = rows(2, 3, 4, 8), rows(2, 5, 2, 8) * 2, rows(2, 5, 2, 8)
    found = known_kernel("flash_attn.flash_attn_func")(query, key, value, 0.1, 0.3, causal=causal)
    for example in range(2):
        for head in range(4):
            expected = attended(
                *(each[example, :, at] for each, at in ((query, head), (key, head // 2), (value, head // 2))),
                0.3,
                causal,
            )
            assert torch.allclose(found[example, :, head], expected, atol=1e-5)
    whole = rows(2, 3, 3, 4, 8)
    packed = known_kernel("flash_attn.flash_attn_interface.flash_attn_qkvpacked_func")(whole, causal=causal)
    assert torch.equal(packed, known_kernel("flash_attn.flash_attn_func")(*whole.unbind(2), causal=causal))
    pairs = known_kernel("flash_attn.flash_attn_kvpacked_func")(whole[:, :, 0], whole[:, :, 1:], causal=causal)
    assert torch.equal(pairs, packed)


@pytest.mark.parametrize("causal", [False, True])
def test_sequences_that_follow_each_other_are_attended_to_by_themselves(causal):
    query, key, value = rows(7, 2, 8), rows(9, 2, 8) * 2, rows(9, 2, 8)
    of_query, of_key = torch.tensor([0, 3, 7], dtype=torch.int32), torch.tensor([0, 5, 9], dtype=torch.int32)
    found = known_kernel("flash_attn.flash_attn_varlen_func")(query, key, value, of_query, of_key, 4, 5, causal=causal)
    for sequence in range(2):
        here, there = (slice(*each[sequence : sequence + 2].tolist()) for each in (of_query, of_key))
        for head in range(2):
            expected = attended(query[here, head], key[there, head], value[there, head], None, causal)
            assert torch.allclose(found[here, head], expected, atol=1e-5)
    packed = known_kernel("flash_attn.flash_attn_varlen_qkvpacked_func")(torch.stack([query] * 3, 1), of_query, 4)
    assert packed.shape == query.shape


def test_attention_of_another_package_may_have_one_head():
    query, key, value = rows(2, 3, 4, 8), rows(2, 5, 4, 8) * 2, rows(2, 5, 4, 8)
    attend = known_kernel("xformers.ops.memory_efficient_attention")
    found = attend(query, key, value)
    assert torch.allclose(found[1, :, 2], attended(query[1, :, 2], key[1, :, 2], value[1, :, 2]), atol=1e-5)
    assert torch.allclose(attend(query[:, :, 2], key[:, :, 2], value[:, :, 2]), found[:, :, 2], atol=1e-5)
    with pytest.raises(NotImplementedError, match="bias"):
        attend(query, key, value, attn_bias=object())


def test_others_are_not_known():
    assert known_kernel("torch.distributed.scatter") is None
    assert known_kernel("own.scatter_sum") is None


def test_a_model_that_needs_them_is_fed_and_told_its_shapes(worker, tmp_path):
    path = tmp_path / "net.py"
    path.write_text(
        "import torch\nfrom torch import nn\nfrom torch_scatter import scatter_mean\n\n\n"
        "class Conv(nn.Module):\n"
        "    def __init__(self, in_channels, out_channels):\n"
        "        super().__init__()\n"
        "        self.fc = nn.Linear(in_channels, out_channels)\n\n"
        "    def forward(self, x, edge_index):\n"
        "        row, col = edge_index\n"
        "        return scatter_mean(self.fc(x)[col], row, dim=0, dim_size=len(x))\n"
    )
    report = worker.trace(path)
    target = of(report, "Conv")
    assert target.inputs is not None, target.problems
    assert [each.code for each in report.problems] == ["FX101"]
    assert [each.tensor.shape for each in target.nodes if each.tensor is not None][-1] == (16, 64)

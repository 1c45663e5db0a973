"""Shape propagation: torch.fx's entries in ``meta``, our facts on the nodes, and what is reported of failures."""

import pytest
import torch
import torch.fx
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.passes.shape_prop import ShapeProp as TheirShapeProp

from fxengine._symbolic_trace import symbolic_trace as trace
from fxengine.passes.shape_prop import ShapeProp, TensorMetadata, _extract_tensor_metadata


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.fc = nn.Linear(8, 4)
        self.register_buffer("shift", torch.arange(4.0))

    def forward(self, x):
        y = self.conv(x).relu().to(memory_format=torch.channels_last)
        parts = y.mean((2, 3)).split(4, dim=1)
        return {"y": self.fc(torch.cat(parts, 1)) + self.shift, "n": x.shape[0], "parts": parts}


def test_meta_is_as_torch_fx_writes_it():
    x = torch.randn(2, 3, 8, 8)
    module = Net()
    ours, theirs = trace(module), torch.fx.symbolic_trace(module)
    ShapeProp(ours).propagate(x)
    TheirShapeProp(theirs).propagate(x)
    for mine, other in zip(ours.graph.nodes, theirs.graph.nodes, strict=True):
        assert mine.meta["type"] == other.meta["type"] or mine.op == "output"
        assert repr(mine.meta.get("tensor_meta")) == repr(other.meta.get("tensor_meta"))


def test_nodes_that_make_tensors_say_so():
    traced = trace(Net())
    ShapeProp(traced).propagate(torch.randn(2, 3, 8, 8))
    facts = {node.name: node.tensor for node in traced.graph.nodes}
    assert (facts["conv"].shape, facts["conv"].dtype, facts["conv"].device.type) == ((2, 8, 6, 6), torch.float32, "cpu")
    assert facts["split"] is None
    assert facts["getitem"] is None or facts["getitem"].shape


def test_an_error_stops_a_real_run():
    with pytest.raises(RuntimeError, match="ShapeProp error for: node=%fc"):
        ShapeProp(trace(Wrong())).propagate(torch.ones(2, 5))


class Wrong(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
        self.good = nn.Linear(5, 3)

    def forward(self, x):
        return self.fc(x).relu(), self.good(x)


def test_the_rest_of_the_graph_is_found_behind_a_failure():
    traced = trace(Wrong())
    report = ShapeProp(traced).propagate_partial(torch.empty(2, 5, device="meta"))
    facts = {node.name: node.tensor and node.tensor.shape for node in traced.graph.nodes}
    assert facts == {"x": (2, 5), "fc": None, "relu": None, "good": (2, 3), "output": None}
    (failure,) = report.failures
    assert failure.node.name == "fc"
    assert failure.inputs == (("x", "f32[2, 5]"),)
    assert str(failure.error) == "mat1 and mat2 shapes cannot be multiplied (2x5 and 4x2)"
    assert not failure.needs_data
    assert [node.name for node in report.unknown] == ["fc", "relu", "output"]
    assert not report.complete


def test_a_run_for_shapes_gives_the_shapes_of_a_real_run():
    x = torch.randn(2, 3, 8, 8)
    real, quick = trace(Net()), trace(Net())
    ShapeProp(real).propagate(x)
    report = ShapeProp(quick).propagate_partial(x)
    assert report.complete
    assert report.result["y"].shape == (2, 4)
    assert [node.tensor for node in quick.graph.nodes] == [node.tensor for node in real.graph.nodes]


def test_a_model_on_meta_is_said_to_lie_where_its_inputs_do():
    with torch.device("meta"):
        traced = trace(Net())
    ShapeProp(traced).propagate_partial(torch.empty(2, 3, 8, 8, device="meta"))
    assert {node.tensor.device.type for node in traced.graph.nodes if node.tensor} == {"cpu"}
    ShapeProp(traced).propagate_partial(torch.empty(2, 3, 8, 8, device="meta"), device=torch.device("cuda"))
    assert {node.tensor.device.type for node in traced.graph.nodes if node.tensor} == {"cuda"}


def test_wanting_data_is_no_fault_of_the_model():
    def reads(x):
        return torch.nonzero(x), x + 1

    traced = trace(reads)
    report = ShapeProp(traced).propagate_partial(torch.ones(3))
    assert [(failure.node.name, failure.needs_data) for failure in report.failures] == [("nonzero", True)]


def test_fake_tensors():
    module = Net()
    traced = trace(module)
    mode = FakeTensorMode()
    result = ShapeProp(traced, fake_mode=mode).propagate(torch.randn(2, 3, 8, 8))
    assert type(result["y"]).__name__ == "FakeTensor"
    conv = next(node for node in traced.graph.nodes if node.name == "conv")
    assert conv.meta["tensor_meta"].shape == (2, 8, 6, 6)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_metadata_of_quantized_tensors():
    tensor = torch.quantize_per_tensor(torch.randn(2, 3), 0.1, 3, torch.qint8)
    found = _extract_tensor_metadata(tensor)
    assert isinstance(found, TensorMetadata)
    assert found.is_quantized
    assert (found.qparams["scale"], found.qparams["zero_point"]) == (0.1, 3)
    channels = torch.quantize_per_channel(
        torch.randn(2, 3), torch.tensor([0.1, 0.2]), torch.tensor([0, 1]), 0, torch.qint8
    )
    assert _extract_tensor_metadata(channels).qparams["axis"] == 0


def test_what_does_not_lie_in_one_piece_cannot_be_viewed():
    def heads(x):
        return x.transpose(1, 2).view(2, -1), x.transpose(1, 2).reshape(2, -1)

    report = ShapeProp(trace(heads)).propagate_partial(torch.ones(2, 3, 4, device="meta"))
    assert [failure.node.name for failure in report.failures] == ["view"]
    assert "view size is not compatible" in str(report.failures[0].error)


def test_a_tensor_is_unpacked_into_as_many_targets_as_it_has_items():
    def two(x):
        mean, spread = x
        return mean + spread

    traced = trace(two)
    assert ShapeProp(traced).propagate_partial(torch.ones(2, 3)).complete
    for items, said in (
        (4, "too many values to unpack (expected 2)"),
        (1, "not enough values to unpack (expected 2, got 1)"),
    ):
        report = ShapeProp(traced).propagate_partial(torch.ones(items, 3))
        assert {str(failure.error) for failure in report.failures} == {said}
    assert ShapeProp(trace(lambda x: x[0] + x[1])).propagate_partial(torch.ones(4, 3)).complete


def test_starred_parameters_take_what_they_are_called_with():
    def forward(x, *rest, **named):
        return x + rest[0], named["scale"] * x

    traced = trace(forward)
    report = ShapeProp(traced).propagate_partial(torch.ones(2, 3), torch.ones(3), {"scale": torch.ones(2, 1)})
    assert [tuple(each.shape) for each in report.result] == [(2, 3), (2, 3)]
    shapes = {node.name: node.tensor for node in traced.graph.nodes}
    assert tuple(shapes["mul"].shape) == (2, 3)


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), 1)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(5))

    def forward(self, x):
        memory = self.encoder(x, self.mask)
        return self.decoder(memory, memory, tgt_mask=self.mask)


def test_a_transformer_does_not_look_into_its_mask():
    traced = trace(Masked().to("meta"))
    report = ShapeProp(traced).propagate_partial(torch.zeros(2, 5, 8))
    assert report.complete
    assert report.result.shape == (2, 5, 8)

"""Models compute with int8 after training."""

import operator

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody's name for it.
from torch import nn
from torch._ops import OpOverloadPacket
from torch.ao.quantization import get_default_qconfig_mapping
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

from fxengine._symbolic_trace import symbolic_trace
from fxengine.passes.quantization import (
    Observer,
    QuantizationBackendError,
    QuantizationOptions,
    calibrate,
    convert,
    prepare,
    quantize,
    saved_bytes,
)
from tests.support import corpus

pytestmark = pytest.mark.filterwarnings("ignore:.*quantized tensor creation functions:UserWarning")


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2))
        self.blocks = nn.Sequential(Residual(16), Residual(16))
        self.head = nn.Linear(16, classes)

    def forward(self, x):
        x = self.blocks(self.stem(x))
        return self.head(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


class Transformer(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        self.position = nn.Parameter(torch.randn(1, 6, width))

    def forward(self, x):
        x = x + self.position
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v))
        return x + self.mlp(x)


def pictures(count):
    """Pictures of gratings in four directions, with noise; and which direction."""
    labels = torch.randint(4, (count,))
    angle = labels * torch.pi / 4
    y, x = torch.meshgrid(torch.arange(12.0), torch.arange(12.0), indexing="ij")
    phase = torch.rand(count, 1, 1) * 6
    waves = torch.sin(x * angle.cos()[:, None, None] * 1.5 + y * angle.sin()[:, None, None] * 1.5 + phase)
    return (waves + 0.5 * torch.randn(count, 12, 12))[:, None], labels


@pytest.fixture(scope="module")
def trained():
    torch.manual_seed(0)
    model = ResNet()
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(60):
        given, labels = pictures(64)
        optimizer.zero_grad()
        F.cross_entropy(model(given), labels).backward()
        optimizer.step()
    return model.eval()


def accuracy(model, given, labels):
    with torch.no_grad():
        return (model(given).argmax(1) == labels).float().mean().item()


def settle(model, given):
    """Give norms the statistics of what they see, or values fade away in a network that was not trained."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.momentum = None
    with torch.no_grad():
        model.train()(given)
    return model.eval()


def relative_error(model, other, *inputs):
    with torch.no_grad():
        expected = model(*inputs)
        return ((other(*inputs) - expected).norm() / expected.norm()).item()


def targets_of(module):
    return [
        str(node.target if isinstance(node.target, OpOverloadPacket) else getattr(node.target, "__name__", node.target))
        for node in module.graph.nodes
        if node.op.startswith("call")
    ]


def test_a_trained_network_answers_as_well_and_takes_a_quarter(trained):
    torch.manual_seed(1)
    quantized = quantize(trained, [pictures(64)[0] for _ in range(4)])
    given, labels = pictures(500)
    assert accuracy(trained, given, labels) > 0.9
    assert accuracy(quantized, given, labels) > accuracy(trained, given, labels) - 0.02
    assert relative_error(trained, quantized, given) < 0.05
    weights = sum(conv.weight.numel() for conv in trained.modules() if isinstance(conv, nn.Conv2d | nn.Linear))
    int8 = [module.weight() for module in quantized.modules() if hasattr(module, "scale")]
    assert all(weight.dtype is torch.qint8 for weight in int8)
    assert sum(weight.numel() for weight in int8) == weights
    assert saved_bytes(trained) / saved_bytes(quantized) > 2


def test_between_layers_everything_stays_int8(trained):
    quantized = quantize(trained, [pictures(8)[0]])
    assert targets_of(quantized) == [
        "quantize_per_tensor", "stem.0", "stem.3",
        "blocks.0.conv1", "blocks.0.conv2", "quantized.add_relu", "blocks.1.conv1", "blocks.1.conv2",
        "quantized.add_relu", "adaptive_avg_pool2d", "flatten", "head", "dequantize",
    ]  # fmt: skip
    quantized.graph.lint()


def test_the_prepared_model_computes_the_same(trained):
    prepared = prepare(trained)
    given = pictures(8)[0]
    torch.testing.assert_close(prepared(given), trained(given), rtol=1e-4, atol=1e-4)
    assert all(each.seen == 1 for each in prepared.modules() if isinstance(each, Observer))


def test_a_transformer_computes_with_int8_in_its_layers_alone():
    torch.manual_seed(0)
    model = Transformer().eval()
    batches = [torch.randn(4, 6, 32) for _ in range(4)]
    quantized = quantize(model, [(batch,) for batch in batches])
    assert relative_error(model, quantized, torch.randn(4, 6, 32)) < 0.03
    names = targets_of(quantized)
    assert names.count("add") == 3  # The residual stream keeps its precision.
    assert names[names.index("qkv") + 1 :][0] == "chunk"
    assert all(hasattr(quantized.get_submodule(name), "set_weight_bias") for name in ("qkv", "proj", "mlp.1", "mlp.3"))


class Joins(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(3, 4, 1), nn.Conv2d(3, 4, 1), nn.Conv2d(8, 4, 1)
        self.act = nn.Hardswish()

    def forward(self, x):
        a, b = self.a(x), self.b(x)
        gate = torch.sigmoid(b.mean((2, 3), keepdim=True))
        c = self.c(torch.cat([self.act(a), a * gate], dim=1).relu())
        return (c + a.view(c.shape[0], 4, c.size(2), -1)).relu()


def test_joins_with_broadcasting_and_carriers():
    torch.manual_seed(0)
    model = Joins().eval()
    given = torch.randn(8, 3, 5, 5)
    quantized = quantize(model, [given])
    assert relative_error(model, quantized, given) < 0.03
    names = targets_of(quantized)
    assert names.count("quantize_per_tensor") == names.count("dequantize") == 1
    assert {"quantized.cat_relu", "quantized.mul", "quantized.hardswish", "quantized.add_relu"} <= set(names)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Conv1d(4, 6, 3, stride=2, padding=1), (2, 4, 9)),
        (nn.Conv2d(4, 8, 3, groups=4, dilation=2, bias=False), (2, 4, 9, 9)),
        (nn.Conv3d(2, 4, 3), (2, 2, 5, 5, 5)),
        (nn.Linear(8, 5, bias=False), (2, 3, 8)),
    ],
)
@pytest.mark.parametrize("rectified", [False, True])
def test_each_kind_of_layer(layer, shape, rectified):
    torch.manual_seed(0)
    model = nn.Sequential(layer, *([nn.ReLU()] if rectified else [])).eval()
    given = torch.randn(shape)
    quantized = quantize(model, [given])
    assert relative_error(model, quantized, given) < 0.03
    assert targets_of(quantized) == ["quantize_per_tensor", "0", "dequantize"]


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        y = self.layer(self.layer(x) * 3)
        y.relu_()
        return self.layer(self.layer(y) + y)


def test_a_layer_that_is_called_several_times_has_a_scale_for_each():
    torch.manual_seed(0)
    model = Shared().eval()
    given = torch.randn(16, 8)
    quantized = quantize(model, [given])
    assert relative_error(model, quantized, given) < 0.05
    scales = {module.scale for name, module in quantized.named_children() if name.startswith("layer_")}
    assert len(scales) == 2
    assert quantized.get_submodule("layer") is model.layer  # For the value that is overwritten.


class Awkward(nn.Module):
    """What looks like something to quantize."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.precise = nn.Linear(8, 8).double()
        self.same = nn.Conv1d(1, 1, 3, padding="same")

    def forward(self, x, flag=False):
        rows = x.shape[0] + x.shape[1]
        y = self.precise(self.layer(x).double()).float()
        return self.same(y[:, None])[:, 0] * rows


def test_what_there_is_no_kernel_for_computes_with_floats():
    model = Awkward().eval()
    given = torch.randn(4, 8)
    quantized = quantize(model, [given])
    assert relative_error(model, quantized, given) < 0.05
    assert quantized.get_submodule("precise") is model.precise
    assert quantized.get_submodule("same") is model.same
    assert operator.add in {node.target for node in quantized.graph.nodes}


def test_skipped_layers_compute_with_floats(trained):
    options = QuantizationOptions(skip=frozenset({"blocks.0.conv1", "head"}))
    quantized = quantize(trained, [pictures(8)[0]], options)
    assert type(quantized.get_submodule("head")) is nn.Linear
    assert type(quantized.get_submodule("blocks.0.conv1")) is nn.Conv2d
    with pytest.raises(ValueError, match="tail"):
        prepare(trained, QuantizationOptions(skip=frozenset({"tail"})))


def test_misuse_is_told(trained, monkeypatch):
    with pytest.raises(ValueError, match="calibrate"):
        convert(prepare(trained))
    with pytest.raises(ValueError, match="prepare"):
        convert(symbolic_trace(trained))
    with pytest.raises(ValueError, match="eval"):
        prepare(ResNet().train())
    with pytest.raises(QuantizationBackendError, match="`abacus` here; this build of torch has"):
        prepare(trained, QuantizationOptions(engine="abacus"))
    prepared = prepare(trained)
    calibrate(prepared, [pictures(4)[0]])
    convert(prepared)


@pytest.mark.corpus
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", ["torchvision:resnet18", "timm:vit_tiny_patch16_224"])
def test_real_models_are_as_accurate_as_with_torchs_own_quantization(name):
    library, _, model_name = name.partition(":")
    corpus.prepare()
    torch.manual_seed(0)
    if library == "timm":
        import timm

        model = timm.create_model(model_name, img_size=64)
    else:
        import torchvision

        model = torchvision.models.get_model(model_name)
    settle(model, torch.randn(16, 3, 64, 64))
    given = torch.randn(4, 3, 64, 64)
    quantized = quantize(model, [given])
    theirs = prepare_fx(model, get_default_qconfig_mapping("x86"), (given,))
    theirs(given)
    theirs = convert_fx(theirs)
    assert relative_error(model, quantized, given) < 1.1 * relative_error(model, theirs, given)
    assert saved_bytes(model) / saved_bytes(quantized) > 3.4

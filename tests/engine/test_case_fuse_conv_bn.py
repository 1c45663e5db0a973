"""Batch norms are folded into the layers before them."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody's name for it.
from torch import nn

from fxengine._symbolic_trace import symbolic_trace
from fxengine.passes.fuse_conv_bn import fuse_conv_bn
from fxengine.passes.shape_prop import ShapeProp
from tests.support import corpus


def settled(module):
    """The module in evaluation mode, with statistics as training leaves them."""
    torch.manual_seed(0)
    for norm in module.modules():
        if isinstance(norm, nn.modules.batchnorm._BatchNorm) and norm.running_mean is not None:
            norm.running_mean.uniform_(-0.5, 0.5)
            norm.running_var.uniform_(0.5, 2)
            if norm.affine:
                nn.init.uniform_(norm.weight, 0.5, 1.5)
                nn.init.uniform_(norm.bias, -0.5, 0.5)
    return module.eval()


def norms_in(fused):
    modules = [fused.get_submodule(node.target) for node in fused.graph.find_nodes(op="call_module")]
    called = [each for each in modules if isinstance(each, nn.modules.batchnorm._BatchNorm)]
    return len(called) + len(fused.graph.find_nodes(op="call_function", target=F.batch_norm))


LAYERS = {
    "conv1d": (nn.Conv1d(4, 8, 3), nn.BatchNorm1d(8), (2, 4, 9)),
    "conv2d": (nn.Conv2d(4, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), (2, 4, 9, 9)),
    "conv3d": (nn.Conv3d(4, 8, 3), nn.BatchNorm3d(8, affine=False), (2, 4, 5, 5, 5)),
    "depthwise": (nn.Conv2d(4, 8, 3, groups=4), nn.BatchNorm2d(8), (2, 4, 9, 9)),
    "transposed 1d": (nn.ConvTranspose1d(4, 6, 3), nn.BatchNorm1d(6), (2, 4, 9)),
    "transposed 2d": (nn.ConvTranspose2d(4, 6, 3, groups=2, stride=2), nn.BatchNorm2d(6), (2, 4, 5, 5)),
    "transposed 3d": (nn.ConvTranspose3d(4, 6, 3, bias=False), nn.BatchNorm3d(6), (2, 4, 5, 5, 5)),
    "linear": (nn.Linear(4, 8), nn.BatchNorm1d(8), (5, 4)),
    "double": (nn.Conv2d(4, 8, 3).double(), nn.BatchNorm2d(8).double(), (2, 4, 9, 9)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_each_kind_of_layer(name):
    layer, norm, shape = LAYERS[name]
    module = settled(nn.Sequential(layer, norm, nn.ReLU()))
    state = {key: value.clone() for key, value in module.state_dict().items()}
    fused = fuse_conv_bn(module)
    x = torch.randn(shape, dtype=layer.weight.dtype)
    torch.testing.assert_close(fused(x), module(x))
    assert [node.name for node in fused.graph.nodes] == ["input_1", "_0", "_2", "output"]
    assert set(fused.state_dict()) == {"0.weight", "0.bias"}
    assert all(torch.equal(value, state[key]) for key, value in module.state_dict().items())


class Functional(nn.Module):
    """Layers and norms as functions, some with keywords, with parameters of the model."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 4, 3, 3))
        self.up = nn.Parameter(torch.randn(8, 3, 2, 2))
        self.last = nn.Parameter(torch.randn(5, 6))
        self.last_bias = nn.Parameter(torch.randn(5))
        for index, width in enumerate((8, 6, 5)):
            self.register_buffer(f"mean{index}", torch.randn(width))
            self.register_buffer(f"var{index}", torch.rand(width) + 0.5)
        self.scale = nn.Parameter(torch.rand(8) + 0.5)
        self.shift = nn.Parameter(torch.randn(8))

    def forward(self, x):
        x = F.conv2d(x, self.weight, padding=1)
        x = F.relu(F.batch_norm(x, self.mean0, self.var0, self.scale, self.shift, False, 0.1, 1e-3))
        x = F.conv_transpose2d(input=x, weight=self.up, stride=2, groups=2)
        x = F.batch_norm(x, running_mean=self.mean1, running_var=self.var1, training=False).mean((2, 3))
        return F.batch_norm(F.linear(x, self.last, self.last_bias), self.mean2, self.var2)


def test_functions_with_parameters_of_the_model():
    torch.manual_seed(0)
    module = Functional().eval()
    fused = fuse_conv_bn(module)
    x = torch.randn(2, 4, 6, 6)
    torch.testing.assert_close(fused(x), module(x), rtol=1e-4, atol=1e-5)
    assert norms_in(fused) == 0
    assert not any(name.startswith(("mean", "var")) for name in fused.state_dict())
    fused.graph.lint()


class Mixed(nn.Module):
    """A module before a function's norm, and a function before a module's."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 1)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x):
        norm = self.norm
        x = F.batch_norm(self.conv(x), norm.running_mean, norm.running_var, norm.weight, norm.bias)
        return self.norm(
            F.conv2d(x, self.conv.weight[:, :1].repeat(1, 4, 1, 1)) + F.conv2d(x, torch.eye(4)[..., None, None])
        )


def test_modules_and_functions_meet():
    module = settled(Mixed())
    fused = fuse_conv_bn(module)
    x = torch.randn(2, 3, 4, 4)
    torch.testing.assert_close(fused(x), module(x))
    assert norms_in(fused) == 1


class Shared(nn.Module):
    """One convolution with two norms, and once without."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Module()
        self.inner.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.first, self.second = nn.BatchNorm2d(4), nn.BatchNorm2d(4)

    def forward(self, x):
        conv = self.inner.conv
        return self.first(conv(x)) + self.second(conv(x)) + self.second(conv(x + 1)) + conv(x)


def test_a_shared_layer_is_copied_for_each_norm():
    module = settled(Shared())
    fused = fuse_conv_bn(module)
    x = torch.randn(2, 4, 6, 6)
    torch.testing.assert_close(fused(x), module(x), rtol=1e-4, atol=1e-5)
    assert norms_in(fused) == 0
    assert fused.inner.conv is module.inner.conv


class Asked(nn.Module):
    """Between layer and norm its result is asked for metadata, as timm's norms do."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

    def forward(self, x):
        x = self.conv(x)
        torch._assert(x.ndim == 4, "not an image")
        return self.norm(x).view(x.size(0), -1)


def test_questions_for_metadata_do_not_hinder():
    module = settled(Asked())
    fused = fuse_conv_bn(module)
    x = torch.randn(2, 3, 5, 5)
    torch.testing.assert_close(fused(x), module(x))
    assert norms_in(fused) == 0


class Unfit(nn.Module):
    """Pairs that must stay."""

    def __init__(self, case):
        super().__init__()
        self.case = case
        self.conv = nn.Conv1d(4, 4, 1)
        self.norm = nn.BatchNorm1d(4, track_running_stats=case != "no statistics")
        if case == "hook":
            self.conv.register_forward_hook(lambda _module, _args, result: result * 2)
        if case == "parametrized":
            nn.utils.parametrizations.weight_norm(self.conv)

    def forward(self, x):
        y = self.conv(x)
        return self.norm(y) + y if self.case == "used elsewhere" else self.norm(y)


@pytest.mark.parametrize("case", ["no statistics", "hook", "parametrized", "used elsewhere", "training"])
def test_what_cannot_be_fused_stays(case):
    module = settled(Unfit(case))
    module.norm.train(case == "training")
    traced = symbolic_trace(module)
    fused = fuse_conv_bn(traced)
    assert fused.code == traced.code
    assert norms_in(fused) == 1


def test_a_linear_layer_with_more_than_two_dimensions_stays_once_shapes_are_known():
    module = settled(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6)))
    traced = symbolic_trace(module)
    x = torch.randn(3, 6, 4)
    ShapeProp(traced).propagate(x)
    fused = fuse_conv_bn(traced)
    torch.testing.assert_close(fused(x), module(x))
    assert norms_in(fused) == 1


def test_a_fused_model_is_trained_on():
    fused = fuse_conv_bn(settled(nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))))
    fused(torch.randn(1, 3, 2, 2)).sum().backward()
    assert fused.get_parameter("0.weight").grad is not None


@pytest.mark.corpus
@pytest.mark.parametrize(
    "name", ["torchvision:resnet50", "torchvision:mobilenet_v2", "timm:resnet18", "timm:efficientnet_b0"]
)
def test_real_models(name):
    library, _, model = name.partition(":")
    corpus.prepare()
    if library == "timm":
        import timm

        module = timm.create_model(model)
    else:
        import torchvision

        module = torchvision.models.get_model(model)
    module = settled(module).double()
    traced = symbolic_trace(module)
    fused = fuse_conv_bn(traced)
    x = torch.randn(1, 3, 64, 64, dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(fused(x), module(x))
    assert norms_in(traced) > 17
    assert norms_in(fused) == 0
    assert len(fused.graph.nodes) <= len(traced.graph.nodes) - norms_in(traced)

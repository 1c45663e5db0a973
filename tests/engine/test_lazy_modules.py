"""Models with parts that get their parameters in their first run: they are fed, given shapes and captured."""

import pytest
import torch
from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import UninitializedParameter, UninitializedTensorMixin, is_lazy

import fxengine
from fxengine.inputs import infer_inputs
from fxengine.lazy_modules import lazy_among
from fxengine.passes.shape_prop import PartialShapeProp
from fxworker.sums import facts_of

X = torch.randn(2, 3, 16, 16)


class _Waiting(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.LazyConv2d(8, 3), nn.LazyBatchNorm2d(), nn.ReLU())
        self.head = nn.LazyLinear(5)

    def forward(self, x):
        return self.head(self.layers(x).mean((2, 3)))


class _Scale(LazyModuleMixin, nn.Module):
    """One that a person wrote, and that stays what it is."""

    def __init__(self):
        super().__init__()
        self.scale = UninitializedParameter()

    def initialize_parameters(self, x):
        if self.has_uninitialized_params():
            self.scale.materialize((x.shape[1], 1, 1))
            nn.init.constant_(self.scale, 2.0)

    def forward(self, x):
        return x * self.scale


@pytest.fixture
def _nothing_is_zero_by_chance(monkeypatch):
    """Memory that nobody has written to yet holds no numbers."""
    materialize = UninitializedTensorMixin.materialize

    def filled(self, *args, **kwargs):
        materialize(self, *args, **kwargs)
        with torch._C.DisableTorchFunction(), torch.no_grad():
            self.fill_(float("nan"))

    monkeypatch.setattr(UninitializedTensorMixin, "materialize", filled)


def _is_lazy(net):
    return [type(each).__name__.startswith("Lazy") for each in (net.layers[0], net.layers[1], net.head)]


@pytest.mark.usefixtures("_nothing_is_zero_by_chance")
def test_a_capture_is_their_first_run():
    net = _Waiting()

    found = fxengine.capture(net.eval(), X)

    assert found.problems == ()
    assert _is_lazy(net) == [False] * 3
    assert net.layers[0].in_channels == 3
    again = fxengine.capture(net, X)
    for each in (found, again):
        torch.testing.assert_close(each.graph_module(X), net(X))


@pytest.mark.usefixtures("_nothing_is_zero_by_chance")
@pytest.mark.parametrize("make", [_Scale, lambda: nn.Sequential(_Scale()), lambda: nn.LazyConv2d(4, 1)])
def test_so_it_is_of_a_model_that_is_one_itself_and_of_those_that_a_person_wrote(make):
    net = make().eval()

    found, again = fxengine.capture(net, X), fxengine.capture(net, X)

    assert found.problems == again.problems == ()
    assert not any(map(is_lazy, net.parameters()))
    expected = net(X)
    assert expected.isfinite().all()
    for each in (found, again):
        torch.testing.assert_close(each.graph_module(X), expected)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_their_shapes_are_found_without_data(device):
    with torch.device(device):
        net = _Waiting()
    traced = fxengine.symbolic_trace(net)

    report = PartialShapeProp(traced).propagate_partial(X)

    assert report.complete
    assert report.result.shape == (2, 5)
    assert all(map(is_lazy, net.parameters()))


def test_a_search_for_inputs_tries_them_as_often_as_it_likes():
    with torch.device("meta"):
        net = _Waiting()

    found = infer_inputs(net)

    assert found.complete
    assert found.args[0].shape[1] == 3
    assert _is_lazy(net) == [True] * 3


def test_where_they_fail_is_no_reason_to_change_what_they_take():
    class Large(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.LazyConv2d(4, 300)

        def forward(self, x):
            return self.conv(x)

    with torch.device("meta"):
        net = Large()

    infer_inputs(net)

    assert net.conv.has_uninitialized_params()


def test_after_a_run_they_can_be_made_to_wait_again():
    net = nn.LazyBatchNorm1d()
    (lazy,) = lazy_among([net, nn.ReLU()])
    lazy.restore()
    assert net.has_uninitialized_params()

    net(torch.randn(2, 3))
    lazy.restore()

    assert net.has_uninitialized_params()
    assert net(torch.randn(2, 5)).shape == (2, 5)


def test_what_is_told_of_a_model_counts_the_parameters_that_there_are():
    net = nn.Sequential(nn.Linear(2, 3), nn.LazyLinear(4))

    facts = facts_of(net)

    assert facts is not None
    assert facts.parameters == 9

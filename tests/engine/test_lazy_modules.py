"""Models with parts that get their parameters in their first run: they are fed, given shapes and captured."""

import pytest
import torch
from torch import nn

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


def _is_lazy(net):
    return [type(each).__name__.startswith("Lazy") for each in (net.layers[0], net.layers[1], net.head)]


def test_a_capture_is_their_first_run():
    net = _Waiting()

    found = fxengine.capture(net.eval(), X)

    assert found.problems == ()
    assert _is_lazy(net) == [False] * 3
    assert net.layers[0].in_channels == 3
    again = fxengine.capture(net, X)
    for each in (found, again):
        torch.testing.assert_close(each.graph_module(X), net(X))


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_their_shapes_are_found_without_data(device):
    with torch.device(device):
        net = _Waiting()
    traced = fxengine.symbolic_trace(net)

    report = PartialShapeProp(traced).propagate_partial(X)

    assert report.complete
    assert report.result.shape == (2, 5)


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
    attributes, registered = vars(net).copy(), {name: vars(net)[name].copy() for name in ("_forward_pre_hooks",)}
    (lazy,) = lazy_among([net, nn.ReLU()])
    lazy.restore()
    assert net.has_uninitialized_params()

    net(torch.randn(2, 3))
    lazy.restore()
    vars(net).update(attributes | registered)

    assert net.has_uninitialized_params()
    assert net(torch.randn(2, 5)).shape == (2, 5)


def test_what_is_told_of_a_model_counts_the_parameters_that_there_are():
    net = nn.Sequential(nn.Linear(2, 3), nn.LazyLinear(4))

    facts = facts_of(net)

    assert facts is not None
    assert facts.parameters == 9

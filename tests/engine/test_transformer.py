"""Transformer: new graphs out of old ones."""

import torch
from torch import nn

from fxengine._symbolic_trace import symbolic_trace as trace
from fxengine.interpreter import Transformer
from fxengine.proxy import Proxy


class Swap(Transformer):
    def call_function(self, target, args, kwargs):
        if target is torch.sigmoid:
            return torch.neg(*args, **kwargs)
        return super().call_function(target, args, kwargs)

    def call_method(self, target, args, kwargs):
        if target == "neg":
            value, *rest = args
            return value.sigmoid(*rest, **kwargs)
        return super().call_method(target, args, kwargs)


def test_it_swaps_functions_and_methods():
    traced = trace(lambda x: torch.sigmoid(x).neg())
    swapped = Swap(traced).transform()
    x = torch.randn(3, 4)
    torch.testing.assert_close(swapped(x), torch.neg(x).sigmoid())
    assert "torch.sigmoid(x)" in traced.code
    assert "torch.neg(x)" in swapped.code


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.scale = nn.Parameter(torch.full((4,), 2.0))

    def forward(self, x, shift=1.0):
        return {"y": self.body(x) * self.scale + shift}


def test_an_unchanged_transform_is_a_copy():
    traced = trace(Net())
    copy = Transformer(traced).transform()
    x = torch.randn(2, 4)
    assert copy.code == traced.code
    assert torch.equal(copy(x)["y"], traced(x)["y"])
    assert copy.scale is traced.scale


def test_nodes_inherit_where_they_come_from():
    traced = trace(Net())
    copy = Transformer(traced).transform()
    before = {node.name: node.origin for node in traced.graph.nodes}
    after = {node.name: node.origin for node in copy.graph.nodes}
    assert after == before
    assert after["body_0"].frames


def test_one_operation_may_become_several():
    class Expand(Transformer):
        def call_function(self, target, args, kwargs):
            assert isinstance(args[0], Proxy)
            if target is torch.nn.functional.silu:
                return args[0] * torch.sigmoid(args[0])
            return super().call_function(target, args, kwargs)

    traced = trace(lambda x: torch.nn.functional.silu(x) + 1)
    expanded = Expand(traced).transform()
    x = torch.randn(4)
    torch.testing.assert_close(expanded(x), traced(x))
    silu = next(node for node in traced.graph.nodes if node.op == "call_function")
    created = [node for node in expanded.graph.nodes if node.op == "call_function"]
    assert [node.origin for node in created[:2]] == [silu.origin, silu.origin]

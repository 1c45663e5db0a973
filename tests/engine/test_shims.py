"""Shims: a helper of a library is one node, however often and under whatever name it was imported."""

import importlib
import sys
import types

import pytest
import torch
from torch import nn

import fxengine
from fxengine import shims
from fxengine.shims import SHIMS, Shim
from tests.support import corpus


def functions_of(captured):
    return [node.target.__name__ for node in captured.graph.nodes if node.op == "call_function"]


@pytest.fixture
def library(monkeypatch):
    """A package with a function and a module that a shim makes leaves."""
    package = types.ModuleType("helpful")
    source = """
import torch

def fold(x, times, *, shift=1):
    for _ in range(times):
        x = x + shift
    return x

def counted(function):
    def call(*args, **kwargs):
        return function(*args, **kwargs)
    return call

twice = counted(lambda x: x * 2)

class Fold(torch.nn.Module):
    def forward(self, x):
        return fold(x, 2)
"""
    exec(source.replace("class Fold", "__name__ = 'helpful.layers'\nclass Fold"), vars(package))
    monkeypatch.setitem(sys.modules, "helpful", package)
    shim = Shim("helpful", ("helpful:fold", "helpful:twice", "helpful:missing"), ("helpful.layers",))
    monkeypatch.setattr(shims, "SHIMS", (shim,))
    return package


def test_a_function_of_a_shim_is_one_node_wherever_it_was_imported(library):
    fold = library.fold  # As `from helpful import fold` does.

    captured = fxengine.capture(lambda x: fold(x, 3, shift=2) + library.twice(x), torch.ones(2))

    assert functions_of(captured) == ["fold", "call", "add"]
    assert torch.equal(captured.graph_module(torch.ones(2)), torch.tensor([9.0, 9.0]))
    assert fold(torch.zeros(1), 2).item() == 2


def test_on_constants_it_is_an_ordinary_function(library):
    captured = fxengine.capture(lambda x: x + library.fold(torch.ones(2), 1), torch.ones(2))

    assert functions_of(captured) == ["add"]


def test_a_module_of_a_shim_is_a_leaf(library):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fold = library.Fold()

        def forward(self, x):
            return self.fold(x).relu()

    captured = fxengine.capture(Net(), torch.ones(2))

    assert [node.op for node in captured.graph.nodes] == ["placeholder", "call_module", "call_method", "output"]


@pytest.mark.corpus
@pytest.mark.parametrize("shim", SHIMS, ids=lambda shim: shim.package)
def test_the_functions_of_a_shim_exist(shim):
    corpus.prepare()
    importlib.import_module(shim.package)

    assert len(list(shim.leaf_functions())) > len(shim.functions) * 2 / 3


@pytest.mark.corpus
def test_patterns_of_einops_and_einx_stay_in_the_graph():
    corpus.prepare()
    einops, einx = importlib.import_module("einops"), importlib.import_module("einx")
    layers = importlib.import_module("einops.layers.torch")

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.grid = layers.Rearrange("b (h w) c -> b c h w", h=2)

        def forward(self, x):
            x = einops.rearrange(self.grid(x), "b c h w -> b (c h) w")
            packed, shapes = einops.pack([x, x], "b * w")
            one, other = einops.unpack(packed, shapes, "b * w")
            total = einx.sum("b [c] w", one)
            return einops.repeat(total, "b w -> b w k", k=3), einx.dot("b c w, b d w -> b c d", one, other)

    net, x = Net(), torch.randn(2, 8, 3)
    captured = fxengine.capture(net, x)

    names = [name for name in functions_of(captured) if name != "getitem"]
    assert names == ["rearrange", "pack", "unpack", "sum", "repeat", "dot"]
    torch.testing.assert_close(captured.graph_module(x), net(x))


@pytest.mark.parametrize("with_sums", [False, True])
def test_flexible_attention_is_one_node_with_its_mask(with_sums):
    module = importlib.import_module("torch.nn.attention.flex_attention")
    flex_attention, create_block_mask = module.flex_attention, module.create_block_mask

    def f(x):
        length = x.shape[2]
        mask = create_block_mask(lambda _b, _h, q, k: q >= k, None, None, length, length, device="cpu")
        found = flex_attention(x, x, x[..., :8], block_mask=mask, return_lse=with_sums)
        return found[0] * found[1][..., None] if with_sums else found

    x = torch.randn(1, 2, 128, 16)
    captured = fxengine.capture(f, x)

    assert captured.problems == ()
    node = next(each for each in captured.graph.nodes if each.target is flex_attention)
    assert with_sums or node.tensor.shape == (1, 2, 128, 8)
    torch.testing.assert_close(captured.graph_module(x), f(x))


def test_flexible_attention_refuses_what_is_no_mask_of_blocks():
    module = importlib.import_module("torch.nn.attention.flex_attention")

    def f(x):
        try:
            return module.flex_attention(x, x, x, block_mask=torch.ones(4, 4))
        except AttributeError:
            return x + 1

    x = torch.randn(1, 2, 128, 16)
    assert torch.equal(fxengine.capture(f, x).graph_module(x), f(x))

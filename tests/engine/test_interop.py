"""Graphs cross the bridge to torch.fx and come back unchanged; what takes torch.fx's graphs takes ours."""

import operator

import pytest
import torch
import torch.fx
from torch import nn
from torch.ao.quantization import get_default_qconfig_mapping
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx
from torch.fx.passes.shape_prop import TensorMetadata
from torch.fx.passes.split_module import split_module

import fxengine
from fxengine.graph import CodeGen
from fxengine.interop import from_torch_fx, graph_from_torch_fx, graph_to_torch_fx, to_torch_fx
from fxengine.passes.shape_prop import ShapeProp


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.scale = nn.Parameter(torch.ones(8, 1, 1))
        self.register_buffer("offset", torch.zeros(1))

    def forward(self, x, flag: bool = True):
        y = self.norm(self.conv(x)).relu() * self.scale + self.offset
        a, b = y.chunk(2, dim=1)
        return {"sum": operator.add(a, b), "rest": (y[:, 0], torch.ones(2))}


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = fxengine.symbolic_trace(Block())

    def forward(self, x):
        return self.inner(x)["sum"]


class KeepInner(fxengine.Tracer):
    def is_leaf_module(self, m, module_qualified_name):
        return True


def names_and_ops(graph):
    return [(node.name, node.op, str(node.target), str(node.args), str(node.kwargs)) for node in graph.nodes]


def test_a_module_goes_there_and_back():
    ours = fxengine.symbolic_trace(Block())
    theirs = to_torch_fx(ours)
    back = from_torch_fx(theirs)
    assert isinstance(theirs, torch.fx.GraphModule)
    assert theirs.code == ours.code == back.code
    assert names_and_ops(theirs.graph) == names_and_ops(ours.graph) == names_and_ops(back.graph)
    theirs.graph.lint()
    back.graph.lint()
    x = torch.randn(2, 3, 8, 8)
    torch.testing.assert_close(theirs(x), ours(x))
    torch.testing.assert_close(back(x), ours(x))


def test_the_code_is_that_of_torch_fx_itself():
    assert from_torch_fx(torch.fx.symbolic_trace(Block())).code == fxengine.symbolic_trace(Block()).code


def test_state_is_shared_and_modes_and_meta_are_kept():
    ours = fxengine.symbolic_trace(Block().eval())
    ours.meta["note"] = 1
    theirs = to_torch_fx(ours)
    assert theirs.conv is ours.conv
    assert theirs.scale is ours.scale
    assert theirs.offset is ours.offset
    assert not theirs.training
    assert theirs.meta["note"] == 1
    assert list(theirs.state_dict()) == list(ours.state_dict())


def test_meta_of_nodes_origins_and_shapes_cross():
    ours = fxengine.symbolic_trace(Block())
    ShapeProp(ours).propagate(torch.randn(2, 3, 8, 8))
    theirs = to_torch_fx(ours)
    for mine, other in zip(ours.graph.nodes, theirs.graph.nodes, strict=True):
        if "tensor_meta" in mine.meta and isinstance(mine.meta["tensor_meta"], tuple):
            assert other.meta["type"] is mine.meta["type"]
    conv = next(node for node in theirs.graph.nodes if node.target == "conv")
    assert isinstance(conv.meta["tensor_meta"], TensorMetadata)
    back = from_torch_fx(theirs)
    for mine, other in zip(ours.graph.nodes, back.graph.nodes, strict=True):
        assert other.origin == mine.origin
        assert other.meta == mine.meta


def test_pytree_arguments_cross():
    ours = fxengine.symbolic_trace(
        lambda d: d["a"] + d["b"][0], concrete_args={"d": {"a": fxengine.PH, "b": [fxengine.PH]}}
    )
    theirs = to_torch_fx(ours)
    argument = {"a": torch.ones(2), "b": [torch.ones(2)]}
    assert theirs.code == ours.code
    torch.testing.assert_close(theirs(argument), ours(argument))
    torch.testing.assert_close(from_torch_fx(theirs)(argument), ours(argument))


def test_graph_modules_inside_are_rebuilt_and_the_original_keeps_its_own():
    root = Nested()
    ours = fxengine.GraphModule(root, KeepInner().trace(root))
    theirs = to_torch_fx(ours)
    assert isinstance(theirs.inner, torch.fx.GraphModule)
    assert isinstance(ours.inner, fxengine.GraphModule)
    assert isinstance(from_torch_fx(theirs).inner, fxengine.GraphModule)
    x = torch.randn(1, 3, 4, 4)
    torch.testing.assert_close(theirs(x), ours(x))


def test_graphs_alone_cross():
    graph = fxengine.Tracer().trace(Block())
    theirs = graph_to_torch_fx(graph)
    assert names_and_ops(graph_from_torch_fx(theirs)) == names_and_ops(graph) == names_and_ops(theirs)


def test_a_code_generator_of_the_users_own_is_refused():
    class Mine(CodeGen):
        pass

    ours = fxengine.symbolic_trace(Block())
    ours.graph.set_codegen(Mine())
    with pytest.raises(TypeError, match="Mine generates code for one engine alone"):
        to_torch_fx(ours)


def test_quantization_takes_our_graphs():
    model = fxengine.symbolic_trace(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval())
    x = torch.randn(16, 4)
    prepared = prepare_fx(to_torch_fx(model), get_default_qconfig_mapping(), (x,))
    prepared(x)
    quantized = convert_fx(prepared)
    assert (quantized(x) - model(x)).abs().max() < 0.2


def test_passes_of_torch_fx_take_our_graphs():
    ours = fxengine.symbolic_trace(Block())
    theirs = to_torch_fx(ours)
    position = {node: index for index, node in enumerate(theirs.graph.nodes)}
    split = split_module(theirs, theirs, lambda node: int(position[node] > 4))
    x = torch.randn(1, 3, 4, 4)
    torch.testing.assert_close(split(x), ours(x))

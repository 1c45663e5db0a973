"""Graphs cross the bridge to torch.fx and come back unchanged; what takes torch.fx's graphs takes ours."""

# ruff: noqa: PLW0108 - what is traced has to be a function of Python.

import operator
import types

import pytest
import torch
import torch.fx
from torch import nn
from torch.ao.quantization import get_default_qconfig_mapping
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx
from torch.fx.passes.shape_prop import TensorMetadata
from torch.fx.passes.split_module import split_module
from torch.utils import _pytree as pytree

import fxengine
from fxengine.graph import CodeGen
from fxengine.interop import adopt, from_torch_fx, graph_from_torch_fx, graph_to_torch_fx, to_torch_fx
from fxengine.passes.infra.partitioner import CapabilityBasedPartitioner
from fxengine.passes.operator_support import OperatorSupport
from fxengine.passes.shape_prop import ShapeProp
from fxengine.passes.split_module import split_module as split_by_ours
from fxengine.passes.tools_common import legalize_graph


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


def test_hooks_attributes_and_methods_of_the_module_cross():
    def say(self):
        return self.note

    ours = fxengine.symbolic_trace(Block())
    calls = []
    ours.register_forward_hook(lambda *_: calls.append("after"))
    ours.register_forward_pre_hook(lambda *_, **__: calls.append("before"), with_kwargs=True)
    ours.note = ["kept"]
    ours.say = types.MethodType(say, ours)
    theirs = to_torch_fx(ours)
    theirs(torch.randn(1, 3, 4, 4))
    assert calls == ["before", "after"]
    assert theirs.say() is ours.note
    assert theirs.say.__self__ is theirs
    assert from_torch_fx(theirs).say() is ours.note


def test_all_state_crosses_in_its_order():
    ours = fxengine.symbolic_trace(Block())
    ours.unused = nn.Linear(2, 2)
    ours.register_buffer("last", torch.zeros(2), persistent=False)
    for module in (to_torch_fx(ours), from_torch_fx(to_torch_fx(ours))):
        assert list(module.state_dict()) == list(ours.state_dict())
        assert [name for name, _ in module.named_buffers()] == [name for name, _ in ours.named_buffers()]
        assert [name for name, _ in module.named_modules()] == [name for name, _ in ours.named_modules()]
        assert module.last is ours.last


def test_what_passes_note_on_nodes_crosses():
    ours = fxengine.symbolic_trace(Block())
    nodes = list(ours.graph.nodes)
    nodes[1].tag = "red"
    nodes[1].meta["next"] = {"to": [nodes[3]], nodes[0]: (1, nodes[2])}
    plain = nodes[1].meta["plain"] = [1, {"a": (2, 3)}]
    theirs = list(to_torch_fx(ours).graph.nodes)
    assert theirs[1].tag == "red"
    assert theirs[1].meta["next"] == {"to": [theirs[3]], theirs[0]: (1, theirs[2])}
    assert theirs[1].meta["plain"] is plain


def test_a_graph_module_in_two_places_stays_one():
    root = Nested()
    ours = fxengine.GraphModule(root, KeepInner().trace(root))
    ours.again = ours.inner
    theirs = to_torch_fx(ours)
    assert isinstance(theirs.inner, torch.fx.GraphModule)
    assert theirs.again is theirs.inner


def test_where_a_graph_comes_from_crosses():
    ours = fxengine.symbolic_trace(Block())
    theirs = to_torch_fx(ours)
    assert theirs.graph._co_fields == ours.graph._co_fields == from_torch_fx(theirs).graph._co_fields
    assert theirs.graph._tracer_cls is torch.fx.Tracer
    assert from_torch_fx(theirs).graph._tracer_cls is fxengine.Tracer
    assert (
        theirs.forward.__code__.co_filename.split(" from ")[1] == ours.forward.__code__.co_filename.split(" from ")[1]
    )


def test_graphs_that_reorder_their_leaves_cross():
    graph = torch.fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    graph.output((graph.call_function(operator.sub, (x, y)),))
    shuffled = torch.fx.symbolic_trace(lambda a, b: (b, a))
    outputs = torch.fx.symbolic_trace(lambda a, b, c: (c,))
    _, in_spec = pytree.tree_flatten(((0, 0), {}))
    _, out_spec = pytree.tree_flatten((0,))
    info = torch.fx.graph._PyTreeInfo(["a", "b"], in_spec, out_spec)
    graph.set_codegen(torch.fx.graph._ExportCodeGen(info, shuffled, outputs, ["a", "b"], None))
    root = nn.Module()
    theirs = torch.fx.GraphModule(root, graph)
    theirs._in_shuffle_graph, theirs._out_shuffle_graph = shuffled, outputs
    ours = from_torch_fx(theirs)
    assert ours.code == theirs.code == to_torch_fx(ours).code
    assert ours(torch.tensor(1), torch.tensor(3)) == theirs(torch.tensor(1), torch.tensor(3)) == (torch.tensor(2),)
    assert isinstance(ours._in_shuffle_graph, fxengine.GraphModule)


@pytest.mark.parametrize(
    "use",
    [
        lambda module: fxengine.Interpreter(module).run(torch.ones(2)),
        lambda module: fxengine.Transformer(module).transform(),
        lambda module: fxengine.GraphModule(module, module.graph),
        lambda module: fxengine.Graph().graph_copy(module.graph, {}),
        lambda module: fxengine.replace_pattern(module, lambda x: torch.relu(x), lambda x: torch.sigmoid(x)),
        lambda module: split_by_ours(module, module, lambda node: 0),
        lambda module: CapabilityBasedPartitioner(module, OperatorSupport()),
        legalize_graph,
    ],
)
def test_graphs_of_torch_fx_are_refused_with_advice(use):
    module = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    with pytest.raises(AssertionError, match=r"got <class 'torch.fx.graph.Graph'>; fxengine.interop.from_torch_fx"):
        use(module)
    module.graph.lint()


class KeepNamed(torch.fx.Tracer):
    """Written for torch.fx, in two steps."""

    def __init__(self, *names):
        super().__init__(autowrap_functions=(scaled,))
        self.names = names

    def is_leaf_module(self, m, module_qualified_name):
        return module_qualified_name in self.names or super().is_leaf_module(m, module_qualified_name)


class KeepNamedAndCount(KeepNamed):
    calls = 0

    def call_module(self, m, forward, args, kwargs):
        self.calls += 1
        return super().call_module(m, forward, args, kwargs)

    @classmethod
    def of(cls, name):
        return cls(name)


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU(), nn.Linear(2, 2)))

    def forward(self, x):
        return scaled(self.body(x))


def scaled(x):
    return x * 2


def test_a_tracer_written_for_torch_fx_applies_its_rules_here():
    theirs, ours = KeepNamedAndCount.of("body.1"), adopt(KeepNamedAndCount).of("body.1")
    root = Deep()
    expected, actual = theirs.trace(root), ours.trace(root)
    assert isinstance(ours, fxengine.Tracer)
    assert isinstance(actual, fxengine.Graph)
    assert names_and_ops(actual) == names_and_ops(expected)
    assert "body_1" in {node.name for node in actual.nodes}
    assert ours.calls == theirs.calls > 0


def test_an_interpreter_written_for_torch_fx_runs_graphs_here():
    class Counting(torch.fx.Interpreter):
        count = 0

        def run_node(self, n):
            self.count += 1
            return super().run_node(n)

    ours = adopt(Counting)(fxengine.symbolic_trace(lambda x: torch.relu(x) + 1))
    assert torch.equal(ours.run(torch.ones(2)), torch.full((2,), 2.0))
    assert ours.count == 4


def test_the_engines_own_classes_are_adopted_already():
    assert adopt(torch.fx.Tracer) is fxengine.Tracer
    assert adopt(fxengine.Tracer) is fxengine.Tracer
    assert adopt(nn.Linear) is nn.Linear

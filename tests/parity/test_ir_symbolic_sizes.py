"""Symbolic numbers become the same nodes as in torch.fx."""

import operator

import pytest
import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import CallMethodKey, ConvertIntKey, DivideByKey, ShapeEnv
from torch.utils._pytree import SequenceKey

import fxengine.graph

GRAPHS = (torch.fx.Graph, fxengine.graph.Graph)


@pytest.fixture(scope="module")
def fakes():
    """Return a mode for tensors without data, and a tensor of two symbolic sizes."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    return mode, mode.from_tensor(torch.zeros(5, 9), static_shapes=False)


def build(graph_type, fake, key):
    graph = graph_type()
    x = graph.placeholder("x")
    x.meta[key] = fake
    relu = graph.call_function(torch.relu, (x,))
    relu.meta[key] = fake
    graph.output(relu)
    return graph


NUMBERS = (
    lambda a, b: [a],
    lambda a, b: [a + b, a * b, a - 1, 3],
    lambda a, b: [a * 2 + b * 3 + 1, (a + b) // 2, (a + b) % 3],
    lambda a, b: [torch.sym_max(a, b), torch.sym_min(a, 2 * b), (a * a) // b],
    lambda a, b: [a * b, a * b + 1, a * b * 2],
)


@pytest.mark.parametrize("key", ["val", "example_value"])
@pytest.mark.parametrize("numbers", NUMBERS)
def test_expressions(fakes, numbers, key):
    _, fake = fakes
    assert isinstance(fake.shape[0], torch.SymInt)
    texts = []
    for graph_type in GRAPHS:
        graph = build(graph_type, fake, key)
        with graph.inserting_before(graph.output_node()):
            nodes = graph.materialize_symints(numbers(*fake.shape))
        metas = [{key: str(value) for key, value in node.meta.items()} for node in graph.nodes]
        texts.append((str(graph), str(nodes), metas))
        graph.lint()
    assert texts[1] == texts[0]


def test_sizes_of_a_tensor(fakes):
    _, fake = fakes
    texts = []
    for graph_type in GRAPHS:
        graph = build(graph_type, fake.t(), "val")
        x = next(iter(graph.nodes))
        with graph.inserting_before(graph.output_node()):
            made = [graph.create_size_node(x, 0), graph.create_stride_node(x, 1), graph.create_storage_offset_node(x)]
        texts.append((str(graph), [str(node.meta) for node in made]))
    assert texts[1] == texts[0]


def test_multiples_of_a_symbol(fakes):
    _, fake = fakes
    multiple = torch.cat([fake, fake])
    texts = []
    for graph_type in GRAPHS:
        graph = build(graph_type, multiple, "val")
        with graph.inserting_before(graph.output_node()):
            graph.materialize_symint(fake.shape[0] + fake.shape[1])
        texts.append(str(graph))
    assert texts[1] == texts[0]
    assert "floordiv" in texts[1]


def test_bindings():
    keypath = (
        SequenceKey(1),
        CallMethodKey("size"),
        SequenceKey(0),
        DivideByKey(4),
        ConvertIntKey(),
        CallMethodKey("item"),
    )
    texts = []
    for graph_type in GRAPHS:
        graph = graph_type()
        x = graph.placeholder("x")
        node = graph._resolve_unbacked_binding(x, keypath, operator.index)
        graph._resolve_unbacked_binding(x, (CallMethodKey("storage_offset"),), operator.index)
        graph._resolve_unbacked_binding(x, (CallMethodKey("stride"), SequenceKey(1)), operator.index)
        graph.output(node)
        texts.append(str(graph))
    assert texts[1] == texts[0]


def test_data_dependent_sizes(fakes):
    mode, fake = fakes
    with mode:
        nonzero = torch.ops.aten.nonzero.default(fake)
    number = nonzero.shape[0]
    texts = []
    for graph_type in GRAPHS:
        graph = build(graph_type, fake, "val")
        with graph.inserting_before(graph.output_node()):
            node = graph.call_function(torch.ops.aten.nonzero.default, (next(iter(graph.nodes)),))
            node.meta["val"] = nonzero
            node.meta["unbacked_bindings"] = {number.node.expr: (CallMethodKey("size"), SequenceKey(0))}
            graph.materialize_symints([number * 2, number + fake.shape[0]])
        texts.append(str(graph))
    assert texts[1] == texts[0]


@pytest.mark.parametrize("graph_type", GRAPHS)
def test_refusals(graph_type, fakes):
    _, fake = fakes
    graph = graph_type()
    with pytest.raises(AssertionError, match="no producer for"):
        graph.materialize_symints([fake.shape[0]])
    with pytest.raises(TypeError, match="expected SymInt or int, got float"):
        graph.materialize_symints([1.5])
    assert graph.materialize_symints([3, True]) == [3, 1]

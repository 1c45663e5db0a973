"""Tracing with shapes on the meta device: the same graphs and warnings as torch.fx's."""

import importlib
import warnings

import pytest
import torch
import torch.fx
from torch import nn

import fxengine
from fxengine.experimental import meta_tracer
from tests.support.parity import _described, neutral

ENGINES = (torch.fx, fxengine)


def tracing(engine):
    return importlib.import_module(f"{engine.__name__}.experimental.meta_tracer")


def outcome(engine, make, inputs, **options):
    with torch.device("meta"):
        root = make()
    meta = {name: torch.empty(shape, device="meta", dtype=dtype) for name, (shape, dtype) in inputs.items()}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            traced = tracing(engine).symbolic_trace(root, meta, **options)
        except Exception as error:  # noqa: BLE001 - compared.
            return type(error).__name__, neutral(str(error))
    told = [neutral(str(each.message)) for each in caught if "metadata" in str(each.message)]
    return [_described(node) for node in traced.graph.nodes], neutral(traced.code), told


class Shapes(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.norm = nn.LayerNorm(8)
        self.linear = nn.Linear(8, 4)
        self.scale = nn.Parameter(torch.ones(4))
        self.relu = nn.ReLU()

    def forward(self, tokens, mask=None):
        batch, length = tokens.shape
        x = self.norm(self.embedding(tokens))
        positions = torch.arange(length, device=tokens.device)
        if x.size(1) > 3 and x.dim() == 3:
            x = self.relu(self.linear(x)) * self.scale
        x = x + positions.view(1, length, 1).to(x.dtype)
        x = torch.where(x > 0, x, torch.zeros(batch, length, 1, device=x.device))
        for row in range(x.shape[2]):
            x = x + row
        return x.reshape(batch, -1).transpose(0, 1), torch.abs(x), x.device


class DataDependent(nn.Module):
    def forward(self, x):
        kept = x[x > 0]
        return kept.sum() + kept.shape[0], torch.ones(x.size(0)) + x.item()


class Inserted(nn.Module):
    def __init__(self):
        super().__init__()
        self.relu_0 = nn.ReLU()

    def forward(self, x):
        for _ in range(2):
            x = nn.ReLU()(x)
        return nn.Dropout(0.5)(nn.Sequential(nn.Tanh())(x))


class Foreign(nn.Module):
    def forward(self, x):
        return nn.Linear(2, 2)(x)


class InPlace(nn.Module):
    def forward(self, x):
        y = nn.functional.relu(x, inplace=True)
        return y.size(), torch.eye(x.shape[0]), torch.full_like(x, 2.0), y.dim()


FLOATS = {"x": ((4, 5), torch.float32)}
CASES = [
    (Shapes, {"tokens": ((2, 6), torch.int64)}),
    (Shapes, {"tokens": ((2, 3), torch.int64)}),
    (Shapes, {}),
    (DataDependent, FLOATS),
    (Inserted, FLOATS),
    (Foreign, {"x": ((4, 2), torch.float32)}),
    (InPlace, FLOATS),
]


@pytest.mark.parametrize(("make", "inputs"), CASES)
def test_graphs_are_alike(make, inputs):
    theirs, ours = (outcome(engine, make, inputs) for engine in ENGINES)
    assert ours == theirs


def test_functions_and_concrete_arguments():
    def function(x, flag):
        return x.reshape(x.shape[1], x.shape[0]) if flag else x.size(1)

    for flag in (True, False):
        theirs, ours = (
            outcome(engine, lambda: function, {"x": ((2, 3), torch.float32)}, concrete_args={"flag": flag})
            for engine in ENGINES
        )
        assert ours == theirs


def test_inputs_must_be_given():
    for engine in ENGINES:
        with pytest.raises(AssertionError, match="Expected dict for meta_args"):
            tracing(engine).symbolic_trace(Inserted())


@pytest.mark.parametrize("engine", ENGINES, ids=["torch.fx", "fxengine"])
class TestEach:
    def test_torch_is_left_as_it_was(self, engine):
        before = [getattr(torch, name) for name in tracing(engine).MetaTracer._TORCH_METHODS_TO_PATCH]
        outcome(engine, Foreign, FLOATS)
        assert [getattr(torch, name) for name in tracing(engine).MetaTracer._TORCH_METHODS_TO_PATCH] == before

    def test_the_inputs_belong_to_the_graph(self, engine):
        meta = {"x": torch.empty(2, 2, device="meta")}
        graph = tracing(engine).MetaTracer().trace(Inserted(), meta)
        assert graph._tracer_extras == {"meta_args": meta}

    def test_modules_are_not_inserted_if_that_is_not_wanted(self, engine):
        tracer = tracing(engine).MetaTracer()
        tracer.allow_insert_stateless_mods = False
        with pytest.raises(NameError):
            tracer.trace(Inserted(), {"x": torch.empty(2, 2, device="meta")})

    def test_overrides_of_the_user(self, engine, monkeypatch):
        module = tracing(engine)
        monkeypatch.setitem(module.manual_meta_overrides, nn.Tanh, lambda self, x: x.new_empty(7))

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.tanh = nn.Tanh()

            def forward(self, x):
                return x.sum(), self.tanh(x).shape[0]

        traced = module.symbolic_trace(Net(), {"x": torch.empty(2, device="meta")})
        assert "7" in traced.code

    def test_what_stands_for_values(self, engine):
        module = tracing(engine)
        tracer = module.MetaTracer()
        tracer.graph = engine.Graph()
        proxy = tracer.proxy(tracer.graph.placeholder("x"))
        assert module.proxys_to_metas(3) == 3
        assert module.proxys_to_metas(proxy.device) == "meta"
        with pytest.raises(AssertionError, match="does not have an associated meta"):
            module.proxys_to_metas(proxy)
        tensor = torch.empty(2, device="meta")
        proxy.install_tensor_meta(tensor)
        assert module.proxys_to_metas(proxy) is tensor
        with pytest.raises(AssertionError, match="Expected MetaProxy"):
            module.proxys_to_metas(engine.Proxy(proxy.node))

    def test_constructors(self, engine):
        wrapper, original = tracing(engine).gen_constructor_wrapper(torch.zeros)
        assert original is torch.zeros
        assert wrapper(2).shape == (2,)
        graph = engine.Graph()
        recorded = wrapper(engine.Proxy(graph.placeholder("x")), dtype=torch.int64)
        assert (recorded.node.target, recorded.node.kwargs) == (torch.zeros, {"dtype": torch.int64})


def test_shapes_that_are_computed_run_no_hook_of_the_trace():
    class Block(nn.Sequential):
        """A leaf with modules inside, which must not be recorded when the leaf is computed."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block(nn.Linear(3, 4), nn.ReLU())

        def forward(self, x):
            return self.block(x).shape[1]

    class Tracer(meta_tracer.MetaTracer):
        def is_leaf_module(self, m, module_qualified_name):
            return isinstance(m, Block)

    with torch.device("meta"):
        graph = Tracer().trace(Net(), {"x": torch.empty(2, 3)})
    assert [node.op for node in graph.nodes] == ["placeholder", "call_module", "output"]
    assert graph.output_node().args == (4,)

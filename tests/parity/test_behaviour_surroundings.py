"""What torch keeps beside graphs acts on both engines alike: replayed meta, profilers, lazy modules, refusals."""

import importlib
import pickle
from types import ModuleType

import pytest
import torch
import torch.fx
import torch.fx.traceback
from torch import nn

import fxengine
from tests.support.parity import neutral

ENGINES = pytest.mark.parametrize("engine", [torch.fx, fxengine], ids=["torch.fx", "fxengine"])


def of(engine: ModuleType, name: str) -> ModuleType:
    """The submodule of an engine."""
    return importlib.import_module(f"{engine.__name__}.{name}")


@ENGINES
def test_nodes_of_a_replay_inherit_meta(engine):
    module = engine.symbolic_trace(lambda x: torch.relu(x) + 1)
    for node in module.graph.nodes:
        node.meta = {"stack_trace": f"at {node.name}", "custom": {"name": node.name}}
    with of(engine, "traceback").preserve_node_meta():
        replayed = engine.Tracer().trace(lambda x: engine.Interpreter(module).run(x))
    calls = [node for node in replayed.nodes if node.op == "call_function"]
    assert [node.stack_trace for node in calls] == ["at relu", "at add"]
    assert [node.meta["custom"] for node in calls] == [{"name": "relu"}, {"name": "add"}]
    assert [node.meta["from_node"][-1].pass_name for node in calls] == ["Interpreter_Interpreter"] * 2


@ENGINES
def test_annotated_nodes(engine):
    traceback = of(engine, "traceback")

    def function(x):
        with traceback.annotate({"stage": 1}):
            y = x + 1
        return y * 2

    with traceback.preserve_node_meta():
        graph = engine.Tracer().trace(function)
    assert [node.meta.get("custom") for node in graph.nodes if node.op == "call_function"] == [{"stage": 1}, None]


@torch.fx.traceback.annotate_fn({"stage": 2})
def annotated(x):
    return x + 1


class Annotated(nn.Module):
    def forward(self, x):
        return annotated(x)


def test_stack_traces_keep_annotated_functions():
    traces = []
    for engine in (torch.fx, fxengine):
        tracer = engine.Tracer()
        tracer.record_stack_traces = tracer._record_forward_stack_traces_only = True
        with of(engine, "traceback").preserve_node_meta():
            graph = tracer.trace(Annotated())
        traces.append([(node.name, node.stack_trace, node.meta.get("custom")) for node in graph.nodes])
    assert traces[0] == traces[1]
    assert "in annotated" in traces[0][1][1]


def test_profilers_find_the_nodes_of_generated_code():
    """Equal code is recorded under the same name by both engines, and runs."""
    settings = of(fxengine, "experimental._config")
    if not hasattr(of(torch.fx, "experimental._config"), "enrich_profiler_metadata"):
        assert not fxengine.symbolic_trace(torch.sin).code.count("_RecordFunctionFast")
        return
    with settings.patch("enrich_profiler_metadata", True):
        ours, theirs = (engine.symbolic_trace(nn.Sequential(nn.ReLU())) for engine in (fxengine, torch.fx))
        assert ours.code == theirs.code
        assert ours.forward.__code__.co_filename == theirs.forward.__code__.co_filename
    record = of(fxengine, "traceback")._FX_METADATA_REGISTRY[ours.forward.__code__.co_filename]
    assert [node["name"] for node in record["node_metadata"].values()] == ["input_1", "_0", "output"]
    assert torch.equal(ours(torch.ones(1)), torch.ones(1))


@ENGINES
def test_lazy_modules_are_restored_lazy(engine):
    lazy = of(engine, "_lazy_graph_module")
    with lazy._use_lazy_graph_module(True):
        saved = pickle.dumps(engine.symbolic_trace(lambda x: x.sin()))
        assert isinstance(pickle.loads(saved), lazy._LazyGraphModule)
    assert not isinstance(pickle.loads(saved), lazy._LazyGraphModule)


REFUSED = {
    "a target that is neither function nor text": lambda engine: engine.Graph().call_module(3),
    "a mutation of arguments": lambda engine: engine.immutable_collections.immutable_list([1]).append(2),
    "a method without signature": lambda engine: of(engine, "operator_schemas").normalize_function(
        torch.Tensor.add, (torch.ones(1), 1)
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_same_refusal(what):
    messages = []
    for engine in (torch.fx, fxengine):
        with pytest.raises((TypeError, ValueError, AssertionError)) as raised:
            REFUSED[what](engine)
        messages.append((raised.type, neutral(str(raised.value))))
    assert messages[0] == messages[1]


def test_submodules_are_there_without_an_import():
    for name in ("_compatibility", "_utils", "experimental", "passes", "subgraph_rewriter", "tensor_type"):
        assert getattr(fxengine, name).__name__ == f"fxengine.{name}"
    assert fxengine.passes.infra.pass_manager.PassManager is of(fxengine, "passes.infra.pass_manager").PassManager
    assert fxengine.passes.shape_prop.ShapeProp is of(fxengine, "passes.shape_prop").ShapeProp
    with pytest.raises(AttributeError):
        _ = fxengine.passes.no_such_pass


def test_promised_names_call_themselves_after_their_module():
    for name in ("node:map_arg", "_symbolic_trace:Tracer", "_symbolic_trace:wrap", "proxy:TraceError"):
        module, _, attribute = name.partition(":")
        ours, theirs = (getattr(of(engine, module), attribute) for engine in (fxengine, torch.fx))
        assert ours.__module__ == theirs.__module__.replace("torch.fx", "fxengine")

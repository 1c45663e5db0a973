"""What is noted and drawn of passes, and partitions for CUDA graphs: the same as torch.fx's."""

import copy
import importlib

import pytest
import torch
import torch.fx
from torch import nn
from torch._inductor import config as compiler_config
from torch._subclasses.fake_tensor import FakeTensorMode

import fxengine
from fxengine.interop import from_torch_fx
from fxengine.passes.backends.cudagraphs import partition_cudagraphs
from fxengine.passes.graph_transform_observer import GraphTransformObserver

ENGINES = (torch.fx, fxengine)


def observing(engine):
    return importlib.import_module(f"{engine.__name__}.passes.graph_transform_observer").GraphTransformObserver


class Net(nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        return torch.sigmoid(y) + y + torch.neg(x)


def replace_twice(engine, graph):
    """Two users of one node get another, a node is renamed, one erased, and a copy is changed as well."""
    (relu,) = graph.find_nodes(op="call_function", target=torch.relu)
    with graph.inserting_before(relu):
        tanh = graph.call_function(torch.tanh, relu.args)
    relu.replace_all_uses_with(tanh)
    graph.erase_node(relu)
    (negated,) = graph.find_nodes(op="call_function", target=torch.neg)
    with graph.inserting_after(negated):
        graph.call_function(torch.abs, (negated,))
    negated.replace_all_uses_with(tanh)
    tanh.name = "renamed"
    copied = copy.deepcopy(graph.owning_module)
    with copied.graph.inserting_before(copied.graph.output_node()):
        copied.graph.call_function(torch.cos, (next(iter(copied.graph.nodes)),))


def sources(graph):
    def plain(source):
        return [
            source.name,
            source.target,
            source.pass_name,
            source._get_action_string(),
            *map(plain, source.from_node),
        ]

    return [(node.name, [plain(source) for source in node.meta.get("from_node", [])]) for node in graph.nodes]


@compiler_config.patch({"trace.provenance_tracking_level": 1})
def test_the_same_is_noted():
    noted = []
    for engine in ENGINES:
        traced = engine.symbolic_trace(Net())
        observer = observing(engine)(traced, "replace")
        before = len(traced._create_node_hooks)
        assert observer.apply_graph_pass(lambda graph, engine=engine: replace_twice(engine, graph)) is None
        assert len(traced._create_node_hooks) == before
        noted.append(
            (
                sources(traced.graph),
                observer.created_nodes,
                observer.erased_nodes,
                sorted(observer.name_to_node),
                len(observer.copied_gms),
                [len(module._create_node_hooks) for module in observer.copied_gms],
            )
        )
        again = observing(engine)(traced, "again")
        assert again.apply_gm_pass(lambda module: module.graph.find_nodes(op="placeholder")[0].name) == "x"
    assert noted[0] == noted[1]


@pytest.mark.parametrize("engine", ENGINES, ids=["torch.fx", "fxengine"])
class TestSettings:
    def test_nothing_is_noted_without_them(self, engine):
        traced = engine.symbolic_trace(Net())
        count = observing(engine).get_current_pass_count()
        with observing(engine)(traced, "replace") as observer:
            replace_twice(engine, traced.graph)
        assert not observer.active
        assert all("from_node" not in node.meta for node in traced.graph.nodes)
        assert observing(engine).get_current_pass_count() == count

    @compiler_config.patch({"disabled_passes": "other,replace"})
    def test_passes_can_be_switched_off(self, engine):
        observer = observing(engine)(engine.symbolic_trace(Net()), "replace")
        assert observer.apply_graph_pass(lambda graph: 1) is None
        assert observer.apply_gm_pass(lambda module: 1) is None

    def test_a_pass_of_a_subsystem_runs(self, engine):
        observer = observing(engine)(engine.symbolic_trace(Net()), "replace", subsystem="pre_grad_passes")
        assert observer.apply_graph_pass(lambda graph: 1) == 1


def test_drawings(tmp_path):
    traced = fxengine.symbolic_trace(Net())
    observer = GraphTransformObserver(traced, "replace", log_url=str(tmp_path))
    observer.apply_graph_pass(lambda graph: replace_twice(fxengine, graph))
    count = GraphTransformObserver.get_current_pass_count()
    before, after = (
        (tmp_path / f"pass_{count}_replace_{which}_graph.dot").read_text() for which in ("input", "output")
    )
    yellow = [line.split('"')[1] for text in (before, after) for line in text.splitlines() if '"yellow"' in line]
    assert yellow == ["relu", "abs_1"]

    GraphTransformObserver(traced, "nothing", log_url=str(tmp_path)).apply_graph_pass(lambda graph: None)
    assert len(list(tmp_path.iterdir())) == 2


class Mixed(nn.Module):
    def forward(self, x, y):
        z = torch.relu(x) + 1
        w = (torch.sigmoid(y) * 2).sum()
        first, _ = torch.split(z, 2)
        return torch.cat([first, z]), w, z.to("cpu") + w


def test_partitions_for_cuda_graphs():
    results = []
    with FakeTensorMode():
        inputs = (torch.empty(4, 3, device="cuda"), torch.empty(3))
    for engine in ENGINES:
        backend = importlib.import_module(f"{engine.__name__}.passes.backends.cudagraphs")
        partitioned = backend.partition_cudagraphs(engine.symbolic_trace(Mixed()), inputs)
        results.append({name: part.code for name, part in partitioned.named_modules() if hasattr(part, "code")})
    assert results[0] == results[1]
    assert len(results[0]) > 1


def test_partitions_of_an_exported_graph():
    exported = torch.export.export(Mixed(), (torch.rand(4, 3), torch.rand(3))).module()
    converted = from_torch_fx(exported) if isinstance(exported, torch.fx.GraphModule) else exported
    inputs = (torch.rand(4, 3), torch.rand(3))
    partitioned = partition_cudagraphs(converted, inputs)
    # On the CPU there is nothing for CUDA graphs but what only passes values on.
    torch.testing.assert_close(partitioned(*inputs), Mixed()(*inputs))

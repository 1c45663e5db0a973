"""What the engine's nodes and graphs have beyond torch.fx: origins, tensors, lines, saving without recursion."""

import copy
import pickle
import sys
import types
from collections.abc import Callable

import pytest
import torch
from torch import nn

from fxengine import effects
from fxengine.codegen import node_lines
from fxengine.graph import Graph
from fxengine.graph_module import GraphModule
from fxengine.node import Node, TensorFacts, has_side_effect
from fxengine.source import ModuleSite, Origin, OriginRecord
from fxengine.tracer import symbolic_trace


def chain(length):
    graph = Graph()
    x = graph.placeholder("x")
    for _ in range(length):
        x = graph.call_function(torch.add, (x, [x, {"k": x}]), {"alpha": 2})
    graph.output(x)
    return graph


def test_a_node_has_no_dict_until_it_is_given_an_attribute():
    node = Graph().placeholder("x")
    assert vars(node) == {}
    node.tag = "mine"
    assert node.tag == "mine"
    assert "mine" in node.__getstate__().values()


def test_origin_is_looked_up_when_it_is_asked_for():
    node = Graph().placeholder("x")
    assert node.origin is None
    record = OriginRecord((ModuleSite("block", nn.Linear, None, ()), (chain.__code__, -1)))
    node._origin = record
    assert node.origin == record.resolve()
    assert node.origin.module_path == "block"
    assert node.origin.frames[0].function == "chain"


def test_copies_keep_what_is_known():
    graph = chain(2)
    facts = TensorFacts.of(torch.zeros(2, 3))
    assert facts == TensorFacts((2, 3), torch.float32, torch.device("cpu"))
    origin = Origin((), "block", None)
    node = next(iter(graph.nodes)).next
    node.tensor, node.origin = facts, origin
    node.meta["list"] = []
    for copied in (copy.deepcopy(graph), copied_by_nodes(graph), pickle.loads(pickle.dumps(graph))):
        twin = list(copied.nodes)[1]
        assert twin.tensor == facts
        assert twin.origin == origin
        assert twin.meta == {"list": []}
        assert twin.meta is not node.meta


def copied_by_nodes(graph):
    result, copies = Graph(), {}
    for node in graph.nodes:
        copies[node] = result.node_copy(node, lambda n: copies[n])
    return result


def test_shapes_are_shown_to_people_even_without_meta():
    graph = chain(1)
    list(graph.nodes)[1].tensor = TensorFacts.of(torch.zeros(2, 3))
    assert 'add: "f32[2, 3]" = torch.add(' in graph.python_code("self", verbose=True).src


@pytest.mark.parametrize(
    "options", [{}, {"verbose": True}, {"verbose": True, "colored": True}, {"expanded_def": True}], ids=repr
)
def test_lines_of_nodes(options):
    graph = chain(3)
    list(graph.nodes)[2].meta["is_wrapped"] = True
    list(graph.nodes)[1].meta["stack_trace"] = 'File "m.py", line 3, in f\n    y\n'
    code = graph.python_code("self", **options)
    lines = code.src.split("\n")
    numbers = {node.name: number for node, number in node_lines(code).items()}
    assert list(numbers) == ["add", "add_1", "add_2", "output"]
    for name, number in numbers.items():
        assert lines[number - 1].strip().startswith("return" if name == "output" else f"{name} = torch.add(")


def test_lines_of_nodes_in_a_transformed_body():
    graph = chain(2)
    graph.on_generate_code(lambda _: lambda body: ["print('a')\nprint('b')\n", *body])
    code = graph.python_code("self")
    add = list(graph.nodes)[1]
    assert code.src.split("\n")[node_lines(code)[add] - 1].strip().startswith("add = ")


def test_saving_does_not_recurse():
    length = sys.getrecursionlimit() * 2
    graph = chain(length)
    restored = pickle.loads(pickle.dumps(graph))
    assert str(restored) == str(graph)
    restored.lint()
    new = restored.call_function(torch.neg, (next(iter(restored.nodes)),))
    assert new.name == "neg"
    assert restored.call_function(torch.add, (new, 1)).name == f"add_{length}"


def test_a_saved_node_is_a_node_of_the_saved_graph():
    graph = chain(2)
    x, add, *_ = graph.nodes
    add.meta["first"] = x
    add.tag = "mine"
    for restored, node in (pickle.loads(pickle.dumps((graph, add))), copy.deepcopy((graph, add))):
        assert list(restored.nodes)[1] is node
        assert str(restored) == str(graph)
    node, restored = pickle.loads(pickle.dumps((add, graph)))
    assert list(restored.nodes)[1] is node
    assert node.meta["first"] is next(iter(restored.nodes))
    assert node.tag == "mine"
    assert copy.deepcopy(add).graph is not graph
    assert pickle.loads(pickle.dumps(graph._root)).op == "root"


def test_a_shallow_copy_of_a_node_shares_everything():
    graph = chain(1)
    node = list(graph.nodes)[1]
    copied = copy.copy(node)
    assert type(copied) is Node
    assert copied is not node
    assert (copied.name, copied.args, copied.users, copied.graph) == (node.name, node.args, node.users, graph)


def test_local_tracers_are_not_saved():
    class Tracer:
        pass

    assert pickle.loads(pickle.dumps(Graph(tracer_cls=Tracer)))._tracer_cls is None


def test_code_is_compiled_when_it_is_first_called():
    module = symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    assert type(vars(type(module))["forward"]) is not types.FunctionType
    assert module(torch.ones(1, 2)).shape == (1, 2)
    assert type(vars(type(module))["forward"]) is types.FunctionType
    first = module.forward
    assert module.forward == first


def test_wrapped_functions_are_registered_at_once():
    graph = Graph()
    node = graph.call_function(chain, (graph.placeholder("x"),))
    node.meta["is_wrapped"] = True
    graph.output(node)
    before = set(torch.fx._symbolic_trace._wrapped_fns_to_patch)
    module = GraphModule({}, graph)
    (registered,) = set(torch.fx._symbolic_trace._wrapped_fns_to_patch) - before
    assert registered == (id(type(module).forward.__globals__), next(iter(module.forward.__code__.co_names)))


def test_functions_registered_for_their_effect(monkeypatch):
    monkeypatch.setattr(effects, "_side_effectful_functions", set(effects._side_effectful_functions))

    def log(x):
        return x

    def record(x):
        return x

    graph = Graph()
    x = graph.placeholder("x")
    graph.output(x)
    with graph.inserting_after(x):
        graph.call_function(log, (x,))
        graph.call_function(record, (x,))
    assert has_side_effect(log) is log
    assert graph.eliminate_dead_code()
    assert [node.target for node in graph.nodes if node.op == "call_function"] == [log]


def test_functions_registered_with_torch_fx_count_too(monkeypatch):
    theirs = sys.modules["torch.fx.node"]
    monkeypatch.setattr(theirs, "_side_effectful_functions", set(theirs._side_effectful_functions))

    def log(x):
        return x

    node = Graph().call_function(log, (1,))
    assert not node.is_impure()
    theirs._side_effectful_functions.add(log)
    assert node.is_impure()


@pytest.mark.parametrize(
    ("function", "args", "impure", "impure_without_random"),
    [
        (torch.relu, (), False, False),
        (torch.rand, (2,), True, True),
        (torch.dropout, (), False, False),
        (torch.ops.aten.relu_.default, (), True, True),
        (torch.ops.aten.relu.default, (), False, False),
        (torch.ops.aten.native_dropout.default, (), True, False),
        (torch.ops.profiler._record_function_enter_new, (), True, True),
        (torch._assert, (), True, True),
        (torch.amp.autocast_mode._enter_autocast, (), True, True),
        (torch._C._set_grad_enabled, (True,), True, True),
        (len, ((),), False, False),
    ],
)
def test_effects_of_functions(function, args, impure, impure_without_random):
    node = Graph().call_function(function, args)
    assert node.is_impure() == impure
    assert node.is_impure(impure_random=False) == impure_without_random


def test_normalized_arguments():
    graph = Graph()
    x = graph.placeholder("x")
    root = nn.Module()
    root.linear = nn.Linear(1, 1)
    call = graph.call_function(torch.nn.functional.gelu, (x,))
    assert (
        call.normalized_arguments(root, normalize_to_only_use_kwargs=True).kwargs
        == {
            "input": x,
            "approximate": "none",
        }
        or call.normalized_arguments(root) is None
    )
    assert graph.call_module("linear", (x,)).normalized_arguments(root, normalize_to_only_use_kwargs=True).kwargs == {
        "input": x
    }
    assert graph.call_function(torch.nn.functional.relu, (x,)).normalized_arguments(root).kwargs == {"inplace": False}
    assert graph.call_method("relu", (x,)).normalized_arguments(root) is None
    with pytest.raises(RuntimeError, match="root did not have that target"):
        graph.call_module("missing", (x,)).normalized_arguments(root)


def test_sizes_as_nodes():
    graph = Graph()
    x = graph.placeholder("x")
    x.meta["example_value"] = torch.zeros(2, 3)[1:]
    assert graph.create_size_node(x, 1).meta == {"example_value": 3}
    assert graph.create_stride_node(x, 0).meta == {"example_value": 3}
    assert graph.create_storage_offset_node(x).meta == {"example_value": 3}
    assert graph.create_size_node(graph.placeholder("y"), 0).meta == {}


def test_appending_with_parts_that_are_right_already():
    graph = Graph()
    x = graph.placeholder("x")
    with_inputs = graph._append("call_function", torch.relu, (x,), {}, "relu", None, {x: None})
    without_inputs = graph._append("call_function", torch.relu, (with_inputs,), {}, "relu")
    assert (with_inputs.name, without_inputs.name) == ("relu", "relu_1")
    assert without_inputs.all_input_nodes == [with_inputs]
    assert list(x.users) == [with_inputs]
    with graph.inserting_before(with_inputs):
        graph._append("call_function", torch.neg, (x,), {}, "neg")
    assert [node.name for node in graph.nodes] == ["x", "neg", "relu", "relu_1"]
    graph.lint()


def test_the_annotation_of_a_parameter_that_is_a_function_is_written():
    class Net(nn.Module):
        def forward(self, x: torch.Tensor, loss: Callable[[torch.Tensor, int], torch.Tensor] | None = None):
            return x + 1

    traced = GraphModule(nn.Module(), symbolic_trace(Net()).graph)
    assert "collections_abc_Callable[[torch.Tensor,int],torch.Tensor]" in traced.code
    assert torch.equal(traced(torch.ones(2)), torch.full((2,), 2.0))

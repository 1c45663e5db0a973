"""The interpreter: results, freeing of values, every override, and the messages that it adds to errors."""

import gc
import operator
import weakref

import pytest
import torch
import torch.fx
from torch import nn

from fxengine._symbolic_trace import symbolic_trace as trace
from fxengine.graph import Graph
from fxengine.graph_module import GraphModule
from fxengine.interpreter import Interpreter


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("shift", torch.zeros(4))

    def forward(self, x, bias=None):
        y = torch.cat([self.fc(x), x * self.scale], dim=1)
        return {"out": y.relu()[:, 1:3], "shift": (self.shift, y)}


def test_it_returns_what_the_module_returns():
    module = Block()
    x = torch.randn(2, 4)
    expected, found = module(x), Interpreter(trace(module)).run(x)
    assert torch.equal(found["out"], expected["out"])
    assert torch.equal(found["shift"][1], expected["shift"][1])


def test_defaults_and_missing_arguments():
    traced = trace(Block())
    assert Interpreter(traced).run(torch.randn(2, 4), None)["out"].shape == (2, 2)
    with pytest.raises(RuntimeError, match="Expected positional argument for parameter x, but one was not passed in!"):
        Interpreter(traced).run()


def test_starred_parameters_take_what_is_left():
    def forward(x, *rest):
        return x, rest

    traced = trace(forward)
    x, rest = Interpreter(traced).run(1, 2, 3)
    assert (x, list(rest)) == (1, [2, 3])


def test_a_swap_of_functions_and_methods():
    class Swap(Interpreter):
        def call_function(self, target, args, kwargs):
            return super().call_function(torch.neg if target is torch.sigmoid else target, args, kwargs)

        def call_method(self, target, args, kwargs):
            return super().call_method("sigmoid" if target == "neg" else target, args, kwargs)

    x = torch.randn(3, 4)
    found = Swap(trace(lambda x: torch.sigmoid(x).neg())).run(x)
    torch.testing.assert_close(found, torch.neg(x).sigmoid())


@pytest.mark.parametrize("method", ["placeholder", "get_attr", "call_function", "call_method", "call_module", "output"])
def test_each_opcode_can_be_overridden(method):
    seen = []

    def spy(self, target, args, kwargs):
        seen.append(target)
        return getattr(Interpreter, method)(self, target, args, kwargs)

    spying = type("Spying", (Interpreter,), {method: spy})
    spying(trace(Block())).run(torch.randn(2, 4), None)
    assert seen


def test_map_nodes_to_values_sees_all_arguments_of_a_subclass():
    seen = []

    class Mapping(Interpreter):
        def map_nodes_to_values(self, args, n):
            seen.append(n.name)
            return super().map_nodes_to_values(args, n)

    Mapping(trace(lambda x: torch.relu(x) + 1)).run(torch.ones(2))
    assert seen == ["x", "x", "relu", "relu", "add", "add", "output", "output"]


def test_fetch_attr_can_be_overridden():
    class Doubling(Interpreter):
        def fetch_attr(self, target):
            value = super().fetch_attr(target)
            return value * 2 if isinstance(value, torch.Tensor) else value

    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        def forward(self, x):
            return x * self.weight

    assert Doubling(trace(Scale())).run(torch.ones(2)).tolist() == [2.0, 2.0]


def test_values_are_freed_after_their_last_use():
    alive = []

    class Watching(Interpreter):
        def run_node(self, n):
            result = super().run_node(n)
            if n.op == "call_function":
                alive.append(weakref.ref(result))
            if n.name == "relu_2":
                gc.collect()
                assert [value() is None for value in alive] == [True, True, False, False]
            return result

    def chain(x):
        return torch.relu(torch.relu(torch.relu(torch.neg(x))))

    Watching(trace(chain)).run(torch.randn(2))


def test_values_stay_when_asked_to():
    traced = trace(lambda x: torch.relu(x).neg())
    interpreter = Interpreter(traced, garbage_collect_values=False)
    interpreter.run(torch.ones(2))
    assert [node.name for node in interpreter.env] == ["x", "relu", "neg", "output"]


def test_initial_env_skips_nodes():
    traced = trace(lambda x: torch.relu(x).neg())
    relu = next(node for node in traced.graph.nodes if node.name == "relu")
    found = Interpreter(traced).run(torch.ones(2), initial_env={relu: torch.full((2,), 7.0)})
    assert found.tolist() == [-7.0, -7.0]


def test_boxed_run_empties_its_list():
    boxed = [torch.ones(2), torch.ones(2)]
    assert Interpreter(trace(lambda x, y: x + y)).boxed_run(boxed).tolist() == [2.0, 2.0]
    assert boxed == []
    with pytest.raises(
        RuntimeError, match=r"expected 2 arguments for placeholders but received 1 \(missing arguments\)"
    ):
        Interpreter(trace(lambda x, y: x + y)).boxed_run([1])


def test_another_graph_with_the_modules_state():
    traced = trace(Block())
    graph = Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_module("fc", (x,)))
    x = torch.randn(1, 4)
    assert torch.equal(Interpreter(traced, graph=graph).run(x), traced.fc(x))


def test_edits_of_the_graph_between_runs_count():
    traced = trace(lambda x: torch.add(x, 1))
    interpreter = Interpreter(traced)
    assert interpreter.run(1) == 2
    add = next(node for node in traced.graph.nodes if node.op == "call_function")
    add.args = (add.args[0], 5)
    add.target = operator.add
    assert interpreter.run(1) == 6


def test_nested_containers_reach_the_function_as_they_were():
    got = []

    def take(*args, **kwargs):
        got.append((args, kwargs))

    graph = Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(take, ([x, (x, 2)], slice(x, None)), {"k": {"a": x}, "c": (1, 2)}))
    Interpreter(GraphModule(nn.Module(), graph)).run(5)
    assert got == [(([5, (5, 2)], slice(5, None)), {"k": {"a": 5}, "c": (1, 2)})]


def test_an_error_names_its_node():
    traced = trace(nn.Sequential(nn.Linear(4, 3), nn.Linear(2, 2)))
    with pytest.raises(RuntimeError) as caught:
        Interpreter(traced).run(torch.ones(1, 4))
    assert "mat1 and mat2 shapes cannot be multiplied" in str(caught.value)
    assert "While executing %_1 : [num_users=1] = call_module[target=1](args = (%_0,), kwargs = {})" in str(
        caught.value
    )
    assert "Original traceback:" in str(caught.value)


def test_an_error_shows_the_users_line():
    def broken(x):
        return torch.relu(x) @ torch.ones(7, 7)

    with pytest.raises(
        RuntimeError, match=r"(?s)Original traceback.*test_interpreter.py.*torch.relu\(x\) @ torch.ones\(7, 7\)"
    ):
        Interpreter(trace(broken)).run(torch.ones(2, 2))


def test_an_error_is_left_alone_when_asked_to():
    interpreter = Interpreter(trace(nn.Linear(4, 3)))
    interpreter.extra_traceback = False
    with pytest.raises(RuntimeError) as caught:
        interpreter.run(torch.ones(1, 5))
    assert "While executing" not in str(caught.value)


def test_a_key_error_becomes_readable():
    with pytest.raises(RuntimeError, match="While executing"):
        Interpreter(trace(lambda x: x["missing"])).run({})


def test_what_is_missing_is_named():
    traced = trace(lambda x: torch.relu(x).neg())
    interpreter = Interpreter(traced)
    relu = next(node for node in traced.graph.nodes if node.name == "relu")
    with pytest.raises(RuntimeError, match=r"Node relu referenced nonexistent value x! Run Graph\.lint"):
        interpreter.run_node(relu)
    holder = nn.Module()
    holder.a = nn.Module()
    with pytest.raises(RuntimeError, match=r"Node referenced nonexistent target a\.b"):
        Interpreter(holder, graph=Graph()).fetch_attr("a.b.c")


def test_it_agrees_with_torch_fx_on_a_model():
    module = nn.TransformerEncoderLayer(16, 4, batch_first=True).eval()
    wrapped = nn.Sequential(module, nn.Linear(16, 2))
    x = torch.randn(2, 5, 16)
    ours = Interpreter(trace(wrapped)).run(x)
    theirs = torch.fx.Interpreter(torch.fx.symbolic_trace(wrapped)).run(x)
    assert torch.equal(ours, theirs)

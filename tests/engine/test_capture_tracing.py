"""Tracing beyond what the parity tests compare: leaf functions, nesting, threads, clean-up and overrides."""

import copy
import pickle
import sys
import threading
from math import sqrt
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.fx
from torch import nn

import fxengine
from fxengine import Proxy, TraceError, Tracer, symbolic_trace, wrap
from fxengine._symbolic_trace import _wrapped_fns_to_patch, is_fx_tracing
from fxengine.proxy import Attribute, GraphAppendingTracer, MetaProxy, ParameterProxy, Scope, ScopeContextManager


@wrap
def decorated(x: Any, scale: Any = 2) -> Any:
    return float(x) * scale


def by_name(x: Any) -> Any:
    return bool(x)


wrap("by_name")


def by_object(x: Any) -> Any:
    return int(x)


wrap(by_object)
wrap("len")


@torch.fx.wrap
def theirs(x: Any) -> Any:
    return float(x)


class Inner(nn.Module):
    def forward(self, x: Any) -> Any:
        return theirs(x) + 1


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.linear = nn.Linear(2, 2)

    def forward(self, x: Any) -> Any:
        return self.inner(self.linear(x))


def targets(root: Any) -> list[Any]:
    return [node.target for node in symbolic_trace(root).graph.nodes if node.op == "call_function"]


class TestLeafFunctions:
    def test_all_ways_of_registration(self) -> None:
        def f(x: Any) -> Any:
            return decorated(x), by_name(x), by_object(x), len(x), theirs(x)

        assert targets(f) == [decorated, by_name, by_object, len, theirs]

    def test_without_symbolic_values_they_just_run(self) -> None:
        assert "decorated" not in symbolic_trace(lambda x: x + decorated(3)).code
        assert decorated(3) == 6.0

    def test_symbolic_values_are_found_in_containers_and_keywords(self) -> None:
        def f(x: Any) -> Any:
            return decorated([1, {"a": (x,)}]), decorated(1, scale=slice(None, x))

        assert targets(f) == [decorated, decorated]

    def test_nodes_of_leaf_functions_say_so(self) -> None:
        nodes = list(symbolic_trace(calls_decorated).graph.nodes)
        assert nodes[1].meta["is_wrapped"] is True

    def test_everything_is_put_back(self) -> None:
        before = (decorated, globals().get("len"), nn.Module.__call__, nn.Module.__getattr__)
        codes = (nn.Module.__call__.__code__, nn.Module.__getattr__.__code__)
        symbolic_trace(Outer())
        with pytest.raises(TraceError):
            symbolic_trace(lambda x: 1 if x else decorated(x))
        assert (decorated, globals().get("len"), nn.Module.__call__, nn.Module.__getattr__) == before
        assert (nn.Module.__call__.__code__, nn.Module.__getattr__.__code__) == codes
        assert torch.fx._symbolic_trace._is_fx_tracing_flag is False

    def test_registration_is_for_modules(self) -> None:
        with pytest.raises(NotImplementedError, match="wrap must be called at the top level of a module"):
            wrap("len")
        with pytest.raises(RuntimeError, match="Unsupported type for global function!"):
            wrap(3)  # type: ignore[type-var]

    def test_the_registry_names_the_globals(self) -> None:
        assert _wrapped_fns_to_patch[id(globals()), "decorated"] is globals()

    def test_functions_of_math_are_leaves_wherever_they_are_found(self) -> None:
        def f(x: Any) -> Any:
            return sqrt(x.shape[0])

        assert targets(f)[-1] is sqrt

    def test_autowrapped_functions(self) -> None:
        graph = Tracer(autowrap_functions=(unregistered,)).trace(calls_unregistered)
        assert [node.target for node in graph.nodes][1] is unregistered
        assert targets(calls_unregistered) != [unregistered]


def unregistered(x: Any) -> Any:
    return x * 2


def calls_unregistered(x: Any) -> Any:
    return unregistered(x)


def calls_decorated(x: Any) -> Any:
    return decorated(x)


class TestTogetherWithTorchFx:
    def test_our_values_are_instances_of_theirs(self) -> None:
        seen = []

        def f(x: Any) -> Any:
            seen.extend([isinstance(x, torch.fx.Proxy), isinstance(x, Proxy), isinstance(x.foo, torch.fx.Proxy)])
            seen.extend([isinstance(x, torch.Tensor), type(x) is Proxy, issubclass(type(x), torch.fx.Proxy)])
            return x

        symbolic_trace(f)
        assert seen == [True, True, True, False, True, False]

    def test_code_that_catches_their_exception_catches_ours(self) -> None:
        def f(x: Any) -> Any:
            try:
                return 1 if x else 2
            except torch.fx.proxy.TraceError:
                return x + 3

        assert "x + 3" in symbolic_trace(f).code
        assert issubclass(TraceError, ValueError)

    def test_their_flag_is_set_while_we_trace(self) -> None:
        seen = []

        def f(x: Any) -> Any:
            seen.append((bool(torch.fx._symbolic_trace.is_fx_tracing()), is_fx_tracing()))
            return x

        symbolic_trace(f)
        assert seen == [(True, True)]
        assert not torch.fx._symbolic_trace.is_fx_tracing()
        assert not is_fx_tracing()

    def test_their_proxyable_classes_are_recorded(self) -> None:
        def f(x: Any) -> Any:
            return TheirPair(x, 1)

        assert targets(f) == [TheirPair]

    def test_their_graph_modules_are_traced_through(self) -> None:
        module = torch.fx.symbolic_trace(Outer())
        graph = Tracer().trace(module)
        assert [node.name for node in graph.nodes] == [node.name for node in module.graph.nodes]

    def test_their_trace_within_ours_and_ours_within_theirs(self) -> None:
        inner: dict[str, Any] = {}

        class Nesting(nn.Module):
            def __init__(self, engine: Any) -> None:
                super().__init__()
                self.engine = engine
                self.linear = nn.Linear(2, 2)
                self.inner = Outer()

            def forward(self, x: Any) -> Any:
                inner["graph"] = self.engine.Tracer().trace(self.inner)
                return self.inner(self.linear(x))

        def names(graph: Any) -> list[str]:
            return [node.name for node in graph.nodes]

        expected = names(torch.fx.Tracer().trace(Nesting(torch.fx))), names(inner["graph"])
        for outer, nested in ((fxengine, torch.fx), (torch.fx, fxengine), (fxengine, fxengine)):
            graph = outer.Tracer().trace(Nesting(nested))
            assert (names(graph), names(inner["graph"])) == expected


class TheirPair(metaclass=torch.fx.ProxyableClassMeta):
    def __init__(self, left: Any, right: Any) -> None:
        self.left, self.right = left, right


class TestThreads:
    def test_traces_in_threads_do_not_disturb_each_other(self) -> None:
        started = threading.Barrier(2, timeout=20)
        graphs: dict[str, list[str]] = {}

        class Waiting(nn.Module):
            def __init__(self, name: str) -> None:
                super().__init__()
                self.inner = Inner()
                self.weight = nn.Parameter(torch.ones(2))
                self.label = name

            def forward(self, x: Any) -> Any:
                started.wait()
                for _ in range(50):
                    x = self.inner(x) * self.weight
                return x

        def run(name: str) -> None:
            graphs[name] = [node.name for node in Tracer().trace(Waiting(name)).nodes]

        threads = [threading.Thread(target=run, args=(name,)) for name in ("a", "b")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert graphs["a"] == graphs["b"]
        assert len(graphs["a"]) == 153
        assert not hasattr(decorated, "__wrapped__")

    def test_modules_run_as_usual_in_other_threads(self) -> None:
        results: list[Any] = []
        linear = nn.Linear(2, 2)

        def f(x: Any) -> Any:
            thread = threading.Thread(target=lambda: results.append(linear(torch.ones(2))))
            thread.start()
            thread.join()
            return x

        symbolic_trace(f)
        torch.testing.assert_close(results[0], linear(torch.ones(2)))


class TestTracer:
    def test_what_is_known_about_nodes(self) -> None:
        tracer = Tracer()
        graph = tracer.trace(Outer())
        assert tracer.node_name_to_scope["linear"] == ("linear", nn.Linear)
        assert tracer.node_name_to_scope["theirs"] == ("inner", Inner)
        stacks = {node.name: list(node.meta.get("nn_module_stack", {}).items()) for node in graph.nodes}
        assert stacks["add"] == [("inner", ("inner", Inner))]
        assert stacks["linear"] == [("linear", ("linear", nn.Linear))]
        assert stacks["x"] == []
        assert tracer.root_module_name == "Outer"

    def test_stack_traces_on_demand(self) -> None:
        tracer = Tracer()
        tracer.record_stack_traces = True
        nodes = {node.name: node for node in tracer.trace(Outer()).nodes}
        assert nodes["x"].stack_trace is None
        trace = nodes["add"].stack_trace
        assert trace is not None
        assert trace.count(__file__) == 2
        assert "fxengine/" not in trace
        assert trace.splitlines()[-1].strip() == "return theirs(x) + 1"

    def test_asserts_on_demand(self) -> None:
        class Asserting(Tracer):
            trace_asserts = True

        # Not in this file, whose asserts pytest rewrites.
        namespace: dict[str, Any] = {}
        exec(
            "def f(x):\n    assert x > 1, 'too small'\n    return x + 1\ndef g(x):\n    return 1 if x > 1 else 2\n",
            namespace,
        )
        traced = fxengine.GraphModule(nn.Module(), Asserting().trace(namespace["f"]))
        assert traced(2) == 3
        with pytest.raises(AssertionError):
            traced(0)
        with pytest.raises(TraceError):
            Asserting().trace(namespace["g"])

    def test_mutable_operations_on_demand(self) -> None:
        class Functional(Tracer):
            check_mutable_operations = True

        with pytest.raises(RuntimeError, match=r"Tried to trace mutable operation aten::sigmoid\.out"):
            Functional().trace(lambda x: torch.sigmoid(x, out=x))

    def test_overridden_recording_sees_everything(self) -> None:
        class Watching(Tracer):
            def __init__(self) -> None:
                super().__init__()
                self.seen: list[Any] = []

            def create_node(self, kind: str, target: Any, *args: Any, **kwargs: Any) -> fxengine.Node:
                self.seen.append(target)
                return super().create_node(kind, target, *args, **kwargs)

            def create_arg(self, a: Any) -> Any:
                self.seen.append(type(a))
                return super().create_arg(a)

        tracer = Watching()
        tracer.trace(lambda x: torch.add(x, 1))
        kinds = {seen for seen in tracer.seen if isinstance(seen, type)}
        assert {tuple, Proxy, int, dict} <= kinds
        assert [seen for seen in tracer.seen if not isinstance(seen, type)] == ["x", torch.add, "output"]

    def test_a_replaced_method_of_one_tracer_is_called(self) -> None:
        tracer = Tracer()
        seen: list[Any] = []
        original = tracer.create_node

        def create_node(*args: Any, **kwargs: Any) -> fxengine.Node:
            seen.append(args[1])
            return original(*args, **kwargs)

        tracer.create_node = create_node  # type: ignore[method-assign]
        tracer.trace(lambda x: x + 1)
        assert len(seen) == 3

    def test_parameters_are_read_once(self) -> None:
        class Twice(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.weight = nn.Parameter(torch.ones(2))

            def forward(self, x: Any) -> Any:
                return x * self.weight + self.weight

        assert [n.op for n in Tracer().trace(Twice()).nodes].count("get_attr") == 1

    def test_tensors_that_a_module_registers_while_it_runs_are_found(self) -> None:
        class Caching(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("first", torch.ones(2))

            def forward(self, x: Any) -> Any:
                x = x + self.first
                self.register_buffer("mask", torch.zeros(2))
                return x + self.mask + torch.ones(2)

        ours, expected = Tracer().trace(Caching()), torch.fx.Tracer().trace(Caching())
        assert [n.target for n in ours.nodes if n.op == "get_attr"] == ["first", "mask", "_tensor_constant0"]
        assert [str(n.target) for n in ours.nodes] == [
            str(n.target).replace("torch.fx", "fxengine") for n in expected.nodes
        ]

    def test_a_tracer_can_be_copied(self) -> None:
        tracer = Tracer(autowrap_functions=(by_name,))
        copied = copy.deepcopy(tracer)
        assert copied._autowrap_search == tracer._autowrap_search

    def test_scope_manager(self) -> None:
        scope = Scope("a", Inner)
        with ScopeContextManager(scope, Scope("b", Outer)) as current:
            assert (current.module_path, current.module_type) == ("b", Outer)
        assert (scope.module_path, scope.module_type) == ("a", Inner)

    def test_no_root_is_needed_to_append(self) -> None:
        graph = fxengine.Graph()
        x = Proxy(graph.placeholder("x"))
        graph.output((torch.relu(x) + 1).node)
        assert isinstance(x.tracer, GraphAppendingTracer)
        assert fxengine.GraphModule(nn.Module(), graph)(torch.ones(1)) == 2

    def test_values_of_two_tracers_do_not_mix(self) -> None:
        x = Proxy(fxengine.Graph().placeholder("x"))
        y = Proxy(fxengine.Graph().placeholder("y"))
        with pytest.raises(RuntimeError, match="Found multiple different tracers"):
            torch.add(x, y)

    def test_a_higher_order_operator_takes_no_functions(self) -> None:
        x = Proxy(fxengine.Graph().placeholder("x"))
        operator = torch.ops.higher_order.cond
        with pytest.raises(RuntimeError, match="because it received an arbitrary callable argument"):
            Proxy.__torch_function__(operator, (Proxy,), (x, lambda a: a))
        assert Proxy.__torch_function__(operator, (Proxy,), (x, 1)).node.target is operator


def list_of(x: Any) -> Any:
    return list(x)


class TestUnpacking:
    @pytest.mark.parametrize("count", [1, 2, 255, 256, 1000])
    def test_any_number_of_targets(self, count: int) -> None:
        names = ", ".join(f"a{index}" for index in range(count))
        namespace: dict[str, Any] = {}
        exec(f"def f(x):\n    {names}, = x\n    return a{count - 1}\n", namespace)
        graph = Tracer().trace(namespace["f"])
        assert len(graph.nodes) == count + 2
        assert graph.output_node().args[0].args[1] == count - 1

    def test_nested_and_in_loops(self) -> None:
        def f(x: Any) -> Any:
            (a, (b, c)), d = x
            for e, g in [(a, b), (c, d)]:
                a = a + e + g
            return a

        assert symbolic_trace(f)(((1, (2, 3)), 4)) == 1 + (1 + 2) + (3 + 4)

    def test_what_is_no_unpacking_is_an_iteration(self) -> None:
        for f in (lambda x: [*x], list_of, lambda x: max(*x), lambda x: {**x}):
            with pytest.raises(TraceError, match="Proxy object cannot be iterated"):
                symbolic_trace(f)


class TestProxy:
    def test_repr(self) -> None:
        x = Proxy(fxengine.Graph().placeholder("x"))
        assert repr(x) == "Proxy(x)"
        assert repr(ParameterProxy(x.tracer, x.node, "w", nn.Parameter(torch.ones(2)))) == "ParameterProxy(w)"
        assert repr(MetaProxy(x.node)) == "MetaProxy(x)"

    def test_attributes_become_nodes_only_when_they_are_used(self) -> None:
        graph = fxengine.Graph()
        x = Proxy(graph.placeholder("x"))
        attribute = x.shape
        assert isinstance(attribute, Attribute)
        assert len(graph.nodes) == 1
        assert (attribute.node, attribute.node) == (list(graph.nodes)[1],) * 2

    def test_copies(self) -> None:
        x = Proxy(fxengine.Graph().placeholder("x"))
        assert isinstance(copy.copy(x), Proxy)
        copied = copy.deepcopy(x)
        assert (type(copied), copied.node.name) == (Proxy, "x")

    def test_subclasses_keep_their_class(self) -> None:
        class Special(Proxy):
            pass

        x = Special(fxengine.Graph().placeholder("x"))
        assert isinstance(x, Special)
        assert x.__class__.__name__ == "Special"
        assert isinstance(x.__class__(x.node), Special)
        assert type(copy.copy(x)) is Special

    def test_pickled_proxies(self) -> None:
        x = Proxy(fxengine.Graph().placeholder("x"))
        x.tracer = None  # type: ignore[assignment]
        x.node = None  # type: ignore[assignment]
        assert type(pickle.loads(pickle.dumps(x))) is Proxy

    def test_parameters_with_constant_shapes(self) -> None:
        class Shaped(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.weight = nn.Parameter(torch.ones(2, 3))

            def forward(self, x: Any) -> Any:
                if self.weight.shape[0] == 2 and self.weight.ndim == 2 and self.weight.numel() == 6:
                    return x * self.weight
                return x

        assert "mul" in Tracer(param_shapes_constant=True).trace(Shaped()).__str__()
        with pytest.raises(TraceError):
            Tracer().trace(Shaped())


def test_the_engine_does_not_import_torch_fx() -> None:
    folder = Path(fxengine.__file__).parent
    offenders = [
        path
        for path in folder.rglob("*.py")
        if path.name != "interop.py"
        and any(line.startswith(("import torch.fx", "from torch.fx")) for line in path.read_text().splitlines())
    ]
    assert offenders == []
    assert "fxengine" in sys.modules


class TestHierarchy:
    def test_modules_that_are_added_or_removed_later(self) -> None:
        root = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        first, second = root
        tracer = Tracer()
        tracer.root = root
        assert tracer.path_of_module(second) == "1"
        added = nn.ReLU()
        root.append(added)
        assert tracer.path_of_module(added) == "2"
        del root[0]
        assert tracer.path_of_module(second) == "0"
        with pytest.raises(NameError, match="module is not installed as a submodule"):
            tracer.path_of_module(first)

    def test_shared_modules_and_tensors_have_their_first_name(self) -> None:
        class Sharing(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.a = Inner()
                self.b = self.a
                self.w = nn.Parameter(torch.ones(2))
                self.v = self.w
                self.constant = torch.ones(2)
                self.alias = self.constant

            def forward(self, x: Any) -> Any:
                return self.b(x) * self.v + self.constant

        ours, expected = Tracer().trace(Sharing()), torch.fx.Tracer().trace(Sharing())
        assert [str(node.target) for node in ours.nodes] == [str(node.target) for node in expected.nodes]
        assert [node.target for node in ours.nodes if node.op == "get_attr"] == ["w", "alias"]

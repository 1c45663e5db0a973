"""The examples of the documents that this project started from, and what they say about tracing.

Each gives what its document says. Where a document's own snippet cannot work, the test has the corrected form and shows
what the printed one does; `docs/seeds.md` lists these. Code is that of today: values are called `linear` where the
documents, of an early release, have `linear_1`.
"""

import time
import types
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.fx
from torch import nn

import fxengine
from fxengine import Interpreter, TraceError, Tracer, symbolic_trace


def module_of(tmp_path: Path, source: str) -> types.ModuleType:
    """A module with this source in a file of its own, as `wrap` needs one."""
    path = tmp_path / "snippet.py"
    path.write_text(source)
    module = types.ModuleType("snippet")
    module.__file__ = str(path)
    exec(compile(source, str(path), "exec"), module.__dict__)
    return module


class TestInterpreterDocument:
    """ "Behind the Scenes: How torch.fx.Interpreter Executes FX Models"."""

    @staticmethod
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(torch.neg(x))

    def test_swapping_operations(self) -> None:
        class NegSigmSwapInterpreter(Interpreter):
            def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
                if target == torch.sigmoid:
                    return torch.neg(*args, **kwargs)
                return torch.sigmoid(*args, **kwargs)

        x = torch.randn(3, 4)
        result = NegSigmSwapInterpreter(symbolic_trace(self.model)).run(x)
        torch.testing.assert_close(result, torch.sigmoid(x).neg())

    def test_swapping_as_printed_replaces_one_of_the_two(self) -> None:
        class Printed(Interpreter):
            def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
                if target == torch.sigmoid:
                    return torch.neg(*args, **kwargs)
                return super().call_function(target, args, kwargs)

        x = torch.randn(3, 4)
        torch.testing.assert_close(Printed(symbolic_trace(self.model)).run(x), x)

    def test_profiling(self) -> None:
        class ProfilingInterpreter(Interpreter):
            def __init__(self, graph_module: fxengine.GraphModule) -> None:
                super().__init__(graph_module)
                self.op_times: dict[str, float] = {}

            def run_node(self, n: fxengine.Node) -> Any:
                start_time = time.perf_counter()
                result = super().run_node(n)
                self.op_times[n.name] = time.perf_counter() - start_time
                return result

        def my_model(x: torch.Tensor) -> torch.Tensor:
            y = torch.relu(x)
            z = torch.neg(y)
            return z.abs()

        interpreter = ProfilingInterpreter(symbolic_trace(my_model))
        x = torch.randn(3, 4)
        torch.testing.assert_close(interpreter.run(x), my_model(x))
        assert list(interpreter.op_times) == ["x", "relu", "neg", "abs_1", "output"]
        assert all(seconds > 0 for seconds in interpreter.op_times.values())

    def test_an_interpreter_has_no_root_node(self) -> None:
        assert not hasattr(Interpreter(symbolic_trace(self.model)), "root_node")


class TestCallModuleDocument:
    """ "Understanding torch.fx.Interpreter.call_module() in PyTorch FX"."""

    class MyModule(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(10, 20)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x)

    def test_call_module_is_overridden(self, capsys: pytest.CaptureFixture[str]) -> None:
        class MyInterpreter(Interpreter):
            def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
                print(f"Calling module: {target}")  # noqa: T201 - the document prints.
                print(f"Input shapes: {[tuple(a.shape) for a in args]}")  # noqa: T201 - likewise.
                return super().call_module(target, args, kwargs)

        model = self.MyModule()
        x = torch.randn(1, 10)
        output = MyInterpreter(symbolic_trace(model)).run(x)
        assert capsys.readouterr().out == "Calling module: linear\nInput shapes: [(1, 10)]\n"
        assert output.shape == (1, 20)
        torch.testing.assert_close(output, model(x))

    def test_a_second_argument_is_not_an_example_input(self) -> None:
        messages = []
        for engine in (torch.fx, fxengine):
            with pytest.raises(RuntimeError) as caught:
                engine.symbolic_trace(self.MyModule(), torch.randn(1, 10))
            messages.append(str(caught.value))
        assert messages[0] == messages[1]

    def test_a_target_is_a_name(self) -> None:
        (node,) = symbolic_trace(self.MyModule()).graph.find_nodes(op="call_module")
        assert node.target == "linear"
        assert not hasattr(node.target, "__name__")


class TestTalk:
    """The talk that introduces torch.fx: its components, and what it says they can do."""

    @staticmethod
    def relu_neg(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x).neg()

    def test_tracing_gives_the_intermediate_representation(self) -> None:
        traced = symbolic_trace(self.relu_neg)
        assert str(traced.graph).strip() == (
            "graph():\n"
            "    %x : torch.Tensor [num_users=1] = placeholder[target=x]\n"
            "    %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})\n"
            "    %neg : [num_users=1] = call_method[target=neg](args = (%relu,), kwargs = {})\n"
            "    return neg"
        )

    def test_python_code_is_generated_from_it(self) -> None:
        assert symbolic_trace(self.relu_neg).code == (
            "\n\n\ndef forward(self, x : torch.Tensor) -> torch.Tensor:\n"
            "    relu = torch.relu(x);  x = None\n"
            "    neg = relu.neg();  relu = None\n"
            "    return neg\n    "
        )

    def test_nodes_are_added_removed_and_replaced(self) -> None:
        traced = symbolic_trace(self.relu_neg)
        for node in traced.graph.nodes:
            if node.target is torch.relu:
                node.target = torch.nn.functional.gelu
            if node.target == "neg":
                node.replace_all_uses_with(node.args[0])
                traced.graph.erase_node(node)
        traced.recompile()
        x = torch.randn(4)
        torch.testing.assert_close(traced(x), torch.nn.functional.gelu(x))

    def test_the_result_is_a_module_that_torchscript_takes(self) -> None:
        traced = symbolic_trace(self.relu_neg)
        x = torch.randn(4)
        assert isinstance(traced, nn.Module)
        torch.testing.assert_close(torch.jit.script(traced)(x), traced(x))

    def test_dynamic_control_flow_is_not_supported_but_can_be_an_opaque_call(self) -> None:
        class Dynamic(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x if x.sum() > 0 else -x

        class Model(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.dynamic = Dynamic()

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.dynamic(x) + 1

        class OpaqueTracer(Tracer):
            def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
                return isinstance(m, Dynamic) or super().is_leaf_module(m, module_qualified_name)

        model = Model()
        with pytest.raises(TraceError):
            symbolic_trace(model)
        traced = fxengine.GraphModule(model, OpaqueTracer().trace(model))
        for x in (torch.ones(2), -torch.ones(2)):
            torch.testing.assert_close(traced(x), model(x))


class TestReferenceDocument:
    """The reference page of an early release, with its limitations of symbolic tracing."""

    def test_dynamic_control_flow(self) -> None:
        def func_to_trace(x: Any) -> Any:
            dim0 = x.size()[0]
            if dim0 == 3:
                return torch.relu(x)
            return torch.neg(x)

        with pytest.raises(TraceError) as caught:
            symbolic_trace(func_to_trace)
        assert str(caught.value) == ("symbolically traced variables cannot be used as inputs to control flow")
        (problem,) = fxengine.diagnose(func_to_trace).problems
        assert problem.site is not None
        assert problem.site.text == "dim0 == 3"
        assert problem.kind == "metadata"

    def test_size_as_printed_is_a_method_that_is_indexed(self) -> None:
        def as_printed(x: Any) -> Any:
            return x.size[0]

        assert "getattr_1 = x.size;" in symbolic_trace(as_printed).code
        with pytest.raises(TypeError):
            symbolic_trace(as_printed)(torch.ones(3))

    class MyModule(nn.Module):
        def __init__(self, do_activation: bool = False) -> None:
            super().__init__()
            self.do_activation = do_activation
            self.linear = nn.Linear(512, 512)

        def forward(self, x):  # As printed: annotations would appear in the code.
            x = self.linear(x)
            # This if-statement is so-called static control flow.
            # Its condition does not depend on any input values
            if self.do_activation:
                x = torch.relu(x)
            return x

    def test_static_control_flow(self) -> None:
        assert symbolic_trace(self.MyModule(do_activation=False)).code == (
            "\n\n\ndef forward(self, x):\n    linear = self.linear(x);  x = None\n    return linear\n    "
        )
        assert symbolic_trace(self.MyModule(do_activation=True)).code == (
            "\n\n\ndef forward(self, x):\n"
            "    linear = self.linear(x);  x = None\n"
            "    relu = torch.relu(linear);  linear = None\n"
            "    return relu\n    "
        )

    def test_a_dependency_on_an_input_is_removed(self) -> None:
        def f(x: Any, flag: Any) -> Any:
            if flag:
                return x
            return x * 2

        def g(flag: bool) -> Any:
            return lambda x: f(x, flag)

        with pytest.raises(TraceError):
            symbolic_trace(f)
        assert symbolic_trace(g(flag=True))(3) == 3
        assert symbolic_trace(g(flag=False))(3) == 6
        assert symbolic_trace(f, concrete_args={"flag": False})(3, False) == 6

    NORMALIZE = """
import fxengine
from math import sqrt

def normalize(x):
    \"\"\"
    Normalize `x` by the size of the batch dimension
    \"\"\"
    return x / sqrt(len(x))
"""

    def test_a_function_that_is_not_torchs(self, tmp_path: Path) -> None:
        plain = module_of(tmp_path, self.NORMALIZE)
        with pytest.raises(RuntimeError) as caught:
            symbolic_trace(plain.normalize)
        assert str(caught.value) == (
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, "
            "please call torch.fx.wrap('len') at module scope"
        )
        wrapped = module_of(tmp_path, self.NORMALIZE + "fxengine.wrap('len')\nfxengine.wrap('sqrt')\n")
        traced = symbolic_trace(wrapped.normalize)
        assert traced.code == (
            '\ntorch.fx._symbolic_trace.wrap("len")\n'
            'torch.fx._symbolic_trace.wrap("math_sqrt")\n\n'
            "def forward(self, x):\n"
            "    len_1 = len(x)\n"
            "    sqrt = math_sqrt(len_1);  len_1 = None\n"
            "    truediv = x / sqrt;  x = sqrt = None\n"
            "    return truediv\n    "
        )
        x = torch.rand(3, 4)
        torch.testing.assert_close(traced(x), plain.normalize(x))

    def test_a_custom_tracer(self) -> None:
        class MyCustomTracer(Tracer):
            pass

        class MyModule(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return torch.relu(x) + torch.ones(3, 4)

        mod = MyModule()
        traced_graph = MyCustomTracer().trace(mod)
        traced = fxengine.GraphModule(mod, traced_graph)
        x = torch.randn(3, 4)
        torch.testing.assert_close(traced(x), mod(x))
        assert "_tensor_constant0" in traced.code

    def test_leaf_modules(self) -> None:
        class MySpecialSubmodule(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return torch.neg(x)

        class MyModule(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.linear = nn.Linear(3, 4)
                self.submod = MySpecialSubmodule()

            def forward(self, x):  # As printed: annotations would appear in the code.
                return self.submod(self.linear(x))

        assert symbolic_trace(MyModule()).code == (
            "\n\n\ndef forward(self, x):\n"
            "    linear = self.linear(x);  x = None\n"
            "    neg = torch.neg(linear);  linear = None\n"
            "    return neg\n    "
        )

    def test_constructors_are_embedded(self) -> None:
        def deterministic(x: torch.Tensor) -> torch.Tensor:
            return x + torch.zeros(2) + torch.ones(2)

        def random(x: torch.Tensor) -> torch.Tensor:
            return x + torch.rand(2)

        traced = symbolic_trace(deterministic)
        assert [n.target for n in traced.graph.find_nodes(op="get_attr")] == [
            "_tensor_constant0",
            "_tensor_constant1",
        ]
        traced = symbolic_trace(random)
        x = torch.zeros(2)
        assert torch.equal(traced(x), traced(x))

    def test_sizes_for_constructors_come_from_the_value_itself(self) -> None:
        def f(x: torch.Tensor) -> torch.Tensor:
            return x + torch.ones_like(x) + x.new_zeros(x.shape[0])

        traced = symbolic_trace(f)
        for size in (2, 5):
            torch.testing.assert_close(traced(torch.ones(size)), torch.full((size,), 2.0))

    def test_annotations_of_parameters_are_kept_and_those_of_locals_are_not(self) -> None:
        def func(x: torch.Tensor, y: int) -> torch.Tensor:
            z: torch.Tensor = x + y
            return z

        assert symbolic_trace(func).code.strip() == (
            "def forward(self, x : torch.Tensor, y : int) -> torch.Tensor:\n"
            "    add = x + y;  x = y = None\n"
            "    return add"
        )

    def test_comment_annotations_are_not_supported(self) -> None:
        def func(x, y):  # As printed: annotations would appear in the code.
            # type: (torch.Tensor, int) -> torch.Tensor
            return x + y

        assert "def forward(self, x, y):" in symbolic_trace(func).code

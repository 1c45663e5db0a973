"""What of torch.fx there is once in a process has the engine's names too; `make_fx` gives graphs of the engine."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.fx
from torch.fx.experimental import proxy_tensor as theirs

import fxengine
from fxengine.experimental import proxy_tensor as ours

SHARED = (
    "experimental._backward_state",
    "experimental._config",
    "experimental._constant_symnode",
    "experimental.recording",
    "experimental.sym_node",
    "experimental.symbolic_shapes",
    "experimental.validator",
    "traceback",
)


@pytest.mark.parametrize("name", SHARED)
def test_the_module_is_torchs(name):
    assert importlib.import_module(f"fxengine.{name}") is importlib.import_module(f"torch.fx.{name}")


def test_modules_that_this_torch_does_not_have(monkeypatch):
    monkeypatch.delitem(sys.modules, "fxengine.experimental.recording")
    monkeypatch.setitem(sys.modules, "torch.fx.experimental.recording", None)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("fxengine.experimental.recording")


def function(x, y):
    return torch.softmax(x @ y, -1).sum(0)


def gradient(x, y):
    return torch.func.grad(lambda value: function(value, y).square().sum())(x)


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
@pytest.mark.parametrize("f", [function, gradient])
def test_the_same_graph_below_autograd(f, mode):
    inputs = torch.rand(2, 3), torch.rand(3, 4)
    expected = theirs.make_fx(f, tracing_mode=mode)(*inputs)
    made = ours.make_fx(f, tracing_mode=mode)(*inputs)
    assert isinstance(made, fxengine.GraphModule)
    assert made.code == expected.code
    assert torch.equal(made(*inputs), expected(*inputs))
    assert [set(node.meta) for node in made.graph.nodes] == [set(node.meta) for node in expected.graph.nodes]
    assert (made.shape_env is None) == (expected.shape_env is None)


def test_operators_are_decomposed():
    def decomposed(x):
        return torch.square(x)

    table = {torch.ops.aten.pow.Tensor_Scalar: lambda x, exponent: x * x}
    made = ours.make_fx(decomposed, table)(torch.ones(2))
    assert [node.target for node in made.graph.nodes if node.op == "call_function"] == [torch.ops.aten.mul.Tensor]


def test_the_rest_of_the_module_is_torchs():
    assert ours.get_proxy_mode is theirs.get_proxy_mode
    assert {*dir(theirs)} <= {*dir(ours)}


def test_only_the_bridge_loads_torch_fx():
    """No other module of the engine names torch.fx in an import, be it a statement or a call."""
    folder = Path(fxengine.__file__).parent
    for path in folder.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        loaded = [
            ast.unparse(node)
            for node in ast.walk(tree)
            if (isinstance(node, ast.Import | ast.ImportFrom) and "torch.fx" in ast.unparse(node))
            or (isinstance(node, ast.Call) and "import" in ast.unparse(node.func) and "torch.fx" in ast.unparse(node))
        ]
        assert not loaded or path.name == "interop.py", path


def test_the_engine_does_without_the_bridge():
    code = "import sys, fxengine; assert 'fxengine.interop' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)

"""The examples in torch.fx's own documentation, and scripts as people write them, run here with the import changed."""

import ast
import contextlib
import importlib
import inspect
import io
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from types import ModuleType

import pytest
import torch
import torch.fx

from tests.support.parity import neutral

PRELUDE = """
import torch, torch.fx, operator
from torch import nn
from torch.fx import *
from torch.fx.node import Argument, Target
from typing import *
fx = torch.fx
gm = torch.fx.symbolic_trace(torch.nn.ReLU())
g = gm.graph
n = next(iter(g.nodes))
inputs = (torch.ones(2),)
"""

SCRIPTS = {
    "one operation for another": """
        import torch
        import torch.fx

        class M(torch.nn.Module):
            def forward(self, x, y):
                return torch.add(x, y)

        def transform(m: torch.nn.Module, tracer_class: type = torch.fx.Tracer) -> torch.nn.Module:
            graph: torch.fx.Graph = tracer_class().trace(m)
            for node in graph.nodes:
                if node.op == "call_function" and node.target == torch.add:
                    node.target = torch.mul
            graph.lint()
            return torch.fx.GraphModule(m, graph)

        changed = transform(M())
        print(changed, changed.code, changed(torch.tensor(3), torch.tensor(4)))
        """,
    "a call after a call": """
        import torch, torch.fx

        traced = torch.fx.symbolic_trace(lambda x: torch.sigmoid(x) + 1)
        for node in traced.graph.nodes:
            if node.target is torch.sigmoid:
                with traced.graph.inserting_after(node):
                    new_node = traced.graph.call_function(torch.relu, args=(node,))
                    node.replace_all_uses_with(new_node, delete_user_cb=lambda user: user is not new_node)
        traced.recompile()
        print(traced.code, traced.graph)
        """,
    "operators taken apart by proxies": """
        import torch, torch.fx
        from torch.nn import functional as F

        def relu_decomposition(x):
            return (x > 0) * x

        rules = {F.relu: relu_decomposition}

        def decompose(model: torch.nn.Module, tracer_class: type = torch.fx.Tracer) -> torch.nn.Module:
            graph: torch.fx.Graph = tracer_class().trace(model)
            new_graph = torch.fx.Graph()
            env = {}
            tracer = torch.fx.proxy.GraphAppendingTracer(new_graph)
            for node in graph.nodes:
                if node.op == "call_function" and node.target in rules:
                    proxy_args = [
                        torch.fx.Proxy(env[x.name], tracer) if isinstance(x, torch.fx.Node) else x for x in node.args
                    ]
                    output_proxy = rules[node.target](*proxy_args)
                    env[node.name] = output_proxy.node
                else:
                    env[node.name] = new_graph.node_copy(node, lambda x: env[x.name])
            return torch.fx.GraphModule(model, new_graph)

        class Model(torch.nn.Module):
            def forward(self, x):
                return F.relu(x) - 1

        print(decompose(Model()).code)
        """,
    "shapes by an interpreter of one's own": """
        import torch, torch.fx
        from torch.fx.node import Node

        class ShapeProp:
            def __init__(self, mod):
                self.mod, self.graph = mod, mod.graph
                self.modules = dict(self.mod.named_modules())

            def propagate(self, *args):
                args_iter, env = iter(args), {}

                def load_arg(a):
                    return torch.fx.graph.map_arg(a, lambda n: env[n.name])

                for node in self.graph.nodes:
                    if node.op == "placeholder":
                        result = next(args_iter)
                    elif node.op == "get_attr":
                        result = getattr(self.mod, node.target)
                    elif node.op == "call_function":
                        result = node.target(*load_arg(node.args), **load_arg(node.kwargs))
                    elif node.op == "call_method":
                        self_obj, *args = load_arg(node.args)
                        result = getattr(self_obj, node.target)(*args, **load_arg(node.kwargs))
                    elif node.op == "call_module":
                        result = self.modules[node.target](*load_arg(node.args), **load_arg(node.kwargs))
                    if isinstance(result, torch.Tensor):
                        node.shape, node.dtype = result.shape, result.dtype
                    env[node.name] = result if node.op != "output" else None
                return load_arg(self.graph.result if hasattr(self.graph, "result") else 0)

        traced = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()))
        ShapeProp(traced).propagate(torch.ones(2, 4))
        print([(node.name, getattr(node, "shape", None)) for node in traced.graph.nodes])
        """,
    "a leaf by a tracer of one's own": """
        import torch, torch.fx

        class MySpecialSubmodule(torch.nn.Module):
            def forward(self, x):
                return torch.neg(x)

        class MyModule(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(3, 4)
                self.submod = MySpecialSubmodule()

            def forward(self, x):
                return self.submod(self.linear(x))

        print(torch.fx.symbolic_trace(MyModule()).code)

        class MyCustomTracer(torch.fx.Tracer):
            def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
                return True

        traced = MyModule()
        graph = MyCustomTracer(autowrap_functions=(torch.neg,)).trace(traced)
        gm = torch.fx.GraphModule(traced, graph, "Special")
        print(gm.code, gm)
        """,
    "functions that are leaves": """
        import torch, torch.fx
        from math import sqrt

        def late(x):
            return helper(x) + len(x)

        def helper(x):
            return x * 2

        torch.fx.wrap("len")
        torch.fx.wrap("sqrt")
        torch.fx.wrap(helper)

        @torch.fx.wrap
        def decorated(x, *, scale=1):
            return x * scale if x.sum() > 0 else x

        def normalize(x):
            return x / sqrt(len(x)) + decorated(x, scale=3) + late(x)

        traced = torch.fx.symbolic_trace(normalize)
        print(traced.code, traced(torch.ones(4)))
        """,
    "what cannot be traced": """
        import torch, torch.fx

        def func_to_trace(x):
            if x.sum() > 0:
                return torch.relu(x)
            return torch.neg(x)

        class Rooted(torch.nn.Module):
            def __init__(self, do_activation: bool = False):
                super().__init__()
                self.do_activation = do_activation
                self.linear = torch.nn.Linear(4, 4)

            def forward(self, x):
                x = self.linear(x)
                if self.do_activation:
                    x = torch.relu(x)
                return x + torch.zeros(4), torch.ones(2)

        for function in (func_to_trace, lambda x: [a for a in x], lambda x: range(x), lambda x: len(x)):
            try:
                torch.fx.symbolic_trace(function)
            except Exception as error:
                print(type(error).__name__, error, isinstance(error, torch.fx.proxy.TraceError))
        for flag in (False, True):
            print(torch.fx.symbolic_trace(Rooted(flag)).code)
        """,
    "state by the name of a type": """
        import torch, torch.fx, copy
        from torch.fx import symbolic_trace, Node, Graph, GraphModule, Proxy
        from torch.fx.passes.shape_prop import ShapeProp
        from torch.fx.experimental.optimization import fuse

        class Block(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.conv, self.bn = torch.nn.Conv2d(3, 4, 1), torch.nn.BatchNorm2d(4)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.bn(self.conv(x))

        torch.manual_seed(0)
        model = Block().eval()
        fused = fuse(model)
        x = torch.ones(1, 3, 2, 2)
        print(fused.code, type(fused.conv), torch.allclose(fused(x), model(x), atol=1e-5))
        gm = symbolic_trace(model)
        ShapeProp(gm).propagate(x)
        for node in gm.graph.nodes:
            print(node.name, node.op, node.target, node.meta["tensor_meta"].shape, node.format_node(), repr(node))
            print(sorted(node.users), node.all_input_nodes, node.prev, node.next, node.is_impure(), node.type)
        other = copy.deepcopy(gm)
        print(other.code == gm.code, isinstance(other, GraphModule), isinstance(next(iter(gm.graph.nodes)), Node))
        """,
    "a graph by proxies alone": """
        import torch, torch.fx
        from torch.fx import Proxy, Graph, GraphModule

        graph = Graph()
        raw1, raw2 = graph.placeholder("x"), graph.placeholder("y")
        tracer = torch.fx.proxy.GraphAppendingTracer(graph)
        x, y = Proxy(raw1, tracer), Proxy(raw2, tracer)
        z = torch.cat([x, y])
        w = torch.tanh(z[0:1] * 2.0).neg() @ y.t()
        graph.output(w.node)
        gm = GraphModule({}, graph)
        print(gm.code, gm(torch.ones(2, 2), torch.ones(2, 2)), w, z, x.node, type(w).__name__)
        """,
    "an operation around the output": """
        import torch, torch.fx
        from enum import Enum, auto

        class ActivationFunction(Enum):
            RELU = auto()
            LEAKY_RELU = auto()

        activation_functions = {
            ActivationFunction.RELU: torch.nn.ReLU(),
            ActivationFunction.LEAKY_RELU: torch.nn.LeakyReLU(),
        }

        def wrap_in_activation_function(m: torch.fx.GraphModule, fn: ActivationFunction) -> torch.fx.GraphModule:
            output_node = None
            for n in reversed(m.graph.nodes):
                if n.op == "output":
                    output_node = n
                    break
            wrap_node = output_node.all_input_nodes[0]
            fn_proxy = torch.fx.Proxy(wrap_node)
            with m.graph.inserting_after(wrap_node):
                m.add_submodule("activation", activation_functions[fn])
                new = m.graph.call_module("activation", (fn_proxy.node,))
            output_node.replace_input_with(wrap_node, new)
            m.recompile()
            m.graph.lint()
            return m

        traced = torch.fx.symbolic_trace(lambda x: torch.mm(x, x))
        print(wrap_in_activation_function(traced, ActivationFunction.LEAKY_RELU).code, traced)
        """,
    "a module inlined": """
        import torch, torch.fx

        class Leaf(torch.fx.Tracer):
            def is_leaf_module(self, m, name):
                return name == "inner"

        class Inner(torch.nn.Module):
            def forward(self, a, b):
                return torch.relu(a) + b

        class Outer(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Inner()

            def forward(self, x):
                return self.inner(x, b=x * 2).neg()

        root = Outer()
        gm = torch.fx.GraphModule(root, Leaf().trace(root))
        print(gm.code)
        for node in list(gm.graph.nodes):
            if node.op == "call_module":
                sub = torch.fx.Tracer().trace(gm.get_submodule(node.target))
                with gm.graph.inserting_before(node):
                    proxies = [torch.fx.Proxy(arg).node for arg in (*node.args, *node.kwargs.values())]
                    values = dict(zip(sub.find_nodes(op="placeholder"), proxies))
                    result = gm.graph.graph_copy(sub, values)
                node.replace_all_uses_with(result)
                gm.graph.erase_node(node)
        gm.delete_all_unused_submodules()
        gm.graph.lint()
        gm.recompile()
        print(gm.code, gm, gm(torch.tensor([-1.0, 2.0])))
        """,
    "a profile by an interpreter": """
        import torch, torch.fx
        from torch.fx import Interpreter
        from typing import Any

        class ProfilingInterpreter(Interpreter):
            def __init__(self, mod: torch.nn.Module):
                gm = torch.fx.symbolic_trace(mod)
                super().__init__(gm)
                self.order, self.depth = [], 0

            def run(self, *args) -> Any:
                self.order.append("run")
                return super().run(*args)

            def run_node(self, n: torch.fx.Node) -> Any:
                self.order.append((n.op, n.name))
                return super().run_node(n)

            def call_module(self, target, args, kwargs):
                assert isinstance(target, str)
                submod = self.fetch_attr(target)
                self.order.append((type(submod).__name__, len(args), sorted(kwargs)))
                return super().call_module(target, args, kwargs)

        interp = ProfilingInterpreter(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.GELU()))
        interp.run(torch.ones(1, 2))
        print(interp.order, interp.env, interp.garbage_collect_values, sorted(interp.submodules))
        """,
    "inverted operations": """
        import operator
        import torch, torch.fx

        def add_mul(x, y):
            return (x + y) * 2 - x / y

        inverse = {operator.add: operator.sub, operator.mul: operator.truediv, operator.sub: operator.add}

        class Inverter(torch.fx.Transformer):
            def call_function(self, target, args, kwargs):
                return super().call_function(inverse.get(target, target), args, kwargs)

            def placeholder(self, target, args, kwargs):
                value = super().placeholder(target, args, kwargs)
                return value

        traced = torch.fx.symbolic_trace(add_mul)
        inverted = Inverter(traced).transform()
        print(inverted.code, inverted(torch.tensor(1.0), torch.tensor(4.0)))
        print([(n.name, n.args, n.kwargs, n.users) for n in inverted.graph.nodes])
        """,
}


def documented() -> Iterator[tuple[str, str]]:
    """Give the name and the documentation of everything in torch.fx that has code in it."""
    names = [module.name for module in pkgutil.walk_packages(torch.fx.__path__, "torch.fx.")]
    for name in ["torch.fx", *(name for name in names if "experimental" not in name and ".tests" not in name)]:
        module = importlib.import_module(name)
        members = {"": module, **vars(module)}
        for owner, cls in list(members.items()):
            if inspect.isclass(cls):
                members |= {f"{owner}.{member}": value for member, value in vars(cls).items()}
        for path, member in members.items():
            own = member is module or getattr(member, "__module__", "") == name
            if own and blocks(getattr(member, "__doc__", None)):
                yield f"{name}:{path}", member.__doc__


def blocks(documentation: object) -> list[str]:
    """The code in a documentation: what is indented after a colon pair, and is Python."""
    if not isinstance(documentation, str):
        return []
    lines = inspect.cleandoc(documentation).split("\n")
    found: list[str] = []
    for at, line in enumerate(lines):
        if line.rstrip().endswith("::") or line.strip().startswith(".. code-block:: python"):
            margin = len(line) - len(line.lstrip())
            end = at + 1
            while end < len(lines) and (not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) > margin):
                end += 1
            found.append(textwrap.dedent("\n".join(lines[at + 1 : end])).strip("\n"))
    return [block for block in found if _is_python(block)]


def _is_python(text: str) -> bool:
    try:
        return bool(ast.parse(text).body)
    except SyntaxError:
        return False


def on_the_engine(source: str) -> str:
    return re.sub(r"^(import .*)\btorch\.fx\b", r"\1fxengine", source, flags=re.MULTILINE).replace(
        "torch.fx", "fxengine"
    )


def run(parts: list[str], *, ours: bool) -> list[str]:
    """What each part prints, and how it ends."""
    namespace = vars(ModuleType("__main__"))
    torch.manual_seed(0)
    outcome: list[str] = []
    for part in parts:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            try:
                exec(compile(on_the_engine(part) if ours else part, "example", "exec"), namespace)
                end = "done"
            except Exception as error:  # noqa: BLE001 - whatever an example raises is compared.
                end = f"{type(error).__name__}: {error}"
        outcome.append(re.sub("0x[0-9a-f]+", "0x", neutral(f"{printed.getvalue()}{end}")))
    return outcome


DOCUMENTED = dict(documented())


@pytest.mark.parametrize("name", DOCUMENTED)
def test_documentation_of_torch_fx(name: str) -> None:
    parts = [PRELUDE, *blocks(DOCUMENTED[name])]
    expected = run(parts, ours=False)
    assert expected[0] == "done"
    assert run(parts, ours=True) == expected


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts(name: str) -> None:
    script = [textwrap.dedent(SCRIPTS[name])]
    expected = run(script, ours=False)
    assert expected[0].endswith("done")
    assert run(script, ours=True) == expected

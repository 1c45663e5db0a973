"""``torch.compile`` and everybody else who looks at a graph module's class find there what torch.fx's has.

Our ``forward`` is compiled when it is first asked for; nobody must be able to tell.
"""

import inspect
import operator
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch._dynamo
import torch.fx

import fxengine
from fxengine.source_cache import CompiledOnDemand

X = torch.randn(2, 4)


class Scaled(torch.nn.Module):
    """Multiplies what a layer gives."""

    def __init__(self, factor: int = 2) -> None:
        super().__init__()
        self.factor = factor
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layer(x)) * self.factor


class Calling(torch.nn.Module):
    """Calls a module."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) + 1


class CallingForward(Calling):
    """Calls a module's ``forward``."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner.forward(x) + 1


@pytest.fixture(params=[torch.fx, fxengine], ids=["torch.fx", "fxengine"])
def library(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(autouse=True)
def _forgetful() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(function: Any, backend: Any = "eager") -> Any:
    return torch.compile(function, backend=backend, fullgraph=True)


def multiply_no_more(module: Any) -> None:
    for node in module.graph.nodes:
        if node.target is operator.mul:
            node.target = operator.add
    module.recompile()


def test_each_of_many_modules_is_compiled(library: Any) -> None:
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, _: list[torch.Tensor]) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    for factor in range(10):
        module = library.symbolic_trace(Scaled(factor))
        torch.testing.assert_close(compiled(module, backend)(X), module(X))
    assert len(graphs) == 10


@pytest.mark.parametrize("outer", [Calling, CallingForward])
def test_a_module_in_a_module_is_compiled_before_it_was_ever_called(library: Any, outer: type[Calling]) -> None:
    module = outer(library.symbolic_trace(Scaled()))
    torch.testing.assert_close(compiled(module)(X), module(X))


def test_modules_in_a_closure_are_compiled(library: Any) -> None:
    first, second = library.symbolic_trace(Scaled(2)), library.symbolic_trace(Scaled(3))
    torch.testing.assert_close(compiled(lambda x: first(second.forward(x)))(X), first(second(X)))


@pytest.mark.parametrize("wrap", [lambda module: module, Calling], ids=["alone", "inside"])
def test_after_an_edit_the_new_code_runs(wrap: Callable[[Any], Any]) -> None:
    module = fxengine.symbolic_trace(Scaled())
    outer = wrap(module)
    run = compiled(outer)
    before = run(X)
    multiply_no_more(module)
    torch.testing.assert_close(run(X), outer(X))
    assert not torch.equal(run(X), before)


def test_exported(library: Any) -> None:
    module = library.symbolic_trace(Scaled())
    torch.testing.assert_close(torch.export.export(module, (X,), strict=True).module()(X), module(X))


def test_the_stand_in_passes_for_the_function(library: Any) -> None:
    module = library.symbolic_trace(Scaled())
    forward = vars(type(module))["forward"]
    assert isinstance(forward, types.FunctionType)
    assert inspect.isfunction(forward)
    assert forward.__code__.co_varnames[:2] == ("self", "x")
    assert inspect.getsource(forward).strip() == module.code.strip()
    assert str(inspect.signature(forward)) == "(self, x: torch.Tensor) -> torch.Tensor"
    assert isinstance(vars(type(module))["forward"], types.FunctionType)


def test_a_module_that_is_not_called_is_not_compiled() -> None:
    module = fxengine.symbolic_trace(Scaled())
    assert type(vars(type(module))["forward"]) is CompiledOnDemand
    module(X)
    assert type(vars(type(module))["forward"]) is types.FunctionType
    module.recompile()
    assert type(vars(type(module))["forward"]) is CompiledOnDemand


@torch.fx.wrap
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def test_what_is_wrapped_stays_wrapped_before_the_first_call(library: Any) -> None:
    module = library.symbolic_trace(lambda x: doubled(x) + 1)
    again = library.symbolic_trace(Calling(module))
    assert [node.name for node in again.graph.nodes if node.target is doubled] == ["doubled"]


def test_an_error_in_generated_code_shows_its_line(library: Any, capsys: pytest.CaptureFixture[str]) -> None:
    module = library.symbolic_trace(lambda x, y: torch.relu(x) + y)
    with pytest.raises(TypeError):
        module(X, "no tensor")
    assert "<--- HERE" in capsys.readouterr().err


def test_the_call_of_each_class_has_code_of_its_own() -> None:
    first, second = fxengine.symbolic_trace(Scaled()), fxengine.symbolic_trace(Scaled())
    assert type(first).__call__.__code__ is not type(second).__call__.__code__

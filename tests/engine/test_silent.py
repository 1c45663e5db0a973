"""Silent errors: what is found, what is left alone, what looking leaves behind. See also tests/fixtures/silent."""

import ast
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import fxengine
from fxengine import diagnose
from fxengine.diagnosis import TracingProblem
from fxengine.silent.reading import UNKNOWN, Worth, definition_behind


def silent(root: Any, **options: Any) -> list[TracingProblem]:
    return list(diagnose(root, **options).silent)


def codes(root: Any, **options: Any) -> list[str]:
    return [problem.code for problem in silent(root, **options)]


class Dropping(nn.Module):
    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.dropout(x, self.p, self.training)


class Stack(nn.Module):
    def __init__(self, *rates: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Dropping(p) for p in rates)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def test_one_place_in_several_modules_is_one_problem_that_names_them() -> None:
    (problem,) = silent(Stack(0.1, 0.2).eval())
    assert (problem.code, problem.instances) == ("FX301", ("layers.0", "layers.1"))
    assert problem.value == "False"
    assert problem.site is not None
    assert problem.site.text == "self.training"


def test_what_drops_nothing_is_left_alone() -> None:
    assert codes(Stack(0.0, 0.0)) == []


def test_a_place_outside_of_the_users_files_is_milder_and_shown_at_the_call() -> None:
    assert codes(Stack(0.5), user_paths=("/nowhere.py",)) == []
    (problem,) = silent(Stack(0.5), user_paths=(__file__,))
    assert problem.severity == "warning"


@pytest.mark.parametrize("training", [True, False])
def test_repetitions_leave_nothing_behind(training: bool) -> None:
    model = Stack(0.5).train(training)
    torch.manual_seed(3)
    random.seed(3)
    expected = torch.rand(1), random.random()
    torch.manual_seed(3)
    random.seed(3)
    assert codes(model) == ["FX301"]
    assert (torch.rand(1), random.random()) == expected
    assert "training" not in vars(nn.Module)
    assert all(module.training is training for module in model.modules())


def test_graph_and_tracer_are_those_of_the_run_that_is_returned() -> None:
    tracer = fxengine.Tracer()
    diagnosis = diagnose(Noise(), tracer=tracer)
    assert [problem.code for problem in diagnosis.silent] == ["FX303"]
    assert tracer.graph is diagnosis.graph
    graph = fxengine.GraphModule(diagnosis.root, diagnosis.graph)
    x = torch.zeros(3)
    assert torch.equal(graph(x), graph(x))


class Noise(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand(3) * 2


def test_a_size_that_follows_from_a_fixed_input_through_a_helper() -> None:
    def positions(count: int) -> torch.Tensor:
        size = count + 1
        return torch.arange(size)

    class Net(nn.Module):
        def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
            return x + positions(n)

    found = {problem.code: problem for problem in silent(Net(), concrete_args={"n": 4})}
    assert found.keys() == {"FX302", "FX306"}
    assert [step.text for step in found["FX302"].provenance] == ["n", "torch.arange(size)"]


def test_an_input_is_not_called_unused_where_the_graph_is_not_the_whole_model() -> None:
    def f(x: Any, y: Any) -> Any:
        if x > 0:
            return x
        return y

    assert codes(f) == []


def test_what_saves_work_is_no_state() -> None:
    class Cached(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.ones(3))
            self.cache: dict[str, Any] = {}

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if "bias" not in self.cache:
                self.cache["bias"] = self.bias * 2
            return x + self.cache["bias"]

    class Remembering(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mean: Any = None

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.mean is None:
                self.mean = x.mean()
            return x - self.mean

    assert codes(Cached()) == []
    assert codes(Remembering()) == ["FX308"]


def test_what_is_assigned_and_looked_at_by_nobody_is_a_hint() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen = x
            return x + 1

    (problem,) = silent(Net())
    assert (problem.code, problem.severity) == ("FX307", "hint")
    assert not hasattr(Net(), "seen")


OPTIONS = {
    "self.p == 0.0": True,
    "self.p > 0.0": False,
    "not self.p": True,
    "self.other or True": True,
    "self.other and False": False,
    "self.layer is None": True,
    "self.config.depth": 3,
    "3 if self.other else 3": 3,
    "self.p if self.layer is None else 1": 0.0,
    "self.other": UNKNOWN,
    "self.method()": UNKNOWN,
    "self.asked": UNKNOWN,
    "other.p": UNKNOWN,
    "self.other or self.p": UNKNOWN,
    "self.p < 'a'": UNKNOWN,
    "-self.config.depth": -3,
}


class Options(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p = 0.0
        self.layer = None
        self.config = SimpleNamespace(depth=3)

    @property
    def asked(self) -> int:
        raise AssertionError("nothing of the user's is to run")


@pytest.mark.parametrize("text", OPTIONS)
def test_what_an_expression_is_worth_on_a_module(text: str) -> None:
    assert Worth(Options(), "self").of(ast.parse(text, mode="eval").body) == OPTIONS[text]


def test_a_function_is_parsed_alone_as_it_would_be_in_its_file() -> None:
    definition = definition_behind(Options.asked.fget.__code__)  # type: ignore[union-attr]
    assert definition is not None
    whole = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    same = next(node for node in ast.walk(whole) if isinstance(node, ast.FunctionDef) and node.name == "asked")
    assert ast.dump(definition, include_attributes=True) == ast.dump(same, include_attributes=True)


class Forgotten(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> None:
        self.fc(x.relu())


def test_a_result_without_a_name_that_is_not_returned_is_told_once_as_a_warning() -> None:
    (problem,) = diagnose(Forgotten()).silent
    assert (problem.code, problem.severity) == ("FX305", "warning")

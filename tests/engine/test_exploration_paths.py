"""`diagnose` goes on after a refusal, in every way the model can go, and says nothing that torch.fx would not."""

import contextlib
import itertools
from typing import Any

import pytest
import torch
from torch import nn

import fxengine
from fxengine import Diagnosis, diagnose
from fxengine.exploration import Budget
from tests.engine.test_capture_diagnosis import diagnosis_of


def told(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """The problems of a diagnosis, by code and expression."""
    return [(each.code, each.site.text if each.site is not None else "") for each in diagnosis.problems]


def sites(source: str) -> list[tuple[str, str]]:
    return told(diagnosis_of(source))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("if x > 0: y = len(x)\nelse: y = [*x]", ["FX001 x > 0", "FX003 x", "FX002 len(x)"]),
        ("if x > 0: x[0] = 1\nif y > 0: del x[0]", ["FX001 x > 0", "FX001 y > 0", "FX005 x[0]", "FX005 x[0]"]),
        ("z = x or y\nz = y and flag", ["FX001 x", "FX001 y"]),
        ("y = 0 < x < 3", ["FX001 0 < x"]),
        ("if 0 < x.sum() < 3: pass", ["FX001 0 < x.sum()", "FX001 x.sum() < 3"]),
        ("if helper(x) and flag: pass", ["FX001 helper(x)", "FX001 flag"]),
        ("y = torch.zeros(x.size(0), 3)\nif y > x: pass", ["FX006 torch.zeros(x.size(0), 3)", "FX001 y > x"]),
        ("x[0] = nn.Linear(2, 2)(x)\nif flag: pass", ["FX007 nn.Linear(2, 2)(x)", "FX005 x[0]", "FX001 flag"]),
    ],
)
def test_what_comes_after_a_problem_is_found_too(source: str, expected: list[str]) -> None:
    assert [" ".join(each) for each in sites(source)] == expected


@pytest.mark.parametrize(
    "source",
    [
        "if x.ndim != 2: raise ValueError('two dimensions')",
        "if not x.ndim == 2: raise ValueError(f'not {x.shape}')",
        "if x.ndim == 2:\n    return y\nraise ValueError('two dimensions')",
        "assert x.ndim == 2, 'two dimensions'",
        "if x.ndim == 2: z = 1\nelse: raise TypeError",
        "if x.ndim not in (2, 3): raise ValueError",
        "if flag: z = x\ny = z if flag else y",
        "outs = [o for o in (x, y) if o.sum() > 0]\ny = torch.stack(outs)",
    ],
)
def test_what_only_a_wrong_answer_leads_to_is_no_problem(source: str) -> None:
    assert {code for code, _ in sites(source)} == {"FX001"}


@pytest.mark.parametrize(
    "source",
    [
        "hs = () if flag else None\nfor i in range(3):\n    if flag: hs += (x,)",
        "hs = () if flag.on else None\nif y: z = 1\nif flag.on: hs += (x,)",
        "if not flag: z = x\nif not flag: y = z",
        "assert flag\nif flag: z = x\ny = z",
    ],
)
def test_the_same_value_has_the_same_truth(source: str) -> None:
    assert {code for code, _ in sites(source)} == {"FX001"}


def test_what_lies_behind_two_conditions_on_one_value_is_found() -> None:
    assert sites("if flag: z = 1\nif y: return y\nif not flag: return len(x)\nif flag: return len(y)") == [
        ("FX001", "flag"),
        ("FX001", "y"),
        ("FX001", "flag"),
        ("FX002", "len(x)"),
        ("FX001", "flag"),
        ("FX002", "len(y)"),
    ]


def test_an_operator_on_no_symbolic_value_wants_no_number_of_one() -> None:
    assert sites("hs = None\nhs += (x,)") == [("FX009", "hs += (x,)")]


def test_what_lies_behind_a_daring_answer_is_found_without_it() -> None:
    assert sites("z = y > 1\nif y: z = None\nif x > 1: y = 1 // 0\nif z is None: y = len(x)") == [
        ("FX001", "y"),
        ("FX001", "x > 1"),
        ("FX002", "len(x)"),
    ]


def test_a_foreign_call_is_found_though_on_another_path_it_is_given_what_may_be_anything() -> None:
    first, second = "re.sub('a', 'b', x)", "re.sub('c', 'd', x)"
    assert sites(f"import re\nif flag: x = {first}\nif y: x = {second}") == [
        ("FX001", "flag"),
        ("FX001", "y"),
        ("FX006", first),
        ("FX006", second),
    ]


def test_what_torch_raises_after_a_wrong_answer_is_no_problem() -> None:
    found = diagnose(nn.LSTM(4, 4).eval(), budget=Budget(seconds=60))
    assert {"FX006", "FX009"}.isdisjoint(each.code for each in found.problems)


def test_a_parameter_from_elsewhere_stays_a_stranger() -> None:
    stray = nn.Parameter(torch.ones(2))

    class Strange(nn.Module):
        def forward(self, x: Any) -> Any:
            return x + stray

    model = Strange()
    for _ in range(2):
        found = diagnose(model)
        assert told(found) == [("FX007", "x + stray")]
        assert not list(model.parameters())
        assert torch.equal(fxengine.GraphModule(found.root, found.graph)(torch.ones(2)), 2 * torch.ones(2))


@pytest.mark.parametrize(
    ("values", "names"), [((True, 2), ["x", "y"]), ((fxengine.PH, 2), ["y"]), ((True,), []), ((), [])]
)
def test_concrete_arguments_in_order(values: tuple[Any, ...], names: list[str]) -> None:
    found = diagnose(lambda x, y: (x, y), concrete_args=values)
    assert [guard.expression for guard in found.guards] == names
    assert [each.code for each in found.silent] == ["FX306"] * len(names)
    assert [each.code for each in found.problems] == ([] if len(values) == 2 else ["FX009"])


def test_an_exception_is_a_problem_if_every_path_ends_in_one() -> None:
    assert sites("if flag: raise ValueError\nelse: raise TypeError") == [
        ("FX001", "flag"),
        ("FX009", "raise TypeError"),
    ]


@pytest.mark.parametrize(
    "source",
    [
        "while x.sum() > 0: x = x - 1",
        "while True:\n    x = x / 2\n    if x.sum() < 1: break",
        "while not x.any(): x = x + y",
        "while True:\n    x = x / 2\n    if helper(x): return x",
    ],
)
def test_a_loop_on_a_tensor_ends(source: str) -> None:
    diagnosis = diagnosis_of(source)
    assert [each.code for each in diagnosis.problems] == ["FX001"]
    assert diagnosis.reached_end
    assert not diagnosis.cut


class Gate(nn.Module):
    def __init__(self, limit: float) -> None:
        super().__init__()
        self.limit = limit
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > self.limit:
            return self.fc(x)
        return x * len(x)


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.ModuleList(Gate(limit) for limit in range(10))
        self.seen: list[int] = []
        self.calls = 0
        self.cache: dict[str, Any] = {}
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.seen.append(1)
        self.cache["x"] = x
        self.made = torch.ones(2)
        for gate in self.gates:
            x = gate(x)
        return x


def test_one_problem_names_all_instances_that_reach_it() -> None:
    found = {each.code: each for each in diagnose(Stack()).problems}
    assert found["FX001"].instances == tuple(f"gates.{index}" for index in range(10))
    assert found["FX001"].module_path == "gates.0"
    assert found["FX002"].instances[0].startswith("gates.")


def test_a_submodule_that_fails_becomes_a_call_and_its_parent_goes_on() -> None:
    diagnosis = diagnose(Stack())
    assert diagnosis.reached_end
    assert not diagnosis.captured
    diagnosis.graph.lint()
    assert {node.target for node in diagnosis.stand_ins} <= {f"gates.{index}" for index in range(10)}
    assert diagnosis.stand_ins


def test_nothing_is_left_in_the_module() -> None:
    model = Stack()
    diagnose(model)
    assert (model.calls, model.seen, model.cache) == (0, [], {})
    assert not hasattr(model, "made")


def test_the_random_generators_are_where_they_were() -> None:
    class Noisy(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.rand(1) if x.sum() > 0 else x - torch.rand(1)

    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    diagnosis = diagnose(Noisy())
    assert torch.equal(torch.rand(1), expected)
    # What the graph refers to stays.
    fxengine.GraphModule(diagnosis.root, diagnosis.graph)(torch.ones(2))


def test_a_tracer_of_ones_own_is_steered_and_left_as_it_was() -> None:
    class Own(fxengine.Tracer):
        def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
            return module_qualified_name == "gates.3" or super().is_leaf_module(m, module_qualified_name)

    tracer = Own()
    diagnosis = diagnose(Stack(), tracer=tracer)
    assert "gates.3" not in diagnosis.problems[0].instances
    assert "refuse" not in vars(tracer)
    assert tracer.graph is diagnosis.graph


def test_the_budget_is_kept_and_the_diagnosis_says_so() -> None:
    body = "\n".join(f"if x.sum() > {index}:\n    if x.max() > {index}: y = y + 1" for index in range(8))
    assert "more than 3" in diagnosis_cut(body, Budget(runs=3))
    assert "0 s" in diagnosis_cut(body, Budget(seconds=0.0))
    assert diagnosis_cut(body, Budget(seconds=60.0)) == ""


def diagnosis_cut(body: str, budget: Budget) -> str:
    namespace: dict[str, Any] = {}
    text = "".join(f"    {line}\n" for line in body.splitlines())
    exec(f"def f(x, y):\n{text}    return y\n", namespace)
    return diagnose(namespace["f"], budget=budget).cut


def swallowing(x: Any) -> Any:
    with contextlib.suppress(ValueError):
        if x > 0:
            return x
    return -x


def handed_on(x: Any) -> Any:
    try:
        if x > 0:
            return x
    except fxengine.TraceError:  # noqa: TRY203 - that is what is tried.
        raise
    return -x


def turned_into_another(x: Any) -> Any:
    try:
        if x > 0:
            x = x + 1
    except fxengine.TraceError as error:
        raise RuntimeError("no") from error
    return len(x)


def caught_further_out(x: Any) -> Any:
    try:
        return handed_on(x)
    except (KeyError, TypeError):
        return x
    except Exception:  # noqa: BLE001
        return x


def not_that_type(x: Any) -> Any:
    try:
        if x > 0:
            return x
    except (KeyError, TypeError):
        pass
    return -x


@pytest.mark.parametrize(
    ("function", "problems", "silent"),
    [
        (swallowing, [], [("FX309", "x > 0")]),
        (handed_on, [("FX001", "x > 0")], []),
        (turned_into_another, [("FX009", 'raise RuntimeError("no") from error'), ("FX002", "len(x)")], []),
        (caught_further_out, [], [("FX309", "x > 0")]),
        (not_that_type, [("FX001", "x > 0")], []),
    ],
)
def test_the_users_own_handlers_have_their_say(
    function: Any, problems: list[tuple[str, str]], silent: list[tuple[str, str]]
) -> None:
    diagnosis = diagnose(function)
    assert told(diagnosis) == problems
    assert [(e.code, e.site.text) for e in diagnosis.silent if e.code == "FX309" and e.site is not None] == silent


def test_a_clean_model_is_traced_once() -> None:
    count = itertools.count()

    class Counting(fxengine.Tracer):
        def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
            next(count)
            return super().call_module(m, forward, args, kwargs)

    assert diagnose(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), tracer=Counting()).complete
    assert next(count) == 2


class Unbound(nn.Module):
    def forward(self, x):
        if x is None:
            out = x
        tmp = x + 1
        other = tmp
        add = out
        return add, other


def test_a_variable_without_a_value_is_found_where_it_is_read_however_often_the_code_has_run():
    for _ in range(3):
        for _ in range(8):
            with pytest.raises(UnboundLocalError):
                Unbound()(torch.ones(1))
        (problem,) = diagnose(Unbound()).problems
        assert problem.site.text == "out"

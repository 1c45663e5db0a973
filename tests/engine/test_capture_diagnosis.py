"""`diagnose` puts each problem on the exact expression, and says what it is, why, and what mends it."""

import functools
import linecache
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import fxengine
from fxengine import Diagnosis, TracingProblem, diagnose
from fxengine.errors import RULES

PRELUDE = """\
import math, operator, torch
import numpy as np
import torch.nn.functional as F
from torch import nn
def helper(x):
    return x.shape[0] == 3
class Plain: pass
def f(x, y, flag, *args, **kwargs):
"""


def problem_of(source: str) -> TracingProblem:
    """The first problem of a function with this body."""
    return diagnosis_of(source).problems[0]


def diagnosis_of(source: str) -> Diagnosis:
    body = "".join(f"    {line}\n" for line in source.splitlines())
    text = f"{PRELUDE}{body}    return x\n"
    path = f"<{source}>"
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    namespace: dict[str, Any] = {}
    exec(compile(text, path, "exec"), namespace)
    return diagnose(namespace["f"])


@pytest.mark.parametrize(
    ("source", "code", "site"),
    [
        ("if x > 0: pass", "FX001", "x > 0"),
        ("if not x: pass", "FX001", "x"),
        ("if not x.any(): pass", "FX001", "x.any()"),
        ("if flag and not x.any(): pass", "FX001", "flag"),
        ("if 1 and not x.any(): pass", "FX001", "x.any()"),
        ("if math.pi > 3 and x.sum() > 0: pass", "FX001", "x.sum() > 0"),
        ("if x.a or x.b: pass", "FX001", "x.a"),
        ("if 0: pass\nelif x: pass", "FX001", "x"),
        ("while x.sum() > 0: x = x - 1", "FX001", "x.sum() > 0"),
        ("while not x: pass", "FX001", "x"),
        ("assert x", "FX001", "x"),
        ("assert not x, 'no'", "FX001", "x"),
        ("assert x.shape[0] == 3, 'no'", "FX001", "x.shape[0] == 3"),
        ("y = 1 if x else 2", "FX001", "x"),
        ("y = 1 if not x else 2", "FX001", "x"),
        ("y = x and y", "FX001", "x"),
        ("y = flag or x", "FX001", "flag"),
        ("y = not x", "FX001", "x"),
        ("y = 0 < x < 3", "FX001", "0 < x"),
        ("y = 0 < 1 < x < 3", "FX001", "1 < x"),
        ("if 0 < x.sum() < 3: pass", "FX001", "0 < x.sum()"),
        ("y = bool(x)", "FX001", "bool(x)"),
        ("y = max(x, 3)", "FX001", "max(x, 3)"),
        ("y = 3 in [x]", "FX001", "3 in [x]"),
        ("y = x in (1, 2)", "FX001", "x in (1, 2)"),
        ("y = [a for a in (1, 2) if x]", "FX001", "x"),
        ("y = [a for a in (1, 2) if not x > a]", "FX001", "x > a"),
        ("y = {a: a for a in (1, 2) if x}", "FX001", "x"),
        ("y = list(a for a in (1, 2) if x)", "FX001", "x"),
        ("y = any(a for a in [x])", "FX001", "any(a for a in [x])"),
        ("y = sorted([x, y])", "FX001", "sorted([x, y])"),
        ("match 3:\n    case _ if x: pass", "FX001", "x"),
        ("match x:\n    case 1: pass", "FX001", "1"),
        ("if helper(x): pass", "FX001", "helper(x)"),
        ("if (\n    x.shape[0]\n    == 3\n): pass", "FX001", "x.shape[0]\n        == 3"),
        ("y = len(x)", "FX002", "len(x)"),
        ("y = len(x.shape) == 3", "FX002", "len(x.shape)"),
        ("y = reversed(x)", "FX002", "reversed(x)"),
        ("for a in x: pass", "FX003", "x"),
        ("for a in x.shape[2:]: pass", "FX003", "x.shape[2:]"),
        ("for a in x.unbind(0): pass", "FX003", "x.unbind(0)"),
        ("for a in torch.cat([x, y], dim=0): pass", "FX003", "torch.cat([x, y], dim=0)"),
        ("y = [a for a in x.split(2, 0)]", "FX003", "x.split(2, 0)"),
        ("for i, a in enumerate(x): pass", "FX003", "x"),
        ("for a, b in zip([1], y): pass", "FX003", "y"),
        ("y = [*x.shape]", "FX003", "x.shape"),
        ("y = (1, *x.shape[:-1], 2)", "FX003", "x.shape[:-1]"),
        ("y = {*x}", "FX003", "x"),
        ("y = {**kwargs}", "FX003", "kwargs"),
        ("y = torch.relu(*x)", "FX003", "x"),
        ("y = helper(1, *y, **kwargs)", "FX003", "y"),
        ("y = helper(**kwargs)", "FX003", "kwargs"),
        ("for a in args: pass", "FX003", "args"),
        ("a, *b = x", "FX003", "x"),
        ("y = [a for a in x]", "FX003", "x"),
        ("y = [a for a in [1] for b in x]", "FX003", "x"),
        ("y = list(x)", "FX003", "x"),
        ("y = tuple(x.shape)", "FX003", "x.shape"),
        ("y = list(zip(x, y))", "FX003", "x"),
        ("y = 3 in x", "FX003", "x"),
        ("y = sum(x)", "FX003", "x"),
        ("y = list(map(abs, x))", "FX003", "x"),
        ("y = range(x.shape[0])", "FX004", "range(x.shape[0])"),
        ("for i in range(2, x.size(1)): pass", "FX004", "range(2, x.size(1))"),
        ("y = int(x)", "FX004", "int(x)"),
        ("y = float(x.sum())", "FX004", "float(x.sum())"),
        ("y = round(x)", "FX004", "round(x)"),
        ("y = [1, 2][x]", "FX004", "[1, 2][x]"),
        ("y = [1, 2][:x]", "FX004", "[1, 2][:x]"),
        ("y = torch.arange(8)[: x.shape[0]]", "FX004", "torch.arange(8)[: x.shape[0]]"),
        ("y = '%d' % x", "FX004", "'%d' % x"),
        ("y = f'{x:.2f}'", "FX004", "x"),
        ("y = divmod(x, 2)", "FX004", "divmod(x, 2)"),
        ("y = operator.index(x)", "FX004", "operator.index(x)"),
        ("x[0] = 1", "FX005", "x[0]"),
        ("x[y > 0, :] = y", "FX005", "x[y > 0, :]"),
        ("x[0] += 1", "FX005", "x[0]"),
        ("del x[0]", "FX005", "x[0]"),
        ("x[:, 1:] = x[:, :-1]", "FX005", "x[:, 1:]"),
        ("y = torch.tensor(x)", "FX006", "torch.tensor(x)"),
        ("y = torch.as_tensor(x)", "FX006", "torch.as_tensor(x)"),
        ("y = torch.empty(x.size(0), 3)", "FX006", "torch.empty(x.size(0), 3)"),
        ("y = torch.Size([x])", "FX006", "torch.Size([x])"),
        ("y = np.sqrt(x)", "FX006", "np.sqrt(x)"),
        ("y = {1: 2}[x]", "FX006", "{1: 2}[x]"),
        ("y = getattr(x, y)", "FX006", "getattr(x, y)"),
        ("with x: pass", "FX006", "x"),
        ("y = torch.cond(x, lambda a: a, lambda a: a, (y,))", "FX006", None),
        ("y = nn.Linear(2, 2)(x)", "FX007", "nn.Linear(2, 2)(x)"),
        ("y = x + nn.Parameter(torch.ones(2))", "FX007", "x + nn.Parameter(torch.ones(2))"),
        ("y = x + Plain()", "FX008", "x + Plain()"),
        ("y = x.foo({1, 2})", "FX008", "x.foo({1, 2})"),
        ("y = x.foo({x: 1})", "FX008", "x.foo({x: 1})"),
        ("return Plain()", "FX008", None),
        ("raise ValueError('no')", "FX009", "raise ValueError('no')"),
        ("raise ValueError(f'{x} is a Proxy')", "FX009", "raise ValueError(f'{x} is a Proxy')"),
        ("y = torch.add(x, Plain())", "FX009", "torch.add(x, Plain())"),
        ("y = None.attribute", "FX009", "None.attribute"),
        ("y = undefined", "FX009", "undefined"),
        ("y = Plain(x)", "FX009", "Plain(x)"),
        ("y = 1 / 0", "FX009", "1 / 0"),
        ("raise SystemExit(3)", "FX009", "raise SystemExit(3)"),
        ("raise KeyboardInterrupt", "FX009", "raise KeyboardInterrupt"),
    ],
)
def test_code_and_site(source: str, code: str, site: str | None) -> None:
    problem = problem_of(source)
    assert problem.code == code
    assert problem.site is not None
    if site is not None:
        assert problem.site.text == site
    assert problem.message == str(problem.exception)


@pytest.mark.parametrize(
    ("source", "kind", "way"),
    [
        ("if x.shape[0] == 3: pass", "metadata", "x → x.shape → x.shape[0] → x.shape[0] == 3"),
        ("b, c = x.shape\nif b // 2 > 4: pass", "metadata", "x → x.shape → b → b // 2 → b // 2 > 4"),
        ("if x.device.type == 'cuda': pass", "metadata", None),
        ("if x.relu().sum() > 0: pass", "data-dependent", "x → x.relu() → x.relu().sum() → x.relu().sum() > 0"),
        ("if torch.is_floating_point(x): pass", "metadata", None),
        ("if math.sqrt(x.size(0)) > 3: pass", "metadata", None),
        ("if flag: pass", "", "flag"),
        ("if flag == 'sum': pass", "", "flag → flag == 'sum'"),
        ("for a in x.shape: pass", "metadata", "x → x.shape"),
        ("for a in x: pass", "", "x"),
        ("y = F.relu(x)\nif y > x.shape[0]: pass", "data-dependent", None),
        ("if len(x.shape) == 3: pass", "metadata", "x → x.shape"),
        ("y = torch.arange(8)[: x.shape[0]]", "metadata", "x → x.shape → x.shape[0]"),
    ],
)
def test_kind_and_provenance(source: str, kind: str, way: str | None) -> None:
    problem = problem_of(source)
    assert problem.kind == kind
    if way is not None:
        assert " → ".join(step.text for step in problem.provenance) == way


@pytest.mark.parametrize(
    ("source", "headline"),
    [
        ("if x.sum() > 0: pass", "`x.sum() > 0` decides a branch, but its value is only known when data flows"),
        ("if x.shape[0] > 1: pass", "`x.shape[0] > 1` decides a branch, but torch.fx traces without shapes"),
        ("if x.dtype == 3: pass", "`x.dtype == 3` decides a branch, but torch.fx traces without dtypes"),
        ("if flag: pass", "`flag` decides a branch, but the input `flag` has no value while tracing"),
        (
            "while x.any(): pass",
            "`x.any()` decides whether the loop goes on, but its value is only known when data flows",
        ),
        ("if x.any(): pass", "`x.any()` decides a branch, but its value is only known when data flows"),
        (
            "y = max(x, 3)",
            "`max(x, 3)` needs the truth value of something symbolic, but the input `x` has no value while tracing",
        ),
        ("assert x.ndim == 3", "`x.ndim == 3` is asserted, but torch.fx traces without shapes"),
        ("for a in x: pass", "`x` is iterated, but how many items it has is not known while tracing"),
        ("y = 'k' in flag", "`in` searches `flag`, but how many items it has is not known while tracing"),
        ("for a in args: pass", "`args` is unpacked, but `*args` is one symbolic value while tracing"),
        (
            "y = range(x.size(0))",
            "`range(x.size(0))` needs a number, but `x.size(0)` is symbolic: torch.fx traces without shapes",
        ),
        ("x[0] = 1", "`x[0]` is assigned, but a symbolic value cannot be changed in place"),
        ("y = np.sqrt(x)", "`np.sqrt(x)` cannot take the symbolic value `x`"),
        ("y = nn.Linear(2, 2)(x)", "`nn.Linear(2, 2)(x)` uses a module that is not registered in the model"),
        ("raise ValueError('no')", "ValueError: no"),
        ("y = zip([x], None)", "TypeError: 'NoneType' object is not iterable"),
    ],
)
def test_headline(source: str, headline: str) -> None:
    assert problem_of(source).headline == headline


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("assert x.ndim == 3", "torch._assert(x.ndim == 3, message)"),
        ("if flag: pass", 'concrete_args={"flag": …}'),
        ("if x.sum() > 0: pass", "torch.where(x.sum() > 0, a, b)"),
        ("if x.sum() > 0: raise ValueError", "torch._assert(torch.logical_not(x.sum() > 0), message)"),
        ("if x.sum() > 0 or flag: raise ValueError", "torch.where(x.sum() > 0, a, b)"),
        ("y = len(x)", "`x.shape[0]`"),
        ("for a in args: pass", "in place of `*args`"),
        ("for a in x: pass", "index: `x[i]`"),
        ("y = 'k' in flag", 'concrete_args={"flag": …}'),
        ("y = torch.empty(x.size(0), 3)", "`x.new_empty(…)`"),
        ("y = nn.Linear(2, 2)(x)", "create it in `__init__`"),
    ],
)
def test_the_best_hint_comes_first(source: str, hint: str) -> None:
    assert hint in problem_of(source).hints[0]


def test_a_list_that_is_an_input_may_be_given_with_its_length() -> None:
    assert 'concrete_args={"x": [PH, PH, …]}' in problem_of("for a in x: pass").hints[1]
    assert not any("PH" in hint for hint in problem_of("for a in x.unbind(0): pass").hints)


class Router(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        score = self.gate(x)
        if score.max() > 0:
            return x
        return -x


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(4, 4)
        self.router = Router()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.router(self.stem(x))


def test_frames_lead_from_the_root_to_the_site() -> None:
    (problem,) = diagnose(Model()).problems
    assert [frame.function for frame in problem.frames] == ["Model.forward", "Router.forward"]
    assert problem.frames[0].text == "self.router(self.stem(x))"
    assert (problem.module_path, problem.module_type) == ("router", Router)


def test_the_graph_is_valid_as_far_as_it_came() -> None:
    diagnosis = diagnose(Model())
    assert not diagnosis.complete
    diagnosis.graph.lint()
    assert [node.name for node in diagnosis.graph.nodes] == [
        "x",
        "stem",
        "router_gate",
        "max_1",
        "gt",
        "neg",
        "output",
    ]
    assert (diagnosis.reached_end, diagnosis.captured) == (True, False)
    module = fxengine.GraphModule(diagnosis.root, diagnosis.graph)
    assert torch.equal(module(torch.ones(2, 4)), -diagnosis.root.stem(torch.ones(2, 4)))


def test_what_traces_has_no_problems() -> None:
    diagnosis = diagnose(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    assert diagnosis.complete
    assert diagnosis.problems == ()
    assert [node.op for node in diagnosis.graph.nodes][-1] == "output"


def test_the_anchor_is_in_the_users_own_files() -> None:
    (problem,) = diagnose(Model(), user_paths={__file__}).problems
    assert problem.anchor == problem.site
    (problem,) = diagnose(Model(), user_paths={"elsewhere.py"}).problems
    assert problem.anchor is None


def test_a_problem_inside_torch_is_at_the_users_call() -> None:
    def f(x: torch.Tensor) -> Any:
        return nn.utils.rnn.unpad_sequence(x, lengths=x)

    (problem,) = diagnose(f).problems
    assert (problem.code, problem.site and problem.site.text) == (
        "FX003",
        "nn.utils.rnn.unpad_sequence(x, lengths=x)",
    )


def test_a_model_of_torchs_own_has_frames_too() -> None:
    problem, *_ = diagnose(nn.MultiheadAttention(4, 2)).problems
    assert problem.code == "FX001"
    assert problem.site is not None
    assert problem.site.path.endswith("activation.py")


def hiding(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(self: Any, **kwargs: Any) -> Any:
        return function(self, **kwargs)

    return wrapper


class Endless(nn.Module):
    def forward(self, x):
        return self(x) + 1


def test_a_model_that_calls_itself_without_end_is_no_foreign_call():
    problem = diagnose(Endless()).problems[0]
    assert isinstance(problem.exception, RecursionError)
    assert (problem.code, problem.site and problem.site.text) == ("FX009", "self(x)")


class Hidden(nn.Module):
    @hiding
    def forward(self, x: torch.Tensor, y: torch.Tensor, z: int, **options: Any) -> torch.Tensor:
        return x + y


def test_a_failure_without_any_frame_is_at_the_definition() -> None:
    (problem,) = diagnose(Hidden()).problems
    assert problem.message == "code: co_varnames is too small"
    assert problem.site is not None
    assert (problem.site.path, problem.site.text) == (__file__, "def forward")
    assert "decorator" in problem.headline


def test_an_output_that_the_graph_cannot_hold_is_at_the_return() -> None:
    def f(x: Any) -> Any:
        if x is None:
            raise ValueError
        return object()

    (problem,) = diagnose(f).problems
    assert problem.code == "FX008"
    assert problem.site is not None
    assert problem.site.text == "return object()"


def test_endless_recursion_is_a_problem_with_a_bearable_number_of_frames() -> None:
    def f(x: Any) -> Any:
        return f(x + 1)

    (problem,) = diagnose(f).problems
    assert isinstance(problem.exception, RecursionError)
    assert problem.code == "FX009"
    assert len(problem.frames) <= 60


def test_inputs_that_are_fixed_are_guards() -> None:
    def f(x: Any, flag: bool, mode: str = "sum") -> Any:
        return x + 1 if flag else x

    diagnosis = diagnose(f, concrete_args={"flag": True})
    assert diagnosis.complete
    (guard,) = diagnosis.guards
    assert (guard.expression, guard.value) == ("flag", True)
    assert guard.frame is not None
    assert guard.frame.text == "flag: bool"


def test_a_swallowed_refusal_is_no_problem_but_is_noted() -> None:
    def f(x: Any) -> Any:
        try:
            if x > 0:
                return x
        except fxengine.TraceError:
            pass
        return -x

    tracer = fxengine.Tracer()
    diagnosis = diagnose(f, tracer=tracer)
    assert diagnosis.complete
    assert [refusal.rule.code for refusal in tracer.refusals] == ["FX001"]
    (swallowed,) = diagnosis.silent
    assert swallowed.site is not None
    assert swallowed.site.text == "x > 0"


def test_a_tracer_that_answers_has_no_problem() -> None:
    class Optimist(fxengine.Tracer):
        def to_bool(self, obj: fxengine.Proxy) -> bool:
            return True

        def length(self, obj: fxengine.Proxy) -> int:
            return 2

        def set_item(self, obj: fxengine.Proxy, key: Any, value: Any) -> None:
            self.create_proxy("call_function", torch.Tensor.__setitem__, (obj, key, value), {})

    def f(x: Any) -> Any:
        if x > 0:
            x[0] = len(x)
        return x

    assert diagnose(f, tracer=Optimist()).complete


def test_a_root_that_cannot_be_traced_at_all() -> None:
    (problem,) = diagnose(torch.relu).problems
    assert problem.code == "FX009"
    assert problem.site is None


def test_a_method_that_is_not_there_is_a_problem_too() -> None:
    tracer = fxengine.Tracer()
    assert diagnose(Router().gate, tracer=tracer).complete
    tracer.traced_func_name = "backwards"
    diagnosis = diagnose(Router(), tracer=tracer)
    assert diagnosis.problems[0].code == "FX009"
    assert [node.op for node in diagnosis.graph.nodes] == ["output"]


def test_rules_have_distinct_codes() -> None:
    assert [rule.code for rule in RULES] == [f"FX00{number}" for number in range(1, 10)]
    assert all(rule.title for rule in RULES)

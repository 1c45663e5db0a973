"""What traced code does with a symbolic value gives what it gives in torch.fx: the same graph, or the same error."""

import copy
import enum
import functools
import inspect
import math
import operator
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import torch.fx
from torch import nn
from torch.nn import functional

import fxengine
from tests.support.parity import UNWRITTEN, neutral

# ruff: noqa: PLW0108 - what is traced has to be a function of Python.


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass
class Record:
    first: Any
    second: int


class Color(enum.Enum):
    RED = 1


@torch.jit.script
def scripted(x):
    return x + 1


def without_gradient(x):
    with torch.no_grad():
        return x + 1


def first_of_two(x):
    first, _ = x
    return first


def first_and_rest(x):
    first, *_ = x
    return first


def nested(x):
    (first, _), second = x
    return first + second


def loop(x):
    for _ in x:
        pass


def branch(x):
    return x if x.sum() > 0 else -x


QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "truth": lambda x: bool(x),
    "integer": lambda x: int(x),
    "number": lambda x: float(x),
    "index": lambda x: [1, 2][x],
    "range": lambda x: range(x),
    "text": lambda x: x + str(x),
    "membership": lambda x: 3 in x,
    "negation": lambda x: not x,
    "conjunction": lambda x: x and x,
    "items": lambda x: list(x),
    "first of two": first_of_two,
    "first and rest": first_and_rest,
    "nested": nested,
    "loop": loop,
    "branch": branch,
    "keys": lambda x: {**x},
    "pairs": lambda x: dict(x),
    "zip": lambda x: list(zip(x, x, strict=False)),
    "sorted": lambda x: sorted(x),
    "rounded": lambda x: round(x),
    "floor": lambda x: math.floor(x),
    "larger": lambda x: max(x, 1),
    "sum": lambda x: sum([x, x]),
    "divmod": lambda x: divmod(x, 2),
    "reflected divmod": lambda x: divmod(2, x),
    "call": lambda x: x(1),
    "chain": lambda x: x.one.two(1, k=2).three,
    "length": lambda x: x.__len__(),
    "hash": lambda x: {x: 1} and x,
    "instance": lambda x: x if isinstance(x, torch.Tensor) else x + 1,
    "attribute": lambda x: x if hasattr(x, "anything") else 1,
    "complex": lambda x: x + 1j,
    "slice": lambda x: x[1:x, None, ..., x],
    "operators": lambda x: operator.not_(operator.getitem(operator.neg(x), 0)),
    "partial": lambda x: functools.partial(torch.add, x)(x),
    "numpy function": lambda x: np.sin(x),
    "numpy operand": lambda x: np.ones(3) + x,
    "tensor": lambda x: torch.tensor(x),
    "tensor of list": lambda x: torch.tensor([x, x]),
    "sizes": lambda x: torch.zeros(x.size()),
    "set": lambda x: torch.relu({1, x}),
    "object": lambda _: torch.relu(object()),
    "array": lambda _: torch.relu(np.ones(2)),
    "class": lambda _: torch.relu(int),
    "enumeration": lambda x: x.to(Color.RED),
    "named tuple": lambda x: Pair(x, 1),
    "dataclass": lambda x: torch.relu(Record(x, 2)),
    "parameter": lambda x: x + nn.Parameter(torch.ones(1)),
    "module": lambda x: nn.Linear(2, 2)(x),
    "conditional": lambda x: torch.cond(x > 1, torch.sin, torch.cos, (x,)),
    "vmap": lambda x: torch.vmap(torch.sin)(x),
    "gradient": lambda x: torch.func.grad(torch.sin)(x),
    "einsum": lambda x: torch.einsum("ij->ji", x),
    "shape": lambda x: x.shape == (1, 2),
    "scripted": scripted,
    "wrapped": lambda x: scripted(x),
    "no gradient": without_gradient,
    "overload": lambda x: torch.ops.aten.add.Tensor(x, x),
    "packet": lambda x: torch.ops.aten.add(x, x),
    "symbolic integer": lambda x: torch.sym_int(x),
    "copy": lambda x: copy.copy(x),
    "pickled": lambda x: pickle.dumps(x),
    "nothing": lambda _: None,
    "containers": lambda x: [x, {"a": x}],
}


def outcome(engine: ModuleType, function: Callable[..., Any]) -> str:
    """The graph and the code that a function gives, or its error."""
    try:
        module = engine.symbolic_trace(function)
    except Exception as error:  # noqa: BLE001 - whatever a function raises is compared.
        text = f"{type(error).__name__}: {error}"
    else:
        text = f"{module.graph}\n{module.code}"
    return re.sub("0x[0-9a-f]+", "0x", neutral(text))


@pytest.mark.parametrize("question", QUESTIONS)
def test_questions_to_a_symbolic_value(question):
    assert outcome(fxengine, QUESTIONS[question]) == outcome(torch.fx, QUESTIONS[question])


FUNCTIONS = sorted(
    name for name, value in vars(functional).items() if not name.startswith("_") and inspect.isroutine(value)
)


def required(function) -> list[str]:
    """The parameters without which a function cannot be called by position."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return ["input"]
    return [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore")
def test_every_functional(name):
    """With a symbolic value for each parameter that must be given, and for each that may be."""
    function = getattr(functional, name)
    given = ", ".join(required(function))
    caller = eval(f"lambda {given}: function({given})", {"function": function})
    assert outcome(fxengine, caller) == outcome(torch.fx, caller)
    if inspect.isfunction(function):
        ours, theirs = outcome(fxengine, function), outcome(torch.fx, function)
        # torch.fx cannot write down an annotation that lists what a function takes: `Callable[[Tensor], Tensor]`.
        assert "Callable[[" in ours if theirs == UNWRITTEN else ours == theirs


@pytest.mark.parametrize("method", ["is_leaf_module", "create_arg", "create_proxy", "call_module", "path_of_module"])
def test_methods_that_are_assigned_to_the_tracers_class_are_called_as_often_as_in_torch_fx(method, monkeypatch):
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 4)), nn.ReLU())
    asked = {}
    for engine in (torch.fx, fxengine):
        original = getattr(engine.Tracer, method)

        def counting(self, *args, original=original, engine=engine, **kwargs):
            asked[engine].append([arg for arg in args if isinstance(arg, str | nn.Module)])
            return original(self, *args, **kwargs)

        asked[engine] = []
        monkeypatch.setattr(engine.Tracer, method, counting)
        engine.Tracer().trace(model)
    assert asked[fxengine] == asked[torch.fx]

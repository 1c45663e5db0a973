"""Graphs of clashing names and of values that are no Python: the same code, or the same refusal, as torch.fx's."""

import enum
import operator
import random
import re
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
import torch.fx

import fxengine

SEEDS = range(400)


def function(module: str, name: str) -> Callable[..., Any]:
    """A function that calls itself so."""
    made = types.FunctionType((lambda *_args, **_kwargs: 0).__code__, {}, name)
    made.__module__, made.__qualname__ = module, name
    return made


class Color(enum.Flag):
    RED = 1
    BLUE = 2


class Odd:
    def __repr__(self) -> str:
        return "<odd>"


class Fine:
    def __repr__(self) -> str:
        return "3"


class Pair(NamedTuple):
    left: Any
    right: Any


for _kind in (Color, Pair):
    _kind.__module__ = "foo"

FUNCTIONS = [
    *(function("foo", name) for name in ("bar", "bar", "bar_1", "bar_2")),
    *(function(*path) for path in (("a", "b"), ("foo_bar", "x"), ("foo.bar", "y_3"))),
    operator.add,
    torch.relu,
    getattr,
]
NAMES = """
    foo_bar foo_bar_1 foo_bar_2 a_b a_b_3 x x_0 x_01 x_1 _ _1 print Color foo_Pair foo_bar_x foo_bar_y_3 inf torch
    add add_1
""".split()  # noqa: SIM905 - a list literal would fill a page.

UNUSUAL_FUNCTIONS = [
    *(torch.relu, getattr, operator.add, operator.iadd, operator.neg, operator.setitem, operator.getitem),
    *(torch.ops.aten.add.Tensor, function("a", "b"), function("torch.x", "<locals>"), function("torch", "class")),
    *(function("torch.class", "f"), function("torch.a b", "f")),
]
TARGETS = ["a", "class", "a.b", "a.class.b", "0", "a.0.b", "a.-1", 'q"x', "q\\x", "a-b", "in", "x y", "é", "None"]
ARGUMENTS = [
    *(1, -1, 2.5, float("inf"), 1j, "s", "\ud800", True, None, ..., range(3), slice(1, None), int, torch.nn.Linear),
    *(torch.float32, torch.device("cpu"), torch.strided, torch.channels_last, torch.Size([1]), torch.ones(2)),
    *(Color.RED, Color.RED | Color.BLUE, Pair(1, 2), Pair(Odd(), 1), torch.ops.aten.add.Tensor),
    *([1, [2]], (1,), (), {"a": 1}, {"k": Odd()}, [Odd()], Odd(), Fine()),
]
TYPES = [int, torch.Tensor, list[int], "Bad", "x y", torch.fx.Node, int | None, ()]


def clashing(library: Any, seed: int) -> Any:
    """A graph in which names of values and of globals are often the same."""
    chance = random.Random(seed)
    graph = library.Graph()
    nodes = [graph.placeholder(f"{chance.choice(NAMES)}{index}") for index in range(chance.randint(1, 2))]
    for _ in range(chance.randint(2, 9)):
        target = chance.choice(FUNCTIONS)
        args = (chance.choice(nodes), chance.choice(nodes))
        kwargs = {}
        if target is getattr:
            args = (args[0], chance.choice(["shape", "a b"]))
        elif target is not operator.add:
            offered = {"c": Color.RED, "p": Pair(args[1], 2), "l": [args[0], {"d": args[1]}]}
            kwargs = {key: value for key, value in offered.items() if chance.random() < 0.2}
        annotation = chance.choice([None, None, int, Color, Pair])
        nodes.append(graph.create_node("call_function", target, args, kwargs, chance.choice(NAMES), annotation))
    if chance.random() < 0.2:
        nodes[-1].name = chance.choice(NAMES)
    graph.output(tuple(chance.choices(nodes, k=2)))
    return graph


def unusual(library: Any, seed: int) -> Any:
    """A graph with few parts, some of which cannot be written in Python, or not there."""
    chance = random.Random(seed)
    graph = library.Graph()
    nodes: list[Any] = []

    def argument() -> Any:
        return chance.choice(nodes) if chance.random() < 0.9 else chance.choice(ARGUMENTS)

    for index in range(chance.randint(1, 3)):
        name = chance.choice(["x", "y", "*args", "**kw", "class", "a b"]) if chance.random() < 0.1 else f"x{index}"
        default = (chance.choice(ARGUMENTS),) if chance.random() < 0.1 else ()
        annotation = chance.choice(TYPES) if chance.random() < 0.1 else None
        nodes.append(graph.create_node("placeholder", name, default, type_expr=annotation))
    for _ in range(chance.randint(1, 3)):
        op = chance.choice(["call_function"] * 4 + ["call_method", "call_module", "get_attr"])
        target = chance.choice(UNUSUAL_FUNCTIONS) if op == "call_function" else chance.choice([*TARGETS, "a", "b"])
        args = (argument(), chance.choice(["shape", "class", "a b"]) if target is getattr else argument())
        kwargs = {chance.choice(["k", "class", "a b"]): argument()} if chance.random() < 0.1 else {}
        if op == "get_attr":
            args, kwargs = (), {}
        annotation = chance.choice(TYPES) if chance.random() < 0.05 else None
        nodes.append(graph.create_node(op, target, args, kwargs, chance.choice(["n", "x0", "lambda"]), annotation))
    graph.output(chance.choice(nodes), chance.choice(TYPES) if chance.random() < 0.1 else None)
    return graph


class Everything(dict[str, Any]):
    """Has every attribute."""

    def __contains__(self, key: object) -> bool:
        return True

    def __getitem__(self, key: str) -> Any:
        return torch.nn.Identity()


def code(library: Any, seed: int) -> str:
    return clashing(library, seed).python_code("self").src


def module(library: Any, seed: int) -> Any:
    return library.GraphModule(Everything(), unusual(library, seed))


def outcome(make: Callable[[Any, int], Any], library: Any, seed: int) -> str:
    """The text of what is made, or the refusal, without the numbers of generated files."""
    try:
        made = make(library, seed)
    except Exception as error:  # noqa: BLE001 - whatever torch.fx raises.
        text = f"{type(error).__name__}: {error}".replace("fxengine", "torch.fx")
        return re.sub(r"eval_with_key>\.\d+", "eval_with_key>", text)
    return made if isinstance(made, str) else made.code


@pytest.mark.parametrize("start", SEEDS[::8])
def test_names_that_clash(start: int) -> None:
    for seed in range(start, start + 8):
        assert outcome(code, fxengine, seed) == outcome(code, torch.fx, seed), seed


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("start", SEEDS[::8])
def test_code_that_does_not_compile_is_refused_at_once(start: int) -> None:
    for seed in range(start, start + 8):
        assert outcome(module, fxengine, seed) == outcome(module, torch.fx, seed), seed


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_what_is_not_refused_compiles() -> None:
    compiled = 0
    for seed in SEEDS:
        try:
            made = module(fxengine, seed)
        except (SyntaxError, NameError, IndexError):
            continue
        assert type(made).forward.__name__ == "forward"
        compiled += 1
    assert 0.2 < compiled / len(SEEDS) < 0.8

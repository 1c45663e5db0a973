"""What the syntax alone lets expect, where nothing may be executed."""

import ast
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxls.syntactic import likely_problems
from tests.support.markers import read_markers

FIXTURES = Path(__file__).parents[1] / "fixtures"
EXAMPLES = Path(__file__).parents[2] / "examples"

PRECISION = 0.90
RECALL = 0.80
"""What the shares of right hints and of found problems must not fall below on the fixtures."""

HEAD = """\
import math
import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange
from einops.layers.torch import Rearrange
from torch import nn


def exists(value):
    return value is not None


def halved(value):
    return value / 2 if value.max() > 1 else value


class Inner(nn.Module):
    def forward(self, x, flag=False):
        return x if flag else -x


class Net(nn.Module):
    def __init__(self, depth=2, gated=False):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.inner = Inner()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(depth)])
        self.stray = [nn.Linear(4, 4) for _ in range(depth)]
        self.patch = nn.Sequential(Rearrange("b c h w -> b (h w) c"), nn.Linear(4, 4))
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("ids", torch.arange(9))
        self.gated = gated
        self.norm = None if not gated else nn.LayerNorm(4)

    def helper(self, value):
        return value.sum()

    def forward(self, x, mask=None, *, flag=False):
        BODY
"""


def found(body: str) -> list[tuple[str, str]]:
    """Return the code and text of each finding in a forward's body."""
    text = HEAD.replace("BODY", body.replace("\n", "\n        "))
    lines = text.split("\n")
    problems = likely_problems("/p/net.py", text)
    assert all(each.severity == "hint" and "syntactic" in each.message for each in problems)
    spans = [(each.code, each.location.span) for each in problems if each.target == "Net"]
    return [(code, lines[span.line - 1][span.column : span.end_column]) for code, span in spans]


LIKELY = {
    "if x.sum() > 0:\n    x = -x\nreturn x": ("FX001", "x.sum() > 0"),
    "if not x.any():\n    x = -x\nreturn x": ("FX001", "x.any()"),
    "while x.norm() > 1:\n    x = x / 2\nreturn x": ("FX001", "x.norm() > 1"),
    "assert x.shape[-1] == 4\nreturn x": ("FX001", "x.shape[-1] == 4"),
    "return x if self.helper(x) > 0 else -x": ("FX001", "self.helper(x) > 0"),
    "return self.inner(x, x.sum() > 0)": ("FX001", "flag"),
    "return halved(self.fc(x))": ("FX001", "value.max() > 1"),
    "return x * max(x.shape[0], 3)": ("FX001", "max(x.shape[0], 3)"),
    "return x if x.size(0) in (1, 2) else -x": ("FX001", "x.size(0) in (1, 2)"),
    "return x if flag else -x": ("FX001", "flag"),
    "return x if self.scale > 0 else -x": ("FX001", "self.scale > 0"),
    "y = x or mask\nreturn y": ("FX001", "x"),
    "return x / len(x)": ("FX002", "len(x)"),
    "return [row for row in x]": ("FX003", "x"),
    "return x.reshape(*x.shape[:-1], 2, 2)": ("FX003", "x.shape[:-1]"),
    "first, *rest = x.shape\nreturn x": ("FX003", "x.shape"),
    "return torch.stack(list(x))": ("FX003", "x"),
    "return x * int(x.shape[0])": ("FX004", "int(x.shape[0])"),
    "for i in range(x.size(0)):\n    x = x + i\nreturn x": ("FX004", "range(x.size(0))"),
    "return self.layers[x.size(0)](x)": ("FX004", "self.layers[x.size(0)]"),
    "return self.ids[: x.size(1)]": ("FX004", "self.ids[: x.size(1)]"),
    "x[0] = 1\nreturn x": ("FX005", "x[0]"),
    "x[:, 0] += 1\nreturn x": ("FX005", "x[:, 0]"),
    "del x[0]\nreturn x": ("FX005", "x[0]"),
    "return torch.zeros(x.shape[0], 4) + x": ("FX006", "torch.zeros(x.shape[0], 4)"),
    "return x * torch.finfo(x.dtype).max": ("FX006", "torch.finfo(x.dtype)"),
    "return np.array(x)": ("FX006", "np.array(x)"),
    "return rearrange(x, 'a b -> b a')": ("FX006", "rearrange(x, 'a b -> b a')"),
    "return self.patch(x)": ("FX006", "self.patch(x)"),
    "return {2: 1}[x.ndim] * x": ("FX006", "{2: 1}[x.ndim]"),
    "return nn.Softmax(-1)(x)": ("FX007", "nn.Softmax(-1)(x)"),
    "for layer in self.stray:\n    x = layer(x)\nreturn x": ("FX007", "layer(x)"),
}


@pytest.mark.parametrize("body", LIKELY)
def test_what_is_likely_is_found_at_its_expression(body):
    assert found(body) == [LIKELY[body]]


FINE = [
    "if mask is None:\n    mask = x.sum() if len(x) else x\nreturn x + mask",
    "if mask is not None and self.gated:\n    x = x + mask\nreturn x",
    "if exists(mask):\n    x = x + mask\nreturn x",
    "if isinstance(x, (list, tuple)):\n    x = x[len(x) - 1]\nreturn x",
    "if torch.jit.is_scripting():\n    x = x[: len(x)]\nreturn x",
    "if self.norm is not None:\n    x = self.norm(x[: len(x)])\nreturn x",
    "for layer in self.layers:\n    x = F.relu(layer(x))\nreturn x",
    "for i, layer in enumerate(self.layers):\n    x = layer(x) * i\nreturn x[len(self.layers) :]",
    "b, n, d = x.shape\nreturn x.reshape(b, n * d)",
    "q, k = self.fc(x).chunk(2, dim=-1)\nreturn q @ k.transpose(-2, -1) * d".replace("* d", "* math.sqrt(4)"),
    "outs = []\nfor layer in self.layers:\n    outs.append(layer(x))\nreturn torch.cat(outs, 1)",
    "return torch.zeros(x.shape, device=x.device) + torch.arange(x.shape[1], device=x.device)",
    "return x * math.sqrt(x.shape[-1])",
    "print(f'{x.shape} {x}')\nreturn x",
    "try:\n    n = int(x.sum())\nexcept TypeError:\n    n = 1\nreturn x * n",
    "return self.unknown(x)",
    "y = some_function(x)\nif y.flag:\n    x = x + 1\nreturn [each for each in y]",
    "return x[0], x[:, 1:], x['name']",
    "x.shape\nself.cache = {}\nself.cache['key'] = x\nreturn x",
]


@pytest.mark.parametrize("body", FINE)
def test_what_is_fine_is_left_alone(body):
    assert found(body) == []


def test_nothing_is_said_of_what_is_no_model():
    assert likely_problems("/p/a.py", "def f(x):\n    if x.sum() > 0:\n        return x\n") == ()
    assert likely_problems("/p/a.py", "def f(:\n") == ()


def test_constructors_are_followed_with_their_arguments():
    text = """
from torch import nn

class Block(nn.Module):
    def __init__(self, causal=False):
        super().__init__()
        self.causal = causal

    def forward(self, x):
        if self.causal:
            return x[: len(x)]
        return x

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block(causal=True)

    def forward(self, x):
        return self.block(x)
"""
    (problem,) = likely_problems("/p/a.py", text)
    assert (problem.code, problem.target, problem.location.span.line) == ("FX002", "Net", 11)


PARTS = """
from dataclasses import dataclass
import torch
from torch import nn


@dataclass
class Config:
    pooled: bool = False
    names: tuple = ()


class Head(nn.Module):
    causal = False

    def __init__(self, config: Config | None = None, **kwargs):
        super().__init__()
        config = config or Config()
        if kwargs:
            config = update(config, kwargs)
        self.pooled = config.pooled
        self.rate = 0.0
        self.fc = nn.Linear(4, 4)

    def forward(self, x, early: bool = False, *, mask=None):
        BODY


class Net(nn.Module):
    def __init__(self, head, depth=2):
        super().__init__()
        layers = []
        for _ in range(depth):
            layers += [Layer()]
        self.layers = nn.Sequential(*layers)
        self.head = head or make_head(Head)

    def forward(self, x: torch.Tensor):
        return self.head(self.layers(x))


class Layer(nn.Module):
    def forward(self, x):
        return x[: len(x)]
"""


@pytest.mark.parametrize(
    "body",
    [
        "return x if early else -x",
        "return x if mask is None else x[: len(x)]",
        "return x[: len(x)] if self.pooled else x",
        "return x[: len(x)] if self.causal else x",
        "return x[: len(x)] if self.rate > 0.0 and unknown else x",
        "return x[: len(x)] if getattr(self, 'pooled', True) else x",
    ],
)
def test_what_a_part_is_not_handed_has_its_default(body):
    problems = likely_problems("/p/net.py", PARTS.replace("BODY", body))
    assert [(each.code, each.target) for each in problems] == [("FX002", "Net")]


def test_a_class_that_only_a_type_names_is_a_model_of_its_own():
    text = PARTS.replace("BODY", "return x if early else -x").replace("make_head(Head)", "build()")
    assert {each.target for each in likely_problems("/p/net.py", text)} == {"Head", "Net"}
    text = text.replace("def __init__(self, head, depth=2)", "def __init__(self, head: Head, depth=2)")
    assert {each.target for each in likely_problems("/p/net.py", text)} == {"Head", "Net"}


def test_a_list_that_something_symbolic_was_put_into_holds_it_whatever_else_it_holds():
    body = (
        "outs = [x]\nfor layer in unknown:\n    outs.append(layer(x))\n"
        "if torch.cat(outs).sum() > 0:\n    x = -x\nreturn x"
    )
    assert found(body) == [("FX001", "torch.cat(outs).sum() > 0")]
    body = body.replace("[x]", "[]")
    assert found(body) == []


def test_spans_lie_in_the_text_and_no_file_takes_long():
    for path in (*FIXTURES.rglob("*.py"), *EXAMPLES.glob("*.py")):
        text = path.read_bytes().decode()
        lines = text.replace("\r\n", "\n").split("\n")
        started = time.monotonic()
        for problem in likely_problems(str(path), text):
            span = problem.location.span
            assert span.column <= len(lines[span.line - 1].encode())
        assert time.monotonic() - started < 5


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_no_program_is_too_odd(data):
    """Pieces of real files, in any order, are read without a fault."""
    path = data.draw(st.sampled_from(sorted(EXAMPLES.glob("*.py"))))
    tree = ast.parse(path.read_text())
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    chosen = data.draw(st.lists(st.sampled_from(nodes), min_size=1, max_size=6))
    body = "\n".join(ast.unparse(ast.fix_missing_locations(node)) for node in chosen)
    likely_problems("/p/a.py", HEAD.replace("BODY", body.replace("\n", "\n        ")))
    likely_problems("/p/b.py", body)


def test_hints_agree_with_what_the_fixtures_were_traced_to():
    """The fast part of `benchmarks/syntactic.py`: there, files of libraries are compared with their traces as well."""
    hints, found = set(), set()
    for path in FIXTURES.rglob("*.py"):
        text = path.read_bytes().decode().replace("\r\n", "\n")
        if path.name.startswith("_") or "#!" not in text:
            continue
        name = str(path)
        hints |= {(name, each.location.span.line, each.code) for each in likely_problems(name, text)}
        announced = (each for each in read_markers(text).problems if "FX001" <= each.code <= "FX007")
        found |= {(name, each.line, each.code) for each in announced if not each.known_wrong}
    both = hints & found
    assert len(both) / len(hints) >= PRECISION, sorted(hints - found)
    assert len(both) / len(found) >= RECALL, sorted(found - hints)

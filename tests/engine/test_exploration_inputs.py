"""With example inputs `diagnose` knows what metadata decides: the graph follows the truth, and problems say so."""

import linecache
from typing import Any

import pytest
import torch
from torch import nn

import fxengine
from fxengine import Diagnosis, diagnose
from fxengine.graph import Graph

PRELUDE = """\
import math, operator, torch
import numpy as np
def helper(x):
    return x.shape[0] == 3
def f(x, y, *args, **kwargs):
"""
INPUTS = ((torch.ones(3, 4), torch.ones(3, 4)), {})


def fed(source: str) -> Diagnosis:
    """The diagnosis of a function with this body, fed with two tensors."""
    body = "".join(f"    {line}\n" for line in source.splitlines())
    text = f"{PRELUDE}{body}"
    path = f"<fed: {source}>"
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    namespace: dict[str, Any] = {}
    exec(compile(text, path, "exec"), namespace)
    return diagnose(namespace["f"], inputs=INPUTS)


def told(diagnosis: Diagnosis) -> list[str]:
    return [f"{each.code} {each.site.text if each.site else ''} = {each.value}" for each in diagnosis.problems]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("return x + 1 if x.shape[0] == 3 else y", ["FX001 x.shape[0] == 3 = True"]),
        ("x.unsqueeze_(0)\nreturn x if x.dim() == 3 else y", ["FX001 x.dim() == 3 = True"]),
        ("n = x.dim()\nx.squeeze_().unsqueeze_(2)\nreturn x if n == x.dim() else y", ["FX001 n == x.dim() = False"]),
        ("x.transpose_(0, 1)\nx.t_()\nx.swapaxes_(1, 0)\nreturn x * len(x)", ["FX002 len(x) = 4"]),
        ("z = x.new_zeros(3).resize_(5, 2)\nreturn x if z.size(0) > 4 else y", ["FX001 z.size(0) > 4 = True"]),
        ("z = y.detach()\nz.unsqueeze_(0)\nreturn x if z.dim() > y.dim() else y", ["FX001 z.dim() > y.dim() = True"]),
        ("return x * len(x)", ["FX002 len(x) = 3"]),
        ("return torch.stack([t * 2 for t in x])", ["FX003 x = 3 items"]),
        ("b, *rest = x.shape\nreturn x.view(b, *rest)", ["FX003 x.shape = 2 items"]),
        ("for i in range(x.size(0)): x = x + i\nreturn x", ["FX004 range(x.size(0)) = 3"]),
        ("return x[:, : int(x.shape[1] / 2)]", ["FX004 int(x.shape[1] / 2) = 2.0"]),
        ("return x + float(x.ndim)", ["FX004 float(x.ndim) = 2"]),
        ("return x + torch.tensor(x.shape[1])", ["FX006 torch.tensor(x.shape[1]) = 4"]),
        ("return torch.zeros(x.size(0), 4) + x", ["FX006 torch.zeros(x.size(0), 4) = 3"]),
        ("return x + torch.from_numpy(np.zeros(x.shape[1]))", ["FX006 np.zeros(x.shape[1]) = 4"]),
        ("return dict(**kwargs) or x", ["FX003 kwargs = 0 items"]),
        (
            "for a in args: x = x + a\nreturn helper(*args) if len(args) else x",
            ["FX003 args = 0 items", "FX002 len(args) = 0"],
        ),
        (
            "n = x.shape[0]\nfor i in range(n): x = x + i\nz = torch.zeros(n, n)\nreturn torch.arange(8)[:n]",
            ["FX004 range(n) = 3", "FX006 torch.zeros(n, n) = 3", "FX004 torch.arange(8)[:n] = 3"],
        ),
        ("while x.shape[0] < 12: x = torch.cat([x, x])\nreturn x", ["FX001 x.shape[0] < 12 = True"]),
        ("return torch.ones(*x.shape) + x", ["FX003 x.shape = 2 items", "FX006 torch.ones(*x.shape) = "]),
    ],
)
def test_what_metadata_decides_is_captured(source: str, expected: list[str]) -> None:
    diagnosis = fed(source)
    assert told(diagnosis) == expected
    assert diagnosis.captured
    diagnosis.graph.lint()


@pytest.mark.parametrize(
    "source", ["return x if x.sum() > 0 else y", "return x[: int(x.max())]", "return [*x.tolist()]"]
)
def test_what_data_decides_is_not_captured(source: str) -> None:
    diagnosis = fed(source)
    assert not diagnosis.captured
    assert [each.value for each in diagnosis.problems] == [""]


def test_the_captured_graph_computes_what_the_model_does() -> None:
    source = "n = x.shape[0]\nfor i in range(n): x = x + i\nreturn x.view(n, -1) if x.ndim == 2 else y"
    diagnosis = fed(source)
    module = fxengine.GraphModule(diagnosis.root, diagnosis.graph)
    assert torch.equal(module(*INPUTS[0], (), {}), torch.ones(3, 4) + 3)


def test_what_metadata_has_decided_are_guards() -> None:
    diagnosis = fed("if x.device.type == 'cuda' or x.dtype == torch.float32: return x\nreturn y")
    assert [(guard.expression, guard.value) for guard in diagnosis.guards] == [
        ("x.device.type == 'cuda'", False),
        ("x.dtype == torch.float32", True),
    ]


def test_the_other_side_of_what_is_known_is_looked_at_too() -> None:
    assert told(fed("if x.ndim == 2: return x\nreturn x * len(x)")) == ["FX001 x.ndim == 2 = True", "FX002 len(x) = 3"]


def test_inputs_are_asked_for_only_if_something_is_to_be_decided() -> None:
    asked: list[Graph] = []

    def inputs(graph: Graph) -> Any:
        asked.append(graph)
        return (torch.ones(2, 4),), {}

    assert diagnose(nn.Linear(4, 4), inputs=inputs).complete
    assert asked == []

    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x.relu()
            return x if x.shape[0] == 2 and x.shape[1] == 4 else -x

    assert diagnose(Model(), inputs=inputs).captured
    assert len(asked) == 1


class Pair(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        if x.sum() > 0:
            raise NotImplementedError
        return x, int(x.sum())


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pair = Pair()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.pair(x)
        for part in parts:
            x = x + part
        return self.fc(x)


def test_of_a_call_that_may_give_anything_nothing_is_said() -> None:
    diagnosis = diagnose(Two(), inputs=((torch.ones(2, 4),), {}))
    assert [each.code for each in diagnosis.problems] == ["FX001", "FX004"]


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("for t in x.relu(): y = y + t\nreturn y", "metadata"),
        ("for t in x.relu().nonzero(): y = y + t\nreturn y", "data-dependent"),
        ("z = x.relu()\nreturn x * len(z[z > 0])", "data-dependent"),
        ("return x * len(x[y.relu() & x])", "data-dependent"),
        ("return x * len(x.relu()[y.shape[0] :] + 1)", "metadata"),
        ("return [*torch.where(x)]", "data-dependent"),
        ("return [*torch.where(x > 0, x, y)]", "metadata"),
    ],
)
def test_how_many_items_there_are_is_a_size_unless_data_decide_it(source: str, kind: str) -> None:
    assert fed(source).problems[0].kind == kind


class Optional(nn.Module):
    def forward(self, x: torch.Tensor, mask: Any = None, *, scale: int = 2) -> torch.Tensor:
        if x.shape[0] == 3:
            x = x * scale
        if mask is not None and scale > 1:
            x = x + mask
        return x


@pytest.mark.parametrize(
    "inputs",
    [
        torch.ones(3),
        (torch.ones(3),),
        [torch.ones(3), None],
        {"x": torch.ones(3)},
        ((torch.ones(3),), {"scale": 2}),
        lambda graph: ((torch.ones(3),), {}),
    ],
    ids=["tensor", "positional", "list", "by name", "both", "finder"],
)
def test_inputs_are_given_as_a_call_gives_them(inputs: Any) -> None:
    diagnosis = diagnose(Optional(), inputs)
    assert told(diagnosis) == ["FX001 x.shape[0] == 3 = True", "FX001 scale > 1 = True"]


@pytest.mark.parametrize("inputs", [(torch.ones(3), None, 2), {"y": torch.ones(3)}])
def test_inputs_that_the_model_does_not_take_are_an_error_of_the_caller(inputs: Any) -> None:
    with pytest.raises(TypeError, match="argument"):
        diagnose(Optional(), inputs)

"""Every node knows the user's frames that led to it, with exact columns, and the module whose forward ran."""

import linecache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import fxengine
from fxengine import Node, Tracer
from fxengine.source import Origin, SourceFrame, is_user_file


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return helper(self.linear(x))


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.weight = nn.Parameter(torch.ones(2))

    def forward(self, img: torch.Tensor, *rest: Any, flag: bool = True) -> torch.Tensor:
        _, c = img.shape
        y = self.inner(img) * self.weight
        sizes = img.shape
        return y.reshape(
            sizes[0],
            c,
        )


def helper(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.relu(x) + 1


def origins(root: Any) -> dict[str, Origin]:
    return {node.name: node.origin for node in Tracer().trace(root).nodes if node.origin is not None}


def texts(origin: Origin) -> list[str]:
    return [frame.text for frame in origin.frames]


def test_operations_know_their_expressions() -> None:
    found = origins(Outer())
    assert texts(found["add"]) == [
        "self.inner(img)",
        "helper(self.linear(x))",
        "torch.nn.functional.relu(x) + 1",
    ]
    assert texts(found["relu"])[-1] == "torch.nn.functional.relu(x)"
    assert texts(found["mul"]) == ["self.inner(img) * self.weight"]
    assert texts(found["weight"]) == ["self.weight"]
    assert texts(found["inner_linear"]) == ["self.inner(img)", "self.linear(x)"]


def test_frames_name_function_and_file() -> None:
    frames = origins(Outer())["add"].frames
    assert [frame.function for frame in frames] == ["Outer.forward", "Inner.forward", "helper"]
    assert {frame.path for frame in frames} == {__file__}


def test_an_attribute_is_where_it_was_read_not_where_it_was_used() -> None:
    found = origins(Outer())
    assert texts(found["getattr_2"]) == ["img.shape"]
    assert found["getattr_2"].frames[0].line + 2 == found["getitem_2"].frames[0].line


def test_expressions_may_span_lines() -> None:
    frame = origins(Outer())["reshape"].frames[-1]
    assert frame.end_line - frame.line == 3
    assert frame.text.startswith("y.reshape(\n")


def test_inputs_are_where_the_signature_declares_them() -> None:
    found = origins(Outer())
    assert texts(found["img"]) == ["img: torch.Tensor"]
    assert texts(found["flag"]) == ["flag: bool"]
    assert texts(found["_rest"]) == ["rest: Any"]


def test_modules_are_those_whose_forward_ran() -> None:
    found = origins(Outer())
    assert (found["add"].module_path, found["add"].module_type) == ("inner", Inner)
    assert (found["mul"].module_path, found["mul"].module_type) == ("", Outer)


def test_a_lambda_has_an_origin() -> None:
    assert texts(origins(lambda x: x + 1)["add"]) == ["x + 1"]


def test_columns_are_bytes() -> None:
    source = "def f(x):\n    ö = 'é'; return x + 1\n"
    namespace: dict[str, Any] = {}
    exec(compile(source, "<columns>", "exec"), namespace)
    linecache.cache["<columns>"] = (len(source), None, source.splitlines(keepends=True), "<columns>")
    (frame,) = origins(namespace["f"])["add"].frames
    assert (frame.column, frame.text) == (len("    ö = 'é'; return ".encode()), "x + 1")


def test_without_text_positions_remain() -> None:
    frame = SourceFrame("<nowhere>", "f", 3, 4, 3, 9)
    assert frame.text == ""


def test_positions_are_looked_up_when_somebody_asks() -> None:
    _, node, *_ = Tracer().trace(helper).nodes
    assert not isinstance(node._origin, Origin)
    assert isinstance(node.origin, Origin)


def test_a_graph_made_by_hand_has_no_origins() -> None:
    graph = fxengine.Graph()
    x = fxengine.Proxy(graph.placeholder("x"))
    assert (x + 1).node.origin is None


def test_copies_keep_their_origins() -> None:
    traced = fxengine.symbolic_trace(Outer())
    graph = fxengine.Graph()
    copies: dict[Node, Node] = {}
    graph.graph_copy(traced.graph, copies)
    assert all(copy.origin == node.origin for node, copy in copies.items())


@pytest.mark.parametrize(
    ("path", "is_the_users"),
    [
        (__file__, True),
        ("<string>", True),
        (torch.nn.functional.__file__, False),
        (fxengine.__file__, False),
        (linecache.__file__, False),
        ("<frozen importlib._bootstrap>", False),
        ("/venv/lib/python3.11/site-packages/timm/layers/mlp.py", True),
        ("/venv/lib/python3.11/site-packages/einops/einops.py", False),
    ],
)
def test_user_files(path: str, is_the_users: bool) -> None:
    assert is_user_file(path) is is_the_users


def test_text_that_was_compiled_where_a_package_lies_is_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    assert is_user_file("<in a package>")

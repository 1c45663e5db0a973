"""Classes whose arguments nobody can guess, and which a model of another file has as a part."""

import ast
import importlib
import re
from dataclasses import replace

import pytest

from fxls.discovery import discover
from fxls.discovery.elsewhere import Calls
from fxls.discovery.roots import roots_of
from fxworker.building import in_wholes
from fxworker.loading import Loaded
from fxworker.wire import Whole

LAYERS = """
import torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)

    def forward(self, query, key, mask):
        q, k, v = self.qkv(query).chunk(3, dim=-1)
        return (q @ k.transpose(-1, -2)).softmax(-1) @ v, mask

class Layer(nn.Module):
    def __init__(self, attention, settings, width):
        super().__init__()
        self.attention, self.settings = attention, settings
        self.norm = nn.LayerNorm(width)

    def forward(self, x, mask=None):
        y, mask = self.attention(x, x, mask)
        if self.settings.residual_is_wanted:
            y = x + y
        return self.norm(y).view(x.shape[0], x.shape[1], self.settings.width)

class Stack(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask=mask)
        return x
"""

MODEL = """
import sys
from dataclasses import dataclass

from torch import nn
from {module} import Attention, Layer, Stack

IMPORTED = "imported"

@dataclass
class Settings:
    width: int = 48
    residual_is_wanted: bool = True

class Model(nn.Module):
    def __init__(self, heads, settings: Settings = Settings()):
        super().__init__()
        self.embed = nn.Embedding(100, settings.width)
        self.body = Stack([Layer(Attention(settings.width, heads), settings, settings.width) for _ in range(2)])

    def forward(self, ids):
        return self.body(self.embed(ids))
"""


@pytest.fixture(params=["package", "namespace", "beside"])
def project(tmp_path, request):
    folder = tmp_path / "net" if request.param != "beside" else tmp_path
    folder.mkdir(exist_ok=True)
    (tmp_path / ".git").mkdir()
    if request.param == "package":
        (folder / "__init__.py").write_text("from net.model import Model\n")
    module = {"package": ".layers", "namespace": "net.layers", "beside": "layers"}[request.param]
    (folder / "layers.py").write_text(LAYERS)
    (folder / "model.py").write_text(MODEL.format(module=module))
    return folder / "layers.py"


def traced(worker, path, text=None):
    text = text or path.read_text()
    folder = next(each for each in path.parents if (each / ".git").exists())
    calls = Calls(str(folder))
    calls.look()
    index = calls.completed(discover(str(path), text), text)
    return worker.trace(path, text, roots=roots_of(str(path), (str(folder),)), targets=index.targets)


def test_a_part_is_built_and_fed_as_the_model_of_another_file_does_it(worker, project):
    report = traced(worker, project)
    stack = next(each for each in report.targets if each.qualname == "Stack")
    assert stack.construct.expression.endswith(".body")
    assert "Model(" in stack.construct.expression
    assert re.fullmatch(r"torch\.randn\(2, \d+, 48\)", stack.inputs.expression)
    assert not [each for target in report.targets for each in target.problems if each.severity == "error"]
    # What the stack contains was traced as a part of it, with the settings and the attention that are meant.
    inside = {each.qualname: each.enclosed_by for each in report.targets}
    assert inside == {"Stack": "", "Layer": "Stack", "Attention": "Stack"}
    assert str(project.with_name("model.py")) in report.dependencies


def test_an_edit_finds_the_part_again(worker, project):
    first = traced(worker, project)
    text = LAYERS.replace("y = x + y", "y = x + y.sort()")
    for _ in range(2):
        report = traced(worker, project, text)
        stack, before = (next(t for t in each.targets if t.qualname == "Stack") for each in (report, first))
        assert stack.construct == before.construct
        assert [each.code for each in stack.problems if "y.sort()" in each.message] == ["FX201"]


def test_what_does_not_know_the_file_is_imported_once_for_all_models_around(own_worker, project, tmp_path):
    executed, beside = tmp_path / "executed", project.parent == tmp_path
    code = f"with open({str(executed)!r}, 'a') as file:\n    file.write('.')\nsize = 5\n"
    project.with_name("other.py").write_text(code)
    module, other = ("layers", "other") if beside else ("net.layers", "net.other")
    used = f"import {other}\n" + MODEL.format(module=module).replace("range(2)", f"range({other}.size - 3)")
    project.with_name("model.py").write_text(used)
    project.with_name("second.py").write_text(used.replace("Stack", "Twins").replace("Model(", "Second("))
    text = LAYERS + LAYERS[LAYERS.index("class Stack") :].replace("Stack", "Twins")
    project.write_text(text)
    found = {each.qualname: each for each in traced(own_worker, project, text).targets}
    assert "Model(" in found["Stack"].construct.expression
    assert "Second(" in found["Twins"].construct.expression
    assert found["Stack"].nodes
    assert found["Twins"].nodes
    assert executed.read_text() == "."


def test_a_model_that_cannot_be_imported_is_no_hindrance(worker, project):
    project.with_name("model.py").write_text(MODEL.format(module="layers").replace("import sys", "raise SystemExit(3)"))
    report = traced(worker, project)
    assert {each.qualname: each.status for each in report.targets}["Layer"] != "not traced"


def test_what_a_class_calls_by_the_name_of_the_package_stays_what_it_means(worker, project):
    text = "net = model = None\n" + LAYERS.replace("self.heads = heads", "self.heads = heads, net, model")
    project.write_text(text)
    report = traced(worker, project, text)
    assert all("Model(" not in each.construct.expression for each in report.targets if each.construct)


@pytest.mark.parametrize("project", ["namespace", "beside"], indirect=True)
def test_of_the_other_file_only_what_the_model_needs_is_executed(worker, project, tmp_path):
    other, trace = project.with_name("model.py"), tmp_path / "executed"
    module = "net.layers" if project.parent.name == "net" else "layers"
    training = f"\nmodel = Model(4)\nopen({str(trace)!r}, 'w').close()\nfor _ in range(10**9):\n    model.fit()\n"
    other.write_text(MODEL.format(module=module) + training)
    report = traced(worker, project)
    assert "Model(" in next(each for each in report.targets if each.qualname == "Stack").construct.expression
    assert not trace.exists()


def test_what_the_report_says_may_be_written_down(worker, own_worker, project):
    first = next(each for each in traced(worker, project).targets if each.qualname == "Stack")
    text = LAYERS.replace("class Stack", f"# fx: {first.construct.expression}\nclass Stack")
    # One that has found out nothing before.
    stack = next(each for each in traced(own_worker, project, text).targets if each.qualname == "Stack")
    assert (stack.construct.source, stack.construct.expression) == ("directive", first.construct.expression)
    assert (stack.status, stack.nodes != ()) == (first.status, True)


def test_numbers_are_guessed_without_another_file(worker, project):
    text = LAYERS.partition("class Layer")[0]
    project.write_text(text)
    report = traced(worker, project, text)
    (target,) = report.targets
    assert target.construct.expression.startswith("Attention(")


def test_the_model_of_another_file_may_be_made_of_a_configuration_that_nobody_has(worker, project):
    module, text = project.with_name("model.py"), MODEL.replace("heads, settings: Settings = Settings()", "settings")
    imported = re.search(r"from (\S+) import Attention", module.read_text())[1]
    module.write_text(text.replace("heads)", "settings.heads)").format(module=imported))
    stack = next(each for each in traced(worker, project).targets if each.qualname == "Stack")
    assert re.search(r"Model\(settings=SimpleNamespace\(.*\)\)\.body$", stack.construct.expression)


HEAD = """
import torch
from torch import nn

class Head(nn.Module):
    def __init__(self, width=24, steps=3):
        super().__init__()
        self.width, self.steps = width, steps
        self.out = nn.Linear(width, 2)

    def forward(self, features, shapes):
        (low, high), (rows, columns) = features, shapes["grid"]
        low = low.view(low.shape[0], rows, columns, self.width)
        return self.out(low).sum() + high.view(high.shape[0], self.steps, rows * columns).sum()
"""

BODY = """
import torch
from torch import nn
from net.head import Head

class Body(nn.Module):
    def __init__(self, stem, rows, columns):
        super().__init__()
        self.stem, self.rows, self.columns = stem, rows, columns
        self.head = Head()

    def forward(self, x):
        low = self.stem(x).flatten(2).transpose(1, 2)
        return self.head((low, x.flatten(1)), {"grid": (self.rows, self.columns)})
"""

NET = """
import torch
from torch import nn
from net.body import Body

class Net(nn.Module):
    def __init__(self, rows, columns):
        super().__init__()
        if (rows, columns) != (5, 7):
            raise ValueError(rows, columns)
        self.body = Body(nn.Conv2d(3, 24, 1), rows, columns)

    def forward(self, image):
        return self.body(image)

if __name__ == "__main__":
    net = Net(5, 7)
    net(torch.randn(4, 3, 5, 7))
"""


def test_a_part_of_a_part_is_fed_by_a_model_that_somebody_builds_and_feeds(worker, tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "net").mkdir()
    for name, text in (("head", HEAD), ("body", BODY), ("model", NET)):
        (tmp_path / "net" / f"{name}.py").write_text(text)
    head = traced(worker, tmp_path / "net" / "head.py").targets[0]
    # It is built as it was, without arguments.
    assert head.construct.expression == "Head()"
    assert head.inputs.expression == ("(torch.randn(4, 35, 24), torch.randn(4, 105)), {'grid': (5, 7)}")
    assert (head.status, head.problems) == ("complete", ())


PARTS = """
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn

@dataclass
class Span:
    low: torch.Tensor
    rows: int

class Pair(NamedTuple):
    low: torch.Tensor
    dtype: torch.dtype

class Odd(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, 2)

    def out(self, low):
        if low.shape[0] ** 7 + low.shape[1] ** 5 != 94932:
            raise ValueError("such numbers nobody guesses")
        return self.linear(low)

    def forward(self, {parameters}):
        {body}
"""

WHOLE = """
import torch
from torch import nn
from types import SimpleNamespace
from net import parts
from net.parts import Odd

class Hidden:
    def __init__(self, low):
        self.low = low

    def __call__(self):
        return self.low

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.odd, self.other = nn.Linear(8, 24), Odd(24), Odd(24)

    def forward(self, x):
        low = self.stem(x.view(x.shape[0], -1, 8))
        {body}
"""


@pytest.mark.parametrize(
    ("parameters", "part", "whole", "given"),
    [
        pytest.param(
            "a: Span, b",
            "return self.out(a.low).view(a.rows, -1)",
            "return self.odd(parts.Span(low, 5), 1)",
            "Span(low={low}, rows=5), 1",
            id="dataclass",
        ),
        pytest.param(
            "a",
            "return self.out(a[0].to(a[1])).view(5, 7, 2)",
            "return self.odd(parts.Pair(low, x.dtype))",
            "({low}, torch.float32)",
            id="named tuple",
        ),
        pytest.param(
            "a",
            "return self.out(a.low).view(a.rows, -1)",
            "return self.odd(SimpleNamespace(low=low, rows=5))",
            "SimpleNamespace(low={low}, rows=5)",
            id="namespace",
        ),
        pytest.param(
            "a, b",
            "return self.out(a).view(b, 7, -1)",
            "return self.odd.forward(low, b=5)",
            "{low}, b=5",
            id="forward alone",
        ),
        pytest.param(
            "a, b",
            "return self.out(a.low if b == 1 else a).view(5, 7, -1)",
            "return self.odd(Hidden(low), 1), self.other(low, 5)",
            "{low}, 5",
            id="another instance",
        ),
        pytest.param(
            "a, b",
            "return self.out(a).view(b, 7, -1)",
            "return self.odd(self.stem(torch.zeros(5, 7, 8)), 5) + torch.zeros(9, 9)",
            "{low}, 5",
            id="fails behind",
        ),
        pytest.param(
            "a, b",
            "return self.out(a).view(b, 7, -1)",
            "return self.odd(low, 5) if low.sum() < 1e9 else None",
            "{low}, 5",
            id="wants data",
        ),
        pytest.param(
            "a, b",
            "return self.out(a)[:, b].view(5, 2, 2)",
            "return self.odd(low, torch.tensor([6, 0]))",
            "{low}, torch.tensor([6, 0], dtype=torch.int64)",
            id="numbers",
        ),
    ],
)
def test_a_part_is_given_what_it_is_called_with(worker, tmp_path, parameters, part, whole, given):
    (tmp_path / ".git").mkdir()
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "parts.py").write_text(PARTS.format(parameters=parameters, body=part))
    fed = "" if "zeros" in whole else "\n\nif __name__ == '__main__':\n    Model()(torch.randn(5, 7, 8))\n"
    (tmp_path / "net" / "model.py").write_text(WHOLE.format(body=whole) + fed)
    odd = next(each for each in traced(worker, tmp_path / "net" / "parts.py").targets if each.qualname == "Odd")
    assert (odd.inputs.expression if odd.inputs else "") == given.format(low="torch.randn(5, 7, 24)")


SIZED = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, 2)
        self.rows = None

    def forward(self, x):
        return self.linear(x).view(x.shape[0], self.rows, self.columns, 2)
"""

SIZING = """
import torch
from torch import nn
from net.block import Block

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(each) for each in (24, 30))

    def forward(self, x):
        block = self.blocks[0]
        block.rows, block.columns = x.shape[2:]
        return block(x.flatten(2).transpose(1, 2))
"""


def test_a_part_has_what_its_owner_sets_before_it_is_called(worker, tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "block.py").write_text(SIZED)
    called = "\n\nif __name__ == '__main__':\n    Model()(torch.randn(2, 24, 5, 7))\n"
    (tmp_path / "net" / "model.py").write_text(SIZING + called)
    block = traced(worker, tmp_path / "net" / "block.py").targets[0]
    setting = ", part.__setattr__('rows', 5), part.__setattr__('columns', 7)"
    assert block.construct.expression == f"[part := net.model.Model().blocks[0]{setting}][0]"
    assert (block.inputs.expression, block.problems) == ("torch.randn(2, 35, 24)", ())


@pytest.mark.parametrize("imported", ["Odd, Pair", "*"])
def test_other_files_import_what_the_file_itself_does_not_need(worker, tmp_path, imported):
    (tmp_path / ".git").mkdir()
    (tmp_path / "net").mkdir()
    part = PARTS.format(parameters="a, b", body="return self.out(a).view(b, 7, -1)")
    (tmp_path / "net" / "parts.py").write_text(f"{part}\nfor _ in range(10**9):\n    Odd(24)\n")
    whole = WHOLE.format(body="return self.odd(Pair(low, 5).low, 5)").replace("import Odd", f"import {imported}")
    (tmp_path / "net" / "model.py").write_text(f"{whole}\nnet = Model()\nnet(torch.randn(5, 7, 8))\n")
    odd = next(each for each in traced(worker, tmp_path / "net" / "parts.py").targets if each.qualname == "Odd")
    assert odd.inputs.expression == "torch.randn(5, 7, 24), 5"


@pytest.mark.usefixtures("imports_undone")
@pytest.mark.parametrize("project", ["package"], indirect=True)
def test_a_package_may_have_a_function_by_the_name_of_the_module(project, monkeypatch):
    folder, text = project.parent, project.read_text()
    (folder / "__init__.py").write_text("from .model import model\n")
    with (folder / "model.py").open("a") as model:
        model.write("\ndef model(depth: int = 4):\n    return Model(depth)\n")
    monkeypatch.syspath_prepend(folder.parent)
    # The file is executed as a part of its package.
    loaded = Loaded(importlib.import_module("net.layers"), ast.parse(text))
    target = discover(str(project), text).target("Stack")
    stack = in_wholes(replace(target, wholes=(Whole(str(folder / "model.py"), "model"),)), loaded)
    assert stack.construct.expression == "net.model().body"


BASE = """
from torch import nn

class Base(nn.Module):
    def forward(self, x):
        return self.head(self.body(x)).relu()
"""

HEIR = """
from torch import nn
from net.base import Base

class Heir(Base):
    def __init__(self, width):
        super().__init__()
        self.body, self.head = nn.Conv2d(3, width, 1), nn.Conv2d(width, 2, 1)
"""


@pytest.fixture
def base(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "base.py").write_text(BASE)
    (tmp_path / "net" / "heir.py").write_text(HEIR)
    return tmp_path / "net" / "base.py"


def test_a_class_that_leaves_its_parts_to_subclasses_is_shown_by_one_of_another_file(own_worker, base):
    (target,) = traced(own_worker, base).targets
    assert re.fullmatch(r"net\.heir\.Heir\(width=\d+\)", target.construct.expression)
    assert (target.status, target.problems, target.inputs is not None) == ("complete", (), True)
    edited = traced(own_worker, base, BASE.replace("relu()", "sort()[0]")).targets[0]
    assert (edited.construct, edited.status) == (target.construct, "complete")


def test_a_class_that_leaves_its_parts_to_subclasses_is_shown_by_one_of_its_file(worker, base):
    base.with_name("heir.py").unlink()
    text = BASE + HEIR.replace("from net.base import Base\n", "")
    target = next(each for each in traced(worker, base, text).targets if each.qualname == "Base")
    assert target.construct.expression.startswith("Heir(width=")
    assert (target.status, target.problems) == ("complete", ())


def test_a_class_that_leaves_a_method_to_subclasses_is_shown_by_one_that_has_it(worker, tmp_path):
    text = """
from torch import nn

class Term(nn.Module):
    def __init__(self, cutoff=5.0):
        super().__init__()
        self.cutoff = cutoff

    def forward(self, distances):
        return self.compute(distances) * (distances < self.cutoff)

    def compute(self, distances):
        \"\"\"Compute the terms; subclasses have this.\"\"\"
        raise NotImplementedError("subclasses have this")

class Squared(Term):
    def compute(self, distances):
        return distances.square()

class Unfinished(Term):
    def compute(self, distances):
        raise NotImplementedError(distances)
"""
    (tmp_path / ".git").mkdir()
    path = tmp_path / "terms.py"
    path.write_text(text)
    targets = {each.qualname: each for each in traced(worker, path).targets}
    assert targets["Term"].construct.expression == "Squared()"
    assert (targets["Term"].problems, targets["Term"].inputs is not None) == ((), True)
    assert targets["Unfinished"].construct.expression == "Unfinished()"


def test_a_subclass_that_shows_a_class_is_built_with_arguments_that_fit(worker, tmp_path):
    text = """
from torch import nn

class Block(nn.Module):
    def forward(self, x):
        return self.last(self.first(x)) + x

class Wide(Block):
    def __init__(self, before, width):
        super().__init__()
        self.first, self.last = nn.Conv2d(before, width, 1), nn.Conv2d(width, 4 * width, 1)
"""
    (tmp_path / ".git").mkdir()
    path = tmp_path / "blocks.py"
    path.write_text(text)
    (block, _) = traced(worker, path).targets
    assert (block.problems, block.inputs is not None) == ((), True)
    before, width = map(
        int, re.fullmatch(r"Wide\((?:before=)?(\d+), (?:width=)?(\d+)\)", block.construct.expression).groups()
    )
    assert before == 4 * width


@pytest.mark.parametrize("wrong", ["self.heads(self.body(x))", "self.head(self.bodies(x))"])
def test_what_subclasses_lack_as_well_is_a_mistake(worker, base, wrong):
    text = BASE.replace("self.head(self.body(x))", wrong)
    (target,) = traced(worker, base, text).targets
    assert [(each.code, "s'" in each.message) for each in target.problems] == [("FX009", True)]


def test_what_no_longer_runs_on_what_a_part_is_given_is_told_where_it_fails(own_worker, tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "net").mkdir()
    for name, text in (("head", HEAD), ("body", BODY), ("model", NET)):
        (tmp_path / "net" / f"{name}.py").write_text(text)
    path = tmp_path / "net" / "head.py"
    inputs = traced(own_worker, path).targets[0].inputs
    for width in ("self.width + 1", "self.width - 1"):
        text = HEAD.replace("columns, self.width)", f"columns, {width})")
        (problem,) = traced(own_worker, path, text).targets[0].problems
        assert (problem.code, problem.severity) == ("FX201", "warning")
        assert problem.location.span.line == HEAD[: HEAD.index("low.view")].count("\n") + 1
        assert f"it ran on `{inputs.expression}` before" in problem.explanation
    assert traced(own_worker, path).targets[0].problems == ()

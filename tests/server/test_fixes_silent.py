"""Fixes of silent errors: what is proposed, and that tracing the changed text says nothing of the error any more."""

import linecache
import textwrap
from types import ModuleType

import pytest
import torch

from fxengine import diagnose
from fxls.fixes.proposing import proposals
from fxls.fixes.source import Source
from fxls.fixes.verifying import changed
from fxworker.wire import Location, Problem, Span

HEAD = """import torch
import torch.nn.functional as F
from torch import nn

"""


def diagnosed(path: str, text: str):
    """What the engine says of the model `Net` in a text."""
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    module = ModuleType("model")
    module.__file__ = path
    exec(compile(text, path, "exec"), vars(module))
    return diagnose(module.Net(), user_paths=(path,)), module


def mended(name: str, body: str, code: str) -> list[tuple[str, str]]:
    """The first silent error's proposals that hold: titles, and the text after each."""
    path = f"<silent {name}>"
    text = f"{HEAD}{textwrap.dedent(body)}"
    diagnosis, _ = diagnosed(path, text)
    found = next(each for each in diagnosis.silent if each.code == code)
    problem = Problem(code, "warning", found.headline, Location(path, Span(*found.site.span)))
    source = Source.of(path, text)
    assert source is not None
    held = []
    for each in proposals(source, problem):
        after, _ = changed(source.mapper, each)
        again, _ = diagnosed(f"{path} after", after)
        if not again.problems and code not in {other.code for other in again.silent}:
            held.append((each.title, after))
    return held


@pytest.mark.parametrize(
    ("code", "body", "expected"),
    [
        (
            "FX301",
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.p = 0.5

                def forward(self, x):
                    return F.dropout(x + 1, self.p, training=self.training)
            """,
            ["self.p = 0.5\n        self.dropout = torch.nn.Dropout(self.p)\n", "return self.dropout(x + 1)"],
        ),
        (
            "FX301",
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.p = 0.5

                def forward(self, x):
                    return F.dropout(x + 1)
            """,
            ["self.p = 0.5\n        self.dropout = torch.nn.Dropout()\n", "return self.dropout(x + 1)"],
        ),
        (
            "FX302",
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.register_buffer("scale", torch.ones(3))

                def forward(self, x):
                    return x + torch.zeros(3, device=self.scale.device)
            """,
            ["return x + x.new_zeros(3, dtype=torch.float32)"],
        ),
        (
            "FX303",
            """
            class Net(nn.Module):
                def forward(self, x):
                    return x + torch.randn(2, 8)
            """,
            ["return x + x.new_empty(2, 8).normal_()"],
        ),
        (
            "FX305",
            """
            class Net(nn.Module):
                def forward(self, x, mask=None):
                    return x + 1
            """,
            ["def forward(self, x, _mask=None):"],
        ),
        (
            "FX306",
            """
            class Net(nn.Module):
                def forward(self, x):
                    if isinstance(x, torch.Tensor):
                        return x + 1
                    return x[0]
            """,
            ["if not isinstance(x, (tuple, list)):"],
        ),
        (
            "FX307",
            """
            class Net(nn.Module):
                def forward(self, x):
                    y = x.relu()
                    z = y.view(-1)
                    y += 1
                    return z
            """,
            ["y.add_(1)"],
        ),
        (
            "FX309",
            """
            class Net(nn.Module):
                def forward(self, x):
                    try:
                        count = len(x)
                    except RuntimeError:
                        count = 1
                    return x * count
            """,
            ["@torch.fx.wrap", "    except RuntimeError:\n        count = 1\n", "(x)\n        return x * count"],
        ),
        (
            "FX309",
            """
            import contextlib

            class Net(nn.Module):
                def forward(self, x):
                    scale = 1.0
                    with contextlib.suppress(TypeError):
                        scale = float(x.shape[0])
                    return x * scale
            """,
            ["@torch.fx.wrap", "    with contextlib.suppress(TypeError):\n        scale = float(x.shape[0])\n"],
        ),
    ],
)
def test_a_silent_error_is_mended(code: str, body: str, expected: list[str]) -> None:
    titles = mended(code, body, code)
    assert titles
    for part in expected:
        assert part in titles[0][1]


def test_a_function_is_registered_where_it_is_called() -> None:
    text = "import torch\n\nfrom helpers import clip\n\n\ndef forward(x):\n    return clip(x)\n"
    source = Source.of("a.py", text)
    assert source is not None
    problem = Problem("FX304", "warning", "", Location("a.py", Span(7, 11, 7, 18)))
    (proposal,) = proposals(source, problem)
    assert changed(source.mapper, proposal)[0].startswith(
        'import torch\n\nfrom helpers import clip\nimport torch.fx\n\ntorch.fx.wrap("clip")\n'
    )


def test_what_loads_torch_fx_in_another_way_is_not_imported_again() -> None:
    text = "import torch\nfrom torch import fx\nfrom helpers import clip\n\n\ndef forward(x):\n    return clip(x)\n"
    source = Source.of("a.py", text)
    assert source is not None
    (proposal,) = proposals(source, Problem("FX304", "warning", "", Location("a.py", Span(7, 11, 7, 18))))
    assert "import torch.fx" not in changed(source.mapper, proposal)[0]


def test_what_has_no_other_form_gets_no_proposal() -> None:
    line = "        return F.dropout(x, x.size(0), self.training)"
    text = f"{HEAD}\nclass Net(nn.Module):\n    def forward(self, x):\n{line}\n"
    source = Source.of("a.py", text)
    assert source is not None
    column = line.index("self.training")
    span = Span(8, column, 8, column + len("self.training"))
    assert source.expression(span) is not None
    assert not list(proposals(source, Problem("FX301", "warning", "", Location("a.py", span))))


def test_a_mended_dropout_follows_the_mode() -> None:
    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()

        def forward(self, x):
            return F.dropout(x, 0.5, self.training)
    """
    ((_, text),) = mended("mode", body, "FX301")
    diagnosis, module = diagnosed("<mode after>", text)
    model = module.Net()
    assert diagnosis.complete
    x = torch.ones(100)
    assert torch.equal(model.eval()(x), x)
    assert not torch.equal(model.train()(x), x)


def test_a_handler_in_a_function_of_its_own_answers_as_it_did() -> None:
    body = """
    class Net(nn.Module):
        def forward(self, x):
            try:
                count = {4: 2.0}[x.shape[0]]
            except KeyError:
                count = 1.0
            return x * count
    """
    ((_, text),) = mended("handler", body, "FX309")
    diagnosis, module = diagnosed("<handler after>", text)
    assert diagnosis.complete
    graph = torch.fx.symbolic_trace(module.Net())
    for rows in (3, 4):
        x = torch.ones(rows, 2)
        assert torch.equal(graph(x), module.Net()(x))


@pytest.mark.parametrize(
    "body",
    [
        """
        try:
            if x.sum() > 0:
                return x
        except Exception:
            pass
        return x * 2
        """,
        """
        try:
            x = x + 1
        except Exception:
            x = x[x.sum() > 0] if x.sum() else x
        return x
        """,
    ],
)
def test_a_handler_that_is_left_or_asks_itself_stays_where_it_is(body: str) -> None:
    text = (
        f"{HEAD}\nclass Net(nn.Module):\n    def forward(self, x):\n{textwrap.indent(textwrap.dedent(body), ' ' * 8)}"
    )
    source = Source.of("a.py", text)
    assert source is not None
    row = next(number for number, line in enumerate(text.splitlines(), 1) if "x.sum()" in line)
    column = text.splitlines()[row - 1].index("x.sum()")
    problem = Problem("FX309", "warning", "", Location("a.py", Span(row, column, row, column + len("x.sum()"))))
    assert not list(proposals(source, problem))

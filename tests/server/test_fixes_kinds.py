"""Fixes of what is taken for one value and is none: what is proposed for a text."""

import pytest

from fxls.fixes.proposing import proposals
from fxls.fixes.source import Source
from fxls.fixes.verifying import changed
from fxls.text.mapper import Mapper
from fxworker.wire import Location, Problem, Slip, SlipKind, Span
from tests.support.snapshots import PATH

HEAD = """from torch import nn


class Net(nn.Module):
    def __init__(self):
        self.parts = nn.ModuleList([nn.ReLU()])
        self.act = nn.ReLU

    def forward(self, x, h, c):
        """


def _cut(text: str, start: str, end: str) -> tuple[str, Span | None]:
    """A text without two marks, and the span between them."""
    if start not in text:
        return text, None
    begun, ended = text.index(start), text.index(end) - 1
    bare = text.replace(start, "").replace(end, "")
    mapper = Mapper(bare)
    return bare, Span(*mapper.at_offset(begun), *mapper.at_offset(ended))


def proposed(body: str, kind: SlipKind | None, name: str = "", original: str = "", code: str = "FX201") -> list[str]:
    """What the files are for a body that fails at « », with what comes from { }, behind the head."""
    marked, _ = _cut(HEAD + body, "{", "}")
    text, span = _cut(marked, "«", "»")
    _, made = _cut((HEAD + body).replace("«", "").replace("»", ""), "{", "}")
    assert span is not None
    slip = None if kind is None else Slip(kind, name, None if made is None else Location(PATH, made))
    problem = Problem(code, "warning", "does not fit", Location(PATH, span), original=original, slip=slip)
    source = Source.of(PATH, text)
    assert source is not None
    return [changed(source.mapper, each)[0] for each in proposals(source, problem)]


@pytest.mark.parametrize(
    ("body", "kind", "name", "after"),
    [
        (
            "y = {self.lstm(x)}\n        return «self.fc(y)»",
            "several",
            "",
            ["y = self.lstm(x)[0]\n        return self.fc(y)"],
        ),
        ("return «self.fc({self.lstm(x)})»", "several", "", ["return self.fc(self.lstm(x)[0])"]),
        (
            "h = «{self.cell(x, (h, c))}»\n        return h",
            "states",
            "",
            ["h, c = self.cell(x, (h, c))\n        return h"],
        ),
        (
            "«y, h, c» = {self.lstm(x)}\n        return y",
            "outputs",
            "",
            ["y, (h, c) = self.lstm(x)\n        return y"],
        ),
        (
            "y, «(h, c)» = {self.gru(x)}\n        return y",
            "state",
            "",
            ["y, h = self.gru(x)\n        return y"],
        ),
        (
            "y = {x.contiguous}\n        return «self.fc(y)»",
            "method",
            "",
            ["y = x.contiguous()\n        return self.fc(y)"],
        ),
        ("return «{x.size}[0]»", "method", "", ["return x.size(0)"]),
        (
            "y = self.fc\n        return «self.act(y)»",
            "part",
            "self.fc",
            ["y = self.fc(y)\n        return self.act(y)", "y = self.fc(x)\n        return self.act(y)"],
        ),
        ("return «self.act(self.fc)»", "part", "self.fc", ["return self.act(self.fc(x))"]),
    ],
)
def test_proposals_for_what_is_no_single_value(body, kind, name, after):
    assert [each.removeprefix(HEAD) for each in proposed(body, kind, name)][: len(after)] == after


def test_a_shape_that_is_called_is_indexed():
    (found,) = proposed("return «x.shape(0)»", None, original="TypeError: 'torch.Size' object is not callable")
    assert found == f"{HEAD}return x.shape[0]"


def test_a_list_that_is_called_becomes_a_sequence():
    (found,) = proposed("return «self.parts(x)»", "container", "self.parts")
    assert "self.parts = nn.Sequential(*[nn.ReLU()])" in found


def test_a_plain_list_that_is_called_becomes_a_sequence():
    body = "return «self.rows(x)»\n\n    def build(self):\n        self.rows = [nn.ReLU() for _ in range(2)]"
    (found,) = proposed(body, "container", "self.rows", code="FX009")
    assert "self.rows = nn.Sequential(*[nn.ReLU() for _ in range(2)])" in found


@pytest.mark.parametrize("code", ["FX001", "FX006", "FX008", "FX009", "FX102"])
def test_a_class_that_is_called_as_a_part_is_made(code):
    (found,) = proposed("return «self.act(x)»", None, code=code)[:1]
    assert "self.act = nn.ReLU()\n" in found


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ("«x.relu()»\n        return x", ["x = x.relu()\n        return x"]),
        ("«self.act(x)»\n        return x", ["x = self.act(x)\n        return x"]),
        ("«x.view(4).relu()»\n        return x", []),
        ("«x == h + c»\n        return x", ["x = h + c\n        return x"]),
        ("x = «self.act(x),»\n        return x", ["x = self.act(x)\n        return x"]),
        ("return «x.mean»", ["return x.mean()"]),
        ("return «print(x, h)»", ["print(x, h)\n        return x"]),
        ("x = «self.fc»\n        return x", ["x = self.fc(x)\n        return x"]),
        ("x = self.act(h)\n        return «self.act»", []),
        ("y = h + c\n        return «self.norm»", ["y = h + c\n        return self.norm(x)"]),
    ],
)
def test_proposals_for_what_is_lost(body, after):
    assert [each.removeprefix(HEAD) for each in proposed(body, None, code="FX311")][: len(after)] == after

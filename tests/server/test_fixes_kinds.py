"""Fixes of what is taken for one value and is none: what is proposed for a text."""

import pytest

from fxls.fixes.proposing import proposals
from fxls.fixes.source import Source
from fxls.fixes.verifying import changed
from fxls.text.mapper import Mapper
from fxworker.wire import MADE_HERE, Location, Problem, Related, Span
from tests.support.snapshots import PATH

HEAD = """from torch import nn


class Net(nn.Module):
    def __init__(self):
        self.parts = nn.ModuleList([nn.ReLU()])

    def forward(self, x, h, c):
        """
FOR_ONE = "takes them for one value: say which"


def _cut(text: str, start: str, end: str) -> tuple[str, Span | None]:
    """A text without two marks, and the span between them."""
    if start not in text:
        return text, None
    begun, ended = text.index(start), text.index(end) - 1
    bare = text.replace(start, "").replace(end, "")
    mapper = Mapper(bare)
    return bare, Span(*mapper.at_offset(begun), *mapper.at_offset(ended))


def proposed(body: str, message: str, original: str = "") -> list[str]:
    """What the files are for a body that fails at « », with what comes from { }, behind the head."""
    marked, _ = _cut(HEAD + body, "{", "}")
    text, span = _cut(marked, "«", "»")
    _, made = _cut((HEAD + body).replace("«", "").replace("»", ""), "{", "}")
    assert span is not None
    related = () if made is None else (Related(Location(PATH, made), MADE_HERE),)
    problem = Problem("FX201", "warning", message, Location(PATH, span), original=original, related=related)
    source = Source.of(PATH, text)
    assert source is not None
    return [changed(source.mapper, each)[0] for each in proposals(source, problem)]


@pytest.mark.parametrize(
    ("body", "message", "after"),
    [
        (
            "y = {self.lstm(x)}\n        return «self.fc(y)»",
            FOR_ONE,
            ["y = self.lstm(x)[0]\n        return self.fc(y)"],
        ),
        ("return «self.fc({self.lstm(x)})»", FOR_ONE, ["return self.fc(self.lstm(x)[0])"]),
        (
            "h = «{self.cell(x, (h, c))}»\n        return h",
            f"returns the states `(h, c)`, and the next call {FOR_ONE}",
            ["h, c = self.cell(x, (h, c))\n        return h"],
        ),
        (
            "«y, h, c» = {self.lstm(x)}\n        return y",
            "the states `(h, c)`, and is taken apart into more values",
            ["y, (h, c) = self.lstm(x)\n        return y"],
        ),
        (
            "y, «(h, c)» = {self.gru(x)}\n        return y",
            "an `nn.GRU` has no states `(h, c)`",
            ["y, h = self.gru(x)\n        return y"],
        ),
        (
            "y = {x.contiguous}\n        return «self.fc(y)»",
            "is given the method `x.contiguous` itself",
            ["y = x.contiguous()\n        return self.fc(y)"],
        ),
        ("return «{x.size}[0]»", "is given the method `x.size` itself", ["return x.size(0)"]),
        (
            "y = self.fc\n        return «self.act(y)»",
            "is given the part `self.fc` itself",
            ["y = self.fc(y)\n        return self.act(y)", "y = self.fc(x)\n        return self.act(y)"],
        ),
        ("return «self.act(self.fc)»", "is given the part `self.fc` itself", ["return self.act(self.fc(x))"]),
    ],
)
def test_proposals_for_what_is_no_single_value(body, message, after):
    assert [each.removeprefix(HEAD) for each in proposed(body, message)][: len(after)] == after


def test_a_shape_that_is_called_is_indexed():
    (found,) = proposed("return «x.shape(0)»", "does not fit", "TypeError: 'torch.Size' object is not callable")
    assert found == f"{HEAD}return x.shape[0]"


def test_a_list_that_is_called_becomes_a_sequence():
    (found,) = proposed("return «self.parts(x)»", "`self.parts` is an `nn.ModuleList`, which computes nothing itself")
    assert "self.parts = nn.Sequential(*[nn.ReLU()])" in found

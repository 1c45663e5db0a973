"""Parsing again after an edit gives the tree of the whole text, and keeps what the edit did not touch."""

import ast
import random
from typing import TYPE_CHECKING

import pytest

from fxworker.reparsing import parsed
from fxworker.slicing import Slice, slice_of

if TYPE_CHECKING:
    from fxworker.statements import Statement

TEXT = '''"""A net."""
from __future__ import annotations

import torch; from torch import nn

WIDTH = (
    8
)


@decorated(
    1)
class Net(nn.Module):
    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


if WIDTH > 4:
    other = helper()
else:
    other = [Net() for _ in range(2)]


def helper() -> Unknown:
    text = """
class Inside: pass
"""
    return Net(width=len(text))
'''

FRAGMENTS = (
    *("else:", "    x = 1", "x = 1", '"""', "(", ")", "if a:", "@dec", "  ", "", "# c", "\\", "+ 2", "except:", "try:"),
    *("finally: pass", "a = 1; b = (2,", "3)", "elif x: pass", "class Q: pass", "\tz", "x = 1 \\", "\f", "é = 'é'\r"),
)


def dump(tree: ast.Module) -> str:
    return ast.dump(tree, include_attributes=True)


@pytest.mark.parametrize("seed", range(8))
def test_any_edits_give_the_tree_of_the_whole_text(seed: int) -> None:
    choose = random.Random(seed)
    now = parsed("net.py", TEXT)
    for _ in range(150):
        lines = choose.choice((TEXT, now.text)).split("\n")
        for _ in range(choose.choice((1, 1, 2, 4))):
            at = choose.randrange(len(lines))
            fragment = choose.choice(FRAGMENTS)
            lines[at : at + choose.choice((0, 1))] = choose.choice(([fragment], [fragment], [lines[at] + fragment], []))
            lines = lines or [""]
        text = "\n".join(lines)
        try:
            expected = dump(ast.parse(text))
        except SyntaxError:
            with pytest.raises(SyntaxError):
                parsed("net.py", text, now)
            continue
        now = parsed("net.py", text, now)
        assert dump(now.tree) == expected


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        ("return self.layer(x)", "return self.layer(x) + 1", "import WIDTH other helper"),
        ("return self.layer(x)", "x = x\n        return self.layer(x)", "import WIDTH"),
        ("    return Net(width=len(text))\n", "    return Net(width=len(text))\n    pass\n", "import WIDTH Net other"),
        ("WIDTH > 4", "WIDTH > 5", "import WIDTH Net helper"),
    ],
)
def test_statements_that_an_edit_does_not_touch_are_the_same_nodes(old: str, new: str, kept: str) -> None:
    before = parsed("net.py", TEXT)
    after = parsed("net.py", TEXT.replace(old, new), before)
    names = ["doc", "future", "import", "from", "WIDTH", "Net", "other", "helper"]
    shared = {name for name, node in zip(names, before.tree.body, strict=True) if node in after.tree.body}
    assert shared == {"doc", "future", "from", *kept.split()}


def test_an_error_is_that_of_the_whole_text() -> None:
    with pytest.raises(SyntaxError) as caught:
        parsed("net.py", TEXT.replace("self.layer(x)", "self.layer(x"), parsed("net.py", TEXT))
    assert (caught.value.filename, caught.value.lineno) == ("net.py", 19)


@pytest.mark.parametrize("again", [False, True])
def test_a_slice_of_known_statements_is_that_of_new_ones(again: bool) -> None:
    known: dict[ast.stmt, Statement] = {}
    now = parsed("net.py", TEXT)
    for text in (TEXT, TEXT.replace("width, width", "width, helper()"), TEXT.replace("Unknown", "'nn.Module'"), TEXT):
        now = parsed("net.py", text, now)
        found = slice_of(now.tree, text, "net.py", ["Net"], again=again, known=known)
        assert described(found) == described(slice_of(ast.parse(text), text, "net.py", ["Net"], again=again))
        assert {*known} == {*now.tree.body}


def described(found: Slice) -> list[object]:
    return [
        (ast.dump(each.node), each.binds, each.changes, each.effect, each.now, each.later) for each in found.statements
    ]

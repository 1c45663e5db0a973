"""A text that is parsed in stretches has the tree that it has as a whole, and the same errors."""

import argparse
import ast
import dataclasses
import inspect
import random
import textwrap
import typing
import warnings
from types import ModuleType

import pytest

from fxls.discovery.parsing import parsed

FRAGMENTS = (
    *("class A:", "class A: pass", "def f(): pass", "@dec", "@dec(", "async def g(): pass", "    x = 1", "x = 1"),
    *('"""', "(", ")", "[", "if a:", "else:", "try:", "except E:", "    pass", "\\", "x = \\", "# c", "", "\f"),
    *("é = 1", "class A: pass\r", "x = 1\r", "\rclass B: pass", "    '''", "return", "@", "match a:", "  case 1: pass"),
)


def dump(tree: ast.Module) -> str:
    return ast.dump(tree, include_attributes=True)


@pytest.mark.parametrize("module", [argparse, dataclasses, inspect, textwrap, typing])
@pytest.mark.parametrize("length", [1, 7, 200])
def test_the_tree_is_that_of_the_whole_text(module: ModuleType, length: int) -> None:
    text = inspect.getsource(module)
    assert dump(parsed(text, length)) == dump(ast.parse(text))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(8))
def test_any_lines_give_the_tree_or_the_error_of_the_whole_text(seed: int) -> None:
    choose = random.Random(seed)
    seen = 0
    for _ in range(1500):
        text = "\n".join(choose.choices(FRAGMENTS, k=choose.randrange(1, 9)))
        try:
            expected = dump(ast.parse(text))
        except SyntaxError as error:
            with pytest.raises(SyntaxError) as raised:
                parsed(text, 1)
            wrong = str(error), error.offset
            assert (str(raised.value), raised.value.offset) == wrong
        else:
            assert dump(parsed(text, 1)) == expected
            seen += 1
    assert seen > 50


def test_a_long_text_is_read_in_more_than_one_stretch(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    whole = ast.parse

    def noted(text: str) -> ast.Module:
        read.append(text)
        return whole(text)

    monkeypatch.setattr(ast, "parse", noted)
    with warnings.catch_warnings():
        parsed(inspect.getsource(inspect))
    assert len(read) > 5
    assert all(len(each.lstrip("\n").split("\n")) < 1000 for each in read)

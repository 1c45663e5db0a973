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

from fxls.discovery.parsing import ensure_parses, parsed

FRAGMENTS = (
    *("class A:", "class A: pass", "def f(): pass", "@dec", "@dec(", "async def g(): pass", "    x = 1", "x = 1"),
    *('"""', "(", ")", "[", "if a:", "else:", "try:", "except E:", "    pass", "\\", "x = \\", "# c", "", "\f"),
    *("é = 1", "class A: pass\r", "x = 1\r", "\rclass B: pass", "    '''", "return", "@", "match a:", "  case 1: pass"),
    *("    def m(self): pass", "    @dec", "    async def n(self):", "        return 1", "if a: pass"),
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
            for read in (parsed, ensure_parses):
                with pytest.raises(SyntaxError) as raised:
                    read(text, 1)
                wrong = str(error), error.offset
                assert (str(raised.value), raised.value.offset) == wrong
        else:
            ensure_parses(text, 1)
            assert dump(parsed(text, 1)) == expected
            seen += 1
    assert seen > 50


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were handed to the parser."""
    read: list[str] = []
    whole = ast.parse

    def noted(text: str) -> ast.Module:
        read.append(text)
        return whole(text)

    monkeypatch.setattr(ast, "parse", noted)
    return read


def test_a_long_text_is_read_in_more_than_one_stretch(read: list[str]) -> None:
    with warnings.catch_warnings():
        parsed(inspect.getsource(inspect))
    assert len(read) > 5
    assert all(len(each.lstrip("\n").split("\n")) < 1000 for each in read)


def test_after_an_edit_only_what_was_edited_is_parsed(read: list[str]) -> None:
    text = inspect.getsource(inspect)
    ensure_parses(text)
    read.clear()
    at = text.index("def getmembers(")
    ensure_parses(text[:at] + "# a comment\n\n\n" + text[at:].replace("results = []", "results = [1]", 1))
    assert 1 <= len(read) <= 2
    assert sum(map(len, read)) < len(text) / 10


def test_a_class_of_hundreds_of_lines_is_not_parsed_at_each_edit(read: list[str]) -> None:
    long = "class A:\n" + "    x = [1, 2, 3]\n" * 2000
    ensure_parses(f"import a\n\n{long}\n\nclass B:\n    pass\n", 1)
    assert read
    assert all(len(each) < 100 for each in read)


def test_of_a_class_only_the_edited_methods_are_parsed(read: list[str]) -> None:
    method = "    def m{}(self):\n        # first\n" + "        x = 1\n" * 20
    text = "class A:\n" + "\n".join(method.format(number) for number in range(10))
    ensure_parses(text)
    assert all(each.count("def ") <= 2 for each in read)
    read.clear()
    ensure_parses(text.replace("def m4(self)", "def m4(self, y)"))
    assert [each.count("def ") for each in read] == [1]


def test_what_stands_below_a_decorator_over_several_lines_is_parsed_with_it(read: list[str]) -> None:
    text = "@made(\n    of=1,\n)\nclass A:\n    x = 1\n\n\n" * 3
    ensure_parses(text, 1)
    assert text not in read


def test_a_program_after_a_fault_was_taken_back_is_one() -> None:
    text = "class A: pass\n" * 100
    ensure_parses(text)
    with pytest.raises(SyntaxError):
        ensure_parses(text + "class B: (\n")
    ensure_parses(text + "class B: ()\n")

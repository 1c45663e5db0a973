"""Parsing a long text in stretches, so that the parser, which lets no other thread run, never holds one up for long.

A stretch ends where a class or a function begins at the top level. Its statements are those of the whole text there:
nothing else can begin in that way, and a stretch that ends inside of a string, a bracket or a statement is no program
by itself. Where one is none, the whole text is parsed, which is also what says where a text is wrong. Where only that
is asked, and soon after an edit, methods begin stretches as well.
"""

import ast
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

_LINES: Final = 200
"""Lines that a stretch has at least: they are parsed in two or three milliseconds."""

_FEW_LINES: Final = 12
"""The same where only what was edited is parsed, and where methods begin stretches, too."""

_LONGEST: Final = 16_000
"""Characters of a stretch above which it is left alone there: parsing it takes as long as a trace begins earlier."""

_MOST: Final = 20_000
"""Stretches of which it is remembered that they are programs."""

_BEGINNINGS: Final = ("class ", "def ", "async def ", "@")

_METHODS: Final = ("    def ", "    async def ", "    @")
_CLASS: Final = "class _:\n"
"""What methods stand in."""

_programs: Final[set[int]] = set()


def parsed(text: str, length: int = _LINES) -> ast.Module:
    """Return the syntax tree of a text.

    Raises:
        SyntaxError: The text is no program; the other errors of `ast.parse` are possible, too.
    """
    stretches = _stretches(text, length, _BEGINNINGS)
    if len(stretches) == 1:
        return ast.parse(text)
    body: list[ast.stmt] = []
    try:
        for start, stretch in stretches:
            body += ast.parse("\n" * start + stretch).body
    except (SyntaxError, ValueError):
        return ast.parse(text)
    return ast.Module(body, [])


def ensure_parses(text: str, length: int = _FEW_LINES) -> None:
    """Parse those stretches of a text that were not parsed before, which costs little after an edit.

    A long one, such as a method of hundreds of lines, is taken for a program, and that what stands around a method
    has its indentation.

    Raises:
        SyntaxError: The text is no program; the other errors of `ast.parse` are possible, too.
    """
    stretches = _stretches(text, length, _BEGINNINGS + _METHODS)
    programs = (_CLASS + each if start and each.startswith(_METHODS) else each for start, each in stretches)
    new = {hash(each): each for each in programs if len(each) <= _LONGEST}
    for key in _programs & new.keys():
        del new[key]
    try:
        for program in new.values():
            ast.parse(program)
    except (SyntaxError, ValueError):
        parsed(text)
        return
    if len(_programs) > _MOST:
        _programs.clear()
    _programs.update(new)


def _stretches(text: str, length: int, beginnings: tuple[str, ...]) -> list[tuple[int, str]]:
    """Return the stretches of a text, each with the index of its first line."""
    if "\r" in text and text.count("\r") != text.count("\r\n"):
        return [(0, text)]
    lines = text.split("\n")
    cuts = [0, *_cuts(lines, length, beginnings), len(lines)]
    return [(start, "\n".join(lines[start:end])) for start, end in pairwise(cuts)]


def _cuts(lines: list[str], length: int, beginnings: tuple[str, ...]) -> Iterator[int]:
    """Yield the indices of the lines that a stretch begins on, but for the first."""
    last = 0
    for index, line in enumerate(lines):
        if index - last >= length and line.startswith(beginnings) and not _is_awaited(lines, index):
            last = index
            yield index


def _is_awaited(lines: list[str], index: int) -> bool:
    """Whether what stands above a line wants it: a decorator, which may end with a bracket, or the head of a block.

    A method wants something above, too: what is indented as it is.
    """
    code = (each for each in lines[index - 1 :: -1] if each.strip() and not each.lstrip().startswith("#"))
    above = next(code, "")
    if lines[index].startswith(_METHODS) and not above.startswith("    "):
        return True
    return above.lstrip().startswith(("@", ")")) or above.partition("#")[0].rstrip().endswith(":")

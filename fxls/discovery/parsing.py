"""Parsing a long text in stretches, so that the parser, which lets no other thread run, never holds one up for long.

A stretch ends where a class or a function begins at the top level. Its statements are those of the whole text there:
nothing else can begin in that way, and a stretch that ends inside of a string, a bracket or a statement is no program
by itself. Where one is none, the whole text is parsed, which is also what says where a text is wrong.
"""

import ast
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

_LINES: Final = 200
"""Lines that a stretch has at least: they are parsed in two or three milliseconds."""

_FEW_LINES: Final = 40
"""The same where only what was edited is parsed."""

_LONGEST: Final = 16_000
"""Characters of a stretch above which it is left alone there: parsing it takes as long as a trace begins earlier."""

_MOST: Final = 20_000
"""Stretches of which it is remembered that they are programs."""

_BEGINNINGS: Final = ("class ", "def ", "async def ", "@")

_programs: Final[set[int]] = set()


def parsed(text: str, length: int = _LINES) -> ast.Module:
    """Return the syntax tree of a text.

    Raises:
        SyntaxError: The text is no program; the other errors of `ast.parse` are possible, too.
    """
    stretches = _stretches(text, length)
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

    A long one, such as a class of hundreds of lines, is taken for a program.

    Raises:
        SyntaxError: The text is no program; the other errors of `ast.parse` are possible, too.
    """
    new = {hash(stretch): stretch for _, stretch in _stretches(text, length) if len(stretch) <= _LONGEST}
    for key in _programs & new.keys():
        del new[key]
    try:
        for stretch in new.values():
            ast.parse(stretch)
    except (SyntaxError, ValueError):
        ast.parse(text)
        return
    if len(_programs) > _MOST:
        _programs.clear()
    _programs.update(new)


def _stretches(text: str, length: int) -> list[tuple[int, str]]:
    """Return the stretches of a text, each with the index of its first line."""
    if "\r" in text and text.count("\r") != text.count("\r\n"):
        return [(0, text)]
    lines = text.split("\n")
    cuts = [0, *_cuts(lines, length), len(lines)]
    return [(start, "\n".join(lines[start:end])) for start, end in pairwise(cuts)]


def _cuts(lines: list[str], length: int) -> Iterator[int]:
    """Yield the indices of the lines that a stretch begins on, but for the first."""
    last = 0
    for index, line in enumerate(lines):
        # What follows a decorator belongs to it, and that may have ended with a bracket.
        if index - last >= length and line.startswith(_BEGINNINGS) and not lines[index - 1].startswith(("@", ")")):
            last = index
            yield index

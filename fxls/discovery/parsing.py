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

_BEGINNINGS: Final = ("class ", "def ", "async def ", "@")


def parsed(text: str, length: int = _LINES) -> ast.Module:
    """Return the syntax tree of a text.

    Raises:
        SyntaxError: The text is no program; the other errors of `ast.parse` are possible, too.
    """
    lines = text.split("\n")
    has_plain_ends = text.count("\r") == text.count("\r\n")
    cuts = [0, *_cuts(lines, length), len(lines)]
    if len(cuts) == 2 or not has_plain_ends:
        return ast.parse(text)
    body: list[ast.stmt] = []
    try:
        for start, end in pairwise(cuts):
            body += ast.parse("\n" * start + "\n".join(lines[start:end])).body
    except (SyntaxError, ValueError):
        return ast.parse(text)
    return ast.Module(body, [])


def _cuts(lines: list[str], length: int) -> Iterator[int]:
    """Yield the indices of the lines that a stretch begins on, but for the first."""
    last = 0
    for index, line in enumerate(lines):
        # What follows a decorator belongs to it.
        if index - last >= length and line.startswith(_BEGINNINGS) and not lines[index - 1].startswith("@"):
            last = index
            yield index

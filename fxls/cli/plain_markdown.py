"""Our reports, which are Markdown, as plain text: tables aligned, links and code without their marks.

Reads the Markdown that we write ourselves, no other.
"""

import re
from collections.abc import Sequence
from typing import Final

from fxls.cli.terminal import width
from fxls.features.wording import shortened

_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_CODE: Final = re.compile(r"(`+) ?(.+?) ?\1")
_ESCAPE: Final = re.compile(r"\\([\\`*_{}\[\]()#+\-.!|<>~&$])")
_BORDER: Final = re.compile(r"^\|(?:\s*:?-+:?\s*\|)+\s*$")
_CELL_END: Final = re.compile(r"(?<!\\)\|")
_LONGEST_CELL: Final = 48


def plain(markdown: str) -> str:
    """Return a report as text for a terminal or a log."""
    lines = markdown.splitlines()
    written: list[str] = []
    row = 0
    while row < len(lines):
        if row + 1 < len(lines) and lines[row].startswith("|") and _BORDER.match(lines[row + 1]):
            end = row + 2
            while end < len(lines) and lines[end].startswith("|"):
                end += 1
            written.extend(_table(lines[row:end]))
            row = end
        else:
            line = lines[row]
            written.append(_inline(line.lstrip("#").strip() if line.startswith("#") else line))
            row += 1
    return "\n".join(written) + "\n"


def _table(lines: Sequence[str]) -> list[str]:
    """Return a table with columns as wide as they need to be, numbers on the right where the border says so."""
    rows = [[shortened(_inline(cell), _LONGEST_CELL) for cell in _cells(line)] for line in (lines[0], *lines[2:])]
    right = [cell.endswith(":") for cell in _cells(lines[1])]
    widths = [max(_width(row[column]) for row in rows if column < len(row)) for column in range(len(rows[0]))]
    written: list[str] = []
    for row in rows:
        cells = [
            " " * (wide - _width(cell)) + cell if on_the_right else cell + " " * (wide - _width(cell))
            for cell, wide, on_the_right in zip(row, widths, right, strict=False)
        ]
        written.append("  ".join(cells).rstrip())
    return written


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in _CELL_END.split(line.strip().strip("|"))]


def _inline(text: str) -> str:
    """Return a line without the marks of links, code and emphasis."""
    text = _LINK.sub(r"\1", text)
    text = _CODE.sub(lambda match: match[2], text)
    return _ESCAPE.sub(r"\1", text.replace("**", ""))


def _width(text: str) -> int:
    return sum(map(width, text))

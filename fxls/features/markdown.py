"""Markdown that shows text as it is, whatever the text contains."""

import json
import re
from typing import Final
from urllib.parse import quote

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>~&$])")
_TICKS: Final = re.compile(r"`+")


def escaped(text: str) -> str:
    """Return text that reads as itself: nothing in it is markup, and line ends are spaces."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def code(text: str) -> str:
    """Return text as inline code."""
    text = " ".join(text.split("\n"))
    ticks = "`" * (1 + max((len(match) for match in _TICKS.findall(text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{pad}{text}{pad}{ticks}" if text else ""


def prose(text: str) -> str:
    """Return text in which only `code` between backticks is markup; paragraphs and lines stay."""
    pieces: list[str] = []
    last = 0
    for match in re.finditer(r"`([^`\n]+)`", text):
        pieces.extend((_escaped_lines(text[last : match.start()]), match.group(0)))
        last = match.end()
    return "".join((*pieces, _escaped_lines(text[last:])))


def block(text: str, language: str = "python") -> str:
    """Return text as a fenced block."""
    fence = "`" * max(3, 1 + max((len(match) for match in _TICKS.findall(text)), default=0))
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def link(title: str, target: str) -> str:
    """Return a link; `title` is Markdown already."""
    return f"[{title}]({target.replace(')', '%29').replace('(', '%28').replace(' ', '%20')})"


def command_link(title: str, command: str, arguments: object) -> str:
    """Return a link that runs a command of the client with one argument."""
    return f"[{title}](command:{command}?{quote(json.dumps([arguments]), safe='')})"


def _escaped_lines(text: str) -> str:
    """Return text with its markup escaped; single line ends become hard ones."""
    lines = [_SPECIAL.sub(r"\\\1", line.rstrip()) for line in text.split("\n")]
    joined = "\n".join(lines)
    return re.sub(r"(?<!\n)\n(?!\n)", "  \n", joined) + (" " if text.endswith(" ") else "")

"""Parsing a file again after an edit: the statements that the edit did not touch are those of the tree before.

The lines that two texts have in common at their beginning and end are found by comparison; only what lies between them
is parsed, from the end of one top-level statement to the beginning of another. Such a stretch means the same by itself
as within its file, for a statement at the top level neither begins with a word that carries on the one above it nor
with a space. Where that cannot be told, or the stretch by itself is no program, the whole text is parsed.
"""

import ast
import warnings
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from operator import eq
from typing import Final

_SPACES: Final = (" ", "\t", "\f")


@dataclass(frozen=True, slots=True)
class Parsed:
    """A text, its lines without their ends, and its tree. The tree may share statements with those of other texts."""

    text: str
    lines: list[str]
    tree: ast.Module


def parsed(path: str, text: str, before: Parsed | None = None) -> Parsed:
    """Return a file's text with its tree, which keeps the nodes of an older text's statements that did not change.

    Raises:
        SyntaxError: The text is no program; the other errors of `ast.parse` are possible, too.
    """
    if before is not None and before.text == text:
        return before
    lines = text.split("\n")
    body = _shared_body(lines, before) if before is not None and _has_plain_ends(text, before.text) else None
    tree = _parse(path, text) if body is None else ast.Module(body, [])
    return Parsed(text, lines, tree)


def first_line(node: ast.stmt) -> int:
    """Return the line that a statement begins on, that of its first decorator if it has one."""
    return min((each.lineno for each in getattr(node, "decorator_list", ())), default=node.lineno)


def last_line(node: ast.stmt) -> int:
    """Return the line that a statement ends on."""
    return node.end_lineno or node.lineno


def _shared_body(lines: list[str], before: Parsed) -> list[ast.stmt] | None:
    """Return the statements of a text, those of an older one where they are the same; None where that fails."""
    head = _common(iter(lines), iter(before.lines))
    tail = _common(reversed(lines), reversed(before.lines))
    old = before.tree.body
    above = _above(old, lines, head)
    # Below a line that was inserted or removed every position is another.
    below = _below(old, len(lines) - tail, above) if len(lines) == len(before.lines) else len(old)
    start = last_line(old[above - 1]) if above else 0
    end = first_line(old[below]) - 1 if below < len(old) else len(lines)
    if end < len(lines) and lines[end - 1].endswith("\\"):
        return None
    try:
        changed = _parse("", "\n" * start + "\n".join(lines[start:end]) + "\n" * (end < len(lines)))
    except (SyntaxError, ValueError):
        return None
    return [*old[:above], *changed.body, *old[below:]]


def _above(body: list[ast.stmt], lines: list[str], head: int) -> int:
    """Return how many statements lie in the first `head` lines and are not carried on in the next ones."""
    count = bisect_right(body, head, key=last_line)
    begun = count < len(body) and first_line(body[count]) <= head
    if count and not begun and head < len(lines) and lines[head].startswith(_SPACES):
        count -= 1
    while count and (_shares_line(body, count) or lines[last_line(body[count - 1]) - 1].endswith("\\")):
        count -= 1
    return count


def _below(body: list[ast.stmt], changed: int, above: int) -> int:
    """Return the index of the first statement that begins below the first `changed` lines."""
    index = bisect_right(body, changed, lo=above, key=first_line)
    while _shares_line(body, index):
        index += 1
    return index


def _shares_line(body: list[ast.stmt], index: int) -> bool:
    """Whether a statement begins on the line that the one before it ends on."""
    return 0 < index < len(body) and first_line(body[index]) <= last_line(body[index - 1])


def _common(ours: Iterator[str], theirs: Iterator[str]) -> int:
    """Return how many lines two texts have in common from where the iterators begin."""
    same = bytes(map(eq, ours, theirs))
    first = same.find(0)
    return len(same) if first < 0 else first


def _has_plain_ends(*texts: str) -> bool:
    r"""Whether the lines of texts end as `split("\n")` sees it; a lone carriage return ends a line for Python."""
    return all(text.count("\r") == text.count("\r\n") for text in texts)


def _parse(path: str, text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text, path)

"""Comments that say what is done with the statement below: `# fx: run` and `# fx: vocab_size = 1000`.

The first lets a statement be executed that would otherwise not be, since it trains, downloads or reads a data set; it
may also stand behind the statement. The second is executed in its place. Nothing else is read here; comments that say
how a model is built and fed are the server's to find.
"""

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fxworker.reparsing import first_line, last_line

RUN: Final = "run"
"""What lets a statement be executed."""

_DIRECTIVE: Final = re.compile(r"^\s*#\s*fx:\s*(.*?)\s*$")
_BEHIND: Final = re.compile(r"#\s*fx:\s*run\s*$")
_COMMENT: Final = re.compile(r"^\s*#(.*)$")
_LONGEST: Final = 20
"""The most comment lines that one statement may take."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be done with a statement: execute it as it is, or execute something else in its place."""

    instead: ast.stmt | None = None


def orders_of(nodes: Sequence[ast.stmt], text: str) -> dict[ast.stmt, Order]:
    """Return the orders for statements, which stand in a text in this sequence."""
    if "fx:" not in text:
        return {}
    lines = text.split("\n")
    found: dict[ast.stmt, Order] = {}
    end = 0
    for node in nodes:
        order = _above(lines, end, first_line(node) - 1)
        if order is None and any(_BEHIND.search(lines[row - 1]) for row in (node.lineno, last_line(node))):
            order = Order()
        if order is not None:
            found[node] = order
        end = last_line(node)
    return found


def _above(lines: list[str], start: int, end: int) -> Order | None:
    """Return the last order in the comments that end right above a row."""
    row = end
    while row > start and (not lines[row - 1].strip() or lines[row - 1].lstrip().startswith("#")):
        row -= 1
    found: Order | None = None
    while row < end:
        match = _DIRECTIVE.match(lines[row])
        if match is not None and match[1] == RUN:
            found = Order()
        elif match is not None:
            instead = _assignment(match[1], lines[row + 1 : min(end, row + _LONGEST)], row + 1)
            found = Order(instead) if instead is not None else found
        row += 1
    return found


def _assignment(text: str, following: list[str], line: int) -> ast.stmt | None:
    """Return the assignment that a comment begins and the next ones may carry on, None where it is none."""
    for more in ("", *following):
        if more:
            comment = _COMMENT.match(more)
            if comment is None or _DIRECTIVE.match(more):
                return None
            text = f"{text} {comment[1].strip()}"
        try:
            body = ast.parse(text).body
        except (SyntaxError, ValueError):
            continue
        if len(body) == 1 and isinstance(body[0], ast.Assign | ast.AnnAssign):
            for node in ast.walk(body[0]):
                # All of it stands on the comment's line.
                if isinstance(node, ast.expr | ast.stmt | ast.keyword | ast.arg):
                    node.lineno = node.end_lineno = line
            return body[0]
        return None
    return None

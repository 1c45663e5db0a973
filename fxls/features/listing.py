"""Generated code with what is known of each line beside it: the value's shape and the line of the source."""

import re
from collections.abc import Callable
from typing import Final

from fxls.features.wording import result, shortened
from fxls.rules import stops_torch_fx
from fxworker.wire import Location, NodeInfo, TargetReport

_WIDEST: Final = 72
_WIDEST_NARROW: Final = 44
_NARROW: Final = 76
"""Characters of a line that an editor shows in a hover without folding it."""
_SHORTEST_NARROW: Final = 24
_LONGEST_RESULT: Final = 60
_FREED: Final = re.compile(r";  (?:\w+ = )+None$")
"""What the generated code does at the end of a line: it lets go of values that it no longer needs."""


def _as_traced(location: Location) -> int | None:
    return location.span.line


def listing(
    report: TargetReport, *, narrow: bool = False, line_of: Callable[[Location], int | None] = _as_traced
) -> list[str]:
    """Return the lines of a model's generated code with comments: `…  # f32[2, 768, 196]  line 89`.

    Comments stand below each other, but a long line carries its comment right behind it. A narrow listing is for
    hovers, where editors fold lines at 80 characters or so: it leaves out what frees values, and the ends of long
    lines. The code of a capture that ended early says so: `…  # FX001 in line 91`. Where the text was edited since,
    `line_of` says in which line a place is now, None where that is not known.
    """
    code = report.code.rstrip("\n").split("\n")
    if narrow:
        code = [_FREED.sub("", line) for line in code]
    comments = _comments(report, 0 if narrow else _column_width(report), line_of)
    if report.status == "partial" and not report.reached_end:
        _leave_open(code, comments, report, line_of)
    first = next((row for row, line in enumerate(code) if line.strip()), 0)
    rows = [(line, comments.get(row + 1, "")) for row, line in enumerate(code) if row >= first]
    if narrow:
        rows = [(shortened(line, _room(comment)), comment) for line, comment in rows]
    column = min(
        max((len(line) for line, comment in rows if comment), default=0), _WIDEST_NARROW if narrow else _WIDEST
    )
    return [f"{line:<{column}}  # {comment}" if comment else line for line, comment in rows]


def cut(lines: list[str], most: int) -> tuple[list[str], int]:
    """Return at most a number of lines, and how many are left out; one that alone would be left out is kept."""
    return (lines, 0) if len(lines) <= most + 1 else (lines[:most], len(lines) - most)


def _room(comment: str) -> int:
    """Return how much of a line is shown beside its comment, which may take all but some characters."""
    return max(_NARROW - len(comment) - 4, _SHORTEST_NARROW) if comment else _NARROW


def _comments(report: TargetReport, shapes: int, line_of: Callable[[Location], int | None]) -> dict[int, str]:
    """Return the comment of each line of the generated code; `shapes` is the width of what stands before the line."""
    comments: dict[int, str] = {}
    for node in report.nodes:
        if node.line is None:
            continue
        parts = (shortened(result(node), _LONGEST_RESULT), _source_line(node, line_of))
        comment = f"{parts[0]:<{shapes}}  {parts[1]}" if parts[1] else parts[0]
        if comment.strip():
            known = comments.get(node.line)
            comments[node.line] = comment.rstrip() if known is None else f"{known.rstrip()}; {comment.strip()}"
    return comments


def _leave_open(
    code: list[str], comments: dict[int, str], report: TargetReport, line_of: Callable[[Location], int | None]
) -> None:
    """Let the code of a capture that stopped end with where it did: what it returns is not what the model returns."""
    for node in report.nodes:
        if node.op == "output" and node.line is not None and node.line <= len(code):
            code[node.line - 1] = "    …"
            stops = [each for each in report.problems if stops_torch_fx(each.code)]
            alone = stops[0] if len(stops) == 1 else None
            line = line_of(alone.location) if alone is not None else None
            comments[node.line] = f"{alone.code} in line {line}" if alone and line else "it ends here"


def _column_width(report: TargetReport) -> int:
    return max((len(shortened(result(node), _LONGEST_RESULT)) for node in report.nodes), default=0)


def _source_line(node: NodeInfo, line_of: Callable[[Location], int | None]) -> str:
    line = line_of(node.origin.frames[-1].location) if node.origin and node.origin.frames else None
    return f"line {line}" if line else ""

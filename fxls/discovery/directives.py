"""Comment directives: `# fx: Net(dim=64)` and `# fx: inputs torch.randn(2, 64)`.

They stand on lines of their own above the class (or its decorators) that they speak of. One that stands elsewhere
belongs to the class that it calls by name. An expression may go on in the next comment lines until it is complete.
Expressions that never become complete are kept as they are: whoever evaluates them can say what is wrong.
"""

import ast
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fxls.discovery.syntax import dotted
from fxworker.wire import Construct, Inputs, Location, Span

_DIRECTIVE: Final = re.compile(r"^(\s*)#\s*fx:\s*(.*?)\s*$")
_COMMENT: Final = re.compile(r"^\s*#(.*)$")
_INPUTS: Final = re.compile(r"^inputs\b:?\s*")
_OTHERS: Final = re.compile(r"^(?:ignore\b|run$|[A-Za-z_]\w*(?:\s*:[^=]*)?\s*=(?!=))")
"""What is said about problems, and about statements: whether they are executed, and what is in their place."""

_LONGEST: Final = 20
"""The most comment lines that one expression may take."""


@dataclass(frozen=True, slots=True)
class Directive:
    """A directive: the expression, whether it feeds or builds, and its first and last line."""

    expression: str
    feeds: bool
    span: Span


@dataclass(slots=True)
class Directives:
    """The directives of a file by the target that they speak of."""

    constructs: dict[str, list[Construct]]
    inputs: dict[str, list[Inputs]]


def directives_of(
    path: str, lines: list[str], tree: ast.Module, headers: dict[int, str], names: Iterable[str]
) -> Directives:
    """Return the file's directives.

    `headers` maps the first line of each definition that can be traced to its qualified name; `names` are those that
    a directive may call from anywhere.
    """
    found = Directives({}, {})
    if not any("fx:" in line for line in lines):
        return found
    inside_strings = _string_lines(tree)
    known = frozenset(names)
    previous = ""
    row = 0
    while row < len(lines):
        match = None if row + 1 in inside_strings else _DIRECTIVE.match(lines[row])
        if match is None or _OTHERS.match(match.group(2)):
            row += 1
            continue
        directive, after = _read(lines, row, match)
        target = _below(lines, after, headers) or _called(directive, known) or (previous if directive.feeds else "")
        previous = target
        location = Location(path, directive.span)
        if target and directive.feeds:
            found.inputs.setdefault(target, []).append(Inputs(directive.expression, "directive", location))
        elif target:
            found.constructs.setdefault(target, []).append(Construct(directive.expression, "directive", location))
        row = after
    return found


def _read(lines: list[str], row: int, match: re.Match[str]) -> tuple[Directive, int]:
    """Return the directive that begins on a row, and the row after it."""
    text = match.group(2)
    feeds = _INPUTS.match(text)
    text = text[feeds.end() :] if feeds is not None else text
    column = len(match.group(1))
    for last in range(row, min(row + _LONGEST, len(lines))):
        if last > row:
            comment = _COMMENT.match(lines[last])
            if comment is None or _DIRECTIVE.match(lines[last]):
                break
            longer = f"{text} {comment.group(1).strip()}"
        else:
            longer = text
        if _parses(longer, feeds=feeds is not None):
            end = len(lines[last].rstrip().encode("utf-8", "surrogatepass"))
            return Directive(longer, feeds is not None, Span(row + 1, column, last + 1, end)), last + 1
        text = longer if last > row else text
    first_line = match.group(2)[feeds.end() :] if feeds is not None else match.group(2)
    end = len(lines[row].rstrip().encode("utf-8", "surrogatepass"))
    return Directive(first_line, feeds is not None, Span(row + 1, column, row + 1, end)), row + 1


def _parses(expression: str, *, feeds: bool) -> bool:
    """Whether a text is an expression, or, for inputs, the arguments of a call."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(f"_({expression})" if feeds else expression, mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def _below(lines: list[str], row: int, headers: dict[int, str]) -> str:
    """Return the definition that begins below a row with comments and empty lines alone between, "" for none."""
    while row < len(lines):
        if row + 1 in headers:
            return headers[row + 1]
        text = lines[row].strip()
        if text and not text.startswith("#"):
            return ""
        row += 1
    return ""


def _called(directive: Directive, names: frozenset[str]) -> str:
    """Return the known name that a directive's expression calls."""
    if directive.feeds or not _parses(directive.expression, feeds=False):
        return ""
    body = ast.parse(directive.expression, mode="eval").body
    while isinstance(body, ast.Call | ast.Attribute):
        name = dotted(body.func) if isinstance(body, ast.Call) else ""
        if name in names:
            return name
        body = body.func if isinstance(body, ast.Call) else body.value
    return ""


def _string_lines(tree: ast.Module) -> frozenset[int]:
    """Return the lines that begin inside a string, where `# fx:` is text."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno is not None:
            lines.update(range(node.lineno + 1, node.end_lineno + 1))
    return frozenset(lines)

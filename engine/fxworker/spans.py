"""Spans of source text by syntax: the expression on a line, an import of a name, the position of a syntax error."""

import ast

from fxworker.wire import Span


def of_node(node: ast.AST) -> Span:
    """Return the span of an expression, or of a statement without its decorators and body."""
    line, column = node.lineno, node.col_offset  # pyright: ignore[reportAttributeAccessIssue] — Statements and expressions have positions.
    end_line, end_column = node.end_lineno, node.end_col_offset  # pyright: ignore[reportAttributeAccessIssue] — As above.
    return Span(line, column, end_line or line, end_column if end_column is not None else column)


def of_line(lines: list[str], line: int) -> Span:
    """Return the span of a line's text without the space around it."""
    text = lines[line - 1].rstrip() if 0 < line <= len(lines) else ""
    start = len(text) - len(text.lstrip())
    return Span(line, len(text[:start].encode()), line, len(text.encode()))


def of_running(text: str, line: int) -> Span:
    """Return the span of what runs on a line: its only call if there is one, else its statement's first line."""
    lines = text.split("\n")
    whole = of_line(lines, line)
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return whole
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.lineno == line and node.end_lineno is not None
    ]
    outermost = [call for call in calls if not any(call is not other and _contains(other, call) for other in calls)]
    if len(outermost) == 1:
        return of_node(outermost[0])
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and node.lineno == line]
    if statements and not hasattr(statements[0], "body"):
        return of_node(statements[0])
    return whole


def of_syntax_error(error: SyntaxError, text: str) -> Span:
    """Return the span that a syntax error names; its offsets count characters from 1."""
    lines = text.split("\n")
    line = min(max(error.lineno or 1, 1), max(len(lines), 1))
    column = _bytes(lines, line, error.offset)
    end_line = error.end_lineno or line
    end_column = _bytes(lines, end_line, error.end_offset) if error.end_offset else column
    if (end_line, end_column) <= (line, column):
        end_line, end_column = (
            line,
            max(column + 1, len(lines[line - 1].rstrip().encode()) if column == 0 else column + 1),
        )
    return Span(line, column, end_line, end_column)


def _bytes(lines: list[str], line: int, offset: int | None) -> int:
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    return len(text[: max((offset or 1) - 1, 0)].encode())


def _contains(outer: ast.expr, inner: ast.expr) -> bool:
    start = (outer.lineno, outer.col_offset) <= (inner.lineno, inner.col_offset)
    end = (inner.end_lineno or 0, inner.end_col_offset or 0) <= (outer.end_lineno or 0, outer.end_col_offset or 0)
    return start and end

"""Comments that ignore problems: `# fx: ignore[FX001, FX301]`, and `# fx: ignore` for whatever is reported there.

Such a comment speaks of the line that it stands on. Where lines are joined by a backslash or by a string that goes over
several of them, only the last one can end with a comment, and that one speaks of them all.
"""

import ast
import re
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from fxls.discovery.index import Ignore, IgnoredCode
from fxls.discovery.syntax import first_line
from fxls.rules import selects_something
from fxls.text.mapper import Mapper
from fxls.text.scanning import STRING_OR_COMMENT
from fxworker.wire import Problem, Span, TraceReport

_IGNORE: Final = re.compile(r"#\s*fx:\s*ignore\b(?P<rest>[^#\r\n]*)")
_CODES: Final = re.compile(r"\s*\[(?P<codes>[^\]]*)\]")
_CODE: Final = re.compile(r"[^\s,]+")
_NO_BRACKETS: Final = re.compile(r"\s*(?:\[|:?\s*FX\d)")


def ignores_of(text: str, tree: ast.Module) -> tuple[Ignore, ...]:
    """Return the comments of a text that ignore problems, in its order."""
    if not mentions(text):
        return ()
    joints = _Joints(Mapper(text))
    found = ((start, each) for start, end in joints.comments for each in _IGNORE.finditer(text, start, end))
    # What is quoted in a comment is only spoken of.
    return tuple(
        _ignore(each, joints, tree)
        for start, each in found
        if each.start() == start or text[each.start() - 1].isspace()
    )


def mentions(text: str) -> list[str]:
    """Return what looks like such a comment, wherever it stands; equal ones in two texts are at most moved."""
    return [match[0] for match in _IGNORE.finditer(text)] if "ignore" in text else []


def without_ignored(report: TraceReport) -> TraceReport:
    """Return a report without the problems in other files that a comment there ignores.

    Those of the report's own text are for whoever has that text to compare. Reads the other files.
    """
    others = {
        each.location.path for target in report.targets for each in target.problems if each.location.path != report.path
    }
    ignores = {path: found for path in others if (found := _ignores_of_file(path))}
    if not ignores:
        return report
    return replace(
        report,
        targets=tuple(
            replace(target, problems=tuple(each for each in target.problems if not _is_ignored(each, ignores)))
            for target in report.targets
        ),
    )


def _ignores_of_file(path: str) -> tuple[Ignore, ...]:
    """Return a file's comments that ignore problems; each state of it is read once."""
    try:
        found = Path(path).stat()
    except (OSError, ValueError):  # What cannot be read ignores nothing.
        return ()
    return _ignores_read(path, found.st_mtime_ns, found.st_ctime_ns, found.st_size)


@lru_cache(maxsize=256)
def _ignores_read(path: str, *_state: int) -> tuple[Ignore, ...]:
    try:
        with tokenize.open(path) as file:
            text = file.read()
        return ignores_of(text, ast.parse(text)) if mentions(text) else ()
    except (OSError, SyntaxError, ValueError):
        return ()


def _is_ignored(problem: Problem, ignores: Mapping[str, tuple[Ignore, ...]]) -> bool:
    span = problem.location.span
    return any(
        ignore.covers(span) and (not ignore.codes or any(means(each, problem.code) for each in ignore.codes))
        for ignore in ignores.get(problem.location.path, ())
    )


def means(ignored: IgnoredCode, code: str) -> bool:
    """Whether a code in a comment is a problem's code, or the beginning of it."""
    return selects_something(ignored.code) and code.startswith(ignored.code)


def end_of_joined(mapper: Mapper, line: int) -> int:
    """Return the first line, from a line on, that can end with a comment: mostly that line itself."""
    joints = _Joints(mapper)
    last = line
    while joints.first(last + 1) <= last < mapper.line_count:
        last += 1
    return last


class _Joints:
    """Where lines belong together so that no comment fits between them; `comments` are those of the text."""

    def __init__(self, mapper: Mapper) -> None:
        self.mapper = mapper
        self.comments: list[tuple[int, int]] = []
        self._strings: dict[int, int] = {}
        self._commented: set[int] = set()
        for match in STRING_OR_COMMENT.finditer(mapper.text):
            if match[0].startswith("#"):
                self._commented.add(mapper.at_offset(match.start())[0])
                self.comments.append(match.span())
            elif "\n" in match[0] or "\r" in match[0]:
                self._strings[mapper.at_offset(match.end())[0]] = mapper.at_offset(match.start())[0]

    def first(self, line: int) -> int:
        """Return the first of the lines that are joined to a line and end with it."""
        while True:
            above = self._strings.get(line, line)
            if above == line and line - 1 not in self._commented and self.mapper.line(line - 1).endswith("\\"):
                above = line - 1
            if above == line:
                return line
            line = above


def _ignore(match: re.Match[str], joints: _Joints, tree: ast.Module) -> Ignore:
    mapper, rest = joints.mapper, match["rest"]
    row, _ = mapper.at_offset(match.start())
    end = match.start("rest") + len(rest.rstrip())
    written = _CODES.match(rest)
    offset = match.start("rest") + (written.start("codes") if written is not None else 0)
    codes = tuple(
        IgnoredCode(code[0], _span(mapper, offset + code.start(), offset + code.end()))
        for code in _CODE.finditer(written["codes"] if written is not None else "")
    )
    first = joints.first(row)
    block = _block(tree.body, row)
    before = mapper.line(row)[: match.start() - mapper.offset(row, 0)]
    return Ignore(
        span=_span(mapper, match.start(), end),
        first_line=first,
        codes=codes,
        readable=bool(codes) or (written is None and _NO_BRACKETS.match(rest) is None),
        alone=not before.strip() and (block is None or block.outside(row)),
        run=(min(first, block.start), block.end) if block is not None else (row, row),
    )


@dataclass(frozen=True, slots=True)
class _Block:
    """The lines from a statement to the end of what follows it in its block; `body` is where its own body begins."""

    start: int
    end: int
    body: int | None

    def outside(self, line: int) -> bool:
        """Whether a line of the statement holds nothing of its head, but lies between the lines of its body."""
        return self.body is not None and line >= self.body


def _block(body: list[ast.stmt], line: int) -> _Block | None:
    """Return the block of the innermost statement around a line.

    What a definition defines runs at another time than the statements after it, so its block is the definition.
    """
    for statement in body:
        start = first_line(statement)
        if not start <= line <= (statement.end_lineno or start):
            continue
        inside = list(_bodies(statement))
        for each in inside:
            found = _block(each, line)
            if found is not None:
                return found
        defines = isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        last = statement if defines else body[-1]
        first_inside = min((each[0].lineno for each in inside), default=None)
        return _Block(start, last.end_lineno or start, first_inside)
    return None


def _bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yield the blocks that a statement holds."""
    for name in ("body", "orelse", "finalbody"):
        statements: list[ast.stmt] = getattr(statement, name, [])
        if statements:
            yield statements
    for each in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield each.body


def _span(mapper: Mapper, start: int, end: int) -> Span:
    return Span(*mapper.at_offset(start), *mapper.at_offset(end))

"""Comments that ignore problems, held against what is reported: the problems without those, and comments of no use.

That a comment ignores nothing is said only where that is known: the whole file was traced, nothing was cut short, and
the statement that the comment stands on did run. A comment that can never ignore anything is a mistake in any case.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from fxls.discovery.ignores import end_of_joined, means
from fxls.discovery.index import Ignore, IgnoredCode
from fxls.features.places import PlacedProblem, Places
from fxls.rules import UNUSED_IGNORE, selects_something
from fxls.snapshot import Snapshot
from fxls.text.mapper import Mapper
from fxworker.wire import Edit, Fix, Location, Problem, Severity, Span

_INCOMPLETE: Final = frozenset({"FX101", "FX104", "FX105"})
"""Codes of a file that was not traced to its end."""


def sifted(snapshot: Snapshot, placed: Sequence[PlacedProblem]) -> list[PlacedProblem]:
    """Return the problems that no comment ignores, and one for each comment, or code in it, that ignores nothing."""
    ignores = snapshot.index.ignores
    if not ignores:
        return list(placed)
    used: set[int] = set()
    kept: list[PlacedProblem] = []
    for each in placed:
        ignoring = [] if each.found_here else list(_ignoring(ignores, each))
        used.update(map(id, ignoring))
        if not ignoring:
            kept.append(each)
    return [*kept, *_useless(snapshot, used)]


def ignored(snapshot: Snapshot, span: Span, code: str) -> Fix:
    """Return the edit that ignores a code at a span, in the coordinates of the current text.

    A comment that ignores other codes there is extended; other comments stay as they are.
    """
    mapper = snapshot.mapper
    line = end_of_joined(mapper, span.line)
    for ignore in snapshot.index.ignores:
        if ignore.span.line == line and ignore.codes:
            place = ignore.codes[-1].span
            end = Span(place.end_line, place.end_column, place.end_line, place.end_column)
            return _fix(f"Ignore {code} on this line", snapshot, end, f", {code}")
    text = mapper.line(line).rstrip(" \t\f")
    column = len(text.encode("utf-8", "surrogatepass"))
    end = Span(line, column, line, len(mapper.line(line).encode("utf-8", "surrogatepass")))
    return _fix(f"Ignore {code} on this line", snapshot, end, f"  # fx: ignore[{code}]")


def _ignoring(ignores: Iterable[Ignore], placed: PlacedProblem) -> Iterator[Ignore | IgnoredCode]:
    """Yield the comments that ignore a problem, or the codes in them."""
    for ignore in ignores:
        if ignore.covers(placed.span):
            if not ignore.codes:
                yield ignore
            yield from (each for each in ignore.codes if means(each, placed.problem.code))


def _useless(snapshot: Snapshot, used: set[int]) -> Iterator[PlacedProblem]:
    """Yield a problem for each comment that cannot, or does not, ignore anything."""
    mistaken: list[Ignore] = []
    for ignore in snapshot.index.ignores:
        if not ignore.readable:
            mistaken.append(ignore)
            yield _mistake(
                snapshot, ignore.span, "the codes to ignore stand in brackets: `# fx: ignore[FX001]`", ignore
            )
        elif ignore.alone:
            mistaken.append(ignore)
            message = "this ignores nothing: it belongs at the end of the line whose problem it ignores"
            yield _mistake(snapshot, ignore.span, message, ignore)
        else:
            for each in ignore.codes:
                if not selects_something(each.code):
                    yield _mistake(snapshot, each.span, f"`{each.code}` is no code of fxls", ignore, each)
    waiting = [each for each in snapshot.index.ignores if each not in mistaken]
    if waiting and _knows_everything(snapshot):
        ran = _ran(snapshot)
        for ignore in waiting:
            if any(first <= ignore.run[1] and ignore.run[0] <= last for first, last in ran):
                yield from _unused(snapshot, ignore, used)


def _unused(snapshot: Snapshot, ignore: Ignore, used: set[int]) -> Iterator[PlacedProblem]:
    """Yield what a comment on a statement that ran did not have to ignore."""
    if not ignore.codes:
        if id(ignore) not in used:
            yield _idle(snapshot, ignore.span, "nothing is reported here that this comment could ignore", ignore)
        return
    idle = [
        each
        for each in ignore.codes
        if id(each) not in used and selects_something(each.code) and snapshot.settings.level(each.code) != "off"
    ]
    if len(idle) == len(ignore.codes):
        names = " and ".join(each.code for each in idle)
        verb = "is" if len(idle) == 1 else "are"
        yield _idle(snapshot, ignore.span, f"{names} {verb} not reported here, so this comment ignores nothing", ignore)
        return
    for each in idle:
        yield _idle(snapshot, each.span, f"{each.code} is not reported here", ignore, each)


def _knows_everything(snapshot: Snapshot) -> bool:
    """Whether every model of the text was looked at to its end."""
    report = snapshot.report
    if report is None or not snapshot.fresh or not snapshot.index.parsed:
        return False
    if any(each.code in _INCOMPLETE and each.severity == "error" for each in report.problems):
        return False
    return all(each.status != "not traced" and not each.cut for each in report.targets)


def _ran(snapshot: Snapshot) -> list[tuple[int, int]]:
    """Return the first and last lines of the expressions that are known to have run."""
    return list({(span.line, span.end_line) for span in Places.of(snapshot).spans})


def _mistake(
    snapshot: Snapshot, span: Span, message: str, ignore: Ignore, code: IgnoredCode | None = None
) -> PlacedProblem:
    return _problem(snapshot, span, message, "warning", ignore, code)


def _idle(
    snapshot: Snapshot, span: Span, message: str, ignore: Ignore, code: IgnoredCode | None = None
) -> PlacedProblem:
    return _problem(snapshot, span, message, "hint", ignore, code)


def _problem(
    snapshot: Snapshot, span: Span, message: str, severity: Severity, ignore: Ignore, code: IgnoredCode | None
) -> PlacedProblem:
    rest = [each.code for each in ignore.codes if each is not code] if code is not None else []
    if rest and code is not None:
        inside = Span(
            ignore.codes[0].span.line,
            ignore.codes[0].span.column,
            ignore.codes[-1].span.end_line,
            ignore.codes[-1].span.end_column,
        )
        fix = _fix(f"Remove {code.code} from the comment", snapshot, inside, ", ".join(rest))
    else:
        fix = _fix("Remove the comment", snapshot, _whole(ignore, snapshot.mapper), "")
    problem = Problem(UNUSED_IGNORE, severity, message, Location(snapshot.path, span), fixes=(fix,))
    return PlacedProblem(problem, span, found_here=True)


def _fix(title: str, snapshot: Snapshot, span: Span, text: str) -> Fix:
    return Fix(title, (Edit(Location(snapshot.path, span), text),), verified=True)


def _whole(ignore: Ignore, mapper: Mapper) -> Span:
    """Return what goes with a comment: the space that set it off, and the line where nothing else stands on it."""
    span = ignore.span
    raw = mapper.line(span.line).encode("utf-8", "surrogatepass")
    before, after = raw[: span.column], raw[span.end_column :]
    if after.strip():
        return Span(span.line, span.column, span.line, len(raw) - len(after.lstrip()))
    if before.strip():
        return Span(span.line, len(before.rstrip()), span.line, len(raw))
    if span.line < mapper.line_count:
        return Span(span.line, 0, span.line + 1, 0)
    return Span(span.line, 0, span.line, len(raw))

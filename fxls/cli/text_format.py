"""Findings as a compiler shows them: place, message, the source line with carets, and what to do."""

from typing import Final

from fxls.cli.findings import FileFindings, Finding, Sources, counts
from fxls.cli.terminal import Paint, underlay, width
from fxls.features.status import captured
from fxls.features.wording import (
    answer,
    chain,
    consequence,
    depends_on_inputs,
    instances,
    plural,
    proofs,
    shortened,
    ways_out,
)
from fxworker.wire import Problem, Severity

_WIDEST: Final = 160
"""Columns of source that are shown; of a longer line, the part around the span."""
_MOST_RELATED: Final = 6
_LONGEST_LABEL: Final = 110
_LONGEST_ORIGINAL: Final = 130
_OF_THE_MODEL: Final = frozenset({"FX102", "FX103"})
"""Codes whose message names the model."""


def render(finding: Finding, sources: Sources, paint: Paint) -> str:
    """Return one finding with its source line."""
    problem, place = finding.problem, finding.place
    label = paint(problem.severity, f"{problem.severity}[{problem.code}]")
    head = f"{paint('strong', f'{place.path}:{place.line}:{place.column}')}: {label} {paint('strong', problem.message)}"
    gutter = " " * len(str(place.line))
    lines = [head, *_excerpt(finding, sources, paint, gutter)]
    for note in _notes(finding, sources):
        first, *more = note.split("\n")
        lines.append(f"{gutter} {paint('gutter', '=')} {first}")
        lines.extend(f"{gutter}   {line}" for line in more)
    return "\n".join(lines)


def cuts(files: list[FileFindings]) -> list[str]:
    """Return a line for each model that was not looked at in every way."""
    return [f"{file.shown}: {target.qualname}: {target.cut}" for file in files for target in file.targets if target.cut]


def summary(files: list[FileFindings], paint: Paint) -> str:
    """Return the last line: what was found in how many files and models."""
    numbers = counts(files)
    shown_severities: tuple[Severity, ...] = ("error", "warning")
    found = [paint(each, plural(numbers[each], each)) for each in shown_severities if numbers[each]]
    models = plural(sum(len(file.targets) for file in files), "model")
    what = f"{models} in {plural(len(files), 'file')}, {sum(captured(file.targets) for file in files)} captured"
    return f"{', '.join(found) or 'no problems'} · {what}"


def _excerpt(finding: Finding, sources: Sources, paint: Paint, gutter: str) -> list[str]:
    """Return the source line and carets under the span; of a span over several lines, the first."""
    place, problem = finding.place, finding.problem
    source = sources.mapper(problem.location.path).line(place.line)
    bar = paint("gutter", "|")
    if not source.strip():
        return []
    start = place.column - 1
    end = place.end_column - 1 if place.end_line == place.line else len(source.rstrip())
    end = min(max(end, start + 1), max(len(source), start + 1))
    source, start, end = _window(source, start, end)
    carets = "^" * max(sum(map(width, source[start:end])), 1)
    more = f" … to line {place.end_line}" if place.end_line > place.line else ""
    remark = f"{carets}{more} {_label(problem)}".rstrip()
    return [
        f"{gutter} {bar}",
        f"{paint('gutter', str(place.line))} {bar} {source}",
        f"{gutter} {bar} {underlay(source[:start])}{paint(problem.severity, remark)}",
    ]


def _window(source: str, start: int, end: int) -> tuple[str, int, int]:
    """Return the part of a long line around a span, and the span in it."""
    if len(source) <= _WIDEST:
        return source, start, end
    room = max(_WIDEST - (end - start), 0)
    first = max(min(start - room // 2, len(source) - _WIDEST), 0)
    last = min(first + _WIDEST, len(source))
    head, tail = "…" if first else "", "…" if last < len(source) else ""
    shift = len(head) - first
    return f"{head}{source[first:last]}{tail}", start + shift, min(end, last) + shift


def _label(problem: Problem) -> str:
    """Return what stands beside the carets: whether the value is metadata or data, and how it came about."""
    way, _ = _way_and_rest(problem)
    return ": ".join(part for part in (problem.kind, chain(way, _LONGEST_LABEL)) if part)


def _way_and_rest(problem: Problem) -> tuple[str, list[str]]:
    """Return the way of the value, which may begin the explanation, and the other lines of that."""
    lines = problem.explanation.splitlines()
    steps = {step.message for step in problem.related}
    if lines and (" → " in lines[0] or lines[0] in steps):
        return lines[0], lines[1:]
    return "", lines


def _notes(finding: Finding, sources: Sources) -> list[str]:
    """Return what is said below the source, one fact each."""
    problem = finding.problem
    _, notes = _way_and_rest(problem)
    if depends_on_inputs(problem):
        fed = f" ({finding.fed})" if finding.fed else ""
        notes.append(f"for the inputs in use{fed} {answer(problem)}{consequence(problem)}")
    if problem.count > 1:
        notes.append(f"in {instances(problem)}, of {', '.join(finding.targets) or 'the model'}")
    elif finding.targets and problem.code not in _OF_THE_MODEL:
        notes.append(f"in {', '.join(finding.targets)}")
    # The steps of a value's way stand beside the carets; those in other files say where it leads.
    elsewhere = [each for each in problem.related if each.location.path != problem.location.path]
    for step in elsewhere[:_MOST_RELATED]:
        place = sources.place(step.location)
        notes.append(f"{place.path}:{place.line}:{place.column}: {step.message}")
    notes.extend(_advice(problem))
    if problem.original and problem.original not in problem.message:
        notes.append(f"torch.fx: {shortened(_first_sentence(problem.original), _LONGEST_ORIGINAL)}")
    notes.append(f"docs/rules/{problem.code}")
    return [note for note in notes if note.strip()]


def _first_sentence(text: str) -> str:
    return text.partition("\n")[0].partition(". ")[0]


def _advice(problem: Problem) -> list[str]:
    """Return what to do, best first: fixes that are ready, then those in words."""
    known = proofs(problem)
    ways = [f"{way}{_mark(known.get(way, '')) if verified else ''}" for way, verified in ways_out(problem)]
    if not ways:
        return []
    if len(ways) == 1:
        return [f"hint: {ways[0]}"]
    numbered = [f"{number}. {way}" for number, way in enumerate(ways, 1)]
    return ["fixes: " + "\n       ".join(numbered)]


def _mark(proof: str) -> str:
    """Return the mark of a fix that was tried out, with what was found out then."""
    return f"  [verified: {proof}]" if proof else "  [verified]"

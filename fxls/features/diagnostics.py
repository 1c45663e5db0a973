"""Problems as LSP diagnostics: each on its expression in the current text, with its page and the steps that explain it.

A problem whose expression was edited since is not shown: the next trace says whether it is still there.
"""

import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from lsprotocol import types as lsp

from fxls.features.places import contains
from fxls.features.rules import rule_page
from fxls.snapshot import Snapshot
from fxls.text.uris import to_uri
from fxworker.wire import Problem, Related, Severity, Span

_SEVERITIES: Final[dict[Severity, lsp.DiagnosticSeverity]] = {
    "error": lsp.DiagnosticSeverity.Error,
    "warning": lsp.DiagnosticSeverity.Warning,
    "information": lsp.DiagnosticSeverity.Information,
    "hint": lsp.DiagnosticSeverity.Hint,
}
_STOPS_TORCH_FX: Final = re.compile(r"FX00\d")
_MOST_RELATED: Final = 12


@dataclass(frozen=True, slots=True)
class PlacedProblem:
    """A problem and its span in the current text. `targets` are the models in which it was met."""

    problem: Problem
    span: Span
    targets: tuple[str, ...]


def diagnostics(snapshot: Snapshot) -> list[lsp.Diagnostic]:
    """Return the diagnostics of a document, in the order of its text."""
    return [_diagnostic(snapshot, each) for each in problems(snapshot)]


def problems(snapshot: Snapshot) -> list[PlacedProblem]:
    """Return what is wrong in a document and where, each site once, in the order of the text."""
    if not snapshot.trusted:
        return []
    placed: dict[tuple[str, Span, str], PlacedProblem] = {}
    for reported in _reported(snapshot):
        span = _place(snapshot, reported)
        if span is None:
            continue
        problem = _with_severity(reported, strict=snapshot.settings.strict)
        key = (problem.code, span, problem.message)
        known = placed.get(key)
        if known is None:
            placed[key] = PlacedProblem(problem, span, (problem.target,) if problem.target else ())
        elif problem.target not in known.targets:
            # The count of the model in which the site is met most often is the one to tell.
            most = max(known.problem, problem, key=lambda each: each.count)
            placed[key] = PlacedProblem(most, span, (*known.targets, problem.target))
    return sorted(placed.values(), key=lambda each: (each.span.line, each.span.column, each.problem.code))


def problems_at(snapshot: Snapshot, point: tuple[int, int]) -> list[PlacedProblem]:
    """Return the problems whose span a point lies in."""
    return [each for each in problems(snapshot) if contains(each.span, point)]


def with_count(problem: Problem) -> str:
    """Return a problem's message, with the number of instances that reach the site."""
    return f"{problem.message} ({problem.count} instances)" if problem.count > 1 else problem.message


def _reported(snapshot: Snapshot) -> Iterable[Problem]:
    error = snapshot.index.syntax_error
    if error is not None and not _newer_python(snapshot):
        yield error
    if snapshot.report is None:
        return
    if error is None:
        yield from snapshot.report.problems
    for target in snapshot.report.targets:
        yield from target.problems


def _newer_python(snapshot: Snapshot) -> bool:
    """Whether the user's Python is newer than ours, so that what does not parse here may well do so there."""
    if snapshot.environment is None:
        return False
    theirs = re.match(r"(\d+)\.(\d+)", snapshot.environment.python)
    ours = tuple(map(int, platform.python_version_tuple()[:2]))
    return theirs is not None and (int(theirs[1]), int(theirs[2])) > ours


def _place(snapshot: Snapshot, problem: Problem) -> Span | None:
    """Return where a problem is shown.

    One in another file, reached from no expression of this one, is shown at the name of the model.
    """
    if problem is snapshot.index.syntax_error:
        return problem.location.span
    if problem.location.path == snapshot.path:
        return snapshot.located(problem.location.span)
    target = snapshot.index.target(problem.target)
    if target is not None:
        return target.name
    return Span(1, 0, 1, 0)


def _with_severity(problem: Problem, *, strict: bool) -> Problem:
    """Return the problem as the person wants to see it: in strict mode what stops torch.fx is an error."""
    if strict and problem.severity == "warning" and _STOPS_TORCH_FX.fullmatch(problem.code):
        return replace(problem, severity="error")
    return problem


def _diagnostic(snapshot: Snapshot, placed: PlacedProblem) -> lsp.Diagnostic:
    problem = placed.problem
    return lsp.Diagnostic(
        range=snapshot.mapper.range(placed.span),
        message=with_count(problem),
        severity=_SEVERITIES[problem.severity],
        code=problem.code,
        code_description=lsp.CodeDescription(rule_page(problem.code)),
        source="fxls",
        tags=[lsp.DiagnosticTag.Unnecessary] if problem.code == "FX305" else None,
        related_information=_related(snapshot, problem) or None,
        data={
            "code": problem.code,
            "targets": list(placed.targets),
            "kind": problem.kind,
            "original": problem.original,
            "digest": snapshot.report.digest if snapshot.report is not None else "",
        },
    )


def _related(snapshot: Snapshot, problem: Problem) -> list[lsp.DiagnosticRelatedInformation]:
    """Return the steps that lead to a problem; the library line first where the problem lies there."""
    steps = list(problem.related)
    if problem.location.path != snapshot.path:
        steps.insert(0, Related(problem.location, "raised here"))
    found: list[lsp.DiagnosticRelatedInformation] = []
    for step in steps:
        if step.location.path == snapshot.path:
            span = snapshot.located(step.location.span)
            if span is None:
                continue
            place = snapshot.mapper.range(span)
        else:
            place = _elsewhere(step.location.span)
        found.append(lsp.DiagnosticRelatedInformation(lsp.Location(to_uri(step.location.path), place), step.message))
    return found[:_MOST_RELATED]


def _elsewhere(span: Span) -> lsp.Range:
    """Return a span of a file whose text is not at hand; columns are exact where its line is ASCII."""
    return lsp.Range(
        lsp.Position(max(span.line - 1, 0), span.column), lsp.Position(max(span.end_line - 1, 0), span.end_column)
    )

"""Problems as LSP diagnostics: each on its expression, with its page and the steps that explain it."""

from collections.abc import Iterable
from typing import Final

from lsprotocol import types as lsp

from fxls.features.places import PlacedProblem
from fxls.features.problems import problems
from fxls.features.wording import headline
from fxls.rules import UNUSED_IGNORE, rule_page
from fxls.snapshot import Snapshot
from fxls.text.uris import to_uri
from fxworker.wire import Problem, Related, Severity, Span

_SEVERITIES: Final[dict[Severity, lsp.DiagnosticSeverity]] = {
    "error": lsp.DiagnosticSeverity.Error,
    "warning": lsp.DiagnosticSeverity.Warning,
    "information": lsp.DiagnosticSeverity.Information,
    "hint": lsp.DiagnosticSeverity.Hint,
}
_UNUSED_INPUT: Final = "FX305"
_MOST_RELATED: Final = 12


def diagnostics(snapshot: Snapshot) -> list[lsp.Diagnostic]:
    """Return the diagnostics of a document, in the order of its text."""
    return [_diagnostic(snapshot, each) for each in problems(snapshot)]


def elsewhere(found: Iterable[Problem]) -> list[lsp.Diagnostic]:
    """Return the diagnostics of a file whose text is not at hand, such as a project's configuration."""
    return [_of(each, _elsewhere(each.location.span)) for each in found]


def _diagnostic(snapshot: Snapshot, placed: PlacedProblem) -> lsp.Diagnostic:
    problem = placed.problem
    found = _of(problem, snapshot.mapper.range(placed.span))
    found.related_information = _related(snapshot, problem) or None
    found.data = {
        "code": problem.code,
        "targets": list(placed.targets),
        "kind": problem.kind,
        "original": problem.original,
        "digest": snapshot.report.digest if snapshot.report is not None else "",
    }
    return found


def _of(problem: Problem, place: lsp.Range) -> lsp.Diagnostic:
    idle = problem.code == UNUSED_IGNORE and problem.severity == "hint"
    return lsp.Diagnostic(
        range=place,
        message=headline(problem),
        severity=_SEVERITIES[problem.severity],
        code=problem.code,
        code_description=lsp.CodeDescription(rule_page(problem.code)),
        source="fxls",
        tags=[lsp.DiagnosticTag.Unnecessary] if idle or problem.code == _UNUSED_INPUT else None,
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

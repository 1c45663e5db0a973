"""What is wrong in a document, and where: each site once, as severe as the person wants it, without what they ignore.

A problem whose expression was edited since is left out: the next trace says whether it is still there.
"""

import platform
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final
from weakref import WeakKeyDictionary

from fxls.discovery.syntax import contains
from fxls.features.ignoring import sifted
from fxls.features.places import PlacedProblem
from fxls.features.wording import plural
from fxls.rules import stops_torch_fx
from fxls.settings import Settings
from fxls.snapshot import Snapshot
from fxls.syntactic import likely_problems
from fxworker.wire import Location, Problem, Span, TargetReport

_KNOWN: Final[WeakKeyDictionary[Snapshot, Sequence[PlacedProblem]]] = WeakKeyDictionary()
"""The problems of snapshots that somebody holds: several features ask for those of one."""


_NOT_BUILT: Final = "FX102"


@dataclass(frozen=True, slots=True)
class Tally:
    """How much is wrong with a model: problems of each kind, and what stops torch.fx but is not shown."""

    errors: int
    warnings: int
    ignored: int

    @classmethod
    def of(cls, found: Iterable[PlacedProblem], report: TargetReport) -> "Tally":
        """Return the tally of the problems of a model."""
        levels = Counter(each.problem.severity for each in found)
        shown = sum(stops_torch_fx(each.problem.code) for each in found)
        stops = {(each.code, each.location) for each in report.problems if stops_torch_fx(each.code)}
        return cls(levels["error"], levels["warning"], max(len(stops) - shown, 0))

    @property
    def facts(self) -> list[str]:
        """What there is, in words: `2 problems`, `1 warning`, `1 ignored`."""
        facts = [plural(self.errors, "problem")] if self.errors else []
        if self.warnings:
            facts.append(plural(self.warnings, "warning"))
        if self.ignored:
            facts.append(f"{self.ignored} ignored")
        return facts


def problems(snapshot: Snapshot) -> Sequence[PlacedProblem]:
    """Return what is wrong in a document and where, in the order of the text.

    Where nothing can be executed it is what the syntax alone lets expect, as hints.
    """
    known = _KNOWN.get(snapshot)
    if known is None:
        found = (wanted for each in sifted(snapshot, _placed(snapshot)) if (wanted := _wanted(each, snapshot.settings)))
        known = _KNOWN[snapshot] = sorted(found, key=lambda each: (each.span.line, each.span.column, each.problem.code))
    return known


def problems_at(snapshot: Snapshot, point: tuple[int, int]) -> list[PlacedProblem]:
    """Return the problems whose span a point lies in."""
    return [each for each in problems(snapshot) if contains(each.span, point)]


def problems_by_model(snapshot: Snapshot) -> dict[str, list[PlacedProblem]]:
    """Return the problems of each model, by its name; of a class inside which models are traced, those on its lines."""
    found = problems(snapshot)
    by_model: dict[str, list[PlacedProblem]] = {each.qualname: [] for each in snapshot.index.targets}
    for each in found:
        for name in each.targets:
            by_model.setdefault(name, []).append(each)
    for report in snapshot.report.targets if snapshot.report is not None else ():
        around = snapshot.index.model_class(report.qualname)
        if report.enclosed_by and around is not None:
            by_model[report.qualname] = [
                each for each in found if around.span.line <= each.span.line <= around.span.end_line and each.targets
            ]
    return by_model


def _placed(snapshot: Snapshot) -> list[PlacedProblem]:
    """Return what was reported, with its place in the current text, each site once."""
    placed: dict[tuple[str, Span, Location | str], PlacedProblem] = {}
    for problem in _reported(snapshot):
        span = _place(snapshot, problem)
        if span is None:
            continue
        found = PlacedProblem(
            problem,
            span,
            (problem.target,) if problem.target else (),
            found_here=problem is snapshot.index.syntax_error,
        )
        key = (problem.code, span, _site(problem))
        placed[key] = _together(placed[key], found) if key in placed else found
    return list(placed.values())


def _reported(snapshot: Snapshot) -> Iterable[Problem]:
    if not snapshot.trusted or (snapshot.environment is not None and snapshot.environment.problem):
        yield from likely_problems(snapshot.path, snapshot.text)
        return
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
        return snapshot.located(problem.location.span) if snapshot.report is not None else problem.location.span
    target = snapshot.index.target(problem.target)
    if target is not None:
        return target.name
    return Span(1, 0, 1, 0)


def _site(problem: Problem) -> Location | str:
    """Return what tells the problems at one place apart: the line of a library that a call led to, or what is said.

    What several models raise at one place while they are built is one problem.
    """
    frames = problem.origin.frames if problem.origin is not None else ()
    said = problem.original if problem.code == _NOT_BUILT else ""
    return frames[-1].location if frames else said or problem.message


def _together(one: PlacedProblem, other: PlacedProblem) -> PlacedProblem:
    """Return one problem for a site that was met in two models: what is known of it in either."""
    # Of inputs that are known more can be said, and the model that has most instances says how many there are.
    best = max(one.problem, other.problem, key=lambda each: (bool(each.value), each.count))
    values = {each.value: target for each, target in ((other.problem, other), (one.problem, one)) if each.value}
    if len(values) > 1:
        value = ", ".join(f"{value} in {placed.problem.target}" for value, placed in reversed(values.items()))
        best = replace(best, value=value)
    return replace(one, problem=best, targets=tuple(dict.fromkeys((*one.targets, *other.targets))))


def _wanted(placed: PlacedProblem, settings: Settings) -> PlacedProblem | None:
    """Return a problem as severe as the person wants it, None where it is switched off.

    In strict mode what stops torch.fx is an error.
    """
    problem = placed.problem
    level = settings.level(problem.code)
    if level == "off":
        return None
    if level is None and settings.strict and problem.severity == "warning" and stops_torch_fx(problem.code):
        level = "error"
    return placed if level in {None, problem.severity} else replace(placed, problem=replace(problem, severity=level))

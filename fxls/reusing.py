"""The reports of targets that an edit did not concern, at the places where their code is now.

The worker says which targets need no trace: all that their reports follow from is as it was. What they said is put into
the new report, every place in the edited file moved with the text around it. A place that an edit touched is not
guessed: then there is no such report, and the caller asks for one.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from fxls.text.edits import Carry
from fxworker.wire import (
    Construct,
    Edit,
    Fix,
    Frame,
    Inputs,
    Known,
    Location,
    Misfit,
    Origin,
    Problem,
    Related,
    Size,
    Slip,
    TargetReport,
    TraceReport,
    TraceTarget,
)

_Way = TypeVar("_Way", Construct, Inputs)
_Value = TypeVar("_Value")


class _TouchedError(Exception):
    """An edit touched a place that a report speaks of."""


def known_of(report: TraceReport) -> tuple[Known, ...]:
    """Return the targets of a report that need no further trace while what they follow from stays as it is."""
    return tuple(Known(each.qualname, each.key, each.status, each.encloses) for each in report.targets if each.key)


def completed(
    report: TraceReport, last: TraceReport | None, carry: Carry, targets: Iterable[TraceTarget]
) -> TraceReport | None:
    """Return a report with what an earlier one says of its unchanged targets; None where that cannot be told.

    Args:
        report: The new report.
        last: The earlier report.
        carry: The way from the earlier report's text to that of the new one.
        targets: The targets that were asked about.
    """
    if not any(each.unchanged for each in report.targets):
        return report
    known = {each.qualname: each for each in last.targets if each.key} if last is not None else {}
    asked = {each.qualname: each for each in targets}
    moving = _Moving(report.path, carry)
    try:
        found = [
            moving.target(known[each.qualname], asked[each.qualname]) if each.unchanged else each
            for each in report.targets
        ]
    except (KeyError, _TouchedError):
        return None
    assert last is not None
    # What a model imports while it runs is imported by its trace alone.
    dependencies = tuple(sorted({*report.dependencies, *last.dependencies}))
    return replace(report, targets=tuple(found), dependencies=dependencies)


class _Moving:
    """Moves what a report says to where its places are in another text. Keeps what it made: places occur many times."""

    def __init__(self, path: str, carry: Carry) -> None:
        self._path = path
        self._carry = carry
        self._made: dict[int, object] = {}

    def target(self, report: TargetReport, target: TraceTarget) -> TargetReport:
        """Return the report of a target."""
        return replace(
            report,
            name=target.name,
            construct=self._way(report.construct, target.constructs),
            inputs=self._way(report.inputs, target.inputs),
            nodes=tuple(replace(each, origin=self._once(each.origin, self._origin)) for each in report.nodes),
            problems=tuple(map(self._problem, report.problems)),
            guards=tuple(replace(each, location=self._once(each.location, self._location)) for each in report.guards),
            returned=tuple(replace(each, location=self._location(each.location)) for each in report.returned),
        )

    def _way(self, way: _Way | None, ways: tuple[_Way, ...]) -> _Way | None:
        """Return a way to build or to feed, where it stands now."""
        if way is None or way.location is None:
            return way
        same = (each for each in ways if each.expression == way.expression and each.source == way.source)
        return next(same, None) or replace(way, location=self._location(way.location))

    def _problem(self, problem: Problem) -> Problem:
        return replace(
            problem,
            location=self._location(problem.location),
            origin=self._once(problem.origin, self._origin),
            related=tuple(self._related(each) for each in problem.related),
            fixes=tuple(self._fix(each) for each in problem.fixes),
            misfit=self._misfit(problem.misfit),
            slip=self._slip(problem.slip),
        )

    def _misfit(self, misfit: Misfit | None) -> Misfit | None:
        return None if misfit is None else replace(misfit, sizes=tuple(map(self._size, misfit.sizes)))

    def _slip(self, slip: Slip | None) -> Slip | None:
        return slip if slip is None or slip.made is None else replace(slip, made=self._location(slip.made))

    def _size(self, size: Size) -> Size:
        return size if size.built is None else replace(size, built=self._location(size.built))

    def _related(self, related: Related) -> Related:
        return replace(related, location=self._location(related.location))

    def _fix(self, fix: Fix) -> Fix:
        return replace(fix, edits=tuple(Edit(self._location(each.location), each.text) for each in fix.edits))

    def _origin(self, origin: Origin) -> Origin:
        return replace(origin, frames=tuple(self._frame(each) for each in origin.frames))

    def _frame(self, frame: Frame) -> Frame:
        return replace(frame, location=self._location(frame.location))

    def _location(self, location: Location) -> Location:
        if location.path != self._path:
            return location
        span = self._carry.span(location.span)
        if span is None:
            raise _TouchedError
        return Location(location.path, span)

    def _once(self, value: _Value | None, move: Callable[[_Value], _Value]) -> _Value | None:
        """Return a value moved; one that was moved before is the same object as then."""
        if value is None:
            return None
        made = self._made.get(id(value))
        if made is None:
            made = self._made[id(value)] = move(value)
        return made  # pyright: ignore[reportReturnType] — What was made of this very value.

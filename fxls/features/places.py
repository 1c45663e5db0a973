"""Which nodes and targets of a report lie where in the current text."""

from collections.abc import Iterable, Iterator, KeysView
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary, finalize

from fxls.discovery.syntax import contains
from fxls.snapshot import Snapshot
from fxls.text.by_line import ByLine
from fxworker.wire import NodeInfo, Problem, Span, TargetReport, TraceReport


@dataclass(frozen=True, slots=True)
class Site:
    """A node that comes from expressions of the document, `number` among them, and the one that made it.

    The span of that expression is in the text that the report is of.
    """

    target: TargetReport
    node: NodeInfo
    innermost: Span
    number: int = 0


@dataclass(frozen=True, slots=True)
class PlacedProblem:
    """A problem and its span in the current text. `targets` are the models in which it was met.

    The places that the problem names itself are those of the text that the report is of; in one that was `found_here`
    they are those of the current text.
    """

    problem: Problem
    span: Span
    targets: tuple[str, ...] = ()
    found_here: bool = False


class Sites:
    """The nodes of a report by the expressions of its document that they come from, in the text that it is of.

    Attributes:
        at: The expressions, each with its nodes in the order of the report.
        by_line: The expressions.
    """

    def __init__(self, report: TraceReport) -> None:
        self.at: dict[Span, list[Site]] = {}
        # Places are shared and few beside the nodes.
        known: dict[int, list[Site] | None] = {}
        number = 0
        for target in report.targets:
            for node in target.nodes:
                innermost: Span | None = None
                found: list[list[Site]] = []
                for frame in node.origin.frames if node.origin is not None else ():
                    location = frame.location
                    made = known.get(id(location), _UNKNOWN)
                    if made is _UNKNOWN:
                        here = location.path == report.path
                        made = known[id(location)] = self.at.setdefault(location.span, []) if here else None
                    if made is not None:
                        innermost = location.span
                        found.append(made)
                if innermost is None:
                    continue
                site = Site(target, node, innermost, number)
                number += 1
                for made in found:
                    if not made or made[-1] is not site:
                        made.append(site)
        self.by_line: Final = ByLine(self.at, lambda each: each)

    @classmethod
    def of(cls, report: TraceReport) -> "Sites":
        """Return those of a report, which are found once."""
        known = _OF_REPORTS.get(id(report))
        if known is None:
            known = _OF_REPORTS[id(report)] = cls(report)
            finalize(report, _OF_REPORTS.pop, id(report)).atexit = False
        return known


class Places:
    """Where the expressions that nodes come from are in the current text; those that edits touched are nowhere."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.sites: Final = Sites.of(snapshot.report) if snapshot.report is not None else None
        self._carry: Final = snapshot.carry
        self._all: dict[Span, Span] | None = None

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Places":
        """Return those of a snapshot, which are found once."""
        known = _OF_SNAPSHOTS.get(snapshot)
        if known is None:
            known = _OF_SNAPSHOTS[snapshot] = cls(snapshot)
        return known

    @property
    def spans(self) -> KeysView[Span]:
        """The expressions."""
        return self._before.keys()

    def around(self, point: tuple[int, int]) -> dict[Span, Span]:
        """Return the expressions around a point, each with where it lies in the text that the report is of."""
        if self.sites is None:
            return {}
        near = self.sites.by_line.touching(*self._carry.lines_before(point[0], point[0]))
        return {now: span for now, span in self._located(near) if contains(now, point)}

    def before(self, span: Span) -> Span:
        """Return where one of the `spans` lies in the text that the report is of."""
        return self._before[span]

    def at(self, span: Span) -> list[Site]:
        """Return the nodes that come from one of the `spans`."""
        return self.sites.at[self._before[span]] if self.sites is not None else []

    @property
    def _before(self) -> dict[Span, Span]:
        if self._all is None:
            self._all = dict(self._located(self.sites.at if self.sites is not None else ()))
        return self._all

    def _located(self, spans: Iterable[Span]) -> Iterator[tuple[Span, Span]]:
        """Yield where expressions are now and were before, without those that edits touched."""
        for span in spans:
            now = self._carry.span(span)
            if now is not None:
                yield now, span


_UNKNOWN: Final[list[Site]] = []
_OF_REPORTS: Final[dict[int, Sites]] = {}
_OF_SNAPSHOTS: Final[WeakKeyDictionary[Snapshot, Places]] = WeakKeyDictionary()


def target_reports(snapshot: Snapshot) -> dict[str, TargetReport]:
    """Return the reports of the document's targets by their names."""
    return {} if snapshot.report is None else {each.qualname: each for each in snapshot.report.targets}


def extent(span: Span) -> tuple[int, int]:
    """Return a measure by which a span inside another one is the smaller one."""
    lines = span.end_line - span.line
    return lines, span.end_column - span.column if lines == 0 else span.end_column + 1


def overlaps(one: Span, other: Span) -> bool:
    """Whether two spans share a place; an empty one shares its own."""
    return (one.line, one.column) <= (other.end_line, other.end_column) and (other.line, other.column) <= (
        one.end_line,
        one.end_column,
    )

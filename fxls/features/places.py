"""Which nodes and targets of a report lie where in the current text."""

from collections.abc import Iterator
from dataclasses import dataclass

from fxls.snapshot import Snapshot
from fxworker.wire import Location, NodeInfo, Origin, Problem, Span, TargetReport


@dataclass(frozen=True, slots=True)
class Site:
    """A node and the expressions of this document that it comes from, outermost call first."""

    target: TargetReport
    node: NodeInfo
    spans: tuple[Span, ...]

    @property
    def innermost(self) -> Span:
        """The expression that made the node."""
        return self.spans[-1]


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


def sites(snapshot: Snapshot) -> Iterator[Site]:
    """Yield the nodes that come from expressions of this document; those that edits touched are left out."""
    if snapshot.report is None:
        return
    here = _Here(snapshot)
    for target in snapshot.report.targets:
        for node in target.nodes:
            spans = here.spans(node.origin) if node.origin is not None else ()
            if spans:
                yield Site(target, node, spans)


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


class _Here:
    """Maps the origins of a report to the document. They are shared and few beside the nodes, so answers are kept."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._origins: dict[int, tuple[Span, ...]] = {}
        self._locations: dict[int, Span | None] = {}

    def spans(self, origin: Origin) -> tuple[Span, ...]:
        """Return the expressions of this document that an origin names, outermost first."""
        known = self._origins.get(id(origin))
        if known is None:
            found = (self._span(frame.location) for frame in origin.frames)
            known = self._origins[id(origin)] = tuple(span for span in found if span is not None)
        return known

    def _span(self, location: Location) -> Span | None:
        key = id(location)
        if key not in self._locations:
            self._locations[key] = self._snapshot.here(location)
        return self._locations[key]

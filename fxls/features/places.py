"""Which nodes and targets of a report lie where in the current text."""

from collections.abc import Iterable, Iterator
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
    here = _Here(snapshot)
    for target, node in _nodes(snapshot):
        spans = here.spans(node.origin) if node.origin is not None else ()
        if spans:
            yield Site(target, node, spans)


def spans(snapshot: Snapshot) -> dict[Span, list[Location]]:
    """Return the expressions of this document that nodes come from, each with the places of the report that name it.

    It is cheap beside `sites`: nodes that come from the same place share it.
    """
    frames = (frame for _, node in _nodes(snapshot) if node.origin is not None for frame in node.origin.frames)
    found: dict[Span, list[Location]] = {}
    for location in {id(frame.location): frame.location for frame in frames}.values():
        span = snapshot.here(location)
        if span is not None:
            found.setdefault(span, []).append(location)
    return found


def sites_from(snapshot: Snapshot, locations: Iterable[Location]) -> Iterator[Site]:
    """Yield the nodes that come from places of the report, which are told apart by identity."""
    asked = {id(each) for each in locations}
    here = _Here(snapshot)
    for target, node in _nodes(snapshot):
        if node.origin is not None and any(id(frame.location) in asked for frame in node.origin.frames):
            yield Site(target, node, here.spans(node.origin))


def _nodes(snapshot: Snapshot) -> Iterator[tuple[TargetReport, NodeInfo]]:
    for target in snapshot.report.targets if snapshot.report is not None else ():
        for node in target.nodes:
            yield target, node


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

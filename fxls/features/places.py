"""Which nodes and targets of a report lie where in the current text."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from fxls.snapshot import Snapshot
from fxworker.wire import NodeInfo, Problem, Span, TargetReport


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


class Places:
    """The nodes of a report that come from expressions of a document, those left out that edits touched.

    Attributes:
        sites: The nodes with their expressions, in the order of the report.
        spans: The expressions. Equal ones are one object here and in the sites.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        nodes = [(target, node, node.origin) for target, node in _nodes(snapshot) if node.origin is not None]
        # Places are shared and few beside the nodes.
        locations = {id(frame.location): frame.location for _, _, origin in nodes for frame in origin.frames}
        known: dict[Span, Span] = {}
        here: dict[int, Span | None] = {}
        for key, location in locations.items():
            span = snapshot.here(location)
            here[key] = known.setdefault(span, span) if span is not None else None
        self.spans = known.keys()
        self.sites: list[Site] = []
        for target, node, origin in nodes:
            spans = tuple([span for span in [here[id(frame.location)] for frame in origin.frames] if span is not None])
            if spans:
                self.sites.append(Site(target, node, spans))

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Places":
        """Return those of a snapshot, which are found once."""
        known = _KNOWN.get(snapshot)
        if known is None:
            known = _KNOWN[snapshot] = cls(snapshot)
        return known

    def at(self, span: Span) -> list[Site]:
        """Return the nodes that come from one of the `spans`."""
        return [site for site in self.sites if any(each is span for each in site.spans)]


_KNOWN: Final[WeakKeyDictionary[Snapshot, Places]] = WeakKeyDictionary()


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

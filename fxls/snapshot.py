"""The frozen view that features read: one document's text, what is in it, and the last answers about it.

A snapshot never changes and never waits. Its report may have been computed from an older text of the document: then
`located` carries a span of the report's text to the current text, or says that the edit touched it.
"""

from dataclasses import dataclass

from fxls.discovery.index import ModelIndex
from fxls.settings import Settings
from fxls.text.edits import Carry
from fxls.text.mapper import Mapper
from fxworker.wire import EnvironmentReport, Location, ProfileReport, Span, TraceReport


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Snapshot:
    """One document at one version. One is equal to itself alone, so that what follows from it can be remembered.

    Invariants:
    - `mapper` maps positions of `text`, and `index` was computed from the last text that parsed, carried to `text`.
    - `carry` leads from the text of `report` to `text`.
    - `current` says that the report still answers for this document: no code changed since, only comments and blank
      space, nor any file that it imports.
    - `sandboxed` says that the document is to run in the sandbox, as far as `environment` has one.
    """

    uri: str
    path: str
    version: int | None
    text: str
    digest: str
    mapper: Mapper
    index: ModelIndex
    settings: Settings
    report: TraceReport | None
    carry: Carry
    environment: EnvironmentReport | None
    profiles: tuple[ProfileReport, ...]
    trusted: bool
    sandboxed: bool = True
    current: bool = True

    @property
    def fresh(self) -> bool:
        """Whether there is a report that answers for this text; its spans are carried all the same."""
        return self.report is not None and self.current

    def located(self, span: Span) -> Span | None:
        """Return where a span of the report's text lies in the current text, None where an edit touched it."""
        return self.carry.span(span)

    def line_of(self, location: Location) -> int | None:
        """Return the line in which a location of the report is now, None where an edit touched it."""
        if location.path != self.path:
            return location.span.line
        span = self.carry.span(location.span)
        return span.line if span is not None else self.carry.line(location.span.line)

    def here(self, location: Location) -> Span | None:
        """Return the current span of a location of the report if it lies in this document, else None."""
        return self.located(location.span) if location.path == self.path else None

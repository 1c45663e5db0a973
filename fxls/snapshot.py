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


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One document at one version.

    Invariants:
    - `mapper` maps positions of `text`, and `index` was computed from the last text that parsed, carried to `text`.
    - `carry` leads from the text of `report` to `text`; it is the identity where `fresh`.
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

    @property
    def fresh(self) -> bool:
        """Whether the report was computed from exactly this text."""
        return self.report is not None and self.report.digest == self.digest

    def located(self, span: Span) -> Span | None:
        """Return where a span of the report's text lies in the current text, None where an edit touched it."""
        return self.carry.span(span)

    def here(self, location: Location) -> Span | None:
        """Return the current span of a location of the report if it lies in this document, else None."""
        return self.located(location.span) if location.path == self.path else None

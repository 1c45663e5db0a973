"""One open document: its text, what is in it, and the last answers about it, carried along as the person edits."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum, auto

from lsprotocol import types as lsp

from fxls.discovery.finding import with_ignores
from fxls.discovery.ignores import mentions
from fxls.discovery.index import ModelIndex
from fxls.reusing import completed, known_of
from fxls.settings import Settings
from fxls.snapshot import Snapshot
from fxls.text.edits import Carry, Change, apply_changes
from fxls.text.mapper import Mapper
from fxls.text.uris import names_file, to_path
from fxls.trivia import Layout
from fxworker.texts import digest
from fxworker.wire import (
    LATER,
    EnvironmentReport,
    Known,
    Location,
    Problem,
    ProfileReport,
    ProfileRow,
    TargetReport,
    TraceReport,
    TraceRequest,
)


class Effect(Enum):
    """What an edit, or looking at what it made of the text, means for what is known."""

    NONE = auto()
    """The text is the same."""
    LAYOUT = auto()
    """Comments and blank space changed: what is known holds, at other places."""
    TEXT = auto()
    """Something else changed: the models have to be looked for again."""
    CODE = auto()
    """The code is another: what is known is of an older text."""
    RESTORED = auto()
    """The text is again the one that the report was computed from."""
    BROKEN = auto()
    """The text does not parse; there is nothing to trace."""


class Document:
    """An open document. Mutable; belongs to the session.

    Invariants:
    - `mapper` and `digest` are those of `text`; `index` is, too, or was carried to it when somebody asked.
    - `current` says that `report` was computed from this text or from one with the same code.
    - A report becomes the document's only through `answer`, and only if the text it was computed from was the
      document's at the time of the last `asked`.
    """

    def __init__(self, uri: str, version: int | None, text: str, encoding: str) -> None:
        self.uri = uri
        self.path = to_path(uri)
        self.version = version
        self.text = text
        self.digest = digest(text)
        self.mapper = Mapper(text, encoding)
        self.saved = ""
        self.environment: EnvironmentReport | None = None
        self.report: TraceReport | None = None
        self.current = False
        self.asked_at = math.inf
        self._valid = False
        self._layout = Layout()
        self._found = ModelIndex(self.path)
        self._found_carry = Carry.identity()
        self._index: ModelIndex | None = None
        self._encoding = encoding
        self._carry = Carry.identity()
        self._asked = Carry.identity()
        self._asked_digest = ""
        self._answer: TraceReport | None = None
        self._asked_from: tuple[TraceReport | None, Carry] = None, Carry.identity()
        self._profiles: dict[tuple[str, str], ProfileReport] = {}

    @property
    def index(self) -> ModelIndex:
        """The models of the last text in which they were looked for, at the places where they are now."""
        if self._index is None:
            carry = self._found_carry
            self._index = self._found.carried(carry) if carry.replacements else self._found
        return self._index

    @property
    def known(self) -> tuple[Known, ...]:
        """The targets whose reports hold as long as what they follow from in the text does."""
        return known_of(self._answer) if self._answer is not None and self._valid else ()

    @property
    def in_file(self) -> bool:
        """Whether the document is that of a file; an editor's new one, which has no name yet, is not."""
        return names_file(self.path)

    @property
    def unsaved(self) -> bool:
        """Whether the text differs from the file on disk."""
        return self.digest != self.saved

    def change(self, version: int | None, events: Sequence[lsp.TextDocumentContentChangeEvent]) -> Effect:
        """Apply the client's edits."""
        old, (self.mapper, changes) = self.mapper, apply_changes(self.mapper, events)
        self.version = version
        if self.mapper.text == self.text:
            return Effect.NONE
        self.text = self.mapper.text
        self.digest = digest(self.text)
        layout = self._layout.changes(old, self.mapper) if self._found.parsed and not self._failed else None
        self._move(changes if layout is None else layout)
        if layout is not None:
            if any(mentions(old.source(each.span)) or mentions(each.text) for each in layout):
                self._take(with_ignores(self.index, self.text))
            return Effect.LAYOUT
        self._layout = Layout()
        self.current = False
        return Effect.TEXT

    def indexed(self, found: ModelIndex) -> Effect:
        """Take the models that are in the current text; one that does not parse keeps what was known."""
        if not found.parsed:
            self._take(replace(self._found, parsed=False, syntax_error=found.syntax_error), self._found_carry)
            return Effect.BROKEN
        self._take(found)
        if self._valid and not self._failed and self.report is not None and self.report.digest == self.digest:
            self._carry = Carry.identity()
            self.current = True
            return Effect.RESTORED
        return Effect.CODE

    def asked(self) -> str:
        """Note that the current text is being traced; its digest names the answer."""
        self._asked = Carry.identity()
        self._asked_digest = self.digest
        self._asked_from = self._answer, self._carry
        self.asked_at = time.time()
        return self.digest

    def completed(self, report: TraceReport, request: TraceRequest) -> TraceReport | None:
        """Return a report with what is known of its unchanged targets; None where an edit touched that."""
        return completed(report, *self._asked_from, request.targets)

    def early(self, report: TraceReport, settings: Settings) -> Snapshot | None:
        """Return the document with what is known before its report, for diagnostics alone; None if that came too late.

        Problems that are found later are those of the last report until the next one says whether they are there.
        """
        if report.digest != self._asked_digest:
            return None
        # Their places are known where the text is still the one that was asked about.
        last = () if self.report is None or self._asked.replacements else self.report.targets
        known = {each.qualname: tuple(self._known_later(each)) for each in last}
        targets = [
            replace(each, problems=_with(each.problems, known.get(each.qualname, ()))) for each in report.targets
        ]
        snapshot = self.snapshot(settings, trusted=True)
        return replace(snapshot, report=replace(report, targets=tuple(targets)), carry=self._asked, current=True)

    def answer(self, report: TraceReport) -> bool:
        """Take a report, if it is that of the text that was asked about last; says whether it was."""
        if report.digest != self._asked_digest:
            return False
        self.report = self._answer = report
        self._carry = self._asked
        self.current = self._valid = True
        return True

    def mended(self, report: TraceReport, fixed: TraceReport) -> None:
        """Take a report once more, with the fixes that were found for its problems since."""
        if self.report is report:
            self.report = fixed

    def measured(self, profile: ProfileReport) -> None:
        """Keep a profile: the last one of each model and device."""
        self._profiles[profile.target, profile.device] = profile

    def profile(self, target: str, device: str) -> ProfileReport | None:
        """Return the last profile of a model on a device."""
        return self._profiles.get((target, device))

    def outdated(self) -> None:
        """Note that a file changed that the report depends on."""
        self.current = self._valid = False

    def forget(self) -> None:
        """Drop the report: what it says is no longer to be shown."""
        self.report = self._answer = None
        self.outdated()
        self._asked_digest = ""

    def snapshot(self, settings: Settings, *, trusted: bool, sandboxed: bool = True) -> Snapshot:
        """Return the document as the features see it."""
        return Snapshot(
            uri=self.uri,
            path=self.path,
            version=self.version,
            text=self.text,
            digest=self.digest,
            mapper=self.mapper,
            index=self.index,
            settings=settings,
            report=self.report,
            carry=self._carry,
            current=self.current,
            environment=self.environment,
            profiles=tuple(self._profiles.values()),
            trusted=trusted,
            sandboxed=sandboxed,
        )

    @property
    def _failed(self) -> bool:
        """Whether the last trace came to no end by itself: any edit may ask for another then."""
        return self.report is not None and any(each.code in {"FX104", "FX105"} for each in self.report.problems)

    def _take(self, found: ModelIndex, carry: Carry | None = None) -> None:
        """Take the models of a text, from which a carry leads to the current one; without, they are of the latter."""
        self._found, self._found_carry, self._index = found, carry or Carry.identity(), None

    def _known_later(self, report: TargetReport) -> Iterator[Problem]:
        """Yield the problems of a report that an early one does not tell, at the places where they are now."""
        for problem in report.problems:
            later = problem.code.startswith(LATER) and problem.location.path == self.path
            span = self._carry.span(problem.location.span) if later else None
            if span is not None:
                yield replace(problem, location=Location(self.path, span), origin=None, related=(), misfit=None)

    def _move(self, changes: Sequence[Change]) -> None:
        """Carry what is known along."""
        step = Carry.identity().then(changes)
        self._take(self._found, self._found_carry.then(changes))
        self._carry = self._carry.then(changes)
        self._asked = self._asked.then(changes)
        self._profiles = {key: _moved(profile, self.path, step) for key, profile in self._profiles.items()}


def _with(problems: tuple[Problem, ...], known: tuple[Problem, ...]) -> tuple[Problem, ...]:
    """Return problems with those that are known and not among them."""
    told = {(each.code, each.location.span) for each in problems}
    return (*problems, *(each for each in known if (each.code, each.location.span) not in told))


def _moved(profile: ProfileReport, path: str, step: Carry) -> ProfileReport:
    """Return a profile whose rows lie where the edits moved them; a row that an edit touched lies nowhere."""
    return replace(profile, rows=tuple(_moved_row(row, path, step) for row in profile.rows))


def _moved_row(row: ProfileRow, path: str, step: Carry) -> ProfileRow:
    if row.location is None or row.location.path != path:
        return row
    span = step.span(row.location.span)
    return replace(row, location=None if span is None else Location(path, span))

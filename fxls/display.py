"""What the editor shows of the session's documents: diagnostics and the status, each told once.

Nothing here decides what is true of a document; it is handed snapshots and remembers which of it is on the screen.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from lsprotocol import types as lsp

from fxls.features.diagnostics import diagnostics, elsewhere
from fxls.features.status import status
from fxls.lsp_ext import Status
from fxls.snapshot import Snapshot
from fxls.text.uris import to_uri
from fxworker.wire import Problem

_SEEN: Final = 0.2
"""Seconds of work after which it is shown: a state that comes and goes with each keystroke is noise."""


class Client(Protocol):
    """What the session tells the editor."""

    def publish(self, uri: str, version: int | None, found: list[lsp.Diagnostic]) -> None:
        """Show a document's diagnostics."""
        ...

    def refresh(self) -> None:
        """Ask for code lenses and inlay hints anew."""
        ...

    def status(self, status: Status) -> None:
        """Show how things are."""
        ...

    def warn(self, message: str) -> None:
        """Tell the person something that they should change."""
        ...


class Display:
    """What is shown. Mutable; belongs to the session.

    Invariants: diagnostics are published with the version of the text that their positions are of.
    """

    def __init__(self, client: Client) -> None:
        self.active = ""
        """The document that the person is at, "" where there is none: the status tells of it."""
        self._client = client
        self._shown: dict[str, tuple[int | None, list[lsp.Diagnostic]]] = {}
        self._mistakes: dict[str, tuple[Problem, ...]] = {}
        self._warned: set[str] = set()
        self._patience: asyncio.TimerHandle | None = None
        self._said: Status | None = None

    def show(self, snapshot: Snapshot) -> None:
        """Show what is known of a document."""
        self.publish(snapshot)
        self.tell(snapshot)

    def publish(self, snapshot: Snapshot) -> None:
        """Publish the diagnostics of a document, unless they are what is shown."""
        found = snapshot.version, diagnostics(snapshot)
        if self._shown.get(snapshot.uri) != found:
            self._shown[snapshot.uri] = found
            self._client.publish(snapshot.uri, *found)

    def forget(self, uri: str) -> None:
        """Take away what is shown of a document."""
        self._shown.pop(uri, None)
        self._client.publish(uri, None, [])

    def mistakes(self, wrong: Mapping[str, tuple[Problem, ...]]) -> None:
        """Publish what is wrong in configuration files, by their paths, and take away what no longer is."""
        for path in self._mistakes.keys() | wrong.keys():
            if self._mistakes.get(path) != wrong.get(path):
                self._client.publish(to_uri(path), None, elsewhere(wrong.get(path, ())))
        self._mistakes = dict(wrong)

    def refresh(self) -> None:
        """Ask for what the editor has asked about before: that is another now."""
        self._client.refresh()

    def tell(self, snapshot: Snapshot) -> None:
        """Show the state of a document, if it is the one that the person is at."""
        if snapshot.uri == self.active:
            self._hush()
            self.say(status(snapshot))

    def begin(self, uri: str, still: Callable[[], Snapshot | None]) -> None:
        """Show that a document is being worked on, if that takes long enough to be seen.

        Args:
            uri: The document.
            still: Returns it as it is then; None if nothing is done for it any more.
        """

        def shown() -> None:
            self._patience = None
            snapshot = still() if uri == self.active else None
            if snapshot is not None:
                self.say(status(snapshot, tracing=True))

        if uri == self.active and self._patience is None:
            self._patience = asyncio.get_running_loop().call_later(_SEEN, shown)

    def say(self, status: Status) -> None:
        """Show a status that is not shown yet."""
        if status != self._said:
            self._said = status
            self._client.status(status)

    def warn(self, message: str) -> None:
        """Tell the person something once."""
        if message not in self._warned:
            self._warned.add(message)
            self._client.warn(message)

    def close(self) -> None:
        """Show nothing more of what is being done."""
        self._hush()

    def _hush(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

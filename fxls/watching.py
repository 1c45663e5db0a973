"""Files on disk that traces depend on: who depends on what, and telling when one of them changes.

The folders of the files are watched by the operating system as far as that is cheap; files in further folders are
looked at from time to time. Changes that come close together, as those of a checkout, are told together.
"""

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

if TYPE_CHECKING:
    from watchdog.observers.api import BaseObserver, ObservedWatch

_log = logging.getLogger(__name__)

_QUIET: Final = 0.1
"""Seconds without a change after which changes are told."""

_LONGEST_WAIT: Final = 1.0
"""Seconds after which changes are told although more keep coming."""

_FOLDERS: Final = 24
"""Folders that are watched; each takes two threads of watchdog's."""

_POLL: Final = 2.0
"""Seconds between two looks at the files whose folders are not watched."""


class Watcher:
    """Tells which files changed that owners depend on. Mutable; belongs to one event loop.

    Invariants: `changed` is called on the event loop, with paths that some owner depends on at that time.
    """

    def __init__(self, changed: Callable[[frozenset[str]], None]) -> None:
        self._changed = changed
        self._owned: dict[str, frozenset[str]] = {}
        self._files: Counter[str] = Counter()
        self._observer: BaseObserver | None = None
        self._watches: dict[str, ObservedWatch] = {}
        self._polled: dict[str, float | None] = {}
        self._poll_timer: asyncio.TimerHandle | None = None
        self._told: set[str] = set()
        self._tell_timer: asyncio.TimerHandle | None = None
        self._first_told = 0.0

    def depend(self, owner: str, paths: Iterable[str]) -> None:
        """Replace the files that an owner depends on."""
        paths = frozenset(paths)
        before = self._owned.get(owner, frozenset())
        if paths == before:
            return
        self._files.subtract(before)
        self._files.update(paths)
        self._files = +self._files
        if paths:
            self._owned[owner] = paths
        else:
            self._owned.pop(owner, None)
        self._follow()

    def owners(self, paths: Iterable[str]) -> list[str]:
        """Return the owners that depend on any of these files."""
        changed = frozenset(paths)
        return [owner for owner, owned in self._owned.items() if not owned.isdisjoint(changed)]

    def close(self) -> None:
        """Stop watching."""
        for timer in (self._poll_timer, self._tell_timer):
            if timer is not None:
                timer.cancel()
        self._poll_timer = self._tell_timer = None
        if self._observer is not None:
            self._observer.stop()
            self._observer = None

    def _follow(self) -> None:
        """Watch the folders with the most files, poll the rest."""
        folders = Counter(os.path.dirname(path) for path in self._files)  # noqa: PTH120 — thousands of plain strings.
        wanted = {folder for folder, _ in folders.most_common(_FOLDERS)}
        for folder in [each for each in self._watches if each not in wanted]:
            watch = self._watches.pop(folder)
            if self._observer is not None:
                self._observer.unschedule(watch)
        for folder in wanted.difference(self._watches):
            self._watch(folder)
        polled = {path for path in self._files if os.path.dirname(path) not in self._watches}  # noqa: PTH120 — as above.
        self._polled = {path: self._polled.get(path, _modified(path)) for path in polled}
        if self._polled and self._poll_timer is None:
            self._poll_timer = asyncio.get_running_loop().call_later(_POLL, self._poll)

    def _watch(self, folder: str) -> None:
        try:
            if self._observer is None:
                self._observer = Observer()
                self._observer.daemon = True
                self._observer.start()
            self._watches[folder] = self._observer.schedule(_Events(self._seen_from_thread()), folder)
        except OSError as error:
            _log.info("%s cannot be watched and is polled: %s", folder, error)

    def _seen_from_thread(self) -> Callable[[str], None]:
        loop = asyncio.get_running_loop()

        def seen(path: str) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._seen, path)

        return seen

    def _seen(self, path: str) -> None:
        """Note a change. It is told when it has been quiet for a moment."""
        if path not in self._files:
            return
        loop = asyncio.get_running_loop()
        if not self._told:
            self._first_told = loop.time()
        self._told.add(path)
        if self._tell_timer is not None:
            self._tell_timer.cancel()
        latest = self._first_told + _LONGEST_WAIT
        self._tell_timer = loop.call_at(min(loop.time() + _QUIET, latest), self._tell)

    def _tell(self) -> None:
        told, self._told = frozenset(path for path in self._told if path in self._files), set()
        self._tell_timer = None
        if told:
            self._changed(told)

    def _poll(self) -> None:
        self._poll_timer = None
        for path, before in self._polled.items():
            now = _modified(path)
            if now != before:
                self._polled[path] = now
                self._seen(path)
        if self._polled:
            self._poll_timer = asyncio.get_running_loop().call_later(_POLL, self._poll)


class _Events(FileSystemEventHandler):
    """Passes on the paths that an event names; opening and reading a file is no change."""

    def __init__(self, seen: Callable[[str], None]) -> None:
        self._seen = seen

    def on_any_event(self, event: FileSystemEvent) -> None:
        if event.is_directory or event.event_type not in {"created", "modified", "moved", "deleted"}:
            return
        for path in (event.src_path, getattr(event, "dest_path", "")):
            if path:
                self._seen(_text(path))


def _text(path: Any) -> str:
    return os.fsdecode(path)


def _modified(path: str) -> float | None:
    """Return when a file was changed, None where there is none."""
    try:
        return os.stat(path).st_mtime  # noqa: PTH116 — thousands of plain strings.
    except OSError:
        return None

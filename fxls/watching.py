"""Files on disk that traces depend on: who depends on what, and telling when one of them changes.

The folders of the files are watched by the operating system as far as that is cheap; files in further folders, and in
those of other machines, are looked at from time to time. So are the watched folders themselves: one that was moved
away, or removed and made anew, tells nothing any more. Changes that come close together, as those of a checkout, are
told together.
"""

import asyncio
import contextlib
import itertools
import logging
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

from fxls.mounts import is_remote, kinds_now

if TYPE_CHECKING:
    from watchdog.observers.api import BaseObserver, ObservedWatch

_log = logging.getLogger(__name__)

_QUIET: Final = 0.1
"""Seconds without a change after which changes are told."""

_LONGEST_WAIT: Final = 1.0
"""Seconds after which changes are told although more keep coming."""

_FOLDERS: Final = 24
"""Folders that are watched; each takes two threads of watchdog's."""

_GRAIN: Final = 0.02
"""Seconds by which the times of files lag behind the clock at most."""

_POLL: Final = 2.0
"""Seconds between two looks at the files whose folders are not watched, and at the folders that are."""

_AT_ONCE: Final = 100
"""Files that are looked at before whoever waits has a turn; it takes less than a millisecond."""

_BETWEEN: Final = 0.005
"""Seconds between that and the next ones."""

_Mark: TypeAlias = tuple[int, ...]
"""What is another when a file or folder is another, or has changed."""


@dataclass(frozen=True, slots=True)
class _Watch:
    """A folder that the system watches, and which one it was when that began."""

    watch: "ObservedWatch"
    folder: _Mark | None


class Watcher:
    """Tells which files changed that owners depend on. Mutable; belongs to one event loop.

    Invariants: `changed` is called on the event loop, with paths that some owner depends on at that time.
    """

    def __init__(self, changed: Callable[[frozenset[str]], None]) -> None:
        self._changed = changed
        self._owned: dict[str, frozenset[str]] = {}
        self._files: Counter[str] = Counter()
        self._observer: BaseObserver | None = None
        self._watches: dict[str, _Watch] = {}
        self._polled: dict[str, _Mark | None] = {}
        self._poll_timer: asyncio.Handle | None = None
        self._told: set[str] = set()
        self._tell_timer: asyncio.TimerHandle | None = None
        self._first_told = 0.0

    def depend(self, owner: str, paths: Iterable[str], absent: Iterable[str] = (), since: float = math.inf) -> None:
        """Replace the files that an owner depends on.

        Args:
            owner: Who depends on them.
            paths: The files. One that is not there has changed, if `since` says when it was read.
            absent: Further ones, which are not expected to be there.
            since: When the owner read them (`time.time`): what changed behind that has changed, though nobody looked.
        """
        there = frozenset(paths)
        paths = there.union(absent)
        before = self._owned.get(owner, frozenset())
        if paths == before:
            return
        new = [path for path in paths if path not in self._files] if since < math.inf else []
        self._files.subtract(before)
        self._files.update(paths)
        self._files = +self._files
        if paths:
            self._owned[owner] = paths
        else:
            self._owned.pop(owner, None)
        self._follow()
        for path in new:
            mark = _mark(path)
            if (path in there) if mark is None else mark[0] > (since - _GRAIN) * 1e9:
                self._seen(path)

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
        kinds = kinds_now() if folders.keys() - self._watches.keys() else {}
        near = (each for each, _ in folders.most_common() if each in self._watches or not is_remote(each, kinds))
        wanted = frozenset(itertools.islice(near, _FOLDERS))
        for folder in [each for each in self._watches if each not in wanted]:
            self._unwatch(folder)
        for folder in wanted.difference(self._watches):
            self._watch(folder)
        polled = {path for path in self._files if os.path.dirname(path) not in self._watches}  # noqa: PTH120 — as above.
        self._polled = {path: self._polled[path] if path in self._polled else _mark(path) for path in polled}
        if self._files and self._poll_timer is None:
            self._poll_timer = asyncio.get_running_loop().call_later(_POLL, self._poll)

    def _watch(self, folder: str) -> None:
        mark = _identity(folder)
        try:
            if self._observer is None:
                self._observer = Observer()
                self._observer.daemon = True
                self._observer.start()
            watch = self._observer.schedule(_Events(self._seen_from_thread()), folder)
            self._watches[folder] = _Watch(watch, mark)
        except OSError as error:
            _log.info("%s cannot be watched and is polled: %s", folder, error)

    def _unwatch(self, folder: str) -> None:
        watch = self._watches.pop(folder)
        # What watched a folder that is gone has ended by itself.
        with contextlib.suppress(KeyError, OSError):
            if self._observer is not None:
                self._observer.unschedule(watch.watch)

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
        self._look_at([*self._polled], {})

    def _look_at(self, paths: list[str], changed: dict[str, _Mark | None]) -> None:
        """Look at some files, and then at the others; note which of them have changed."""
        for path in paths[:_AT_ONCE]:
            now = _mark(path)
            if now != self._polled.get(path, now):
                changed[path] = now
        if len(paths) > _AT_ONCE:
            self._poll_timer = asyncio.get_running_loop().call_later(_BETWEEN, self._look_at, paths[_AT_ONCE:], changed)
        else:
            self._looked(changed)

    def _looked(self, changed: dict[str, _Mark | None]) -> None:
        self._poll_timer = None
        self._polled |= {path: now for path, now in changed.items() if path in self._polled}
        lost = {folder for folder, watch in self._watches.items() if _identity(folder) != watch.folder}
        for folder in lost:
            self._unwatch(folder)
        for path in self._files:
            if path in changed or os.path.dirname(path) in lost:  # noqa: PTH120 — as above.
                self._seen(path)
        if changed or lost:
            self._follow()  # A folder may be there again.
        if self._files and self._poll_timer is None:
            self._poll_timer = asyncio.get_running_loop().call_later(_POLL, self._poll)


class _Events(FileSystemEventHandler):
    """Passes on the paths that an event names; opening and reading a file is no change."""

    def __init__(self, seen: Callable[[str], None]) -> None:
        self._seen = seen

    def on_any_event(self, event: FileSystemEvent) -> None:
        # That something in a folder has changed is told of what it is.
        kinds = {"created", "moved", "deleted"} if event.is_directory else {"created", "modified", "moved", "deleted"}
        if event.event_type not in kinds:
            return
        for path in (event.src_path, getattr(event, "dest_path", "")):
            if path:
                self._seen(_text(path))


def _text(path: Any) -> str:
    return os.fsdecode(path)


def _mark(path: str) -> _Mark | None:
    """Return what tells a file from the one that was there before, None where there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 — thousands of plain strings.
    except OSError:
        return None
    # Whoever unpacks or copies a file may give it any time of change, but not that of its entry in the folder.
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev


def _identity(folder: str) -> _Mark | None:
    """Return what tells a folder from another one, whatever is in it; None where there is none."""
    try:
        found = os.stat(folder)  # noqa: PTH116 — as above.
    except OSError:
        return None
    return found.st_ino, found.st_dev

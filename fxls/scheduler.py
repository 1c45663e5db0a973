"""Jobs for documents, newest first: at most one for each document, and a newer one ends the older at once.

There is no debounce, but for one who types so fast that no job comes to its end: to begin work with each character that
the next one ends would only take the machine away from what the person waits for. Where more documents wait than may
run at a time, the one that was touched last goes first; the document that the person is at never waits for others.
"""

import asyncio
import itertools
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

_log = logging.getLogger(__name__)

_IN_VAIN: Final = 8
"""Jobs in a row that the next one ended after which one begins only when no other follows at once."""

_CALM: Final = 0.07
"""Seconds for which that one waits: somewhat longer than it takes to type a character fast."""

Job: TypeAlias = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class _Entry:
    """The newest job of a document and those who wait for its end."""

    job: Job
    waiters: "list[asyncio.Future[None]]" = field(default_factory=list)


class Scheduler:
    """Runs the newest job of each document. Mutable; belongs to one event loop.

    Invariants:
    - For each key at most one job runs and at most one waits.
    - A job that was superseded is cancelled before the newer one starts.
    """

    def __init__(self, parallel: int = 2) -> None:
        self._parallel = parallel
        self._waiting: dict[str, _Entry] = {}
        self._running: dict[str, tuple[_Entry, asyncio.Task[None]]] = {}
        self._cancelled: set[asyncio.Task[None]] = set()
        self._touched: dict[str, int] = {}
        self._in_vain: Counter[str] = Counter()
        self._clock = itertools.count(1)
        self._current = ""

    def touch(self, key: str) -> None:
        """Note that the person is at this document: its jobs go first."""
        self._touched[key] = next(self._clock)
        self._current = key

    def submit(self, key: str, job: Job) -> None:
        """Run a job for a document in place of any older one."""
        waiters = self._superseded(key)
        self._waiting[key] = _Entry(job, waiters)
        self._fill()

    def cancel(self, key: str) -> None:
        """End what runs or waits for a document."""
        for waiter in self._superseded(key):
            _wake(waiter)
        self._fill()

    def busy(self, key: str) -> bool:
        """Whether a job runs or waits for a document."""
        return key in self._waiting or key in self._running

    def progressed(self, key: str) -> None:
        """Note that the person has something of a job that goes on: it was not in vain."""
        self._in_vain.pop(key, None)

    @property
    def idle(self) -> bool:
        """Whether nothing runs or waits."""
        return not self._waiting and not self._running

    async def settled(self, key: str) -> None:
        """Return when nothing runs or waits for a document any more; newer jobs are waited for too."""
        while (
            entry := self._waiting.get(key) or (self._running[key][0] if key in self._running else None)
        ) is not None:
            waiter = asyncio.get_running_loop().create_future()
            entry.waiters.append(waiter)
            await waiter

    def forget(self, key: str) -> None:
        """End a document's jobs and forget it."""
        self.cancel(key)
        self._touched.pop(key, None)
        self._in_vain.pop(key, None)

    async def close(self) -> None:
        """End everything; returns when it has ended."""
        for key in [*self._waiting, *self._running]:
            self.cancel(key)
        if self._cancelled:
            await asyncio.wait(list(self._cancelled))

    def _superseded(self, key: str) -> "list[asyncio.Future[None]]":
        """End a document's jobs; those who waited for them go on waiting for the next."""
        waiters: list[asyncio.Future[None]] = []
        waiting = self._waiting.pop(key, None)
        if waiting is not None:
            waiters += waiting.waiters
        running = self._running.pop(key, None)
        if running is not None:
            entry, task = running
            waiters += entry.waiters
            entry.waiters = []
            self._cancelled.add(task)
            task.cancel()
        return waiters

    def _fill(self) -> None:
        """Start as many waiting jobs as may run."""
        while self._waiting:
            key = max(self._waiting, key=lambda each: self._touched.get(each, 0))
            if len(self._running) >= self._parallel and key != self._current:
                return
            entry = self._waiting.pop(key)
            task = asyncio.get_running_loop().create_task(self._run(key, entry), name=f"fxls job of {key}")
            self._running[key] = (entry, task)
            task.add_done_callback(self._cancelled.discard)

    async def _run(self, key: str, entry: _Entry) -> None:
        begun = False
        try:
            if self._in_vain[key] >= _IN_VAIN:
                await asyncio.sleep(_CALM)
            begun = True
            await entry.job()
        except asyncio.CancelledError:
            self._in_vain[key] += begun
            raise
        except Exception:  # noqa: BLE001 — a job is a handler: its fault is logged and the next job runs.
            _log.exception("a job of %s failed", key)
        finally:
            running = self._running.get(key)
            if running is not None and running[0] is entry:
                del self._running[key]
                self._in_vain.pop(key, None)
            for waiter in entry.waiters:
                _wake(waiter)
            self._fill()


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)

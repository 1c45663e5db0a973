"""A small event loop: descriptors, timers, and writing without waiting.

asyncio is not used because the processes that run this loop fork: a child must be able to forget the loop by not
running it, and user code must be free to run an asyncio loop of its own.
"""

import contextlib
import heapq
import itertools
import os
import selectors
import time
from collections.abc import Callable
from typing import Final, TypeAlias

Callback: TypeAlias = Callable[[], object]

_CHUNK: Final = 1 << 18


class Timer:
    """A call that is due at a time; `cancel` forgets it."""

    def __init__(self, callback: Callback) -> None:
        self.callback: Callback | None = callback

    def cancel(self) -> None:
        """Forget the call."""
        self.callback = None


class Loop:
    """Waits for descriptors and times, and calls whoever waits for them. One thread."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._running = False

    def readable(self, fd: int, callback: Callback) -> None:
        """Call `callback` whenever `fd` can be read."""
        self._selector.register(fd, selectors.EVENT_READ, callback)

    def writable(self, fd: int, callback: Callback) -> None:
        """Call `callback` whenever `fd` can be written."""
        self._selector.register(fd, selectors.EVENT_WRITE, callback)

    def forget(self, fd: int) -> None:
        """Stop watching `fd`; it may be one that is not watched."""
        with contextlib.suppress(KeyError):
            self._selector.unregister(fd)

    def after(self, seconds: float, callback: Callback) -> Timer:
        """Call `callback` once when `seconds` have passed."""
        timer = Timer(callback)
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._order), timer))
        return timer

    def run(self) -> None:
        """Serve until `stop`."""
        self._running = True
        while self._running:
            for key, _ in self._selector.select(self._patience()):
                # An earlier callback of this round may have closed the descriptor.
                if self._selector.get_map().get(key.fd) is key:
                    key.data()
            self._call_due()

    def stop(self) -> None:
        """Let `run` return after the calls of this round."""
        self._running = False

    def close(self) -> None:
        """Let go of the selector's own descriptor, as in a forked child, which has no use for it."""
        self._selector.close()

    def _patience(self) -> float | None:
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        return max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None

    def _call_due(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)[2]
            callback, timer.callback = timer.callback, None
            if callback is not None:
                callback()


class Outbox:
    """Writes to a descriptor as fast as its reader reads, and keeps the rest. Never waits."""

    def __init__(self, loop: Loop, fd: int) -> None:
        os.set_blocking(fd, False)
        self._loop = loop
        self._fd = fd
        self._rest: list[memoryview] = []
        self.broken = False

    def write(self, data: bytes) -> None:
        """Write `data` now or when there is room. A reader that has gone is noticed and otherwise no error."""
        if self.broken:
            return
        waiting = bool(self._rest)
        self._rest.append(memoryview(data))
        if not waiting:
            self._flush()
            if self._rest:
                self._loop.writable(self._fd, self._flush_more)

    def close(self) -> None:
        """Stop writing; what was kept is dropped."""
        self.broken = True
        self._rest.clear()
        self._loop.forget(self._fd)

    def _flush_more(self) -> None:
        self._flush()
        if not self._rest:
            self._loop.forget(self._fd)

    def _flush(self) -> None:
        while self._rest:
            try:
                written = os.write(self._fd, self._rest[0])
            except BlockingIOError:
                return
            except OSError:
                self.broken = True
                self._rest.clear()
                return
            if written < len(self._rest[0]):
                self._rest[0] = self._rest[0][written:]
            else:
                self._rest.pop(0)


class LineReader:
    """Cuts what a descriptor brings into lines; stops the loop at its end."""

    def __init__(self, loop: Loop, fd: int, on_line: Callable[[bytes], None]) -> None:
        os.set_blocking(fd, False)
        self._loop = loop
        self._fd = fd
        self._on_line = on_line
        self._parts: list[bytes] = []
        loop.readable(fd, self._read)

    def _read(self) -> None:
        data, ended = drain(self._fd)
        head, *lines = data.split(b"\n")
        self._parts.append(head)
        if lines:
            first, self._parts = b"".join(self._parts), [lines.pop()]
            for line in (first, *lines):
                self._on_line(line)
        if ended:
            self._loop.forget(self._fd)
            self._loop.stop()


def drain(fd: int) -> tuple[bytes, bool]:
    """Return what can be read from a non-blocking descriptor now, and whether its end was reached."""
    try:
        data = os.read(fd, _CHUNK)
    except BlockingIOError:
        return b"", False
    except OSError:
        return b"", True
    return data, not data

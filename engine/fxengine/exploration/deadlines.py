"""When exploring has taken long enough: by the processor's time, and by the clock where that runs on without it.

On a machine that is busy with other things a process gets only a part of the time. What is told of a model should not
depend on that, so a budget is one of processor time, and on the clock up to twice as long.
"""

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_AT_MOST: Final = 2.0
"""How much longer on the clock than on the processor exploring may take."""


class Deadline:
    """The end of a budget. Mutable: it looks at the processor's time no more often than it has to."""

    def __init__(self, seconds: float) -> None:
        now = time.monotonic()
        self._look = now + seconds
        self._latest = now + _AT_MOST * seconds
        self._processor = time.process_time() + seconds

    def is_over(self) -> bool:
        """Whether the budget is spent."""
        now = time.monotonic()
        if now <= self._look:
            return False
        left = self._processor - time.process_time()
        if left <= 0 or now > self._latest:
            return True
        # The processor is no faster than the clock.
        self._look = min(now + left, self._latest)
        return False

    @contextmanager
    def paused(self) -> Generator[None]:
        """Count nothing of what the body takes."""
        clock, processor = time.monotonic(), time.process_time()
        try:
            yield
        finally:
            passed = time.monotonic() - clock
            self._look += passed
            self._latest += passed
            self._processor += time.process_time() - processor

"""A time limit within a process, for what is only a guess: the guess is given up, the work goes on.

It works by a signal that raises in the main thread, so it cannot end C code that never returns to the interpreter; the
limit of the whole request ends that.
"""

import os
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from torch._C import _len_torch_function_stack, _pop_torch_function_stack

_LATER: Final = 0.05
"""Seconds after which an import that was going on is looked at again, and what has gone on beyond its time."""

_AT_MOST: Final = 2.0
"""How much longer on the clock than on the processor a guess may take."""


def worked() -> float:
    """Return the seconds that the processor has worked for this process, and for programs that it started and ended."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


class OutOfPatience(BaseException):
    """The time for a guess has passed. No `Exception`: code that is tried out must not take it for its own."""


@contextmanager
def patience(seconds: float) -> Generator[None]:
    """Raise `OutOfPatience` in the body after `seconds`, or when somebody's further out does.

    If the processor was busy with other things for some of that, the body has up to twice as long. If it imports
    something when its time is over, it may go on until that is done, and for as long again.

    Raises:
        OutOfPatience: The body took longer, and did not catch everything itself.
    """
    if not hasattr(signal, "setitimer"):  # Windows: the limit of the request holds alone.
        yield
        return
    left, _ = signal.setitimer(signal.ITIMER_REAL, 0.0)
    seconds = min(seconds, left) if left else seconds
    before = signal.signal(signal.SIGALRM, _Alarm(seconds).ring)
    modes = _len_torch_function_stack()
    begun = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)
        rest = max(left - (time.monotonic() - begun), _LATER) if left else 0.0
        signal.setitimer(signal.ITIMER_REAL, rest)
        # What was interrupted while it left a mode has not left it.
        while _len_torch_function_stack() > modes:
            _pop_torch_function_stack()


class _Alarm:
    """Ends a guess. Mutable: it knows whether it has waited for an import."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._worked = time.process_time()
        self._begun = time.monotonic()
        self._importing = False

    def ring(self, number: int, frame: FrameType | None) -> None:
        """Give up what goes on.

        Raises:
            OutOfPatience: Always, unless something is being imported, or was when this was last asked.
        """
        del number
        around = frame
        while around is not None:
            if around.f_code.co_filename.startswith("<frozen importlib"):
                # A module that is left half imported stays so for good.
                self._importing = True
                signal.setitimer(signal.ITIMER_REAL, _LATER)
                return
            around = around.f_back
        if self._importing and self._seconds:
            signal.setitimer(signal.ITIMER_REAL, self._seconds)
            self._seconds = 0.0
            return
        lost = self._seconds - (time.process_time() - self._worked)
        left = self._begun + _AT_MOST * self._seconds - time.monotonic()
        if min(lost, left) > 0:
            signal.setitimer(signal.ITIMER_REAL, max(_LATER, min(lost, left)))
            return
        raise OutOfPatience

"""A time limit within a process, for what is only a guess: the guess is given up, the work goes on.

It works by a signal that raises in the main thread, so it cannot end C code that never returns to the interpreter; the
limit of the whole request ends that.
"""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from torch._C import _len_torch_function_stack, _pop_torch_function_stack

_LATER: Final = 0.05
"""Seconds after which an import that was going on is looked at again."""


class OutOfPatience(BaseException):
    """The time for a guess has passed. No `Exception`: code that is tried out must not take it for its own."""


@contextmanager
def patience(seconds: float) -> Generator[None]:
    """Raise `OutOfPatience` in the body after `seconds`.

    Raises:
        OutOfPatience: The body took longer, and did not catch everything itself.
    """
    if not hasattr(signal, "setitimer"):  # Windows: the limit of the request holds alone.
        yield
        return
    before = signal.signal(signal.SIGALRM, _give_up)
    modes = _len_torch_function_stack()
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        # What was interrupted while it left a mode has not left it.
        while _len_torch_function_stack() > modes:
            _pop_torch_function_stack()


def _give_up(number: int, frame: FrameType | None) -> None:
    del number
    around = frame
    while around is not None:
        if around.f_code.co_filename.startswith("<frozen importlib"):
            # A module that is left half imported stays so for good.
            signal.setitimer(signal.ITIMER_REAL, _LATER)
            return
        around = around.f_back
    raise OutOfPatience

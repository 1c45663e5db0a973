"""Runs a function on one item after the other, each in a child process that is killed when its time is over.

Time is that of the processor, so that what is found does not depend on what else the machine does; one that waits for
something that does not come is killed too.
"""

import contextlib
import io
import multiprocessing
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from typing import Any, TypeVar

__all__ = ["in_children"]

_Item = TypeVar("_Item")
_MEMORY = 10 << 30
_WAITING = 5.0
"""How much longer on the clock than on the processor a child may take."""


def in_children(
    work: Callable[[_Item], Any], items: Iterable[_Item], seconds: float = 30.0, memory: int = _MEMORY
) -> Iterator[tuple[_Item, Any, str, float]]:
    """Yield each item with what `work` returned for it, why there is nothing ("" where there is), and the seconds.

    The children are forked: what this process has imported they have too. Each may compute for `seconds`, hold `memory`
    bytes of data, and has no input. What `work` returns is pickled.
    """
    context = multiprocessing.get_context("fork")
    for item in items:
        receiving, sending = context.Pipe(duplex=False)
        child = context.Process(target=_run, args=(work, item, sending, seconds, memory))
        start = time.monotonic()
        child.start()
        sending.close()
        result, reason = None, ""
        if receiving.poll(seconds * _WAITING):
            try:
                result, reason = receiving.recv()
            except EOFError:
                child.join(1.0)
                reason = f"the process died ({child.exitcode})"
                if child.exitcode == -signal.SIGXCPU:
                    reason = f"not done after {seconds:g} s"
        else:
            reason = f"not done after {seconds * _WAITING:g} s of waiting"
        child.kill()
        child.join()
        receiving.close()
        yield item, result, reason, time.monotonic() - start


def _run(work: Callable[[Any], Any], item: Any, sending: Connection, seconds: float, memory: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (round(seconds), round(seconds) + 1))
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    sys.stdin.close()
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            answer = (work(item), "")
        except BaseException as error:  # noqa: BLE001 - the libraries' code raises whatever it likes.
            text = str(error).strip().splitlines()
            answer = (None, f"{type(error).__name__}: {text[0] if text else ''}")
    sending.send(answer)

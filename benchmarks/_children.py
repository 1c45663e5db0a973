"""Runs a function on one item after the other, each in a child process that is killed when its time is over."""

import contextlib
import io
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from typing import Any, TypeVar

__all__ = ["in_children"]

_Item = TypeVar("_Item")
_MEMORY = 10 << 30


def in_children(
    work: Callable[[_Item], Any], items: Iterable[_Item], seconds: float = 30.0, memory: int = _MEMORY
) -> Iterator[tuple[_Item, Any, str, float]]:
    """Yield each item with what `work` returned for it, why there is nothing ("" where there is), and the seconds.

    The children are forked: what this process has imported they have too. Each may hold `memory` bytes of data, and has
    no input. What `work` returns is pickled.
    """
    context = multiprocessing.get_context("fork")
    for item in items:
        receiving, sending = context.Pipe(duplex=False)
        child = context.Process(target=_run, args=(work, item, sending, memory))
        start = time.monotonic()
        child.start()
        sending.close()
        result, reason = None, ""
        if receiving.poll(seconds):
            try:
                result, reason = receiving.recv()
            except EOFError:
                child.join(1.0)
                reason = f"the process died ({child.exitcode})"
        else:
            reason = f"not done after {seconds:g} s"
        child.kill()
        child.join()
        receiving.close()
        yield item, result, reason, time.monotonic() - start


def _run(work: Callable[[Any], Any], item: Any, sending: Connection, memory: int) -> None:
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

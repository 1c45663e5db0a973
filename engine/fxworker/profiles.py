"""Profiles: each is measured in a process that is started afresh, not forked, so that it may use an accelerator.

The supervisor here needs the standard library alone. It bounds the measuring process in time, ends it when it is
cancelled, passes on how far it is, and answers for it when it dies.
"""

import os
import shutil
import sys
from dataclasses import dataclass
from typing import Final

from fxworker import postmortem, sandbox
from fxworker.channel import Frame, Kind
from fxworker.children import Child, adopt_orphans, end_stragglers, execute, fork, own
from fxworker.encoding import WireError, decode, encode
from fxworker.limits import GRACE
from fxworker.loop import LineReader, Loop, Outbox, Timer
from fxworker.postmortem import End
from fxworker.texts import digest
from fxworker.wire import CancelRequest, Message, ProfileReport, ProfileRequest

_LOADING_SECONDS: Final = 120.0
"""Seconds that a measuring process may take to import torch."""


@dataclass(eq=False)
class _Measuring:
    """A measuring process and what it was asked, None before. Mutable."""

    child: Child
    confined: bool
    request: ProfileRequest | None = None
    timer: Timer | None = None


class Profiles:
    """The measuring processes of a worker. Mutable; belongs to the worker's loop."""

    def __init__(self, loop: Loop, out: Outbox, command: tuple[str, ...]) -> None:
        self._loop = loop
        self._out = out
        self._command = command
        self._folder = ""
        self._running: set[_Measuring] = set()
        self._spare: _Measuring | None = None

    def prepare(self, *, confined: bool) -> None:
        """Start the process for the next profile; what it runs on is reported when it has loaded."""
        self._spare = self._start(confined=confined)

    def start(self, request: ProfileRequest) -> None:
        """Measure, in a process of its own."""
        spare, self._spare = self._spare, None
        if spare is not None and spare.confined != request.sandbox:
            self._running.discard(spare)
            spare.child.kill()
            spare = None
        measuring = spare or self._start(confined=request.sandbox)
        measuring.request = request
        limit = _LOADING_SECONDS + request.limits.seconds + GRACE
        measuring.timer = self._loop.after(limit, lambda: self._overdue(measuring))
        measuring.child.send(Frame(Kind.REQUEST, encode(request)))

    def cancel(self, number: int) -> bool:
        """End a profile at once; False where none has that number."""
        for measuring in self._running:
            request = measuring.request
            if request is not None and request.id == number:
                report = ProfileReport(
                    number, request.path, digest(request.text), request.target.qualname, request.device, "cancelled"
                )
                self._conclude(measuring, encode(report))
                return True
        return False

    def close(self) -> None:
        """End every measuring process."""
        for measuring in self._running:
            measuring.child.kill()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, *, confined: bool) -> _Measuring:
        if confined and not self._folder:
            self._folder = sandbox.own_folder()
        way = ("--measure-in", self._folder) if confined else ("--measure",)
        child = fork(
            self._loop,
            lambda ends: execute((*self._command, *way), ends),
            lambda frame: self._framed(measuring, frame),
            lambda status: self._ended(measuring, status),
        )
        measuring = _Measuring(child, confined)
        self._running.add(measuring)
        return measuring

    def _framed(self, measuring: _Measuring, frame: Frame) -> None:
        if measuring not in self._running:
            return
        match frame.kind:
            case Kind.READY if measuring is self._spare:
                self._out.write(frame.payload)
            case Kind.STARTED if measuring.timer is not None and measuring.request is not None:
                measuring.timer.cancel()
                limit = measuring.request.limits.seconds + GRACE
                measuring.timer = self._loop.after(limit, lambda: self._overdue(measuring))
            case Kind.PROGRESS:
                self._out.write(frame.payload)
            case Kind.ANSWER:
                self._conclude(measuring, frame.payload)
            case _:
                pass

    def _overdue(self, measuring: _Measuring) -> None:
        if measuring.request is not None:
            end = End(measuring.child.box.read(), None, measuring.request.limits.seconds)
            self._conclude(measuring, encode(postmortem.profile_report(measuring.request, end)))

    def _ended(self, measuring: _Measuring, status: int) -> None:
        if measuring not in self._running:
            return
        if measuring.request is not None:
            end = End(measuring.child.box.read(), status)
            self._conclude(measuring, encode(postmortem.profile_report(measuring.request, end)))
        else:
            self._running.discard(measuring)
            self._spare = None
            self._loop.stop()

    def _conclude(self, measuring: _Measuring, line: bytes) -> None:
        if measuring.timer is not None:
            measuring.timer.cancel()
        self._running.discard(measuring)
        measuring.child.kill()
        self._out.write(line)


def serve_profiles(requests: int, answers: int, command: tuple[str, ...], *, confined: bool) -> None:
    """Serve profiles only: report the environment as the first measuring process finds it, then measure.

    With `confined` that process is in the sandbox.
    """
    loop = Loop()
    out = Outbox(loop, own(answers))
    own(requests)
    adopt_orphans()
    profiles = Profiles(loop, out, command)

    def take(line: bytes) -> None:
        match read(line):
            case ProfileRequest() as request:
                profiles.start(request)
            case CancelRequest(number):
                profiles.cancel(number)
            case _:
                sys.stderr.write("fxworker: this process only measures\n")

    LineReader(loop, requests, take)
    profiles.prepare(confined=confined)
    loop.run()
    profiles.close()
    end_stragglers(everybody=True)


def read(line: bytes) -> Message | None:
    """Return the message that a line from the client holds; None, and a line in the log, where it holds none."""
    try:
        return decode(line)
    except WireError as error:
        os.write(2, f"fxworker: {error}\n".encode())
        return None

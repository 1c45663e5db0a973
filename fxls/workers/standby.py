"""Workers where processes cannot be forked (Windows, macOS): spawned ahead of need, with torch imported, one a request.

Each is thrown away after its answer, as a forked one is, so nothing that user code does outlives it. What the templates
of a forking worker see to is seen to here: that a request is answered in time, by a process or in place of one, and
that a model which hangs does not hide the others. It is used instead of those if `FXLS_START` is `spawn`.
"""

import asyncio
import contextlib
import itertools
import logging
import os
import tempfile
from dataclasses import dataclass, replace
from typing import Final

from fxls.workers.client import OnEarly, OnProgress
from fxls.workers.process import CLOSING, ONE, Start, WorkerProcess
from fxls.workers.python_env import PythonEnv
from fxworker.blackbox import BlackBox, Record
from fxworker.postmortem import End, file_report, profile_report, superseded, target_report, unfinished
from fxworker.texts import digest
from fxworker.wire import (
    EarlyReport,
    EnvironmentReport,
    Message,
    ProfileReport,
    ProfileRequest,
    Progress,
    TargetReport,
    TraceReport,
    TraceRequest,
)

_log = logging.getLogger(__name__)

_GRACE: Final = 0.25
"""Seconds between the sample of a hanging process, at its limit, and its end."""

_IMPORTS: Final = 2.0
"""How many times its limit a request may take for imports; see `fxworker.documents`."""

_SHORTEST: Final = 0.5
_START_PATIENCE: Final = 120.0
_TAKEN: Final = "taken"
"""What a process says of a request before anything is done for it; see `fxworker.standby`."""


@dataclass(frozen=True, slots=True)
class _Ended:
    """How a process ended that gave no answer: the target that it was at, if it guessed, and if it had begun at all.

    `known` is what it had said before it knew all.
    """

    end: End
    phase: int | None
    guess: bool
    taken: bool
    known: TraceReport | None = None


class StandbyWorker:
    """The worker of one environment: processes that wait for a request each. A `WorkerClient`."""

    def __init__(self, env: PythonEnv, start: Start = WorkerProcess.start) -> None:
        self.env = env
        self._start = start
        self._waiting: list[_Standby] = []
        self._busy: set[_Standby] = set()
        self._ids = itertools.count(1)
        self._environment: EnvironmentReport | None = None
        self._closing = False

    async def start(self) -> None:
        """Return when the first process has been started, ahead of its request."""
        if not self._closing and not self.env.problem:
            await self._first().started()

    async def environment(self) -> EnvironmentReport:
        """Return what the environment is; starts the first process."""
        if self._environment is not None:
            return self._environment
        if self._closing or self.env.problem:
            return self._unusable(self.env.problem or CLOSING)
        standby = self._first()
        environment = await standby.described()
        if not environment.problem or standby.alive:
            self._environment = environment
        return environment

    async def trace(self, request: TraceRequest, on_early: OnEarly | None = None) -> TraceReport:
        """Return the report of a file's models. Cancelling ends the trace at once."""
        environment = await self.environment()
        if environment.problem:
            return superseded(request)
        lost: dict[str, TargetReport] = {}
        loop = asyncio.get_running_loop()
        until = loop.time() + (_IMPORTS + 2) * request.limits.seconds
        left = replace(request, id=next(self._ids), early=on_early is not None)
        while True:
            answer = await self._asked(left, on_early)
            if isinstance(answer, TraceReport):
                return _with_lost(answer, request, lost)
            assert isinstance(answer, _Ended)
            if answer.phase is None or answer.phase >= len(left.targets):
                return file_report(request, answer.end)
            target = left.targets[answer.phase]
            known = answer.known if answer.guess else None
            lost[target.qualname] = target_report(request, target, answer.end, known)
            targets = tuple(each for each in left.targets if each is not target)
            seconds = min(request.limits.seconds, until - loop.time())
            if not targets or seconds < _SHORTEST:
                return _with_lost(unfinished(request, answer.known), request, lost)
            left = replace(left, targets=targets, limits=replace(request.limits, seconds=seconds))

    async def profile(self, request: ProfileRequest, on_progress: OnProgress) -> ProfileReport:
        """Return the measurements of one model. Cancelling ends it at once."""
        environment = await self.environment()
        if environment.problem:
            name, text = request.target.qualname, digest(request.text)
            return ProfileReport(request.id, request.path, text, name, request.device, "failed")
        answer = await self._asked(replace(request, id=next(self._ids)), None, on_progress)
        if isinstance(answer, ProfileReport):
            return answer
        assert isinstance(answer, _Ended)
        return profile_report(request, answer.end)

    async def close(self) -> None:
        """End every process; requests in flight are answered."""
        self._closing = True
        await asyncio.gather(*(standby.close() for standby in (*self._waiting, *self._busy)))

    async def _asked(
        self,
        request: TraceRequest | ProfileRequest,
        on_early: OnEarly | None = None,
        on_progress: OnProgress | None = None,
    ) -> "TraceReport | ProfileReport | _Ended":
        """Let a process work on a request; return its answer, or how it ended."""
        attempts = 3
        while True:
            standby = self._first()
            self._waiting.remove(standby)
            self._busy.add(standby)
            if not self._closing:
                self._first()  # The next one gets ready meanwhile.
            try:
                answer = await standby.answer(request, on_early, on_progress)
            finally:
                self._busy.discard(standby)
                await standby.close()
            attempts -= 1
            if not isinstance(answer, _Ended) or answer.taken or self._closing or not attempts:
                return answer
            # It had ended before it took the request, which is not the request's fault.

    def _first(self) -> "_Standby":
        """Return the process that has waited longest; a new one if there is none."""
        self._waiting = [each for each in self._waiting if each.usable]
        if not self._waiting:
            self._waiting.append(_Standby(self.env, self._start))
        return self._waiting[0]

    def _unusable(self, problem: str) -> EnvironmentReport:
        return EnvironmentReport("", self.env.name, "", (), problem)


class _Standby:
    """A process that waits for its one request, with a file for its black box. Belongs to the event loop."""

    def __init__(self, env: PythonEnv, start: Start) -> None:
        loop = asyncio.get_running_loop()
        self.environment: asyncio.Future[EnvironmentReport] = loop.create_future()
        self._outcome: asyncio.Future[TraceReport | ProfileReport | _Ended] = loop.create_future()
        handle, self._box = tempfile.mkstemp(prefix="fxls-black-box-")
        os.close(handle)
        self._process: WorkerProcess | None = None
        self._request: TraceRequest | ProfileRequest | None = None
        self._on_early: OnEarly | None = None
        self._on_progress: OnProgress | None = None
        self._phase: int | None = None
        self._guess = False
        self._taken = False
        self._known: TraceReport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._started = loop.create_task(self._begin(env, start), name="fxls standby worker")

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.alive

    @property
    def usable(self) -> bool:
        """Whether the process runs, or is about to."""
        return not self._started.done() or self.alive

    async def started(self) -> None:
        """Return when the process runs, or cannot be started."""
        await asyncio.shield(self._started)

    async def described(self) -> EnvironmentReport:
        """Return what the process runs on, or why it does not."""
        try:
            async with asyncio.timeout(_START_PATIENCE):
                return await asyncio.shield(self.environment)
        except TimeoutError:
            return EnvironmentReport("", "", "", (), f"torch was not loaded within {_START_PATIENCE:g} s")

    async def answer(
        self, request: TraceRequest | ProfileRequest, on_early: OnEarly | None, on_progress: OnProgress | None
    ) -> TraceReport | ProfileReport | _Ended:
        """Return what the process answers, or how it ended."""
        environment = await self.described()
        if environment.problem or self._process is None:
            return _Ended(End(self._record(), 1 << 8), None, guess=False, taken=False)
        self._request, self._on_early, self._on_progress = request, on_early, on_progress
        phases = _IMPORTS if isinstance(request, TraceRequest) else 1.0
        self._expect(phases * request.limits.seconds)
        self._process.send(request)
        return await self._outcome

    async def close(self) -> None:
        """End the process and what it started. Returns when it is gone."""
        self._disarm()
        with contextlib.suppress(OSError):
            await self._started
        if self._process is not None:
            await self._process.close(patience=0.0)
        self._discard_box()

    def received(self, message: Message) -> None:
        """Take a message of the process."""
        match message:
            case EnvironmentReport() if not self.environment.done():
                self.environment.set_result(message)
            case EarlyReport() if not self._outcome.done():
                self._known = message.report
                if self._on_early is not None:
                    self._on_early(message.report)
            case Progress() if isinstance(self._request, TraceRequest):
                self._at(message.message)
            case Progress(message=text):
                self._taken = True
                if self._on_progress is not None and text != _TAKEN:
                    self._on_progress(message)
            case TraceReport() | ProfileReport() if not self._outcome.done():
                self._disarm()
                self._outcome.set_result(message)
            case _:
                _log.warning("a standby worker sent a %s that nobody waits for", type(message).__name__)

    def ended(self, reason: str) -> None:
        """Take the end of the process."""
        self._disarm()
        if not self.environment.done():
            words = self._process.last_words.rpartition("\n")[2] if self._process is not None else ""
            problem = f"the interpreter ended before torch was loaded ({reason})" + (f": {words}" if words else "")
            self.environment.set_result(EnvironmentReport("", "", "", (), problem))
        status = self._process.status if self._process is not None else 1 << 8
        self._settle(End(self._record(), status))
        self._discard_box()

    async def _begin(self, env: PythonEnv, start: Start) -> None:
        try:
            self._process = await start(env, self, (ONE, self._box))
        except OSError as error:
            problem = f"`{env.name}` cannot be started: {error.strerror or error}"
            self.environment.set_result(EnvironmentReport("", env.name, "", (), problem))
            self._discard_box()

    def _at(self, phase: str) -> None:
        """Note what the process is at: nothing says that its imports are made, else the index of a target."""
        assert self._request is not None
        self._taken = True
        if phase == _TAKEN:
            return
        if not phase:
            self._expect(self._request.limits.seconds)
            return
        number = phase.rstrip("?")
        self._phase, self._guess = (int(number) if number.isdecimal() else None), phase.endswith("?")

    def _expect(self, seconds: float) -> None:
        self._disarm()
        self._timer = asyncio.get_running_loop().call_later(seconds + _GRACE, self._overdue, seconds)

    def _overdue(self, seconds: float) -> None:
        self._settle(End(self._record(), None, seconds))
        if self._process is not None:
            self._process.kill()

    def _settle(self, end: End) -> None:
        if not self._outcome.done():
            self._outcome.set_result(_Ended(end, self._phase, self._guess, self._taken, self._known))

    def _record(self) -> Record:
        try:
            descriptor = os.open(self._box, os.O_RDONLY)
        except OSError:
            return Record()
        try:
            return BlackBox(descriptor).read()
        finally:
            os.close(descriptor)

    def _discard_box(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._box)  # noqa: PTH108 — A name in the temporary folder; nothing waits for a disk.

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _with_lost(report: TraceReport, request: TraceRequest, lost: dict[str, TargetReport]) -> TraceReport:
    """Return a report with the targets whose trace ended a process, in the order of the request."""
    if not lost:
        return report
    reports = {each.qualname: each for each in report.targets} | lost
    targets = tuple(reports[each.qualname] for each in request.targets if each.qualname in reports)
    status = "partial" if any(each.status != "not traced" for each in targets) else "not traced"
    return replace(report, targets=targets, status=status)

"""The workers of every Python environment: one template for each, restarted when it dies, and a process a profile.

The pool answers whatever happens. A report that no worker gave is made here: FX105 where the process died, FX104 where
it did not answer within the limit and some patience.
"""

import asyncio
import contextlib
import itertools
import logging
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from fxls.workers.client import OnEarly, OnProgress
from fxls.workers.process import CLOSING, Start, WorkerProcess
from fxls.workers.python_env import PythonEnv
from fxls.workers.standby import StandbyWorker
from fxworker.texts import digest
from fxworker.wire import (
    CancelRequest,
    EarlyReport,
    EnvironmentReport,
    Location,
    Message,
    Problem,
    ProfileReport,
    ProfileRequest,
    Progress,
    Span,
    TraceReport,
    TraceRequest,
)

_log = logging.getLogger(__name__)

_Answer = TypeVar("_Answer", TraceReport, ProfileReport)

_PATIENCE: Final = 20.0
"""Seconds beyond the limits of a request's phases after which a worker that enforces them must have answered."""

_PHASES: Final = 5
"""How often a request's limit may be used up: twice by importing, once by executing, twice by all its targets."""

_ROUNDS: Final = 3
"""How often a request is made in all while there was no time to look for everything, each going on where one ended, or
while another one for the same file took its place."""

_START_PATIENCE: Final = 120.0
"""Seconds that importing torch may take."""

_PROFILER: Final = ("--profile",)
_CONFINED: Final = ("--profile", "--sandbox")
"""The worker's options for a process that serves profiles alone, and for one that does so in the sandbox."""

_SHORT_LIFE: Final = 10.0
_LONGEST_PAUSE: Final = 30.0


class WorkerPool:
    """The workers of all environments. Mutable; belongs to one event loop."""

    def __init__(self, start: Start = WorkerProcess.start) -> None:
        self._start = start
        self._workers: dict[PythonEnv, PooledWorker | StandbyWorker] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def client(self, env: PythonEnv) -> "PooledWorker | StandbyWorker":
        """Return the worker of an environment. Its process starts with its first request."""
        worker = self._workers.get(env)
        if worker is None:
            kind = StandbyWorker if spawns() else PooledWorker
            worker = self._workers[env] = kind(env, self._start)
        return worker

    async def discard(self, env: PythonEnv) -> None:
        """End the processes of an environment; its next client starts afresh."""
        worker = self._workers.pop(env, None)
        if worker is not None:
            await worker.close()

    def keep(self, environments: Collection[PythonEnv]) -> None:
        """End the processes of all other environments, without waiting for it."""
        for env in [each for each in self._workers if each not in environments]:
            ending = asyncio.get_running_loop().create_task(self._workers.pop(env).close())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """End every process."""
        workers, self._workers = list(self._workers.values()), {}
        await asyncio.gather(*self._ending, *(worker.close() for worker in workers))


def spawns() -> bool:
    """Whether processes are spawned here, and not forked: where the system cannot do that safely, or on demand."""
    return os.environ.get("FXLS_START", "fork" if hasattr(os, "pidfd_open") else "spawn") == "spawn"


@dataclass(slots=True)
class _Pending(Generic[_Answer]):
    """A request whose answer is awaited."""

    request: TraceRequest | ProfileRequest
    answer: "asyncio.Future[_Answer]"
    on_early: OnEarly | None = None
    timer: asyncio.TimerHandle | None = None


class PooledWorker:
    """The worker of one environment: its template process, and its profilers. A `WorkerClient`."""

    def __init__(self, env: PythonEnv, start: Start = WorkerProcess.start) -> None:
        self.env = env
        self._start = start
        self._template: _Template | None = None
        self._starting: asyncio.Task[_Template] | None = None
        self._profilers: set[_Profiler] = set()
        self._ids = itertools.count(1)
        self._deaths = 0
        self._pause_until = 0.0
        self._closing = asyncio.Event()

    async def start(self) -> None:
        """Return when the worker's process has been started, ahead of its first request."""
        await self._ready()

    async def environment(self) -> EnvironmentReport:
        """Return what the environment is; starts its worker."""
        return await (await self._ready()).described()

    async def trace(self, request: TraceRequest, on_early: OnEarly | None = None) -> TraceReport:
        """Return the report of a file's models. Cancelling ends the trace at once."""
        template = await self._ready()
        environment = await template.described()
        if environment.problem:
            return _dead_trace(request, environment.problem)
        rounds = _ROUNDS
        while True:
            numbered = replace(request, id=next(self._ids), early=on_early is not None)
            report = await template.trace(numbered, on_early)
            rounds -= 1
            if not rounds or not (report.unfinished or _is_superseded(report, request)):
                return report

    async def profile(self, request: ProfileRequest, on_progress: OnProgress) -> ProfileReport:
        """Return the measurements of one model, made in a process of their own. Cancelling ends it at once."""
        if self._closing.is_set() or self.env.problem:
            return _dead_profile(request, self.env.problem or CLOSING)
        profiler = _Profiler(on_progress)
        self._profilers.add(profiler)
        try:
            return await profiler.run(self.env, self._start, replace(request, id=next(self._ids)))
        finally:
            self._profilers.discard(profiler)

    async def close(self) -> None:
        """End every process of this environment; requests in flight are answered."""
        self._closing.set()
        if self._starting is not None:
            self._template = await self._starting
        profilers = [profiler.close() for profiler in self._profilers]
        templates = [self._template.close()] if self._template is not None else []
        await asyncio.gather(*profilers, *templates)

    async def _ready(self) -> "_Template":
        """Return the running template; one that died is replaced, after a pause when that happens repeatedly."""
        if self._template is not None and (self._template.alive or self._template.hopeless):
            return self._template
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._restart())
            self._starting.add_done_callback(self._started)
        return await asyncio.shield(self._starting)

    def _started(self, task: "asyncio.Task[_Template]") -> None:
        self._starting = None
        self._template = task.result()

    async def _restart(self) -> "_Template":
        pause = self._pause_until - asyncio.get_running_loop().time()
        if pause > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._closing.wait()
        template = _Template(self._died)
        if self._closing.is_set() or self.env.problem:
            template.unusable(self.env, self.env.problem or CLOSING)
        else:
            await template.start(self.env, self._start)
        return template

    def _died(self, lifetime: float) -> None:
        """Note the end of a template. The first death costs nothing; a process that keeps dying waits longer."""
        self._deaths = self._deaths + 1 if lifetime < _SHORT_LIFE else 1
        pause = 0.0 if self._deaths == 1 else min(0.25 * 2**self._deaths, _LONGEST_PAUSE)
        self._pause_until = asyncio.get_running_loop().time() + pause


class _Template:
    """The process that traces. Answers every request it took, at the latest when it ends.

    `hopeless` says that its interpreter cannot trace and that starting it again would change nothing.
    """

    def __init__(self, died: Callable[[float], None]) -> None:
        self.environment: asyncio.Future[EnvironmentReport] = asyncio.get_running_loop().create_future()
        self._died = died
        self._process: WorkerProcess | None = None
        self._pending: dict[int, _Pending[TraceReport]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._closing = False
        self.hopeless = False

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.alive

    async def described(self) -> EnvironmentReport:
        """Return what the process runs on. Who is cancelled while waiting for it takes it from nobody else."""
        return await asyncio.shield(self.environment)

    async def start(self, env: PythonEnv, start: Start) -> None:
        try:
            self._process = await start(env, self, ())
        except OSError as error:
            self.unusable(env, f"`{env.name}` cannot be started: {error.strerror or error}")
            self._died(0.0)
            return
        self._timer = asyncio.get_running_loop().call_later(_START_PATIENCE, self._process.kill)

    def unusable(self, env: PythonEnv, problem: str) -> None:
        self.hopeless = bool(env.problem)
        if not self.environment.done():
            self.environment.set_result(EnvironmentReport("", env.name, "", (), problem))

    async def trace(self, request: TraceRequest, on_early: OnEarly | None) -> TraceReport:
        process = self._process
        if process is None or not process.alive:
            return _dead_trace(request, "the worker ended before it could start")
        loop = asyncio.get_running_loop()
        pending = _Pending[TraceReport](request, loop.create_future(), on_early)
        pending.timer = loop.call_later(_PHASES * request.limits.seconds + _PATIENCE, self._overdue, request.id)
        self._pending[request.id] = pending
        process.send(request)
        try:
            return await pending.answer
        except asyncio.CancelledError:
            process.send(CancelRequest(request.id))
            raise

    async def close(self) -> None:
        self._closing = True
        if self._process is not None:
            await self._process.close()

    def received(self, message: Message) -> None:
        match message:
            case EnvironmentReport():
                self._disarm()
                self.hopeless = bool(message.problem)
                if not self.environment.done():
                    self.environment.set_result(message)
            case EarlyReport():
                pending = self._pending.get(message.id)
                if pending is not None and pending.on_early is not None and not pending.answer.done():
                    pending.on_early(message.report)
            case TraceReport():
                pending = self._pending.pop(message.id, None)
                if pending is not None:
                    self._settle(pending, message)
            case _:
                _log.warning("a template sent a %s, which it never should", type(message).__name__)

    def ended(self, reason: str) -> None:
        self._disarm()
        process = self._process
        assert process is not None
        if not self.environment.done():
            self.environment.set_result(_unborn(reason, process))
        for pending in self._pending.values():
            assert isinstance(pending.request, TraceRequest)
            self._settle(pending, _dead_trace(pending.request, f"the worker died ({reason})"))
        self._pending.clear()
        if not self._closing:
            self._died(asyncio.get_running_loop().time() - process.started_at)

    def _settle(self, pending: _Pending[TraceReport], report: TraceReport) -> None:
        if pending.timer is not None:
            pending.timer.cancel()
        if not pending.answer.done():
            pending.answer.set_result(report)

    def _overdue(self, number: int) -> None:
        """End a template that did not enforce a request's limit: it hangs itself."""
        pending = self._pending.pop(number, None)
        if pending is None or self._process is None:
            return
        assert isinstance(pending.request, TraceRequest)
        self._settle(pending, _late_trace(pending.request))
        self._process.kill()

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Profiler:
    """A process that measures one model and ends."""

    def __init__(self, on_progress: OnProgress) -> None:
        loop = asyncio.get_running_loop()
        self._on_progress = on_progress
        self._environment: asyncio.Future[EnvironmentReport] = loop.create_future()
        self._answer: asyncio.Future[ProfileReport] = loop.create_future()
        self._process: WorkerProcess | None = None
        self._request: ProfileRequest | None = None

    async def run(self, env: PythonEnv, start: Start, request: ProfileRequest) -> ProfileReport:
        self._request = request
        try:
            self._process = await start(env, self, _CONFINED if request.sandbox else _PROFILER)
        except OSError as error:
            return _dead_profile(request, f"`{env.name}` cannot be started: {error.strerror or error}")
        try:
            async with asyncio.timeout(_START_PATIENCE):
                environment = await self._environment
            if environment.problem:
                return _dead_profile(request, environment.problem)
            self._process.send(request)
            async with asyncio.timeout(request.limits.seconds + _PATIENCE):
                return await self._answer
        except TimeoutError:
            return _dead_profile(request, f"no result within {request.limits.seconds:g} s")
        finally:
            self._process.kill()

    async def close(self) -> None:
        if self._process is not None:
            await self._process.close(patience=0.0)

    def received(self, message: Message) -> None:
        match message:
            case EnvironmentReport() if not self._environment.done():
                self._environment.set_result(message)
            case Progress():
                self._on_progress(message)
            case ProfileReport() if not self._answer.done():
                self._answer.set_result(message)
            case _:
                _log.warning("a profiler sent a %s that nobody waits for", type(message).__name__)

    def ended(self, reason: str) -> None:
        assert self._request is not None
        assert self._process is not None
        if not self._environment.done():
            self._environment.set_result(_unborn(reason, self._process))
        if not self._answer.done():
            self._answer.set_result(_dead_profile(self._request, f"the worker died ({reason})"))


def _unborn(reason: str, process: WorkerProcess) -> EnvironmentReport:
    """Return the environment of a process that ended before it said what it runs on."""
    words = process.last_words.rpartition("\n")[2]
    problem = f"the interpreter ended before torch was loaded ({reason})" + (f": {words}" if words else "")
    return EnvironmentReport("", "", "", (), problem)


def _is_superseded(report: TraceReport, request: TraceRequest) -> bool:
    """Whether a report says nothing, since another request for the file came: who cancelled this one is gone."""
    return bool(request.targets) and not report.targets and not report.problems


def _dead_trace(request: TraceRequest, reason: str) -> TraceReport:
    """Return the report of a trace whose worker gave none."""
    problem = Problem("FX105", "error", f"nothing could be traced: {reason}", _top(request.path))
    return TraceReport(request.id, request.path, digest(request.text), "not traced", problems=(problem,))


def _late_trace(request: TraceRequest) -> TraceReport:
    message = f"no answer within {request.limits.seconds:g} s"
    problem = Problem("FX104", "error", message, _top(request.path), hint="raise `fxls.trace.timeout`")
    return TraceReport(request.id, request.path, digest(request.text), "not traced", problems=(problem,))


def _dead_profile(request: ProfileRequest, reason: str) -> ProfileReport:
    problem = Problem("FX105", "error", f"no profile: {reason}", _top(request.path), target=request.target.qualname)
    return ProfileReport(
        request.id,
        request.path,
        digest(request.text),
        request.target.qualname,
        request.device,
        "failed",
        problems=(problem,),
    )


def _top(path: str) -> Location:
    return Location(path, Span(1, 0, 1, 0))

"""Tracing files with the server's workers, several at once, and everything that can go wrong before a trace."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fxls.cli.files import BadPathError, SourceFile, read_source
from fxls.discovery import discover
from fxls.discovery.configuration import ProjectConfiguration, read_configuration
from fxls.discovery.elsewhere import Calls
from fxls.discovery.ignores import without_ignored
from fxls.discovery.index import ModelIndex
from fxls.discovery.roots import configuration_file, project_root, roots_of
from fxls.fixes.verifying import is_worthwhile, with_fixes
from fxls.memory import Memory
from fxls.settings import Settings
from fxls.snapshot import Snapshot
from fxls.text.edits import Carry
from fxls.text.mapper import Mapper
from fxls.text.uris import to_uri
from fxls.workers.pool import WorkerPool
from fxls.workers.python_env import PythonEnv, find_python
from fxworker.texts import digest
from fxworker.wire import (
    EnvironmentReport,
    Problem,
    ProfileReport,
    ProfileRequest,
    Progress,
    TraceReport,
    TraceRequest,
    TraceTarget,
)


class CannotTraceError(Exception):
    """The work cannot be done at all; the message is for the person."""


@dataclass(frozen=True, slots=True)
class Traced:
    """A file and what its trace said. `report` is None where there was nothing to trace, or it does not parse."""

    file: SourceFile
    snapshot: Snapshot
    configuration_problems: tuple[Problem, ...] = ()

    @property
    def index(self) -> ModelIndex:
        """What the file defines."""
        return self.snapshot.index

    @property
    def report(self) -> TraceReport | None:
        """What the worker answered."""
        return self.snapshot.report


class Tracing:
    """The workers and settings of one run of the command line. Mutable only in what it remembers of the project."""

    def __init__(
        self,
        pool: WorkerPool,
        settings: Settings,
        python: tuple[str, ...] = (),
        *,
        fixes: bool = False,
        run: bool = True,
    ) -> None:
        self._pool = pool
        self._settings = settings
        self._python = python
        self._fixes = fixes
        self._run = run
        self._environments: dict[str, PythonEnv] = {}
        self._configurations: dict[str, ProjectConfiguration] = {}
        self._told: set[str] = set()
        self._calls: dict[str, Calls] = {}
        self._memory = Memory()

    async def trace_all(
        self, files: Sequence[SourceFile], jobs: int, begun: Callable[[SourceFile], None]
    ) -> AsyncIterator[Traced | BadPathError]:
        """Yield each file's result in the order of the files, as soon as it and those before it are known.

        Raises:
            CannotTraceError: an interpreter cannot trace.
        """
        slots = asyncio.Semaphore(jobs)

        async def one(file: SourceFile) -> Traced | BadPathError:
            async with slots:
                begun(file)
                try:
                    return await self.trace(file)
                except BadPathError as error:
                    return error

        tasks = deque(asyncio.create_task(one(file)) for file in files)
        try:
            while tasks:
                yield await tasks[0]
                tasks.popleft()  # With its result, which may be large.
        finally:
            for task in tasks:
                task.cancel()

    async def trace(self, file: SourceFile, only: str = "") -> Traced:
        """Return what is known of a file; `only` names the one model to trace. Fixes are tried out if asked for.

        Raises:
            BadPathError: the file cannot be read.
            CannotTraceError: the interpreter cannot trace.
        """
        text = read_source(file.path)
        workspace = _workspace(file)
        folder = project_root(file.path, workspace)
        configuration = self._configuration(file.path)
        settings = self._settings if configuration is None else configuration.applied(self._settings, file.path)
        index = self._discovered(file.path, text, folder)
        wrong: tuple[Problem, ...] = ()
        if configuration is not None and index.targets:
            index = index.configured(configuration.targets)
            wrong = () if configuration.path in self._told else configuration.problems
            self._told.add(configuration.path)
        traced = Traced(file, self._snapshot(file.path, text, index, settings), wrong)
        targets = tuple(each for each in index.targets if not only or each.qualname == only)
        if not index.parsed or not targets or not self._run:
            return traced
        worker = self._pool.client(self._environment(file.path, folder))
        environment = await worker.environment()
        if environment.problem:
            raise CannotTraceError(environment.problem)
        request = TraceRequest(
            id=0,
            path=file.path,
            text=text,
            targets=targets,
            roots=roots_of(file.path, workspace, imported=index.imported),
            limits=self._settings.limits,
            sandbox=self._settings.sandbox != "off",
            keep=self._settings.keep,
            settings=index.settings,
        )
        report = without_ignored(await worker.trace(request))
        self._memory.remember(index, report)
        if self._fixes and is_worthwhile(report):

            async def trial(text: str) -> tuple[ModelIndex, TraceReport]:
                changed = self._discovered(file.path, text, folder)
                changed = changed if configuration is None else changed.configured(configuration.targets)
                answer = await worker.trace(replace(request, text=text, targets=changed.targets))
                return changed, without_ignored(answer)

            async def sampler(text: str, targets: tuple[TraceTarget, ...]) -> TraceReport:
                return await worker.trace(replace(request, text=text, targets=targets, sample=True))

            report = await with_fixes(report, text, trial, sampler)
        return replace(traced, snapshot=replace(traced.snapshot, report=report, environment=environment))

    async def profile(
        self, traced: Traced, target: TraceTarget, device: str, on_progress: Callable[[Progress], None]
    ) -> ProfileReport:
        """Return the measurements of a model.

        Raises:
            CannotTraceError: the interpreter cannot trace, or has no such device.
        """
        path, workspace = traced.file.path, _workspace(traced.file)
        worker = self._pool.client(self._environment(path, project_root(path, workspace)))
        environment = await worker.environment()
        self._expect_device(environment, device)
        request = ProfileRequest(
            id=0,
            path=path,
            text=traced.snapshot.text,
            target=target,
            device=device,
            roots=roots_of(path, workspace, imported=traced.snapshot.index.imported),
            limits=self._settings.profile_limits,
            sandbox=device == "cpu" and self._settings.sandbox != "off",
        )
        return await worker.profile(request, on_progress)

    def _discovered(self, path: str, text: str, project: str | None) -> ModelIndex:
        """Return the models of a file, with calls of them elsewhere in the project, and what is remembered of them."""
        index, folder = discover(path, text), project or ""
        if index.parts:
            if folder not in self._calls:
                self._calls[folder] = Calls(folder)
                self._calls[folder].look()
            index = self._calls[folder].completed(index, text)
        return self._memory.recalled(index)

    def _expect_device(self, environment: EnvironmentReport, device: str) -> None:
        if lack := environment.lacks(device):
            raise CannotTraceError(lack)

    def _configuration(self, path: str) -> ProjectConfiguration | None:
        """Return what the project around a file says."""
        place = configuration_file(path)
        if place is None:
            return None
        if place not in self._configurations:
            self._configurations[place] = read_configuration(place)
        return self._configurations[place]

    def _environment(self, path: str, folder: str | None) -> PythonEnv:
        """Return the Python of a file; files of one folder share it.

        Raises:
            CannotTraceError: there is none.
        """
        key = str(Path(path).parent)
        env = self._environments.get(key)
        if env is None:
            env = find_python(path, folder, self._python)
            self._environments[key] = env
        if env.problem:
            raise CannotTraceError(env.problem)
        return env

    def _snapshot(self, path: str, text: str, index: ModelIndex, settings: Settings) -> Snapshot:
        return Snapshot(
            uri=to_uri(path),
            path=path,
            version=None,
            text=text,
            digest=digest(text),
            mapper=Mapper(text, "utf-32"),
            index=index,
            settings=settings,
            report=None,
            carry=Carry.identity(),
            environment=None,
            profiles=(),
            trusted=self._run,
            sandboxed=self._settings.sandbox != "off",
        )


def _workspace(file: SourceFile) -> tuple[str, ...]:
    """Return the folder that a file was found in, where nothing marks a project around it; none otherwise."""
    return (file.folder,) if file.folder and project_root(file.path) is None else ()

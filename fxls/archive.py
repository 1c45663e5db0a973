"""The last report of each file, kept between sessions in the user's cache folder: a restart traces nothing anew.

A report counts as long as everything is as it was that it was computed from: the request (text, models, imported
folders, unsaved texts, limits), the files that the file imported, the interpreter with its installed packages, and this
program. What other files of the folder say of its models is not known yet when a session begins: where only that may
be another, the report counts until it is. Each file of models has a small file of its own here, written when a person
pauses, replaced as a whole; one that cannot be read is as good as none, and those that nobody asked for longest are
removed.
"""

import asyncio
import contextlib
import json
import os
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from fxls.cache import cache_folder, program, states, write_whole
from fxls.workers.python_env import PythonEnv
from fxls.workers.variables import visible
from fxworker.encoding import WireError, decode, encode
from fxworker.texts import digest
from fxworker.wire import Construct, EnvironmentReport, Inputs, Keep, TraceReport, TraceRequest

_Way = TypeVar("_Way", Construct, Inputs)

_MOST_FILES: Final = 500
_MOST_BYTES: Final = 64 << 20
"""What is kept at most."""

_PAUSE: Final = 2.0
"""Seconds after a report in which no other one of the same file came when it is written."""

_LARGEST: Final = 4 << 20
"""Bytes of a file that is read to know whether it is another."""

_FLEETING: Final = frozenset({"FX104", "FX105"})
"""Problems that another attempt need not have: a limit, or the end of a process."""

_TICK: Final = 10_000_000
"""Nanoseconds by which the clock that files are dated by may be behind."""

_UNREADABLE: Final = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, WireError, zlib.error)


@dataclass(frozen=True, slots=True)
class Kept:
    """A report of an earlier session, and what it was computed on.

    It is provisional if other files of the folder may say something else of its models by now.
    """

    report: TraceReport
    environment: EnvironmentReport
    provisional: bool = False


@dataclass(frozen=True, slots=True)
class _Entry:
    """What is to be kept, and when the files were read that it follows from, in nanoseconds of the clock."""

    env: PythonEnv
    request: TraceRequest
    kept: Kept
    read: int


class Archive:
    """Keeps reports and finds them again. Mutable: holds what is not written yet; belongs to one event loop."""

    def __init__(self, folder: Path | None = None) -> None:
        """Use a folder, that of the user's cache if none is named."""
        self._folder = folder or cache_folder() / "reports"
        self._waiting: dict[Path, tuple[_Entry, asyncio.TimerHandle]] = {}
        self._known: dict[str, tuple[int, str]] = {}
        # Beside the event loop: to write a large report takes some milliseconds.
        self._beside = ThreadPoolExecutor(1, "fxls archive")

    def has(self, env: PythonEnv, path: str) -> bool:
        """Whether there is a report of a file, be it one that still counts or not."""
        return self._file(env, path).exists()

    async def recalled(self, env: PythonEnv, request: TraceRequest, *, hasty: bool = False) -> Kept | None:
        """Return the report that a request would have, if everything is as it was then.

        Of a hasty request that is asked only of what it says of its file itself.
        """
        return await asyncio.get_running_loop().run_in_executor(self._beside, self._read, env, request, hasty)

    def keep(self, env: PythonEnv, request: TraceRequest, environment: EnvironmentReport, report: TraceReport) -> None:
        """Keep a report once no other one of its file comes; one that an accident made is not kept."""
        file = self._file(env, request.path)
        self._forget(file)
        problems = (*report.problems, *(problem for target in report.targets for problem in target.problems))
        if (
            any(each.code in _FLEETING for each in problems)
            or any(each.cut for each in report.targets)
            or report.denied
        ):
            return
        entry = _Entry(env, request, Kept(report, environment), time.time_ns() - int(report.timings.total * 1e6))
        self._waiting[file] = entry, asyncio.get_running_loop().call_later(_PAUSE, self._begin, file)

    async def close(self) -> None:
        """Write what is not written yet."""
        writing = [self._begin(file) for file in [*self._waiting]]
        await asyncio.gather(*map(asyncio.wrap_future, writing))
        self._beside.shutdown(wait=False)

    def _begin(self, file: Path) -> "Future[None]":
        entry, timer = self._waiting.pop(file)
        timer.cancel()
        return self._beside.submit(self._write, file, entry)

    def _forget(self, file: Path) -> None:
        if file in self._waiting:
            self._waiting.pop(file)[1].cancel()

    def _read(self, env: PythonEnv, request: TraceRequest, hasty: bool) -> Kept | None:
        file = self._file(env, request.path)
        try:
            head, _, lines = zlib.decompress(file.read_bytes()).partition(b"\n")
            known: dict[str, Any] = json.loads(head)
            whole, own = _keys(env, request)
            is_whole = known["key"] == whole
            if not is_whole and not (hasty and known["own"] == own):
                return None
            environment, report = map(decode, lines.split(b"\n", 1))
            if not isinstance(environment, EnvironmentReport) or not isinstance(report, TraceReport):
                return None
            if known["dependencies"] != self._stamps(report):
                return None
            os.utime(file)
        except _UNREADABLE:
            return None
        return Kept(report, environment, provisional=not is_whole)

    def _write(self, file: Path, entry: _Entry) -> None:
        """Write an entry. Never fails: a cache that cannot be written is none."""
        kept = entry.kept
        if any(_changed(path) > entry.read - _TICK for path in kept.report.dependencies):
            return
        whole, own = _keys(entry.env, entry.request)
        head = {"key": whole, "own": own, "dependencies": self._stamps(kept.report)}
        lines = (json.dumps(head).encode(), encode(kept.environment).strip(), encode(kept.report))
        with contextlib.suppress(OSError):
            write_whole(file, zlib.compress(b"\n".join(lines), 1))
            self._prune()

    def _stamps(self, report: TraceReport) -> dict[str, str]:
        """Return what the files are that were imported; by their contents, for a checkout writes the same ones anew."""
        return {path: self._contents(path) for path in report.dependencies if path != report.path}

    def _contents(self, path: str) -> str:
        """Return the digest of a file, which is read only if it changed since it was read last."""
        changed = _changed(path)
        known = self._known.get(path)
        if known is None or known[0] != changed:
            known = self._known[path] = changed, _digest_of(path)
        return known[1]

    def _prune(self) -> None:
        found = [(entry.stat(), entry.path) for entry in os.scandir(self._folder)]
        held = 0
        for number, (state, path) in enumerate(sorted(found, key=lambda each: -each[0].st_mtime_ns)):
            held += state.st_size
            if number >= _MOST_FILES or held > _MOST_BYTES:
                Path(path).unlink(missing_ok=True)

    def _file(self, env: PythonEnv, path: str) -> Path:
        return self._folder / digest("\n".join((*env.command, path)))


def _keys(env: PythonEnv, request: TraceRequest) -> tuple[str, str]:
    """Return the digests of all that a report follows from but the files that were imported, and of its file's part."""
    variables = visible(os.environ, env.variables)
    paths = [variables.get("PYTHONPATH", ""), *variables.get("PYTHONPATH", "").split(os.pathsep)]
    stamps = [*states(_installed(env.command[0])), *states(filter(None, paths[1:]))]
    around = (program(), *env.command, *env.variables, paths[0], *stamps)
    whole, own = (digest("\n".join((_asked(each), *around))) for each in (request, _of_file(request)))
    return whole, own


def _asked(request: TraceRequest) -> str:
    """Return what a request asks for, as text."""
    targets = (
        # What an earlier session found out is what this report says itself.
        replace(each, constructs=tuple(way for way in each.constructs if way.source != "remembered"))
        for each in request.targets
    )
    return encode(replace(request, id=0, early=False, keep=Keep(), known=(), targets=tuple(targets))).decode()


def _of_file(request: TraceRequest) -> TraceRequest:
    """Return a request without what other files say of its models."""

    def own(ways: tuple[_Way, ...]) -> tuple[_Way, ...]:
        return tuple(each for each in ways if each.location is None or each.location.path == request.path)

    targets = (
        replace(each, constructs=own(each.constructs), inputs=own(each.inputs), wholes=()) for each in request.targets
    )
    return replace(request, targets=tuple(targets), settings=())


def _changed(path: str) -> int:
    """Return when a file was changed, 0 where there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 — as below.
    except OSError:
        return 0
    return max(found.st_mtime_ns, found.st_ctime_ns)


def _digest_of(path: str) -> str:
    """Return the digest of a file's contents, and of a large one, such as weights, that of its size and its times."""
    file = Path(path)
    try:
        found = file.stat()
        if found.st_size > _LARGEST:
            return digest(f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}")
        return digest(file.read_bytes().decode("utf-8", "replace"))
    except OSError:
        return ""


def _installed(program: str) -> Iterator[str]:
    """Yield the interpreter and its folders of packages: whatever is installed there, or removed, changes them."""
    yield program
    top = Path(program).parent.parent
    for folder in (top, Path(program).resolve().parent.parent):
        yield str(folder / "pyvenv.cfg")
        for pattern in ("lib/python*/site-packages", "lib/python*/dist-packages", "Lib/site-packages"):
            yield from map(str, sorted(folder.glob(pattern)))

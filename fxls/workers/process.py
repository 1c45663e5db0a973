"""One worker process: starting it, lines to it and from it, and its end.

What the lines mean is the pool's business. The process is started by the absolute path of the worker's main file, so
nothing has to be installed in the user's environment and nothing there can shadow it. It leads a process group of its
own: ending it ends what user code started.
"""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import tempfile
from asyncio import transports
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Protocol, TypeAlias, cast

import fxworker
from fxls.cache import bytecode_folder
from fxls.workers.python_env import PythonEnv
from fxls.workers.variables import visible
from fxworker.encoding import WireError, decode, encode
from fxworker.home import CHOSEN
from fxworker.pycache import FOLDER
from fxworker.wire import Message, Request

_log = logging.getLogger(__name__)

WORKER: Final = Path(fxworker.__file__).resolve().parent / "__main__.py"

ONE: Final = "--one"
"""The worker's option for a process that answers one request itself, and does not fork for that."""

CLOSING: Final = "the server is shutting down"
"""Why nothing is answered any more by then."""

_LONGEST_LINE: Final = 256 << 20
_STDERR_KEPT: Final = 50


class Listener(Protocol):
    """Who is told what a process says, on the event loop."""

    def received(self, message: Message) -> None:
        """Take a message."""
        ...

    def ended(self, reason: str) -> None:
        """Take the end of the process; nothing follows."""
        ...


class WorkerProcess:
    """A running worker. Mutable; belongs to the event loop that started it."""

    def __init__(self, listener: Listener) -> None:
        self.started_at: float = 0.0
        self._listener = listener
        self._transport: asyncio.SubprocessTransport | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._errors: deque[str] = deque(maxlen=_STDERR_KEPT)
        self._exited = asyncio.Event()
        self._killed = False
        self._answers_itself = False
        self._is_shared = False
        self._home: tempfile.TemporaryDirectory[str] | None = None

    @classmethod
    async def start(cls, env: PythonEnv, listener: Listener, arguments: tuple[str, ...] = ()) -> "WorkerProcess":
        """Start a worker of an environment.

        Raises:
            OSError: the command cannot be started.
        """
        process = cls(listener)
        # It runs user code where it speaks to us, from its second line on.
        process._answers_itself = ONE in arguments
        loop = asyncio.get_running_loop()
        variables = {**visible(os.environ, env.variables), FOLDER: bytecode_folder()}
        if env.temporary_home:
            process._home = tempfile.TemporaryDirectory(prefix="fxls-home-", ignore_cleanup_errors=True)
            variables[CHOSEN] = process._home.name
        transport, protocol = await loop.subprocess_exec(
            lambda: _Pipes(process._line, process._error, process._end),
            *env.command,
            str(WORKER),
            *arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=variables,
            cwd=None,
        )
        process._transport = transport
        process._stdin = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
        process.started_at = loop.time()
        _log.info("worker %s started: %s", transport.get_pid(), env.name)
        del protocol
        return process

    @property
    def alive(self) -> bool:
        """Whether the process can take requests: it has not ended, nor was it told to."""
        return not self._killed and not self._exited.is_set()

    @property
    def pid(self) -> int:
        """The number of the process."""
        assert self._transport is not None
        return self._transport.get_pid()

    @property
    def status(self) -> int:
        """How the process ended, as `wait` says it."""
        assert self._transport is not None
        code = self._transport.get_returncode() or 0
        return -code if code < 0 else code << 8

    @property
    def last_words(self) -> str:
        """The last lines that the process wrote to its standard error."""
        return "\n".join(self._errors)

    def send(self, request: Request) -> None:
        """Send a request; one to a process that is ending is lost, its end will be told."""
        if self._stdin is not None and not self._stdin.is_closing():
            self._stdin.write(encode(request))

    def kill(self) -> None:
        """End the process and its group at once."""
        if not self._exited.is_set() and self._transport is not None:
            self._killed = True
            _kill_group(self._transport)

    async def close(self, patience: float = 1.0) -> None:
        """Ask the process to end by closing its input; kill it when it does not. Returns when it is gone."""
        self._killed = True
        if self._stdin is not None:
            self._stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._exited.wait()
        self.kill()
        await self._exited.wait()

    def _line(self, line: bytes) -> None:
        try:
            message = decode(line)
        except WireError as error:
            if self._is_shared:
                _log.info("code that worker %s runs wrote a line that is no message: %s", self.pid, error)
                return
            _log.exception("worker %s wrote a line that is no message; it is ended", self.pid)
            self.kill()
            return
        self._is_shared = self._answers_itself
        self._listener.received(message)

    def _error(self, line: str) -> None:
        self._errors.append(line)
        _log.info("worker: %s", line)

    def _end(self, reason: str) -> None:
        if not self._exited.is_set():
            self._exited.set()
            _log.info("worker %s ended: %s", self.pid, reason)
            # What user code started and left behind is in the group still.
            _kill_group(cast("asyncio.SubprocessTransport", self._transport))
            if self._home is not None:
                asyncio.get_running_loop().run_in_executor(None, self._home.cleanup)
            self._listener.ended(reason)


class _Pipes(asyncio.SubprocessProtocol):
    """Cuts what the process writes into lines, and waits until both its pipes and the process itself have ended."""

    def __init__(self, line: Callable[[bytes], None], error: Callable[[str], None], end: Callable[[str], None]) -> None:
        self._line = line
        self._error = error
        self._end = end
        self._transport: asyncio.SubprocessTransport | None = None
        self._chunks: list[bytes] = []
        self._held = 0
        self._error_rest = b""

    def connection_made(self, transport: transports.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            self._output(data)
        else:
            *lines, rest = (self._error_rest + data).split(b"\n")
            self._error_rest = rest[-4096:]
            for line in lines:
                self._error(line[-4096:].decode("utf-8", "replace").rstrip())

    def _output(self, data: bytes) -> None:
        head, *lines = data.split(b"\n")
        self._chunks.append(head)
        self._held += len(head)
        if not lines:
            if self._held > _LONGEST_LINE and self._transport is not None:
                _kill_group(self._transport)
            return
        first = b"".join(self._chunks)
        self._chunks, self._held = [lines[-1]], len(lines[-1])
        for line in (first, *lines[:-1]):
            self._line(line)

    def process_exited(self) -> None:
        # The pipes may stay open in a grandchild; the worker's end is what counts, its last lines are read first.
        asyncio.get_running_loop().call_later(0.05, self._finish)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._finish()

    def _finish(self) -> None:
        assert self._transport is not None
        self._end(_ending(self._transport.get_returncode()))
        self._transport.close()


def _ending(code: int | None) -> str:
    """Return how a process ended, in words."""
    if code is None:
        return "its pipes were closed"
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"


def _kill_group(transport: asyncio.SubprocessTransport) -> None:
    if sys.platform == "win32":
        with contextlib.suppress(ProcessLookupError):
            transport.kill()
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(transport.get_pid(), signal.SIGKILL)


Start: TypeAlias = Callable[[PythonEnv, Listener, tuple[str, ...]], Awaitable[WorkerProcess]]
"""Starts a worker process: with which Python, for whom, and with which options."""

"""Where the bytes come from and go to: standard input and output, or one connection on the loopback.

Nothing that is said has to wait for a thread, which takes as long as the rest of an answer where all processors are
busy: standard input is read by the event loop, and what fits into standard output is written at once. There are threads
for what cannot be done so: input that no loop can watch, and a client that does not read, which must not stop the
server from thinking. What anything else prints to standard output goes to standard error.

The server is made when the client has sent its first message, which may say what to begin while it is loaded.
"""

import asyncio
import contextlib
import logging
import os
import queue
import select
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias

from fxls.transport import Frames, Incoming

_log = logging.getLogger(__name__)

_CHUNK: Final = 1 << 16

_PARENT_LOOK: Final = 2.0

_LAST_WORDS: Final = 2.0
"""Seconds in which a client has to read what was said last."""


class Server(Protocol):
    """What a connection needs of a server."""

    exited: "asyncio.Future[int]"

    def receive(self, data: bytes) -> None:
        """Take bytes from the client."""
        ...

    def lost(self) -> None:
        """Take note that the client is gone."""
        ...

    async def end(self) -> None:
        """End all work and every process."""
        ...

    @property
    def process_id(self) -> int | None:
        """The client's process, when it said which it is."""
        ...


Create: TypeAlias = Callable[[Callable[[bytes], object], Incoming | None], Awaitable[Server]]
"""Makes the server: is told how to answer, and the client's first message, None where it left without one."""


class _Entrance:
    """Keeps what a client sends until there is a server to take it. Mutable.

    Attributes:
        first: The client's first message, None if it left without one.
    """

    def __init__(self) -> None:
        self.first: asyncio.Future[Incoming | None] = asyncio.get_running_loop().create_future()
        self._frames = Frames()
        self._kept: list[bytes] = []
        self._is_lost = False
        self._server: Server | None = None

    def receive(self, data: bytes) -> None:
        """Take bytes from the client."""
        if self._server is not None:
            self._server.receive(data)
            return
        self._kept.append(data)
        if not self.first.done() and (message := next(self._frames.feed(data), None)) is not None:
            self.first.set_result(message)

    def lost(self) -> None:
        """Take note that the client is gone."""
        self._is_lost = True
        if not self.first.done():
            self.first.set_result(None)
        if self._server is not None:
            self._server.lost()

    def open(self, server: Server) -> None:
        """Hand a server all that came, and from now on what comes."""
        self._server = server
        kept, self._kept = self._kept, []
        for data in kept:
            server.receive(data)
        if self._is_lost:
            server.lost()


class Output:
    """Writes to a descriptor in order, and never waits for its reader. Mutable; one thread says what is written."""

    def __init__(self, sink: int) -> None:
        self._sink = sink
        self._room = _poll(sink)
        self._waiting: queue.SimpleQueue[bytes | memoryview | None] = queue.SimpleQueue()
        self._said = self._written = 0
        self._broken = False
        self._writer = threading.Thread(target=self._write_what_waits, name="fxls output", daemon=True)
        self._writer.start()

    def write(self, data: bytes) -> None:
        """Write some bytes behind all that was said before."""
        left = memoryview(data)
        if self._said == self._written:
            left = self._write_what_fits(left)
        if left:
            self._said += 1
            self._waiting.put(left)

    async def close(self, patience: float) -> None:
        """Write what is left, unless that takes too long."""
        self._waiting.put(None)
        await asyncio.to_thread(self._writer.join, patience)

    def _write_what_fits(self, data: memoryview) -> memoryview:
        """Write as much as can be without waiting; return the rest."""
        while data and self._room is not None and self._room.poll(0):
            # As much as always fits where there is room at all.
            data = self._write(data, select.PIPE_BUF)
        return data

    def _write_what_waits(self) -> None:
        while (data := self._waiting.get()) is not None:
            left = memoryview(data)
            while left:
                left = self._write(left, len(left))
            self._written += 1

    def _write(self, data: memoryview, most: int) -> memoryview:
        """Write some of the bytes; return the rest."""
        if not self._broken:
            try:
                return data[os.write(self._sink, data[:most]) :]
            except OSError:
                # The client is gone; the reader tells the server. What is still said is dropped.
                self._broken = True
        return data[:0]


async def serve_stdio(create: Create) -> int:
    """Serve one client on standard input and output; return the exit code."""
    loop = asyncio.get_running_loop()
    source, sink = _private_descriptors()
    output, entrance = Output(sink), _Entrance()
    _listen(source, loop, entrance)
    server = await create(output.write, await entrance.first)
    entrance.open(server)
    code = await _until_exit(server)
    await output.close(_LAST_WORDS)
    return code


async def serve_tcp(create: Create, host: str, port: int, listening: Callable[[int], object]) -> int:
    """Serve the first client that connects; return the exit code. `listening` is told the port."""
    first: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = (
        asyncio.get_running_loop().create_future()
    )

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if first.done():
            writer.close()
        else:
            first.set_result((reader, writer))

    listener = await asyncio.start_server(connected, host, port)
    try:
        listening(listener.sockets[0].getsockname()[1])
        reader, writer = await first
    finally:
        listener.close()  # Without waiting: from CPython 3.12 on that would be for the client to leave.
    entrance = _Entrance()
    pump = asyncio.create_task(_pump(reader, entrance))
    server = await create(writer.write, await entrance.first)
    entrance.open(server)
    code = await _until_exit(server)
    pump.cancel()
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return code


async def _pump(reader: asyncio.StreamReader, entrance: _Entrance) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            entrance.receive(data)
    entrance.lost()


async def _until_exit(server: Server) -> int:
    """Wait until the client says `exit`, closes the connection, or is gone."""
    watch = asyncio.create_task(_watch_parent(server))
    try:
        return await server.exited
    finally:
        watch.cancel()
        await server.end()


async def _watch_parent(server: Server) -> None:
    """Let the server end when the process that started it has: its pipe may be held open by others."""
    while True:
        await asyncio.sleep(_PARENT_LOOK)
        if server.process_id is not None and not _runs(server.process_id):
            _log.warning("the client, process %s, is gone", server.process_id)
            server.lost()
            return


def _runs(pid: int) -> bool:
    """Whether a process exists. On Windows, where asking so would end it, the closed pipe has to tell."""
    if sys.platform == "win32":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _private_descriptors() -> tuple[int, int]:
    """Return descriptors of the connection that nobody else knows; 0 and 1 lead nowhere and to standard error."""
    source, sink = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    os.dup2(2, 1)
    return source, sink


def _listen(source: int, loop: asyncio.AbstractEventLoop, entrance: _Entrance) -> None:
    """Let an entrance take what comes from a descriptor."""

    def readable() -> None:
        data = b""
        with contextlib.suppress(OSError):
            data = os.read(source, _CHUNK)
        if data:
            entrance.receive(data)
        else:
            loop.remove_reader(source)
            entrance.lost()

    try:
        loop.add_reader(source, readable)
    except (NotImplementedError, OSError):  # Pipes on Windows, and files.
        threading.Thread(target=_read_all, args=(source, loop, entrance), name="fxls input", daemon=True).start()


def _read_all(source: int, loop: asyncio.AbstractEventLoop, entrance: _Entrance) -> None:
    with contextlib.suppress(OSError, RuntimeError):
        while data := os.read(source, _CHUNK):
            loop.call_soon_threadsafe(entrance.receive, data)
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(entrance.lost)


def _poll(sink: int) -> "select.poll | None":
    """Return what tells whether a descriptor takes bytes, None where nothing does, as for pipes on Windows."""
    if sys.platform == "win32":
        return None
    room = select.poll()
    room.register(sink, select.POLLOUT)
    return room

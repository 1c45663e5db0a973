"""Where the bytes come from and go to: standard input and output, or one connection on the loopback.

Standard input is read by a thread of its own, so that nothing that the server waits for can stop it from hearing
`exit`, and standard output is written by another, so that a client that does not read cannot stop it from thinking.
What anything else prints to standard output goes to standard error.

The server is made when the client has sent its first message, which may say what to begin while it is loaded.
"""

import asyncio
import contextlib
import logging
import os
import queue
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias

from fxls.transport import Frames, Incoming

_log = logging.getLogger(__name__)

_CHUNK: Final = 1 << 16

_SWITCH: Final = 0.0005
"""Seconds after which a thread that computes lets another one go on: a person waits for the event loop."""

_PARENT_LOOK: Final = 2.0


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


async def serve_stdio(create: Create) -> int:
    """Serve one client on standard input and output; return the exit code."""
    sys.setswitchinterval(_SWITCH)
    loop = asyncio.get_running_loop()
    source, sink = _private_descriptors()
    outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    entrance = _Entrance()
    writer = threading.Thread(target=_write_all, args=(sink, outgoing), name="fxls output", daemon=True)
    reader = threading.Thread(target=_read_all, args=(source, loop, entrance), name="fxls input", daemon=True)
    writer.start()
    reader.start()
    server = await create(outgoing.put, await entrance.first)
    entrance.open(server)
    code = await _until_exit(server)
    outgoing.put(None)
    await asyncio.to_thread(writer.join, 2.0)
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


def _read_all(source: int, loop: asyncio.AbstractEventLoop, entrance: _Entrance) -> None:
    with contextlib.suppress(OSError, RuntimeError):
        while data := os.read(source, _CHUNK):
            loop.call_soon_threadsafe(entrance.receive, data)
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(entrance.lost)


def _write_all(sink: int, outgoing: "queue.SimpleQueue[bytes | None]") -> None:
    broken = False
    while (data := outgoing.get()) is not None:
        view = memoryview(data)
        while view and not broken:
            try:
                view = view[os.write(sink, view) :]
            except OSError:
                # The client is gone; the reader tells the server. What is still said is dropped.
                broken = True

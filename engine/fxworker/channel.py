"""Frames over pipes between the worker's own processes, and the pipes themselves.

A frame is a mark, a kind and a payload with its length. The mark lets a reader find its way again when user code
wrote into a descriptor that is not its own. What the frames mean is the business of those who send them.
"""

import contextlib
import os
from dataclasses import dataclass
from enum import Enum
from typing import Final

try:
    import fcntl
except ImportError:  # Windows, whose pipes are as wide as they are.
    fcntl = None

MARK: Final = b"\x00fxls\xff\x00\x01"

_write: Final = os.write
"""As it is before user code runs, which may put something else in its place."""

_HEADER: Final = len(MARK) + 5
_LONGEST: Final = 512 << 20
_PIPE_SIZE: Final = 1 << 20


class Kind(Enum):
    """What a frame says."""

    REQUEST = b"Q"
    """A line of the wire protocol, on its way to the process that serves it."""

    TRIAL = b"X"
    """The same of a text that nobody has written, such as one with a fix: no early answer is wanted."""

    CANCEL = b"C"
    """The number of a request that is to end at once."""

    READY = b"R"
    """The process can take requests. A measuring process says on what it runs, as a line of the wire protocol."""

    REHEARSAL = b"W"
    """The process, which has built models ahead, traces them ahead, too."""

    STARTED = b"T"
    """The work on the request has begun, and its limit runs."""

    PHASE = b"P"
    """What the process does now: the index of a target, with a `?` for a guess. It executes the file before."""

    ANSWER = b"A"
    """The one line of the wire protocol that answers the request, on its way to the client."""

    EARLY = b"E"
    """A line of the wire protocol that says what is known before the answer, on its way to the client."""

    PROGRESS = b"G"
    """A line of the wire protocol that comes before the answer."""

    BUILT = b"B"
    """Names of targets, separated by newlines, for which models were built."""

    DECLINED = b"D"
    """The process, which has executed an older text, cannot serve the request: another has to begin from nothing."""

    STALE = b"S"
    """The process cannot serve a request, for what it imported has changed, or has broken it."""

    HINTS = b"H"
    """What was found out in a trace and saves the next one a search, as JSON: by target, construction and inputs."""

    LATE = b"L"
    """Names of modules, separated by newlines, that had to be imported for this request and may be kept."""

    READ = b"F"
    """Paths of files, separated by newlines, that had to be parsed for this request; their trees may be kept."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message between two of the worker's processes."""

    kind: Kind
    payload: bytes = b""


def pack(frame: Frame) -> bytes:
    """Return the bytes of a frame."""
    return b"".join((MARK, frame.kind.value, len(frame.payload).to_bytes(4, "big"), frame.payload))


class FrameReader:
    """Cuts a stream of bytes into frames, passing over whatever is none."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that are complete with `data`."""
        self._buffer += data
        frames: list[Frame] = []
        while (frame := self._next()) is not None:
            frames.append(frame)
        return frames

    def _next(self) -> Frame | None:
        buffer = self._buffer
        while True:
            start = buffer.find(MARK)
            if start < 0:
                del buffer[: -len(MARK)]
                return None
            del buffer[:start]
            if len(buffer) < _HEADER:
                return None
            size = int.from_bytes(buffer[_HEADER - 4 : _HEADER], "big")
            try:
                kind = Kind(bytes(buffer[len(MARK) : len(MARK) + 1]))
            except ValueError:
                kind = None
            if kind is None or size > _LONGEST:
                del buffer[: len(MARK)]
                continue
            if len(buffer) < _HEADER + size:
                return None
            frame = Frame(kind, bytes(buffer[_HEADER : _HEADER + size]))
            del buffer[: _HEADER + size]
            return frame


def send(fd: int, frame: Frame) -> None:
    """Write a frame to a blocking descriptor.

    Raises:
        OSError: nobody reads it any more, or the descriptor was closed.
    """
    rest = memoryview(pack(frame))
    while rest:
        rest = rest[_write(fd, rest) :]


def receive(fd: int) -> Frame | None:
    """Return the next frame of a blocking descriptor, None at its end. Reads no further than that frame."""
    header = _exactly(fd, _HEADER)
    if header is None:
        return None
    size = int.from_bytes(header[-4:], "big")
    payload = _exactly(fd, size)
    return None if payload is None else Frame(Kind(header[len(MARK) : len(MARK) + 1]), payload)


def pipe() -> tuple[int, int]:
    """Return the reading and the writing end of a wide pipe; no process that user code starts inherits them."""
    reading, writing = os.pipe()
    widen(writing)
    return reading, writing


def widen(fd: int) -> None:
    """Let a pipe hold a whole message, so that neither end waits for the other to take it in parts.

    Where the user's share of pipe memory is spent, or `fd` is no pipe, it stays as it is, slower and no more.
    """
    if fcntl is not None and hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)


def _exactly(fd: int, size: int) -> bytes | None:
    parts: list[bytes] = []
    while size > 0:
        part = os.read(fd, min(size, _PIPE_SIZE))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)

"""Bytes of a connection to JSON-RPC messages and back: framing, and what is wrong with a message before it is handled.

Knows neither LSP's methods nor the framework that handles them. A connection is a pipe or a socket whose other end may
send anything: every fault becomes a `Malformed`, none an exception, and reading goes on after it where that is
possible.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, TypeAlias

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
NOT_INITIALIZED: Final = -32002

LARGEST_MESSAGE: Final = 512 << 20
"""Bytes; a message that claims more is skipped and answered by an error."""

_LARGEST_HEADER: Final = 64 << 10
_LENGTH: Final = re.compile(rb"(?:^|\n)content-length:[ \t]*([0-9]+)[ \t]*\r?(?:\n|$)", re.IGNORECASE)
_LENGTH_BEHIND: Final = re.compile(rb"content-length:[ \t]*([0-9]+)[ \t]*(?:\r?\n){2}\Z", re.IGNORECASE)
"""The length behind what is none of a header, such as the rest of a message that was longer than it said."""

_END_OF_HEADER: Final = re.compile(rb"\r?\n\r?\n")


@dataclass(frozen=True, slots=True)
class Malformed:
    """Something that is no message: the code and text of the error reply, and the id that it answers, if any."""

    code: int
    message: str
    id: int | str | None = None


Incoming: TypeAlias = dict[str, Any] | Malformed


class Frames:
    """Cuts a stream of bytes into messages.

    Invariants: feeding a stream whole or byte by byte gives the same messages; memory is bounded by the largest
    message and what one `feed` brought.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._length: int | None = None
        self._skip = 0

    def feed(self, data: bytes) -> Iterator[Incoming]:
        """Take bytes; give the messages that they complete."""
        self._buffer += data
        while True:
            if self._skip:
                dropped = min(self._skip, len(self._buffer))
                del self._buffer[:dropped]
                self._skip -= dropped
                if self._skip:
                    return
            if self._length is None:
                fault = self._header()
                if fault is None:
                    return
                if isinstance(fault, Malformed):
                    yield fault
                continue
            if len(self._buffer) < self._length:
                return
            body = bytes(self._buffer[: self._length])
            del self._buffer[: self._length]
            self._length = None
            yield _parsed(body)

    def _header(self) -> Malformed | bool | None:
        """Read a header: True when there was one, None when it is not complete, what is wrong with it otherwise."""
        end = _END_OF_HEADER.search(self._buffer, 0, _LARGEST_HEADER)
        if end is None:
            if len(self._buffer) < _LARGEST_HEADER:
                return None
            del self._buffer[:_LARGEST_HEADER]
            return Malformed(PARSE_ERROR, "a header without an end")
        header = bytes(self._buffer[: end.end()])
        del self._buffer[: end.end()]
        length = _LENGTH.search(header)
        behind = _LENGTH_BEHIND.search(header) if length is None else length
        if behind is not None:
            size = int(behind[1]) if len(behind[1]) < 16 else LARGEST_MESSAGE + 1
            if size > LARGEST_MESSAGE:
                self._skip = size
                return Malformed(INVALID_REQUEST, f"a message of more than {LARGEST_MESSAGE >> 20} MiB")
            self._length = size
        return True if length is not None else Malformed(PARSE_ERROR, "a header without Content-Length")


class _Phase(Enum):
    BEFORE = auto()
    """`initialize` has not been asked yet."""
    OPEN = auto()
    """Requests are answered."""
    CLOSING = auto()
    """`shutdown` was asked; only `exit` is still heard."""


class Gate:
    """Lets those messages pass that the protocol's life cycle allows at this moment.

    LSP 3.17, "Lifecycle messages": a request before `initialize` is answered by -32002, one after `shutdown` by
    -32600, notifications are dropped; `exit` is always heard.
    """

    def __init__(self) -> None:
        self._phase = _Phase.BEFORE

    @property
    def closing(self) -> bool:
        """Whether `shutdown` was asked."""
        return self._phase is _Phase.CLOSING

    def refused(self, method: str) -> None:
        """Take note that an admitted request was none after all: after an `initialize`, another may come."""
        if method == "initialize":
            self._phase = _Phase.BEFORE

    def admit(self, message: dict[str, Any]) -> Malformed | bool:
        """Return whether to handle a message; a `Malformed` is to be answered instead."""
        method, number = message.get("method"), message.get("id")
        if method is None or method == "exit":
            return method == "exit" or self._phase is not _Phase.BEFORE
        if self._phase is _Phase.CLOSING:
            return number is not None and Malformed(INVALID_REQUEST, "the server is shutting down", number)
        if method == "initialize":
            if self._phase is _Phase.OPEN:
                return Malformed(INVALID_REQUEST, "the server is initialized already", number)
            self._phase = _Phase.OPEN
        elif self._phase is _Phase.BEFORE:
            return number is not None and Malformed(NOT_INITIALIZED, "`initialize` has to come first", number)
        elif method == "shutdown":
            self._phase = _Phase.CLOSING
        return True


def write(message: dict[str, Any], send: Callable[[bytes], object]) -> None:
    """Send a message with its header."""
    body = json.dumps(message, separators=(",", ":")).encode("utf-8")
    send(b"Content-Length: %d\r\n\r\n" % len(body) + body)


def error_reply(fault: Malformed) -> dict[str, Any]:
    """Return the reply to something malformed."""
    return {"jsonrpc": "2.0", "id": fault.id, "error": {"code": fault.code, "message": fault.message}}


def _parsed(body: bytes) -> Incoming:
    """Return the message of a body, or what is wrong with it."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        return Malformed(PARSE_ERROR, f"not JSON: {error}")
    if not isinstance(message, dict):
        return Malformed(INVALID_REQUEST, "a message must be an object; batches are no part of LSP")
    number = message.get("id")
    if isinstance(number, bool) or not isinstance(number, int | str | None):
        return Malformed(INVALID_REQUEST, "an id must be a number or a text")
    if message.get("jsonrpc") != "2.0":
        return Malformed(INVALID_REQUEST, 'a message must say `"jsonrpc": "2.0"`', number)
    method = message.get("method")
    if method is None and ("result" in message or "error" in message):
        return message
    if not isinstance(method, str):
        return Malformed(INVALID_REQUEST, "a message must have a method, a result or an error", number)
    if not isinstance(message.get("params"), dict | list | None):
        return Malformed(INVALID_REQUEST, "params must be an object or an array", number)
    return message

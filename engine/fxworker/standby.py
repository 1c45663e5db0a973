"""A worker for one request, where processes cannot be forked: started ahead, it waits with torch imported.

It speaks the wire protocol on its own descriptors, one line in and some lines out, and its supervisor is the server:
that starts it, bounds it in time, and reads its black box, a file, when it has hung or died. Before it traces a target
it says so, so that the others can be traced without one that hangs.
"""

import os
import tempfile
import threading
from typing import Final

from fxworker import handlers, sandbox
from fxworker.blackbox import BlackBox, keep
from fxworker.channel import Frame, Kind
from fxworker.children import Ends, die_with_parent, flush_output
from fxworker.documents import IMPORTS
from fxworker.encoding import decode, encode
from fxworker.limits import bound
from fxworker.loading import Document
from fxworker.tracing import warm_up
from fxworker.wire import EnvironmentReport, Message, ProfileRequest, Progress, TraceRequest

_CHUNK: Final = 1 << 16

TAKEN: Final = "taken"
"""What a process says of a request before anything is done for it."""


class Line(Ends):
    """The connection to the server, as the handlers of a request use it: frames become lines of the wire protocol."""

    number: int = 0

    def send(self, frame: Frame) -> None:
        """Say on the wire what a frame says, if it is of use there."""
        match frame.kind:
            case Kind.STARTED:
                self.say(Progress(self.number, "", 0))
            case Kind.PHASE:
                self.say(Progress(self.number, frame.payload.decode(), 0))
            case Kind.EARLY | Kind.PROGRESS | Kind.ANSWER:
                self._write(frame.payload)
            case _:
                pass

    def say(self, message: Message) -> None:
        """Send a message."""
        self._write(encode(message))

    def _write(self, line: bytes) -> None:
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(self.up, rest) :]


def serve_one(requests: int, answers: int, box: str, report: EnvironmentReport) -> None:
    """Say what this process runs on, answer one request, and end without the interpreter's farewell."""
    leave = os._exit
    parent = os.getppid()
    line = Line(requests, answers, BlackBox(os.open(box, os.O_RDWR | os.O_APPEND)))
    die_with_parent(parent)
    warm_up()
    line.say(report)
    text = _line(requests)
    if text:
        # Where the kernel does not end this process with the server, the closed pipe does.
        threading.Thread(target=lambda: leave(0) if not _line(requests) else None, daemon=True).start()
        _answer(line, text)
        flush_output()
    leave(0)


def _answer(line: Line, text: bytes) -> None:
    request = decode(text)
    assert isinstance(request, TraceRequest | ProfileRequest)
    object.__setattr__(line, "number", request.id)
    line.say(Progress(request.id, TAKEN, 0))
    sandbox.isolate()
    keep(line.down, line.up, line.box.fd)
    if isinstance(request, ProfileRequest):
        line.box.arm(request.limits.seconds)
        bound(request.limits)
        if request.sandbox:
            sandbox.retire(sandbox.own_folder())
        line.say(handlers._measured(request, line))
        return
    line.box.arm(IMPORTS * request.limits.seconds)
    bound(request.limits)
    if request.sandbox:
        folder = sandbox.own_folder()
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        sandbox.confine(sandbox.temporary_folders(request.roots, folder))
    document = Document.of(request)
    document.enter(request)
    document.import_ahead(request)
    line.send(Frame(Kind.STARTED))
    line.box.arm(request.limits.seconds)
    line.say(handlers._traced(request, document, line, None, None))


def _line(fd: int) -> bytes:
    """Return what comes up to the end of a line; nothing where the other end is closed."""
    parts: list[bytes] = []
    while True:
        part = os.read(fd, _CHUNK)
        parts.append(part)
        if not part:
            return b""
        if part.endswith(b"\n"):
            return b"".join(parts)

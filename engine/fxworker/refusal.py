"""Answering requests in an interpreter that cannot trace: each gets its one answer, which says nothing.

Why nothing can be traced stands in the `EnvironmentReport`. This module needs the standard library alone.
"""

import os

from fxworker.channel import Frame, Kind
from fxworker.children import Ends
from fxworker.encoding import WireError, decode, encode
from fxworker.texts import digest
from fxworker.wire import EnvironmentReport, Message, ProfileReport, ProfileRequest, TraceReport, TraceRequest


def refuse(requests: int, answers: int, report: EnvironmentReport) -> None:
    """Report the environment, then answer every request until the client has gone."""
    try:
        _write(answers, report)
        with os.fdopen(requests, "rb") as lines:
            for line in lines:
                answer = _answer(line)
                if answer is not None:
                    _write(answers, answer)
    except BrokenPipeError:
        return


def refuse_profile(ends: Ends, report: EnvironmentReport) -> None:
    """Do the same in a measuring process."""
    ends.send(Frame(Kind.READY, encode(report)))
    frame = ends.receive()
    answer = _answer(frame.payload) if frame is not None else None
    if answer is not None:
        ends.send(Frame(Kind.ANSWER, encode(answer)))


def _answer(line: bytes) -> Message | None:
    try:
        request = decode(line)
    except WireError:
        return None
    match request:
        case TraceRequest():
            return TraceReport(request.id, request.path, digest(request.text), "not traced")
        case ProfileRequest():
            text, name = digest(request.text), request.target.qualname
            return ProfileReport(request.id, request.path, text, name, request.device, "failed")
        case _:
            return None


def _write(fd: int, message: Message) -> None:
    rest = memoryview(encode(message))
    while rest:
        rest = rest[os.write(fd, rest) :]

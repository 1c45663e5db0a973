"""What a process does with its one request: it takes it, bounds itself, answers, and is gone."""

import contextlib
import dataclasses
import json
import os
import traceback
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

from fxengine.errors import text_of
from fxengine.source import is_user_file
from fxengine.syntax import known_files
from fxworker import spans, tampering
from fxworker.blackbox import keep
from fxworker.channel import Frame, Kind
from fxworker.children import Ends, flush_output, own_pid
from fxworker.encoding import decode, encode
from fxworker.limits import GRACE, bound
from fxworker.loading import Document, Hint, Loaded
from fxworker.measuring import failed, measure
from fxworker.packages import modules_since, newest_module
from fxworker.prepared import Prepared, prepare
from fxworker.rehearsal import is_rehearsed
from fxworker.rules import WorkerDied
from fxworker.sampling import sample
from fxworker.texts import digest
from fxworker.tracing import trace, warm_up
from fxworker.wire import (
    EarlyReport,
    EnvironmentReport,
    Location,
    Problem,
    ProfileReport,
    ProfileRequest,
    Progress,
    Span,
    TraceReport,
    TraceRequest,
)

_LATE_MILLISECONDS = 10.0
"""Imports that a trace had to do itself are repeated in the template if loading and building took longer than this;
torch's own always, which its kernels do when they are called first, and which may take longer than everything else."""


@dataclass(frozen=True, slots=True)
class Last:
    """A request that was answered, the targets for which models were built, and whether to trace these ahead."""

    request: TraceRequest
    built: frozenset[str]
    rehearse: bool


def serve_trace(ends: Ends, document: Document, last: Last | None = None) -> None:
    """Take one request, answer it, and say what saves the next one work.

    With `last` the text of that request is executed, its models are built ahead and mostly traced, and the process
    says when it is ready; it declines a request to which that is of no use.
    """
    # This process was forked ahead of need: it touches now the memory that a trace will touch.
    if last is None or not last.rehearse:
        warm_up()
    prepared: Prepared | None = None
    if last is not None:
        prepared = _worked_ahead(ends, last, document)
        if prepared is None:
            return
    frame = ends.receive()
    if frame is None:
        return
    request = decode(frame.payload)
    assert isinstance(request, TraceRequest)
    mine = own_pid()
    ends.send(Frame(Kind.STARTED))
    ends.box.arm(request.limits.seconds + GRACE / 2)
    keep(ends.down, ends.up, ends.box.fd)
    _bound_again(request, last)
    document.see(request.overlays)
    newest, known = newest_module(), known_files()
    loaded = prepared.taken(request) if prepared is not None else None
    if prepared is not None and loaded is None:
        ends.send(Frame(Kind.DECLINED))
        return
    report = _traced(request, document, ends, prepared, loaded)
    if own_pid() != mine:
        return  # User code forked, and its child came back here as well.
    frames = _packed(request, report, document, ends)
    # The answer goes out with what was printed before it.
    flush_output()
    for each in frames:
        ends.send(each)
    late = [name for name in modules_since(newest) if name != document.name]
    took = report.timings.load + report.timings.build
    if late and (took > _LATE_MILLISECONDS or any(each.startswith("torch.") for each in late)):
        ends.send(Frame(Kind.LATE, "\n".join(late).encode()))
    read = known_files() - known
    if read:
        ends.send(Frame(Kind.READ, "\n".join(sorted(read)).encode()))


def serve_profile(ends: Ends, environment: EnvironmentReport) -> None:
    """Say what this process runs on, take one request to measure, tell how far it is, and answer it."""
    ends.send(Frame(Kind.READY, encode(environment)))
    frame = ends.receive()
    if frame is None:
        return
    request = decode(frame.payload)
    assert isinstance(request, ProfileRequest)
    ends.send(Frame(Kind.STARTED))
    ends.box.arm(request.limits.seconds)
    keep(ends.down, ends.up, ends.box.fd)
    bound(request.limits)
    ends.send(Frame(Kind.ANSWER, encode(_measured(request, ends))))


def pack_hints(hints: dict[str, Hint]) -> bytes:
    """Return hints as the payload of a frame."""
    return json.dumps({name: dataclasses.asdict(hint) for name, hint in hints.items()}).encode()


def unpack_hints(payload: bytes) -> dict[str, Hint]:
    """Return the hints of a frame."""
    found: dict[str, dict[str, Any]] = json.loads(payload)
    return {name: Hint(**values) for name, values in found.items()}


def _worked_ahead(ends: Ends, last: Last, document: Document) -> Prepared | None:
    """Do ahead what the next request will want, and say when it can be taken; None where that was no use."""
    bound(last.request.limits)
    prepared = _prepared(last, document)
    if prepared is None:
        return None
    if last.rehearse:
        ends.send(Frame(Kind.REHEARSAL))
        if not _rehearsed(last, document, prepared):
            return None
    ends.send(Frame(Kind.READY))
    return prepared


def _bound_again(request: TraceRequest, last: Last | None) -> None:
    """Keep this process to the limits of a request, unless it is kept to them since it began to work ahead."""
    if last is None or last.request.limits != request.limits:
        bound(request.limits)


def _prepared(last: Last, document: Document) -> Prepared | None:
    """Return what was done ahead, None where that went wrong: the trace itself will tell of it."""
    try:
        return prepare(last.request, document, last.built)
    except BaseException:  # noqa: BLE001 — User code runs here, whose faults are told by whoever traces.
        return None


def _rehearsed(last: Last, document: Document, prepared: Prepared) -> bool:
    """Trace what was built ahead; False where that leaves something behind."""
    try:
        return is_rehearsed(last.request, document, prepared)
    except BaseException:  # noqa: BLE001 — As above.
        return False


def _traced(
    request: TraceRequest, document: Document, ends: Ends, prepared: Prepared | None, loaded: Loaded | None
) -> TraceReport:
    def on_target(index: int, guess: str | None) -> None:
        ends.send(Frame(Kind.PHASE, str(index).encode() if guess is None else f"{index}?{guess}".encode()))

    def on_traced(report: TraceReport, built: frozenset[str]) -> None:
        if built:
            ends.send(Frame(Kind.EARLY, encode(EarlyReport(request.id, report))))
        ends.send(Frame(Kind.BUILT, "\n".join(built).encode()))

    try:
        if request.sample:
            return sample(request, document)
        return trace(request, document, on_target, on_traced, prepared=prepared, loaded=loaded)
    except BaseException as error:  # noqa: BLE001 — The request loop of a worker: a fault of ours is told like any other.
        return _failed(request, error, ends)


def _packed(request: TraceRequest, report: TraceReport, document: Document, ends: Ends) -> tuple[Frame, ...]:
    """Return what a trace found out as it is sent, or why it cannot be: the file may have broken what that needs."""
    try:
        return Frame(Kind.HINTS, pack_hints(document.hints)), Frame(Kind.ANSWER, encode(report))
    except BaseException as error:  # noqa: BLE001 — As above.
        return (Frame(Kind.ANSWER, encode(_failed(request, error, ends))),)


def _failed(request: TraceRequest, error: BaseException, ends: Ends) -> TraceReport:
    fault = _fault(request, error, ends)
    return TraceReport(request.id, request.path, digest(request.text), "not traced", problems=(fault,))


def _measured(request: ProfileRequest, ends: Ends) -> ProfileReport:
    def progressed(fraction: float, message: str) -> None:
        line = encode(Progress(request.id, message, round(100 * fraction)))
        ends.send(Frame(Kind.PROGRESS, line))

    try:
        return measure(request, progressed)
    except BaseException as error:  # noqa: BLE001 — As above.
        return failed(request, _fault(request, error))


def _fault(request: TraceRequest | ProfileRequest, error: BaseException, ends: Ends | None = None) -> Problem:
    """Return the problem of an exception that nobody expected: the file has broken what all share, or it is ours.

    What is known best is said of the place: the line of the file that ran, else the last one that was executed.
    """
    replaced = tampering.undo()
    frames = traceback.extract_tb(error.__traceback__)
    at = _line_of(error, request.path)
    if not at and ends is not None and replaced:
        at = ends.box.read().at
    location = Location(request.path, spans.of_running(request.text, at) if at else Span(1, 0, 1, 0))
    original = f"{type(error).__name__}: {text_of(error)}"
    if replaced:
        message = f"the file or what it imports has replaced `{replaced}`, without which nothing can be traced"
        return Problem(WorkerDied.code, "error", message, location, original=original)
    if at and is_user_file(frames[-1].filename):
        message = "the file's own code raised this where fxls asked something of an object: " + original
        return Problem(WorkerDied.code, "error", message, location, original=original)
    with contextlib.suppress(Exception):  # The exception may be the user's own, and anything about it may raise.
        traceback.print_exception(error)
    where = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    return Problem(
        WorkerDied.code,
        "error",
        f"fxls failed on this file: {original}{where}",
        location,
        hint="this is a fault of fxls; the log of the server holds the traceback",
    )


def _line_of(error: BaseException, path: str) -> int:
    """Return the line of a file that an error of ours is about, 0 if none: that which ran, or raised what we looked at.

    What the file's code has raised may raise again when somebody asks it for its name.
    """
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    found = _last_line(error.__traceback__, path)
    looked_at = (value for frame in reversed(frames) for value in list(frame.f_locals.values()))
    while not found and (value := next(looked_at, _NOTHING)) is not _NOTHING:
        if BaseException in type(value).__mro__:
            found = _last_line(_traceback_of(value), path)
    return found


def _last_line(trace: TracebackType | None, path: str) -> int:
    """Return the line of a file that an exception came out of last, 0 if it came out of none."""
    return next((line for frame, line in reversed([*traceback.walk_tb(trace)]) if frame.f_code.co_filename == path), 0)


_NOTHING: Final = object()
_traceback_of: Final = vars(BaseException)["__traceback__"].__get__

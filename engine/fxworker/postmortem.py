"""What is told of a trace whose process hung or died: the line it was at, from its black box.

Nothing here runs user code; the process that it ran in is gone.
"""

import os
import signal
from dataclasses import dataclass, replace
from typing import Final

from fxworker import spans
from fxworker.blackbox import Entry, Record
from fxworker.texts import digest
from fxworker.wire import (
    Location,
    Problem,
    ProfileReport,
    ProfileRequest,
    Related,
    Span,
    TargetReport,
    TraceReport,
    TraceRequest,
    TraceTarget,
)

TIMED_OUT: Final = "FX104"
DIED: Final = "FX105"

_LINUX_OUT_OF_MEMORY: Final = "the memory limit, or somebody else, killed it"


@dataclass(frozen=True, slots=True)
class End:
    """How a process ended: its black box, and its wait status; None when it was killed after `seconds`, its limit.

    `excess` says which other limit it was ended for, "" if for none.
    """

    record: Record
    status: int | None
    seconds: float = 0.0
    excess: str = ""

    @property
    def timed_out(self) -> bool:
        """Whether it did not finish in time."""
        return self.status is None


def superseded(request: TraceRequest) -> TraceReport:
    """Return the answer to a request that was ended, or could not be begun: nothing is known, nothing is wrong."""
    return TraceReport(request.id, request.path, digest(request.text), "not traced")


def file_report(request: TraceRequest, end: End) -> TraceReport:
    """Return the answer when the file could not even be executed."""
    targets = tuple(TargetReport(each.qualname, each.kind, each.name, "not traced") for each in request.targets)
    problem = _problem(request, end, None)
    return TraceReport(request.id, request.path, digest(request.text), "not traced", targets, (problem,))


def unfinished(request: TraceRequest, known: TraceReport | None) -> TraceReport:
    """Return the answer when the time is over: what was known before, and of each target at least that it is there."""
    reports = {each.qualname: each for each in known.targets} if known is not None else {}
    targets = tuple(
        reports.get(each.qualname) or TargetReport(each.qualname, each.kind, each.name, "not traced")
        for each in request.targets
    )
    return replace(known or superseded(request), id=request.id, targets=targets)


def target_report(
    request: TraceRequest, target: TraceTarget, end: End, known: TraceReport | None = None
) -> TargetReport:
    """Return what is told of the target that was worked on.

    Args:
        request: What was asked.
        target: The target.
        end: How that ended.
        known: What was known before, where it ended while something was only guessed: that holds still.
    """
    problem = _problem(request, end, target)
    report = next((each for each in known.targets if each.qualname == target.qualname), None) if known else None
    if report is None:
        return TargetReport(target.qualname, target.kind, target.name, "not traced", problems=(problem,))
    message = f"`{target.qualname}` is shown without shapes: looking for inputs {_how(end)}"
    location = Location(request.path, target.name)
    problem = replace(problem, severity="information", message=message, location=location, related=())
    return replace(report, problems=(*report.problems, problem))


def profile_report(request: ProfileRequest, end: End) -> ProfileReport:
    """Return the answer to a profile whose process gave none."""
    problem = _problem(request, end, request.target)
    name, text = request.target.qualname, digest(request.text)
    return ProfileReport(request.id, request.path, text, name, request.device, "failed", problems=(problem,))


def _problem(request: TraceRequest | ProfileRequest, end: End, target: TraceTarget | None) -> Problem:
    """Return the problem at the innermost recorded line of the file, with the library line it waits in."""
    stack = end.record.stack
    around = (*stack, *end.record.main)
    own = next((entry for entry in around if _same(entry.path, request.path)), None)
    what = "importing" if target is None else f"building or tracing `{target.qualname}`"
    code, hint, message = (TIMED_OUT if end.timed_out else DIED), "", _how(end)
    if end.timed_out:
        hint = "the trace was ended here; if it needs longer, raise `fxls.trace.timeout`"
    elif end.excess:
        hint = "if it needs that many, raise the limit: `fxls.trace.processes`, `fxls.trace.memory`"
    message = f"{what}: this {message}" if own is not None else f"{what} {message}"
    location = Location(request.path, _span(request, own, target, end.record.at))
    related = _related(stack, own)
    name = target.qualname if target is not None else ""
    return Problem(code, "error", message, location, hint=hint, target=name, related=related)


def _how(end: End) -> str:
    if end.timed_out:
        return f"did not finish within {end.seconds:g} s"
    return f"was ended: it used {end.excess}" if end.excess else f"ended the process: {_cause(end)}"


def _span(request: TraceRequest | ProfileRequest, own: Entry | None, target: TraceTarget | None, at: int) -> Span:
    if own is not None:
        return spans.of_running(request.text, own.line)
    if target is not None:
        return target.name
    return spans.of_running(request.text, at) if at else Span(1, 0, 1, 0)


def _related(stack: tuple[Entry, ...], own: Entry | None) -> tuple[Related, ...]:
    """Return where it was in truth, when that is a line of another file."""
    innermost = stack[0] if stack else None
    if innermost is None or innermost is own or not os.path.isabs(innermost.path):
        return ()
    line = Span(innermost.line, 0, innermost.line, 0)
    return (Related(Location(innermost.path, line), f"it was here, in `{innermost.function}`"),)


def _cause(end: End) -> str:
    if end.record.cause:
        return end.record.cause
    status = end.status or 0
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGKILL:
            return f"SIGKILL ({_LINUX_OUT_OF_MEMORY})"
        return signal.Signals(number).name
    return f"exit status {os.WEXITSTATUS(status)} without an answer"


def _same(path: str, other: str) -> bool:
    # faulthandler cuts long paths.
    return path == other or (path.endswith("...") and other.startswith(path[:-3]))

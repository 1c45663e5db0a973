"""The document template: a process that has imported what one file imports, and forks a fresh child for every trace.

The child that takes the next request is forked ahead of it and waits. The template supervises the child: wall clock,
memory, death; it answers for a child that cannot, and traces the file's other models without the one that hung.
Newest wins: a request for the file ends the trace of the one before.
"""

import contextlib
import gc
import os
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from fxengine.syntax import tree_of
from fxworker import dependence, handlers, postmortem, sandbox
from fxworker.channel import Frame, FrameReader, Kind
from fxworker.children import (
    Child,
    Ends,
    accept_children,
    adopt_orphans,
    die_with_parent,
    disarm_timers,
    fork,
    hold_standard_descriptors,
    outlive_parent,
    own_pid,
)
from fxworker.encoding import decode, encode
from fxworker.limits import GRACE, ask_where, bound, bring_down, watch
from fxworker.loading import Document, Hint
from fxworker.loop import Loop, Timer, drain
from fxworker.postmortem import End
from fxworker.wire import EarlyReport, Limits, TargetReport, TraceReport, TraceRequest

_WARMING: Final = 5.0
"""Seconds that a child may take before it takes up a request."""

IMPORTS: Final = 2.0
"""How many times its limit a request may take for imports, which a cold disk makes slow and only the first one pays."""

_REPLENISHED: Final = 0.02
"""Seconds after a request was taken up when the next child is forked: most edits are answered by then, and a person who
types on finds it ready."""

_PAUSE: Final = 0.005
"""Seconds after an answer when work is begun ahead of the next request: it is mostly done when the person types on."""

_QUICK: Final = 0.5
"""Seconds that a trace may take to its early answer to be done ahead, too: a longer one gains little by that, and the
child would be ready too late."""

_SHORTEST: Final = 0.5
"""Seconds that another attempt, without the models that hung, must have left."""

_YIELDING: Final = 4
"""By how much less what traces counts than the server and the editor, which a person waits for at each key.

On two cores the slowest hovers while traces run take two thirds of the time for that, and no edit is answered later.
"""


@dataclass
class Job:
    """The request that is being worked on. Mutable.

    Attributes:
        request: What was asked.
        left: The request without the targets whose trace killed or hung a child.
        lost: The reports of those targets, by name.
        phase: The index in `left` of the target that the child works on, None while it executes the file.
        guess: With which arguments that were inferred it was built, "" for none, while the child tries a guess about
            it, of which nobody said that it works; None while it does not.
        excess: Which limit the child exceeded.
        late: Whether the child has taken too long.
        begun: When the child took it up, 0 before.
        quick: Whether the child traced its models soon after that.
        ahead: Whether the child had executed an older text before.
        known: What a child has said of the targets before it knew all, a line.
    """

    request: TraceRequest
    line: bytes
    left: TraceRequest
    started: float
    child: Child | None = None
    phase: int | None = None
    guess: str | None = None
    timer: Timer | None = None
    excess: str = ""
    late: bool = False
    begun: float = 0.0
    quick: bool = False
    ahead: bool = False
    known: bytes = b""
    lost: dict[str, TargetReport] = field(default_factory=dict)


@dataclass
class _Prepared:
    """A child that executes the last text ahead of need. Mutable.

    Attributes:
        ready: Whether it can take a request.
        rehearses: Whether it has built the models, and traces them ahead.
    """

    child: Child
    limits: Limits
    ready: bool = False
    rehearses: bool = False


def live(ends: Ends, folder: str) -> None:
    """Be a document template: import what the first request's file imports, then serve until the parent has gone.

    Where that is to happen in a sandbox, `folder` is for what it writes.
    """
    frame = ends.receive()
    if frame is None:
        return
    request = decode(frame.payload)
    assert isinstance(request, TraceRequest)
    ends.box.arm(IMPORTS * request.limits.seconds + GRACE / 2)
    bound(request.limits)
    adopt_orphans()
    if request.sandbox:
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        sandbox.confine(sandbox.temporary_folders(request.roots, folder))
    mine, parent = own_pid(), os.getppid()
    document = Document.of(request)
    document.enter(request)
    # What imports make, stays: nobody looks through it for what could go.
    gc.disable()
    document.import_ahead(request)
    if own_pid() != mine:
        return  # What is imported forked, and its child came back here as well.
    ends.box.rest()
    hold_standard_descriptors()
    disarm_timers()
    # From here on the parent's end shows in the pipe, and the children are ended in order.
    outlive_parent()
    accept_children()
    gc.freeze()
    gc.enable()
    os.nice(_YIELDING)
    template = DocumentTemplate(ends, document, parent)
    ends.send(Frame(Kind.READY))
    template.run()


class DocumentTemplate:
    """The loop of a document template. Mutable; one thread."""

    def __init__(self, ends: Ends, document: Document, parent: int) -> None:
        self._ends = ends
        self._document = document
        self._parent = parent
        self._loop = Loop()
        self._reader = FrameReader()
        self._spare: Child | None = None
        self._prepared: _Prepared | None = None
        self._rehearse = True
        self._built: frozenset[str] = frozenset()
        self._last: handlers.Last | None = None
        self._job: Job | None = None
        self._late: list[str] = []
        self._read = set[str]()
        self._parsed = set[str]()
        self._traced: TraceRequest | None = None

    def run(self) -> None:
        """Serve until the parent has gone."""
        os.set_blocking(self._ends.down, False)
        self._loop.readable(self._ends.down, self._receive)
        self._prepare()
        self._loop.run()
        self._drop_spares()
        if self._job is not None and self._job.child is not None:
            self._job.child.kill()

    def _receive(self) -> None:
        data, ended = drain(self._ends.down)
        frames = self._reader.feed(data)
        for frame in frames:
            if frame.kind in {Kind.REQUEST, Kind.TRIAL}:
                self._take(frame.payload, trial=frame.kind is Kind.TRIAL)
            elif frame.kind is Kind.CANCEL and self._job is not None and self._job.request.id == int(frame.payload):
                self._supersede()
        if ended:
            self._loop.stop()

    def _take(self, line: bytes, *, trial: bool) -> None:
        self._supersede()
        child, ahead = self._child(anew=trial)
        child.send(Frame(Kind.REQUEST, line))
        # It is looked at while the child begins: nothing that the child says is heard before.
        request = decode(line)
        assert isinstance(request, TraceRequest)
        self._job = job = Job(request, line, request, time.monotonic())
        self._begin(job, child, request.limits.seconds, ahead=ahead)
        if request.sandbox != sandbox.is_asked() or not self._document.is_fresh(request):
            self._replace(job)

    def _child(self, *, anew: bool) -> tuple[Child, bool]:
        """Return a child for a job, and whether it has worked ahead, as one that is to begin `anew` has not."""
        prepared = self._prepared
        if prepared is not None and prepared.ready and not anew:
            self._prepared = None
            return prepared.child, True
        child, self._spare = self._spare or self._fork(), None
        return child, False

    def _start(self, job: Job, seconds: float, *, anew: bool = False) -> None:
        """Hand a job to a child."""
        child, ahead = self._child(anew=anew or not job.request.early)
        child.send(Frame(Kind.REQUEST, job.line))
        self._begin(job, child, seconds, ahead=ahead)

    def _begin(self, job: Job, child: Child, seconds: float, *, ahead: bool) -> None:
        """Take note that a child has begun a job."""
        job.child, job.ahead = child, ahead
        job.phase, job.guess, job.excess, job.late, job.begun = None, None, "", False, 0.0
        self._built = frozenset()
        # A child that was not forked ahead has to warm up first; its time runs from when it says so.
        job.timer = self._loop.after(_WARMING + seconds + GRACE, lambda: self._overdue(job))
        self._loop.after(_REPLENISHED, lambda: self._replenish() if job.child is child else None)
        limits = job.request.limits
        watch(self._loop, os.getpid(), limits, lambda: job.child is child, lambda what: self._exceeded(job, what))

    def _replace(self, job: Job) -> None:
        """Leave a job to another template: what this one imported is not what an import would give now."""
        if job.child is not None:
            job.child.kill()
        self._finish(job)
        self._ends.send(Frame(Kind.STALE))

    def _start_anew(self, job: Job) -> None:
        """Hand a job to a child that has executed nothing."""
        if job.timer is not None:
            job.timer.cancel()
        self._start(job, job.left.limits.seconds, anew=True)

    def _fork(self, last: handlers.Last | None = None) -> Child:
        document = self._document

        def run(ends: Ends) -> None:
            handlers.serve_trace(ends, document, last)

        child = fork(
            self._loop, run, lambda frame: self._framed(child, frame), lambda status: self._ended(child, status)
        )
        return child

    def _framed(self, child: Child, frame: Frame) -> None:
        job = self._job
        if frame.kind is Kind.LATE:
            self._late = frame.payload.decode().split("\n")
        elif frame.kind is Kind.READ:
            # Each once: where there are more files than trees are kept, the trace has to parse them itself.
            self._read = {*frame.payload.decode().split("\n")} - self._parsed
        elif frame.kind is Kind.HINTS:
            self._remember(handlers.unpack_hints(frame.payload))
        elif self._prepared is not None and self._prepared.child is child:
            if frame.kind is Kind.READY:
                self._prepared.ready = True
            elif frame.kind is Kind.REHEARSAL:
                self._prepared.rehearses = True
        if job is not None and job.child is child:
            self._told(job, child, frame)

    def _remember(self, hints: dict[str, Hint]) -> None:
        """Keep what was found out; a child that was forked before does not know it."""
        if any(self._document.hints.get(name) != hint for name, hint in hints.items()):
            self._document.hints |= hints
            self._drop_spares()

    def _told(self, job: Job, child: Child, frame: Frame) -> None:
        """Take what the child that works on a job says of it."""
        match frame.kind:
            case Kind.STARTED if job.timer is not None:
                job.begun = time.monotonic()
                job.timer.cancel()
                seconds = job.left.limits.seconds
                job.timer = self._loop.after(seconds, lambda: self._is_late(job))
            case Kind.PHASE:
                index, is_guess, built = frame.payload.decode().partition("?")
                job.phase, job.guess = int(index), built if is_guess else None
            case Kind.EARLY:
                job.quick = time.monotonic() - job.begun < _QUICK
                job.known = frame.payload
                if job.request.early:
                    self._send(Kind.EARLY, job, frame.payload)
            case Kind.BUILT:
                self._built = frozenset(frame.payload.decode().split("\n")) - {""}
            case Kind.DECLINED:
                # What was done for the last text is of no use to the next one, either.
                self._last = None
                self._drop_prepared()
                self._start_anew(job)
            case Kind.ANSWER:
                if job.request.early:
                    # A person edits this text, and what they do next is mostly close to it.
                    rehearse = self._rehearse and job.quick
                    self._last = handlers.Last(job.left, self._built, rehearse) if self._built else None
                self._finish(job)
                self._answer(job, frame.payload, child.printed())
            case _:
                pass

    def _ended(self, child: Child, status: int) -> None:
        if child is self._spare:
            self._spare = None
        if self._prepared is not None and child is self._prepared.child:
            # It could not do that ahead; another would not be able to, either.
            self._rehearse = self._rehearse and not self._prepared.rehearses
            self._last = replace(self._last, rehearse=False) if self._last and self._prepared.rehearses else None
            self._prepared = None
        job = self._job
        if job is not None and job.child is child:
            seconds = job.left.limits.seconds
            self._lost(job, End(child.box.read(), None if job.late else status, seconds, job.excess))
        if self._job is None:
            self._prepare()

    def _is_late(self, job: Job) -> None:
        """Let a child that takes too long record where it is, which ends it; end it soon in any case."""
        assert job.child is not None
        job.late = True
        ask_where(job.child.pid)
        job.timer = self._loop.after(GRACE, lambda: self._overdue(job))

    def _overdue(self, job: Job) -> None:
        assert job.child is not None
        child, job.child = job.child, None
        end = End(child.box.read(), None, job.left.limits.seconds)
        child.kill()
        self._lost(job, end)

    def _exceeded(self, job: Job, what: str) -> None:
        """End a child that uses too much."""
        assert job.child is not None
        job.excess = what
        child = job.child
        bring_down(self._loop, child.pid, lambda: job.child is child, child.kill)

    def _lost(self, job: Job, end: End) -> None:
        """Answer for a child that gave no answer, or try the file's other models without the one it worked on."""
        if job.timer is not None:
            job.timer.cancel()
        if not job.begun and job.ahead:
            # What it did ahead has broken it, not what every child has.
            self._start_anew(job)
            return
        if not job.begun:
            # What the file imports has broken what every child needs: only another template helps.
            end = replace(end, record=self._ends.box.read())
            self._conclude(job, postmortem.file_report(job.request, end))
            self._ends.send(Frame(Kind.STALE))
            return
        if job.phase is None or job.phase >= len(job.left.targets):
            self._conclude(job, postmortem.file_report(job.request, end))
            return
        target = job.left.targets[job.phase]
        others = job.left.targets
        limit = job.request.limits.seconds
        seconds = min(limit, job.started + 2 * limit - time.monotonic())
        if job.guess is not None:
            # No fault of the file: once more, and without guessing. The waiting child does not know that yet.
            self._document.fear(job.request, target.qualname, job.guess)
            self._drop_spares()
        known = _known(job)
        if job.guess is None or seconds < _SHORTEST:
            before = known if job.guess is not None else None
            job.lost[target.qualname] = postmortem.target_report(job.request, target, end, before)
            others = tuple(each for each in others if each.qualname != target.qualname)
        if not others or seconds < _SHORTEST:
            self._conclude(job, postmortem.unfinished(job.request, known))
            return
        limits = replace(job.request.limits, seconds=seconds)
        job.left = replace(job.request, targets=others, limits=limits)
        job.line = encode(job.left)
        self._start(job, seconds)

    def _conclude(self, job: Job, report: TraceReport) -> None:
        self._finish(job)
        self._answer(job, encode(report), "")

    def _finish(self, job: Job) -> None:
        if job.timer is not None:
            job.timer.cancel()
        if job.child is not None:
            job.child = None
        self._job = None
        self._traced = job.request
        self._loop.after(0.0, self._prepare)

    def _answer(self, job: Job, line: bytes, printed: str) -> None:
        if printed or job.lost:
            report = decode(line)
            assert isinstance(report, TraceReport)
            line = encode(_with_lost(replace(report, output=printed), job))
        self._send(Kind.ANSWER, job, line)

    def _send(self, kind: Kind, job: Job, line: bytes) -> None:
        self._ends.send(Frame(kind, b"%d %s" % (job.request.id, line)))

    def _supersede(self) -> None:
        """End the job that is being worked on, if there is one, with an answer that says nothing."""
        job = self._job
        if job is None:
            return
        if job.child is not None:
            job.child.kill()
        self._finish(job)
        self._send(Kind.ANSWER, job, encode(postmortem.superseded(job.request)))

    def _prepare(self) -> None:
        """Fork the child that takes the next request, having imported what the last one had to import itself."""
        if self._job is not None:
            return
        if self._late:
            self._drop_spares()
            # Meanwhile nobody looks at the pipe that shows the end of the parent.
            die_with_parent(self._parent)
            self._document.import_late(self._late)
            outlive_parent()
            self._late = []
        if self._read:
            self._drop_spares()
            _parse_ahead(self._read)
            self._parsed |= self._read
            self._read = set()
        if self._traced is not None:
            self._document.read_ahead(self._traced)
            dependence.read_ahead(self._document.statements)
            self._traced = None
        self._replenish()
        self._loop.after(_PAUSE, self._work_ahead)

    def _replenish(self) -> None:
        if self._spare is None:
            self._spare = self._fork()

    def _work_ahead(self) -> None:
        """Fork a child that does ahead of need what the next request, if it changes little, would have to do again."""
        last = self._last
        if last is None or self._prepared is not None:
            return
        self._prepared = _Prepared(self._fork(last), last.request.limits)
        self._guard(self._prepared)

    def _guard(self, prepared: _Prepared) -> None:
        """End a child that uses too much, or takes too long, before it is ready."""
        child, limits = prepared.child, prepared.limits

        def works() -> bool:
            return self._prepared is prepared and not prepared.ready

        watch(self._loop, os.getpid(), limits, works, lambda _excess: child.kill())
        self._loop.after(_WARMING + limits.seconds, lambda: child.kill() if works() else None)

    def _drop_spares(self) -> None:
        self._drop_prepared()
        if self._spare is not None:
            self._spare.kill()
            self._spare = None

    def _drop_prepared(self) -> None:
        if self._prepared is not None:
            self._prepared.child.kill()
            self._prepared = None


def numbered(payload: bytes) -> tuple[int, bytes]:
    """Return the number of the request that a document template speaks of, and the line that it says."""
    number, _, line = payload.partition(b" ")
    return int(number), line


def _parse_ahead(paths: Iterable[str]) -> None:
    """Parse files that the trace of a file had to parse: those that lead to its problems, mostly the same ones."""
    for path in paths:
        with contextlib.suppress(Exception):  # What it raised in the trace itself.
            tree_of(path)


def _known(job: Job) -> TraceReport | None:
    """Return what a child has said of a job before it knew all."""
    early = decode(job.known) if job.known else None
    return early.report if isinstance(early, EarlyReport) else None


def _with_lost(report: TraceReport, job: Job) -> TraceReport:
    """Return a report with the targets that were lost, in the order of the request."""
    if not job.lost:
        return report
    reports = {each.qualname: each for each in report.targets} | job.lost
    targets = tuple(reports[each.qualname] for each in job.request.targets if each.qualname in reports)
    status = "partial" if any(each.status != "not traced" for each in targets) else "not traced"
    return replace(report, targets=targets, status=status)

"""The environment template: it has imported torch and the engine once, and forks a document template for each file.

Reads requests from the client, hands each to the template of its file, and passes the answers on without looking into
them. It never runs user code and never touches an accelerator, so a fork of it is always clean. It has one answer for
each request: where a document template hangs or dies while it imports, the answer is made here.
"""

import gc
import os
import shutil
import sys
import time
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Final

from fxworker import documents, postmortem, sandbox
from fxworker.channel import Frame, Kind, widen
from fxworker.children import Child, adopt_orphans, end_stragglers, fork, own
from fxworker.encoding import decode, encode
from fxworker.limits import GRACE, ask_where, bring_down, own_memory, watch
from fxworker.loading import import_key
from fxworker.loop import LineReader, Loop, Outbox, Timer
from fxworker.postmortem import End
from fxworker.profiles import Profiles, read
from fxworker.tracing import warm_up, warm_up_more
from fxworker.wire import CancelRequest, EnvironmentReport, Keep, ProfileRequest, TraceReport, TraceRequest

_PATIENCE: Final = 10.0
"""Seconds beyond twice its limit after which a document template must have answered a request."""

_LOOK: Final = 1.0
"""Seconds after an answer in which a document template has made ready for the next request: then it is as large as it
will be, and all are looked at together. After the first, what takes long is done ahead for the templates to come."""

_FAREWELL: Final = 1.0
"""Seconds that document templates have to end in order when the client has gone."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request, and the line that it came in, which is passed on as it is."""

    request: TraceRequest
    line: bytes


@dataclass(eq=False)
class _Document:
    """A document template as the environment template sees it. Mutable.

    Attributes:
        first: The request that it was started for, whose imports it makes.
        ready: Whether it has made them.
        waiting: The newest request, while it is not ready.
        asked: The requests that it was handed and has not answered.
        timers: When each of them must be answered; 0 stands for its imports.
        silent: Whether nobody has been told yet what its imports printed.
        excess: Which limit its imports exceeded.
        late: The seconds after which they had taken too long, 0 if they have not.
    """

    first: TraceRequest
    child: Child
    ready: bool = False
    waiting: _Asked | None = None
    asked: dict[int, _Asked] = field(default_factory=dict[int, _Asked])
    timers: dict[int, Timer] = field(default_factory=dict[int, Timer])
    silent: bool = True
    excess: str = ""
    late: float = 0.0

    @property
    def path(self) -> str:
        """The file."""
        return self.first.path


class Template:
    """The loop of the environment template. Mutable; one thread."""

    def __init__(self, requests: int, answers: int, report: EnvironmentReport, command: tuple[str, ...]) -> None:
        self._loop = Loop()
        for fd in (requests, answers):
            widen(fd)
        self._out = Outbox(self._loop, own(answers))
        self._documents: OrderedDict[str, _Document] = OrderedDict()
        self._profiles = Profiles(self._loop, self._out, command)
        self._ending: set[Child] = set()
        self._keep = Keep()
        self._looks = False
        self._is_warm = False
        self._folder = ""
        adopt_orphans()
        self._out.write(encode(report))
        warm_up()
        # What lives now lives as long as the process: no collection in a child needs to look at it, and to copy it.
        gc.freeze()
        LineReader(self._loop, own(requests), self._take)

    def run(self) -> None:
        """Serve until the client has gone, and leave no process behind."""
        self._loop.run()
        self._say_farewell()

    def _take(self, line: bytes) -> None:
        request = read(line)
        match request:
            case TraceRequest():
                self._trace(_Asked(request, line))
            case ProfileRequest():
                self._profiles.start(request)
            case CancelRequest():
                self._cancel(request.id)
            case _:
                sys.stderr.write(f"fxworker: a {type(request).__name__} is no request\n")

    def _trace(self, asked: _Asked) -> None:
        request = asked.request
        self._keep = request.keep
        document = self._documents.get(request.path)
        if document is not None and not document.ready and import_key(request) != import_key(document.first):
            # It imports what the file imports no longer, and might even hang in it.
            self._drop(document)
            document = None
        if document is None:
            document = self._start(asked)
        self._documents.move_to_end(request.path)
        if document.ready:
            self._hand(document, asked)
            return
        if document.waiting is not None:
            self._answer(postmortem.superseded(document.waiting.request))
        document.waiting = asked

    def _start(self, asked: _Asked) -> _Document:
        folder = self._sandbox_folder() if asked.request.sandbox else ""
        child = fork(
            self._loop,
            lambda ends: documents.live(ends, folder),
            lambda frame: self._framed(document, frame),
            lambda status: self._ended(document, status),
        )
        document = _Document(asked.request, child)
        self._documents[document.path] = document
        child.send(Frame(Kind.REQUEST, asked.line))
        limit = documents.IMPORTS * asked.request.limits.seconds
        document.timers[0] = self._loop.after(limit, lambda: self._is_late(document, limit))
        watch(
            self._loop,
            child.pid,
            asked.request.limits,
            lambda: not document.ready and self._is_kept(document),
            lambda what: self._exceeded(document, what),
            os.getpid(),
        )
        self._evict()
        return document

    def _sandbox_folder(self) -> str:
        """Return the folder that files in a sandbox may write to, made with the first of them."""
        if not self._folder:
            self._folder = sandbox.own_folder()
        return self._folder

    def _exceeded(self, document: _Document, what: str) -> None:
        """End a document template whose imports use too much."""
        document.excess = what
        child = document.child
        bring_down(self._loop, child.pid, lambda: self._is_kept(document), child.kill)

    def _evict(self) -> None:
        """End the document templates that are more than are kept, those first that were used longest ago."""
        idle = [each for each in [*self._documents.values()][:-1] if each.ready and not each.asked]
        for document in idle[: max(0, len(self._documents) - self._keep.documents)]:
            self._drop(document)

    def _look(self) -> None:
        """End document templates, too, until the others hold no more memory than they may."""
        self._looks = False
        if not self._is_warm:
            self._is_warm = True
            warm_up_more()
            gc.freeze()
        self._evict()
        mine = os.getpid()
        held = {each: own_memory(mine, each.child.pid) for each in self._documents.values()}
        excess = sum(held.values()) - self._keep.memory
        for document in [*held][:-1]:
            if excess > 0 and document.ready and not document.asked:
                excess -= held[document]
                self._drop(document)

    def _hand(self, document: _Document, asked: _Asked) -> None:
        request = asked.request
        document.asked[request.id] = asked
        document.child.send(Frame(Kind.REQUEST if request.early else Kind.TRIAL, asked.line))
        limit = 2 * request.limits.seconds + _PATIENCE
        document.timers[request.id] = self._loop.after(limit, lambda: self._overdue(document, limit))

    def _is_kept(self, document: _Document) -> bool:
        return self._documents.get(document.path) is document

    def _framed(self, document: _Document, frame: Frame) -> None:
        if not self._is_kept(document):
            return
        match frame.kind:
            case Kind.READY:
                document.ready = True
                self._settle(document, 0)
                asked, document.waiting = document.waiting, None
                if asked is not None:
                    self._hand(document, asked)
            case Kind.EARLY:
                number, line = documents.numbered(frame.payload)
                if number in document.asked:
                    self._out.write(line)
            case Kind.ANSWER:
                self._pass_on(document, frame.payload)
            case Kind.STALE:
                self._replace(document)
            case _:
                pass

    def _pass_on(self, document: _Document, payload: bytes) -> None:
        """Hand an answer to the client. The first one is told what the imports printed."""
        number, line = documents.numbered(payload)
        if number not in document.asked:
            return
        self._settle(document, number)
        if not self._looks:
            self._looks = True
            self._loop.after(_LOOK, self._look)
        if document.silent:
            document.silent = False
            printed = document.child.printed()
            if printed:
                report = decode(line)
                assert isinstance(report, TraceReport)
                line = encode(replace(report, output=printed + report.output))
        self._out.write(line)

    def _replace(self, document: _Document) -> None:
        """Start a template anew for the newest request: what the old one imported has changed, or broken it.

        The request that it could not serve may be an older one.
        """
        asked = document.asked.pop(max(document.asked, default=0), None)
        self._drop(document)
        if asked is not None:
            self._trace(asked)

    def _settle(self, document: _Document, number: int) -> None:
        document.asked.pop(number, None)
        timer = document.timers.pop(number, None)
        if timer is not None:
            timer.cancel()

    def _is_late(self, document: _Document, limit: float) -> None:
        """Let a document template whose imports take too long record where it is, which ends it; end it soon anyway."""
        document.late = limit
        ask_where(document.child.pid)
        document.timers[0] = self._loop.after(GRACE, lambda: self._overdue(document, limit))

    def _overdue(self, document: _Document, seconds: float) -> None:
        self._lose(document, End(document.child.box.read(), None, seconds))

    def _ended(self, document: _Document, status: int) -> None:
        self._ending.discard(document.child)
        if self._documents.get(document.path) is document:
            how = None if document.late else status
            self._lose(document, End(document.child.box.read(), how, document.late, document.excess))

    def _lose(self, document: _Document, end: End) -> None:
        """Answer for a document template that hangs or has died."""
        open_requests = [*document.asked.values()]
        if document.waiting is not None:
            open_requests.append(document.waiting)
        document.asked.clear()
        document.waiting = None
        printed = document.child.printed()
        for asked in open_requests:
            self._answer(replace(postmortem.file_report(asked.request, end), output=printed))
        self._drop(document)

    def _drop(self, document: _Document) -> None:
        """End a document template; requests that it still has are answered with nothing."""
        for timer in document.timers.values():
            timer.cancel()
        for asked in document.asked.values():
            self._answer(postmortem.superseded(asked.request))
        if document.waiting is not None:
            self._answer(postmortem.superseded(document.waiting.request))
        if self._documents.get(document.path) is document:
            del self._documents[document.path]
        self._ending.add(document.child)
        document.child.kill()

    def _cancel(self, number: int) -> None:
        if self._profiles.cancel(number):
            return
        for document in self._documents.values():
            if number in document.asked:
                document.child.send(Frame(Kind.CANCEL, str(number).encode()))
            elif document.waiting is not None and document.waiting.request.id == number:
                self._answer(postmortem.superseded(document.waiting.request))
                document.waiting = None

    def _answer(self, report: TraceReport) -> None:
        self._out.write(encode(report))

    def _say_farewell(self) -> None:
        """End every child, then whatever the children left."""
        self._profiles.close()
        for document in self._documents.values():
            if document.ready:
                document.child.close()
            else:
                document.child.kill()
        until = time.monotonic() + _FAREWELL
        children = [each.child for each in self._documents.values()]
        while time.monotonic() < until and not all(child.has_ended() for child in (*children, *self._ending)):
            time.sleep(0.01)
        for child in children:
            child.kill()
        end_stragglers(everybody=True)
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

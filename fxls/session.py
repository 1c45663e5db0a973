"""The state of a running server: open documents, settings, environments, and the last answers about each document.

Everything here runs on the event loop, and nothing waits for a trace except the jobs that do nothing else. The
session knows the client and the workers through Protocols; it knows neither the framework nor processes.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from lsprotocol import types as lsp

from fxls.archive import Archive, Kept
from fxls.discovery.ignores import without_ignored
from fxls.discovery.index import ModelIndex
from fxls.discovery.syntax import is_program
from fxls.display import Client, Display
from fxls.document import Document, Effect
from fxls.features.status import confinement, status
from fxls.fixes.verifying import is_worthwhile, with_fixes
from fxls.lsp_ext import Status
from fxls.scheduler import Scheduler
from fxls.snapshot import Snapshot
from fxls.view import View
from fxls.watching import Watcher
from fxls.workers.client import OnProgress, WorkerClient
from fxls.workers.pool import WorkerPool
from fxls.workers.python_env import PythonEnv
from fxls.workspace import Workspace
from fxworker.texts import digest
from fxworker.wire import ProfileReport, TraceReport, TraceRequest, TraceTarget

_log = logging.getLogger(__name__)

_LONG: Final = 8_000
"""Characters of a text in which models are looked for beside the event loop: on it, that would take too long."""

_SOON: Final = 0.5
"""Seconds that the problems of a document which was not traced before wait for the rest of its report."""

_HEAD_START: Final = 0.3
"""Seconds for which that search waits for the trace that was begun ahead of it: they would slow each other down."""

_HANDED_OVER: Final = 0.004
"""Seconds after the problems of that trace were shown in which the client, and nobody else, has the machine."""


class Pool(Protocol):
    """Where the session finds workers."""

    def client(self, env: PythonEnv) -> WorkerClient:
        """Return the worker of an environment."""
        ...

    async def discard(self, env: PythonEnv) -> None:
        """End the processes of an environment."""
        ...

    def keep(self, environments: Collection[PythonEnv]) -> None:
        """End the processes of all other environments."""
        ...

    async def close(self) -> None:
        """End every process."""
        ...


_PAUSE: Final = 0.5
"""Seconds without an edit after which fixes are tried out: that takes a trace each."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What client and server agreed on when they met. `run` is False where the server was told to run nothing."""

    encoding: str = "utf-16"
    folders: tuple[str, ...] = ()
    trusted: bool = True
    run: bool = True


@dataclass(frozen=True, slots=True)
class _Ahead:
    """A trace that was begun before it was known whether its request is the right one.

    Attributes:
        heard: Is set when its problems have been shown, or its answer is there.
    """

    request: TraceRequest
    answer: "asyncio.Task[TraceReport]"
    heard: asyncio.Event


class Session:
    """The server's state. Mutable; belongs to one event loop.

    Invariants:
    - No worker is started, and nothing is sent to one, unless the workspace is trusted and running is allowed.
    - Diagnostics are published with the version of the text that their positions are of.
    """

    def __init__(self, client: Client, terms: Terms, pool: Pool | None = None, parallel: int | None = None) -> None:
        self._display = Display(client)
        self._terms = terms
        self._trusted = terms.trusted and terms.run
        self._workspace = Workspace(terms.folders)
        self._pool: Pool = pool or WorkerPool()
        self._documents: dict[str, Document] = {}
        self._scheduler = Scheduler(parallel or max(1, min(4, (os.cpu_count() or 2) // 2)))
        self._watcher = Watcher(self.files_changed)
        self._archive = Archive()
        self._trials: dict[str, asyncio.Task[None]] = {}
        self._edited: set[str] = set()
        self._looks: dict[View, asyncio.Task[None]] = {}
        self._provisional: set[str] = set()
        # One thread: a search that was superseded while it waited is not begun, and no two compete with the loop.
        self._beside = ThreadPoolExecutor(1, "fxls discovery")

    # The world: trust, settings, folders.

    @property
    def trusted(self) -> bool:
        """Whether user code may run."""
        return self._trusted

    @property
    def folders(self) -> tuple[str, ...]:
        """The workspace's folders."""
        return self._workspace.folders

    def trust(self) -> None:
        """Take note that the person trusts the workspace now."""
        if self._terms.run and not self._trusted:
            self._trusted = True
            self._reconsider(self._documents.values())

    def announce(self) -> None:
        """Show how things are with the document that the person is at, or before one is open."""
        active = self._documents.get(self._display.active)
        if active is not None:
            self._display.tell(self._snapshot(active))
            return
        restricted = Status("restricted", "fx ⏸ restricted", "The workspace is not trusted: nothing in it is executed.")
        self._display.say(status(None) if self._trusted else restricted)

    def configure(self, section: object, folder: str | None = None) -> None:
        """Take the client's settings, for one folder or for all; what depends on them is done again."""
        changed = self._workspace.configure(section, folder)
        for each in changed.bad:
            self._display.warn(each.message)
        documents = [(document, self._workspace.view(document)) for document in self._documents.values()]
        for document, view in documents:
            if view in changed.views and not self._scheduler.busy(document.uri):
                self._show(document)  # What is only shown in another way need not be found out again.
        self._reconsider([document for document, view in documents if view in changed.traced])

    def change_folders(self, added: Iterable[str], removed: Iterable[str]) -> None:
        """Take note of the workspace's folders."""
        self._workspace.change_folders(added, removed)
        self._reconsider(self._documents.values())

    # Documents.

    def open(self, uri: str, version: int | None, text: str) -> None:
        """Take a document that the client opened."""
        document = Document(uri, version, text, self._terms.encoding)
        document.saved = _digest_on_disk(document.path)
        self._documents[uri] = document
        if document.unsaved:
            self._edited.add(uri)  # What the last session left unsaved: files that import it have not seen it.
        self._touch(uri)
        self._submit(document)

    def change(self, uri: str, version: int | None, events: Sequence[lsp.TextDocumentContentChangeEvent]) -> None:
        """Take an edit: trace again where code changed, carry what is known where only layout did."""
        document = self._documents.get(uri)
        if document is None:
            _log.warning("a change of a document that is not open: %s", uri)
            return
        self._touch(uri)
        match document.change(version, events):
            case Effect.LAYOUT | Effect.NONE if document.current or not self._scheduler.busy(uri):
                # The text of this version has no other diagnostics, and the client waits for those of this version.
                self._show(document)
            case Effect.LAYOUT | Effect.NONE:
                pass
            case _:
                self._edited.add(uri)
                self._workspace.edited(document)
                self._submit(document)

    def activate(self, uri: str) -> None:
        """Take note that the person looks at a document: it comes first, and the status tells of it."""
        document = self._documents.get(uri)
        if document is not None:
            self._touch(uri)
            self._display.tell(self._snapshot(document))

    def save(self, uri: str) -> None:
        """Take note that a document's text is what is on disk now."""
        document = self._documents.get(uri)
        if document is not None:
            document.saved = document.digest

    def close_document(self, uri: str) -> None:
        """Forget a document; what it showed is taken away."""
        document = self._documents.pop(uri, None)
        if document is None:
            return
        self._edited.discard(uri)
        self._provisional.discard(uri)
        self._scheduler.forget(uri)
        self._end_trials(uri)
        self._watcher.depend(uri, ())
        self._display.forget(uri)
        self._show_configurations()
        if document.unsaved:
            self._follow(document.path)
        if uri == self._display.active:
            self._display.active = next(reversed(self._documents), "")
            self.announce()

    def files_changed(self, paths: Iterable[str]) -> None:
        """Trace again what depends on files that changed on disk, and is not open with a text of its own."""
        opened = {document.path for document in self._documents.values()}
        changed = [path for path in paths if path not in opened]
        if any(path.endswith("pyproject.toml") for path in changed):
            self._workspace.reset()
            self._show_configurations()
        for uri in self._watcher.owners(changed):
            self._again(uri)

    # Questions.

    def snapshot(self, uri: str) -> Snapshot | None:
        """Return a document as it is now, None when it is not open."""
        document = self._documents.get(uri)
        return None if document is None else self._snapshot(document)

    def python(self, uri: str) -> PythonEnv | None:
        """Return the Python that a document is traced with, None when it is not open."""
        document = self._documents.get(uri)
        return None if document is None else self._workspace.environment(document)

    # Long work.

    async def settled(self, uri: str) -> None:
        """Return when nothing is on its way for a document any more."""
        await self._scheduler.settled(uri)

    async def retrace(self, uri: str) -> None:
        """Trace a document again, whatever is known of it; its environment is looked at again too."""
        document = self._documents.get(uri)
        if document is None:
            return
        if document.environment is not None and document.environment.problem:
            await self._pool.discard(self._workspace.environment(document))
            self._workspace.view(document).reset()
        document.outdated()
        self._submit(document)
        await self.settled(uri)

    async def profile(self, uri: str, target: TraceTarget, device: str, progress: OnProgress) -> ProfileReport | None:
        """Measure a model; None where nothing may run or the document is not open."""
        document = self._documents.get(uri)
        if document is None or not self._trusted:
            return None
        request = self._workspace.profile_request(document, self._others(document), target, device)
        report = await self._worker(document).profile(request, progress)
        if self._workspace.is_to_be_freed(document, report):
            self._workspace.free(document)
            report = await self._worker(document).profile(replace(request, sandbox=False), progress)
        if report.status == "complete" and document.digest == report.digest:
            document.measured(report)
            self._display.refresh()
        return report

    async def close(self) -> None:
        """End all work and every process."""
        self._display.close()
        self._watcher.close()
        for uri in [*self._trials]:
            self._end_trials(uri)
        for look in [*self._looks.values()]:
            look.cancel()
        await self._scheduler.close()
        await self._archive.close()
        self._beside.shutdown(wait=False, cancel_futures=True)
        await self._pool.close()

    # What follows from a change.

    def _reconsider(self, documents: Iterable[Document]) -> None:
        """Do everything about documents again: the world around them has changed."""
        for document in documents:
            document.forget()
            document.environment = None
            self._submit(document)
        used = {self._workspace.environment(document) for document in self._documents.values()}
        self._pool.keep(used | self._workspace.environments)
        self._display.refresh()

    def _submit(self, document: Document) -> None:
        """Do what a document's current text asks for, in place of what was being done for an older one."""
        self._end_trials(document.uri)
        self._scheduler.submit(document.uri, lambda: self._work(document))
        self._begin(document)

    async def _work(self, document: Document) -> None:
        """Look for models, trace them, show the report. Cancelled as soon as the text's code changes."""
        ahead = self._ahead(document)
        try:
            if ahead is not None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_HEAD_START):
                        await ahead.heard.wait()
                        await asyncio.sleep(_HANDED_OVER)
            await self._look_and_trace(document, ahead)
        finally:
            if ahead is not None:
                ahead.answer.cancel()
        self._display.refresh()

    async def _look_and_trace(self, document: Document, ahead: "_Ahead | None") -> None:
        """Look for a document's models and trace them, unless that has been begun with the right ones."""
        effect = document.indexed(await self._discovered(document))
        if effect is not Effect.BROKEN and document.uri in self._edited:
            self._edited.remove(document.uri)
            self._follow(document.path)
        if ahead is not None and effect is not Effect.BROKEN:
            if self._request(document) == ahead.request:
                self._answered(document, ahead.request, await ahead.answer)
                return
            effect = Effect.CODE
        match effect:
            case Effect.CODE if document.index.targets and self._trusted:
                if ahead is not None:
                    ahead.answer.cancel()
                await self._trace(document)
            case Effect.CODE:
                document.forget()
                self._watcher.depend(document.uri, (), self._workspace.dependencies(document).absent)
                self._show(document)
            case _:
                self._show(document)

    def _ahead(self, document: Document) -> "_Ahead | None":
        """Begin to trace a text whose models are still to be looked for: mostly they are those of the text before."""
        index, environment = document.index, document.environment
        known = index.parsed and index.targets and environment is not None and not environment.problem
        restored = document.report is not None and document.report.digest == document.digest
        if not (known and self._trusted) or restored or not is_program(document.text):
            return None  # What is typed mostly does not parse.
        request, heard = self._request(document), asyncio.Event()
        answer = asyncio.get_running_loop().create_task(self._asked(document, request, heard))
        return _Ahead(request, answer, heard)

    async def _discovered(self, document: Document) -> ModelIndex:
        """Return the models in a document's text."""
        found = await self._searched(document, document.text)
        self._show_configurations()
        return found

    async def _searched(self, document: Document, text: str) -> ModelIndex:
        """Return the models in a text that a document has or may get; what takes long is done beside the event loop."""
        view, said, loop = self._workspace.view(document), document.index.settings, asyncio.get_running_loop()
        if _is_long(text) or view.is_new(document.path):
            found = await loop.run_in_executor(self._beside, view.discover, document.path, text, said)
        else:
            found = view.discover(document.path, text, said)
        if view.was_hasty(document.path) and view not in self._looks:
            self._looks[view] = loop.create_task(self._look_again(view))
        return found

    async def _look_again(self, view: View) -> None:
        """Trace what was looked at too early to know of calls in the folder's files, once those have been looked at."""
        try:
            await view.looked()
            for document in [each for each in self._documents.values() if view.was_hasty(each.path)]:
                text = document.text
                found = await self._searched(document, text)
                is_other = (found.targets, found.settings) != (document.index.targets, document.index.settings)
                is_other = is_other or document.uri in self._provisional
                if document.text == text and found.parsed and is_other:
                    self._provisional.discard(document.uri)
                    document.indexed(found)
                    self._again(document.uri)
        finally:
            del self._looks[view]

    async def _trace(self, document: Document) -> None:
        """Trace a document and show the report."""
        first = document.environment is None
        if first and document.uri == self._display.active:
            self._display.say(status(None))
        starting, kept = self._worker(document).environment(), None
        if first and self._archive.has(self._workspace.environment(document), document.path):
            # While the worker starts, what an earlier session has left is shown.
            document.environment, kept = await asyncio.gather(starting, self._recalled(document))
        else:
            document.environment = await starting
        if first:
            _log_environment(document, sandboxed=self._workspace.is_sandboxed(document))
        if document.environment.problem:
            document.forget()
            self._show(document)
            return
        if kept is not None and kept.environment == document.environment:
            self._show(document)
            return
        request = self._request(document)
        self._answered(document, request, await self._asked(document, request, asyncio.Event()))

    async def _recalled(self, document: Document) -> Kept | None:
        """Show the report that an earlier session has left, if nothing changed since; return it."""
        request = self._request(document)
        view, env = self._workspace.view(document), self._workspace.environment(document)
        kept = await self._archive.recalled(env, request, hasty=view.was_hasty(document.path))
        if kept is not None and kept.provisional:
            if not view.was_hasty(document.path):
                return None  # Meanwhile it is known what other files say.
            self._provisional.add(document.uri)
        if kept is not None:
            document.asked()
            self._answered(document, request, kept.report)
        return kept

    async def _asked(self, document: Document, request: TraceRequest, heard: asyncio.Event) -> TraceReport:
        """Return the report of a document's text; after an edit its problems are shown as soon as they are known.

        Those of a document about which nothing was known are shown with the rest, if that comes soon.
        """
        shows: asyncio.TimerHandle | None = None

        def show(known: Snapshot) -> None:
            self._display.publish(known)
            self._scheduler.progressed(document.uri)

        def early(report: TraceReport) -> None:
            nonlocal shows
            whole = document.completed(report, request)
            if whole is None or self._workspace.is_to_be_freed(document, report):
                return
            known = document.early(without_ignored(whole), self._workspace.settings(document))
            if known is not None and document.report is not None:
                show(known)
            elif known is not None and shows is None:
                shows = asyncio.get_running_loop().call_later(_SOON, show, known)
            heard.set()

        document.asked()
        try:
            report = await self._worker(document).trace(request, early)
            whole = document.completed(report, request)
            if whole is None:
                whole = await self._worker(document).trace(replace(request, known=()), early)
            return without_ignored(whole)
        finally:
            heard.set()
            if shows is not None:
                shows.cancel()

    def _answered(self, document: Document, request: TraceRequest, report: TraceReport) -> None:
        """Show a report, if it is that of the text that was asked about last, and begin to look for fixes."""
        if self._workspace.is_to_be_freed(document, report):
            self._workspace.free(document)
            self._submit(document)
            return
        if document.answer(report):
            found = self._workspace.dependencies(document, report)
            self._watcher.depend(document.uri, found.read, found.absent, document.asked_at)
            if self._has_seen_others(request, {*found.read, *found.absent}):
                self._again(document.uri)
                return
            self._show(document)
            self._workspace.view(document).remember(document.index, report)
            self._keep(document, request, report)
            if is_worthwhile(report) and not _has_fixes(report):
                trials = self._try_fixes(document, request, report)
                self._trials[document.uri] = asyncio.get_running_loop().create_task(trials)

    def _has_seen_others(self, request: TraceRequest, read: Collection[str]) -> bool:
        """Whether a trace has read texts of other documents that were edited, opened or closed meanwhile.

        Of a text that does not parse nobody is told before it does.
        """
        then = {each.path: each.text for each in request.overlays}
        now = {each.path: each.text for each in self._documents.values() if each.unsaved}
        waiting = {self._documents[uri].path for uri in self._edited}
        return any(then.get(path) != now.get(path) for path in read if path not in waiting)

    async def _try_fixes(self, document: Document, request: TraceRequest, report: TraceReport) -> None:
        """Try fixes of a document's problems out, once the person pauses. Cancelled by the next edit of its code."""
        worker = self._worker(document)

        async def trial(text: str) -> tuple[ModelIndex, TraceReport]:
            index = await self._searched(document, text)
            return index, without_ignored(
                await worker.trace(replace(request, text=text, targets=index.targets, known=()))
            )

        async def sampler(text: str, targets: tuple[TraceTarget, ...]) -> TraceReport:
            return await worker.trace(replace(request, text=text, targets=targets, sample=True, early=False))

        await asyncio.sleep(_PAUSE)
        fixed = await with_fixes(report, request.text, trial, sampler)
        document.mended(report, fixed)
        self._keep(document, request, fixed)

    def _keep(self, document: Document, request: TraceRequest, report: TraceReport) -> None:
        """Keep a report for the next session; one that comes from there is kept already."""
        if document.environment is not None:
            self._archive.keep(self._workspace.environment(document), request, document.environment, report)

    def _end_trials(self, uri: str) -> None:
        trials = self._trials.pop(uri, None)
        if trials is not None:
            trials.cancel()

    def _show(self, document: Document) -> None:
        """Show what is known of a document."""
        self._display.show(self._snapshot(document))

    def _show_configurations(self) -> None:
        """Show what is wrong in the configurations of open documents."""
        self._display.mistakes(self._workspace.mistakes(self._documents.values()))

    def _begin(self, document: Document) -> None:
        """Show that a document is being worked on, if that takes long enough to be seen."""

        def still() -> Snapshot | None:
            return self._snapshot(document) if self._scheduler.busy(document.uri) else None

        if self._trusted:
            self._display.begin(document.uri, still)

    def _follow(self, path: str) -> None:
        """Trace again the other documents that import a file whose unsaved text changed."""
        for uri in self._watcher.owners((path,)):
            self._again(uri)

    def _again(self, uri: str) -> None:
        document = self._documents.get(uri)
        if document is not None:
            document.outdated()
            self._submit(document)

    def _touch(self, uri: str) -> None:
        self._display.active = uri
        self._scheduler.touch(uri)

    # What a request needs.

    def _request(self, document: Document) -> TraceRequest:
        return self._workspace.trace_request(document, self._others(document))

    def _others(self, document: Document) -> Iterable[Document]:
        return (each for each in self._documents.values() if each is not document)

    def _worker(self, document: Document) -> WorkerClient:
        return self._pool.client(self._workspace.environment(document))

    def _snapshot(self, document: Document) -> Snapshot:
        return self._workspace.snapshot(document, trusted=self._trusted)


def _log_environment(document: Document, *, sandboxed: bool) -> None:
    """Write down what a document runs on. That it is not kept from harm is said at the level that everybody logs."""
    found = document.environment
    if found is not None and not found.problem:
        level = logging.INFO if found.sandbox or not sandboxed else logging.WARNING
        where = confinement(found, sandboxed=sandboxed)
        _log.log(level, "%s: torch %s, Python %s, %s", document.path, found.torch, found.python, where)


def _has_fixes(report: TraceReport) -> bool:
    """Whether fixes were tried out for the problems of a report before; what the worker itself offers was not."""
    return any(fix.verified for target in report.targets for problem in target.problems for fix in problem.fixes)


def _is_long(text: str) -> bool:
    return len(text) >= _LONG


def _digest_on_disk(path: str) -> str:
    """Return the digest of a file's text, "" where there is none; of a pipe or a device nothing is read."""
    file = Path(path)
    try:
        return digest(file.read_bytes().decode("utf-8")) if file.is_file() else ""
    except (OSError, ValueError):
        return ""

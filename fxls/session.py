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

from fxls.discovery.ignores import without_ignored
from fxls.discovery.index import ModelIndex
from fxls.discovery.syntax import parse
from fxls.document import Document, Effect
from fxls.features.diagnostics import diagnostics, elsewhere
from fxls.features.status import status
from fxls.fixes.verifying import is_worthwhile, with_fixes
from fxls.lsp_ext import Status
from fxls.scheduler import Scheduler
from fxls.settings import Settings
from fxls.snapshot import Snapshot
from fxls.text.uris import to_uri
from fxls.view import View
from fxls.watching import Watcher
from fxls.workers.client import OnProgress, WorkerClient
from fxls.workers.pool import WorkerPool
from fxls.workers.python_env import PythonEnv
from fxworker.wire import (
    Overlay,
    Problem,
    ProfileReport,
    ProfileRequest,
    TraceReport,
    TraceRequest,
    TraceTarget,
    digest,
)

_log = logging.getLogger(__name__)

_LONG: Final = 50_000
"""Characters of a text in which models are looked for beside the event loop: there it takes some milliseconds."""

_HEAD_START: Final = 0.3
"""Seconds for which that search waits for the trace that was begun ahead of it: they would slow each other down."""


class Client(Protocol):
    """What the session tells the editor."""

    def publish(self, uri: str, version: int | None, found: list[lsp.Diagnostic]) -> None:
        """Show a document's diagnostics."""
        ...

    def refresh(self) -> None:
        """Ask for code lenses and inlay hints anew."""
        ...

    def status(self, status: Status) -> None:
        """Show how things are."""
        ...

    def warn(self, message: str) -> None:
        """Tell the person something that they should change."""
        ...


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

_SEEN: Final = 0.2
"""Seconds of work after which it is shown: a state that comes and goes with each keystroke is noise."""


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
        self._client = client
        self._terms = terms
        self._trusted = terms.trusted and terms.run
        self._elsewhere = View(None, Settings())
        self._views = [View(folder, Settings()) for folder in terms.folders]
        self._pool: Pool = pool or WorkerPool()
        self._documents: dict[str, Document] = {}
        self._scheduler = Scheduler(parallel or max(1, min(4, (os.cpu_count() or 2) // 2)))
        self._watcher = Watcher(self.files_changed)
        self._warned: set[str] = set()
        self._trials: dict[str, asyncio.Task[None]] = {}
        self._mistakes: dict[str, tuple[Problem, ...]] = {}
        self._edited: set[str] = set()
        self._own: set[str] = set()
        self._free: set[str] = set()
        self._shown: dict[str, tuple[int | None, list[lsp.Diagnostic]]] = {}
        # One thread: a search that was superseded while it waited is not begun, and no two compete with the loop.
        self._beside = ThreadPoolExecutor(1, "fxls discovery")
        self._active = ""
        self._patience: asyncio.TimerHandle | None = None
        self._said: Status | None = None

    # The world: trust, settings, folders.

    @property
    def trusted(self) -> bool:
        """Whether user code may run."""
        return self._trusted

    @property
    def folders(self) -> tuple[str, ...]:
        """The workspace's folders."""
        return tuple(view.folder for view in self._views if view.folder is not None)

    def trust(self) -> None:
        """Take note that the person trusts the workspace now."""
        if self._terms.run and not self._trusted:
            self._trusted = True
            self._reconsider(self._documents.values())

    def announce(self) -> None:
        """Show how things are with the document that the person is at, or before one is open."""
        active = self._documents.get(self._active)
        if active is not None:
            self._tell(active)
            return
        restricted = Status("restricted", "fx ⏸ restricted", "The workspace is not trusted: nothing in it is executed.")
        self._say(status(None) if self._trusted else restricted)

    def configure(self, section: object, folder: str | None = None) -> None:
        """Take the client's settings, for one folder or for all; what depends on them is done again."""
        settings, bad = Settings.read(section, None if folder is None else self._elsewhere.settings)
        for each in bad:
            self._warn(each.message)
        views = [view for view in (self._elsewhere, *self._views) if folder in {None, view.folder}]
        changed = [view for view in views if view.settings != settings]
        traced = [view for view in changed if view.settings.of_traces != settings.of_traces]
        for view in changed:
            view.settings = settings
        for view in traced:
            view.reset()
        logging.getLogger("fxls").setLevel(self._elsewhere.settings.log_level.upper())
        documents = [(document, self._view(document)) for document in self._documents.values()]
        for document, view in documents:
            if view in changed and not self._scheduler.busy(document.uri):
                self._show(document)  # What is only shown in another way need not be found out again.
        self._reconsider([document for document, view in documents if view in traced])

    def change_folders(self, added: Iterable[str], removed: Iterable[str]) -> None:
        """Take note of the workspace's folders."""
        gone = frozenset(removed)
        self._views = [view for view in self._views if view.folder not in gone]
        self._views += [View(folder, self._elsewhere.settings) for folder in added if folder not in self.folders]
        self._reconsider(self._documents.values())

    # Documents.

    def open(self, uri: str, version: int | None, text: str) -> None:
        """Take a document that the client opened."""
        document = Document(uri, version, text, self._terms.encoding)
        document.saved = _digest_on_disk(document.path)
        self._documents[uri] = document
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
                self._own.add(uri)
                self._submit(document)

    def activate(self, uri: str) -> None:
        """Take note that the person looks at a document: it comes first, and the status tells of it."""
        document = self._documents.get(uri)
        if document is not None:
            self._touch(uri)
            self._tell(document)

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
        self._shown.pop(uri, None)
        self._scheduler.forget(uri)
        self._end_trials(uri)
        self._watcher.depend(uri, ())
        self._client.publish(uri, None, [])
        self._show_configurations()
        if document.unsaved:
            self._follow(document.path)
        if uri == self._active:
            self._active = next(reversed(self._documents), "")
            self.announce()

    def files_changed(self, paths: Iterable[str]) -> None:
        """Trace again what depends on files that changed on disk, and is not open with a text of its own."""
        opened = {document.path for document in self._documents.values()}
        changed = [path for path in paths if path not in opened]
        if any(path.endswith("pyproject.toml") for path in changed):
            for view in (self._elsewhere, *self._views):
                view.reset()
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
        return None if document is None else self._environment(document)

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
            await self._pool.discard(self._environment(document))
            self._view(document).reset()
        document.outdated()
        self._submit(document)
        await self.settled(uri)

    async def profile(self, uri: str, target: TraceTarget, device: str, progress: OnProgress) -> ProfileReport | None:
        """Measure a model; None where nothing may run or the document is not open."""
        document = self._documents.get(uri)
        if document is None or not self._trusted:
            return None
        settings = self._view(document).settings
        last = document.profile(target.qualname, device)
        request = ProfileRequest(
            id=0,
            path=document.path,
            text=document.text,
            target=target,
            device=device,
            roots=self._view(document).roots(document.path),
            overlays=self._overlays(document),
            limits=settings.profile_limits,
            previous=last.data if last is not None else "",
        )
        report = await self._pool.client(self._environment(document)).profile(request, progress)
        if report.status == "complete" and document.digest == report.digest:
            document.measured(report)
            self._client.refresh()
        return report

    async def close(self) -> None:
        """End all work and every process."""
        self._hush()
        self._watcher.close()
        for uri in [*self._trials]:
            self._end_trials(uri)
        await self._scheduler.close()
        self._beside.shutdown(wait=False, cancel_futures=True)
        await self._pool.close()

    # What follows from a change.

    def _reconsider(self, documents: Iterable[Document]) -> None:
        """Do everything about documents again: the world around them has changed."""
        for document in documents:
            document.forget()
            document.environment = None
            self._submit(document)
        self._pool.keep({self._environment(document) for document in self._documents.values()})
        self._client.refresh()

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
                await asyncio.sleep(0)  # The request is sent before the search begins to compete with it.
                if _is_long(document):
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(ahead.heard.wait(), _HEAD_START)
            await self._look_and_trace(document, ahead)
        finally:
            if ahead is not None:
                ahead.answer.cancel()
        self._client.refresh()

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
                self._watcher.depend(document.uri, self._configured_by(document))
                self._show(document)
            case _:
                self._show(document)

    def _ahead(self, document: Document) -> "_Ahead | None":
        """Begin to trace a text whose models are still to be looked for: mostly they are those of the text before."""
        index, environment = document.index, document.environment
        known = index.parsed and index.targets and environment is not None and not environment.problem
        restored = document.report is not None and document.report.digest == document.digest
        if not (known and self._trusted) or restored or _is_seen_to_be_broken(document):
            return None
        request, heard = self._request(document), asyncio.Event()
        answer = asyncio.get_running_loop().create_task(self._asked(document, request, heard))
        return _Ahead(request, answer, heard)

    async def _discovered(self, document: Document) -> ModelIndex:
        """Return the models in a document's text; a long text is searched beside the event loop."""
        view = self._view(document)
        if not _is_long(document):
            found = view.discover(document.path, document.text)
        else:
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(self._beside, view.discover, document.path, document.text)
        self._show_configurations()
        return found

    async def _trace(self, document: Document) -> None:
        """Trace a document and show the report."""
        worker = self._pool.client(self._environment(document))
        if document.environment is None and document.uri == self._active:
            self._say(status(None))
        document.environment = await worker.environment()
        if document.environment.problem:
            document.forget()
            self._show(document)
            return
        request = self._request(document)
        self._answered(document, request, await self._asked(document, request, asyncio.Event()))

    async def _asked(self, document: Document, request: TraceRequest, heard: asyncio.Event) -> TraceReport:
        """Return the report of a document's text; after an edit its problems are shown as soon as they are known."""

        def early(report: TraceReport) -> None:
            if self._is_to_be_freed(document, report):
                return
            known = document.early(without_ignored(report), self._view(document).settings_of(document.path))
            if known is not None and document.report is not None:
                self._publish(document, known)
            heard.set()

        document.asked()
        try:
            return without_ignored(await self._pool.client(self._environment(document)).trace(request, early))
        finally:
            heard.set()

    def _answered(self, document: Document, request: TraceRequest, report: TraceReport) -> None:
        """Show a report, if it is that of the text that was asked about last, and begin to look for fixes."""
        if self._is_to_be_freed(document, report):
            self._free.add(document.uri)
            self._submit(document)
            return
        if document.answer(report):
            self._watcher.depend(document.uri, self._dependencies(document, report))
            self._show(document)
            self._view(document).remember(document.index, report)
            if is_worthwhile(report):
                trials = self._try_fixes(document, replace(request, targets=()), report)
                self._trials[document.uri] = asyncio.get_running_loop().create_task(trials)

    def _is_to_be_freed(self, document: Document, report: TraceReport) -> bool:
        """Whether a document failed in the sandbox that is traced again without: the person is writing it."""
        asked = self._view(document).settings.sandbox == "auto" and document.uri not in self._free
        return asked and bool(report.denied) and document.uri in self._own

    async def _try_fixes(self, document: Document, request: TraceRequest, report: TraceReport) -> None:
        """Try fixes of a document's problems out, once the person pauses. Cancelled by the next edit of its code."""
        view, worker = self._view(document), self._pool.client(self._environment(document))

        async def trial(text: str) -> tuple[ModelIndex, TraceReport]:
            index = view.discover(document.path, text)
            return index, without_ignored(await worker.trace(replace(request, text=text, targets=index.targets)))

        await asyncio.sleep(_PAUSE)
        document.mended(report, await with_fixes(report, request.text, trial))

    def _end_trials(self, uri: str) -> None:
        trials = self._trials.pop(uri, None)
        if trials is not None:
            trials.cancel()

    def _show(self, document: Document) -> None:
        """Publish what is known of a document."""
        self._publish(document, self._snapshot(document))
        self._tell(document)

    def _publish(self, document: Document, snapshot: Snapshot) -> None:
        """Publish the diagnostics of a snapshot of a document, unless they are what is shown."""
        found = document.version, diagnostics(snapshot)
        if self._shown.get(document.uri) != found:
            self._shown[document.uri] = found
            self._client.publish(document.uri, *found)

    def _show_configurations(self) -> None:
        """Publish what is wrong in the configurations of open documents, and take away what no longer is."""
        governing = (self._view(each).configuration(each.path) for each in self._documents.values())
        wrong = {each.path: each.problems for each in governing if each is not None and each.problems}
        for path in self._mistakes.keys() | wrong.keys():
            if self._mistakes.get(path) != wrong.get(path):
                self._client.publish(to_uri(path), None, elsewhere(wrong.get(path, ())))
        self._mistakes = wrong

    def _tell(self, document: Document) -> None:
        """Show the state of the document that the person is at."""
        if document.uri == self._active:
            self._hush()
            self._say(status(self._snapshot(document)))

    def _begin(self, document: Document) -> None:
        """Show that a document is being worked on, if that takes long enough to be seen."""
        if document.uri == self._active and self._trusted and self._patience is None:
            self._patience = asyncio.get_running_loop().call_later(_SEEN, self._still, document)

    def _still(self, document: Document) -> None:
        self._patience = None
        if document.uri == self._active and self._scheduler.busy(document.uri):
            self._say(status(self._snapshot(document), tracing=True))

    def _say(self, status: Status) -> None:
        """Show a status that is not shown yet."""
        if status != self._said:
            self._said = status
            self._client.status(status)

    def _hush(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _warn(self, message: str) -> None:
        """Tell the person something once."""
        if message not in self._warned:
            self._warned.add(message)
            self._client.warn(message)

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
        self._active = uri
        self._scheduler.touch(uri)

    # What a request needs.

    def _request(self, document: Document) -> TraceRequest:
        view = self._view(document)
        return TraceRequest(
            id=0,
            path=document.path,
            text=document.text,
            targets=document.index.targets,
            roots=view.roots(document.path),
            overlays=self._overlays(document),
            limits=view.settings.limits,
            sandbox=view.settings.sandbox == "on"
            or (view.settings.sandbox == "auto" and document.uri not in self._free),
        )

    def _overlays(self, document: Document) -> tuple[Overlay, ...]:
        others = (each for each in self._documents.values() if each is not document and each.unsaved)
        return tuple(Overlay(each.path, each.text) for each in others)

    def _dependencies(self, document: Document, report: TraceReport) -> Iterable[str]:
        """Return the files whose change asks for a new trace: those that were imported, and the configuration."""
        imported = (path for path in report.dependencies if path != document.path)
        return (*self._configured_by(document), *imported)

    def _configured_by(self, document: Document) -> tuple[str, ...]:
        """Return the configuration file that governs a document, or that will when somebody writes it."""
        place = self._view(document).configured_by(document.path)
        return () if place is None else (place,)

    def _snapshot(self, document: Document) -> Snapshot:
        return document.snapshot(self._view(document).settings_of(document.path), trusted=self._trusted)

    def _environment(self, document: Document) -> PythonEnv:
        return self._view(document).environment(document.path)

    def _view(self, document: Document) -> View:
        """Return the innermost workspace folder that holds a document; a document without a file is in the first."""
        if not document.in_file and self._views:
            return self._views[0]
        inside = (view for view in self._views if view.contains(document.path))
        return max(inside, key=lambda view: len(view.folder or ""), default=self._elsewhere)


def _is_long(document: Document) -> bool:
    return len(document.text) >= _LONG


def _is_seen_to_be_broken(document: Document) -> bool:
    """Whether a text does not parse; what is typed mostly does not. To parse a long one would hold the others up."""
    return not _is_long(document) and isinstance(parse(document.path, document.text), Problem)


def _digest_on_disk(path: str) -> str:
    """Return the digest of a file's text, "" where there is none."""
    try:
        return digest(Path(path).read_bytes().decode("utf-8"))
    except (OSError, ValueError):
        return ""

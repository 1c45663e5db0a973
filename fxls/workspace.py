"""The workspace: its folders with their settings, and what follows from them for the requests about a document.

It answers from what the client said and from what stands on disk; it starts nothing and shows nothing.
"""

import logging
import os
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from fxls.document import Document
from fxls.settings import BadSetting, Settings
from fxls.snapshot import Snapshot
from fxls.view import View
from fxls.workers.python_env import PythonEnv, environment_in
from fxworker.wire import Overlay, Problem, ProfileReport, ProfileRequest, TraceReport, TraceRequest, TraceTarget

_MISSING: Final = re.compile(r"No module named '([\w.]+)'")


@dataclass(frozen=True, slots=True)
class Reconfigured:
    """What new settings changed: the views that hold others now, those of them that trace otherwise, what is bad."""

    views: Collection[View]
    traced: Collection[View]
    bad: tuple[BadSetting, ...]


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The files that a trace read, and those that it would have read, were they there."""

    read: Collection[str]
    absent: Collection[str]


class Workspace:
    """The folders, and which documents in them the person writes. Mutable; belongs to the session."""

    def __init__(self, folders: Iterable[str]) -> None:
        self._elsewhere = View(None, Settings())
        self._views = [View(folder, Settings()) for folder in folders]
        self._own: set[str] = set()
        self._free: set[str] = set()

    # Folders and settings.

    @property
    def folders(self) -> tuple[str, ...]:
        """The workspace's folders."""
        return tuple(view.folder for view in self._views if view.folder is not None)

    def configure(self, section: object, folder: str | None = None) -> Reconfigured:
        """Take the client's settings, for one folder or for all."""
        settings, bad = Settings.read(section, None if folder is None else self._elsewhere.settings)
        views = [view for view in (self._elsewhere, *self._views) if folder in {None, view.folder}]
        changed = [view for view in views if view.settings != settings]
        traced = [view for view in changed if view.settings.of_traces != settings.of_traces]
        for view in changed:
            view.settings = settings
        for view in traced:
            view.reset()
        logging.getLogger("fxls").setLevel(self._elsewhere.settings.log_level.upper())
        return Reconfigured(changed, traced, bad)

    def change_folders(self, added: Iterable[str], removed: Iterable[str]) -> None:
        """Take note of the workspace's folders."""
        gone = frozenset(removed)
        self._views = [view for view in self._views if view.folder not in gone]
        self._views += [View(folder, self._elsewhere.settings) for folder in added if folder not in self.folders]

    def reset(self) -> None:
        """Forget what was found on disk."""
        for view in (self._elsewhere, *self._views):
            view.reset()

    def view(self, document: Document) -> View:
        """Return the innermost folder that holds a document; a document without a file is in the first."""
        if not document.in_file and self._views:
            return self._views[0]
        inside = (view for view in self._views if view.contains(document.path))
        return max(inside, key=lambda view: len(view.folder or ""), default=self._elsewhere)

    @property
    def environments(self) -> set[PythonEnv]:
        """The Pythons of the folders, which files in them are traced with that have none nearer to them."""
        return {environment_in(view.folder, view.settings) for view in self._views if view.folder is not None}

    # What follows for a document.

    def environment(self, document: Document) -> PythonEnv:
        """Return the Python that a document is traced with."""
        return self.view(document).environment(document.path)

    def settings(self, document: Document) -> Settings:
        """Return the settings that hold for a document: the person's, with what the project says about problems."""
        return self.view(document).settings_of(document.path)

    def snapshot(self, document: Document, *, trusted: bool) -> Snapshot:
        """Return a document as the features see it."""
        return document.snapshot(self.settings(document), trusted=trusted, sandboxed=self.is_sandboxed(document))

    def mistakes(self, documents: Iterable[Document]) -> dict[str, tuple[Problem, ...]]:
        """Return what is wrong in the configurations that govern documents, by their files."""
        governing = (self.view(each).configuration(each.path) for each in documents)
        return {each.path: each.problems for each in governing if each is not None and each.problems}

    def dependencies(self, document: Document, report: TraceReport | None = None) -> Dependencies:
        """Return the files whose change asks for a new trace.

        These are the files that were imported, those that would have been were they there, and the configuration that
        governs the document, or will when somebody writes it.
        """
        view = self.view(document)
        place = view.configured_by(document.path)
        read = [path for path in report.dependencies if path != document.path] if report is not None else []
        absent = _absent(report, view.roots(document.path, document.index)) if report is not None else ()
        return Dependencies(read, [*absent] if place is None else [*absent, place])

    # Requests.

    def trace_request(self, document: Document, others: Iterable[Document]) -> TraceRequest:
        """Return the request to trace a document, beside the other open ones."""
        view = self.view(document)
        return TraceRequest(
            id=0,
            path=document.path,
            text=document.text,
            targets=document.index.targets,
            roots=view.roots(document.path, document.index),
            overlays=_overlays(others),
            limits=view.settings.limits,
            sandbox=self.is_sandboxed(document),
            keep=view.settings.keep,
            known=document.known,
            settings=document.index.settings,
        )

    def profile_request(
        self, document: Document, others: Iterable[Document], target: TraceTarget, device: str
    ) -> ProfileRequest:
        """Return the request to measure a model of a document on a device."""
        view, last = self.view(document), document.profile(target.qualname, device)
        return ProfileRequest(
            id=0,
            path=document.path,
            text=document.text,
            target=target,
            device=device,
            roots=view.roots(document.path, document.index),
            overlays=_overlays(others),
            limits=view.settings.profile_limits,
            previous=last.data if last is not None else "",
            # An accelerator's driver opens devices, caches and sockets of its own, which nobody can list.
            sandbox=device == "cpu" and self.is_sandboxed(document),
        )

    # The sandbox.

    def edited(self, document: Document) -> None:
        """Take note that the person writes a document: they may run what they wrote."""
        self._own.add(document.uri)

    def is_sandboxed(self, document: Document) -> bool:
        """Whether a document is to run in the sandbox, as far as there is one."""
        choice = self.view(document).settings.sandbox
        return choice == "on" or (choice == "auto" and document.uri not in self._free)

    def is_to_be_freed(self, document: Document, report: TraceReport | ProfileReport) -> bool:
        """Whether a document failed in the sandbox that is run again without: the person is writing it."""
        asked = self.view(document).settings.sandbox == "auto" and document.uri not in self._free
        return asked and bool(report.denied) and document.uri in self._own

    def free(self, document: Document) -> None:
        """Let a document run outside of the sandbox from now on."""
        self._free.add(document.uri)


def _absent(report: TraceReport, roots: Iterable[str]) -> Iterator[str]:
    """Yield where the modules would be that a trace missed: files, the first ones of packages, packages without."""
    names = {each[1] for problem in report.problems for each in _MISSING.finditer(problem.original)}
    for root in roots:
        for name in names:
            parts = name.split(".")
            for count in range(1, len(parts) + 1):
                path = os.path.join(root, *parts[:count])  # noqa: PTH118 — as the dependencies of a report are.
                yield path
                yield path + ".py"
                yield os.path.join(path, "__init__.py")  # noqa: PTH118 — as above.


def _overlays(documents: Iterable[Document]) -> tuple[Overlay, ...]:
    return tuple(Overlay(each.path, each.text) for each in documents if each.unsaved)

"""What surrounds a document: the workspace folder that it lies in, and what follows from that.

A view answers from the file system and remembers; `reset` lets it look again.
"""

import asyncio
import os
import time
from concurrent.futures import Future, wait
from pathlib import Path
from threading import Thread
from typing import Final

from fxls.discovery import discover
from fxls.discovery.configuration import ProjectConfiguration, read_configuration
from fxls.discovery.elsewhere import Calls
from fxls.discovery.index import ModelIndex
from fxls.discovery.roots import configuration_file, roots_of
from fxls.memory import Memory
from fxls.settings import Settings
from fxls.text.uris import names_file
from fxls.workers.python_env import PythonEnv, environment_of
from fxworker.wire import Setting, TraceReport

_STALE: Final = 30.0
"""Seconds after which files of the folder are looked at again for calls."""

_PATIENCE: Final = 0.2
"""Seconds that the first file which is opened waits for the calls in the others."""


class View:
    """One workspace folder, or, with None, all that lies in no folder. Mutable; belongs to the session."""

    def __init__(self, folder: str | None, settings: Settings) -> None:
        self.folder = folder
        self.settings = settings
        self._environments: dict[str, PythonEnv] = {}
        self._configuration_files: dict[str, str | None] = {}
        self._configurations: dict[str, ProjectConfiguration] = {}
        self._memory = Memory()
        self._calls = Calls(folder or "")
        self._looking: Future[None] | None = None
        self._looked = 0.0
        self._hasty: set[str] = set()
        self._discovered: set[str] = set()

    def contains(self, path: str) -> bool:
        """Whether a file lies in this folder."""
        return self.folder is None or Path(path).is_relative_to(self.folder)

    def environment(self, path: str) -> PythonEnv:
        """Return the Python that a file is executed with."""
        parent = _parent(path)
        env = self._environments.get(parent)
        if env is None:
            env = self._environments[parent] = environment_of(path, self.folder, self.settings)
        return env

    def roots(self, path: str, index: ModelIndex) -> tuple[str, ...]:
        """Return the folders that a file imports from: those that its place suggests, then those that are set."""
        base = Path(self.folder or _parent(path))
        extra = (os.path.normpath(base / each) for each in self.settings.extra_roots)
        found = roots_of(path, self._folders, index.imported) if names_file(path) else self._folders
        return tuple(dict.fromkeys((*found, *extra)))

    def discover(self, path: str, text: str, said: tuple[Setting, ...] = ()) -> ModelIndex:
        """Return the models of a file, with what the project says about them, in its configuration and in calls.

        Args:
            path: The file.
            text: Its text.
            said: What was said before about values that its constructors may read.
        """
        self._discovered.add(path)
        index = discover(path, text)
        configuration = self.configuration(path)
        if configuration is not None:
            index = index.configured(configuration.targets)
        if index.parts:
            self._look()
            (self._hasty.add if self._is_looking else self._hasty.discard)(path)
            index = self._calls.completed(index, text, said)
        return self._memory.recalled(index)

    async def looked(self) -> None:
        """Return when calls have been looked for in the files of the folder."""
        if self._looking is not None:
            await asyncio.wrap_future(self._looking)

    def was_hasty(self, path: str) -> bool:
        """Whether calls were still being looked for when a file's models were: there may be more of them now."""
        return path in self._hasty

    def is_new(self, path: str) -> bool:
        """Whether a file's models are looked for the first time: others are read for that, too."""
        return path not in self._discovered

    def remember(self, index: ModelIndex, report: TraceReport) -> None:
        """Keep what was found out about a file's models for the next session."""
        self._memory.remember(index, report)

    def settings_of(self, path: str) -> Settings:
        """Return the settings that hold for a file: the person's, with what the project says about problems."""
        configuration = self.configuration(path)
        return self.settings if configuration is None else configuration.applied(self.settings, path)

    def configuration(self, path: str) -> ProjectConfiguration | None:
        """Return what the pyproject.toml that governs a file says, None where there is none."""
        file = self._configuration_file(path)
        if file is None:
            return None
        if file not in self._configurations:
            self._configurations[file] = read_configuration(file)
        return self._configurations[file]

    def configured_by(self, path: str) -> str | None:
        """Return the pyproject.toml that governs a file, or would if it were in the folder; None outside of folders."""
        return self._configuration_file(path) or (str(Path(self.folder) / "pyproject.toml") if self.folder else None)

    def reset(self) -> None:
        """Forget what was found on disk."""
        self._environments.clear()
        self._configuration_files.clear()
        self._configurations.clear()

    def _look(self) -> None:
        """Begin to look for calls in the folder, in the background; at first it is waited for, though not for long."""
        now = time.monotonic()
        is_first = self._looking is None
        if not self.folder or self._is_looking or (not is_first and now < self._looked + _STALE):
            return
        self._looked = now
        self._looking = Future()
        self._looking.set_running_or_notify_cancel()  # Nobody who waits for it can end it.
        # A thread of a pool would be waited for when the server ends.
        Thread(target=self._look_through, args=(self._looking,), name="fxls calls", daemon=True).start()
        if is_first:
            wait([self._looking], _PATIENCE)

    def _look_through(self, done: "Future[None]") -> None:
        try:
            self._calls.look()
        finally:
            done.set_result(None)

    @property
    def _is_looking(self) -> bool:
        """Whether calls are being looked for in the files of the folder."""
        return self._looking is not None and not self._looking.done()

    def _configuration_file(self, path: str) -> str | None:
        parent = _parent(path)
        if parent not in self._configuration_files:
            known = configuration_file(path, self._folders) if names_file(path) else None
            self._configuration_files[parent] = known
        return self._configuration_files[parent]

    @property
    def _folders(self) -> tuple[str, ...]:
        return (self.folder,) if self.folder else ()


def _parent(path: str) -> str:
    return os.path.dirname(path)  # noqa: PTH120 — asked at each edit.

"""Unsaved buffers in place of files: an importer that sees what the editor shows, and the same text in `linecache`."""

import importlib.machinery
import importlib.util
import io
import linecache
import os
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType

from fxworker.wire import Overlay


class OverlayFinder:
    """Finds modules whose file has an unsaved text. Stands first on `sys.meta_path`."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def install(self, overlays: Iterable[Overlay]) -> None:
        """Let imports see these texts from now on, and no others."""
        self.texts = {os.path.abspath(overlay.path): overlay.text for overlay in overlays}
        for path, text in self.texts.items():
            remember_text(path, text)
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        if self.texts:
            sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the specification of a module that has an unsaved text, None for any other."""
        del target
        tail = fullname.rpartition(".")[2]
        for folder in sys.path if path is None else path:
            package = os.path.join(os.path.abspath(folder), tail, "__init__.py")
            if package in self.texts:
                return self._spec(fullname, package, [os.path.dirname(package)])
            if os.path.isfile(package):
                return None
            module = os.path.join(os.path.abspath(folder), tail + ".py")
            if module in self.texts:
                return self._spec(fullname, module, None)
            if os.path.isfile(module):
                return None
        return None

    def _spec(self, fullname: str, path: str, locations: list[str] | None) -> ModuleSpec | None:
        loader = OverlayLoader(fullname, path, self.texts[path])
        return importlib.util.spec_from_file_location(
            fullname, path, loader=loader, submodule_search_locations=locations
        )


class OverlayLoader(importlib.machinery.SourceFileLoader):
    """Loads a module from a text; its other resources come from its folder."""

    def __init__(self, fullname: str, path: str, text: str) -> None:
        super().__init__(fullname, path)
        self._text = text

    def get_source(self, fullname: str) -> str:
        """Return the unsaved text."""
        del fullname
        return self._text

    def get_code(self, fullname: str) -> CodeType:
        """Return the unsaved text, compiled; no cache file is read or written."""
        return self.source_to_code(self._text.encode(), self.get_filename(fullname))


def remember_text(path: str, text: str) -> None:
    """Let tracebacks and `inspect` see `text` as the source of `path`."""
    # Without a time of change the entry is never compared with the file on disk.
    linecache.cache[path] = (len(text), None, io.StringIO(text, newline="").readlines(), path)

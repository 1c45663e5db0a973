"""What was found out about classes that nothing says how to build: kept between sessions, in the user's cache folder.

Arguments that were inferred once are tried first the next time, for the same class with the same signature. Nothing is
written into a workspace. Each file of models has a small file of its own here, which is replaced as a whole, so that
several servers may write at once; one that cannot be read, or that another version of this program wrote, is as good as
none, and the oldest are removed.
"""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from fxls.cache import cache_folder, program, write_whole
from fxls.discovery.index import ModelClass, ModelIndex, ordered
from fxls.rules import UNFIT
from fxworker.texts import digest
from fxworker.wire import Construct, TraceReport

_MOST_FILES: Final = 1000
_MOST_CLASSES: Final = 200
_LONGEST: Final = 4000
"""The most files that are kept, classes in one of them, and characters of an expression."""


class Memory:
    """Remembers constructions. Mutable: what was read is kept, and what was written.

    What is recalled of a file does not change while the server runs, so that a file that did not change stays the same
    request; until then the workers know it.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Use a folder, that of the user's cache if none is named."""
        self._folder = folder or cache_folder() / "constructs"
        self._known: dict[str, dict[str, str]] = {}
        self._written: dict[str, dict[str, str]] = {}

    def recalled(self, index: ModelIndex) -> ModelIndex:
        """Return an index with what is remembered of its classes, behind all that the file itself says."""
        known = self._of(index.path)
        if not known:
            return index
        targets = (
            replace(target, constructs=ordered((*target.constructs, Construct(known[key], "remembered"))))
            if target.kind == "class" and (key := _key(index.model_class(target.qualname))) in known
            else target
            for target in index.targets
        )
        return replace(index, targets=tuple(targets))

    def remember(self, index: ModelIndex, report: TraceReport) -> None:
        """Keep how the classes were built whose arguments were inferred, unless something does not fit. Never fails."""
        found: dict[str, str] = {}
        for target in report.targets:
            way = target.construct
            is_unfit = any(each.code == UNFIT for each in target.problems)
            if way is not None and way.source == "inferred" and len(way.expression) <= _LONGEST and not is_unfit:
                key = _key(index.model_class(target.qualname))
                if key:
                    found[key] = way.expression
        known = self._written.get(index.path) or self._of(index.path)
        if all(known.get(key) == expression for key, expression in found.items()):
            return
        # Another server may have written in the meantime.
        known = {**self._read(index.path), **known, **found}
        self._written[index.path] = dict(list(known.items())[-_MOST_CLASSES:])
        self._write(index.path, self._written[index.path])

    def _of(self, path: str) -> dict[str, str]:
        if path not in self._known:
            self._known[path] = self._read(path)
        return self._known[path]

    def _read(self, path: str) -> dict[str, str]:
        try:
            found: Any = json.loads(self._file(path).read_text(encoding="utf-8"))
            constructs = found["constructs"] if found["program"] == program() and found["path"] == path else {}
            return {str(key): str(value) for key, value in constructs.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return {}

    def _write(self, path: str, constructs: dict[str, str]) -> None:
        text = json.dumps({"program": program(), "path": path, "constructs": constructs}, indent=1)
        try:
            write_whole(self._file(path), text.encode())
            self._prune()
        except OSError:
            return  # A cache that cannot be written is none.

    def _prune(self) -> None:
        files = [(entry.stat().st_mtime, entry.path) for entry in os.scandir(self._folder)]
        for _, path in sorted(files)[: max(0, len(files) - _MOST_FILES)]:
            Path(path).unlink(missing_ok=True)

    def _file(self, path: str) -> Path:
        return self._folder / f"{digest(path)}.json"


def _key(model: ModelClass | None) -> str:
    """Return the name of a class with its signature, "" where the file does not have it."""
    if model is None:
        return ""
    parameters = model.init.parameters if model.init is not None else ()
    signature = "\n".join(f"{each.kind} {each.name}: {each.annotation} = {each.default}" for each in parameters)
    return f"{model.qualname} {digest(signature)[:16]}"

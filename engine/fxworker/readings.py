"""Which files of a project its code has opened to read: what a trace follows from besides the imported modules.

A model may be built from a configuration or a vocabulary beside it. The interpreter itself tells of each file that is
opened, whoever opens it. What is written as well, such as a cache or a log, is left out: a trace that followed from
what it writes would never come to an end.
"""

import os
import sys
from collections.abc import Iterable
from typing import Any, Final

_READING: Final = frozenset("rbtU")
_WRITING: Final = os.O_WRONLY | os.O_RDWR

_folders: Final[list[str]] = []
"""The folders of the project, each with a separator behind it; nothing is noted before there are some."""

_read: Final = set[str]()
_written: Final = set[str]()


def note_below(folders: Iterable[str]) -> None:
    """Note from now on, in this process and those that are forked from it, which files in these folders are opened."""
    if not _folders:
        sys.addaudithook(_heard)
    _folders[:] = [os.path.join(folder, "") for folder in folders]


def files_read() -> frozenset[str]:
    """Return the files that were read and not written."""
    return frozenset(_read - _written)


def files_written() -> frozenset[str]:
    """Return the files that were written, or put in the place of others."""
    return frozenset(_written)


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open":
        path, mode, flags = arguments
        is_read = _READING.issuperset(mode) if isinstance(mode, str) else not flags & _WRITING
        _note(path, _read if is_read else _written)
    elif event == "os.rename":
        _note(arguments[1], _written)


def _note(path: object, known: set[str]) -> None:
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if isinstance(path, str):
        path = path if os.path.isabs(path) else os.path.abspath(path)
        if path.startswith(tuple(_folders)) and "__pycache__" not in path:
            known.add(path)

"""Which files of a project its code has opened to read: what a trace follows from besides the imported modules.

A model may be built from a configuration or a vocabulary beside it. What is written as well, such as a cache or a log,
is left out: a trace that followed from what it writes would never come to an end.

Noted is what Python's own functions open. An audit hook would hear of every way, and make every trace slower by a
tenth: the interpreter tells it of each frame that is looked at, too.
"""

import contextlib
import functools
import io
import os
import sys
from collections.abc import Callable, Generator, Iterable
from typing import Any, Final

from fxworker import tampering

_READING: Final = frozenset("rbtU")
_WRITING: Final = os.O_WRONLY | os.O_RDWR

_folders: Final[list[str]] = []
"""The folders of the project, each with a separator behind it; nothing is noted before there are some."""

_read: Final = set[str]()
_written: Final = set[str]()


def note_below(folders: Iterable[str]) -> None:
    """Note from now on, in this process and those that are forked from it, which files in these folders are opened."""
    if not _folders:
        io.open = _NotedOpen(io.open, _opened)
        tampering.expect("open", io.open)
        os.open = _Noted(os.open, _opened_by_number)
        os.rename = _Noted(os.rename, _renamed)
        os.replace = _Noted(os.replace, _renamed)
    _folders[:] = [os.path.join(folder, "") for folder in folders]


def is_of_project(path: str) -> bool:
    """Whether a file lies in one of these folders, and not in an environment in there."""
    around = next((each for each in _folders if path.startswith(each)), None)
    return around is not None and "site-packages" not in path[len(around) :]


def files_read() -> frozenset[str]:
    """Return the files that were read and not written."""
    return frozenset(_read - _written)


def files_written() -> frozenset[str]:
    """Return the files that were written, or put in the place of others."""
    return frozenset(_written)


class _Noted:
    """A function that notes what it is called with. No function, which a class would make a method of."""

    def __init__(self, original: Callable[..., Any], note: Callable[..., None]) -> None:
        functools.update_wrapper(self, original)
        self._original = original
        self._note = note

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self._original(*args, **kwargs)
        self._note(*args, **kwargs)
        return result


class _Numbers:
    """Whether code opens no file by a number now. Mutable; one in a process."""

    refused = 0


_NUMBERS: Final = _Numbers()


@contextlib.contextmanager
def numbers_refused() -> Generator[None]:
    """Let code open no file by a number in the body: one that was made up is that of a file which is not its own."""
    _NUMBERS.refused += 1
    try:
        yield
    finally:
        _NUMBERS.refused -= 1


class _NotedOpen(_Noted):
    """`open`: it would close what it was given the number of."""

    def __call__(self, file: Any, *args: Any, **kwargs: Any) -> Any:
        if type(file) is int and _NUMBERS.refused:
            caller = str(sys._getframe(1).f_globals.get("__name__"))
            if caller.partition(".")[0] not in sys.stdlib_module_names:
                raise TypeError("expected str, bytes or os.PathLike object, not int")
        return super().__call__(file, *args, **kwargs)


def _opened(file: object, mode: str = "r", *_args: object, **_kwargs: object) -> None:
    _note(file, _read if _READING.issuperset(mode) else _written)


def _opened_by_number(path: object, flags: int, *_args: object, **_kwargs: object) -> None:
    _note(path, _written if flags & _WRITING else _read)


def _renamed(_src: object, dst: object, **_kwargs: object) -> None:
    _note(dst, _written)


def _note(path: object, known: set[str]) -> None:
    if isinstance(path, os.PathLike):
        path = os.fspath(path)
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if isinstance(path, str):
        path = path if os.path.isabs(path) else os.path.abspath(path)
        if path.startswith(tuple(_folders)) and "__pycache__" not in path:
            known.add(path)

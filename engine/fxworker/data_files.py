"""Files of data that a constructor reads and nobody has: vocabularies, tables, lists, of which a model takes its sizes.

A file that the project has, and one of a configuration, are the business of those who search for arguments. For
another one something is put that such a file may hold, in one form after the other until the model can be built: a
vocabulary, numbers, names, arrays. What is looked up in a table that nobody has is what its name says, if it says
something. Nothing is written anywhere.
"""

import builtins
import contextlib
import functools
import inspect
import io
import os
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final, Self, TypeAlias, TypeVar

from fxengine.classification import moments_of
from fxengine.source import is_user_file
from fxworker.arrays import stored
from fxworker.callers import is_constructing, outwards
from fxworker.choices import literal
from fxworker.complaints import complaint_of
from fxworker.conventions import holds_configuration, usual_values
from fxworker.readings import is_of_project
from fxworker.tracebacks import Places, is_further, places_of

_Result = TypeVar("_Result")
_Function: TypeAlias = Callable[..., Any]

_READERS: Final = {
    "json": ("load", "loads"),
    "pickle": ("load", "loads"),
    "tomllib": ("load", "loads"),
    "toml": ("load", "loads"),
    "yaml": ("load", "safe_load", "full_load", "unsafe_load"),
}
"""The functions that make of a file, or of its text, what it holds."""

_WORDS: Final = ("<pad>", "<unk>", "a", "b")


class _Table(dict[Any, Any]):
    """A table that nobody has: it has some words with their numbers, and whatever else is looked up in it."""

    def __init__(self, unknown: "Callable[[], Any] | None" = None) -> None:
        super().__init__({word: at for at, word in enumerate(_WORDS)})
        self._unknown = unknown or type(self)

    def __missing__(self, key: Any) -> Any:
        values = map(literal, usual_values(key)) if isinstance(key, str) else ()
        self[key] = next((each for each in values if each is not NotImplemented), None) or self._unknown()
        return self[key]


@dataclass(frozen=True, slots=True)
class _Form:
    """What a file may hold: makes it, and is the text of one that is read line by line.

    A number is a word as well.
    """

    content: Callable[[], Any]
    text: str


_FORMS: Final = (
    _Form(_Table, "".join(f"{each}\n" for each in _WORDS)),
    _Form(lambda: _Table(lambda: 64), "0\t0\n1\t1\n"),
    _Form(lambda: list(_WORDS), "0\t0\t0\n1\t1\t1\n"),
    _Form(lambda: _Table(stored), "0 0\n1 1\n"),
    _Form(stored, "0,0\n1,1\n"),
)
"""What files hold, those first that most have."""


class _Text(str):  # noqa: SLOT000 — What it holds is its own.
    """The text of a file that is not there, which holds something."""

    form: _Form

    def __new__(cls, form: _Form) -> Self:
        """Return the text of a file of a form."""
        made = super().__new__(cls, form.text)
        made.form = form
        return made


class _File(io.StringIO):
    """A file of text that is not there."""

    def __init__(self, form: _Form) -> None:
        super().__init__(form.text)
        self.form = form

    def read(self, size: int | None = -1, /) -> str:
        """Return its text, which says what it holds if it is all of it."""
        return _Text(self.form) if size in {-1, None} and not self.tell() else super().read(size)


class _Bytes(io.BytesIO):
    """A file of bytes that is not there."""

    def __init__(self, form: _Form) -> None:
        super().__init__(form.text.encode())
        self.form = form


def with_files_supplied(work: Callable[[], _Result]) -> _Result:
    """Do something that may read files in constructors which are not there, and return what it gives.

    Raises:
        BaseException: What it raises; where it lacks files that the project does not have either, what it raised with
            that content of these with which it came further than without, if there is one.
    """
    try:
        return work()
    except FileNotFoundError as error:
        if not _is_of_data(error) or complaint_of(error).values:
            raise
        told: Exception = error
    for form in _FORMS:
        try:
            with _supplied(form):
                return work()
        except Exception as error:  # noqa: BLE001 — User code, which may make anything of what is not there.
            told = error if is_further(_places_of(error), _places_of(told)) else told
    raise told


def _is_of_data(error: FileNotFoundError) -> bool:
    """Whether a project's code asks for a file that is not there, and does not call it a configuration."""
    moments = [each for each in moments_of(error.__traceback__) if is_user_file(each.path)]
    held = (each for moment in moments for each in moment.frame.f_locals.items())
    asking = [name for name, value in held if isinstance(value, str | os.PathLike) and value == error.filename]
    return bool(moments) and is_of_project(moments[-1].path) and not any(map(holds_configuration, asking))


def _places_of(error: Exception) -> Places:
    """Return the places in the code of models that an error came through."""
    return tuple(each for each in places_of(error) if is_user_file(each[0].co_filename))


@contextlib.contextmanager
def _supplied(form: _Form) -> Generator[None]:
    """Let constructors in the body read files that are not there, as if they held what a form says."""
    places = [(builtins, "open", _opening), (io, "open", _opening)]
    places += [
        (module, name, _reading)
        for path, names in _READERS.items()
        if (module := sys.modules.get(path)) is not None
        for name in names
    ]
    before = [(place, name, getattr(place, name)) for place, name, _ in places]
    try:
        for (place, name, wrapper), (*_, value) in zip(places, before, strict=True):
            setattr(place, name, wrapper(value, form))
        yield
    finally:
        for place, name, value in before:
            setattr(place, name, value)


def _opening(open_file: _Function, form: _Form) -> _Function:
    """Return the function that opens files, also such as are not there, if a project's constructor reads them."""

    @functools.wraps(open_file)
    def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        try:
            return open_file(file, mode, *args, **kwargs)
        except FileNotFoundError:
            if not mode.startswith("r") or "+" in mode or not _is_for_project(inspect.currentframe()):
                raise
            return _Bytes(form) if "b" in mode else _File(form)

    return opened


def _is_for_project(frame: FrameType | None) -> bool:
    """Whether it is a constructor of the project that calls Python's own functions, in which a frame is."""
    asking = next((each for each in outwards(frame) if is_user_file(each.f_code.co_filename)), None)
    return asking is not None and is_of_project(asking.f_code.co_filename) and is_constructing(asking)


def _reading(read: _Function, _form: _Form) -> _Function:
    """Return the function that makes of a file what it holds, also of one that is not there."""

    @functools.wraps(read)
    def made(source: Any, *args: Any, **kwargs: Any) -> Any:
        form = source.form if isinstance(source, _Text | _File | _Bytes) else None
        return form.content() if form is not None else read(source, *args, **kwargs)

    return made

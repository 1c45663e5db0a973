"""From the paths of the command line to the files that are looked at, and their texts."""

import io
import os
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages", "dist-packages", "build", "dist"})
_NOTEBOOK: Final = ".ipynb"


class BadPathError(Exception):
    """A path of the command line that nothing can be done with; the message is for the person."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to look at.

    Attributes:
        path: Its absolute path.
        shown: The path as people see it.
        named: Whether it was named itself, not found in a folder.
        folder: The absolute path of the folder that it was found in, "" if it was named itself.
    """

    path: str
    shown: str
    named: bool
    folder: str = ""


def find_files(paths: Sequence[str]) -> list[SourceFile]:
    """Return the files that paths name, each once, those of a folder in alphabetical order.

    Raises:
        BadPathError: a path does not exist, or is neither a file nor a folder.
    """
    found: dict[str, SourceFile] = {}
    for path in paths:
        for file, named in _expanded(path):
            absolute = os.path.abspath(file)  # noqa: PTH100 -- symbolic links stay what the person wrote.
            known = found.get(absolute)
            if known is None or (named and not known.named):
                folder = "" if named else os.path.abspath(path)  # noqa: PTH100 -- likewise.
                found[absolute] = SourceFile(absolute, shown(absolute), named, folder)
    return list(found.values())


def shown(path: str) -> str:
    """Return a path as people see it: relative to the working folder where it lies below it, with slashes."""
    file = Path(path)
    folder = Path.cwd()
    return (file.relative_to(folder) if file.is_relative_to(folder) else file).as_posix()


def read_source(path: str) -> str:
    """Return a file's text, decoded as Python does, its line ends as they are.

    Raises:
        BadPathError: it cannot be read or decoded.
    """
    try:
        raw = Path(path).read_bytes()
        encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
        return raw.decode(encoding)
    except OSError as error:
        raise BadPathError(f"{shown(path)}: {error.strerror or error}") from error
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise BadPathError(f"{shown(path)}: cannot be decoded: {error}") from error


def _expanded(path: str) -> Iterator[tuple[str, bool]]:
    if os.path.isdir(path):  # noqa: PTH112 -- an empty string is no folder, and Path("") is one.
        yield from ((file, False) for file in _python_files(path))
    elif path.endswith(_NOTEBOOK):
        raise BadPathError(f"{path}: is a notebook; export it as a script: jupyter nbconvert --to script {path}")
    elif os.path.isfile(path):  # noqa: PTH113 -- likewise.
        yield path, True
    elif os.path.lexists(path):
        raise BadPathError(f"{path}: is neither a file nor a folder")
    else:
        raise BadPathError(f"{path}: no such file or folder")


def _python_files(folder: str) -> Iterator[str]:
    for base, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not _is_skipped(base, name))
        # Editors mark what is open by links that lead nowhere, and a pipe would be waited for.
        named = (str(Path(base, name)) for name in sorted(files) if name.endswith(".py"))
        yield from filter(os.path.isfile, named)


def _is_skipped(base: str, name: str) -> bool:
    return name.startswith(".") or name in _SKIPPED or Path(base, name, "pyvenv.cfg").exists()

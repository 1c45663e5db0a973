"""The user's cache folder: what is in it can be found out again, and may be removed at any time."""

import functools
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import fxls
import fxworker
from fxworker.texts import digest


def cache_folder(environ: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    """Return this program's folder by the platform's convention; a relative `XDG_CACHE_HOME` does not count."""
    if platform == "win32":
        return Path(environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "fxls" / "Cache"
    if platform == "darwin":
        return Path.home() / "Library" / "Caches" / "fxls"
    chosen = Path(environ.get("XDG_CACHE_HOME", ""))
    return (chosen if chosen.is_absolute() else Path.home() / ".cache") / "fxls"


def bytecode_folder() -> str:
    """Return the folder for the compiled code of our own modules; see `fxworker.pycache`."""
    return str(cache_folder() / "bytecode")


def write_whole(file: Path, data: bytes) -> None:
    """Write a file so that whoever reads it has all of the old one or all of the new one; its folder is made."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=file.parent, suffix=".part")
    with os.fdopen(handle, "wb") as part:
        part.write(data)
    Path(name).replace(file)


@functools.cache
def program() -> str:
    """Return what tells this program from any other version of it, also from one with the same number."""
    packages = Path(fxworker.__file__).resolve().parent.parent
    files = sorted(str(each) for name in ("fxengine", "fxworker") for each in (packages / name).rglob("*.py"))
    return digest("\n".join((fxls.__version__, *states(files))))


def states(paths: Iterable[str]) -> Iterator[str]:
    """Yield a line for each file or folder that says when it was changed last."""
    for path in paths:
        try:
            found = os.stat(path)  # noqa: PTH116 — there are many.
        except OSError:
            yield f"{path} -"
        else:
            yield f"{path} {found.st_mtime_ns}"

"""The user's cache folder: what is in it can be found out again, and may be removed at any time."""

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path


def cache_folder(environ: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    """Return this program's folder by the platform's convention; a relative `XDG_CACHE_HOME` does not count."""
    if platform == "win32":
        return Path(environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "fxls" / "Cache"
    if platform == "darwin":
        return Path.home() / "Library" / "Caches" / "fxls"
    chosen = Path(environ.get("XDG_CACHE_HOME", ""))
    return (chosen if chosen.is_absolute() else Path.home() / ".cache") / "fxls"


def write_whole(file: Path, data: bytes) -> None:
    """Write a file so that whoever reads it has all of the old one or all of the new one; its folder is made."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=file.parent, suffix=".part")
    with os.fdopen(handle, "wb") as part:
        part.write(data)
    Path(name).replace(file)

"""File paths and the URIs by which clients name documents."""

import os
import re
import sys
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote, unquote_to_bytes, urlsplit

_DRIVE: Final = re.compile(r"/[A-Za-z]:")

_NOWHERE: Final = os.path.abspath(os.path.join(os.sep, "<editor>"))  # noqa: PTH100, PTH118 — A plain string.
"""The folder, which does not exist, of documents that are no files: new ones, cells of notebooks, old revisions."""


def to_path(uri: str) -> str:
    """Return the file path of a `file:` URI; where it names no file, an absolute path that stands for it."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return _standing_for(uri)
    path = os.fsdecode(unquote_to_bytes(parts.path))
    if parts.scheme != "file" or "\0" in path or not path:
        return _standing_for(uri)
    if parts.netloc and parts.netloc != "localhost":
        path = f"//{parts.netloc}{path}"
    if sys.platform == "win32":
        path = (path[1:] if _DRIVE.match(path) else path).replace("/", "\\")
    return os.path.normpath(path)


@lru_cache(256)
def to_uri(path: str) -> str:
    """Return the URI of an absolute path, also of one that stands for what is no file."""
    if not names_file(path):
        return unquote(os.path.basename(path), errors="surrogatepass")  # noqa: PTH119 — as below.
    if sys.platform == "win32":
        path = "/" + path.replace("\\", "/")
    return "file://" + quote(os.fsencode(path), safe="/:@!$&'()*+,;=~-._")


def names_file(path: str) -> bool:
    """Whether a path is that of a file, be it there or not, and does not stand for another document."""
    return os.path.dirname(path) != _NOWHERE  # noqa: PTH120 — asked at each edit.


def _standing_for(uri: str) -> str:
    return os.path.join(_NOWHERE, quote(uri, safe=":", errors="surrogatepass"))  # noqa: PTH118 — A plain string.

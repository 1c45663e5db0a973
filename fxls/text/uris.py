"""File paths and the URIs by which clients name documents."""

import os
import re
import sys
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote, urlsplit

_DRIVE: Final = re.compile(r"/[A-Za-z]:")


def to_path(uri: str) -> str:
    """Return the file path of a `file:` URI; the URI itself where it names no file."""
    parts = urlsplit(uri)
    if parts.scheme != "file":
        return uri
    path = unquote(parts.path)
    if parts.netloc and parts.netloc != "localhost":
        path = f"//{parts.netloc}{path}"
    if sys.platform == "win32":
        path = (path[1:] if _DRIVE.match(path) else path).replace("/", "\\")
    return os.path.normpath(path)


@lru_cache(256)
def to_uri(path: str) -> str:
    """Return the URI of an absolute file path; a path that is a URI already stays as it is."""
    if not os.path.isabs(path):  # noqa: PTH117 — URIs of unsaved documents pass through here, and are no paths.
        return path
    if sys.platform == "win32":
        path = "/" + path.replace("\\", "/")
    return "file://" + quote(path, safe="/:@!$&'()*+,;=~-._")

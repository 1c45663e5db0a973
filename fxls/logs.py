"""The server's log: all of it in a file, and one line for each entry on standard error, which editors show.

A traceback is for whoever mends fxls: it stands in the file alone.
"""

import logging
import os
import sys
from pathlib import Path
from typing import Final

_LARGEST: Final = 1 << 20
"""Bytes after which the file is begun anew when a server starts."""


class _OneLine(logging.Formatter):
    """Leaves out the traceback, says the exception."""

    def format(self, record: logging.LogRecord) -> str:
        message = f"fxls: {record.levelname.lower()}: {record.getMessage()}"
        if record.exc_info and record.exc_info[1] is not None:
            message += f" ({type(record.exc_info[1]).__name__}: {record.exc_info[1]})"
        return message.replace("\n", " ")


def start_log(folder: Path) -> Path | None:
    """Begin to log; return the file, None where it cannot be written."""
    screen = logging.StreamHandler(sys.stderr)
    screen.setFormatter(_OneLine())
    handlers: list[logging.Handler] = [screen]
    file: Path | None = folder / "server.log"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if file.exists() and file.stat().st_size > _LARGEST:
            file.replace(file.with_suffix(".old.log"))
        written = logging.FileHandler(file, encoding="utf-8", errors="backslashreplace")
    except OSError:
        file = None
    else:
        written.setFormatter(logging.Formatter(f"%(asctime)s {os.getpid()} %(levelname)s %(name)s: %(message)s"))
        handlers.append(written)
    logging.basicConfig(level=logging.WARNING, handlers=handlers, force=True)
    logging.raiseExceptions = False
    # The framework logs a warning and a traceback for what we answer with an error.
    logging.getLogger("pygls").setLevel(logging.CRITICAL)
    return file

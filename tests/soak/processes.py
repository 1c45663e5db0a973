"""The processes that a server has made, found by a mark in their environment, and what they hold in memory (Linux)."""

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

MARK = "FXLS_SOAK"
"""The variable of the environment that every process below the server inherits."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process that runs: its id, its parent's, and the bytes that are its own and in memory."""

    pid: int
    parent: int
    private: int


def marked(mark: str) -> list[Process]:
    """Return the processes that run and carry the mark, oldest first; those that ended and wait for nobody are none."""
    wanted = f"{MARK}={mark}".encode()
    entries = (_read(entry, wanted) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return sorted((each for each in entries if each is not None), key=lambda each: each.pid)


def kill(process: Process) -> None:
    """End a process at once, as the system does when memory is short."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)


def resident(pid: int) -> int:
    """Return the bytes of a process that are in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _read(entry: Path, mark: bytes) -> Process | None:
    try:
        if mark not in (entry / "environ").read_bytes().split(b"\0"):
            return None
        fields = (entry / "stat").read_text("ascii", "replace").rpartition(")")[2].split()
        rollup = (entry / "smaps_rollup").read_text("ascii")
    except (OSError, PermissionError):  # It ended meanwhile, or is somebody else's.
        return None
    if fields[0] == "Z":
        return None
    private = sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Private_"))
    return Process(int(entry.name), int(fields[1]), private * 1024)

"""What a process that runs user code may use, and how it is kept to that.

The kernel bounds memory, the size of files and the number of descriptors of each process by itself. How many processes
there are below one, and how much memory they hold together, its supervisor looks at from time to time: the kernel
counts a user's processes all in one, among them the person's other programs.
"""

import contextlib
import functools
import os
import re
import signal
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fxworker.loop import Loop
from fxworker.wire import Limits

try:
    import resource
except ImportError:  # Windows.
    resource = None

_LOOK: Final = 0.1
"""Seconds between two looks at what runs below a process."""

GRACE: Final = 0.25
"""Seconds between the record of a hanging process, at its limit, and its end."""

_LAST_WORDS: Final = 2.0
"""Seconds that a process has to record where it is before it is ended."""

_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 — Nothing is written there.
_RSS_SHARED: Final = re.compile(rb"^RssShmem:\s*(\d+) kB", re.MULTILINE)
_PAGE: Final = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


@dataclass(frozen=True, slots=True)
class Usage:
    """What runs below a process: how many processes, and the bytes of memory that they do not share with it.

    Memory that they share with each other counts once: what files in memory that they have open hold, be it mapped or
    not, or what one of them has mapped, whichever is more.
    """

    processes: int
    memory: int


def bound(limits: Limits) -> None:
    """Keep this process, and each that it starts, within its limits, and let none of them dump its core."""
    if resource is None:
        return
    _lower(resource.RLIMIT_DATA, _data_size() + limits.memory)
    _lower(resource.RLIMIT_FSIZE, limits.file_size)
    _lower(resource.RLIMIT_NOFILE, limits.open_files)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def watch(
    loop: Loop,
    pid: int,
    limits: Limits,
    runs: Callable[[], bool],
    exceeded: Callable[[str], object],
    parent: int | None = None,
) -> None:
    """Look at what runs below a process as long as `runs` says so, and say so once if it is too much.

    With the `parent` that it was forked from, what it holds itself counts as well.
    """

    def look() -> None:
        if not runs():
            return
        what = excess(usage(pid) if parent is None else _with_itself(pid, parent), limits)
        if what:
            exceeded(what)
        else:
            loop.after(_LOOK, look)

    loop.after(_LOOK, look)


def bring_down(loop: Loop, pid: int, runs: Callable[[], bool], kill: Callable[[], object]) -> None:
    """End a process that uses too much once it has recorded where it is, which a signal makes it do.

    What it started is stopped meanwhile: hundreds of processes can keep a machine so busy that the record comes late.
    """
    last = time.monotonic() + _LAST_WORDS

    def stop() -> None:
        if not runs():
            return
        for each in _below(pid):
            with contextlib.suppress(OSError):
                os.kill(each, signal.SIGSTOP)
        if time.monotonic() < last:
            loop.after(_LOOK, stop)
        else:
            kill()

    stop()
    ask_where(pid)


def ask_where(pid: int) -> None:
    """Let a process record where it is, and end, at once: it does so itself, between two instructions.

    A process that is looked at while it goes on, as its own timer does later, may fail for that.
    """
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGUSR1)


def excess(used: Usage, limits: Limits) -> str:
    """Return which limit is exceeded, in words; "" if none is."""
    if used.processes > limits.processes:
        return f"more than {limits.processes} processes"
    if used.memory > limits.memory:
        return f"more than {limits.memory >> 20} MiB of memory in {used.processes} processes"
    return ""


def usage(pid: int) -> Usage:
    """Return what runs below a process; nothing where the kernel does not say."""
    shared, below = _anonymous(pid), [*_below(pid)]
    memory = sum(max(0, _anonymous(each) - shared) for each in below)
    return Usage(len(below), memory + _shared(below, pid))


def own_memory(parent: int, pid: int) -> int:
    """Return the bytes that a process and all below it hold, beyond those of the `parent` that it was forked from."""
    return max(0, _anonymous(pid) - _anonymous(parent)) + _shared([pid], parent) + usage(pid).memory


def _with_itself(pid: int, parent: int) -> Usage:
    return Usage(usage(pid).processes, own_memory(parent, pid))


def _shared(pids: Iterable[int], beyond: int) -> int:
    """Return the bytes of memory that processes can share, without what one of them has from the process `beyond`."""
    known = _memory_files(beyond)
    files: dict[tuple[int, int], int] = {}
    mapped = 0
    for pid in pids:
        files |= _memory_files(pid)
        mapped = max(mapped, _mapped(pid))
    held = sum(size for file, size in files.items() if file not in known)
    return max(held, mapped - _mapped(beyond), 0)


def _memory_files(pid: int) -> dict[tuple[int, int], int]:
    """Return the files in memory that a process has open, each with the bytes that it holds."""
    found: dict[tuple[int, int], int] = {}
    with contextlib.suppress(OSError):  # It ended meanwhile, or this is no Linux.
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):  # It was closed meanwhile.
                file = os.stat(f"/proc/{pid}/fd/{name}")
                if stat.S_ISREG(file.st_mode) and file.st_dev in _memory_devices():
                    found[file.st_dev, file.st_ino] = 512 * file.st_blocks
    return found


@functools.cache
def _memory_devices() -> frozenset[int]:
    """Return what stands for a disk where files without a name are made in memory, and where shared memory has one."""
    found = set[int]()
    with contextlib.suppress(OSError, AttributeError):
        descriptor = os.memfd_create("fxls")
        found.add(os.fstat(descriptor).st_dev)
        os.close(descriptor)
    with contextlib.suppress(OSError):
        named = os.stat(_SHARED_MEMORY).st_dev
        if named != os.stat("/").st_dev:
            found.add(named)
    return frozenset(found)


def _mapped(pid: int) -> int:
    """Return the bytes of memory that a process has mapped and can share, without those of files on a disk."""
    try:
        return int(_RSS_SHARED.findall(Path(f"/proc/{pid}/status").read_bytes())[0]) << 10
    except (OSError, IndexError):
        return 0


def _below(pid: int) -> Iterator[int]:
    """Yield the processes below one."""
    waiting, seen = [pid], {pid}
    while waiting:
        found = _children(waiting.pop()) - seen
        seen |= found
        waiting += found
        yield from found


def _children(pid: int) -> set[int]:
    found = set[int]()
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            text = Path(f"/proc/{pid}/task/{thread}/children").read_text(encoding="ascii")
            found.update(map(int, text.split()))
    except OSError:  # It ended meanwhile, or this is no Linux.
        pass
    return found


def _anonymous(pid: int) -> int:
    """Return the bytes of memory of a process that are no file's."""
    try:
        words = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
        return (int(words[1]) - int(words[2])) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


def _lower(which: int, wanted: int) -> None:
    """Set a limit, for good, to what is wanted or to the lower one that is set already."""
    assert resource is not None
    hard = resource.getrlimit(which)[1]
    if hard not in {resource.RLIM_INFINITY, -1}:
        wanted = min(wanted, hard)
    resource.setrlimit(which, (wanted, wanted))


def _data_size() -> int:
    """Return the bytes of private writable memory that this process has mapped."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0

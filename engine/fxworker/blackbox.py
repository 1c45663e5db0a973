"""The flight recorder of a process that runs user code: where it was when it hung or died.

The child arms it: C-level handlers of `faulthandler` write stacks into a memory file that the parent can read when the
child is gone. They need neither the interpreter's lock nor a working heap, so they report from inside C loops and after
a stack overflow. A process that ends itself by `os._exit`, `exec` or a signal passes by a patched function that notes
the stack first; so does one that looks up a function of C that does. Others in that process cannot switch the handlers
off, nor close what an answer needs. A stack has no columns; finding the expression on a line is the reader's business.
"""

import contextlib
import ctypes
import errno
import faulthandler
import functools
import os
import re
import signal
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

try:
    import resource
except ImportError:  # Windows.
    resource = None

_SECTION: Final = re.compile(
    r"^(?P<title>Current thread|Thread|Stack)(?: 0x(?P<thread>[0-9a-f]+))?.*most recent call first"
)
_ENTRY: Final = re.compile(r'^  File "(?P<path>.*)", line (?P<line>\d+) in (?P<function>.*)$')
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")
_KEPT: Final = 1 << 16

_DEADLY: Final = ("SIGTERM", "SIGHUP", "SIGVTALRM", "SIGPROF", "SIGUSR1", "SIGUSR2", "SIGXCPU", "SIGQUIT")
_REPLACING: Final = ("execv", "execve")
_ENDING: Final = frozenset({"Py_Exit", "Py_FatalError", "_Exit", "_exit", "abort", "exit", "quick_exit"})
"""The functions of C that end a process without a word to Python."""

_GRACE: Final = 2
"""Seconds of processor time between the signal that says that a limit is reached and the one that cannot be caught."""

_enable = faulthandler.enable
_dump = faulthandler.dump_traceback
_dump_later = faulthandler.dump_traceback_later
_cancel = faulthandler.cancel_dump_traceback_later
_register = getattr(faulthandler, "register", None)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a recorded stack."""

    path: str
    line: int
    function: str


@dataclass(frozen=True, slots=True)
class Record:
    """What the box holds: the last known stack of the thread that matters, innermost first, and how it ended.

    `main` is the stack of the main thread where another one failed. `at` is the last line of the file that `passing`
    was told, 0 if none. `cause` is what faulthandler or a patched function said, such as
    `Fatal Python error: Segmentation fault` or `os._exit(3)`; "" when only the limit passed.
    """

    stack: tuple[Entry, ...] = ()
    cause: str = ""
    at: int = 0
    main: tuple[Entry, ...] = ()


class BlackBox:
    """A memory file that a child writes and its parent reads."""

    def __init__(self, fd: int | None = None) -> None:
        self.fd = _memory_file() if fd is None else fd

    def arm(self, seconds: float) -> None:
        """Record from now on, in this process: every violent end, and the stack after `seconds`."""
        self._note(f"Main 0x{threading.main_thread().ident or 0:016x}")
        _enable(file=self.fd, all_threads=True)
        for name in _DEADLY:
            number = getattr(signal, name, None)
            if number is not None and _register is not None and signal.getsignal(number) is signal.SIG_DFL:
                _register(number, file=self.fd, all_threads=True, chain=True)
        if not _recording:
            _patch()
        _recording[:] = [self]
        self.expect(seconds)

    def expect(self, seconds: float) -> None:
        """Record the stack when `seconds` have passed from now."""
        _dump_later(max(seconds, 0.001), file=self.fd)

    def rest(self) -> None:
        """Expect no end any more: our own code is running."""
        _cancel()

    def read(self) -> Record:
        """Return what was recorded so far."""
        size = os.fstat(self.fd).st_size
        data = os.pread(self.fd, _KEPT, max(0, size - _KEPT))
        return parse(data.decode("utf-8", "replace"))

    def close(self) -> None:
        """Let go of the memory file."""
        os.close(self.fd)

    def note(self, cause: str) -> None:
        """Record that this process is about to end itself, and where."""
        self._note(f"Cause {cause}")
        # User code may have closed the descriptor; the record ends here then.
        with contextlib.suppress(OSError, ValueError):
            _dump(file=self.fd, all_threads=False)

    def _note(self, text: str) -> None:
        with contextlib.suppress(OSError):  # As above.
            os.write(self.fd, f"\n{text}\n".encode("utf-8", "backslashreplace"))


_recording: Final[list[BlackBox]] = []
"""The box of this process, if it is armed: the patched functions below outlive a fork and look here."""


_kept: Final[set[int]] = set()
"""The descriptors that nobody else in this process closes."""


def keep(*descriptors: int) -> None:
    """Let these descriptors be closed by nobody who asks Python for it, from now on, and all others."""
    _kept.clear()
    _kept.update(descriptors)


def passing(line: int) -> None:
    """Record that a statement of the file is executed now: a stack may be too deep, or missing, to tell."""
    if _recording:
        _recording[0]._note(f"At {line}")


def parse(text: str) -> Record:
    """Return the record that faulthandler's output holds: the last stack of the failing or else the main thread."""
    main, cause, at = "", "", 0
    stack: list[Entry] = []
    other: list[Entry] = []
    current: list[Entry] | None = None
    failing = False
    for line in text.splitlines():
        if line.startswith("Main 0x"):
            main = line[7:]
        elif line.startswith(("Cause ", "Fatal Python error: ", "Timeout ")):
            failing, other = False, []
            cause = "" if line.startswith("Timeout ") else line.partition(" error: " if line[0] == "F" else " ")[2]
        elif line.startswith("At ") and line[3:].isdecimal():
            at = int(line[3:])
        elif (section := _SECTION.match(line)) is not None:
            current = []
            if section["title"] != "Thread":
                stack, failing = current, True
            elif section["thread"] == main and not failing:
                stack = current
            elif section["thread"] == main:
                other = current
        elif (entry := _ENTRY.match(line)) is not None and current is not None:
            current.append(Entry(_unescaped(entry["path"]), int(entry["line"]), entry["function"]))
    return Record(tuple(stack), cause, at, tuple(other))


def _unescaped(path: str) -> str:
    """Return a path as it is: faulthandler writes what is not ASCII as an escape."""
    return _ESCAPE.sub(lambda match: chr(int(match[1] or match[2] or match[3], 16)), path)


def _memory_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("fxls-black-box")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _patch() -> None:
    """Let the ways to end this process record it first."""
    os._exit = _noting(os._exit, lambda status: f"os._exit({status})")
    for name in _REPLACING:
        setattr(os, name, _noting(getattr(os, name), lambda path, *_: f"exec of {path!r}"))
    signal.raise_signal = _noting(signal.raise_signal, lambda number: f"signal {_name(number)}")
    os.kill = _noting(os.kill, _killed)
    if hasattr(os, "killpg"):
        os.killpg = _noting(os.killpg, _group_killed)
    ctypes.CDLL.__getitem__ = _noting(ctypes.CDLL.__getitem__, _looked_up)
    os.close, os.closerange, os.dup2 = _closing(os.close), _closing_all(os.closerange), _replacing(os.dup2)
    for name in ("enable", "disable", "dump_traceback_later", "cancel_dump_traceback_later", "unregister"):
        if hasattr(faulthandler, name):
            setattr(faulthandler, name, _idle(getattr(faulthandler, name)))
    if resource is not None:
        resource.setrlimit = _with_grace(resource.setrlimit)


def _noting(function: Callable[..., Any], describe: Callable[..., str]) -> Callable[..., Any]:
    @functools.wraps(function)
    def noted(*args: Any, **kwargs: Any) -> Any:
        cause = describe(*args, **kwargs)
        if cause:
            _recording[0].note(cause)
        return function(*args, **kwargs)

    return noted


def _idle(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def idle(*_: Any, **__: Any) -> None:
        pass

    return idle


def _closing(close: Callable[[int], None]) -> Callable[[int], None]:
    @functools.wraps(close)
    def closed(fd: int) -> None:
        if fd in _kept:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        close(fd)

    return closed


def _closing_all(close: Callable[[int, int], None]) -> Callable[[int, int], None]:
    @functools.wraps(close)
    def closed(fd_low: int, fd_high: int, /) -> None:
        for fd in sorted(_kept):
            if fd_low <= fd < fd_high:
                close(fd_low, fd)
                fd_low = fd + 1
        close(fd_low, fd_high)

    return closed


def _replacing(replace: Callable[..., int]) -> Callable[..., int]:
    @functools.wraps(replace)
    def replaced(fd: int, fd2: int, inheritable: bool = True) -> int:
        if fd2 in _kept:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return replace(fd, fd2, inheritable)

    return replaced


def _with_grace(limit: Callable[[int, tuple[int, int]], None]) -> Callable[[int, tuple[int, int]], None]:
    """A stand-in for what sets limits: processor time ends with a signal that is recorded before the deadly one."""

    @functools.wraps(limit)
    def limited(which: int, limits: tuple[int, int], /) -> None:
        if resource is not None and which == resource.RLIMIT_CPU:
            with contextlib.suppress(TypeError, ValueError):
                soft, hard = limits
                if hard != resource.RLIM_INFINITY:
                    limit(which, (hard if soft == resource.RLIM_INFINITY else soft, hard + _GRACE))
                    return
        limit(which, limits)

    return limited


def _looked_up(_: object, name: object) -> str:
    return f"`{name}` of C" if isinstance(name, str) and name in _ENDING else ""


def _killed(pid: int, number: int) -> str:
    return f"signal {_name(number)}" if pid in {os.getpid(), 0, -os.getpgrp()} and number else ""


def _group_killed(group: int, number: int) -> str:
    return f"signal {_name(number)}" if group in {os.getpgrp(), 0} and number else ""


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)

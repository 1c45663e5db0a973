"""What a process that runs user code may do to the rest of the system: as little as the kernel can see to.

Every such process is *isolated*: it cannot signal, trace or write into processes that were there before it, so that
nothing which it does can end or mislead its supervisors. One that runs a file which the person has not edited can be
*confined* as well: files outside of its temporary folder are read-only, and there is no network.

Linux offers this without privileges: Landlock for signals, memory, files and TCP, an empty network namespace for all
other traffic. Where it does not, the process runs without, and what is missing is said. Sockets that are files, such
as those of a container daemon, are not kept from anybody.
"""

import contextlib
import ctypes
import errno
import functools
import os
import platform
import shutil
import socket
import struct
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, Final

_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_CREATE_RULESET_VERSION: Final = 1
_RULE_PATH_BENEATH: Final = 1

_PR_SET_NO_NEW_PRIVS: Final = 38
_CLONE_NEWUSER: Final = 0x10000000
_CLONE_NEWNET: Final = 0x40000000

_SCOPE_SIGNAL: Final = 2
_SCOPE_ABSTRACT_SOCKETS: Final = 1
_NET_TCP: Final = 0b11
_MAKE_BLOCK_DEVICE: Final = 1 << 11
"""The right to make block devices, which nobody here misses: a ruleset must handle something to be one."""

_WRITING: Final = (1 << 1) | sum(1 << bit for bit in range(4, 13))
"""Rights of the first version that change something: write, remove, make."""

_REFER: Final = 1 << 13
_TRUNCATE: Final = 1 << 14
_ON_FILES: Final = (1 << 1) | _TRUNCATE
"""Those of the rights above that make sense for something that is no folder."""

_REFUSALS: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_UNREACHABLE: Final = frozenset({errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL})
_DEPTH: Final = 20
_PREFIX: Final = "fxls-sandbox-"

_libc: Final = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None

_asked: Final[list[bool]] = []
"""Not empty if this process was told to confine itself; a child that is forked from it was, too."""

_in_force: Final[list[str]] = []
"""What this process is confined from."""

_denied: Final[list[str]] = []
"""What it was seen to be denied."""

_passed_over: Final[list[str]] = []
"""The folders that were not made."""


def available() -> tuple[str, ...]:
    """Return what `confine` can keep a process from here: some of `files` and `network`."""
    files = ("files",) if _version() > 0 else ()
    return (*files, "network") if _version() >= 4 or _can_leave_the_network() else files


def isolate() -> None:
    """Keep this process, and what it starts, from harming any that is there now. Without privileges, for good."""
    version = _version()
    if version >= 6:
        _restrict(_ruleset(0, 0, _SCOPE_SIGNAL))
    elif version > 0:
        # No signals in these versions; memory and descriptors of other processes are out of reach all the same.
        _restrict(_ruleset(_MAKE_BLOCK_DEVICE, 0, 0))


def confine(writable: Sequence[str]) -> None:
    """Keep this process, which has one thread, from the network and from writing anywhere but into some folders."""
    _asked.append(True)
    version = _version()
    if _leave_the_network() or version >= 4:
        _in_force.append("network")
    if version <= 0:
        return
    rights = _WRITING | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    scope = _SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNAL if version >= 6 else 0
    ruleset = _ruleset(rights, _NET_TCP if version >= 4 else 0, scope)
    if ruleset < 0:
        return
    for path in (*writable, "/dev/null", "/dev/zero", "/dev/tty", "/dev/shm"):  # noqa: S108 — Shared memory is named there.
        _allow(ruleset, path, rights)
    if _restrict(ruleset):
        _in_force.append("files")
        _pass_over_folders()


def retire(folder: str) -> None:
    """Confine this process as `confine` does, with a folder for what it writes, its temporary one from now on."""
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    confine((folder,))


def is_asked() -> bool:
    """Whether this process was told to confine itself, be it possible or not."""
    return bool(_asked)


def denied() -> str:
    """Return what `forbade` has found last."""
    return _denied[-1] if _denied else ""


def forbade(error: BaseException) -> str:
    """Return what the sandbox has kept an exception's code from, as `kept_from` does, and remember it."""
    found = kept_from(error)
    if found:
        _denied.append(found)
    return found


def kept_from(error: BaseException) -> str:
    """Return what the sandbox has kept an exception's code from, be it `files` or `network`; "" where it has not."""
    return next((what for each in chain(error) if isinstance(each, OSError) and (what := _forbidden(each))), "")


def temporary_folders(roots: Sequence[str], own: str) -> tuple[str, ...]:
    """Return the folders that confined code may write to: `own`, and the system's if the project is not in there."""
    system = os.path.realpath(tempfile.gettempdir())
    if any((os.path.realpath(root) + os.sep).startswith(system + os.sep) for root in roots):
        return (own,)
    return (own, system)


def own_folder() -> str:
    """Make a temporary folder for this process; those that processes which are gone have left are taken away."""
    system = tempfile.gettempdir()
    for name in os.listdir(system):
        pid = name.removeprefix(_PREFIX).partition("-")[0]
        if name.startswith(_PREFIX) and pid.isdecimal() and not os.path.exists(f"/proc/{pid}"):
            shutil.rmtree(os.path.join(system, name), ignore_errors=True)
    return tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")


def _pass_over_folders() -> None:
    """Let code go on that makes a folder where it may not: mostly it is for what is written later, or elsewhere."""
    original = os.mkdir

    @functools.wraps(original)
    def mkdir(path: Any, *args: Any, **kwargs: Any) -> None:
        try:
            original(path, *args, **kwargs)
        except OSError as error:
            if _forbidden(error) != "files":
                raise
            _passed_over.append(os.path.abspath(os.fsdecode(path)))

    os.mkdir = mkdir


def _forbidden(error: OSError) -> str:
    if "network" in _in_force and (isinstance(error, socket.gaierror) or error.errno in _UNREACHABLE):
        return "network"
    if error.errno in _REFUSALS:
        if error.filename is None and "network" in _in_force:
            return "network"
        if error.filename is not None and "files" in _in_force and _would_do(error.filename):
            return "files"
    if error.errno == errno.ENOENT and isinstance(error.filename, str | bytes):
        path = os.path.abspath(os.fsdecode(error.filename))
        return "files" if any(path.startswith(each + os.sep) for each in _passed_over) else ""
    return ""


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and those that it came from; libraries wrap what a socket raises in several of their own."""
    waiting, seen = [error], set[int]()
    while waiting and len(seen) < _DEPTH:
        current = waiting.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        reason = object.__getattribute__(current, "__dict__").get("reason")
        parts = (current.__cause__, current.__context__, reason, *vars(BaseException)["args"].__get__(current))
        waiting += [part for part in parts if isinstance(part, BaseException)]


def _would_do(path: object) -> bool:
    """Whether a path could be written if it were for its permissions alone."""
    if not isinstance(path, str | bytes):
        return True
    name = os.fsdecode(path)
    with contextlib.suppress(OSError, ValueError):
        return os.access(name if os.path.exists(name) else os.path.dirname(name) or os.curdir, os.W_OK)
    return False


def _version() -> int:
    """Return the version of Landlock that the kernel speaks, 0 where it speaks none."""
    if _libc is None or platform.machine() not in {"x86_64", "aarch64", "riscv64", "loongarch64"}:
        return 0
    return max(0, _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _CREATE_RULESET_VERSION))


def _ruleset(files: int, network: int, scope: int) -> int:
    """Return the descriptor of a set of rules that handles these rights, -1 where the kernel knows them not."""
    assert _libc is not None
    # The structure grew with the versions: the kernel takes a shorter one, or a longer one that ends in zeros.
    attributes = struct.pack("=QQQ", files, network, scope)
    size = 24 if scope else 16 if network else 8
    return _libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0)


def _allow(ruleset: int, path: str, rights: int) -> None:
    assert _libc is not None
    try:
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    wanted = rights if os.path.isdir(path) else rights & _ON_FILES
    _libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, struct.pack("=Qi", wanted, beneath), 0)
    os.close(beneath)


def _restrict(ruleset: int) -> bool:
    """Let a set of rules hold for this process from now on; whether it does."""
    if ruleset < 0:
        return False
    assert _libc is not None
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    done = _libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0
    os.close(ruleset)
    return done


def _can_leave_the_network() -> bool:
    """Whether a process can be given a network of its own, found out in a child."""
    if _libc is None:
        return False
    pid = os.fork()
    if pid == 0:
        os._exit(0 if _leave_the_network() else 1)
    return os.waitpid(pid, 0)[1] == 0


def _leave_the_network() -> bool:
    """Move this process into an empty network; whether that worked. Its user stays who it is."""
    if _libc is None:
        return False
    if _libc.unshare(_CLONE_NEWNET) == 0:
        return True
    user, group = os.geteuid(), os.getegid()
    if _libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
        return False
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with contextlib.suppress(OSError), open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    return True

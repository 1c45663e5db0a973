"""Child processes that run user code: forking them, bounding them, ending them with all that they started.

A child leads a session of its own, so that its group can be killed without hurting anybody else. It talks in frames
over two private pipes; what it prints arrives over a third; a black box survives it. On Linux the kernel kills it when
its parent dies, and processes that escape its group are handed to the parent, which ends them too.

Unix only: where there is no `fork`, processes are spawned instead.
"""

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn

from fxworker.blackbox import BlackBox
from fxworker.channel import Frame, FrameReader, pack, pipe, receive, send
from fxworker.loop import Loop, Outbox, drain
from fxworker.sandbox import isolate

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_PRINTED_KEPT: Final = 16 << 10
_PRINTED_READS: Final = 16
"""Reads that empty the pipe, and that a process which goes on printing cannot make endless."""

own_pid: Final = os.getpid
"""Which process this is; user code may put something else in the place of that function."""

_prctl: Final = ctypes.CDLL(None).prctl if sys.platform == "linux" else None

_ours: Final[set[int]] = set()
"""Descriptors that belong to this process and that no child may keep: an inherited end would hide an end of file."""

_known: Final[set[int]] = set()
"""Children that this process started, or that it accepts."""


@dataclass(frozen=True, slots=True)
class Ends:
    """What a child holds of its connection to its parent: frames down to it, frames up from it, and its black box."""

    down: int
    up: int
    box: BlackBox

    def receive(self) -> Frame | None:
        """Return the next frame from the parent, None when the parent has gone."""
        return receive(self.down)

    def send(self, frame: Frame) -> None:
        """Send a frame to the parent."""
        send(self.up, frame)


@dataclass(eq=False)
class Child:
    """A running child, as its parent sees it. Mutable; belongs to the parent's loop.

    Attributes:
        on_frame: Is told each frame that the child sends.
        on_end: Is told the wait status when the child has ended; every frame was delivered before.
    """

    pid: int
    box: BlackBox
    on_frame: Callable[[Frame], None]
    on_end: Callable[[int], None]
    _loop: Loop
    _up: int
    _printed: int
    _down: Outbox
    _down_fd: int
    _ended: int
    _reader: FrameReader = field(default_factory=FrameReader)
    _tail: bytearray = field(default_factory=bytearray)

    def send(self, frame: Frame) -> None:
        """Send a frame to the child, without waiting for it to be read."""
        self._down.write(pack(frame))

    def printed(self) -> str:
        """Return and forget the tail of what the child printed."""
        self._empty_printed()
        text = bytes(self._tail).decode("utf-8", "replace")
        self._tail.clear()
        return text

    def kill(self) -> None:
        """End the child and its group at once. `on_end` is told later."""
        kill_group(self.pid)

    def close(self) -> None:
        """Let the child see the end of its pipe; one that waits for frames ends then."""
        self._down.close()
        self._loop.forget(self._down_fd)
        os.close(self._down_fd)
        _ours.discard(self._down_fd)
        self._down_fd = -1

    def has_ended(self) -> bool:
        """Whether the child has ended, be it collected or not."""
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    def _read_up(self) -> None:
        data, ended = drain(self._up)
        if ended:
            self._loop.forget(self._up)
        for frame in self._reader.feed(data):
            self.on_frame(frame)

    def _empty_printed(self) -> None:
        for _ in range(_PRINTED_READS):
            if self._printed < 0 or not self._read_printed():
                return

    def _read_printed(self) -> bool:
        """Take a part of what was printed; return whether there was any."""
        data, ended = drain(self._printed)
        if ended:
            self._loop.forget(self._printed)
        self._tail += data
        del self._tail[:-_PRINTED_KEPT]
        return bool(data)

    def _exited(self) -> None:
        """Deliver what the child wrote last, then its end."""
        while data := drain(self._up)[0]:
            for frame in self._reader.feed(data):
                self.on_frame(frame)
        self._empty_printed()
        kill_group(self.pid)
        try:
            status = os.waitpid(self.pid, 0)[1]
        except ChildProcessError:
            status = 0
        _known.discard(self.pid)
        end_stragglers()
        self._down.close()
        for fd in (self._up, self._printed, self._down_fd, self._ended):
            if fd >= 0:
                self._loop.forget(fd)
                os.close(fd)
                _ours.discard(fd)
        self._printed = -1
        self.on_end(status)
        _ours.discard(self.box.fd)
        self.box.close()


def own(fd: int) -> int:
    """Note a descriptor that no child may keep, and return it."""
    _ours.add(fd)
    return fd


def fork(
    loop: Loop,
    run: Callable[[Ends], None],
    on_frame: Callable[[Frame], None],
    on_end: Callable[[int], None],
) -> Child:
    """Start a child that runs `run` and exits. The parent must have one thread that matters."""
    box = BlackBox()
    down_read, down_write = pipe()
    up_read, up_write = pipe()
    printed_read, printed_write = pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _live(parent, run, Ends(down_read, up_write, box), loop, printed_write, (down_write, up_read, printed_read))
    _known.add(pid)
    for fd in (down_read, up_write, printed_write):
        os.close(fd)
    for fd in (up_read, printed_read):
        os.set_blocking(fd, False)
    ended = os.pidfd_open(pid)
    child = Child(
        pid,
        box,
        on_frame,
        on_end,
        loop,
        own(up_read),
        own(printed_read),
        Outbox(loop, down_write),
        own(down_write),
        own(ended),
    )
    own(box.fd)
    loop.readable(up_read, child._read_up)
    loop.readable(printed_read, child._read_printed)
    loop.readable(ended, child._exited)
    return child


def execute(command: tuple[str, ...], ends: Ends) -> NoReturn:
    """Become another program, which finds its ends in its last arguments; `adopted` reads them."""
    fds = (ends.down, ends.up, ends.box.fd)
    for fd in fds:
        os.set_inheritable(fd, True)
    os.execv(command[0], [*command, ",".join(map(str, fds))])  # noqa: S606 — Our own program, without a shell.


def adopted(argument: str) -> Ends:
    """Return the ends that `execute` handed over."""
    down, up, box = map(int, argument.split(","))
    for fd in (down, up, box):
        os.set_inheritable(fd, False)
    return Ends(down, up, BlackBox(box))


def _live(
    parent: int, run: Callable[[Ends], None], ends: Ends, loop: Loop, printed: int, others: tuple[int, ...]
) -> NoReturn:
    """Be the child: let go of the parent's things, run, and exit without the interpreter's farewell."""
    leave = os._exit
    status = 70
    try:
        os.setsid()
        die_with_parent(parent)
        loop.close()
        for fd in (*others, *_ours):
            os.close(fd)
        _ours.clear()
        _known.clear()
        os.dup2(printed, 1)
        os.dup2(printed, 2)
        os.close(printed)
        isolate()
        # Whoever started the worker may have had signals ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        run(ends)
        status = 0
    finally:
        flush_output()
        leave(status)


def hold_standard_descriptors() -> None:
    """Let 0, 1 and 2 be open: where user code has closed one, a pipe of ours would take its number."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)


def disarm_timers() -> None:
    """Let no alarm that user code has set end this process."""
    if hasattr(signal, "setitimer"):
        for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
            signal.setitimer(timer, 0.0)


def flush_output() -> None:
    """Bring out what user code printed; its own stream may raise anything."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:  # noqa: BLE001 — What was printed is then lost, and nothing else.
            return


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process when the one that forked it dies, which must be `parent`."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(0)


def outlive_parent() -> None:
    """Let this process see the end of its parent in its pipe, and end in order."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, 0, 0, 0, 0)


def adopt_orphans() -> None:
    """Let processes that lose their parent below this one become its children."""
    if _prctl is not None:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_group(pid: int) -> None:
    """Kill the group that `pid` leads; it must not have been waited for."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        # It was forked a moment ago and leads no group yet, or everybody in it has ended.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    except PermissionError:
        pass  # Everybody in the group has ended, on systems that say so in this way.


def end_stragglers(*, everybody: bool = False) -> None:
    """Kill and collect children that this process did not start itself: orphans that escaped their group."""
    while strangers := _children() - (frozenset() if everybody else _known):
        for pid in strangers:
            kill_group(pid)
        for pid in strangers:
            _collect(pid)


def accept_children() -> None:
    """Let the children that exist now live: what a file imports may have started them for good."""
    _known.update(_children())


def _children() -> set[int]:
    """Return the children of this thread; none where the kernel does not say."""
    try:
        text = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
    except OSError:
        return set()
    return {int(word) for word in text.split()}


def _collect(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)

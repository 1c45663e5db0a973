"""Everything that user code does at its worst, at each place where it runs: in an imported module, in the file, in a
constructor, in a forward. Whatever it is, there is one answer in time, on the guilty line if anything is wrong, nothing
is left running, and the next edit is answered.
"""

import os
import sys
import time
from pathlib import Path

import pytest

from fxworker.wire import Limits, Problem
from tests.worker.harness import Worker, all_problems, below, eventually

HEAD = """\
import atexit, builtins, ctypes, gc, os, resource, signal, socket, subprocess, sys, threading, time
import torch
from torch import nn
"""
NET = """\

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear({width}, 4)
        {constructor}

    def forward(self, x):
        {forward}
        return self.fc(x)
"""
PLACES = ("module", "file", "constructor", "forward")
LIMIT = 0.5


HANGS = {
    "endless loop": "while True: pass",
    "sleep": "time.sleep(1000)",
    "loop in C": "sum(range(10**12))",
    "lock": "lock = threading.Lock(); lock.acquire(); lock.acquire()",
    "waiting for a process": "subprocess.run(['sleep', '1000'])",
    "waiting for a thread": "t = threading.Thread(target=time.sleep, args=(1000,)); t.start(); t.join()",
    "ignoring signals and looping": "[signal.signal(n, signal.SIG_IGN) for n in (1, 2, 14, 15)]; time.sleep(1000)",
    "blocking signals and looping": "signal.pthread_sigmask(0, range(1, 65)); time.sleep(1000)",
    "catching everything": "exec('while True:\\n try:\\n  time.sleep(9)\\n except BaseException: pass')",
    "reading a pipe that nobody writes": "os.read(os.pipe()[0], 1)",
    "a fork that waits for its child": "pid = os.fork(); time.sleep(1000) if not pid else os.waitpid(pid, 0)",
    "stopping itself": "os.kill(os.getpid(), signal.SIGSTOP)",
    "a recorder switched off": "f = __import__('faulthandler'); f.disable(); f.cancel_dump_traceback_later(); "
    "time.sleep(1000)",
    "a new session and a loop": "os.fork() and os._exit(0) if False else time.sleep(1000)",
}
DEATHS = {
    "exit": "os._exit(3)",
    "exit with success": "os._exit(0)",
    "segmentation fault": "ctypes.string_at(0)",
    "abort": "os.abort()",
    "SIGKILL": "os.kill(os.getpid(), signal.SIGKILL)",
    "SIGTERM to the group": "os.killpg(0, signal.SIGTERM)",
    "SIGSEGV": "os.kill(os.getpid(), signal.SIGSEGV)",
    "another program": "os.execv('/bin/true', ['true'])",
    "abort in a thread": "threading.Thread(target=os.abort).start(); time.sleep(1)",
    "C exit": "ctypes.CDLL(None).exit(4)",
    "C _exit": "ctypes.CDLL(None)._exit(4)",
    "a fatal error": "ctypes.pythonapi.Py_FatalError(b'x')",
    "a recorder of its own": "__import__('faulthandler').enable(open('/dev/null', 'w')); ctypes.string_at(0)",
    "no processor time": "resource.setrlimit(resource.RLIMIT_CPU, (1, 1)); sum(range(10**12))",
}
RAISED = {
    "SystemExit": "sys.exit(3)",
    "quit": "quit()",
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "SIGINT": "os.kill(os.getpid(), signal.SIGINT); time.sleep(0.1)",
    "input": "input('password: ')",
    "an odd exception": "raise type('Odd', (BaseException,), {'__str__': lambda self: 1 / 0})()",
    "200 GB": "bytearray(200 << 30)",
    "200 GB in pieces": "[bytearray(1 << 28) for _ in range(800)]",
    "recursion": "f = lambda: f(); f()",
    "a long message": "raise ValueError('x' * 10**8)",
    "half characters": r"raise ValueError('\udcff\ud800 \x00 \x1b[31m \u202e')",
    "an error without a name": "raise type('Odd', (ImportError,), dict.fromkeys(('name', 'args', 'msg'), "
    "property(lambda self: 1 / 0)))('x')",
    "an error at no place": r"raise SyntaxError('x', ('\udcff', -5, 10**30, 7, 9, 9))",
}
# From 3.12 on CPython counts what recurses in C as well and raises where it died before.
(RAISED if sys.version_info >= (3, 12) else DEATHS)["stack overflow in C"] = (
    "sys.setrecursionlimit(10**9); f = lambda *a: max(a, key=f); f(1)"
)
PRANKS = {
    "threads": "[threading.Thread(target=time.sleep, args=(1000,)).start() for _ in range(200)]",
    "a thread that exits": "threading.Thread(target=sys.exit).start()",
    "a thread that raises": "threading.Thread(target=lambda: 1 / 0).start()",
    "atexit": "atexit.register(time.sleep, 1000)",
    "C atexit": "getattr(ctypes.CDLL(None), '__cxa_atexit')(ctypes.CDLL(None).pause, None, None)",
    "closed standard descriptors": "[os.close(n) for n in (0, 1, 2)]",
    "all descriptors closed": "os.closerange(0, 4096)",
    "all descriptors replaced": "[os.dup2(os.open('/dev/null', os.O_RDWR), n) for n in range(200, 2, -1) "
    "if os.path.exists('/proc/self/fd/%d' % n)]",
    "no name": "globals()['__name__'] = 5",
    "closed streams": "[stream.close() for stream in (sys.stdin, sys.stdout, sys.stderr)]",
    "streams of none": "sys.stdin = sys.stdout = sys.stderr = None",
    "a flood": "[os.write(1, b'x' * 65536) for _ in range(2000)]",
    "forged answers": '[os.write(1, b\'["TraceReport",[],[1,"/","x","complete",[],[],[],[0,0,0,0,0],""]]\\n\') '
    "for _ in range(9)]",
    "signal handlers": "[signal.signal(n, lambda *a: time.sleep(1000)) for n in (1, 2, 3, 10, 12, 14, 15)]",
    "an alarm": "signal.alarm(1)",
    "a profiling timer": "signal.setitimer(signal.ITIMER_PROF, 0.01, 0.01)",
    "no working directory": "d = '/tmp/fxls-gone-%d' % os.getpid(); os.mkdir(d); os.chdir(d); os.rmdir(d)",
    "a daemon": "pid = os.fork(); (os.setsid(), os.fork() and os._exit(0), time.sleep(1000)) if not pid else 0",
    "a process in a session of its own": "subprocess.Popen(['sleep', '1000'], start_new_session=True)",
    "a process that holds all pipes": "subprocess.Popen(['sleep', '1000'], close_fds=False)",
    "niceness": "os.nice(19)",
    "few descriptors": "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))",
    "little memory": "resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32))",
    "no collector": "gc.disable()",
    "a deep stack allowed": "sys.setrecursionlimit(10**9)",
    "hooks": "sys.excepthook = sys.unraisablehook = sys.displayhook = 1; sys.settrace(lambda *a: 1 / 0)",
    "an audit hook": "sys.addaudithook(lambda event, args: None)",
    "a profiler": "sys.setprofile(lambda *a: None); threading.setprofile(lambda *a: 1 / 0)",
    "other threads' switches": "sys.setswitchinterval(1000)",
    "no environment": "os.environ.clear()",
    "an interval timer": "signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)",
    "a stack that is written later": "__import__('faulthandler').dump_traceback_later(0.05, exit=True)",
    "nothing written": "os.write = os.getpid = lambda *a: 0",
    "a mask": "os.umask(0o777)",
    "guessed descriptors": "[ctypes.CDLL(None).write(n, b'x' * 64, 64) for n in range(3, 64) "
    "if os.path.exists('/proc/self/fd/%d' % n) and not os.set_blocking(n, False)]",
    "the parent's descriptors": "[open(p, 'wb', 0).write(b'junk\\n') for n in range(64) for p in "
    "['/proc/%d/fd/%d' % (os.getppid(), n)] if os.access(p, os.W_OK) and 'pipe' in os.readlink(p)]",
    "the parent killed": "os.kill(os.getppid(), signal.SIGKILL); time.sleep(0.2)",
    "the parent stopped": "os.kill(os.getppid(), signal.SIGSTOP)",
    "everybody killed": "os.kill(-1, signal.SIGKILL) if os.getpid() == 0 else 0",
    "faulthandler off": "__import__('faulthandler').disable()",
    "os.fork": "os.fork()",
}
SABOTAGE = {
    "a torch without its parts": "torch.relu = torch.nn.Module.__call__ = torch.Tensor.__torch_function__ = None",
    "nn.Module replaced": "torch.nn.Linear = torch.nn.Module = object",
    "no builtins": "builtins.len = builtins.isinstance = builtins.open = None",
    "modules without their parts": "nn.Module.parameters = nn.Module.named_modules = nn.Module.__getattr__ = None",
    "no JSON": "__import__('json').dumps = __import__('dataclasses').fields = __import__('linecache').getlines = None",
    "no modules": "sys.modules.clear()",
    "modules that are other things": "sys.modules['json'] = sys.modules['os'] = sys.modules['fxworker'] = 1",
    "a mode left on": "__import__('torch.utils._python_dispatch').utils._python_dispatch.TorchDispatchMode()"
    ".__enter__()",
    "no path": "sys.path.clear(); sys.meta_path.clear()",
}
BOMBS = {
    "a fork bomb": "exec('while True:\\n try: os.fork()\\n except OSError: pass')",
    "a thread bomb": "exec('while True:\\n try: threading.Thread(target=time.sleep, args=(1000,)).start()\\n "
    "except RuntimeError: pass')",
    "a shell bomb": "subprocess.run(['sh', '-c', 'while true; do sleep 1000 & done'])",
}


def text_of(code: str, place: str) -> tuple[str, str]:
    """Return the file and the module that it imports, one of which does it."""
    module = "X = 4\n"
    width, constructor, forward, top = "X", "pass", "pass", "from deeds import X\n"
    match place:
        case "module":
            module = f"{HEAD}\n{code}\nX = 4\n"
        case "file":
            top = f"def do():\n    {code}\n    return 4\n\n\nX = do()\n"
        case "constructor":
            constructor, top = code, "X = 4\n"
        case _:
            forward, top = code, "X = 4\n"
    return HEAD + top + NET.format(width=width, constructor=constructor, forward=forward), module


def guilty_lines(text: str, code: str, place: str) -> set[int]:
    marks = {"from deeds import X"} if place == "module" else {code, "X = do()"} if place == "file" else {code}
    return {number for number, line in enumerate(text.split("\n"), 1) if any(mark in line for mark in marks)}


@pytest.fixture
def deed(worker: Worker, model):
    """Do something at a place, and return what was said of it, in time, with nobody left and the next edit answered."""

    def do(code: str, place: str, seconds: float = LIMIT, *, anywhere: bool = False) -> tuple[set[str], set[int], str]:
        before = os.nice(0)
        text, module = text_of(code, place)
        model(module, "deeds.py")
        path = model(text)
        started = time.monotonic()
        report = worker.trace(path, limits=Limits(seconds=seconds, memory=1 << 30))
        assert time.monotonic() - started < 6 + 5 * seconds
        problems = all_problems(report)
        lines = {problem.location.span.line for problem in problems}
        for problem in problems:
            assert problem.location.path == str(path), problem
            line = problem.location.span.line
            assert anywhere or line in guilty_lines(text, code, place) or is_about_inputs(problem, text), problem
        model("X = 4\n", "deeds.py")
        fine, _ = text_of("pass", "module")
        # What a module left behind in the process that imported it is gone: the module has changed.
        report = worker.trace(path, fine)
        assert all_problems(report) == []
        assert report.status == "complete"
        assert os.nice(0) == before
        assert eventually(lambda: not strangers(worker, str(path))), strangers(worker, str(path))
        return {problem.code for problem in problems}, lines, "\n".join(each.message for each in problems)

    return do


def is_about_inputs(problem: Problem, text: str) -> bool:
    """Whether it says at the parameter, as information, with which inputs the model was tried, and what it said."""
    line = text.split("\n")[problem.location.span.line - 1]
    told = problem.severity == "information" and "tried `" in problem.explanation
    return problem.code == "FX202" and told and "def forward(self, x)" in line


def strangers(worker: Worker, path: str) -> set[int]:
    """Return the processes below a worker that are no worker's."""
    return {pid for pid in below(worker.process.pid) if not is_ours(pid)}


def is_ours(pid: int) -> bool:
    try:
        return b"fxworker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return True


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", HANGS)
def test_hangs(deed, name, place):
    assert deed(HANGS[name], place)[0] == {"FX104"}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", DEATHS)
def test_deaths(deed, name, place):
    assert deed(DEATHS[name], place, 5.0)[0] == {"FX105"}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", RAISED)
def test_raised(deed, name, place):
    expected = {"module": "FX101", "file": "FX101", "constructor": "FX102", "forward": "FX009"}[place]
    assert deed(RAISED[name], place, 20.0)[0] == {expected}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", PRANKS)
def test_pranks(deed, name, place):
    deed(PRANKS[name], place, 4.0)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", SABOTAGE)
def test_sabotage(deed, name, place):
    """What breaks Python for everybody shows in whatever runs next: the answer is about that, or about the deed."""
    deed(SABOTAGE[name], place, 4.0, anywhere=True)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", BOMBS)
def test_bombs(deed, name, place):
    deed(BOMBS[name], place)

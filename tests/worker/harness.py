"""A real worker process, driven over its protocol."""

import os
import queue
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import fxworker
from fxls.discovery import discover
from fxworker.encoding import decode, encode
from fxworker.wire import (
    CancelRequest,
    EarlyReport,
    EnvironmentReport,
    Limits,
    Message,
    Overlay,
    ProfileReport,
    ProfileRequest,
    Progress,
    Request,
    TargetReport,
    TraceReport,
    TraceRequest,
    TraceTarget,
)

MAIN = Path(fxworker.__file__).parent / "__main__.py"
PATIENCE = 60.0


class Worker:
    """A worker process and what it has said."""

    def __init__(self, *arguments: str, python: str = sys.executable, env: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [python, str(MAIN), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
        self.errors: list[str] = []
        self.messages: queue.Queue[Message | None] = queue.Queue()
        self.number = 0
        for run in (self._read, self._read_errors):
            threading.Thread(target=run, daemon=True).start()
        environment = self.receive()
        assert isinstance(environment, EnvironmentReport)
        self.environment = environment

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.messages.put(decode(line))
        self.messages.put(None)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.errors.append(line.decode(errors="replace"))

    def receive(self, patience: float = PATIENCE) -> Message:
        message = self.messages.get(timeout=patience)
        assert message is not None, "the worker ended: " + "".join(self.errors)
        return message

    def send(self, request: Request) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(encode(request))
        self.process.stdin.flush()

    def request(
        self,
        path: Path,
        text: str | None = None,
        *,
        roots: tuple[Path, ...] = (),
        overlays: tuple[Overlay, ...] = (),
        limits: Limits | None = None,
        targets: tuple[TraceTarget, ...] | None = None,
    ) -> TraceRequest:
        text = path.read_text() if text is None else text
        self.number += 1
        return TraceRequest(
            self.number,
            str(path),
            text,
            discover(str(path), text).targets if targets is None else targets,
            tuple(map(str, roots or (path.parent,))),
            overlays,
            limits or Limits(seconds=10.0),
        )

    def start(self, *args, **kwargs) -> TraceRequest:
        """Send a request without waiting for its answer."""
        request = self.request(*args, **kwargs)
        self.send(request)
        return request

    def edit(self, path: Path, text: str) -> TraceReport:
        """Trace a text as a person waits for it who is editing it."""
        self.send(replace(self.request(path, text), early=True))
        while not isinstance(message := self.receive(), TraceReport):
            assert isinstance(message, EarlyReport)
        return message

    def trace(self, *args, **kwargs) -> TraceReport:
        request = self.start(*args, **kwargs)
        report = self.receive()
        assert isinstance(report, TraceReport)
        assert report.id == request.id
        return report

    def cancel(self, number: int) -> None:
        self.send(CancelRequest(number))

    def profile(self, path: Path, target: str, **changes) -> tuple[list[Progress], ProfileReport]:
        request = self.request(path)
        (found,) = (each for each in request.targets if each.qualname == target)
        self.send(
            replace(ProfileRequest(request.id, request.path, request.text, found, "cpu", request.roots), **changes)
        )
        progress: list[Progress] = []
        while isinstance(message := self.receive(), Progress):
            progress.append(message)
        assert isinstance(message, ProfileReport)
        return progress, message

    def close(self) -> int:
        """Close the worker's input and return its exit status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(timeout=10)


def of(report: TraceReport, qualname: str) -> TargetReport:
    (found,) = (each for each in report.targets if each.qualname == qualname)
    return found


def all_problems(report: TraceReport) -> list:
    return [*report.problems, *(problem for target in report.targets for problem in target.problems)]


def only_problem(report: TraceReport):
    problems = all_problems(report)
    assert len(problems) == 1, problems
    return problems[0]


def marked(text: str, location) -> str:
    """Return the text that a location of one line spans."""
    span = location.span
    assert span.line == span.end_line
    return text.split("\n")[span.line - 1].encode()[span.column : span.end_column].decode()


def below(pid: int) -> set[int]:
    """Return the processes below one, itself included."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found = {pid} & parents.keys()
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def eventually(condition, patience: float = 5.0) -> bool:
    until = time.monotonic() + patience
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True

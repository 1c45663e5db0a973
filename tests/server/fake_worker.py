"""A worker without torch for tests of the server: it does what comments in the traced text tell it.

    # fake: sleep 5            answer after 5 s; cancelling answers at once
    # fake: die                end at once, without an answer
    # fake: garbage            write something that is no message
    # fake: problem            report FX001 on this line
    # fake: sluggish           profile for 20 s
    # fake: unfinished 1       the first such trace had no time to look for everything
    # fake: imports PATH       report that the file depends on PATH, and FX001 on this line if that says `fake: problem`

The environment variable FXLS_FAKE_LOG names a file to which it appends what it is asked.
"""

import json
import os
import re
import sys
import threading
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "engine"))

from fxworker import encoding, texts, wire

_TOLD = re.compile(r"#\s*fake:\s*(\w+)\s*(.*)")
_lock = threading.Lock()
_cancelled: dict[int, threading.Event] = {}
_unfinished: list[int] = []


def main() -> None:
    note(event="start", pid=os.getpid(), arguments=sys.argv[1:])
    if "--dead" in sys.argv:
        sys.exit("no such thing as torch")
    problem = "the interpreter has no torch" if "--no-torch" in sys.argv else ""
    send(wire.EnvironmentReport("3.11.0", sys.executable, "" if problem else "2.13.0", ("cpu",), problem))
    for line in sys.stdin.buffer:
        request = encoding.decode(line)
        match request:
            case wire.TraceRequest():
                note(
                    event="trace",
                    id=request.id,
                    path=request.path,
                    text=request.text,
                    roots=request.roots,
                    overlays=[[each.path, each.text] for each in request.overlays],
                )
                _cancelled[request.id] = threading.Event()
                threading.Thread(target=trace, args=(request,), daemon=True).start()
            case wire.ProfileRequest():
                note(event="profile", id=request.id, device=request.device)
                _cancelled[request.id] = threading.Event()
                threading.Thread(target=profile, args=(request,), daemon=True).start()
            case wire.CancelRequest():
                note(event="cancel", id=request.id)
                _cancelled[request.id].set()
    note(event="end", pid=os.getpid())


def trace(request) -> None:
    problems, dependencies = [], []
    for number, line in enumerate(request.text.splitlines(), 1):
        told = _TOLD.search(line)
        if told is None:
            continue
        match told[1]:
            case "sleep":
                _cancelled[request.id].wait(float(told[2]))
            case "die":
                os._exit(3)
            case "garbage":
                with _lock:
                    os.write(1, b"{}\n")
            case "problem":
                problems.append(problem(request, number))
            case "imports":
                dependencies.append(told[2].strip())
                if "fake: problem" in Path(dependencies[-1]).read_text("utf-8"):
                    problems.append(problem(request, number))
    targets = []
    for target in request.targets:
        node = wire.NodeInfo(0, "x", "placeholder", "x", "", "", (), (), None, "", None, None)
        targets.append(
            wire.TargetReport(
                target.qualname,
                target.kind,
                target.name,
                "complete",
                nodes=(node,),
                code="def forward(self, x):\n    return x\n",
            )
        )
    send(
        wire.TraceReport(
            request.id,
            request.path,
            texts.digest(request.text),
            "complete",
            tuple(targets),
            tuple(problems),
            tuple(dependencies),
            unfinished=is_unfinished(request),
        )
    )


def is_unfinished(request) -> bool:
    told = re.search(r"# fake: unfinished (\d+)", request.text)
    if told is None:
        return False
    _unfinished.append(request.id)
    return len(_unfinished) <= int(told[1])


def problem(request, number):
    location = wire.Location(request.path, wire.Span(number, 4, number, 8))
    return wire.Problem("FX001", "error", "a value is asked for a bool", location)


def profile(request) -> None:
    for step in range(0, 101, 10):
        send(wire.Progress(request.id, f"run {step}", step))
        if "fake: sluggish" in request.text and _cancelled[request.id].wait(2):
            send(report(request, "cancelled"))
            return
    send(report(request, "complete"))


def report(request, status):
    return wire.ProfileReport(
        request.id,
        request.path,
        texts.digest(request.text),
        request.target.qualname,
        request.device,
        status,
        markdown="# a profile",
        data="{}",
        trace="[]",
    )


def send(message) -> None:
    with _lock:
        view = memoryview(encoding.encode(message))
        while view:
            view = view[os.write(1, view) :]


def note(**entry) -> None:
    path = os.environ.get("FXLS_FAKE_LOG")
    if path:
        with _lock, Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"time": time.time(), **entry}) + "\n")


if __name__ == "__main__":
    main()

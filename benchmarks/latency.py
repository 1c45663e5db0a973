"""How long a person waits: from an edit to its diagnostics, over real pipes, beside the bare work in one process.

For each file a server is started and the file edited again and again inside the `forward` of its main model, so that
each edit has to be traced. Between the edits, and so under the same load of the machine, a process that has imported
everything executes the same text, builds the same models on the meta device, and runs `torch.fx.symbolic_trace` over
them. Then comments are typed, a person asks for hovers while traces run, and types without pause. Servers are started
with an empty cache folder, beside processes that import torch alone and torch with the file, and again with what a
server has left there. Last, what the processes hold, what a folder costs on the
command line, and how many files are kept ready.

Printed are medians, percentiles and ratios of this run; they say little about another machine.

    python benchmarks/latency.py [--starts N] [--edits N] [--typing SECONDS] [--folder FILES] [FILE...]
"""

import argparse
import ast
import asyncio
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from _servers import TIMEOUT, Client, served, whole_report

ROOT = Path(__file__).resolve().parents[1]
CORPUS = (ROOT / ".corpus").resolve()
FILES = (
    ROOT / "examples" / "vit.py",
    CORPUS / "vit_pytorch" / "vit.py",
    CORPUS / "timm" / "models" / "vision_transformer.py",
    CORPUS / "transformers" / "models" / "clip" / "modeling_clip.py",
)
BARE = Path(__file__).with_name("bare_trace.py")
PAUSE = 0.05
"""Seconds between two edits, as between two keystrokes."""
WRITTEN = 5.0
"""Seconds after which a report has been written down for the next session."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--starts", type=int, default=5, help="servers that are started, and started again")
    parser.add_argument("--edits", type=int, default=30)
    parser.add_argument("--typing", type=float, default=60.0, help="seconds of typing without pause, for each file")
    parser.add_argument("--folder", type=int, default=300, help="files that are checked on the command line")
    parser.add_argument("--kept", type=int, default=12, help="files that are opened to see how many are kept ready")
    parser.add_argument("files", nargs="*", type=Path)
    options = parser.parse_args()
    for file in options.files or FILES:
        if file.exists():
            opened = Opened.of(file.resolve())
            print(f"{file.relative_to(ROOT) if file.is_relative_to(ROOT) else file}")
            asyncio.run(opened.measure_starts(options.starts))
            if options.edits:
                asyncio.run(measure(opened, options.edits, options.typing))
            print()
    if options.kept:
        asyncio.run(keep(options.kept))
    if options.folder:
        check(options.folder)


@dataclass(frozen=True)
class Opened:
    """A file that is opened in an editor: the workspace folder, the text, and what servers see of the environment."""

    file: Path
    folder: Path
    text: str
    environ: dict[str, str]

    @classmethod
    def of(cls, file: Path) -> "Opened":
        """Return a file in the folder of its library, or in its own."""
        is_of_library = file.is_relative_to(CORPUS)
        folder = CORPUS / file.relative_to(CORPUS).parts[0] if is_of_library else file.parent
        found = os.pathsep.join(filter(None, (str(CORPUS), os.environ.get("PYTHONPATH"))))
        return cls(file, folder, file.read_text("utf-8"), {"PYTHONPATH": found} if is_of_library else {})

    async def measure_starts(self, count: int) -> None:
        """Measure starts of servers, each beside bare processes that import what it has to import, and print them."""
        bare, whole, first, again = ([] for _ in range(4))
        for _ in range(count):
            bare.append(self.imported("torch"))
            whole.append(self.imported("file"))
            with tempfile.TemporaryDirectory(prefix="fxls-latency-", ignore_cleanup_errors=True) as cache:
                first.append(await self.started(cache, WRITTEN))
                again.append(await self.started(cache))
        if count:
            print(f"  a process that imports torch       {spread(bare)}")
            print(f"  a process that imports the file    {spread(whole)}")
            print(f"  start → first diagnostics          {spread(first)}")
            over = [1000 * (statistics.median(first) - statistics.median(each)) for each in (bare, whole)]
            print(f"    more than the import of torch    {over[0]:8.1f} ms, of the file {over[1]:.1f} ms")
            print(f"  restart → first diagnostics        {spread(again)}")

    def imported(self, what: str) -> float:
        """Return what a bare process takes that imports torch alone, or this file."""
        start = time.perf_counter()
        command = [sys.executable, "-c", "import torch"]
        if what == "file":
            command = [sys.executable, str(BARE), "--import", str(self.file)]
        subprocess.run(command, env={**os.environ, **self.environ}, check=True)
        return time.perf_counter() - start

    async def started(self, cache: str, stay: float = 0.0) -> float:
        """Return what a server takes from its start to the first diagnostics; it stays for a while after that."""
        start = time.perf_counter()
        async with served(self.folder, {**self.environ, "XDG_CACHE_HOME": cache}) as client:
            client.open(self.file.as_uri(), self.text)
            await client.diagnostics(self.file.as_uri(), 1, TIMEOUT)
            took = time.perf_counter() - start
            if stay:
                await whole_report(client, self.file.as_uri(), 1)
                await asyncio.sleep(stay)
            return took


async def measure(opened: Opened, edits: int, typing: float) -> None:
    """Measure what happens in one file that is open, and print it."""
    file, text, uri = opened.file, opened.text, opened.file.as_uri()
    environ = {**opened.environ, "XDG_CACHE_HOME": tempfile.mkdtemp(prefix="fxls-latency-")}
    async with served(opened.folder, environ) as client:
        client.open(uri, text)
        report = await whole_report(client, uri, 1)
        session = Session(client, uri, text, main_forward(text, report))
        built = [each["construct"] for each in report["targets"] if each["construct"] and each["nodes"]]
        async with Bare({"file": str(file), "text": text, "at": session.at, "built": built}, environ) as bare:
            await session.edits(3)
            bare.took.clear()
            traced, whole = await session.edits(edits, bare)
        commented = await session.comments(edits)
        idle, busy = await session.hovers(50, 100)
        print(f"  models built                       {len(built):8}")
        print(f"  edit → diagnostics                 {spread(traced)}")
        print(f"  edit → whole report                {spread(whole)}")
        stops = f"   torch.fx stops: {bare.stopped}" if bare.stopped else ""
        print(f"  bare exec + build + torch.fx       {spread(bare.took)}{stops}")
        if bare.took:
            ratios = [statistics.median(each) / statistics.median(bare.took) for each in (traced, whole)]
            print(f"  ratio of the medians               {ratios[0]:8.2f} diagnostics {ratios[1]:8.2f} whole report")
        print(f"  comment → diagnostics              {spread(commented)}")
        print(f"  hover                              {spread(idle)}")
        print(f"  hover while traces run             {spread(busy)} {quantile(busy, 0.99) * 1000:8.1f} ms p99")
        if typing:
            print(f"  typing for {typing:.0f} s: {await session.typing(typing)}")
        print(f"  memory: {memory(client.process.pid)}")
    shutil.rmtree(environ["XDG_CACHE_HOME"], ignore_errors=True)


class Session:
    """Edits of one open file."""

    def __init__(self, client: Client, uri: str, text: str, at: tuple[int, int]) -> None:
        self.client, self.uri, self.text, self.at = client, uri, text, at
        self.version = 1

    async def edits(self, count: int, bare: "Bare | None" = None) -> tuple[list[float], list[float]]:
        """Return what single edits took, until their diagnostics and until their whole reports."""
        traced: list[float] = []
        whole: list[float] = []
        for number in range(count):
            await asyncio.sleep(PAUSE)
            self.version += 1
            start = time.perf_counter()
            self.client.change(self.uri, self.version, edited(self.text, self.at, f"_edit = {1000 + number}"))
            await self.client.diagnostics(self.uri, self.version, TIMEOUT)
            traced.append(time.perf_counter() - start)
            await whole_report(self.client, self.uri, self.version)
            whole.append(time.perf_counter() - start)
            if bare is not None:
                await bare.once(f"_edit = {1000 + number}")
        return traced, whole

    async def comments(self, count: int) -> list[float]:
        """Return what insertions of comments took."""
        took: list[float] = []
        for _ in range(count):
            await asyncio.sleep(0.01)
            self.version += 1
            start = time.perf_counter()
            self.client.insert(self.uri, self.version, self.at[0] - 1, 0, "# a comment\n")
            await self.client.diagnostics(self.uri, self.version, TIMEOUT)
            took.append(time.perf_counter() - start)
        return took

    async def hovers(self, idle: int, busy: int) -> tuple[list[float], list[float]]:
        """Return what hovers over the first statement of `forward` took: at rest, and right after edits above it."""
        above = "_hover = 1"
        self.version += 1
        self.client.change(self.uri, self.version, edited(self.text, self.at, above))
        await whole_report(self.client, self.uri, self.version)
        at_rest = [await self.hover() for _ in range(idle)]
        while_tracing: list[float] = []
        for number in range(busy):
            self.version += 1
            end = self.at[1] + len(above) + number
            self.client.insert(self.uri, self.version, self.at[0] - 1, end, str(number % 10))
            await asyncio.sleep(0.005)
            while_tracing.append(await self.hover())
        await self.client.diagnostics(self.uri, self.version, TIMEOUT)
        return at_rest, while_tracing

    async def hover(self) -> float:
        """Return what one hover took over the statement below the one that is edited."""
        start = time.perf_counter()
        place = {"line": self.at[0], "character": self.at[1]}
        await self.client.request("textDocument/hover", {"textDocument": {"uri": self.uri}, "position": place})
        return time.perf_counter() - start

    async def typing(self, seconds: float) -> str:
        """Type a character every 50 ms; return what that was like."""
        self.version += 1
        self.client.change(self.uri, self.version, edited(self.text, self.at, "_typed = 1"))
        await self.client.diagnostics(self.uri, self.version, TIMEOUT)
        before, began, typed = shared_out(self.client.process.pid), time.perf_counter(), 0
        first, most, column = self.version, 0, self.at[1] + len("_typed = 1")
        start = began
        while time.perf_counter() - began < seconds:
            await asyncio.sleep(max(0.0, began + typed * PAUSE - time.perf_counter()))
            self.version += 1
            start = time.perf_counter()
            self.client.insert(self.uri, self.version, self.at[0] - 1, column + typed, str(typed % 10))
            typed += 1
            if typed % 20 == 0:
                most = max(most, len(below(self.client.process.pid)))
        await self.client.diagnostics(self.uri, self.version, TIMEOUT)
        answered = time.perf_counter() - start
        shown = len({each["version"] for each in self.published() if each["version"] > first})
        own = (await whole_report(self.client, self.uri, self.version))["milliseconds"]
        await asyncio.sleep(0.5)
        grown = shared_out(self.client.process.pid) - before
        return (
            f"{typed} characters, {shown} of them answered; the last after {answered * 1000:.0f} ms, "
            f"its trace {own:.0f} ms; at most {most} processes; the server grew by {grown:.1f} MiB"
        )

    def published(self) -> list[dict[str, Any]]:
        """Return the diagnostics of this file that came so far."""
        return [
            each for each in self.client.notifications["textDocument/publishDiagnostics"] if each["uri"] == self.uri
        ]


class Bare:
    """The bare work on one file, in a process of its own."""

    def __init__(self, job: dict[str, Any], environ: dict[str, str]) -> None:
        self.took: list[float] = []
        self.stopped = ""
        self._job, self._environ = job, environ

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, str(BARE), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, **self._environ}, limit=1 << 26,
        )  # fmt: skip
        if not await self._say(json.dumps(self._job)):
            assert self._process.stderr is not None
            self.stopped = (await self._process.stderr.read()).decode().strip().rpartition("\n")[2]
        return self

    async def __aexit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def once(self, statement: str) -> None:
        """Do the work on an edited text."""
        answer = await self._say(statement)
        if answer is not None:
            self.took.append(answer["took"])
            self.stopped = answer["stopped"]

    async def _say(self, line: str) -> dict[str, Any] | None:
        """Return the answer to a line, None if the process has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self._process.returncode is not None:
            return None
        self._process.stdin.write(line.encode() + b"\n")
        while answer := await self._process.stdout.readline():
            with contextlib.suppress(ValueError):  # The file may print, too.
                return json.loads(answer)
        return None


def main_forward(text: str, report: dict[str, Any]) -> tuple[int, int]:
    """Return the line and column of the first statement in the `forward` of the model with the most nodes."""
    main = max(report["targets"], key=lambda each: each["nodes"])["qualname"].split(".")[0]
    classes = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)}
    chosen = [classes[main]] if main in classes else list(classes.values())
    for each in (*chosen, *classes.values()):
        for method in each.body:
            if isinstance(method, ast.FunctionDef) and method.name == "forward":
                first = next(part for part in method.body if not is_docstring(part))
                return first.lineno, first.col_offset
    raise SystemExit("no forward in this file")


def is_docstring(part: ast.stmt) -> bool:
    return isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)


def edited(text: str, at: tuple[int, int], statement: str) -> str:
    lines = text.splitlines(keepends=True)
    line, column = at
    return "".join([*lines[: line - 1], " " * column + statement + "\n", *lines[line - 1 :]])


# What processes hold.


async def keep(count: int) -> None:
    """Open more files than are kept ready, and print how many are, and what each of them holds."""
    text = (ROOT / "examples" / "vit.py").read_text("utf-8")
    held: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        async with served(Path(folder), {}) as client:
            for number in range(count):
                uri = (Path(folder) / f"kept{number}.py").as_uri()
                client.open(uri, text)
                await whole_report(client, uri, 1)
                await asyncio.sleep(1.0)
                held.append(sum(map(shared_out, below(client.process.pid))))
            kept = len(document_templates(client.process.pid))
            each = (held[kept - 1] - held[0]) / max(1, kept - 1)
            print(
                f"{count} files opened: {kept} kept ready, each holds {each:.0f} MiB with its children; "
                f"all processes {held[-1]:.0f} MiB\n"
            )


def memory(server: int) -> str:
    """Return what a server and its worker hold, in MiB."""
    worker = sum(map(shared_out, below(server)))
    return f"server {shared_out(server):.0f} MiB, worker with a template for one file and its children {worker:.0f} MiB"


def document_templates(server: int) -> list[int]:
    return [pid for environment in children(server) for pid in children(environment)]


def children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()]
    return []


def below(pid: int) -> list[int]:
    found = children(pid)
    return [*found, *(each for child in found for each in below(child))]


def shared_out(pid: int) -> float:
    """Return the memory of a process in MiB; what several share is counted to each in parts."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
    return 0.0


# The command line.


def check(count: int) -> None:
    """Check folders of some sizes and print what that costs."""
    sources = [*sorted((ROOT / "examples").glob("*.py")), *sorted((CORPUS / "vit_pytorch").glob("*vit*.py"))]
    for part in (count // 4, count // 2, count):
        with tempfile.TemporaryDirectory() as folder:
            for number in range(part):
                source = sources[number % len(sources)]
                shutil.copy(source, Path(folder) / f"file{number}_{source.name}")
            before, start = os.times(), time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "fxls", "check", folder, "--python", sys.executable, "--format", "json"],
                env={**os.environ, "PYTHONPATH": str(CORPUS)}, cwd=ROOT, capture_output=True, check=False,
            )  # fmt: skip
            seconds, after = time.perf_counter() - start, os.times()
            used = after.children_user + after.children_system - before.children_user - before.children_system
            print(
                f"fxls check on {part:3} files: {seconds:6.1f} s, {1000 * seconds / part:6.1f} ms a file, "
                f"{used / seconds:.1f} of {os.cpu_count()} cores"
            )


# What is printed.


def quantile(seconds: list[float], part: float) -> float:
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def spread(seconds: list[float]) -> str:
    if not seconds:
        return "       - "
    return f"{statistics.median(seconds) * 1000:8.1f} ms median {quantile(seconds, 0.95) * 1000:8.1f} ms p95"


if __name__ == "__main__":
    main()

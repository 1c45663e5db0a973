"""How long a person waits: from an edit to its diagnostics, over real pipes, beside the bare work in one process.

For each file a server is started and the file edited again and again inside the `forward` of its main model, so that
each edit has to be traced. Beside it, in a process that has imported everything, the same text is executed, the same
models are built on the meta device, and `torch.fx.symbolic_trace` runs over them. Printed are medians, 95th
percentiles and ratios of this run; they say little about another machine.

    python benchmarks/latency.py [--edits N] [FILE...]
"""

import argparse
import ast
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT / ".corpus"
sys.path.insert(0, str(ROOT))

from tests.server.client import Client  # noqa: E402 — found by the path above.

FILES = (
    ROOT / "examples" / "vit.py",
    CORPUS / "vit_pytorch" / "vit.py",
    CORPUS / "timm" / "models" / "vision_transformer.py",
)
BARE = Path(__file__).with_name("bare_trace.py")
TIMEOUT = 180.0
PAUSE = 0.05
"""Seconds between two edits, as between two keystrokes."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edits", type=int, default=30)
    parser.add_argument("files", nargs="*", type=Path)
    options = parser.parse_args()
    print(f"import torch alone: {import_torch():.2f} s\n")
    for file in options.files or FILES:
        if file.exists():
            asyncio.run(measure(file.resolve(), file.read_text("utf-8"), options.edits))


async def measure(file: Path, text: str, edits: int) -> None:
    environ = {"PYTHONPATH": str(CORPUS)} if file.is_relative_to(CORPUS) else {}
    start = time.perf_counter()
    client = await Client.start(env=environ)
    try:
        folder = CORPUS if file.is_relative_to(CORPUS) else file.parent
        await client.initialize({"interpreter": [sys.executable], "trace": {"timeout": 120}}, folder)
        client.open(file.as_uri(), text)
        await client.diagnostics(file.as_uri(), 1, TIMEOUT)
        first = time.perf_counter() - start
        report = await client.request("fxls/report", {"uri": file.as_uri()})
        session = Session(client, file.as_uri(), text, main_forward(text, report))
        await session.warm()
        traced = await session.edits(edits)
        commented = await session.comments(edits)
        idle = await session.hovers(50)
        busy = await session.hovers_while_tracing(50)
        own = (await client.request("fxls/report", {"uri": file.as_uri()}))["milliseconds"]
    finally:
        await client.stop()
    built = [each["construct"] for each in report["targets"] if each["construct"] and each["nodes"]]
    job = {"file": str(file), "text": text, "at": session.at, "built": built, "edits": edits}
    beside = bare_process(job, environ)
    name = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
    print(f"{name} · {len(built)} models built")
    print(f"  start → first diagnostics          {first * 1000:8.0f} ms")
    print(f"  edit → diagnostics                 {spread(traced)}   (the last trace itself {own:.1f} ms)")
    show_bare(traced, beside)
    print(f"  comment → diagnostics              {spread(commented)}")
    print(f"  hover                              {spread(idle)}")
    print(f"  hover while traces run             {spread(busy)}\n")


class Session:
    """Edits of one open file."""

    def __init__(self, client: Client, uri: str, text: str, at: tuple[int, int]) -> None:
        self.client, self.uri, self.text, self.at = client, uri, text, at
        self.version = 1

    async def warm(self) -> None:
        """Let the worker's templates settle."""
        for _ in range(3):
            await self.edit(self.version)

    async def edit(self, number: int) -> float:
        """Edit the model; return the seconds until its diagnostics."""
        await asyncio.sleep(PAUSE)
        self.version += 1
        start = time.perf_counter()
        self.client.change(self.uri, self.version, edited(self.text, self.at, f"_edit = {number}"))
        await self.client.diagnostics(self.uri, self.version, TIMEOUT)
        return time.perf_counter() - start

    async def edits(self, count: int) -> list[float]:
        """Return what single edits took."""
        return [await self.edit(1000 + number) for number in range(count)]

    async def comments(self, count: int) -> list[float]:
        """Return what insertions of comments took."""
        took = []
        for _ in range(count):
            self.version += 1
            start = time.perf_counter()
            self.client.insert(self.uri, self.version, self.at[0] - 1, 0, "# a comment\n")
            await self.client.diagnostics(self.uri, self.version, TIMEOUT)
            took.append(time.perf_counter() - start)
        return took

    async def hover(self) -> float:
        """Return what one hover took."""
        start = time.perf_counter()
        place = {"line": self.at[0] - 1, "character": self.at[1] + 1}
        await self.client.request("textDocument/hover", {"textDocument": {"uri": self.uri}, "position": place})
        return time.perf_counter() - start

    async def hovers(self, count: int) -> list[float]:
        """Return what hovers took while nothing else went on."""
        return [await self.hover() for _ in range(count)]

    async def hovers_while_tracing(self, count: int) -> list[float]:
        """Return what hovers took right after edits."""
        took = []
        for number in range(count):
            self.version += 1
            text = edited(self.text, self.at, f"_edit = {5000 + number}")
            self.client.change(self.uri, self.version, text)
            await asyncio.sleep(0.005)
            took.append(await self.hover())
        await self.client.diagnostics(self.uri, self.version, TIMEOUT)
        return took


def main_forward(text: str, report: dict[str, Any]) -> tuple[int, int]:
    """Return the line and column of the first statement in the `forward` of the model with the most nodes."""
    main = max(report["targets"], key=lambda each: each["nodes"])["qualname"].split(".")[0]
    classes = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)}
    chosen = [classes[main]] if main in classes else list(classes.values())
    for each in (*chosen, *classes.values()):
        for method in each.body:
            if isinstance(method, ast.FunctionDef) and method.name == "forward":
                first = method.body[0]
                return first.lineno, first.col_offset
    raise SystemExit("no forward in this file")


def edited(text: str, at: tuple[int, int], statement: str) -> str:
    lines = text.splitlines(keepends=True)
    line, column = at
    return "".join([*lines[: line - 1], " " * column + statement + "\n", *lines[line - 1 :]])


# The bare work, in a process of its own.


def bare_process(job: dict[str, Any], environ: dict[str, str]) -> dict[str, Any]:
    run = subprocess.run(
        [sys.executable, str(BARE)],
        env={**os.environ, **environ},
        input=json.dumps(job),
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        return {"problem": run.stderr.strip().splitlines()[-1]}
    return json.loads(run.stdout.splitlines()[-1])


def import_torch() -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return time.perf_counter() - start


# What is printed.


def show_bare(traced: list[float], beside: dict[str, Any]) -> None:
    if "problem" in beside:
        print(f"  bare exec + build + torch.fx       {beside['problem']}")
        return
    ratio = statistics.median(traced) / statistics.median(beside["took"])
    stops = f"   torch.fx stops: {beside['stopped']}" if beside["stopped"] else ""
    print(f"  bare exec + build + torch.fx       {spread(beside['took'])}{stops}")
    print(f"  ratio of the medians               {ratio:8.2f}")


def spread(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    high = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return f"{statistics.median(ordered) * 1000:8.1f} ms median {high * 1000:8.1f} ms p95"


if __name__ == "__main__":
    main()

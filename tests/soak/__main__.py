"""A person works for hours in one minute: random edits and requests over many files, while workers are killed.

The real server runs over real pipes with the real worker. What must hold: every request is answered, every diagnostic
belongs to the text of the version that it names, memory stays flat, and nothing is left when the server ends. The
program prints what it saw and ends with 1 if any of it does not hold.

    python -m tests.soak [--steps N] [--files N] [--seed N] [--minutes N]
"""

import argparse
import asyncio
import random
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.server.client import Client, ReplyError
from tests.soak import processes
from tests.soak.world import File, between, make, position

QUOTED = re.compile(r"`([^`]+)`")
ANSWER = 60.0
"""Seconds within which every request must be answered, kills and hanging files included."""
IN_FLIGHT = 40
"""How many requests wait at most, as an editor has them at most."""
CANCELLED = -32800
"""What a request that was taken back may end with."""


class Soak:
    """One conversation, and what was wrong in it."""

    def __init__(self, client: Client, files: list[File], mark: str, seed: int) -> None:
        self.client = client
        self.files = files
        self.mark = mark
        self.chance = random.Random(seed)
        self.faults: list[str] = []
        self.did: Counter[str] = Counter()
        self.memory: list[int] = []
        self._waiting: dict[int, tuple[str, float]] = {}
        self._checked = 0

    async def run(self, steps: int, deadline: float) -> int:
        """Take steps until they are done or time is up; return how many."""
        for step in range(steps):
            if time.monotonic() > deadline:
                return step
            await self.step()
            if step % 200 == 0:
                self.memory.append(processes.resident(self.client.process.pid))
        return steps

    async def step(self) -> None:
        """Do one thing that people, editors or the system do."""
        file = self.chance.choice(self.files)
        kind = self.chance.choices(
            ("edit", "ask", "cancel", "close", "save", "kill", "rest", "look"), (50, 30, 3, 3, 4, 1, 3, 6)
        )[0]
        self.did[kind] += 1
        if not file.is_open:
            file.open()
            self.client.open(file.uri, file.text, file.version)
        await getattr(self, f"_{kind}")(file)
        await self._collect()
        self._check_published()

    async def settle(self) -> None:
        """Wait until everything asked is answered and every open file has the diagnostics of its last text."""
        while self._waiting:
            await asyncio.sleep(0.05)
            await self._collect()
        for file in self.files:
            if file.is_open:
                try:
                    await self.client.diagnostics(file.uri, file.version, 2 * ANSWER)
                except TimeoutError:
                    self.faults.append(f"{file.path.name}: no diagnostics of version {file.version}, the last")
        self._check_published()

    async def _edit(self, file: File) -> None:
        for _ in range(self.chance.choice((1, 1, 1, 2, 5))):
            document = {"uri": file.uri, "version": file.version + 1}
            self.client.notify(
                "textDocument/didChange", {"textDocument": document, "contentChanges": file.edit(self.chance)}
            )

    async def _ask(self, file: File) -> None:
        document = {"uri": file.uri}
        place = position(file.text, self.chance.randint(0, len(file.text)))
        end = position(file.text, len(file.text))
        whole = {"start": {"line": 0, "character": 0}, "end": end}
        command = {"uri": file.uri, "line": place["line"]}
        asked: tuple[str, Any] = self.chance.choice((
            ("textDocument/hover", {"textDocument": document, "position": place}),
            ("textDocument/hover", {"textDocument": document, "position": {"line": 10**6, "character": 7}}),
            ("textDocument/codeLens", {"textDocument": document}),
            ("textDocument/inlayHint", {"textDocument": document, "range": whole}),
            ("textDocument/codeAction", {"textDocument": document, "range": whole, "context": {"diagnostics": []}}),
            ("workspace/executeCommand", {"command": "fxls.showCode", "arguments": [command]}),
            ("workspace/executeCommand", {"command": "fxls.showGraph", "arguments": [command]}),
            ("fxls/report", document),
            ("fxls/environment", document),
        ))  # fmt: skip
        if len(self._waiting) < IN_FLIGHT:
            self._waiting[self.client.ask(*asked)] = (asked[0], time.monotonic())

    async def _cancel(self, file: File) -> None:
        await self._ask(file)
        if self._waiting:
            self.client.notify("$/cancelRequest", {"id": self.chance.choice(list(self._waiting))})

    async def _close(self, file: File) -> None:
        file.is_open = False
        self.client.notify("textDocument/didClose", {"textDocument": {"uri": file.uri}})

    async def _save(self, file: File) -> None:
        # Files that cannot be imported would only hide the others' problems.
        text = file.text if self.chance.random() < 0.3 else file.first
        file.path.write_text(text, "utf-8")
        self.client.notify("textDocument/didSave", {"textDocument": {"uri": file.uri}})

    async def _kill(self, _: File) -> None:
        below = [each for each in processes.marked(self.mark) if each.pid != self.client.process.pid]
        if below:
            processes.kill(self.chance.choice(below))

    async def _rest(self, _: File) -> None:
        await asyncio.sleep(self.chance.choice((0.01, 0.05, 0.2)))

    async def _look(self, file: File) -> None:
        """Wait for what the person waits for: the answer about the text as it is."""
        try:
            await self.client.diagnostics(file.uri, file.version, ANSWER)
        except TimeoutError:
            self.faults.append(f"{file.path.name}: no diagnostics of version {file.version} within {ANSWER:.0f} s")

    async def _collect(self) -> None:
        """Take the answers that came, and note requests that have waited too long."""
        await asyncio.sleep(0)
        for number, (method, since) in list(self._waiting.items()):
            future = self.client._replies[number]
            if future.done():
                del self._waiting[number], self.client._replies[number]
                error = future.exception()
                if isinstance(error, ReplyError) and not _expected(error):
                    self.faults.append(f"{method} was answered with an error: {error}")
            elif time.monotonic() - since > ANSWER:
                del self._waiting[number]
                self.faults.append(f"{method} was not answered within {ANSWER:.0f} s")

    def _check_published(self) -> None:
        """Hold every diagnostic that came against the text of the version that it names."""
        published = self.client.notifications["textDocument/publishDiagnostics"]
        by_uri = {file.uri: file for file in self.files}
        for each in published[self._checked :]:
            file, version = by_uri.get(each["uri"]), each.get("version")
            if file is None or version is None:
                continue
            text = file.texts.get(version)
            if text is None:
                self.faults.append(f"{file.path.name}: diagnostics of version {version}, which was never sent")
                continue
            for diagnostic in each["diagnostics"]:
                self._check(file, version, text, diagnostic)
        self._checked = len(published)

    def _check(self, file: File, version: int, text: str, diagnostic: dict[str, Any]) -> None:
        self.did["diagnostics"] += 1
        shown = between(text, diagnostic["range"])
        if shown is None:
            self.faults.append(f"{file.path.name} version {version}: {diagnostic['range']} is not in its text")
        elif diagnostic["code"] == "FX001" and not _from_elsewhere(diagnostic, file.uri):
            quoted = QUOTED.search(diagnostic["message"])
            first = " ".join(shown.split())
            # Of a call it may be what is called that is spoken of: a class that was meant to be a part.
            if quoted and "…" not in quoted[1] and quoted[1] != first and not first.startswith(f"{quoted[1]}("):
                self.faults.append(f"{file.path.name} version {version}: says `{quoted[1]}`, shown at `{first}`")


def _from_elsewhere(diagnostic: dict[str, Any], uri: str) -> bool:
    """Whether a diagnostic stands at the call of what is wrong in another file."""
    related = diagnostic.get("relatedInformation") or ()
    return any(each["location"]["uri"] != uri for each in related)


def _expected(error: ReplyError) -> bool:
    """Whether a request may end like that: taken back, or asked about a model that is not there."""
    return error.code in {CANCELLED, -32602, -32803}


async def soak(steps: int, files: int, seed: int, minutes: float) -> list[str]:
    """Run and print; return the faults."""
    mark = f"{time.time_ns()}"
    with tempfile.TemporaryDirectory() as folder:
        made = make(Path(folder), files)
        client = await Client.start(env={processes.MARK: mark})
        try:
            options = {"interpreter": [sys.executable], "trace": {"timeout": 3}}
            await client.initialize(options, folder)
            run = Soak(client, made, mark, seed)
            start = time.monotonic()
            taken = await run.run(steps, start + 60 * minutes)
            await run.settle()
            spent = time.monotonic() - start
            workers = [each for each in processes.marked(mark) if each.pid != client.process.pid]
            run.memory.append(processes.resident(client.process.pid))
            code = await client.finish()
            if code != 0:
                run.faults.append(f"the server ended with {code}")
            if b"Traceback" in client.stderr:
                run.faults.append(f"the server wrote a traceback:\n{client.stderr.decode()}")
        finally:
            await client.stop()
        left = await _left(mark)
    run.faults += [f"process {each.pid} outlived the server" for each in left]
    run.faults += _growth(run.memory)
    print(
        f"{taken} steps in {spent:.0f} s over {files} files, seed {seed}: "
        + ", ".join(f"{n} {k}" for k, n in run.did.items())
    )
    print(f"server {run.memory[0] >> 20} → {run.memory[-1] >> 20} MiB; {len(workers)} workers with "
          f"{sum(each.private for each in workers) >> 20} MiB of their own; {len(left)} orphans")  # fmt: skip
    return run.faults


async def _left(mark: str) -> list[processes.Process]:
    """Return the processes that are there seconds after the server's end."""
    for _ in range(50):
        if not processes.marked(mark):
            break
        await asyncio.sleep(0.1)
    left = processes.marked(mark)
    for each in left:
        processes.kill(each)
    return left


def _growth(memory: list[int]) -> list[str]:
    """Return a fault if the server's memory grows: the last quarter against the second, when caches are full."""
    if len(memory) < 8:
        return []
    quarter = len(memory) // 4
    early, late = max(memory[quarter : 2 * quarter]), max(memory[-quarter:])
    return [f"memory grew from {early >> 20} to {late >> 20} MiB"] if late > 1.15 * early else []


def main() -> None:
    """Read the command line, run, and end with 1 if anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=30)
    options = parser.parse_args()
    faults = asyncio.run(soak(options.steps, options.files, options.seed, options.minutes))
    for fault, count in Counter(faults).most_common(30):
        print(f"FAULT ({count} times): {fault}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()

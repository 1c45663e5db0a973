"""A small client of the language server over real pipes, for tests: it sends what it is told, whatever that is."""

import asyncio
import contextlib
import json
import os
import sys
from collections import defaultdict
from pathlib import Path

from fxls.transport import Frames

FAKE_WORKER = str(Path(__file__).with_name("fake_worker.py"))
FAKE = [sys.executable, FAKE_WORKER]


class ReplyError(Exception):
    def __init__(self, error):
        super().__init__(error["message"])
        self.code = error["code"]


class Client:
    """One server process and the conversation with it."""

    def __init__(self, process):
        self.process = process
        self.notifications = defaultdict(list)
        self.errors = []
        self.asked = []
        self.settings = None
        self.stderr = b""
        self._replies = {}
        self._next = 0
        self._changed = asyncio.Condition()
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._read_errors())]

    @classmethod
    async def start(cls, *arguments, env=None, cwd=None):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "fxls", *arguments,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **(env or {})}, cwd=cwd,
        )  # fmt: skip
        return cls(process)

    async def initialize(self, options=None, folder=None, capabilities=None):
        params = {
            "processId": os.getpid(),
            "rootUri": None,
            "workspaceFolders": [{"uri": Path(folder).as_uri(), "name": "ws"}] if folder else None,
            "capabilities": capabilities or {"general": {"positionEncodings": ["utf-16"]}},
            "initializationOptions": {"interpreter": FAKE, **(options or {})},
        }
        result = await self.request("initialize", params)
        self.notify("initialized", {})
        return result

    def raw(self, data):
        self.process.stdin.write(data)

    def send(self, message):
        body = json.dumps(message).encode()
        self.raw(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def notify(self, method, params=None):
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method, params=None):
        self._next += 1
        self._replies[self._next] = asyncio.get_running_loop().create_future()
        self.send({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params})
        return self._next

    async def reply(self, number, timeout=30):
        return await asyncio.wait_for(self._replies[number], timeout)

    async def request(self, method, params=None, timeout=30):
        return await self.reply(self.ask(method, params), timeout)

    async def until(self, condition, timeout=30):
        """Return what `condition` returns once that is true; it is asked after each message."""
        async with asyncio.timeout(timeout):
            async with self._changed:
                while not (result := condition()):
                    await self._changed.wait()
                return result

    # Documents.

    def open(self, uri, text, version=1):
        document = {"uri": uri, "languageId": "python", "version": version, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": document})

    def change(self, uri, version, text):
        document = {"uri": uri, "version": version}
        self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": [{"text": text}]})

    def insert(self, uri, version, line, character, text):
        place = {"line": line, "character": character}
        change = {"range": {"start": place, "end": place}, "text": text}
        self.notify("textDocument/didChange",
                    {"textDocument": {"uri": uri, "version": version}, "contentChanges": [change]})  # fmt: skip

    def published(self, uri, version=None):
        found = [each for each in self.notifications["textDocument/publishDiagnostics"] if each["uri"] == uri]
        return [each for each in found if version is None or each.get("version") == version]

    async def diagnostics(self, uri, version, timeout=60):
        """Return the diagnostics that were published last for a version of a document."""
        await self.until(lambda: self.published(uri, version), timeout)
        return self.published(uri, version)[-1]["diagnostics"]

    async def command(self, name, timeout=60, **arguments):
        return await self.request("workspace/executeCommand", {"command": name, "arguments": [arguments]}, timeout)

    # The end.

    async def finish(self, timeout=20):
        """Shut the server down as editors do; return its exit code."""
        await self.request("shutdown", timeout=timeout)
        self.notify("exit")
        return await asyncio.wait_for(self.process.wait(), timeout)

    async def stop(self):
        """End what is left."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()
        for task in self._tasks:
            task.cancel()

    async def _read(self):
        frames = Frames()
        while data := await self.process.stdout.read(1 << 16):
            for message in frames.feed(data):
                assert isinstance(message, dict), message
                await self._take(message)

    async def _read_errors(self):
        while data := await self.process.stderr.read(1 << 16):
            self.stderr += data

    async def _take(self, message):
        if "method" in message and "id" in message:
            self.asked.append(message)
            result = None
            if message["method"] == "workspace/configuration":
                result = [self.settings for _ in message["params"]["items"]]
            self.send({"jsonrpc": "2.0", "id": message["id"], "result": result})
        elif "method" in message:
            self.notifications[message["method"]].append(message["params"])
        elif message["id"] is None:
            self.errors.append(message["error"])
        elif "error" in message:
            self._replies[message["id"]].set_exception(ReplyError(message["error"]))
        else:
            self._replies[message["id"]].set_result(message["result"])
        async with self._changed:
            self._changed.notify_all()

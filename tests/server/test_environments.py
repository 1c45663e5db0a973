"""Several workspace folders, each with a Python of its own: each file is traced with the one of its folder."""

import asyncio
import json
import os
import shlex
import signal

import pytest

from tests.server.client import FAKE, Client

NET = "import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x + 1\n"


class Folder:
    """A workspace folder with an environment whose interpreter says which it is."""

    def __init__(self, path):
        self.path = path
        self.file = path / "net.py"
        self.uri = self.file.as_uri()
        self.python = path / ".venv" / "bin" / "python"
        self.python.parent.mkdir(parents=True)
        self.python.write_text(f'#!/bin/sh\nexec {shlex.join(FAKE)} "$@" --of {path.name}\n')
        self.python.chmod(0o755)
        self.file.write_text(NET)


@pytest.fixture
def folders(tmp_path):
    return [Folder(tmp_path / name) for name in ("one", "two")]


@pytest.fixture
async def client(tmp_path):
    log = tmp_path / "log"
    client = await Client.start(env={"FXLS_FAKE_LOG": str(log), "VIRTUAL_ENV": "", "CONDA_PREFIX": ""})
    client.log = lambda: [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    yield client
    await client.stop()


async def initialized(client, folders):
    params = {
        "processId": os.getpid(),
        "capabilities": {},
        "workspaceFolders": [{"uri": each.path.as_uri(), "name": each.path.name} for each in folders],
    }
    await client.request("initialize", params)
    client.notify("initialized", {})


def started(client):
    """Return the processes that were started, by the folder whose interpreter they are, oldest first."""
    return [(each["arguments"][-1], each["pid"]) for each in client.log() if each["event"] == "start"]


async def test_each_folder_has_its_own_interpreter_and_all_its_files_share_it(client, folders):
    await initialized(client, folders)
    for folder in folders:
        client.open(folder.uri, NET)
        assert await client.diagnostics(folder.uri, 1) == []
        other = folder.path / "package" / "other.py"
        client.open(other.as_uri(), NET)
        await client.diagnostics(other.as_uri(), 1)
        environment = await client.request("fxls/environment", {"uri": other.as_uri()})
        assert environment["command"] == [str(folder.python)]
        assert environment["found"] == ".venv of the workspace folder"
    assert [name for name, _ in started(client)] == ["one", "two"]


async def test_the_end_of_one_interpreter_is_none_of_the_others(client, folders):
    await initialized(client, folders)
    for folder in folders:
        client.open(folder.uri, NET)
        await client.diagnostics(folder.uri, 1)
    one, two = (pid for _, pid in started(client))
    os.kill(one, signal.SIGKILL)
    client.change(folders[1].uri, 2, NET + "x = 1\n")
    assert await client.diagnostics(folders[1].uri, 2) == []
    client.change(folders[0].uri, 2, NET + "x = 1\n")  # It may have been sent to the one that was just killed.
    assert {each["code"] for each in await client.diagnostics(folders[0].uri, 2)} <= {"FX105"}
    client.change(folders[0].uri, 3, NET + "x = 2\n")
    assert await client.diagnostics(folders[0].uri, 3) == []
    assert [name for name, _ in started(client)] == ["one", "two", "one"]
    os.kill(two, 0)


async def test_a_folder_that_is_added_is_served_by_its_own_and_its_end_with_it(client, folders):
    first, second = folders
    await initialized(client, [first])
    client.open(first.uri, NET)
    await client.diagnostics(first.uri, 1)
    second_folder = {"uri": second.path.as_uri(), "name": "two"}
    client.notify("workspace/didChangeWorkspaceFolders", {"event": {"added": [second_folder], "removed": []}})
    client.open(second.uri, NET)
    await client.diagnostics(second.uri, 1)
    assert [name for name, _ in started(client)] == ["one", "two"]
    client.notify("textDocument/didClose", {"textDocument": {"uri": second.uri}})
    client.notify("workspace/didChangeWorkspaceFolders", {"event": {"added": [], "removed": [second_folder]}})
    for _ in range(200):
        if any(each["event"] == "end" for each in client.log()):
            break
        await asyncio.sleep(0.05)
    assert [each["pid"] for each in client.log() if each["event"] == "end"] == [started(client)[1][1]]

"""The Python that the client's first message leads to is started while the server itself is loaded."""

import asyncio
import json
import os

import pytest

from fxls.opening import begin
from tests.server.client import FAKE, Client

NET = "import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x + 1\n"


def initialize(folder, **options):
    folders = [{"uri": folder.as_uri(), "name": "ws"}] if folder else None
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "processId": os.getpid(),
            "capabilities": {},
            "workspaceFolders": folders,
            "initializationOptions": {"interpreter": FAKE, **options},
        },
    }


class Worker:
    def __init__(self, env):
        self.env = env
        self.is_started = False

    async def start(self):
        self.is_started = True


class Pool:
    def __init__(self):
        self.workers = []

    def client(self, env):
        self.workers.append(Worker(env))
        return self.workers[-1]


@pytest.fixture
def pool():
    return Pool()


@pytest.fixture
async def client(tmp_path):
    log = tmp_path / "log"
    client = await Client.start(env={"FXLS_FAKE_LOG": str(log)})
    client.started = lambda: [
        each["pid"] for each in map(json.loads, log.read_text().splitlines() if log.exists() else ())
        if each["event"] == "start"
    ]  # fmt: skip
    yield client
    await client.stop()


async def test_the_python_of_the_first_folder_is_started(pool, tmp_path):
    await begin(initialize(tmp_path), pool)
    (worker,) = pool.workers
    assert worker.is_started
    assert worker.env.command == tuple(FAKE)


@pytest.mark.parametrize("trusted", [False, None, "yes", 1])
async def test_nothing_is_started_where_nothing_may_run(pool, tmp_path, trusted):
    await begin(initialize(tmp_path, trusted=trusted), pool)
    assert not pool.workers


@pytest.mark.parametrize("folders", [None, [], [None], "x", [{}], [{"uri": 3}], [{"uri": "untitled:x"}], [{"uri": "file://[x"}],
                                     [{"uri": "file:///a%00b"}]])  # fmt: skip
async def test_what_is_no_folder_starts_nothing(pool, folders):
    message = initialize(None)
    message["params"]["workspaceFolders"] = folders
    await begin(message, pool)
    assert not pool.workers


@pytest.mark.parametrize("message", [None, {"method": "shutdown"}, {"method": "initialize"},
                                     {"method": "initialize", "params": [1]}])  # fmt: skip
async def test_what_is_no_initialize_starts_nothing(pool, message):
    await begin(message, pool)
    assert not pool.workers


async def test_what_was_started_ahead_answers_the_first_request(client, tmp_path):
    client.settings = {"interpreter": FAKE}
    capabilities = {"workspace": {"configuration": True}}
    await client.initialize(folder=tmp_path, capabilities=capabilities)
    started = client.started()
    file = tmp_path / "net.py"
    client.open(file.as_uri(), NET)
    await client.diagnostics(file.as_uri(), 1)
    assert client.started()[: len(started)] == started
    assert len(client.started()) == 1


async def test_a_first_message_that_comes_byte_by_byte_is_heard(client, tmp_path):
    body = json.dumps(initialize(tmp_path)).encode()
    for byte in b"Content-Length: %d\r\n\r\n" % len(body) + body[:40]:
        client.raw(bytes([byte]))
        await asyncio.sleep(0.0005)
    client._replies[1] = asyncio.get_running_loop().create_future()
    client.raw(body[40:])
    assert "capabilities" in await client.reply(1)

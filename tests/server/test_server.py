"""The server's own bookkeeping, without processes: what it keeps of messages, and when it ends."""

import asyncio

from fxls.server import FxServer
from tests.server.test_fuzz import INITIALIZE, frame

INITIALIZED = {"jsonrpc": "2.0", "method": "initialized", "params": {}}
SHUTDOWN = {"jsonrpc": "2.0", "id": 2, "method": "shutdown"}
EXIT = {"jsonrpc": "2.0", "method": "exit"}


async def test_an_exit_that_comes_when_the_shutdown_is_just_done_is_heard():
    server = FxServer(lambda data: None, run=False)
    end = server.end

    async def ends_and_hears_exit():
        await end()
        asyncio.get_running_loop().call_soon(server.receive, frame(EXIT))

    server.end = ends_and_hears_exit
    server.receive(frame(INITIALIZE) + frame(SHUTDOWN))

    async with asyncio.timeout(4):
        assert await server.exited == 0


async def test_nothing_is_kept_of_messages_that_were_handled():
    server = FxServer(lambda data: None, run=False)
    server.receive(frame(INITIALIZE) + frame(INITIALIZED))
    place = {"textDocument": {"uri": "file:///net.py"}, "position": {"line": 0, "character": 0}}
    messages = (
        {"jsonrpc": "2.0", "method": "fxls/active", "params": {"uri": "file:///net.py"}},
        {"jsonrpc": "2.0", "id": 3, "method": "textDocument/hover", "params": place},
    )
    for message in messages * 20:
        server.receive(frame(message))
    await asyncio.sleep(0.1)

    assert server.protocol._request_futures == {}
    await server.end()

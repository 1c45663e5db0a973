"""The server as its input does its worst: it answers with an error or ends cleanly, and never with a traceback."""

import asyncio
import json
import time

from hypothesis import given, settings
from hypothesis import strategies as st
from lsprotocol import types as lsp

from fxls.text.mapper import Mapper
from fxls.transport import Frames
from tests.server.client import FAKE, Client
from tests.soak import processes

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"processId": None, "rootUri": None, "capabilities": {}, "initializationOptions": {"interpreter": FAKE}},
}
NET = "import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
METHODS = (
    "initialize", "initialized", "shutdown", "exit", "$/cancelRequest", "$/setTrace", "no/such/method",
    "textDocument/didOpen", "textDocument/didChange", "textDocument/didClose", "textDocument/didSave",
    "textDocument/hover", "textDocument/codeAction", "textDocument/codeLens", "textDocument/inlayHint",
    "codeAction/resolve", "workspace/didChangeConfiguration", "workspace/didChangeWatchedFiles",
    "workspace/didChangeWorkspaceFolders", "workspace/executeCommand", "window/workDoneProgress/cancel", "fxls/report",
    "fxls/environment", "fxls/active", "fxls/trusted",
)  # fmt: skip


def frame(message) -> bytes:
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


def conversation(uri: str) -> bytes:
    """Return what an editor sends: it opens a file, edits it, asks, and leaves."""
    document = {"uri": uri, "languageId": "python", "version": 1, "text": NET}
    change = {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": NET + "# é😀\n"}]}
    place = {"textDocument": {"uri": uri}, "position": {"line": 3, "character": 7}}
    messages = [
        INITIALIZE,
        {"jsonrpc": "2.0", "method": "initialized", "params": {}},
        {"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"textDocument": document}},
        {"jsonrpc": "2.0", "method": "textDocument/didChange", "params": change},
        {"jsonrpc": "2.0", "id": 2, "method": "textDocument/hover", "params": place},
        {"jsonrpc": "2.0", "id": 3, "method": "shutdown"},
        {"jsonrpc": "2.0", "method": "exit"},
    ]
    return b"".join(map(frame, messages))


async def fed(data: bytes) -> tuple[int, bytes, bytes]:
    """Let a server read some bytes and the end of its input; return its exit code, what it said, what it printed."""
    mark = f"{time.time_ns()}"
    client = await Client.start(env={processes.MARK: mark})
    for task in client._tasks:
        task.cancel()
    process = client.process
    out, err = await asyncio.wait_for(process.communicate(data), 60)
    for _ in range(50):
        if not processes.marked(mark):
            break
        await asyncio.sleep(0.1)
    assert processes.marked(mark) == []
    assert b"Traceback" not in err
    return process.returncode, out, err


# The whole server.


async def test_the_pipe_may_be_closed_at_any_byte(tmp_path):
    """Nowhere, inside a header, between header and body, inside a body, between two messages, before the last byte."""
    data = conversation((tmp_path / "net.py").as_uri())
    ends = [index for index in range(len(data)) if data.startswith(b"Content-Length", index)]
    chosen = sorted(
        {0, 9, 21, 60, *(end + near for end, near in zip(ends[1:], (0, 3, 19, 40, -1, 25), strict=True)), len(data) - 1}
    )
    gate = asyncio.Semaphore(2)

    async def cut(place: int) -> None:
        async with gate:
            code, _, _ = await fed(data[:place])
            # 0 only where `shutdown` was asked before; LSP has 1 for an end without.
            assert code in {0, 1}, place

    await asyncio.gather(*(cut(place) for place in chosen))
    assert (await fed(data))[0] == 0


HOSTILE = {
    "a negative length": b"Content-Length: -5\r\n\r\n{}",
    "no length": b"Content-Type: x\r\n\r\n{}",
    "a length that is no number": b"Content-Length: many\r\n\r\n{}",
    "two lengths": b"Content-Length: 2\r\nContent-Length: 4\r\n\r\n{}",
    "an endless header": b"X" * 200_000,
    "no UTF-8": frame(b"\xff\xfe\x00{}"),
    "half a surrogate": frame(b'{"jsonrpc": "2.0", "id": 9, "method": "\\ud800"}'),
    "deep": frame(b"[" * 100_000),
    "a number beyond all": frame(b'{"jsonrpc": "2.0", "id": 1' + b"0" * 5000 + b', "method": "x"}'),
    "not a number": frame(b'{"jsonrpc": "2.0", "id": NaN, "method": "x"}'),
    "a batch": frame([INITIALIZE]),
    "another version": frame({"jsonrpc": "1.0", "id": 4, "method": "initialize", "params": {}}),
    "a reply to nothing": frame({"jsonrpc": "2.0", "id": 77, "result": None}),
    "a request before initialize": frame({"jsonrpc": "2.0", "id": 5, "method": "textDocument/hover", "params": {}}),
    "a cancelled list": frame({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": []}}),
    "params of a wrong type": frame({"jsonrpc": "2.0", "id": 6, "method": "initialize", "params": "all"}),
    "zero bytes": b"\0" * 5000,
    "another protocol": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


async def test_what_is_no_message_ends_nothing():
    # Bytes whose length nobody knows last to the end of the next header.
    data = b"".join(each + b"\r\n\r\n" for each in HOSTILE.values())
    data += b"".join(map(frame, [
        {**INITIALIZE, "id": 100},
        {"jsonrpc": "2.0", "id": 101, "method": "no/such/method", "params": {}},
        {"jsonrpc": "2.0", "id": 102, "method": "shutdown"},
        {"jsonrpc": "2.0", "id": 103, "method": "textDocument/hover", "params": {}},
        {"jsonrpc": "2.0", "method": "exit"},
    ]))  # fmt: skip
    code, out, errors = await fed(data)
    assert b"in callback" not in errors
    said = [message for message in Frames().feed(out) if isinstance(message, dict)]
    replies = {message["id"]: message for message in said if "method" not in message and message["id"] is not None}
    assert code == 0
    assert "result" in replies[100]
    assert replies[101]["error"]["code"] == -32601
    assert replies[103]["error"]["code"] == -32600
    assert sum(message.get("id", 0) is None for message in said) >= 10


async def test_a_length_beyond_all_swallows_what_follows():
    assert (await fed(b"Content-Length: 99999999999999999999\r\n\r\n" + frame(INITIALIZE)))[0] == 1


async def test_a_document_of_100_megabytes(tmp_path):
    client = await Client.start()
    await client.initialize()
    uri = (tmp_path / "net.py").as_uri()
    client.open(uri, NET + "# x\n" * (25 << 20))
    await client.diagnostics(uri, 1, 120)
    client.insert(uri, 2, 0, 0, "\n")
    assert await client.request("textDocument/hover", {
        "textDocument": {"uri": uri}, "position": {"line": 2, "character": 0}}, 120) is None  # fmt: skip
    assert await client.finish(60) == 0
    assert b"Traceback" not in client.stderr


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
POSITION = st.fixed_dictionaries({"line": st.integers(-5, 10**9), "character": st.integers(-5, 10**9)})
URI = st.sampled_from(["file:///tmp/net.py", "untitled:1", "", "file:", "http://x", "\0", "file:///tmp/%ff%00.py"])
DOCUMENT = st.fixed_dictionaries({
    "uri": URI, "version": st.integers(-3, 9), "languageId": st.just("python"),
    "text": st.sampled_from([NET, "", "\0", "def (", "\ud83d" * 3, "x = 1\r\r\n\x0c"]),
})  # fmt: skip
PARAMS = JSON | st.fixed_dictionaries(
    {"textDocument": DOCUMENT},
    optional={
        "position": POSITION | JSON,
        "range": st.fixed_dictionaries({"start": POSITION, "end": POSITION}),
        "context": st.just({"diagnostics": []}) | JSON,
        "contentChanges": st.lists(
            st.fixed_dictionaries(
                {"text": st.text(max_size=5)},
                optional={"range": st.fixed_dictionaries({"start": POSITION, "end": POSITION})},
            ),
            max_size=3,
        ),
        "command": st.sampled_from(["fxls.showCode", "fxls.retrace", "fxls.showGraph", "rm"]),
        "arguments": JSON,
        "settings": JSON,
    },
)
MESSAGE = st.fixed_dictionaries(
    {"method": st.sampled_from([each for each in METHODS if each not in {"exit", "shutdown", "initialize"}])},
    optional={"params": PARAMS, "id": st.integers(200, 10**6) | st.text(max_size=4)},
)


async def test_any_messages_are_answered():
    """Random messages to one server: each request has one reply, and the server still works after all of them."""
    chosen: list[dict] = []

    @settings(max_examples=250, deadline=None, database=None)
    @given(MESSAGE)
    def choose(message):
        chosen.append(message)

    choose()
    client = await Client.start()
    await client.initialize()
    replies: dict = {}
    ended = asyncio.Event()

    async def taken(message):
        if "id" in message and "method" not in message:
            replies.setdefault(json.dumps(message["id"]), []).append(message)
            if message["id"] == "the last":
                ended.set()
        elif "id" in message:
            client.send({"jsonrpc": "2.0", "id": message["id"], "result": None})

    client._take = taken
    for number, message in enumerate(chosen):
        if "id" in message:
            message["id"] = number + 1000
        client.send({"jsonrpc": "2.0", **message})
    client.send(
        {"jsonrpc": "2.0", "id": "the last", "method": "fxls/environment", "params": {"textDocument": {"uri": "x"}}}
    )
    await asyncio.wait_for(ended.wait(), 60)
    asked = [json.dumps(each["id"]) for each in chosen if "id" in each]
    for _ in range(300):
        if all(each in replies for each in asked):
            break
        await asyncio.sleep(0.1)
    unanswered = [each for each in chosen if "id" in each and len(replies.get(json.dumps(each["id"]), ())) != 1]
    assert unanswered == []
    assert client.process.returncode is None
    client.send({"jsonrpc": "2.0", "id": "bye", "method": "shutdown"})
    client.send({"jsonrpc": "2.0", "method": "exit"})
    assert await asyncio.wait_for(client.process.wait(), 30) == 0
    assert b"Traceback" not in client.stderr
    await client.stop()


# The mapper: what the tests of it leave out.


TEXT = st.text(st.sampled_from("ab\né😀\r\u2028\x0c\t\ud83d"), max_size=40)


@given(TEXT, st.sampled_from(["utf-8", "utf-16", "utf-32"]), st.integers(0, 10**9), st.integers(0, 10**9))
@settings(deadline=None)
def test_no_position_is_too_odd_for_the_mapper(text, encoding, line, character):
    mapper = Mapper(text, encoding)
    point = mapper.point(lsp.Position(line, character))
    place = mapper.position(*point)
    assert mapper.point(place) == point
    assert 0 <= mapper.offset(*point) <= len(text)

"""Framing and the life cycle: whatever bytes come, there are messages and answers to what is none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxls.transport import INVALID_REQUEST, NOT_INITIALIZED, PARSE_ERROR, Frames, Gate, Malformed


def framed(body, header=None):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return (header or b"Content-Length: %d\r\n\r\n" % len(body)) + body


MESSAGE = {"jsonrpc": "2.0", "id": 1, "method": "a", "params": {"text": "é\U0001f600"}}


def test_messages_come_out_as_they_went_in():
    assert list(Frames().feed(framed(MESSAGE) * 3)) == [MESSAGE] * 3


@given(st.lists(st.integers(1, 40)))
def test_where_the_stream_is_cut_makes_no_difference(sizes):
    stream = framed(MESSAGE) + b"Nonsense: 1\r\n\r\n" + framed(b"{") + framed(MESSAGE)
    frames, out = Frames(), []
    for size in sizes:
        out += frames.feed(stream[:size])
        stream = stream[size:]
    out += frames.feed(stream)
    assert [each if isinstance(each, dict) else each.code for each in out] == [
        MESSAGE,
        PARSE_ERROR,
        PARSE_ERROR,
        MESSAGE,
    ]


@given(st.binary(max_size=2000))
def test_any_bytes_are_survived(data):
    list(Frames().feed(data))


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Length: %d\n\n",
        b"content-length:%d\r\n\r\n",
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: %d\r\n\r\n",
        b"Content-Length: %d\r\nContent-Type: x\r\n\r\n",
    ],
)
def test_headers_are_read_with_tolerance(header):
    body = json.dumps(MESSAGE).encode()
    assert list(Frames().feed(header % len(body) + body)) == [MESSAGE]


@pytest.mark.parametrize(
    ("body", "code", "number"),
    [
        (b"{", PARSE_ERROR, None),
        (b"\xff", PARSE_ERROR, None),
        (b"[" * 100_000, PARSE_ERROR, None),
        (b"[]", INVALID_REQUEST, None),
        (b"7", INVALID_REQUEST, None),
        (b'{"id": 3, "method": "a"}', INVALID_REQUEST, 3),
        (b'{"jsonrpc": "1.0", "id": 3, "method": "a"}', INVALID_REQUEST, 3),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "a"}', INVALID_REQUEST, None),
        (b'{"jsonrpc": "2.0", "id": 3, "method": 4}', INVALID_REQUEST, 3),
        (b'{"jsonrpc": "2.0", "id": 3}', INVALID_REQUEST, 3),
        (b'{"jsonrpc": "2.0", "id": 3, "method": "a", "params": 5}', INVALID_REQUEST, 3),
    ],
)
def test_what_is_no_message_is_answered_and_the_next_one_is_read(body, code, number):
    fault, message = Frames().feed(framed(body) + framed(MESSAGE))
    assert (fault.code, fault.id) == (code, number)
    assert message == MESSAGE


def test_a_message_that_is_longer_than_it_says_does_not_swallow_those_behind_it():
    body = b'{"jsonrpc": "2.0", "id": 1, "method": "a"}'
    said = list(Frames().feed(b"Content-Length: 5\r\n\r\n" + body + 2 * framed(MESSAGE)))
    assert [each.code for each in said[:2]] == [PARSE_ERROR, PARSE_ERROR]
    assert said[2:] == [MESSAGE, MESSAGE]


def test_a_message_that_claims_to_be_huge_is_skipped():
    frames = Frames()
    (fault,) = frames.feed(b"Content-Length: 99999999999999999999\r\n\r\n" + b"x" * 1000)
    assert fault.code == INVALID_REQUEST
    assert list(frames.feed(b"y" * 1_000_000)) == []
    assert len(frames._buffer) == 0


def test_a_header_without_end_is_dropped_by_and_by():
    frames = Frames()
    faults = list(frames.feed(b"x" * (1 << 20)))
    assert {fault.code for fault in faults} == {PARSE_ERROR}
    assert len(frames._buffer) < 1 << 17


def ask(method, number=1):
    return {"jsonrpc": "2.0", "id": number, "method": method}


def tell(method):
    return {"jsonrpc": "2.0", "method": method}


def test_an_initialize_that_is_none_leaves_the_way_to_the_next_one():
    gate = Gate()
    assert gate.admit(ask("initialize")) is True
    gate.refused("initialize")
    assert gate.admit(ask("textDocument/hover")).code == NOT_INITIALIZED
    assert gate.admit(ask("initialize")) is True
    gate.refused("textDocument/hover")
    assert gate.admit(ask("textDocument/hover")) is True


def test_the_life_cycle():
    gate = Gate()
    assert gate.admit(ask("textDocument/hover", 7)) == Malformed(NOT_INITIALIZED, "`initialize` has to come first", 7)
    assert gate.admit(tell("textDocument/didOpen")) is False
    assert gate.admit(tell("exit")) is True
    assert gate.admit(ask("initialize")) is True
    assert gate.admit(ask("initialize", 2)).code == INVALID_REQUEST
    assert gate.admit(ask("textDocument/hover")) is True
    assert gate.admit(tell("textDocument/didOpen")) is True
    assert gate.admit({"jsonrpc": "2.0", "id": 1, "result": None}) is True
    assert gate.admit(ask("shutdown")) is True
    assert gate.closing
    assert gate.admit(ask("textDocument/hover", 8)) == Malformed(INVALID_REQUEST, "the server is shutting down", 8)
    assert gate.admit(tell("textDocument/didOpen")) is False
    assert gate.admit(tell("exit")) is True

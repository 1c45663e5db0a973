"""What is said to a client: at once where it fits, in order, and never waiting for somebody who does not read."""

import os
import select
import socket
import time

import pytest

from fxls.connection import Output

MESSAGES = [bytes([number % 251]) * size for number, size in enumerate([1, 4096, 100_000, 3, 300_000, 70_000] * 20)]


def ends(kind):
    """Return the descriptors of a connection's two ends, that which is read first."""
    if kind == "pipe":
        return os.pipe()
    reads, writes = socket.socketpair()
    return reads.detach(), writes.detach()


@pytest.fixture(params=["pipe", "socket"])
def connection(request):
    source, sink = ends(request.param)
    yield source, sink
    os.close(sink)


def read(source, length):
    data = b""
    while len(data) < length:
        data += os.read(source, 1 << 16)
    return data


async def test_what_fits_is_there_before_the_writer_returns(connection):
    source, sink = connection
    output = Output(sink)
    output.write(b"some words")
    assert select.select([source], [], [], 0)[0]
    assert os.read(source, 100) == b"some words"
    await output.close(1.0)
    os.close(source)


async def test_a_reader_who_is_late_gets_everything_in_order(connection):
    source, sink = connection
    output = Output(sink)
    start = time.monotonic()
    for each in MESSAGES:
        output.write(each)
    assert time.monotonic() - start < 2
    expected = b"".join(MESSAGES)
    assert read(source, len(expected)) == expected
    output.write(b"the end")
    assert read(source, 7) == b"the end"
    await output.close(1.0)
    os.close(source)


async def test_a_reader_who_leaves_is_not_spoken_to(connection):
    source, sink = connection
    output = Output(sink)
    os.close(source)
    for each in MESSAGES:
        output.write(each)
    await output.close(1.0)


async def test_what_was_said_last_is_not_waited_for_without_end(connection):
    source, sink = connection
    output = Output(sink)
    output.write(b"x" * 10_000_000)
    start = time.monotonic()
    await output.close(0.2)
    assert time.monotonic() - start < 2
    os.close(source)

"""Frames find their way through noise, whatever the pieces they arrive in."""

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from fxworker.channel import MARK, Frame, FrameReader, Kind, pack, pipe, receive, send
from fxworker.loop import Loop, Outbox

frames = st.builds(Frame, st.sampled_from(Kind), st.binary(max_size=50))
noise = st.binary(max_size=30).filter(lambda data: MARK[0] not in data)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(noise, frames), max_size=6), st.lists(st.integers(1, 40), min_size=1, max_size=5))
def test_frames_arrive_in_any_pieces_between_any_noise(parts, sizes):
    data = b"".join(before + pack(frame) for before, frame in parts)
    reader = FrameReader()
    found: list[Frame] = []
    position = step = 0
    while position < len(data):
        size = sizes[step % len(sizes)]
        found += reader.feed(data[position : position + size])
        position, step = position + size, step + 1
    assert found == [frame for _, frame in parts]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=30), st.just(MARK), frames.map(pack)), max_size=8))
def test_no_input_breaks_the_reader(parts):
    FrameReader().feed(b"".join(parts))


def test_a_frame_through_a_pipe():
    reading, writing = pipe()
    send(writing, Frame(Kind.ANSWER, b"x" * 1000))
    send(writing, Frame(Kind.READY))
    os.close(writing)
    assert receive(reading) == Frame(Kind.ANSWER, b"x" * 1000)
    assert receive(reading) == Frame(Kind.READY)
    assert receive(reading) is None
    os.close(reading)


def test_an_outbox_never_waits_and_loses_nothing():
    reading, writing = os.pipe()
    loop = Loop()
    out = Outbox(loop, writing)
    sent = [bytes([n]) * 100_000 for n in range(20)]
    for data in sent:
        out.write(data)
    received = bytearray()

    def take() -> None:
        received.extend(os.read(reading, 1 << 16))
        if len(received) == 2_000_000:
            loop.stop()

    loop.readable(reading, take)
    loop.run()
    assert bytes(received) == b"".join(sent)
    os.close(reading)
    out.write(b"nobody reads this")
    out.write(b"nor this")
    assert out.broken
    os.close(writing)


def test_timers_run_in_order_and_can_be_cancelled():
    loop = Loop()
    seen: list[int] = []
    loop.after(0.02, lambda: seen.append(2))
    loop.after(0.01, lambda: seen.append(1))
    loop.after(0.015, lambda: seen.append(9)).cancel()
    loop.after(0.03, loop.stop)
    loop.run()
    assert seen == [1, 2]

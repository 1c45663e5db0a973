"""The protocol's encoding: every message survives it, and whatever is no message is refused."""

import json
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxworker import encoding
from fxworker.encoding import WireError, decode, encode
from fxworker.texts import digest
from fxworker.wire import Frame, Location, NodeInfo, Origin, Problem, Span, TargetReport, TraceReport, TraceRequest

MESSAGES = tuple(encoding._MESSAGES[name].cls for name in sorted(encoding._MESSAGES))


def strategy(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type."""
    origin = get_origin(hint)
    if is_dataclass(hint):
        return instances(hint)
    if origin is tuple:
        return st.lists(strategy(get_args(hint)[0]), max_size=3).map(tuple)
    if origin in {Union, UnionType}:
        return st.one_of(*(st.none() if each is NoneType else strategy(each) for each in get_args(hint)))
    if origin is Literal:
        return st.sampled_from(get_args(hint))
    return {
        str: st.text(max_size=20),
        int: st.integers(),
        float: st.floats(allow_nan=False),
        bool: st.booleans(),
    }[hint]


def instances(cls: type) -> st.SearchStrategy[Any]:
    return st.deferred(
        lambda: st.builds(cls, **{each.name: strategy(get_type_hints(cls)[each.name]) for each in fields(cls)})
    )


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_every_message_survives(cls):
    @settings(max_examples=40, deadline=None)
    @given(instances(cls))
    def check(message):
        line = encode(message)
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        assert line.isascii()
        assert decode(line) == message

    check()


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(max_size=60), st.text(max_size=60)))
def test_what_is_no_message_is_refused(line):
    with pytest.raises(WireError):
        decode(line)


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=12,
)
names = st.sampled_from([cls.__name__ for cls in MESSAGES] + ["Span", "", "object"])


@settings(max_examples=300, deadline=None)
@given(names, json_values, json_values)
def test_json_of_the_wrong_shape_is_refused(name, rows, body):
    line = json.dumps([name, rows, body])
    try:
        message = decode(line)
    except WireError:
        return
    # What is accepted is a message in every field.
    assert decode(encode(message)) == message


@settings(max_examples=200, deadline=None)
@given(instances(TraceReport), st.data())
def test_a_damaged_line_is_refused_or_another_message(report, data):
    line = bytearray(encode(report))
    index = data.draw(st.integers(0, len(line) - 1))
    line[index] = data.draw(st.integers(0, 255))
    try:
        message = decode(bytes(line))
    except WireError:
        return
    assert type(message) in MESSAGES


def test_equal_places_are_written_once():
    def origin() -> Origin:
        # Equal, but not the same objects.
        return Origin((Frame("forward", Location("/net.py", Span(1, 2, 3, 4))),), "layers.0", "Block")

    nodes = tuple(
        NodeInfo(n, f"n{n}", "call_module", "fc", "()", "{}", (), (), None, "", origin(), n) for n in range(50)
    )
    problem = Problem("FX001", "error", "no", Location("/net.py", Span(1, 2, 3, 4)), origin=origin())
    target = TargetReport("Net", "class", Span(1, 0, 1, 3), "partial", nodes=nodes, problems=(problem,))
    report = TraceReport(1, "/net.py", digest(""), "partial", (target,))
    line = encode(report)
    assert line.count(b"layers.0") == 1
    found = decode(line)
    assert found == report
    assert isinstance(found, TraceReport)
    origins = {id(node.origin) for node in found.targets[0].nodes}
    assert len(origins) == 1


def test_a_row_of_the_table_must_exist_and_be_of_the_right_kind():
    request = TraceRequest(1, "/net.py", "", ())
    name, _, body = json.loads(encode(request))
    assert decode(json.dumps([name, [], body])) == request
    report = TraceReport(
        1, "/", "", "partial", problems=(Problem("FX1", "error", "", Location("/", Span(1, 0, 1, 0))),)
    )
    name, rows, body = json.loads(encode(report))
    for damaged in ([], [*rows[1:], rows[0][:1]], [["Origin", [[], "", ""]]], [[5, []]]):
        with pytest.raises(WireError):
            decode(json.dumps([name, damaged, body]))


def test_a_digest_names_a_text():
    assert digest("a") == digest("a")
    assert digest("a") != digest("b")
    assert len(digest("\ud800")) == 32


@pytest.mark.parametrize("depth", [10, 100_000])
def test_deep_json_is_refused(depth):
    with pytest.raises(WireError):
        decode("[" * depth + "]" * depth)

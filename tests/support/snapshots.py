"""Snapshots made by hand: a text, and a report whose places are found by the expressions that stand there."""

from dataclasses import replace

from lsprotocol import types as lsp

from fxls.discovery import discover
from fxls.settings import Settings
from fxls.snapshot import Snapshot
from fxls.text.edits import Carry, apply_changes
from fxls.text.mapper import Mapper
from fxls.text.uris import to_uri
from fxworker.texts import digest
from fxworker.wire import (
    EnvironmentReport,
    Frame,
    Location,
    NodeInfo,
    Origin,
    Problem,
    Span,
    TargetReport,
    TensorInfo,
    TraceReport,
)

PATH = "/project/net.py"
ENVIRONMENT = EnvironmentReport("3.11.7", "/venv/bin/python", "2.13.0", ("cpu", "cuda:0"))


def span_of(text: str, piece: str, occurrence: int = 0) -> Span:
    """The span of an expression in a text."""
    start = -1
    for _ in range(occurrence + 1):
        start = text.index(piece, start + 1)
    mapper = Mapper(text)
    return Span(*mapper.at_offset(start), *mapper.at_offset(start + len(piece)))


def location(text: str, piece: str, occurrence: int = 0) -> Location:
    return Location(PATH, span_of(text, piece, occurrence))


def node(
    index: int,
    name: str,
    op: str,
    target: str,
    *frames: Location,
    inputs: tuple[int, ...] = (),
    users: tuple[int, ...] = (),
    shape: tuple[int, ...] | None = (2, 8),
    module: str = "",
    line: int | None = None,
) -> NodeInfo:
    tensor = None if shape is None else TensorInfo(shape, "f32", "cpu")
    origin = Origin(tuple(Frame("forward", each) for each in frames), module, "Net") if frames else None
    return NodeInfo(index, name, op, target, "()", "{}", inputs, users, tensor, "", origin, line)


def snapshot(
    text: str,
    *targets: TargetReport,
    problems: tuple[Problem, ...] = (),
    settings: Settings | None = None,
    encoding: str = "utf-16",
) -> Snapshot:
    """A snapshot of a text with a fresh report about it."""
    report = TraceReport(1, PATH, digest(text), "complete", targets, problems)
    return Snapshot(
        uri=to_uri(PATH),
        path=PATH,
        version=3,
        text=text,
        digest=digest(text),
        mapper=Mapper(text, encoding),
        index=discover(PATH, text),
        settings=settings or Settings(),
        report=report,
        carry=Carry.identity(),
        environment=ENVIRONMENT,
        profiles=(),
        trusted=True,
    )


def edited(before: Snapshot, old: str, new: str) -> Snapshot:
    """The snapshot after an edit of which there is no report yet."""
    start = before.text.index(old)
    mapper = before.mapper
    first, last = mapper.at_offset(start), mapper.at_offset(start + len(old))
    event = lsp.TextDocumentContentChangePartial(lsp.Range(mapper.position(*first), mapper.position(*last)), new)
    mapper, changes = apply_changes(mapper, [event])
    return replace(
        before,
        text=mapper.text,
        digest=digest(mapper.text),
        mapper=mapper,
        index=discover(PATH, mapper.text),
        carry=before.carry.then(changes),
        current=False,
        version=4,
    )

"""How a message of the protocol becomes a line, and a line a message.

A message is one line of JSON: `[class name, interned table, fields]`. Fields are written by position, because both
sides run the same version of these files; locations, frames and origins occur hundreds of times in a report and are
written once, in the table. What is read is checked: a line may come from a process that user code has got at.
"""

import json
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from fxworker.wire import (
    CancelRequest,
    Construct,
    Digest,
    EarlyReport,
    Edit,
    Enclosed,
    EnvironmentReport,
    Fix,
    Frame,
    Guard,
    Inputs,
    Keep,
    Known,
    Limits,
    Location,
    Message,
    Misfit,
    ModuleFacts,
    NodeInfo,
    Origin,
    Overlay,
    Problem,
    ProfileReport,
    ProfileRequest,
    ProfileRow,
    Progress,
    Related,
    Returned,
    Sample,
    Setting,
    Size,
    Slip,
    Span,
    TargetReport,
    TensorInfo,
    Timings,
    TraceReport,
    TraceRequest,
    TraceTarget,
    Whole,
)

_PLAIN: frozenset[type] = frozenset({bool, int, str})
_INTERNED: frozenset[type] = frozenset({Location, Frame, Origin})


class WireError(ValueError):
    """A line is not a message of this protocol."""


def encode(message: Message) -> bytes:
    """Return `message` as one line of ASCII JSON with its newline."""
    table = _Table()
    body = _CODECS[type(message)].write(message, table)
    line = json.dumps([type(message).__name__, table.rows, body], separators=(",", ":"), check_circular=False)
    return line.encode("ascii") + b"\n"


def decode(line: bytes | str) -> Message:
    """Return the message that a line holds.

    Raises:
        WireError: the line is not JSON, or not a message of this protocol.
    """
    try:
        name, rows, body = json.loads(line)
        codec = _MESSAGES[name]
        table: list[Any] = []
        for kind, values in rows:
            table.append(_CODECS[_TABLE_TYPES[kind]].read(values, table))
        return codec.read(body, table)
    except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        raise WireError(f"not a message of the worker protocol: {error!r}") from error


class _Table:
    """The interned values of one message being written: each distinct object once, before its users."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self._index: dict[int, int] = {}
        self._equal: dict[Any, int] = {}

    def index(self, value: Any, codec: "_Codec") -> int:
        """Return the row of `value`, adding it when it is new."""
        known = self._index.get(id(value))
        if known is not None:
            return known
        row = codec.write(value, self)
        # Of equal values the rows are equal, and those hold numbers where the values hold each other.
        key = (codec.cls, *[tuple(each) if type(each) is list else each for each in row])
        known = self._equal.get(key)
        if known is None:
            known = len(self.rows)
            self.rows.append([_TABLE_INDEX[codec.cls], row])
            self._equal[key] = known
        self._index[id(value)] = known
        return known


_Writer: TypeAlias = Callable[[Any, _Table], Any]
_Reader: TypeAlias = Callable[[Any, list[Any]], Any]


class _Codec:
    """Writes and reads one dataclass as a list of its fields."""

    def __init__(self, cls: type) -> None:
        self.cls = cls
        self._values: Callable[[Any], tuple[Any, ...]] = tuple
        self._writers: list[tuple[int, _Writer]] = []
        self._readers: list[tuple[int, _Reader]] = []
        self._types: list[type | None] = []

    def compile(self) -> None:
        """Resolve the fields' types; every class has its codec by now."""
        hints = get_type_hints(self.cls)
        names = [field.name for field in fields(self.cls)]
        self._values = attrgetter(*names) if len(names) > 1 else _only(names[0])
        writers = [_writer(hints[name]) for name in names]
        self._writers = [(place, writer) for place, writer in enumerate(writers) if writer is not None]
        self._types = [hints[name] if hints[name] in _PLAIN else None for name in names]
        self._readers = [(place, _reader(hints[names[place]])) for place, cls in enumerate(self._types) if cls is None]

    def write(self, value: Any, table: _Table) -> list[Any]:
        row = list(self._values(value))
        for place, writer in self._writers:
            row[place] = writer(row[place], table)
        return row

    def read(self, row: Any, table: list[Any]) -> Any:
        if type(row) is not list or len(row) != len(self._types):
            raise WireError(f"{self.cls.__name__} has {len(self._types)} fields")
        found: list[type | None] = [*map(type, row)]
        for place, reader in self._readers:
            row[place] = reader(row[place], table)
            found[place] = None
        if found != self._types:
            raise WireError(f"{self.cls.__name__} has other fields than {row!r:.200}")
        return self.cls(*row)


def _only(name: str) -> Callable[[Any], tuple[Any, ...]]:
    """Return what gives the one field of a dataclass, as a tuple."""
    return lambda value: (getattr(value, name),)


def _writer(hint: Any) -> _Writer | None:
    """Return how a field of this type is written; None where JSON takes the value as it is."""
    if hint in _CODECS:
        codec = _CODECS[hint]
        if hint in _INTERNED:
            return lambda value, table: table.index(value, codec)
        return codec.write
    origin = get_origin(hint)
    if origin is tuple:
        item = _writer(get_args(hint)[0])
        if item is None:
            return lambda value, _: list(value)
        return lambda value, table: [item(element, table) for element in value]
    if origin in {Union, UnionType}:
        inner = _writer(_optional(hint))
        if inner is None:
            return None
        return lambda value, table: None if value is None else inner(value, table)
    return None


def _reader(hint: Any) -> _Reader:
    """Return how a field of this type is read and checked."""
    if hint in _CODECS:
        codec = _CODECS[hint]
        if hint in _INTERNED:
            return lambda value, table: _of_type(table[_non_negative(value)], hint)
        return codec.read
    origin = get_origin(hint)
    if origin is tuple:
        inside = get_args(hint)[0]
        if inside in _PLAIN:
            return lambda value, _: tuple(
                [each if type(each) is inside else _of_type(each, inside) for each in _of_type(value, list)]
            )
        item = _reader(inside)
        return lambda value, table: tuple([item(element, table) for element in _of_type(value, list)])
    if origin in {Union, UnionType}:
        inner = _reader(_optional(hint))
        return lambda value, table: None if value is None else inner(value, table)
    if origin is Literal:
        allowed = frozenset(get_args(hint))
        return lambda value, _: _one_of(value, allowed)
    if hint is float:
        return lambda value, _: float(value) if type(value) in {int, float} else _of_type(value, float)
    return partial(_plain, hint)


def _plain(cls: Any, value: Any, _: list[Any]) -> Any:
    """Return a value that JSON gives as it is; this is most of what is read."""
    if type(value) is not cls:
        raise WireError(f"{cls.__name__} expected, got {type(value).__name__}")
    return value


def _optional(hint: Any) -> Any:
    """Return X of `X | None`, the only union in the protocol."""
    (inner,) = (argument for argument in get_args(hint) if argument is not NoneType)
    return inner


def _of_type(value: Any, cls: Any) -> Any:
    if type(value) is not cls:
        raise WireError(f"{cls.__name__} expected, got {type(value).__name__}")
    return value


def _non_negative(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise WireError("a row number expected")
    return value


def _one_of(value: Any, allowed: frozenset[Any]) -> Any:
    if value not in allowed:
        raise WireError(f"{value!r} is none of {sorted(allowed)}")
    return value


_CODECS: dict[Any, _Codec] = {
    cls: _Codec(cls)
    for cls in (
        Span,
        Location,
        Frame,
        Origin,
        TensorInfo,
        NodeInfo,
        Related,
        Edit,
        Fix,
        Size,
        Misfit,
        Slip,
        Problem,
        Construct,
        Inputs,
        Whole,
        TraceTarget,
        Setting,
        Overlay,
        Limits,
        Keep,
        Enclosed,
        Known,
        TraceRequest,
        ModuleFacts,
        Guard,
        Returned,
        Timings,
        Digest,
        Sample,
        TargetReport,
        TraceReport,
        EarlyReport,
        ProfileRequest,
        ProfileRow,
        ProfileReport,
        Progress,
        CancelRequest,
        EnvironmentReport,
    )
}
for _codec in _CODECS.values():
    _codec.compile()
_MESSAGES: dict[str, _Codec] = {cls.__name__: _CODECS[cls] for cls in get_args(Message)}
_TABLE_TYPES: tuple[type, ...] = (Location, Frame, Origin)
_TABLE_INDEX: dict[type, int] = {cls: index for index, cls in enumerate(_TABLE_TYPES)}

"""The protocol between server and worker: frozen dataclasses and their encoding, nothing else.

This is the one module that both sides import, so it needs the standard library alone. A message is one line of JSON:
`[class name, interned table, fields]`. Fields are written by position, because both sides run the same version of
this file; locations, frames and origins occur hundreds of times in a report and are written once, in the table.

Positions are CPython's everywhere: lines count from 1, columns are 0-based UTF-8 byte offsets, ends are exclusive.
"""

import ast
import hashlib
import json
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

Severity: TypeAlias = Literal["error", "warning", "information", "hint"]
Status: TypeAlias = Literal["complete", "partial", "not traced"]
TargetKind: TypeAlias = Literal["class", "instance", "function"]
ValueKind: TypeAlias = Literal["metadata", "data-dependent", ""]
Provenance: TypeAlias = Literal[
    "directive",
    "configuration",
    "instance",
    "call",
    "factory",
    "remembered",
    "no arguments",
    "inferred",
]
ProfileStatus: TypeAlias = Literal["complete", "cancelled", "failed"]


LOCALS: Final = ".<locals>."
"""What stands between a function and a class in it, as in `make.<locals>.Net`."""

MET: Final = "__fxls_met__"
"""The function that a text to be sampled may hand a number and a condition to, and that gives the condition back."""


class WireError(ValueError):
    """A line is not a message of this protocol."""


@dataclass(frozen=True, slots=True)
class Span:
    """A range of source text."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Location:
    """A range in a file."""

    path: str
    span: Span


@dataclass(frozen=True, slots=True)
class Frame:
    """One user frame: the function that was running and the expression that it was at."""

    function: str
    location: Location


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a node or problem comes from: user frames, outermost first, and the module that was running."""

    frames: tuple[Frame, ...]
    module_path: str
    module_type: str


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Shape, dtype (`f32`, `i64`, … as in ux.md's notation) and device of a value."""

    shape: tuple[int, ...]
    dtype: str
    device: str


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A node of a captured graph in printable form.

    `target`, `args` and `kwargs` are printed as torch.fx prints them; `inputs` and `users` are indices into the same
    graph; `tensor` is None where the shape is unknown or the value is no single tensor, `value` then says what it
    is, as far as known; `line` is the 1-based line of the generated code, None for a node that prints nothing.
    """

    index: int
    name: str
    op: str
    target: str
    args: str
    kwargs: str
    inputs: tuple[int, ...]
    users: tuple[int, ...]
    tensor: TensorInfo | None
    value: str
    origin: Origin | None
    line: int | None


@dataclass(frozen=True, slots=True)
class Related:
    """A further place that explains a problem, such as a step of a value's provenance."""

    location: Location
    message: str


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement of a range by new text."""

    location: Location
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """A change that mends a problem; `verified` when the result was traced again without it.

    `proof` says what was found out then, such as whether both give the same numbers; "" where nothing more is known.
    """

    title: str
    edits: tuple[Edit, ...]
    verified: bool
    proof: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that stopped, or would have stopped, a trace.

    `message` is one line in the user's own terms; `explanation` is what the hover adds (why, what the value is, how
    it got there); `hint` says what to do; `original` is what torch.fx would have raised (`TraceError: …`). `location`
    lies in the file that was edited where a user frame of it exists, otherwise at the guilty library line. `target`
    is the qualified name of the model that was traced, "" for a problem of the whole file. `value` is what the
    expression in question is for the inputs in use, in print, "" where that is not known; `instances` are the paths of
    the modules that reach the site, the first of which `origin` and `related` are about.
    """

    code: str
    severity: Severity
    message: str
    location: Location
    explanation: str = ""
    hint: str = ""
    original: str = ""
    target: str = ""
    kind: ValueKind = ""
    value: str = ""
    instances: tuple[str, ...] = ()
    origin: Origin | None = None
    related: tuple[Related, ...] = ()
    fixes: tuple[Fix, ...] = ()

    @property
    def count(self) -> int:
        """How many instances reach the site."""
        return max(len(self.instances), 1)


@dataclass(frozen=True, slots=True)
class Construct:
    """One way to build a target: a Python expression that is evaluated in the module."""

    expression: str
    source: Provenance
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class Inputs:
    """One way to feed a target: the argument list of a call as Python source, evaluated in the module.

    `expression` is what stands between the parentheses of the call: `torch.randn(2, 3), mask=None`.
    """

    expression: str
    source: Provenance
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class Whole:
    """A class of another file whose constructor makes instances of a target's class, or a function that does."""

    path: str
    qualname: str


@dataclass(frozen=True, slots=True)
class TraceTarget:
    """Something in a file that can be traced, found by syntax alone.

    `constructs` and `inputs` are tried in order; the report says which one applied. An empty `constructs` leaves it
    to the worker to try the constructor without arguments and then to infer arguments. `name` is the span of the
    name in its definition. `wholes` are the models that it may be a part of.
    """

    qualname: str
    kind: TargetKind
    name: Span
    constructs: tuple[Construct, ...] = ()
    inputs: tuple[Inputs, ...] = ()
    wholes: tuple[Whole, ...] = ()

    @property
    def callee(self) -> str:
        """The name by which its class is called: where it is defined, if that is in a function."""
        return self.qualname.rpartition(LOCALS)[2]


@dataclass(frozen=True, slots=True)
class Setting:
    """A value that the project gives to an option, or to an entry of a configuration, as a Python literal.

    The name is dotted where it stands in a section: `model.width`.
    """

    name: str
    expression: str
    location: Location


@dataclass(frozen=True, slots=True)
class Overlay:
    """An unsaved buffer: imports of `path` see `text`."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Limits:
    """What a child may use: wall-clock seconds, bytes of memory beyond the template's, and what the names say.

    `processes` and `memory` count those that it starts, too; the others hold for each of them.
    """

    seconds: float = 10.0
    memory: int = 4 << 30
    processes: int = 64
    file_size: int = 1 << 30
    open_files: int = 1024


@dataclass(frozen=True, slots=True)
class Keep:
    """What a worker keeps ready for the next edits: templates of files, and the bytes that they may hold together.

    The file that was asked about last is always kept; of the others those that were asked about longest ago go first.
    """

    documents: int = 8
    memory: int = 1 << 30


@dataclass(frozen=True, slots=True)
class Enclosed:
    """A class of the file whose instances are a part of a traced model, and the path of the first of them."""

    qualname: str
    module_path: str


@dataclass(frozen=True, slots=True)
class Known:
    """A target's report that whoever asks has at hand, by the key of all that it follows from."""

    qualname: str
    key: str
    status: Status
    encloses: tuple[Enclosed, ...] = ()


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """Trace the targets of a file as it stands in the editor; answered by one `TraceReport`.

    With `early`, which says that a person waits who is editing this text, an `EarlyReport` may come before it. With
    `sandbox` the file is executed without network, and may write to temporary folders only, as far as the system can
    see to that.

    With `sample` nothing is traced: each target is built for real and run on variants of its first inputs, and its
    report has the samples. `settings` is what the project says about values that constructors may read, best first.
    """

    id: int
    path: str
    text: str
    targets: tuple[TraceTarget, ...]
    roots: tuple[str, ...] = ()
    overlays: tuple[Overlay, ...] = ()
    limits: Limits = Limits()
    early: bool = False
    sandbox: bool = False
    keep: Keep = Keep()
    sample: bool = False
    known: tuple[Known, ...] = ()
    settings: tuple[Setting, ...] = ()


@dataclass(frozen=True, slots=True)
class ModuleFacts:
    """What is known of a built model: its type, the number of its parameters and their bytes, FLOPs if fed."""

    type: str
    parameters: int
    parameter_bytes: int
    flops: int | None


@dataclass(frozen=True, slots=True)
class Guard:
    """Something that a captured graph holds true, because it was made for that case: `x.shape[0] > 4` is `False`."""

    expression: str
    value: str
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class Returned:
    """What a call of a submodule gave that is no single tensor: `(f32[2, 8], None)`, and where the call stands."""

    location: Location
    value: str


@dataclass(frozen=True, slots=True)
class Timings:
    """Milliseconds that the phases of a trace took."""

    load: float = 0.0
    build: float = 0.0
    trace: float = 0.0
    shapes: float = 0.0
    report: float = 0.0

    @property
    def total(self) -> float:
        """Milliseconds that all of it took."""
        return self.load + self.build + self.trace + self.shapes + self.report


@dataclass(frozen=True, slots=True)
class Digest:
    """A value in short: where it stands, what it is, and, of a tensor, numbers that tell it from others of its shape.

    The first three are how many of its elements are finite, the mean of these and that of their sizes.
    """

    name: str
    form: str
    numbers: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """What a model gave for one variant of its inputs.

    `left` is what its arguments and buffers hold afterwards; `met` the outcomes of conditions that the text hands to
    the function `MET` with their numbers, such as `0 True`; `error` what it raised, and then there is nothing else.
    """

    variant: str
    outputs: tuple[Digest, ...] = ()
    left: tuple[Digest, ...] = ()
    met: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class TargetReport:
    """The answer for one target: nodes AND problems always, as far as the trace came.

    `guards` is what the graph was specialised on. `cut` says why not every way through the model was looked at, "" when
    all were; `reached_end` that the graph goes to the model's end, be it with answers that are only assumed.
    `captured` says that the model was captured with its inputs although something stops a trace.
    `enclosed_by` names the target inside which this class was traced, when it needed no instance of its own.
    `module_path` is then the path of its first instance there. `samples` are there only where the
    request asks for them.
    `returned` is what calls of submodules gave that is no single tensor, as far as the shapes in it are known.
    `key` names all that this report follows from, "" where that is not known; `encloses` are the classes of the file
    that were traced inside of this target. One that is `unchanged` was not traced and says nothing but `status` and
    these.
    """

    qualname: str
    kind: TargetKind
    name: Span
    status: Status
    construct: Construct | None = None
    inputs: Inputs | None = None
    facts: ModuleFacts | None = None
    nodes: tuple[NodeInfo, ...] = ()
    code: str = ""
    problems: tuple[Problem, ...] = ()
    guards: tuple[Guard, ...] = ()
    cut: str = ""
    reached_end: bool = True
    enclosed_by: str = ""
    module_path: str = ""
    timings: Timings = Timings()
    captured: bool = False
    samples: tuple[Sample, ...] = ()
    key: str = ""
    encloses: tuple[Enclosed, ...] = ()
    unchanged: bool = False
    returned: tuple[Returned, ...] = ()


@dataclass(frozen=True, slots=True, weakref_slot=True)
class TraceReport:
    """The one answer to a `TraceRequest`. `digest` names the text that it was computed from.

    `problems` are those of the whole file (import failed, timed out, the worker died); `dependencies` are the files
    below the roots that executing the file imported; `output` is the tail of what user code printed; `denied` is what
    the sandbox has kept the file from, so that it failed. One that is `unfinished` had no time to look for everything:
    the answer to the same request, asked again, goes on with it.
    """

    id: int
    path: str
    digest: str
    status: Status
    targets: tuple[TargetReport, ...] = ()
    problems: tuple[Problem, ...] = ()
    dependencies: tuple[str, ...] = ()
    timings: Timings = Timings()
    output: str = ""
    denied: str = ""
    unfinished: bool = False


@dataclass(frozen=True, slots=True)
class EarlyReport:
    """What is known of a trace before its graphs are printed and shapes are known: everything that stops it.

    Its report has no nodes and no code, and neither problems of shapes nor those that no trace tells (`LATER`).
    No answer: that follows, and says all of it again.
    """

    id: int
    report: TraceReport


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """Measure one target on a device; answered by `Progress` messages and one `ProfileReport`.

    `previous` is the `data` of an earlier report to compare with, or "". `sandbox` is that of a `TraceRequest`.
    """

    id: int
    path: str
    text: str
    target: TraceTarget
    device: str
    roots: tuple[str, ...] = ()
    overlays: tuple[Overlay, ...] = ()
    limits: Limits = Limits(seconds=300.0, memory=16 << 30)
    previous: str = ""
    sandbox: bool = False


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One node's share of a profile: median seconds a run and their spread, operations, bytes moved."""

    name: str
    location: Location | None
    seconds: float
    spread: float
    share: float
    flops: float
    bytes: float


@dataclass(frozen=True, slots=True)
class ProfileReport:
    """The one answer to a `ProfileRequest`: Markdown for people, JSON data, and a Chrome trace for Perfetto.

    `denied` is what the sandbox has kept the file from, so that it failed.
    """

    id: int
    path: str
    digest: str
    target: str
    device: str
    status: ProfileStatus
    rows: tuple[ProfileRow, ...] = ()
    problems: tuple[Problem, ...] = ()
    markdown: str = ""
    data: str = ""
    trace: str = ""
    denied: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a profile is; `percentage` runs from 0 to 100."""

    id: int
    message: str
    percentage: int


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """End request `id` at once; its one response still comes, with what is known by then."""

    id: int


@dataclass(frozen=True, slots=True)
class EnvironmentReport:
    """The first message of a worker: what it runs on. `problem` says why it cannot trace, "" when it can.

    `sandbox` is what a file can be kept from on this system: some of `files` and `network`.
    """

    python: str
    executable: str
    torch: str
    devices: tuple[str, ...]
    problem: str = ""
    sandbox: tuple[str, ...] = ()

    def lacks(self, device: str) -> str:
        """Return in words that there is no such device, "" if there is one or none is known.

        A kind alone stands for the first device of it.
        """
        known = {*self.devices, *(f"{each}:0" for each in self.devices), *(each.split(":")[0] for each in self.devices)}
        if not known or device in known:
            return ""
        return f"there is no device {device}; torch sees {', '.join(self.devices)}"


Request: TypeAlias = TraceRequest | ProfileRequest | CancelRequest
Response: TypeAlias = EarlyReport | TraceReport | ProfileReport | Progress | EnvironmentReport
Message: TypeAlias = Request | Response

LATER: tuple[str, ...] = ("FX2", "FX3")
"""How the codes begin of problems that may be missing in an `EarlyReport`."""

_BEHIND_LINE_END = re.compile(r"\n[ \t]*[%!]")
_NOTEBOOK_LINE = re.compile(r"(\A|\n)([ \t]*)([%!][^\n]*)")

_PLAIN: frozenset[type] = frozenset({bool, int, str})
_INTERNED: frozenset[type] = frozenset({Location, Frame, Origin})


def digest(text: str) -> str:
    """Return the name of a text: 32 hexadecimal digits, equal for equal texts."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def program_of(text: str) -> str:
    """Return a text as Python reads it: lines that only a notebook understands, `%magic` and `!command`, are comments.

    They are looked for only in a text that is no program as it stands. The mark that a file's bytes may begin with is
    none of the text.
    """
    text = text.removeprefix("\ufeff")
    # Asked at each edit of a text that may be long: what begins with a fixed character is found fastest.
    if _BEHIND_LINE_END.search(text) is None and _NOTEBOOK_LINE.match(text) is None:
        return text
    changed = _NOTEBOOK_LINE.sub(r"\1\2pass  # \3", text)
    for candidate in (text, changed):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ast.parse(candidate)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        return candidate
    return text


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

"""The protocol between server and worker: what they say to each other, as frozen dataclasses, and nothing else.

Both sides import this module, so it needs the standard library alone. How a message becomes a line is the business of
`encoding`.

Positions are CPython's everywhere: lines count from 1, columns are 0-based UTF-8 byte offsets, ends are exclusive.
"""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Severity: TypeAlias = Literal["error", "warning", "information", "hint"]
Status: TypeAlias = Literal["complete", "partial", "not traced"]
TargetKind: TypeAlias = Literal["class", "instance", "function"]
ValueKind: TypeAlias = Literal["metadata", "data-dependent", ""]
SlipKind: TypeAlias = Literal["several", "states", "outputs", "state", "part", "method", "container", "name", "self"]
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

MADE_HERE: Final = "what is taken for one value comes from here"
"""What is said of where a value comes from that is of another kind than what takes it wants."""

MET: Final = "__fxls_met__"
"""The function that a text to be sampled may hand a number and a condition to, and that gives the condition back."""


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
    """A replacement of a range by new text, whose lines end in a line feed whatever those of the file end in."""

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
class Size:
    """One of two sizes that do not fit.

    `argument` is how the constructor of the layer calls it that takes or makes so many, "" where it follows from
    something else, and `built` where that layer is built. `index` is the dimension in which a layer looks for it in
    what comes in, None for what a layer makes; `flattened` says that all dimensions behind the batch of what comes in
    have as many together.
    """

    value: int
    argument: str = ""
    index: int | None = None
    flattened: bool = False
    built: Location | None = None


@dataclass(frozen=True, slots=True)
class Misfit:
    """Shapes that do not fit where they meet.

    `shapes` are those of the tensors that meet, `sizes` the two of them that differ, if it is known which. `at_layer`
    says that a layer does not take what comes in; the second size is the one that it takes then.
    """

    shapes: tuple[tuple[int, ...], ...]
    sizes: tuple[Size, ...] = ()
    at_layer: bool = False


@dataclass(frozen=True, slots=True)
class Slip:
    """What a person has probably written in place of something else.

    `kind` says what: one of the several values that a call returns is meant (`several`, and `states` for the pair of an
    LSTM cell); what an LSTM returns is taken apart in three, and the one state of another layer in two (`outputs`,
    `state`); a part, a method or a container stands for what it makes of a value (`part`, `method`, `container`); a
    name for another (`name`); a method lacks `self` (`self`). `name` is the part or the container, or the name that is
    meant, and `made` where the value comes from.
    """

    kind: SlipKind
    name: str = ""
    made: Location | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that stopped, or would have stopped, a trace.

    `message` is one line in the user's own terms; `explanation` is what the hover adds (why, what the value is, how
    it got there); `hint` says what to do; `original` is what torch.fx would have raised (`TraceError: …`). `location`
    lies in the file that was edited where a user frame of it exists, otherwise at the guilty library line. `target`
    is the qualified name of the model that was traced, "" for a problem of the whole file. `value` is what the
    expression in question is for the inputs in use, in print, "" where that is not known; `instances` are the paths of
    the modules that reach the site, the first of which `origin` and `related` are about; `misfit` is what does not fit
    at an expression whose shapes are known; `slip` is what was probably meant.
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
    misfit: Misfit | None = None
    slip: Slip | None = None

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
    """A class of another file whose constructor makes instances of a target's class, a function that does, or an heir.

    It may do so by what it makes itself: the whole of a whole is one, too. `constructs` and `inputs` say how it is
    built and fed, as far as somebody wrote that down; they are evaluated in its own file.
    """

    path: str
    qualname: str
    constructs: tuple[Construct, ...] = ()
    inputs: tuple[Inputs, ...] = ()


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

"""What we add to the protocol: commands, notifications and requests of our own, as typed records.

Names on the wire are camelCase, as everywhere in LSP; `to_json` writes a record and `read` reads one. Requests and
notifications carry the prefix `fxls/`, commands the prefix `fxls.`. docs/lsp-extensions.md describes them for people
who write clients.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_type_hints

STATUS: Final = "fxls/status"
"""Notification to the client: a `Status`."""

TRUSTED: Final = "fxls/trusted"
"""Notification from the client without content: the person trusts this workspace now."""

ACTIVE: Final = "fxls/active"
"""Notification from the client: `ActiveParams`, the document that the person looks at now."""

REPORT: Final = "fxls/report"
"""Request: `ReportParams` → `ReportResult`, what is known of a document, without waiting."""

ENVIRONMENT: Final = "fxls/environment"
"""Request: `EnvironmentParams` → `EnvironmentResult`, the Python that a document is traced with."""

PROFILE: Final = "fxls.profile"
"""Command: `CommandArguments` → `ProfileView`."""

SHOW_GRAPH: Final = "fxls.showGraph"
"""Command: `CommandArguments` → `GraphView`."""

SHOW_CODE: Final = "fxls.showCode"
"""Command: `CommandArguments` → `CodeView`."""

RETRACE: Final = "fxls.retrace"
"""Command: `CommandArguments` → null, when the document has been traced again."""

COMMANDS: Final = (PROFILE, SHOW_GRAPH, SHOW_CODE, RETRACE)

State: TypeAlias = Literal["starting", "ok", "tracing", "problems", "restricted", "error"]


class ParamsError(ValueError):
    """What a client sent does not have the shape of the record."""


@dataclass(frozen=True, slots=True)
class CommandArguments:
    """The one argument of every command: a document, a model in it, a device.

    Without a target, `line` (from 0) says where the cursor stands: the model around it is meant, or else the first one.
    """

    uri: str
    target: str = ""
    device: str = ""
    line: int = -1


@dataclass(frozen=True, slots=True)
class CodeView:
    """Generated code to show in an editor of its own."""

    language: str
    text: str
    title: str


@dataclass(frozen=True, slots=True)
class GraphView:
    """A captured graph, drawn, and as Graphviz source."""

    svg: str
    dot: str
    title: str


@dataclass(frozen=True, slots=True)
class ProfileView:
    """A profile: what to show, and the paths of the JSON data and of the trace that Perfetto opens."""

    markdown: str
    json: str
    trace: str
    title: str


@dataclass(frozen=True, slots=True)
class Status:
    """What the status bar shows. `text` is short; `tooltip` says more, as Markdown."""

    state: State
    text: str
    tooltip: str = ""
    python: str | None = None
    torch: str | None = None
    milliseconds: float | None = None
    problems: int | None = None
    devices: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ActiveParams:
    """The document that the person turned to. It need not be one that the server knows."""

    uri: str


@dataclass(frozen=True, slots=True)
class ReportParams:
    """A document of which the client wants to know what is known."""

    uri: str


@dataclass(frozen=True, slots=True)
class TargetSummary:
    """One model of a report: how it was built and fed, and how far its capture came."""

    qualname: str
    status: str
    nodes: int
    problems: int
    construct: str
    construct_from: str
    inputs: str
    inputs_from: str
    enclosed_by: str
    milliseconds: float


@dataclass(frozen=True, slots=True)
class ReportResult:
    """What is known of a document. `fresh` says that it was computed from the document's current code."""

    uri: str
    version: int | None
    fresh: bool
    status: str
    milliseconds: float
    targets: tuple[TargetSummary, ...]
    dependencies: tuple[str, ...]
    output: str


@dataclass(frozen=True, slots=True)
class EnvironmentParams:
    """A document of which the client wants to know the Python environment."""

    uri: str


@dataclass(frozen=True, slots=True)
class EnvironmentResult:
    """The Python that a document is traced with, where it was found, and what it cannot do, "" if nothing.

    `sandbox` is what the document's code is kept from: some of `files` and `network`.
    """

    command: tuple[str, ...]
    found: str
    python: str
    torch: str
    devices: tuple[str, ...]
    problem: str
    sandbox: tuple[str, ...] = ()


_Record = TypeVar("_Record")


def to_json(record: Any) -> Any:
    """Return a record as the client reads it: camelCase names, nothing where the value is None."""
    if is_dataclass(record) and not isinstance(record, type):
        items = ((each.name, getattr(record, each.name)) for each in fields(record))
        return {_camel(name): to_json(value) for name, value in items if value is not None}
    if isinstance(record, tuple):
        return [to_json(each) for each in record]
    return record


def read(cls: type[_Record], value: object) -> _Record:
    """Return the record that a client sent. Fields of it are texts and numbers; unknown keys are left alone.

    Raises:
        ParamsError: a field is absent or of another type.
    """
    if not isinstance(value, Mapping):
        raise ParamsError(f"{cls.__name__}: an object is expected")
    given: dict[str, Any] = {}
    for name, hint in get_type_hints(cls).items():
        item = value.get(_camel(name))
        if item is None:
            continue
        if not isinstance(item, hint):
            raise ParamsError(f"{cls.__name__}: `{_camel(name)}` must be {hint.__name__}")
        given[name] = item
    try:
        return cls(**given)
    except TypeError as error:
        raise ParamsError(f"{cls.__name__}: {error}") from error


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)

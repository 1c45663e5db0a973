"""What a profile says, as data: frozen, comparable, and the same whether it was just measured or read from a file."""

import types
import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any

__all__ = [
    "Change",
    "Environment",
    "NodeProfile",
    "Place",
    "ProfileResult",
    "Timing",
    "result_from_dict",
    "result_to_dict",
]

FORMAT_VERSION = 2


@dataclass(frozen=True, slots=True)
class Timing:
    """How long something took.

    Attributes:
        seconds: The median of the runs.
        error: The standard error of that median, estimated from the median absolute deviation.
        runs: How many runs.
    """

    seconds: float
    error: float
    runs: int


@dataclass(frozen=True, slots=True)
class Place:
    """A position in the user's source: lines from 1, columns as 0-based UTF-8 byte offsets, ends exclusive."""

    path: str
    function: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str


@dataclass(frozen=True, slots=True)
class NodeProfile:
    """One node of the graph.

    Attributes:
        name: Its name in the graph.
        op: Its opcode.
        target: What it calls, printed.
        module_path: The module whose forward made it; for a call of a leaf module that module's own path.
        place: The expression it came from, innermost user frame; None if no trace made it.
        result: What it makes, as ``f32[2, 768]``.
        timing: How long it took, on the device.
        host: Seconds that the host of an accelerator needed to tell it so; None where both are one, or it is not known.
        share: Its part of the time of the whole graph.
        flops: Floating point operations.
        bytes: Bytes read and written, at the least.
        memory: Bytes of values alive right after it ran, its inputs included, parameters not.
    """

    name: str
    op: str
    target: str
    module_path: str
    place: Place | None
    result: str
    timing: Timing
    host: float | None
    share: float
    flops: int
    bytes: int
    memory: int


@dataclass(frozen=True, slots=True)
class Change:
    """A difference to an earlier profile that is larger than chance explains.

    Attributes:
        label: What changed: a source line, or the whole model.
        place: Where that is.
        before: Seconds, then.
        after: Seconds, now.
        error: The standard error of ``after / before``.
    """

    label: str
    place: Place | None
    before: float
    after: float
    error: float

    @property
    def ratio(self) -> float:
        """The time now over the time then."""
        return self.after / self.before if self.before else 1.0


@dataclass(frozen=True, slots=True)
class Environment:
    """Where and under what conditions the profile was made.

    Attributes:
        device: As torch writes it.
        device_name: The maker's name for it.
        threads: How many threads torch used; None for accelerators.
        peak_flops: Operations a second in a large matrix product; 0 if that was not measured.
        peak_bandwidth: Bytes a second in a large copy, likewise.
        dtype: The type of the parameters, in short.
        training: Whether the model was in training mode.
        busy: Processors that other programs kept busy on average in the minute before, as far as known.
        torch: Its version.
        python: Its version.
        platform: The operating system.
        started: When, in local time.
    """

    device: str
    device_name: str
    threads: int | None
    peak_flops: float
    peak_bandwidth: float
    dtype: str
    training: bool
    busy: float
    torch: str
    python: str
    platform: str
    started: str


@dataclass(frozen=True, slots=True)
class ProfileResult:
    """A profile.

    Attributes:
        model: The model's class.
        inputs: What it was fed, as ``img f32[2, 3, 224, 224]``.
        environment: Device, versions, conditions.
        warmups: Runs before the measured ones.
        spread: The relative standard error of the whole graph's time.
        stable: Whether the spread came below the tolerance within the time.
        eager: The original module.
        graph: The graph module's generated code.
        explained: The sum of the nodes' times over the time of the graph; on an accelerator, how busy the graph
            keeps it.
        parameter_bytes: Bytes of parameters and buffers.
        peak_memory: The most bytes of values alive at a node, parameters not included.
        peak_node: The index in ``nodes`` of that node; -1 without nodes.
        nodes: The nodes, in the graph's order.
        changes: What differs significantly from an earlier profile, the largest first.
        compared_with: When the earlier profile was made; empty if there was none.
    """

    model: str
    inputs: str
    environment: Environment
    warmups: int
    spread: float
    stable: bool
    eager: Timing
    graph: Timing
    explained: float
    parameter_bytes: int
    peak_memory: int
    peak_node: int
    nodes: tuple[NodeProfile, ...]
    changes: tuple[Change, ...] = ()
    compared_with: str = ""

    @property
    def flops(self) -> int:
        """Floating point operations of the whole graph."""
        return sum(node.flops for node in self.nodes)

    @property
    def apart(self) -> bool:
        """Whether what the nodes need of the device and of its host was measured apart."""
        return any(node.host is not None for node in self.nodes)


def result_to_dict(result: ProfileResult) -> dict[str, Any]:
    """Return ``result`` as what JSON can hold."""
    return {"version": FORMAT_VERSION, **asdict(result)}


def result_from_dict(data: Mapping[str, Any]) -> ProfileResult:
    """Return the result that ``result_to_dict`` made ``data`` from.

    Raises:
        ValueError: ``data`` was written by another version.
    """
    if data.get("version") != FORMAT_VERSION:
        raise ValueError(f"a profile of version {data.get('version')!r}, not {FORMAT_VERSION}")
    return _decode(ProfileResult, data)


def _decode(wanted: Any, data: Any) -> Any:
    """Return ``data`` as an instance of the type ``wanted``."""
    origin = typing.get_origin(wanted)
    if origin is types.UnionType:
        if data is None:
            return None
        return _decode(next(member for member in typing.get_args(wanted) if member is not types.NoneType), data)
    if origin is tuple:
        return tuple(_decode(typing.get_args(wanted)[0], item) for item in data)
    if is_dataclass(wanted) and isinstance(wanted, type):
        hints = typing.get_type_hints(wanted)
        return wanted(**{field.name: _decode(hints[field.name], data[field.name]) for field in fields(wanted)})
    return data

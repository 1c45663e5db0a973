"""How values are written for people: quantities, tensors, and where something came from. Plain text, no Markdown."""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Final

from fxls.rules import stops_torch_fx
from fxworker.wire import Construct, Inputs, Location, NodeInfo, Problem, Provenance, TargetReport, TensorInfo

_THOUSANDS: Final = ("", " k", " M", " G", " T", " P")
_BINARY: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")
_SOURCES: Final[dict[Provenance, str]] = {
    "directive": "comment",
    "configuration": "configuration",
    "instance": "instance",
    "call": "call",
    "factory": "factory function",
    "remembered": "inferred in an earlier session",
    "no arguments": "constructor without arguments",
    "inferred": "inferred",
}

_LONGEST_STEP: Final = 48
_MOST_INSTANCES: Final = 2
_NUMBER: Final = re.compile(r"(?<=\.)\d+(?=\.|$)|(?<=_)\d+(?=_)")
_NAMED: Final = re.compile(r"`(?:(@)[^`]*|[^`]*?([\w\[\]]+)(?:\([^`]*\))?)`")
_ITERATION: Final = "FX003"
_COPY: Final = re.compile(r"(?<=\w)_\d+$")


def count(number: float) -> str:
    """Return a number with three figures and a unit prefix: `86.6 M`, `512`."""
    power = 0
    while abs(number) >= 999.5 and power < len(_THOUSANDS) - 1:
        number /= 1000
        power += 1
    return f"{number:.0f}" if power == 0 else f"{_three(number)}{_THOUSANDS[power]}"


def size(bytes_: float) -> str:
    """Return a number of bytes: `330 MiB`."""
    power = 0
    while abs(bytes_) >= 1024 and power < len(_BINARY) - 1:
        bytes_ /= 1024
        power += 1
    return f"{bytes_:.0f} {_BINARY[power]}" if power == 0 else f"{_three(bytes_)} {_BINARY[power]}"


def operations(flops: float) -> str:
    """Return a number of floating-point operations: `35.1 GFLOPs`."""
    written = count(flops)
    number, _, prefix = written.partition(" ")
    return f"{number} {'k' if prefix == 'k' else prefix}FLOPs"


def duration(seconds: float) -> str:
    """Return a time: `12 µs`, `1.84 ms`, `2.5 s`."""
    if seconds < 999.5e-6:
        return f"{_three(seconds * 1e6)} µs"
    return f"{_three(seconds * 1e3)} ms" if seconds < 0.9995 else f"{_three(seconds)} s"


def plural(number: int, noun: str) -> str:
    """Return `1 node`, `2 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def tensor(info: TensorInfo, *, spaced: bool = True) -> str:
    """Return a tensor's notation: `f32[2, 196, 768]`, with the device where it is not the usual one."""
    shape = (", " if spaced else ",").join(map(str, info.shape))
    device = "" if info.device in {"", "cpu", "meta"} else f" on {info.device}"
    return f"{info.dtype}[{shape}]{device}"


def result(node: NodeInfo) -> str:
    """Return what is known of a node's value, "" for nothing."""
    return tensor(node.tensor) if node.tensor is not None else node.value


def signature(report: TargetReport, *, spaced: bool = True) -> str:
    """Return what a model was fed: `img: f32[2, 3, 224, 224]`, "" where that is not known."""
    parts: list[str] = []
    for node in report.nodes:
        if node.op == "placeholder" and node.tensor is not None:
            separator = ": " if spaced else " "
            parts.append(f"{node.target.lstrip('*')}{separator}{tensor(node.tensor, spaced=spaced)}")
    return ", ".join(parts)


def source(item: Construct | Inputs, path: str) -> str:
    """Return where a way to build or feed a model was found, as seen from a file: `call, line 14`."""
    where = place(item.location, path) if item.location is not None else ""
    return f"{_SOURCES[item.source]}{', ' if where else ''}{where}"


def place(location: Location, path: str) -> str:
    """Return where a location is, as seen from a file: `line 14`, `test_vit.py:14`."""
    if location.path == path:
        return f"line {location.span.line}"
    return f"{Path(location.path).name}:{location.span.line}"


def generalised(names: Sequence[str]) -> str:
    """Return the pattern that all names have: `blocks.*.fc1`; the name itself where they are equal."""
    return names[0] if len(set(names)) == 1 else pattern(names[0])


@lru_cache(4096)
def pattern(name: str) -> str:
    """Return a name without the numbers that tell equal parts of a model apart: `blocks.*.fc1`, `relu`."""
    return _COPY.sub("", _NUMBER.sub("*", name))


def headline(problem: Problem, *, named: bool = True) -> str:
    """Return what is wrong, in one line: the message, what is so for the inputs in use, and how often it is met.

    The instances that meet it are `named`, or only counted.
    """
    parts = [problem.message]
    if depends_on_inputs(problem):
        parts.append(f"; for the inputs in use {answer(problem)}")
    if problem.count > 1:
        parts.append(f" (in {instances(problem)})" if named else f" ×{problem.count}")
    return "".join(parts)


def ways_out(problem: Problem) -> list[tuple[str, bool]]:
    """Return what mends a problem, best first, and whether that was tried out: fixes that are ready, then words.

    What a fix does already is not said again in words.
    """
    ready = [(fix.title, fix.verified) for fix in problem.fixes]
    done = {_means(title) for title, _ in ready}
    words = [line for line in problem.hint.splitlines() if line.strip() and _means(line) not in done]
    return [*ready, *((line, False) for line in words)]


def proofs(problem: Problem) -> dict[str, str]:
    """Return what was found out about fixes when they were tried out, by their titles."""
    return {fix.title: fix.proof for fix in problem.fixes if fix.verified and fix.proof}


def instances(problem: Problem) -> str:
    """Return how many parts of a model reach a site, and which: `12 instances: layers.0 … layers.11`."""
    names = [path or "the model itself" for path in problem.instances]
    shown = ", ".join(names) if len(names) <= _MOST_INSTANCES else f"{names[0]} … {names[-1]}"
    return f"{len(names)} instances: {shown}"


def answer(problem: Problem, mark: Callable[[str], str] = str) -> str:
    """Return what is so for the inputs in use: `it is False`, `it has 4 items`; the value is marked as is wanted."""
    return f"it {'has' if problem.code == _ITERATION else 'is'} {mark(problem.value)}"


def depends_on_inputs(problem: Problem) -> bool:
    """Whether the inputs in use give the value of what a problem is about: they do for what stops torch.fx.

    A mode, or an answer that a symbolic value gives, is so whatever the inputs are.
    """
    return bool(problem.value) and stops_torch_fx(problem.code)


def consequence(problem: Problem) -> str:
    """Return what follows from the value of what a problem is about: nothing where an option of the call gives it."""
    return ", so it is static in truth" if problem.kind == "metadata" else ""


def chain(text: str, length: int) -> str:
    """Return `a → b → c` with equal neighbours counted; of a long one the beginning and as much of the end as fits."""
    steps = [(shortened(step, _LONGEST_STEP), sum(1 for _ in same)) for step, same in groupby(text.split(" → "))]
    written = [step if number == 1 else f"{step} (×{number})" for step, number in steps]
    shown = written
    for left_out in range(1, len(written) - 1):
        if len(" → ".join(shown)) <= length:
            break
        shown = [written[0], "…", *written[left_out + 1 :]]
    return " → ".join(shown)


def shortened(text: str, length: int) -> str:
    """Return a text of at most a length, its end left out where it is longer."""
    return text if len(text) <= length else text[: max(length - 1, 0)].rstrip() + "…"


def _means(way: str) -> str:
    """Return the name of what a way out uses, such as `where`; all of it where it names nothing."""
    named = _NAMED.search(way)
    return way if named is None else named[1] or named[2]


def _three(number: float) -> str:
    """Return a number below about 1000 with three figures."""
    if abs(number) >= 99.95:
        return f"{number:.0f}"
    return f"{number:.1f}" if abs(number) >= 9.995 else f"{number:.2f}"

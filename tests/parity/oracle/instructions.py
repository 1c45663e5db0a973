"""Where code stood: instructions of functions, their positions in the source, and the handlers around them.

Written for the oracle alone, from what CPython says about its code objects; nothing here comes from the engine.
"""

import dis
import functools
import itertools
import os
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, NamedTuple

import torch

_HELPERS = {"einops", "opt_einsum", "jaxtyping", "beartype", "typeguard"}
_TORCH = f"{Path(torch.__file__).parent}{os.sep}"
_FX = f"{_TORCH}fx{os.sep}"
# Once torch.compile has been used, `torch.fx.Tracer.trace` is called through this.
_SWITCH = f"{_TORCH}_dynamo{os.sep}eval_frame.py"
_STDLIB = f"{sysconfig.get_path('stdlib')}{os.sep}"
_ORACLE = f"{Path(__file__).parent}{os.sep}"
# They run what they are given inside a `with` that swallows nothing.
_TRANSPARENT = tuple(
    f"{_TORCH}{name}" for name in ("nn/modules/module.py", "utils/_contextlib.py", "amp/autocast_mode.py")
)


class Instruction(NamedTuple):
    """An instruction of a function.

    CPython 3.11 does some calls in the instruction before `CALL`, and while it calls a function that is written in
    Python it seems to be in the caches after that: see `at`.
    """

    code: CodeType
    offset: int

    @classmethod
    def at(cls, code: CodeType, offset: int) -> "Instruction":
        """The instruction that is meant by where a frame stands, whether or not CPython has specialised it."""
        return cls(code, _meant(code).get(offset, offset))

    @property
    def opname(self) -> str:
        """The name of the instruction."""
        return next((each.opname for each in instructions_of(self.code) if each.offset == self.offset), "")


class Moment(NamedTuple):
    """A frame on the stack or in a traceback, at the instruction that it had come to."""

    frame: FrameType
    offset: int

    @property
    def instruction(self) -> Instruction:
        """What the frame executed."""
        return Instruction.at(self.frame.f_code, self.offset)


class Handler(NamedTuple):
    """The code that an exception goes to next, if the frame is not left."""

    code: CodeType
    target: int


@dataclass(frozen=True, slots=True)
class Place:
    """A stretch of source, of an instruction or of a whole function: lines from 1, columns as UTF-8 offsets from 0."""

    path: str
    function: str
    line: int
    column: int
    end_line: int
    end_column: int

    def is_beside(self, other: "Place") -> bool:
        """Whether two places have nothing in common."""
        mine, its = (self.line, self.column), (other.line, other.column)
        return (self.end_line, self.end_column) <= its or (other.end_line, other.end_column) <= mine

    def contains(self, line: int, column: int, end_line: int, end_column: int) -> bool:
        """Whether a span lies within this place."""
        inside = (self.line, self.column) <= (line, column)
        return inside and (end_line, end_column) <= (self.end_line, self.end_column)

    def whole_lines(self) -> "Place":
        """The lines that this place is on."""
        return Place(self.path, self.function, self.line, 0, self.end_line + 1, 0)

    def within(self, other: "Place | None") -> "Place | None":
        """This place if it is part of the other in the same function, else the other."""
        if other is None or (self.path, self.function) != (other.path, other.function):
            return other
        return self if other.contains(self.line, self.column, self.end_line, self.end_column) else other

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}-{self.end_line}:{self.end_column} in {self.function}"


def stack_of(frame: FrameType | None, boundary: FrameType | None) -> Iterator[Moment]:
    """The frames from `frame` outwards to the boundary, innermost first."""
    while frame is not None and frame is not boundary:
        yield Moment(frame, frame.f_lasti)
        frame = frame.f_back


def traceback_of(traceback: TracebackType | None) -> list[Moment]:
    """The frames of a traceback but for the oracle's and those of torch.fx's tracer, innermost first."""
    found: list[Moment] = []
    while traceback is not None:
        found.append(Moment(traceback.tb_frame, traceback.tb_lasti))
        traceback = traceback.tb_next
    return [moment for moment in reversed(found) if not _is_ours(moment.frame)]


def is_machinery(frame: FrameType) -> bool:
    """Whether a frame belongs to torch.fx or to the oracle."""
    return _is_machinery(frame.f_code.co_filename)


def is_user(frame: FrameType) -> bool:
    """Whether a frame runs code that a user would look at: not torch's, not Python's, not a helper package's."""
    return _is_user(frame.f_code.co_filename, str(frame.f_globals.get("__name__", "")))


@functools.lru_cache(maxsize=4096)
def _is_user(path: str, module: str) -> bool:
    # What `exec` and `eval` are given has no file: it is looked at where they are called.
    if path.startswith(("<frozen", "<string>", _TORCH, _ORACLE)):
        return False
    if module.partition(".")[0] in _HELPERS:
        return False
    return not path.startswith(_STDLIB) or "site-packages" in path or "dist-packages" in path


def user_place(stack: Iterable[Moment]) -> Place | None:
    """The place of the innermost user frame, or of the innermost at all if torch's own code is what is traced."""
    moments = [moment for moment in stack if not is_machinery(moment.frame)]
    shown = next((moment for moment in moments if is_user(moment.frame)), None) or next(iter(moments), None)
    if shown is None:
        return None
    place = place_of(shown.instruction)
    # The position of an unpacking is that of its targets; what is unpacked is beside them.
    return place.whole_lines() if shown.instruction.opname.startswith("UNPACK") else place


def innermost_user(frame: FrameType | None, boundary: FrameType | None) -> Instruction | None:
    """The instruction of the innermost user frame from `frame` outwards."""
    while frame is not None and frame is not boundary:
        if not is_machinery(frame) and is_user(frame):
            return Instruction.at(frame.f_code, frame.f_lasti)
        frame = frame.f_back
    return None


@functools.lru_cache(maxsize=4096)
def place_of(instruction: Instruction) -> Place:
    """The source of an instruction; the whole line where CPython knows no columns.

    CPython 3.11 gives the jump of `b` in `if a is not None and b:` the place of `a is not None`. A jump stands where
    that is which it tests, and which the instruction before it has made.
    """
    place = _written(instruction)
    if not (instruction.opname.startswith(("POP_JUMP", "JUMP")) and "_IF_" in instruction.opname):
        return place
    before = [each.offset for each in instructions_of(instruction.code) if each.offset < instruction.offset]
    tested = _written(Instruction(instruction.code, before[-1])) if before else place
    return tested if place.is_beside(tested) else place


def _written(instruction: Instruction) -> Place:
    """The source of an instruction as CPython has it."""
    code, offset = instruction
    line, end_line, column, end_column = _all_positions(code)[offset // 2]
    start = line or code.co_firstlineno
    if end_line is None or column is None or end_column is None:
        column, end_line, end_column = 0, start + 1, 0
    return Place(code.co_filename, code.co_qualname, start, column, end_line, end_column)


def end_of(instruction: Instruction) -> tuple[int, int]:
    """Where the source of an instruction ends."""
    place = place_of(instruction)
    return place.end_line, place.end_column


def definition_place(code: CodeType) -> Place:
    """A whole function."""
    lines = [line for _, _, line in code.co_lines() if line is not None]
    return Place(code.co_filename, code.co_qualname, code.co_firstlineno, 0, max(lines) + 1, 0)


def operands_of(moment: Moment) -> list[Any]:
    """The values of the variables in the expression that a frame had come to."""
    code = moment.frame.f_code
    place = place_of(moment.instruction)
    names = set[str]()
    for each, (line, end_line, column, end_column) in zip(instructions_of(code), _positions(code), strict=True):
        is_read = each.opname.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_NAME")) and line and end_line
        if is_read and place.contains(line, column or 0, end_line, end_column or 0):
            names.update([each.argval] if isinstance(each.argval, str) else each.argval)
    return [value for name, value in moment.frame.f_locals.items() if name in names]


def handlers_of(stack: Iterable[Moment]) -> tuple[Handler, ...]:
    """The handlers that an exception would meet on its way out, innermost first, torch.fx's own left out."""
    found: list[Handler] = []
    for frame, offset in stack:
        if is_machinery(frame) or frame.f_code.co_filename.startswith(_TRANSPARENT):
            continue
        target = next((entry.target for entry in _entries(frame.f_code) if entry.start <= offset < entry.end), None)
        if target is not None:
            found.append(Handler(frame.f_code, target))
    return tuple(found)


@functools.lru_cache(maxsize=4096)
def usual_answer(instruction: Instruction) -> bool:
    """What a condition of which nothing is known is taken for: what does not raise at once, or else false."""
    code, offset = instruction
    following = [each for each in instructions_of(code) if each.offset >= offset]
    jump = next((each for each in following[:2] if "JUMP" in each.opname and "IF_" in each.opname), None)
    if jump is None or (jump is not following[0] and following[0].opname != "TO_BOOL"):
        return False
    after = [each for each in following if each.offset > jump.offset]
    ahead = [each for each in instructions_of(code) if each.offset >= jump.argval]
    jumps_if_true = "IF_TRUE" in jump.opname
    if_true, if_false = (ahead, after) if jumps_if_true else (after, ahead)
    return _raises_at_once(if_false) and not _raises_at_once(if_true)


def _raises_at_once(instructions: list[dis.Instruction]) -> bool:
    for each in instructions:
        if each.opname == "RAISE_VARARGS":
            return True
        if "JUMP" in each.opname or each.opname.startswith(("RETURN", "YIELD", "FOR_ITER", "SEND", "STORE")):
            return False
    return False


def _is_ours(frame: FrameType) -> bool:
    return _is_oracle(frame.f_code.co_filename)


@functools.lru_cache(maxsize=4096)
def _is_machinery(path: str) -> bool:
    return _is_oracle(path) or path.startswith((_FX, _SWITCH))


@functools.lru_cache(maxsize=4096)
def _is_oracle(path: str) -> bool:
    return path.startswith(_ORACLE)


@functools.lru_cache(maxsize=4096)
def instructions_of(code: CodeType) -> list[dis.Instruction]:
    """The instructions of a function, caches left out."""
    return list(dis.get_instructions(code))


@functools.lru_cache(maxsize=4096)
def _all_positions(code: CodeType) -> list[Any]:
    return list(code.co_positions())


def _positions(code: CodeType) -> list[Any]:
    """The positions of `_instructions`, which leave caches out."""
    return [_all_positions(code)[each.offset // 2] for each in instructions_of(code)]


@functools.lru_cache(maxsize=4096)
def _meant(code: CodeType) -> dict[int, int]:
    """For the caches of an instruction the instruction, for each `PRECALL` the `CALL` that follows it."""
    meant: dict[int, int] = {}
    for first, second in itertools.pairwise([*instructions_of(code), None]):
        assert first is not None
        end = len(code.co_code) if second is None else second.offset
        start = second.offset if second is not None and first.opname == "PRECALL" else first.offset
        meant.update(dict.fromkeys(range(first.offset, end, 2), start))
    return meant


@functools.lru_cache(maxsize=4096)
def _entries(code: CodeType) -> list[Any]:
    return list(dis.Bytecode(code).exception_entries)  # type: ignore[attr-defined]

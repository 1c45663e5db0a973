"""What the bytecode that called a proxy is about to do with the answer, and what else it tells that no value does.

Two questions are asked while a trace runs: how many targets an unpacking has (`a, b = proxy` gives no other hint of
its length), and whether a truth value decides an `assert`. Both are answered by looking at a few instructions beside
the one in execution, so they cost the same in a function of ten lines and of ten thousand.
"""

import dis
import itertools
import sys
from types import CodeType, FrameType
from typing import Final

_UNPACK_SEQUENCE: Final = dis.opmap["UNPACK_SEQUENCE"]
_EXTENDED_ARG: Final = dis.opmap["EXTENDED_ARG"]
_LOAD_ASSERTION_ERROR: Final = dis.opmap.get("LOAD_ASSERTION_ERROR", -1)
_LOAD_COMMON_CONSTANT: Final = dis.opmap.get("LOAD_COMMON_CONSTANT", -1)
_FALLS_THROUGH_WHEN_FALSE: Final = frozenset(
    code for name, code in dis.opmap.items() if name in {"POP_JUMP_IF_TRUE", "POP_JUMP_FORWARD_IF_TRUE"}
)
_CONVERTS_TO_BOOL: Final = dis.opmap.get("TO_BOOL", -1)
_COMPARES: Final = dis.opmap["COMPARE_OP"]
_AND_CONVERTS: Final = 16 if sys.version_info >= (3, 13) else 0
"""The flag of a comparison that leaves a bool."""
_BINARY_OP: Final = dis.opmap["BINARY_OP"]
_AUGMENTED: Final = range(13, 26)
"""The arguments of `BINARY_OP` for `+=` and its like, as in CPython's `opcode.h`."""
_CALLS: Final = frozenset(code for name, code in dis.opmap.items() if name.startswith("CALL"))
_READS_ATTRIBUTE: Final = frozenset(code for name, code in dis.opmap.items() if name in {"LOAD_ATTR", "LOAD_METHOD"})
_STORE_ATTR: Final = dis.opmap["STORE_ATTR"]
_STORE_NAME: Final = dis.opmap["STORE_NAME"]
_LOAD_CONST: Final = dis.opmap["LOAD_CONST"]
_ENDS_BLOCK: Final = frozenset(
    {
        *dis.hasjrel,
        *dis.hasjabs,
        *(dis.opmap[name] for name in ("RAISE_VARARGS", "RETURN_VALUE", "RETURN_CONST") if name in dis.opmap),
    }
)
_UNIT: Final = 2
_LOAD_FAST: Final = dis.opmap["LOAD_FAST"]
_CANNOT_RAISE: Final = frozenset({dis.opmap["STORE_FAST"], _LOAD_CONST})


def raising_at(frame: FrameType, at: int) -> int:
    """Return the offset of the instruction that raised in a frame, where the frame says that it had come to `at`.

    CPython 3.11 joins pairs of instructions that move variables once a function has run a few times, and says of a
    variable that is not bound, in the second of them, that the first has raised.
    """
    bytecode, names = frame.f_code.co_code, frame.f_code.co_varnames
    after = at + _UNIT
    if sys.version_info >= (3, 12) or not 0 <= at < len(bytecode) - _UNIT or bytecode[after] != _LOAD_FAST:
        return at
    loads = bytecode[at] == _LOAD_FAST
    if not (loads or bytecode[at] in _CANNOT_RAISE) or max(bytecode[after + 1], loads * bytecode[at + 1]) >= len(names):
        return at
    bound = frame.f_locals
    return at if names[bytecode[after + 1]] in bound or (loads and names[bytecode[at + 1]] not in bound) else after


def unpack_count(frame: FrameType) -> int | None:
    """How many targets the unpacking in execution in `frame` has; None if it unpacks nothing or by a star."""
    return unpacked_at(frame.f_code, frame.f_lasti)


def unpacked_at(code: CodeType, at: int) -> int | None:
    """How many targets the unpacking at an offset has; None if that unpacks nothing or by a star."""
    bytecode = code.co_code
    return _argument(bytecode, at) if bytecode[at] == _UNPACK_SEQUENCE else None


def decides_assert(frame: FrameType) -> bool:
    """Whether the truth value asked for in `frame` is the condition of an `assert` statement."""
    bytecode = frame.f_code.co_code
    at = frame.f_lasti
    if bytecode[at] == _CONVERTS_TO_BOOL or (bytecode[at] == _COMPARES and bytecode[at + 1] & _AND_CONVERTS):
        at = _next_instruction(bytecode, at)
    if bytecode[at] not in _FALLS_THROUGH_WHEN_FALSE:
        return False
    following = _next_instruction(bytecode, at)
    return bytecode[following] == _LOAD_ASSERTION_ERROR or (
        bytecode[following] == _LOAD_COMMON_CONSTANT and bytecode[following + 1] == 0
    )


def passing_value(frame: FrameType) -> bool | None:
    """The truth value with which the `assert` passes that asks for one in `frame`; None if no assert does.

    Unlike `decides_assert`, this sees through `not` and `and`, and takes as long as the function has instructions. An
    `if` that does nothing but raise what the function itself does not catch is an assert as well.
    """
    instructions = list(dis.get_instructions(frame.f_code))
    places = {each.offset: index for index, each in enumerate(instructions)}
    at = places.get(frame.f_lasti)
    if at is None:
        return None
    if instructions[at].opcode in {_CONVERTS_TO_BOOL, _COMPARES}:
        at += 1
    jump = instructions[at]
    if not jump.opname.startswith("POP_JUMP") or not jump.opname.endswith(("IF_TRUE", "IF_FALSE")):
        return None
    jumps_when = jump.opname.endswith("IF_TRUE")
    following = at + 1
    while instructions[following].opname == "NOT_TAKEN":
        following += 1
    if _begins_failure(instructions[following]) or _only_raises(frame, instructions[following:]):
        return jumps_when
    target = places[jump.argval]
    # Between the two is another condition, or the end of a loop's body.
    is_body = "JUMP" in instructions[target - 1].opname
    if is_body and _only_raises(frame, instructions[target:]):
        return not jumps_when
    return not jumps_when if _begins_failure(instructions[target]) else None


def _begins_failure(instruction: dis.Instruction) -> bool:
    """Whether an instruction is the first of what an assert does that does not pass."""
    if instruction.opcode == _LOAD_COMMON_CONSTANT:
        return instruction.arg == 0
    return instruction.opcode == _LOAD_ASSERTION_ERROR


def _only_raises(frame: FrameType, block: list[dis.Instruction]) -> bool:
    """Whether what instructions begin with does nothing but raise what the function of `frame` lets out."""
    end = next((each for each in block if each.opcode in _ENDS_BLOCK), None)
    if end is None or end.opname != "RAISE_VARARGS":
        return False
    if any(each.is_jump_target for each in itertools.takewhile(lambda each: each is not end, block[1:])):
        return False
    handled = dis.Bytecode(frame.f_code).exception_entries  # pyright: ignore[reportAttributeAccessIssue] - not in stubs.
    return not any(each.start <= end.offset < each.end for each in handled)


def reads_attribute(frame: FrameType) -> bool:
    """Whether the instruction in execution in `frame` reads an attribute by its name."""
    return frame.f_code.co_code[frame.f_lasti] in _READS_ATTRIBUTE


def opname_at(code: CodeType, lasti: int) -> str:
    """The name of the instruction at byte offset `lasti`, such as `STORE_SUBSCR`; empty if there is none."""
    bytecode = code.co_code
    return dis.opname[bytecode[lasti]] if 0 <= lasti < len(bytecode) else ""


def augments(code: CodeType, lasti: int) -> bool:
    """Whether the instruction at byte offset `lasti` is that of an augmented assignment, such as `+=`."""
    bytecode = code.co_code
    return 0 <= lasti < len(bytecode) and bytecode[lasti] == _BINARY_OP and bytecode[lasti + 1] in _AUGMENTED


def calls_in(code: CodeType) -> frozenset[int]:
    """The byte offsets of the instructions of a function that call something."""
    bytecode = code.co_code
    return frozenset(offset for offset in range(0, len(bytecode), _UNIT) if bytecode[offset] in _CALLS)


def attributes_stored(code: CodeType) -> set[str]:
    """The names of the attributes that a function assigns, of whatever object."""
    bytecode = code.co_code
    if _STORE_ATTR not in bytecode[::_UNIT]:
        return set()
    at = range(0, len(bytecode), _UNIT)
    return {code.co_names[_argument(bytecode, offset)] for offset in at if bytecode[offset] == _STORE_ATTR}


def constants_named(code: CodeType, names: frozenset[str]) -> frozenset[int]:
    """The indices of the constants that a class body stores under certain names, and uses for nothing else."""
    if names.isdisjoint(code.co_names):
        return frozenset()
    bytecode = code.co_code
    loads = [offset for offset in range(0, len(bytecode), _UNIT) if bytecode[offset] == _LOAD_CONST]
    named, used = set[int](), set[int]()
    for offset in loads:
        after = _next_instruction(bytecode, offset)
        stored = after < len(bytecode) and bytecode[after] == _STORE_NAME
        kept = stored and code.co_names[_argument(bytecode, after)] in names
        (named if kept else used).add(_argument(bytecode, offset))
    return frozenset(named - used)


def _argument(bytecode: bytes, at: int) -> int:
    """The argument of the instruction at `at`, with the high bytes that `EXTENDED_ARG` puts before it."""
    value = bytecode[at + 1]
    shift = 8
    at -= _UNIT
    while at >= 0 and bytecode[at] == _EXTENDED_ARG:
        value |= bytecode[at + 1] << shift
        shift += 8
        at -= _UNIT
    return value


def _next_instruction(bytecode: bytes, at: int) -> int:
    """The offset of the instruction after the one at `at`: inline caches are skipped, and `NOT_TAKEN` markers too."""
    at += _UNIT
    while dis.opname[bytecode[at]] in {"CACHE", "NOT_TAKEN"}:
        at += _UNIT
    return at

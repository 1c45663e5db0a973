"""What the code does that calls something, or derives from it.

Whether it decorates, keeps, unpacks, constructs, or raises if it is not given the right answer.
"""

import ast
import dis
import functools
import inspect
import linecache
import opcode
import sys
import types
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from torch import nn

from fxengine.classification import Moment
from fxengine.syntax import nodes_around
from fxworker.records import recorded

_UNPACKING: Final = frozenset({opcode.opmap["UNPACK_SEQUENCE"], opcode.opmap["UNPACK_EX"]})
"""What takes a value apart, into all its items or into the first ones and the rest."""

EXPRESSION: Final = "<inferred>"
"""What stands for the file of the expressions that are tried."""

_SELF_AND_WRAPPED: Final = 2
"""With how many arguments a method is called that decorates."""


def undecorated(value: Any) -> Any:
    """Return what a definition is without a decorator: itself, and a wrapper leaves what it wraps as it is too.

    A class of nothing but annotated fields is made a record. A wrapper is a function of what is called and of what it
    is called with: `f(wrapped, instance, args, kwargs)`.
    """
    if isinstance(value, type) and value.__base__ is object:
        recorded(value)
    if not inspect.isfunction(value) or tuple(inspect.signature(value).parameters)[-2:] != ("args", "kwargs"):
        return value
    if value.__code__.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        return value

    @functools.wraps(value)
    def undecorated(*args: Any, **kwargs: Any) -> Any:
        """Return what is decorated, where a wrapper is called with nothing else than that."""
        is_decorated = bool(args) and len(args) <= _SELF_AND_WRAPPED and not kwargs and callable(args[-1])
        return args[-1] if is_decorated else value(*args, **kwargs)

    return undecorated


def is_decorated(value: Any, frame: types.FrameType) -> bool:
    """Whether what a frame calls something with is a definition that it decorates: it has no name yet there.

    What is taken apart at once is no definition.
    """
    if _following(frame.f_code, frame.f_lasti) == "UNPACK_SEQUENCE":
        return False
    if isinstance(value, type) and value.__module__ != frame.f_globals.get("__name__"):
        return False
    if not isinstance(value, type | types.FunctionType | staticmethod | classmethod):
        return False
    first, *rest = value.__qualname__.rpartition("<locals>.")[2].split(".")
    found = frame.f_locals.get(first, frame.f_globals.get(first))
    for each in rest:
        found = inspect.getattr_static(found, each, None)
    return found is not value


def is_dropped(frame: types.FrameType) -> bool:
    """Whether a frame keeps nothing of what it calls right now."""
    return drops(frame.f_code, frame.f_lasti)


def drops(code: types.CodeType, at: int) -> bool:
    """Whether code keeps nothing of what the call gives that it has come to."""
    return at >= 0 and _following(code, at) == "POP_TOP"


def _following(code: types.CodeType, at: int) -> str:
    """Return the name of the instruction that comes after the call that code has come to."""
    # The interpreter may stand behind the call, among what it keeps for it.
    return next((each.opname for each in dis.get_instructions(code) if each.offset > at), "")


def is_guarded(frame: types.FrameType) -> bool:
    """Whether a frame is prepared for what it calls right now to raise: within `try` or `with`."""
    code: Any = dis.Bytecode(frame.f_code)  # Typeshed does not know its entries.
    return any(each.start <= frame.f_lasti < each.end for each in code.exception_entries)


def is_raised(frame: types.FrameType) -> bool:
    """Whether a frame raises what it calls right now."""
    calling = Moment(frame, frame.f_lasti)
    return any(isinstance(each, ast.Raise) for each in nodes_around(calling.path, calling.source.span))


def reads_attribute(frame: types.FrameType) -> bool:
    """Whether a frame reads an attribute by its name right now, and does not only ask whether there is one."""
    code, at = frame.f_code.co_code, frame.f_lasti
    return at >= 0 and opcode.opname[code[at]].startswith(("LOAD_ATTR", "LOAD_METHOD"))


def calls_attribute(frame: types.FrameType) -> bool:
    """Whether a frame reads an attribute right now in order to call it, as a method."""
    code, at = frame.f_code.co_code, frame.f_lasti
    if at < 0:
        return False
    name = opcode.opname[code[at]]
    # From 3.12 on Python has one instruction for both, which says in a bit whether it is for a call.
    return name == "LOAD_METHOD" or (name == "LOAD_ATTR" and sys.version_info >= (3, 12) and bool(code[at + 1] & 1))


def is_asserted(frame: types.FrameType) -> bool:
    """Whether a frame asks right now what must be so, or it raises: `assert ask()`, `if not ask(): raise`."""
    return asserted(frame) is True


def asserted(frame: types.FrameType, *, or_else: bool = False) -> bool | None:
    """Return what the answer to what a frame asks right now must be, or it raises; None where it does not.

    Args:
        frame: The frame.
        or_else: Whether the last of several choices counts as well: `elif ask(): … else: raise`.
    """
    asking = Moment(frame, frame.f_lasti)
    holds = True
    inner, *around = nodes_around(asking.path, asking.source.span)[::-1] or [None]
    match inner:
        # Python 3.11 says of a truth value only which statement wants it.
        case ast.Assert(test=test):
            return _must_be(test, True)
        case ast.If(test=test, body=[*_, ast.Raise()]):
            return _must_be(test, False)
        case ast.If(test=test, orelse=[*_, ast.Raise()]) if or_else:
            return _must_be(test, True)
        case _:
            pass
    for node in around:
        match node:
            case ast.UnaryOp(op=ast.Not()):
                holds = not holds
            case ast.Assert(test=test) if test is inner:
                return holds
            case ast.If(test=test, body=[*_, ast.Raise()]) if test is inner:
                return not holds
            case ast.If(test=test, orelse=[*_, ast.Raise()]) if test is inner and or_else:
                return holds
            case ast.BoolOp() | ast.GeneratorExp() | ast.Call(func=ast.Name(id="all" | "any")):
                pass
            case _:
                return None
        inner = node
    return None


def must_contain(frame: types.FrameType) -> bool:
    """Whether a frame asks right now whether something has an item, and raises if it has not."""
    code, at = frame.f_code.co_code, frame.f_lasti
    if at < 0 or opcode.opname[code[at]] != "CONTAINS_OP":
        return False
    is_negated = bool(code[at + 1])
    return asserted(frame) is (not is_negated)


def is_to_import(frame: types.FrameType) -> bool:
    """Whether a module asks right now what must be so for it to import something: `if _AVAILABLE: import codec`."""
    if frame.f_code.co_name != "<module>":
        return False
    asking = Moment(frame, frame.f_lasti)
    for node in nodes_around(asking.path, asking.source.span)[::-1]:
        match node:
            case ast.If(test=test, body=body):
                return _must_be(test, True) and all(isinstance(each, ast.Import | ast.ImportFrom) for each in body)
            case ast.expr():
                pass
            case _:
                break
    return False


def _must_be(test: ast.expr, holds: bool) -> bool:
    """Whether all that a test combines must be so for the test to hold, or not to."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _must_be(operand, not holds)
        case ast.BoolOp(values=values):
            return all(_must_be(each, holds) for each in values)
        case _:
            return holds


def is_constructing(frame: types.FrameType | None) -> bool:
    """Whether a frame runs while a model is constructed, or its arguments are that were searched for.

    What it calls later may write into what it is given.
    """
    return any(each.f_code.co_filename == EXPRESSION or _is_constructor(each) for each in outwards(frame))


def outwards(frame: types.FrameType | None) -> Iterator[types.FrameType]:
    """Yield a frame, and those that it was called from, innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_constructor(frame: types.FrameType) -> bool:
    """Whether a frame is that of a model's constructor, or of what decorates one."""
    code, values = frame.f_code, frame.f_locals
    if code.co_name == "__init__":
        return isinstance(values.get("self"), nn.Module)
    # What is asked of anything else, a symbolic value among it, would be a part of the graph.
    around = [value for name in code.co_freevars if inspect.isfunction(value := values.get(name))]
    if not any(each.__name__ == "__init__" for each in around):
        return False
    # Mostly that takes whatever comes.
    first = values.get(code.co_varnames[0]) if code.co_varnames else None
    return isinstance(first[0] if type(first) is tuple and first else first, nn.Module)


def wanted_by(frame: types.FrameType) -> int:
    """Return into how many variables a frame unpacks what it iterates right now, 0 where it does something else."""
    code, at = frame.f_code.co_code, frame.f_lasti
    return code[at + 1] if at >= 0 and code[at] in _UNPACKING else 0


def defines_forward(frame: types.FrameType) -> bool:
    """Whether a frame defines a class right now that has a `forward` of its own."""
    text = "".join(linecache.getlines(frame.f_code.co_filename))
    return any(first <= frame.f_lineno <= last for first, last in _heads_of_models(text))


@lru_cache(maxsize=64)
def _heads_of_models(text: str) -> tuple[tuple[int, int], ...]:
    """Return the lines, from and to, of the heads of classes that have a `forward` which is a method."""
    found: list[tuple[int, int]] = []
    for node in ast.walk(parsed(text)):
        for each in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(each, ast.FunctionDef) and each.name == "forward" and not each.decorator_list:
                assert isinstance(node, ast.ClassDef)
                found.append((min(one.lineno for one in (node, *node.decorator_list)), node.body[0].lineno))
    return tuple(found)


def parsed(text: str) -> ast.Module:
    """Return the tree of a text, an empty one where it has none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return ast.Module([], [])

"""Whether the user's own code would catch an exception that is about to be raised.

Where it would, the exception is not the end of a trace, and torch.fx would say nothing; so it has to be raised really.
Found by the syntax of the functions that are running, with the names in their handlers looked up where they run.
"""

import ast
import builtins
import contextlib
import functools
from collections.abc import Iterator
from itertools import pairwise
from types import CodeType, FrameType, ModuleType
from typing import Any, Final

from fxengine.source import frame_at, is_engine_file
from fxengine.syntax import nodes_around

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def catcher(error: BaseException, frame: FrameType | None, outermost: CodeType | None) -> FrameType | None:
    """The frame whose code would catch `error` if it were raised in `frame`; None if nobody would.

    Args:
        error: The exception.
        frame: The innermost frame that it would pass.
        outermost: The code that runs everything in question; what is further out does not count. None if all does.
    """
    while frame is not None and frame.f_code is not outermost:
        code = frame.f_code
        if not is_engine_file(code.co_filename):
            for expression in _handlers_at(code, frame.f_lasti):
                if expression is None or isinstance(error, _classes(expression, frame)):
                    return frame
        frame = frame.f_back
    return None


@functools.lru_cache(maxsize=4096)
def _handlers_at(code: CodeType, lasti: int) -> tuple[ast.expr | None, ...]:
    """The exception types that are handled around an instruction, as they are written; None for all of them."""
    if not _is_protected(code, lasti):
        return ()
    around = nodes_around(code.co_filename, frame_at(code, lasti).span)
    functions = [index for index, node in enumerate(around) if isinstance(node, _FUNCTIONS)]
    own = around[functions[-1] + 1 :] if functions else around
    return tuple(caught for node, inner in pairwise(own) for caught in _caught_by(node, inner))


def _caught_by(node: ast.AST, inner: ast.AST) -> Iterator[ast.expr | None]:
    """What a statement catches that is raised in `inner`, one of its parts."""
    match node:
        case ast.Try() | ast.TryStar() if any(inner is statement for statement in node.body):
            for handler in node.handlers:
                if not _passes_on(handler.body):
                    yield handler.type
            if _leaves(node.finalbody):
                yield None
        case ast.With() if any(inner is statement for statement in node.body):
            for item in node.items:
                if isinstance(item.context_expr, ast.Call):
                    yield item.context_expr
        case _:
            return


def _passes_on(body: list[ast.stmt]) -> bool:
    """Whether a handler raises again what it has caught."""
    return isinstance(body[-1], ast.Raise) and body[-1].exc is None and not _leaves(body)


def _leaves(body: list[ast.stmt]) -> bool:
    """Whether statements may leave a block, which ends an exception that is under way."""
    return any(isinstance(n, ast.Return | ast.Break | ast.Continue) for statement in body for n in ast.walk(statement))


def _classes(expression: ast.expr, frame: FrameType) -> tuple[type[BaseException], ...]:
    """The exception types that an expression stands for, of `suppress(…)` its arguments; those that can be told."""
    match expression:
        case ast.Tuple():
            return tuple(kind for element in expression.elts for kind in _classes(element, frame))
        case ast.Call():
            if _value(expression.func, frame) is not contextlib.suppress:
                return ()
            return tuple(kind for argument in expression.args for kind in _classes(argument, frame))
        case _:
            value = _value(expression, frame)
    found = value if isinstance(value, tuple) else (value,)
    return tuple(kind for kind in found if isinstance(kind, type) and issubclass(kind, BaseException))


def _value(expression: ast.expr, frame: FrameType) -> Any:
    """What a dotted name means in a frame, or None."""
    match expression:
        case ast.Name():
            for scope in (frame.f_locals, frame.f_globals, vars(builtins)):
                if expression.id in scope:
                    return scope[expression.id]
            return None
        case ast.Attribute():
            owner = _value(expression.value, frame)
            # Attributes of other objects may be properties, which must not run.
            return vars(owner).get(expression.attr) if isinstance(owner, ModuleType | type) else None
        case _:
            return None


def _is_protected(code: CodeType, lasti: int) -> bool:
    """Whether CPython would go somewhere else in this code if the instruction raised."""
    numbers = _varints(code.co_exceptiontable)
    for start in numbers:
        length, _target, _depth = next(numbers), next(numbers), next(numbers)
        # Counted in instructions of two bytes.
        if 2 * start <= lasti < 2 * (start + length):
            return True
    return False


def _varints(table: bytes) -> Iterator[int]:
    """The numbers of an exception table: six bits a byte, high ones first, and a bit that says whether more follow."""
    value = 0
    for byte in table:
        value = value << 6 | byte & 0x3F
        if not byte & 0x40:
            yield value
            value = 0

"""What to answer where a truth value is asked for and nothing is known: the outcome that lets the model go on.

An `assert` holds, a branch that only raises is not taken, a loop ends; otherwise the answer is no.
"""

import ast
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final

from fxengine.source import frame_at
from fxengine.syntax import Span, nodes_around, span_of

_PLAIN: Final = (
    ast.Constant,
    ast.Name,
    ast.Attribute,
    ast.JoinedStr,
    ast.FormattedValue,
    ast.Call,
    ast.keyword,
    ast.BinOp,
    ast.operator,
    ast.Subscript,
    ast.UnaryOp,
    ast.USub,
    ast.expr_context,
    ast.Tuple,
)
"""What the value of an exception may consist of so that no question is asked when it is made."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What follows from the truth of an expression.

    Attributes:
        likely: The answer with which the model goes on.
        idle: The answers after which an exception is raised at once, and nothing that could be refused is done.
    """

    likely: bool = False
    idle: frozenset[bool] = frozenset()


def outlook(code: CodeType, lasti: int, operand: Span) -> Outlook:
    """What follows from the truth of the expression at `operand`, which the instruction asks for."""
    return _outlook(code.co_filename, frame_at(code, lasti).span, operand)


@functools.lru_cache(maxsize=4096)
def is_in_while(code: CodeType, lasti: int) -> bool:
    """Whether an instruction is part of a `while` loop of its function."""
    around = nodes_around(code.co_filename, frame_at(code, lasti).span)
    return any(isinstance(node, ast.While) for node in _own(around))


@functools.lru_cache(maxsize=4096)
def _outlook(path: str, instruction: Span, operand: Span) -> Outlook:
    around = _own(nodes_around(path, instruction))
    for index in range(len(around) - 1, -1, -1):
        node = around[index]
        match node:
            case ast.If() | ast.While() | ast.Assert() if _decides(node.test, operand):
                block = around[index - 1] if index else None
                return _weighed(node, operand, block)
            case ast.stmt():
                break
            case _:
                continue
    return Outlook()


def _weighed(node: ast.If | ast.While | ast.Assert, operand: Span, block: ast.AST | None) -> Outlook:
    """The outlook of an operand of a statement's condition; `block` is what the statement is in."""
    match node:
        case ast.Assert():
            wanted = True
            idle = {False} if node.msg is None or _is_plain(node.msg) else set[bool]()
        case ast.While():
            wanted, idle = False, set[bool]()
        case ast.If():
            instead = node.orelse or (_following(node, block) if _ends(node.body) else [])
            wanted = _raises(instead) and not _raises(node.body)
            idle = {value for value, body in ((True, node.body), (False, instead)) if _only_raises(body)}
    sign = _sign(node.test, operand)
    return Outlook(
        wanted is sign, frozenset(answer for answer in (False, True) if _value(node.test, operand, answer) in idle)
    )


def _own(around: Sequence[ast.AST]) -> Sequence[ast.AST]:
    """The part of nested syntax nodes that belongs to the innermost function."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    return around[max((i + 1 for i, node in enumerate(around) if isinstance(node, functions)), default=0) :]


def _decides(test: ast.expr, operand: Span) -> bool:
    """Whether the truth of the operand, and not what is computed with it, decides a condition."""
    match test:
        case ast.BoolOp():
            return any(_decides(value, operand) for value in test.values)
        case ast.UnaryOp(op=ast.Not()):
            return _decides(test.operand, operand)
        case ast.Compare() if len(test.ops) > 1:
            span = span_of(test)
            return span is not None and span.contains(operand)
        case _:
            return span_of(test) == operand


def _sign(test: ast.expr, operand: Span) -> bool:
    """Whether a condition follows the truth of its operand; False if it follows the opposite."""
    match test:
        case ast.BoolOp():
            return next(_sign(value, operand) for value in test.values if _decides(value, operand))
        case ast.UnaryOp(op=ast.Not()):
            return not _sign(test.operand, operand)
        case ast.Compare(ops=[ast.NotIn()]):
            return False
        case _:
            return True


def _value(test: ast.expr, operand: Span, answer: bool) -> bool | None:
    """What a condition is once one operand has an answer; None if that is open."""
    match test:
        case ast.BoolOp():
            deciding = isinstance(test.op, ast.Or)
            return deciding if any(_value(v, operand, answer) is deciding for v in test.values) else None
        case ast.UnaryOp(op=ast.Not()):
            inner = _value(test.operand, operand, answer)
            return None if inner is None else not inner
        case ast.Compare() if len(test.ops) > 1:
            return False if not answer and _decides(test, operand) else None
        case ast.Compare(ops=[ast.In() | ast.NotIn()]):
            # What is not equal to one item may be equal to the next.
            return _sign(test, operand) if answer and _decides(test, operand) else None
        case _:
            return answer if span_of(test) == operand else None


def _following(node: ast.stmt, block: ast.AST | None) -> list[ast.stmt]:
    """The statements after one in its block."""
    for name in ("body", "orelse", "finalbody"):
        statements: Any = getattr(block, name, None)
        # The body of a lambda is an expression.
        if isinstance(statements, list):
            for index, statement in enumerate(statements):
                if statement is node:
                    return statements[index + 1 :]
    return []


def _ends(body: list[ast.stmt]) -> bool:
    return isinstance(body[-1], ast.Return | ast.Continue | ast.Break)


def _raises(body: list[ast.stmt]) -> bool:
    """Whether statements raise, whatever happens before."""
    return any(
        isinstance(statement, ast.Raise)
        or (isinstance(statement, ast.If) and _raises(statement.body) and _raises(statement.orelse))
        or (isinstance(statement, ast.Assert) and isinstance(statement.test, ast.Constant) and not statement.test.value)
        for statement in body
    )


def _only_raises(body: list[ast.stmt]) -> bool:
    match body:
        case [ast.Raise(exc=None), *_]:
            return True
        case [ast.Raise(exc=exception, cause=cause), *_] if exception is not None:
            return _is_plain(exception) and (cause is None or _is_plain(cause))
        case _:
            return False


def _is_plain(expression: ast.expr) -> bool:
    """Whether nothing is asked of a symbolic value when an exception's argument is computed."""
    for node in ast.walk(expression):
        if not isinstance(node, _PLAIN) or isinstance(node, ast.Mod):
            return False
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
            return False
        if isinstance(node, ast.Call) and not _is_class_name(node.func):
            return False
    return True


def _is_class_name(function: ast.expr) -> bool:
    """Whether a called expression looks like an exception's class, or asks for a type."""
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name == "type" or name.endswith(("Error", "Exception"))

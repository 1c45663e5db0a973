"""Slips in a model's own code: the base's constructor is not called first, a name is another one, `self` is missing.

Also parts that are handed to a container in a list, or as classes.
"""

import ast
import re
from collections.abc import Iterator
from typing import Final

from fxls.discovery.syntax import FunctionNode, contains, span_of
from fxls.fixes.source import Proposal, Source
from fxworker.wire import Edit, Location, Problem, Span

_CALL: Final = "super().__init__()"
_FIRST: Final = f"Call `{_CALL}` first"
_OF_BASE: Final = re.compile(
    r"before Module\.__init__\(\) call|does not call `super\(\)|has no attribute '_(?:modules|parameters|buffers)'"
    r"|'__init__' of 'super'|__init__\(\) takes|name '\w+' is not defined|super\("
)
"""What is said of a module whose base is not made, or made wrongly."""

_NO_MODULE: Final = "is not a Module subclass"


def initializing(source: Source, problem: Problem) -> Iterator[Proposal]:
    """Yield the constructor around a problem with a call of the base's constructor before all else."""
    constructor = _constructor_at(source, problem.location.span)
    if constructor is None or _OF_BASE.search(problem.original) is None:
        return
    first = constructor.body[0]
    if first.lineno == constructor.lineno:
        return
    calls = [each for each in constructor.body if isinstance(each, ast.Expr) and _asks_for_base(each.value)]
    if len(calls) > 1:
        return
    proxy = _called_with(calls[0].value) if calls else None
    if proxy is not None and not _is_right(calls[0].value):
        yield Proposal("Write `super()`", (Edit(Location(source.path, span_of(proxy)), "super()"),))
    elif not calls:
        yield Proposal(_FIRST, (_inserted(source, first),))
    elif not _is_right(calls[0].value) or span_of(calls[0]) == problem.location.span:
        yield Proposal(f"Write `{_CALL}`", (Edit(Location(source.path, span_of(calls[0])), _CALL),))
    elif calls[0] is not first:
        yield Proposal(_FIRST, (_inserted(source, first), _deleted(source, calls[0])))


def naming(source: Source, problem: Problem) -> Iterator[Proposal]:
    """Yield the name that is probably meant in place of one that is not there."""
    slip, node = problem.slip, source.expression(problem.location.span)
    if slip is not None and slip.kind == "name" and isinstance(node, ast.Name | ast.Attribute):
        yield Proposal(f"Write `{slip.name}`", (Edit(Location(source.path, span_of(node)), slip.name),))


def receiving(source: Source, problem: Problem) -> Iterator[Proposal]:
    """Yield a method with the parameter `self` that it lacks."""
    if problem.slip is None or problem.slip.kind != "self":
        return
    span = problem.location.span
    line = source.mapper.line(span.line).encode()
    if line[span.end_column : span.end_column + 1] == b"(":
        place = Span(span.line, span.end_column + 1, span.line, span.end_column + 1)
        is_bare = line[span.end_column + 1 :].lstrip().startswith(b")")
        yield Proposal(
            "Add the parameter `self`", (Edit(Location(source.path, place), "self" if is_bare else "self, "),)
        )


def containing(source: Source, problem: Problem) -> Iterator[Proposal]:
    """Yield the call of a container with the items of a list, or with what classes make, where it is given these."""
    node = source.expression(problem.location.span)
    if not isinstance(node, ast.Call) or _NO_MODULE not in problem.original:
        return
    if len(node.args) == 1 and problem.original.endswith(f"list {_NO_MODULE}"):
        given = node.args[0]
        text = source.written(given) if isinstance(given, ast.List | ast.ListComp) else source.operand(given)
        edit = Edit(Location(source.path, span_of(given)), f"*{text}")
        yield Proposal("Hand on the items of the list: `*`", (edit,))
    name = problem.original.removesuffix(_NO_MODULE).strip().rpartition(".")[2]
    parts = [each for each in node.args if isinstance(each, ast.Attribute | ast.Name)]
    named, called = [each for each in parts if _last(each) == name], _called_around(source, node)
    classes = named or [each for each in parts if isinstance(each, ast.Name) and each.id in called]
    if classes:
        edits = tuple(source.followed(each, "()") for each in classes)
        yield Proposal(f"Make one: `{source.written(classes[0])}()`", edits)


def _called_around(source: Source, node: ast.expr) -> set[str]:
    """Return the names that the function around an expression calls."""
    function = source.function(node)
    calls = (each.func for each in (ast.walk(function) if function is not None else ()) if isinstance(each, ast.Call))
    return {each.id for each in calls if isinstance(each, ast.Name)}


def _constructor_at(source: Source, span: Span) -> FunctionNode | None:
    """Return the constructor of the innermost class around a place."""
    point = (span.line, span.column)
    classes = [
        each for each in ast.walk(source.tree) if isinstance(each, ast.ClassDef) and contains(span_of(each), point)
    ]
    inner = classes[-1].body if classes else []
    return next((each for each in inner if isinstance(each, FunctionNode) and each.name == "__init__"), None)


def _asks_for_base(node: ast.expr) -> bool:
    """Whether an expression calls the constructor of a base, or was to."""
    match node:
        case ast.Call(func=ast.Attribute(attr="__init__")):
            return True
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__"):
            return True
        case _:
            return False


def _called_with(node: ast.expr) -> ast.expr | None:
    """Return `super`, or the call of it, whose constructor is called with arguments; None where no such is."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")) | ast.Name(id="super") as proxy)
        ) if node.args or node.keywords:
            return proxy
        case _:
            return None


def _is_right(node: ast.expr) -> bool:
    """Whether an expression calls the constructor of the base as it is meant to be called."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="super"), args=given))):
            return not given
        case _:
            return False


def _inserted(source: Source, first: ast.stmt) -> Edit:
    """Return the call in front of a function's first statement, or behind it where that is what says what it does."""
    indent = " " * first.col_offset
    span = span_of(first)
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        place = Span(span.end_line, span.end_column, span.end_line, span.end_column)
        return Edit(Location(source.path, place), f"\n{indent}{_CALL}")
    return Edit(Location(source.path, Span(span.line, span.column, span.line, span.column)), f"{_CALL}\n{indent}")


def _deleted(source: Source, statement: ast.stmt) -> Edit:
    """Return the deletion of a statement that has its lines to itself."""
    span = span_of(statement)
    return Edit(Location(source.path, Span(span.line, 0, span.end_line + 1, 0)), "")


def _last(node: ast.Attribute | ast.Name) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id

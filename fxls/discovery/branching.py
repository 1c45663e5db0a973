"""What may be left out around a place in a file, and what decides that: by syntax alone, without knowing what ran.

Only what could give a node of a graph counts: a part that calls something or computes. Calls of Python's own functions
do not, for most of what is asked of them is known while a model is traced.
"""

import ast
import builtins
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from fxls.discovery.syntax import FunctionNode, contains, span_of
from fxworker.wire import Span

BranchKind: TypeAlias = Literal["branch", "case", "loop", "while", "end of loop", "operand", "element"]

_LEAVES: Final = ast.Return | ast.Raise | ast.Continue | ast.Break
_COMPREHENSIONS: Final = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
_PYTHONS_OWN: Final = frozenset(vars(builtins))


@dataclass(frozen=True, slots=True)
class Branch:
    """A part of a function that runs only if something is so.

    `test` is what decides, `arm` the part, `instead` what runs if it does not, none where nothing does, and `block` are
    the statements around.
    """

    kind: BranchKind
    test: Span
    arm: Span
    instead: tuple[Span, ...]
    block: Span


def branches_at(tree: ast.Module, point: tuple[int, int]) -> list[Branch]:
    """Return the branches that a point lies in, outer ones before those inside them."""
    found: list[Branch] = []
    block: Sequence[ast.stmt] = tree.body
    inside = False
    while True:
        statement = next((each for each in block if _holds(each, point)), None)
        if statement is None:
            return found
        if inside:
            found += (each for each in _of_statement(statement, block) if contains(each.arm, point))
            found += (
                each
                for expression in _expressions(statement, point)
                for each in _of_expression(expression, _whole(block))
                if contains(each.arm, point)
            )
        inside = inside or isinstance(statement, FunctionNode)
        block = next((each for each in _blocks(statement) if any(_holds(inner, point) for inner in each)), ())


def _of_statement(statement: ast.stmt, block: Sequence[ast.stmt]) -> Iterator[Branch]:
    around = _whole(block)
    match statement:
        case ast.If(test=test, body=body, orelse=orelse):
            after = block[block.index(statement) + 1 :] if isinstance(body[-1], _LEAVES) else []
            otherwise = orelse or after
            other = (_whole(otherwise),) if otherwise else ()
            yield Branch("branch", span_of(test), _whole(body), other, around)
            if otherwise:
                yield Branch("branch", span_of(test), _whole(otherwise), (_whole(body),), around)
        case ast.Match(cases=cases):
            bodies = [_whole(case.body) for case in cases]
            for case, body in zip(cases, bodies, strict=True):
                yield Branch("case", _pattern(case), body, tuple(each for each in bodies if each != body), around)
        case ast.For(iter=test, body=body, orelse=orelse) | ast.AsyncFor(iter=test, body=body, orelse=orelse):
            yield from _of_loop("loop", test, body, orelse, around)
        case ast.While(test=test, body=body, orelse=orelse):
            yield from _of_loop("while", test, body, orelse, around)
        case _:
            pass


def _of_loop(
    kind: BranchKind, test: ast.expr, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt], around: Span
) -> Iterator[Branch]:
    if _computes(*body):
        yield Branch(kind, span_of(test), _whole(body), (), around)
    if orelse and _computes(*orelse) and any(isinstance(each, ast.Break) for part in body for each in ast.walk(part)):
        yield Branch("end of loop", span_of(test), _whole(orelse), (), around)


def _of_expression(node: ast.AST, around: Span) -> Iterator[Branch]:
    match node:
        case ast.IfExp(test=test, body=body, orelse=orelse):
            for arm, other in ((body, orelse), (orelse, body)):
                if _computes(arm):
                    yield Branch("branch", span_of(test), span_of(arm), (span_of(other),), around)
        case ast.BoolOp(values=[first, *rest]):
            end = span_of(first)
            for operand in rest:
                decisive = Span(first.lineno, first.col_offset, end.end_line, end.end_column)
                if _computes(operand):
                    yield Branch("operand", decisive, span_of(operand), (), around)
                end = span_of(operand)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            source = node.generators[0]
            test = source.ifs[0] if source.ifs else source.iter
            for part in parts:
                if _computes(part):
                    yield Branch("element", span_of(test), span_of(part), (), around)
        case _:
            pass


def _expressions(statement: ast.stmt, point: tuple[int, int]) -> Iterator[ast.AST]:
    """Yield what a statement asks for itself and that a point lies in, from the outside in."""
    node: ast.AST | None = statement
    while node is not None:
        children = (each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.stmt | ast.match_case))
        node = next((each for each in children if _holds(each, point)), None)
        if node is not None:
            yield node


def _blocks(statement: ast.stmt) -> Iterator[Sequence[ast.stmt]]:
    """Yield the blocks of a statement, those of its cases and handlers too."""
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, ())
    for each in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield each.body


def _computes(*parts: ast.AST) -> bool:
    """Whether parts of a program call what is not Python's own, or multiply, add and the like."""
    for each in (node for part in parts for node in ast.walk(part)):
        match each:
            case ast.Call(func=ast.Name(id=name)) if name in _PYTHONS_OWN:
                continue
            case ast.Call() | ast.BinOp():
                return True
            case _:
                pass
    return False


def _holds(node: ast.AST, point: tuple[int, int]) -> bool:
    """Whether a point lies in a node; what has no place of its own, such as a `with` item, holds what is in it."""
    match node:
        case ast.expr() | ast.stmt() | ast.arg() | ast.keyword():
            return contains(span_of(node), point)
        case ast.comprehension() | ast.withitem():
            return any(_holds(each, point) for each in ast.iter_child_nodes(node))
        case _:
            return False


def _pattern(case: ast.match_case) -> Span:
    pattern, last = case.pattern, case.guard or case.pattern
    return Span(pattern.lineno, pattern.col_offset, last.end_lineno or last.lineno, last.end_col_offset or 0)


def _whole(block: Sequence[ast.stmt]) -> Span:
    """Return the span of statements that follow each other."""
    first, last = span_of(block[0]), span_of(block[-1])
    return Span(first.line, first.column, last.end_line, last.end_column)

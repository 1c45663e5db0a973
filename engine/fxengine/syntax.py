"""Finding one's way in a user's syntax tree: from the span of an instruction to the expression that matters.

CPython says for each instruction which stretch of source it belongs to. Where that is a whole statement or call, the
functions here list the expressions in it that the instruction may have been about; who knows the values picks one.

Spans are CPython's: 1-based lines, 0-based UTF-8 byte columns.
"""

import ast
import functools
import linecache
import operator
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final, NamedTuple

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

COMPARISONS: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
"""What compares two values, but for looking one up in another."""

_KEPT: Final = 64
"""Files whose syntax trees are remembered."""

_trees: Final[dict[str, tuple[list[str], ast.Module | None]]] = {}
"""The tree of each file with the lines that it was made from, the very list that `linecache` holds."""


class Span(NamedTuple):
    """A stretch of one file's text; it compares by where it begins."""

    line: int
    column: int
    end_line: int
    end_column: int

    def contains(self, other: "Span") -> bool:
        """Whether `other` lies within this span or is the same."""
        return self[:2] <= other[:2] and other[2:] <= self[2:]


def span_of(node: ast.AST) -> Span | None:
    """The span of a syntax node; None for those without one, such as `comprehension`."""
    if not isinstance(node, ast.expr | ast.stmt | ast.pattern | ast.arg | ast.keyword | ast.ExceptHandler):
        return None
    if node.end_lineno is None or node.end_col_offset is None:
        return None
    return Span(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)


def tree_of(path: str) -> ast.Module | None:
    """The syntax tree of a file as `linecache` has it; None if there is no text, or it does not parse."""
    lines = linecache.getlines(path)
    known = _trees.get(path)
    if known is None or known[0] is not lines:
        known = _keep(path, lines, _parsed("".join(lines)))
    return known[1]


def know_tree(path: str, tree: ast.Module) -> None:
    """Take the syntax tree of a file as `linecache` has it from somebody who has parsed it already."""
    _keep(path, linecache.getlines(path), tree)


def known_files() -> frozenset[str]:
    """The files whose syntax trees are at hand."""
    return frozenset(_trees)


def is_known(path: str) -> bool:
    """Whether the syntax tree of a file is at hand, so that nothing has to be parsed for it."""
    known = _trees.get(path)
    return known is not None and known[0] is linecache.getlines(path)


def parsed_block(text: str, first_line: int) -> ast.stmt | None:
    """The statement that is the text of some lines of a file, `first_line` being the first; None if it is none."""
    # The head is for lines that are indented; the positions in them stay what they are.
    indented = text[:1].isspace()
    tree = _parsed_anew(f"if 1:\n{text}" if indented else text)
    body = tree.body if tree is not None else []
    if indented and body and isinstance(body[0], ast.If):
        body = body[0].body
    if len(body) != 1:
        return None
    return ast.increment_lineno(body[0], first_line - (2 if indented else 1))


def nodes_around(path: str, span: Span) -> list[ast.AST]:
    """The syntax nodes that contain a span, outermost first; empty if the file's text is not to be had."""
    tree = tree_of(path)
    return [] if tree is None else _nodes_around(tree, span)


@functools.lru_cache(maxsize=512)
def _nodes_around(tree: ast.Module, span: Span) -> list[ast.AST]:
    around: list[ast.AST] = []
    current: ast.AST | None = tree
    while current is not None:
        around.append(current)
        current = next((child for child in _placed_children(current) if _contains(child, span)), None)
    return around[1:]


def definition_of(path: str, first_line: int, name: str) -> Definition | None:
    """The function whose code begins at `first_line`, its first decorator's line if it has one."""
    tree = tree_of(path)
    pending = deque[ast.AST]([] if tree is None else [tree])
    while pending:
        node = pending.popleft()
        pending.extend(child for child in ast.iter_child_nodes(node) if _may_hold_line(child, first_line))
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if node.name == name:
                lines = [node.lineno, *(decorator.lineno for decorator in node.decorator_list)]
                if min(lines) == first_line:
                    return node
            case ast.Lambda() if name == "<lambda>" and node.lineno == first_line:
                return node
            case _:
                continue
    return None


def parameter_span(definition: Definition, name: str) -> Span | None:
    """The span of a parameter in a function's signature; stars before its name do not count."""
    arguments = definition.args
    optional = (arguments.vararg, arguments.kwarg)
    for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *filter(None, optional)]:
        if argument.arg == name.lstrip("*"):
            return span_of(argument)
    return None


def header_span(definition: Definition) -> Span | None:
    """The span of `def name`, or of a whole lambda."""
    whole = span_of(definition)
    if whole is None or isinstance(definition, ast.Lambda):
        return whole
    word = "async def " if isinstance(definition, ast.AsyncFunctionDef) else "def "
    end = whole.column + len(word) + len(definition.name.encode())
    return Span(whole.line, whole.column, whole.line, end)


def returns_of(definition: Definition) -> list[ast.Return]:
    """The `return` statements of a function, in order, but not those of functions within it."""
    found: list[ast.Return] = []
    pending: list[ast.AST] = [definition.body] if isinstance(definition, ast.Lambda) else [*definition.body]
    while pending:
        node = pending.pop(0)
        if isinstance(node, ast.Return):
            found.append(node)
        if not isinstance(node, Definition | ast.ClassDef):
            pending[:0] = ast.iter_child_nodes(node)
    return found


def truth_operands(around: list[ast.AST]) -> list[ast.expr]:
    """The expressions whose truth the innermost of some nested syntax nodes may ask for, in order of evaluation."""
    innermost = around[-1]
    match innermost:
        case ast.If() | ast.While() | ast.IfExp() | ast.Assert():
            return list(_asked(innermost.test))
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            return [e for loop in innermost.generators for test in loop.ifs for e in _asked(test)]
        case ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
            return list(_asked(innermost))
        case ast.Compare() if _is_identity(innermost):
            return _asked_behind(innermost, around[:-1])
        case ast.pattern():
            case_ = next((node for node in reversed(around) if isinstance(node, ast.match_case)), None)
            return list(_asked(case_.guard)) if case_ is not None and case_.guard is not None else []
        case _:
            return []


def purpose_of(around: list[ast.AST], operand: Span, opname: str) -> str:
    """What an operand is wanted for: `branch`, `loop`, `assert`, `choice`, `membership`, or `call` of something.

    Of what is asserted, an operand that need not be true for that is a `check`.

    A branch that does nothing but raise is a `guard`, where the operand alone decides.

    Args:
        around: Nested syntax nodes, of which the innermost is the instruction's.
        operand: The span of the expression that gave the value.
        opname: The name of the instruction.
    """
    if opname.startswith("CONTAINS"):
        return "membership"
    if opname.startswith("CALL"):
        return "call"
    for node in reversed(around):
        match node:
            case ast.While() if _is_in(operand, node.test):
                return "loop"
            case ast.Assert():
                return "assert" if _has_to_hold(node.test, operand) else "check"
            case ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                outer = [n for n in around if isinstance(n, ast.If | ast.While | ast.Assert | ast.IfExp)]
                if not any(_is_in(operand, n.test) for n in outer):
                    return "choice"
            case ast.If(body=[ast.Raise()], orelse=[]) if span_of(node.test) == operand:
                return "guard"
            case ast.stmt():
                return "branch"
            case _:
                continue
    return "branch"


def _has_to_hold(test: ast.expr, operand: Span) -> bool:
    """Whether what is asserted cannot be true unless an operand of it is."""
    outer = [each for each in ast.walk(test) if isinstance(each, ast.BoolOp | ast.UnaryOp) and _is_in(operand, each)]
    return all(
        isinstance(each.op, ast.And) if isinstance(each, ast.BoolOp) else not isinstance(each.op, ast.Not)
        for each in outer
        if span_of(each) != operand
    )


def iterated_operands(around: list[ast.AST], opname: str = "") -> list[ast.expr]:
    """The expressions that the innermost of some nested syntax nodes iterates over or unpacks, by an instruction."""
    innermost = around[-1]
    match innermost:
        case ast.For() | ast.AsyncFor():
            return [innermost.iter]
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            return [loop.iter for loop in innermost.generators]
        case ast.Call():
            several = [] if opname.startswith("DICT_") else innermost.args
            starred = [arg.value for arg in several if isinstance(arg, ast.Starred)]
            starred += [keyword.value for keyword in innermost.keywords if keyword.arg is None]
            return starred or [*innermost.args, *(keyword.value for keyword in innermost.keywords)]
        case ast.Compare(ops=[ast.In() | ast.NotIn()]):
            return list(innermost.comparators)
        case ast.Dict():
            return [v for key, v in zip(innermost.keys, innermost.values, strict=True) if key is None]
        case ast.List() | ast.Tuple() | ast.Set():
            return _unpacked(innermost, around[-2] if len(around) > 1 else None)
        case ast.YieldFrom() | ast.Starred():
            return [innermost.value]
        case _:
            return []


def operands_of(around: list[ast.AST]) -> list[ast.expr]:
    """The expressions whose values the innermost of some nested syntax nodes works on."""
    innermost = around[-1] if around else None
    match innermost:
        case ast.Call():
            receiver = [innermost.func.value] if isinstance(innermost.func, ast.Attribute) else []
            return [*receiver, *innermost.args, *(keyword.value for keyword in innermost.keywords)]
        case ast.Subscript(slice=ast.Slice() as cut):
            return [innermost.value, *filter(None, (cut.lower, cut.upper, cut.step))]
        case ast.With() | ast.AsyncWith():
            return [item.context_expr for item in innermost.items]
        case ast.FormattedValue():
            return [innermost.value]
        case ast.JoinedStr():
            return [value.value for value in innermost.values if isinstance(value, ast.FormattedValue)]
        case None:
            return []
        case _:
            return [child for child in ast.iter_child_nodes(innermost) if isinstance(child, ast.expr)]


def comparison_links(comparison: ast.Compare) -> list[tuple[ast.expr, ast.expr]]:
    """The pairs of neighbours that a chained comparison compares, in order."""
    operands = [comparison.left, *comparison.comparators]
    return list(pairwise(operands))


def _unpacked(display: ast.List | ast.Tuple | ast.Set, parent: ast.AST | None) -> list[ast.expr]:
    if isinstance(display, ast.Set) or isinstance(display.ctx, ast.Load):
        return [item.value for item in display.elts if isinstance(item, ast.Starred)]
    match parent:
        case ast.Assign():
            return [parent.value]
        case ast.For() | ast.AsyncFor():
            return [parent.iter]
        case _:
            return []


def _is_in(operand: Span, expression: ast.expr) -> bool:
    span = span_of(expression)
    return span is not None and span.contains(operand)


def _asked(test: ast.expr) -> Iterator[ast.expr]:
    """The expressions whose truth values decide `test`."""
    match test:
        case ast.BoolOp():
            for value in test.values:
                yield from _asked(value)
        case ast.UnaryOp(op=ast.Not()):
            yield from _asked(test.operand)
        case ast.IfExp():
            for part in (test.test, test.body, test.orelse):
                yield from _asked(part)
        case _:
            yield test


def _is_identity(test: ast.expr) -> bool:
    """Whether an expression is a comparison by `is`, whose answer is never symbolic."""
    return isinstance(test, ast.Compare) and all(isinstance(each, ast.Is | ast.IsNot) for each in test.ops)


def _asked_behind(comparison: ast.Compare, around: list[ast.AST]) -> list[ast.expr]:
    """What is asked after a comparison by `is` in the same condition.

    CPython 3.11 gives the jump of `b` in `if a is not None and b:` the place of `a is not None`.
    """
    whole: ast.expr | None = None
    for node in reversed(around):
        if not isinstance(node, ast.BoolOp | ast.UnaryOp):
            break
        whole = node
    asked = list(_asked(whole)) if whole is not None else []
    behind = asked[asked.index(comparison) + 1 :] if comparison in asked else []
    return [each for each in behind if not _is_identity(each)]


def _placed_children(node: ast.AST) -> Iterator[ast.AST]:
    """The children of a syntax node; those of children without a position are between it and them."""
    # The parts of a format specification have the position of the whole string.
    children = [node.value] if isinstance(node, ast.FormattedValue) else ast.iter_child_nodes(node)
    for child in children:
        if isinstance(node, ast.JoinedStr) and span_of(child) == span_of(node):
            # Before CPython 3.12 each part has the position of the whole string, which tells none from another.
            if isinstance(child, ast.FormattedValue):
                yield child.value
        elif span_of(child) is not None or isinstance(child, ast.match_case):
            yield child
        else:
            yield from _placed_children(child)


def _contains(node: ast.AST, span: Span) -> bool:
    if isinstance(node, ast.match_case):
        return any(_contains(child, span) for child in ast.iter_child_nodes(node))
    own = span_of(node)
    if own is None:
        return False
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return own.contains(span) or any(_contains(decorator, span) for decorator in decorators)


def _may_hold_line(node: ast.AST, line: int) -> bool:
    """Whether a definition that begins on a line may be within a syntax node, or be it."""
    if not isinstance(node, ast.stmt | ast.expr):
        return True
    first = node.lineno
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    if decorators:
        first = min(first, decorators[0].lineno)
    return first <= line <= (node.end_lineno or node.lineno)


def _keep(path: str, lines: list[str], tree: ast.Module | None) -> tuple[list[str], ast.Module | None]:
    if path not in _trees and len(_trees) >= _KEPT:
        del _trees[next(iter(_trees))]
    known = _trees[path] = (lines, tree)
    return known


@functools.lru_cache(maxsize=_KEPT)
def _parsed(text: str) -> ast.Module | None:
    return _parsed_anew(text)


def _parsed_anew(text: str) -> ast.Module | None:
    if not text:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError):
        return None

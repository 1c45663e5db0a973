"""The source of the functions that ran: their syntax trees, and what an expression in them is worth on a module.

Whole files are parsed only if somebody has done so already. A function is a few dozen lines, a library's file
thousands, and most traces pass through a library.

Nothing of the user's is called: an expression is worth something here only if constants, operators and plain attributes
make it up.
"""

import ast
import linecache
import operator
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any, Final

import torch
from torch import nn

from fxengine.source import SourceFrame
from fxengine.syntax import COMPARISONS, Definition, Span, definition_of, is_known, parsed_block, span_of

UNKNOWN: Final = object()
"""What an expression is worth that cannot be computed without running anything."""

_definitions: Final[dict[tuple[str, int, str], tuple[list[str], Definition | None]]] = {}
"""The definition of a function by file, first line and name, with the lines that it was made from."""
_KEPT: Final = 512


def definition_behind(code: CodeType) -> Definition | None:
    """The definition of the function that a code object belongs to; None if its text is not to be had."""
    path, first, name = code.co_filename, code.co_firstlineno, code.co_name
    if name == "<lambda>" or is_known(path):
        return definition_of(path, first, name)
    if name.startswith("<"):
        return None
    lines = linecache.getlines(path)
    known = _definitions.get((path, first, name))
    if known is None or known[0] is not lines:
        last = max((line for *_, line in code.co_lines() if line is not None), default=first)
        if len(_definitions) >= _KEPT:
            _definitions.clear()
        known = _definitions[path, first, name] = (lines, _parsed(lines, first, last))
    return known[1]


def names_in(code: CodeType) -> frozenset[str]:
    """The names that a function and the functions within it use: attributes, globals, imported names."""
    names = frozenset(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= names_in(constant)
    return names


def within(node: ast.AST) -> Iterator[tuple[ast.AST, tuple[ast.AST, ...]]]:
    """Every syntax node below `node`, in the order of the source, each with those around it, outermost first."""
    pending: list[tuple[ast.AST, tuple[ast.AST, ...]]] = [(node, ())]
    while pending:
        current, around = pending.pop()
        yield current, around
        inside = (*around, current)
        pending.extend((child, inside) for child in reversed(list(ast.iter_child_nodes(current))))


def frame_of(code: CodeType, node: ast.AST) -> SourceFrame | None:
    """Where a syntax node of a function stands."""
    span = span_of(node)
    return SourceFrame(code.co_filename, code.co_qualname, *span) if span is not None else None


def expression_at(definition: ast.AST, span: Span) -> tuple[ast.AST, tuple[ast.AST, ...]] | None:
    """The innermost syntax node of a definition that holds a span, with those around it; None if there is none."""
    found = None
    for node, around in within(definition):
        own = span_of(node)
        if own is not None and own.contains(span):
            found = (node, around)
    return found


def dotted(expression: ast.expr) -> str:
    """A name with its attributes, such as `F.dropout`; empty for anything else."""
    match expression:
        case ast.Name():
            return expression.id
        case ast.Attribute():
            owner = dotted(expression.value)
            return f"{owner}.{expression.attr}" if owner else ""
        case _:
            return ""


def first_parameter(definition: Definition) -> str:
    """The name of a function's first parameter, `self` for a method; empty if it has none."""
    names = [*definition.args.posonlyargs, *definition.args.args]
    return names[0].arg if names else ""


class Worth:
    """What expressions of a method are worth on one module, as far as that follows from what the module holds."""

    def __init__(
        self, module: nn.Module, own_name: str, assumed: Callable[[ast.expr], Any] = lambda _: UNKNOWN
    ) -> None:
        """Make one.

        Args:
            module: The module that `own_name` stands for.
            own_name: The name of the method's first parameter.
            assumed: Says what an expression is worth before anything else is tried, or `UNKNOWN`.
        """
        self._module = module
        self._own_name = own_name
        self._assumed = assumed

    def of(self, expression: ast.expr) -> Any:
        """The value of an expression, or `UNKNOWN`."""
        value = self._assumed(expression)
        if value is UNKNOWN:
            match expression:
                case ast.Constant():
                    value = expression.value
                case ast.Name(id=name) if name == self._own_name:
                    value = self._module
                case ast.Attribute():
                    value = _attribute(self.of(expression.value), expression.attr)
                case ast.BoolOp():
                    value = self._operand(expression)
                case ast.UnaryOp():
                    value = _computed(_UNARY.get(type(expression.op)), self.of(expression.operand))
                case ast.Compare(ops=[comparison], comparators=[right]):
                    value = _computed(COMPARISONS.get(type(comparison)), self.of(expression.left), self.of(right))
                case ast.IfExp():
                    value = self._side(expression)
                case _:
                    pass
        return value

    def _side(self, expression: ast.IfExp) -> Any:
        """The value of `a if test else b`; that of both if they are the same."""
        test = truth(self.of(expression.test))
        if test is not None:
            return self.of(expression.body if test else expression.orelse)
        first, second = self.of(expression.body), self.of(expression.orelse)
        return first if is_same(first, second) else UNKNOWN

    def _operand(self, expression: ast.BoolOp) -> Any:
        """The value of `and` or `or`: one operand that decides settles it, in whichever place it stands."""
        decisive = isinstance(expression.op, ast.Or)
        values = [self.of(operand) for operand in expression.values]
        truths = [truth(value) for value in values]
        if decisive in truths:
            # Which of several operands it is matters only for values other than bools.
            first = truths.index(decisive)
            return values[first] if None not in truths[:first] else decisive
        return UNKNOWN if None in truths else values[-1]


def truth(value: Any) -> bool | None:
    """Whether a value counts as true; None for what is unknown or would have to run something to say so."""
    if value is None or isinstance(value, bool | int | float | str | tuple | list | dict):
        return bool(value)
    return True if isinstance(value, nn.Module) and not hasattr(type(value), "__len__") else None


def is_same(first: Any, second: Any) -> bool:
    """Whether two known values are the same plain value."""
    plain = (bool, int, float, str, type(None))
    return isinstance(first, plain) and isinstance(second, plain) and first == second


def _parsed(lines: list[str], first: int, last: int) -> Definition | None:
    """The definition that begins on a line and has code on another one."""
    head = lines[first - 1 : first]
    if not head:
        return None
    indentation = len(head[0]) - len(head[0].lstrip())
    while last < len(lines):
        line = lines[last].rstrip()
        if line and len(line) - len(line.lstrip()) <= indentation:
            break
        last += 1
    found = parsed_block("".join(lines[first - 1 : last]), first)
    return found if isinstance(found, Definition) else None


def _attribute(owner: Any, name: str) -> Any:
    """An attribute that is simply there; neither a property nor `__getattr__` is asked."""
    if owner is UNKNOWN or isinstance(owner, torch.Tensor):
        return UNKNOWN
    attributes = getattr(owner, "__dict__", {})
    if isinstance(owner, nn.Module):
        for registry in ("_parameters", "_buffers", "_modules"):
            if name in attributes.get(registry, ()):
                return attributes[registry][name]
    if name in attributes:
        return attributes[name]
    for cls in type(owner).__mro__:
        if name in vars(cls):
            value = vars(cls)[name]
            return UNKNOWN if hasattr(type(value), "__get__") else value
    return UNKNOWN


def _computed(function: Callable[..., Any] | None, *values: Any) -> Any:
    if function is None:
        return UNKNOWN
    plain = (bool, int, float, str, type(None))
    if function in {operator.is_, operator.is_not} and UNKNOWN not in values:
        return function(*values)
    if not all(isinstance(value, plain) for value in values):
        return UNKNOWN
    try:
        return function(*values)
    except TypeError:
        return UNKNOWN


_UNARY: Final[dict[type[ast.unaryop], Callable[..., Any]]] = {ast.Not: operator.not_, ast.USub: operator.neg}

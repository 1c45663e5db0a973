"""The frame of a failed trial: what its expressions stand for, and which inputs these are.

The frames of a failure still have their variables, so expressions can be evaluated; only such as read names,
attributes, items and sizes are.
"""

import ast
import contextlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

from torch import Tensor

from fxengine.classification import Moment
from fxengine.inputs.moves import Moves
from fxengine.inputs.recipes import Constant, Listing, Place, Recipe, Record, Structure
from fxengine.syntax import nodes_around, span_of

__all__ = ["UNKNOWN", "Frame"]

UNKNOWN: Final = object()
"""What an expression stands for that is not evaluated."""

_READS: Final = (
    ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.List, ast.Set,
    ast.Slice, ast.operator, ast.unaryop, ast.expr_context, ast.Compare, ast.cmpop, ast.BoolOp, ast.boolop,
    ast.GeneratorExp, ast.ListComp, ast.comprehension, ast.JoinedStr, ast.FormattedValue,
)  # fmt: skip
_HARMLESS_CALLS: Final = frozenset({
    "len", "size", "dim", "min", "max", "tuple", "list", "int", "isinstance", "numel", "set", "sum", "prod", "zip",
    "str",
})  # fmt: skip


class Frame:
    """One frame of a failure, and the inputs that led to it."""

    def __init__(self, moves: Moves, moment: Moment) -> None:
        self.moves = moves
        self.moment = moment

    def places(self, expression: ast.expr) -> frozenset[Place]:
        """Return which inputs the tensors are computed from that an expression names."""
        found: frozenset[Place] = frozenset()
        for node in ast.walk(expression):
            if isinstance(node, ast.Name | ast.Attribute):
                value = self.value(node)
                if isinstance(value, Tensor | list | tuple | dict):
                    found |= self.moves.of(value)
        return found

    def place(self, value: Any) -> Place | None:
        """Return the place of the input that is this very value."""
        return self.moves.is_input(value) if value is not UNKNOWN else None

    def constant_place(self, expression: ast.expr) -> Place | None:
        """Return the place of an input that is a number or such, if an expression is the name of one."""
        if not isinstance(expression, ast.Name):
            return None
        part = self.moves.parts.get((expression.id,))
        if isinstance(part, Constant) and self.value(expression) == part.value:
            return (expression.id,)
        return None

    def recipe(self, place: Place) -> Recipe | None:
        """Return the recipe at a place, whole."""
        if not place:
            return None
        recipe: Recipe | None = self.moves.recipes.get(str(place[0]))
        for key in place[1:]:
            match recipe:
                case Listing():
                    recipe = recipe.items[int(key)] if int(key) < len(recipe.items) else None
                case Record() | Structure():
                    recipe = dict(recipe.items).get(str(key))
                case _:
                    return None
        return recipe

    def value(self, expression: ast.expr) -> Any:
        """Return what an expression of names, attributes, items, sizes and arithmetic stands for."""
        if not _is_harmless(expression):
            return UNKNOWN
        return _evaluated(expression, self._scope)

    @cached_property
    def _scope(self) -> dict[str, Any]:
        """The names of the function's module and its variables, in one: a comprehension sees no other locals."""
        return {**self.moment.frame.f_globals, **self._variables}

    @cached_property
    def _variables(self) -> Mapping[str, Any]:
        """The variables of the function, with those of the comprehensions that the failure lies in.

        From CPython 3.12 on these are variables of the function, and no longer bound when the failure has left it: each
        is taken for the first item of what it went through.
        """
        known: dict[str, Any] = {**self.moment.frame.f_locals}
        here = self.moment.source.span
        for node in nodes_around(self.moment.path, here):
            for generator in getattr(node, "generators", ()) if span_of(node) != here else ():
                scope = {**self.moment.frame.f_globals, **known}
                items = _evaluated(generator.iter, scope) if _is_harmless(generator.iter) else UNKNOWN
                if isinstance(items, Tensor | list | tuple | dict):
                    with contextlib.suppress(Exception):  # There are none, or it is a number.
                        known = {**dict(_bound(generator.target, next(iter(items)))), **known}
        return known


def _evaluated(expression: ast.expr, scope: dict[str, Any]) -> Any:
    with contextlib.suppress(Exception):
        code = compile(ast.Expression(expression), "<condition>", "eval")
        return eval(code, scope)  # noqa: S307 - reads only; see `_is_harmless`.
    return UNKNOWN


def _bound(target: ast.expr, item: Any) -> Iterator[tuple[str, Any]]:
    """Yield the variables that an item is bound to, each with its value."""
    if isinstance(target, ast.Name):
        yield target.id, item
    elif isinstance(target, ast.Tuple) and isinstance(item, list | tuple) and len(item) == len(target.elts):
        for part, value in zip(target.elts, item, strict=True):
            yield from _bound(part, value)


def _is_harmless(expression: ast.expr) -> bool:
    """Whether evaluating an expression again does nothing but read."""
    for node in ast.walk(expression):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if name not in _HARMLESS_CALLS:
                return False
        elif not isinstance(node, _READS):
            return False
    return True

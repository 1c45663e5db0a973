"""What code demands of arguments by names that it has as texts, or of several of them together.

`assert getattr(self, key) == value` in a loop over a table says what each of them has to be; a condition over several
that may be left out says which of them are wanted together.
"""

import ast
import re
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any, Final

from fxengine.classification import moments_of
from fxengine.syntax import nodes_around
from fxworker.choices import literal

_WORD: Final = re.compile(r"[A-Za-z_]\w*")


def demanded_by(error: BaseException, tests: Sequence[ast.expr]) -> tuple[tuple[str, str], ...]:
    """Return what code that raised compares attributes with whose names it has as texts: names, and expressions.

    Args:
        error: What it raised.
        tests: The conditions under which it did.
    """
    moments = moments_of(error.__traceback__)
    compared = next(filter(None, (_compared(node) for test in tests[:1] for node in ast.walk(test))), None)
    if compared is None or not moments:
        return ()
    frame = moments[-1].frame
    around = nodes_around(moments[-1].path, moments[-1].source.span)
    loops = [table for node in around if (table := _gone_over(node, *compared)) is not None]
    tables = [_value_of(each, frame) for each in loops[-1:]]
    key, wanted = (frame.f_locals.get(each) for each in compared)
    entries = dict(tables[0]) if tables and isinstance(tables[0], Mapping) else {key: wanted}
    return tuple((name, repr(value)) for name, value in entries.items() if isinstance(name, str) and _is_written(value))


def tested_together(tests: Sequence[ast.expr]) -> tuple[str, ...]:
    """Return the names in the condition under which code raised."""
    return tuple(dict.fromkeys(word for test in tests[:1] for word in _WORD.findall(ast.unparse(test))))


def _compared(node: ast.AST) -> tuple[str, str] | None:
    """Return the names of a key and of what is wanted in `getattr(self, key) == value`, None for another node."""
    match node:
        case ast.Compare(
            left=ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Name(id=key), *_]),
            ops=[ast.Eq() | ast.NotEq() | ast.Is() | ast.IsNot()],
            comparators=[ast.Name(id=wanted)],
        ):
            return key, wanted
        case _:
            return None


def _gone_over(node: ast.AST, key: str, wanted: str) -> ast.expr | None:
    """Return the table that a loop goes over whose variables have these names, None for another node."""
    match node:
        case ast.For(
            target=ast.Tuple(elts=[ast.Name(id=first), ast.Name(id=second)]),
            iter=ast.Call(func=ast.Attribute(value=table, attr="items")),
        ) if (first, second) == (key, wanted):
            return table
        case _:
            return None


def _value_of(node: ast.expr, frame: FrameType) -> Any:
    """Return what a name stands for, or the entry of a table that has one; None for another expression."""
    match node:
        case ast.Name(id=name):
            return frame.f_locals.get(name, frame.f_globals.get(name))
        case ast.Subscript(value=value, slice=index):
            table = _value_of(value, frame)
            return table.get(_value_of(index, frame)) if type(table) is dict else None
        case ast.Constant(value=value):
            return value
        case _:
            return None


def _is_written(value: object) -> bool:
    """Whether a value is one that can be written down."""
    return literal(repr(value)) == value

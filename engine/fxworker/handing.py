"""How a value is called further out that code did not like: calls hand it on, under one name after another."""

import ast
import re
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import Final

from fxengine.classification import Moment
from fxengine.syntax import nodes_around

_WORD: Final = re.compile(r"[A-Za-z_]\w*")


def handed_from(moments: Sequence[Moment], test: ast.expr) -> list[str]:
    """Return what the values of a condition are called in the calls that handed them on, the outermost names first.

    Args:
        moments: What an exception came through, outermost first.
        test: The condition under which it was raised.
    """
    wanted = {*_WORD.findall(ast.unparse(test))}
    found: list[str] = []
    for inner, outer in zip(reversed(moments), reversed(moments[:-1]), strict=False):
        code = inner.frame.f_code
        if code.co_name.startswith("<"):
            continue  # A loop in an expression, which sees the names around it.
        wanted &= {*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]}
        calls = [each for each in nodes_around(outer.path, outer.source.span) if isinstance(each, ast.Call)]
        if not wanted or not calls:
            break
        names = list(_named_in(calls[-1], code, wanted))
        found += names
        wanted = {*names}
    return found[::-1]


def _named_in(call: ast.Call, code: CodeType, wanted: set[str]) -> Iterator[str]:
    """Yield the names in the arguments of a call that are given as some parameters of what it calls."""
    parameters = code.co_varnames[: code.co_argcount]
    own = parameters[1:] if parameters[:1] == ("self",) else parameters
    given = [*zip(own, call.args, strict=False), *((each.arg, each.value) for each in call.keywords)]
    for name, value in given:
        if name in wanted:
            yield from _WORD.findall(ast.unparse(value))

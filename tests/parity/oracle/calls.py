"""Calls of functions that cannot take symbolic values: where the function is looked up, and what is put there instead.

The function is a global or an attribute of a module. It is replaced just for the instruction that looks it
up for one call, so no other code sees anything else than before.
"""

import ast
import functools
import linecache
from collections.abc import Callable, Iterator
from types import FrameType, ModuleType
from typing import Any

from tests.parity.oracle.instructions import Instruction, end_of, instructions_of

_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD"})


@functools.lru_cache(maxsize=4096)
def lookup_of(call: Instruction) -> tuple[Instruction, ast.Name | ast.Attribute] | None:
    """The instruction that looks up what a call calls, and the expression; None if that is no plain name."""
    function = _functions(call.code.co_filename).get(end_of(call))
    if not isinstance(function, ast.Name | ast.Attribute) or not call.opname.startswith("CALL"):
        return None
    name = function.id if isinstance(function, ast.Name) else function.attr
    end = function.end_lineno, function.end_col_offset
    for each in instructions_of(call.code):
        found = Instruction(call.code, each.offset)
        if each.opname in _LOADS and each.argval == name and end_of(found) == end:
            return found, function
    return None


def holder_of(function: ast.Name | ast.Attribute, frame: FrameType) -> tuple[dict[str, Any], str] | None:
    """The namespace in which a frame will find a function, and its name there; None if it is not in one."""
    if isinstance(function, ast.Name):
        known = function.id in frame.f_globals and function.id not in frame.f_locals
        return (frame.f_globals, function.id) if known else None
    owner = _module(function.value, frame)
    return None if owner is None or function.attr not in vars(owner) else (vars(owner), function.attr)


class Replaced:
    """Functions that are replaced at the moment. Mutable."""

    def __init__(self) -> None:
        self._before: list[tuple[dict[str, Any], str, Any]] = []

    def replace(self, namespace: dict[str, Any], name: str, make: Callable[[Any], Any]) -> None:
        """Replace what a name means by what `make` makes of it."""
        function = namespace[name]
        self._before.append((namespace, name, function))
        namespace[name] = make(function)

    def put_back(self) -> None:
        """Put everything back."""
        while self._before:
            namespace, name, before = self._before.pop()
            namespace[name] = before


def _module(expression: ast.expr, frame: FrameType) -> ModuleType | None:
    """The module that a dotted name means in a frame."""
    if isinstance(expression, ast.Name):
        scopes = (frame.f_locals, frame.f_globals)
        found = next((scope[expression.id] for scope in scopes if expression.id in scope), None)
    elif isinstance(expression, ast.Attribute):
        owner = _module(expression.value, frame)
        found = None if owner is None else vars(owner).get(expression.attr)
    else:
        found = None
    return found if isinstance(found, ModuleType) else None


@functools.lru_cache(maxsize=256)
def _functions(path: str) -> dict[tuple[int | None, int | None], ast.expr]:
    """What is called in a file, by where the call ends."""
    try:
        tree = ast.parse("".join(linecache.getlines(path)))
    except SyntaxError:
        return {}
    return {(node.end_lineno, node.end_col_offset): node.func for node in _calls(tree)}


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))

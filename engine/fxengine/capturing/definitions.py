"""Where a constructor says what a part of a model, or a tensor of it, is."""

import ast
from collections.abc import Iterator
from typing import Final

from torch import nn

from fxengine.source import SourceFrame, is_user_file
from fxengine.syntax import definition_of, span_of

__all__ = ["definition_at"]

_ADDING: Final = frozenset({"append", "extend", "insert", "add_module"})


def definition_at(root: nn.Module, path: str) -> SourceFrame | None:
    """Where the constructor of the module that holds it assigns what is at a path, or fills the list that it is in.

    Of several such places, in branches, it is the first that speaks of a class as that of the module.
    """
    kind = type(dict(root.named_modules()).get(path)).__name__
    below: list[str] = []
    while path:
        path, _, name = path.rpartition(".")
        for cls in type(root.get_submodule(path)).__mro__:
            code = getattr(cls.__dict__.get("__init__"), "__code__", None)
            if code is None or not is_user_file(code.co_filename):
                continue
            definition = definition_of(code.co_filename, code.co_firstlineno, "__init__")
            assigned = (each for each in _assignments(definition) if _assigns(each, name))
            found = [_filled(definition, each, name) or _one_of(each, below) or each for each in assigned]
            chosen = next((each for each in found if _mentions(each, kind)), next(iter(found), None))
            span = span_of(chosen) if chosen is not None else None
            if span is not None:
                return SourceFrame(code.co_filename, code.co_qualname, *span)
        # One of a list or a sequence of modules: where that is made.
        below.append(name)
    return None


def _one_of(assignment: ast.Assign | ast.AnnAssign, below: list[str]) -> ast.expr | None:
    """The layer of a sequence that is written out where the sequence is made, by its place; None where it is not."""
    value = assignment.value
    for name in reversed(below):
        match value:
            case ast.Call(func=ast.Attribute(attr="Sequential") | ast.Name(id="Sequential"), args=args):
                place = int(name) if name.isdigit() else len(args)
                has_stars = any(isinstance(each, ast.Starred) for each in args[: place + 1])
                value = None if has_stars or place >= len(args) else args[place]
            case _:
                return None
    return value if below else None


def _assignments(definition: ast.AST | None) -> Iterator[ast.Assign | ast.AnnAssign]:
    for node in ast.walk(definition) if definition is not None else ():
        if isinstance(node, ast.Assign | ast.AnnAssign):
            yield node


def _assigns(assignment: ast.Assign | ast.AnnAssign, name: str) -> bool:
    targets = assignment.targets if isinstance(assignment, ast.Assign) else [assignment.target]
    return any(isinstance(each, ast.Attribute) and each.attr == name for each in targets)


def _filled(definition: ast.AST | None, assignment: ast.Assign | ast.AnnAssign, name: str) -> ast.Call | None:
    """The one call that puts modules into a list which is empty when it is assigned, None where it is none such."""
    calls: list[ast.Call] = []
    for node in ast.walk(definition) if definition is not None else ():
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr=filled), attr=adding)) if filled == name:
                calls += [node] if adding in _ADDING else []
            case _:
                pass
    match assignment.value:
        case ast.List(elts=[]) | ast.Call(args=[], keywords=[]) if len(calls) == 1:
            return calls[0]
        case _:
            return None


def _mentions(node: ast.AST, name: str) -> bool:
    """Whether a name, or the last part of a dotted one, stands in an expression or a statement."""
    names = (each.id if isinstance(each, ast.Name) else getattr(each, "attr", "") for each in ast.walk(node))
    return name in names

"""Which values say which items of something are taken, and what such values are: whole numbers, the first of all.

The items of what, and how many these are, is not known: there is always a first one.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Final

from fxworker.bindings import Bindings

_TAKING: Final = frozenset(
    f"{name}{in_place}"
    for name in ("gather", "index_add", "index_copy", "index_fill", "index_select", "scatter", "scatter_add")
    for in_place in ("", "_")
)
"""Methods whose second argument says which items are taken; a function of torch's is given the whole before."""

_VIEWS: Final = frozenset(
    {"clone", "contiguous", "cpu", "cuda", "detach", "expand", "flatten", "int", "item", "long", "permute", "ravel"}
    | {"reshape", "squeeze", "t", "to", "tolist", "transpose", "type", "unsqueeze", "view"}
)
"""Methods of tensors that give the same numbers."""

_ONES: Final = (
    (re.compile(r"\btorch\.ones\(([\d, ]+)\)"), r"torch.zeros(\1, dtype=torch.int64)"),
    (re.compile(r"\bnumpy\.ones\(([^']+), 'float32'\)"), r"numpy.zeros(\1, 'int64')"),
)
"""What stands for a tensor or an array of any numbers, and of such that are indices."""


def note_indices(node: ast.Subscript | ast.Call, names: Bindings) -> None:
    """Note which of the values in an expression say which items are taken there: `x[:, self.order]`."""
    for each in _indices(node):
        if path := names.path(_whole(each)):
            names.use(path).indexing = True
            if isinstance(node, ast.Call):
                names.use(path).note("tensor")


def note_indices_in(methods: Iterable[ast.FunctionDef], names: Bindings) -> None:
    """Note which of the values that a model keeps say so in its methods, also by a variable of one of these."""
    before = names.paths
    for method in methods:
        names.paths = {**before}
        nodes = [*ast.walk(method)]
        for node in nodes:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if path := names.path(value):
                    names.paths[name] = path
                case ast.For(target=target, iter=values):
                    names.loop(target, values)
                case _:
                    pass
        for node in nodes:
            if isinstance(node, ast.Subscript | ast.Call):
                note_indices(node, names)
    names.paths = before


def as_indices(value: str) -> str:
    """Return an expression with indices for the numbers in its tensors and arrays."""
    for pattern, whole in _ONES:
        value = pattern.sub(whole, value)
    return value


def _indices(node: ast.Subscript | ast.Call) -> Iterator[ast.expr]:
    """Yield the expressions that say which items are taken."""
    match node:
        case ast.Subscript(slice=ast.Tuple(elts=several)):
            yield from several
        case ast.Subscript(slice=index):
            yield index
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=given) if name in _TAKING:
            yield from given[1 + (ast.unparse(owner) == "torch") :][:1]
            yield from (each.value for each in node.keywords if each.arg == "index")
        case _:
            pass


def _whole(node: ast.expr) -> ast.expr:
    """Return what an expression is a view, or a column, of: `faces` in `faces[:, 0].long()`."""
    match node:
        case ast.Subscript(value=inner, slice=ast.Tuple() | ast.Slice()):
            return _whole(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _VIEWS:
            return _whole(inner)
        case _:
            return node

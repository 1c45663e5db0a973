"""What a loop's variable is first: an item of what is written out, or a batch of tensors that a data loader makes.

Nothing is evaluated: the answer is an expression. What only a run provides, such as a batch of a data set on disk, has
none.
"""

import ast
from typing import Final

from fxls.discovery.closing import Scope, closed
from fxls.discovery.syntax import dotted

_SAME: Final = frozenset({"tqdm", "list", "tuple", "iter", "track", "progress_bar", "prange"})
"""Last names of calls that go over what they are given."""


def item_of(values: ast.expr, scope: Scope) -> ast.expr | None:
    """Return the first item of what a loop goes over, as an expression that needs no local names, None for unknown."""
    if isinstance(values, ast.Call) and values.args and not isinstance(values.args[0], ast.Starred):
        name = dotted(values.func).rpartition(".")[2]
        if name in _SAME:
            return item_of(values.args[0], scope)
        if name == "enumerate":
            return _together([ast.Constant(0), item_of(values.args[0], scope)])
        if name == "zip":
            return _together([item_of(each, scope) for each in values.args])
    value = closed(values, scope)
    match value:
        case ast.Tuple(elts=[first, *_]) | ast.List(elts=[first, *_]):
            return first
        case ast.Call(func=function, args=arguments, keywords=keywords) if dotted(function).endswith("DataLoader"):
            return _batch(arguments, {each.arg: each.value for each in keywords if each.arg is not None})
        case ast.Call(func=ast.Name(id="range")):
            return ast.Constant(0)
        case _:
            return None


def first_taken(value: ast.expr, scope: Scope) -> ast.expr | None:
    """Return what `next(iter(loader))` gives, None for another expression."""
    match value:
        case ast.Call(func=ast.Name(id="next"), args=[ast.Call(func=ast.Name(id="iter"), args=[values])]):
            return item_of(values, scope)
        case _:
            return None


def _together(items: list[ast.expr | None]) -> ast.expr | None:
    known = [each for each in items if each is not None]
    return ast.Tuple(list(known), ast.Load()) if len(known) == len(items) else None


def _batch(arguments: list[ast.expr], keywords: dict[str, ast.expr]) -> ast.expr | None:
    """Return a batch of a data loader over tensors: the first rows of each."""
    data = arguments[0] if arguments else keywords.get("dataset")
    size = arguments[1] if len(arguments) > 1 else keywords.get("batch_size", ast.Constant(1))
    if not (isinstance(data, ast.Call) and dotted(data.func).endswith("TensorDataset")):
        return None
    return ast.Tuple([ast.Subscript(each, ast.Slice(upper=size), ast.Load()) for each in data.args], ast.Load())

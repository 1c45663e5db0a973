"""The arguments that constructors look for in `**kwargs`, which no signature names: `kwargs.get("embed_dim")`."""

import ast
import functools
from collections.abc import Iterator
from types import FunctionType
from typing import Any, Final

from fxworker.choices import every_parameter_of
from fxworker.surroundings import tree_of

_ASKING: Final = frozenset({"get", "pop"})


def keys_of_keywords(cls: Any) -> tuple[str, ...]:
    """Return the names that a class's constructor, and those that it hands its keywords on to, look for in them."""
    found: dict[str, None] = {}
    for each in cls.__mro__[:-1] if isinstance(cls, type) else ():
        if not any(one.kind is one.VAR_KEYWORD for one in every_parameter_of(each).values()):
            break
        constructor = vars(each).get("__init__")
        found |= dict.fromkeys(_keys_of(constructor) if isinstance(constructor, FunctionType) else ())
    return tuple(found)


@functools.lru_cache(maxsize=256)
def _keys_of(constructor: FunctionType) -> tuple[str, ...]:
    tree = tree_of(constructor)
    if tree is None or tree.args.kwarg is None:
        return ()
    name = tree.args.kwarg.arg
    return tuple(dict.fromkeys(key for node in ast.walk(tree) for key in _asked(node, name)))


def _asked(node: ast.AST, keywords: str) -> Iterator[str]:
    """Yield the key that an expression looks for in what keywords are called."""
    match node:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key))) if name == keywords:
            yield key
        case ast.Compare(
            left=ast.Constant(value=str(key)), ops=[ast.In() | ast.NotIn()], comparators=[ast.Name(id=name)]
        ) if name == keywords:
            yield key
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id=name), attr=asking), args=[ast.Constant(value=str(key)), *_]
        ) if name == keywords and asking in _ASKING:
            yield key
        case _:
            pass

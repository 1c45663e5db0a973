"""Classes that code knows by their names alone: `if type(loss).__name__ not in self.supported()`.

Only a text that was looked for in vain in several others is looked at, and only classes of modules that are there.
"""

import ast
from collections.abc import Iterable
from types import FrameType
from typing import Any, Final

from torch import nn

from fxworker.choices import attribute_of, required_parameters
from fxworker.lacking import Moments, value_in
from fxworker.lineages import subclasses_of
from fxworker.wording import MOST_VALUES

_SEVERAL: Final = (list, tuple, set, frozenset, dict)


def titles_wanted(moments: Moments, tests: Iterable[ast.expr]) -> tuple[str, tuple[type, ...]]:
    """Return the name that was not among those which code asks for, and the classes of modules that have these.

    Those that need the fewest arguments come first. It is "" where what is asked for are no names of classes.
    """
    for node in (each for test in tests for each in ast.walk(test)) if moments else ():
        match node:
            case ast.Compare(left=left, ops=[ast.NotIn() | ast.In()], comparators=[several]):
                name, names = value_in(left, moments[0][1]), _texts_in(several, moments[0][1])
                classes = _named(names) if isinstance(name, str) and name.isidentifier() and name not in names else []
                if classes:
                    return str(name), tuple(classes[:MOST_VALUES])
            case _:
                pass
    return "", ()


def _texts_in(node: ast.expr, frame: FrameType) -> frozenset[str]:
    """Return the texts that something has which an expression names, or that a function without arguments gives."""
    match node:
        case ast.Call(func=ast.Attribute(value=around, attr=name), args=[], keywords=[]):
            found = _given_by(attribute_of(value_in(around, frame), name))
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            found = [value_in(each, frame) for each in items]
        case _:
            found = value_in(node, frame)
    return frozenset(each for each in found if isinstance(each, str)) if type(found) in _SEVERAL else frozenset()


def _given_by(function: Any) -> Any:
    """Return what a function gives, None where it gives nothing without arguments."""
    try:
        return function()
    except Exception:  # noqa: BLE001 — The user's code; what it raises here is not what was raised before.
        return None


def _named(names: frozenset[str]) -> list[type]:
    """Return the classes of modules that have some names, those first that need the fewest arguments."""
    found = (each for each in subclasses_of(nn.Module) if each.__name__ in names)
    return sorted(found, key=lambda each: (len(required_parameters(each)), each.__qualname__))

"""Where among the arguments of the outermost call that is which an error is about: `config.width` of `width + 1`.

Only what was looked up in something that was given is told: a number or a text alone may be anywhere.
"""

import ast
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final

from torch import nn

from fxengine.classification import moments_of
from fxengine.syntax import nodes_around
from fxworker.choices import joined
from fxworker.lacking import Moments, place_of, value_in

_ANYWHERE: Final = (type(None), bool, int, float, str, bytes, type, nn.Module)
"""What may be in several places, or be made of what was given."""


def place_refused(error: BaseException, moments: Moments, got: str) -> str:
    """Return the path of what has a type that an error is about, "" where it is not known."""
    if isinstance(error, AttributeError) and not isinstance(error.obj, _ANYWHERE):
        return place_of(moments, error.obj)
    return next(_looked_up(error, moments, got), "") if got else ""


def place_spread(error: BaseException, moments: Moments) -> str:
    """Return the path of the mapping that a refused call got its keywords from, as they are or sifted; else "".

    `Part(**{name: each for name, each in options.items() if name in known})` gets them from `options`.
    """
    for moment in moments_of(error.__traceback__)[-1:]:
        calls = [each for each in nodes_around(moment.path, moment.source.span)[-1:] if isinstance(each, ast.Call)]
        spread = [each.value for call in calls for each in call.keywords if each.arg is None]
        for node in (each for value in spread for each in ast.walk(value)):
            found = value_in(node, moment.frame) if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) else None
            place = place_of(moments, found) if isinstance(found, dict) else ""
            if place:
                return place
    return ""


def _looked_up(error: BaseException, moments: Moments, got: str) -> Iterator[str]:
    """Yield the paths of what was looked up in the expression that raised, and has a type."""
    for moment in moments_of(error.__traceback__)[-1:]:
        for node in nodes_around(moment.path, moment.source.span)[-1:]:
            for each in ast.walk(node):
                match each:
                    case ast.Subscript(value=around) | ast.Attribute(value=around):
                        name, table = _name_in(each, moment.frame), value_in(around, moment.frame)
                        place = place_of(moments, table) if name and not isinstance(table, _ANYWHERE) else ""
                        if place and type(value_in(each, moment.frame)).__name__ == got:
                            yield joined(place, name)
                    case _:
                        pass


def _name_in(node: ast.Subscript | ast.Attribute, frame: FrameType) -> str:
    """Return what an entry or an attribute is called."""
    if isinstance(node, ast.Attribute):
        return node.attr
    key: Any = value_in(node.slice, frame)
    return str(key) if isinstance(key, str | int) else ""

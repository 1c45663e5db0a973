"""Items that code took from where a list or a tensor has none: the number it looked at, and how many there are.

A number that tells where something stands is smaller than one that tells how much there is.
"""

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

from fxengine.classification import moments_of
from fxengine.errors import text_of
from fxengine.syntax import nodes_around
from fxworker.choices import Value, literal
from fxworker.lacking import value_in
from fxworker.tracebacks import sources_of

_OF_TENSOR: Final = re.compile(r"index (-?\d+) is out of bounds for (?:dimension|axis) \d+ with size (\d+)")

_PARTS: Final = frozenset({"children", "modules"})
"""What a module is asked for its parts by."""

_PART: Final = "torch.nn.Linear(64, 64)"
_MOST_PARTS: Final = 16

_USUAL: Final = 2
"""How many items there mostly are where that is not known."""


@dataclass(frozen=True, slots=True)
class Beyond:
    """An item that was taken and is not there.

    Attributes:
        at: Its number.
        count: How many items there are, 0 where that is not known.
        names: What the number is called, and what that was made of.
        is_part: Whether it was to be a part of a module.
    """

    at: int
    count: int = 0
    names: tuple[str, ...] = ()
    is_part: bool = False


def taken_beyond(error: BaseException) -> Beyond | None:
    """Return which item was taken, and of how many, if an error says that there is none; else None."""
    if not isinstance(error, IndexError):
        return None
    said = _OF_TENSOR.search(text_of(error))
    if said is not None:
        return Beyond(int(said[1]), int(said[2]))
    moments = moments_of(error.__traceback__)
    around = nodes_around(moments[-1].path, moments[-1].source.span) if moments else []
    match around[-1:]:
        case [ast.Subscript(value=several, slice=place)]:
            frame, written = moments[-1].frame, ast.unparse(place)
            at, items = value_in(place, frame), value_in(several, frame)
            names = (*re.findall(r"[A-Za-z_]\w*", written), *sources_of(frame, written))
            count = len(items) if isinstance(items, Sequence) else 0
            return Beyond(at, count, names, _lists_parts(several, frame)) if type(at) is int else None
        case _:
            return None


def with_parts(beyond: Beyond) -> str:
    """Return an expression of a module that has the part which was taken."""
    count = beyond.at + 1 if beyond.at >= 0 else -beyond.at
    return f"torch.nn.Sequential({', '.join([_PART] * min(count, _MOST_PARTS))})"


def _lists_parts(several: ast.expr, frame: FrameType) -> bool:
    """Whether an expression stands for the parts of a module, as the lines above it say."""
    written = ast.unparse(several)
    return not _PARTS.isdisjoint((*re.findall(r"[A-Za-z_]\w*", written), *sources_of(frame, written)))


def numbered(now: Value, beyond: Beyond) -> str:
    """Return an expression with the numbers of items that there are in place of one that is beyond; "" for another."""
    found = literal(now) if isinstance(now, str) else None
    changed = _numbered(found, beyond)
    return repr(changed) if changed != found else ""


def _numbered(value: Any, beyond: Beyond) -> Any:
    """Return a value with other numbers, at whatever depth of lists they are."""
    if not isinstance(value, list | tuple):
        return 0 if type(value) is int and value == beyond.at else value
    if any(type(each) is int and each == beyond.at for each in value):
        return type(value)(place % (beyond.count or _USUAL) for place in range(len(value)))
    return type(value)(_numbered(each, beyond) for each in value)

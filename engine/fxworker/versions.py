"""Which version a package that is not installed would have to have: a new one, or that which the code asks for.

Code that refuses to be imported says in its condition, or in what it says, which versions it would take.
"""

import ast
import linecache
import re
import types
from collections.abc import Iterable, Iterator
from typing import Any, Final

from fxworker.callers import parsed

NEWEST: Final = "999.0.0"
"""Code that asks for a version asks for one that is new enough, mostly."""

REFUSING: Final = (AssertionError, ImportError, RuntimeError)
"""What code raises that does not like a version."""

_VERSION: Final = re.compile(r"\d+(?:\.\d+)+(?:\.?(?:a|b|rc|dev|post)\d*)?")
_MOST: Final = 6


def wanted(error: BaseException) -> list[str]:
    """Return the versions with which code might not have raised an error; none where it did not ask for one."""
    text = _said(error)
    if NEWEST not in text and "version" not in text.lower():
        return []
    bounds = dict.fromkeys(each for each in _VERSION.findall(text) if each != NEWEST)
    return [one for bound in bounds for one in (bound, *_before(bound))][:_MOST]


def named_in(error: BaseException, names: Iterable[str]) -> list[str]:
    """Return those names of packages that code names which raised an error, in its condition or in what it says."""
    text = _said(error)
    return [each for each in names if re.search(rf"(?<![^\W_]){re.escape(each)}(?![^\W_])", text)]


def place_of_raise(error: BaseException) -> tuple[str, int]:
    """Return the file and the line that an error was raised in; nothing where that is not known."""
    way = _innermost(error)
    return (way.tb_frame.f_code.co_filename, way.tb_lineno) if way is not None else ("", 0)


def _said(error: BaseException) -> str:
    """Return what an error says, with the conditions of the code that raised it; nothing for code without a file."""
    way = _innermost(error)
    if way is None or way.tb_frame.f_code.co_filename.startswith("<"):
        return ""
    return " ".join([str(error), *_asked(way.tb_frame, way.tb_lineno)])


def _innermost(error: BaseException) -> types.TracebackType | None:
    way = error.__traceback__
    while way is not None and way.tb_next is not None:
        way = way.tb_next
    return way


def _asked(frame: types.FrameType, line: int) -> Iterator[str]:
    """Yield the conditions around a line, and the texts that the names in them stand for."""
    for node in ast.walk(parsed("".join(linecache.getlines(frame.f_code.co_filename)))):
        if isinstance(node, ast.If | ast.Assert) and node.lineno <= line <= (node.end_lineno or 0):
            yield ast.unparse(node.test)
            names = (each.id for each in ast.walk(node.test) if isinstance(each, ast.Name))
            values = (frame.f_locals.get(each, frame.f_globals.get(each)) for each in names)
            yield from (each for each in values if isinstance(each, str))


def _before(version: str) -> list[str]:
    """Return a version that is older than another by its last number that is not 0; none where there is no such."""
    numbers = [int(each) for each in re.findall(r"\d+", version)]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return [".".join(map(str, [*numbers[:-1], numbers[-1] - 1, 999]))] if numbers else []


def compared(one: Any, other: Any) -> int | None:
    """Return less, equal to or more than 0 as a version is to another; None where they are none."""
    numbers = [
        [int(number) for number in re.findall(r"\d+", each)] if isinstance(each, str) and _VERSION.match(each) else []
        for each in (one, other)
    ]
    return (numbers[0] > numbers[1]) - (numbers[0] < numbers[1]) if all(numbers) else None

"""Whether something took hold of a class or function while it was made.

Decorators and hooks of base classes may enter it into a table, in which other code finds it without its name. What they
do is not read but counted: whoever keeps an object holds a reference to it.
"""

import sys
import weakref
from collections.abc import Iterator, Mapping
from types import CellType, FunctionType
from typing import Any, Final


def is_held_by_name_alone(name: str, namespace: Mapping[str, Any], path: str) -> bool:
    """Whether nothing holds what was just defined but its own name.

    Args:
        name: The name of the class or function.
        namespace: The globals in which its definition was executed a moment ago.
        path: The file of the definition: a function that a decorator put in its place is of another one.
    """
    made = namespace.get(name)
    if isinstance(made, type):
        return (
            made.__qualname__ == name
            and sys.getrefcount(made) - _own_references(made) <= _CLASS[0]
            and weakref.getweakrefcount(made) <= _CLASS[1]
        )
    if isinstance(made, FunctionType):
        return (
            made.__qualname__ == name
            and made.__code__.co_filename == path
            and sys.getrefcount(made) <= _FUNCTION[0]
            and weakref.getweakrefcount(made) <= _FUNCTION[1]
        )
    return False


def _own_references(made: type) -> int:
    """Return how many references to a class its own parts hold, as far as not every class has them."""
    cells = {id(each) for function in _functions(made) for each in function.__closure__ or () if _holds(each, made)}
    return len(cells) + len(vars(made).keys() & {"__dict__", "__weakref__"})


def _functions(made: type) -> Iterator[FunctionType]:
    """Yield the functions of a class, and those that they say they wrap."""
    for each in vars(made).values():
        found: Any = getattr(each, "__func__", getattr(each, "fget", each))
        while isinstance(found, FunctionType):
            yield found
            found = found.__dict__.get("__wrapped__")


def _holds(cell: CellType, made: type) -> bool:
    try:
        return cell.cell_contents is made
    except ValueError:  # It is empty.
        return False


def _counts(namespace: Mapping[str, Any], name: str) -> tuple[int, int]:
    """Return how many references there are to what was just defined and nobody holds, strong and weak ones."""
    made = namespace.get(name)
    own = _own_references(made) if isinstance(made, type) else 0
    return sys.getrefcount(made) - own, weakref.getweakrefcount(made) if made is not None else 0


_plain: Final[dict[str, Any]] = {}
exec("class Plain:\n    def __init__(self):\n        super().__init__()\n\ndef plain(): ...", _plain)  # noqa: S102 — Ours.
_CLASS: Final = _counts(_plain, "Plain")
_FUNCTION: Final = _counts(_plain, "plain")

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
    is_class = isinstance(made, type)
    if not is_class and not (isinstance(made, FunctionType) and made.__code__.co_filename == path):
        return False
    strong, weak = _references(made)
    most_strong, most_weak = _CLASS if is_class else _FUNCTION
    return made.__qualname__ == name and strong <= most_strong and weak <= most_weak


def _references(made: Any) -> tuple[int, int]:
    """Return how many strong and weak references there are to a class or function, but for those of its own parts."""
    own = _own_references(made) if isinstance(made, type) else 0
    return sys.getrefcount(made) - own, weakref.getweakrefcount(made)


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


def _of_what_nobody_holds(name: str) -> tuple[int, int]:
    made = _plain[name]  # A variable holds it here, too, as it does where others are counted.
    return _references(made)


_plain: Final[dict[str, Any]] = {}
exec("class Plain:\n    def __init__(self):\n        super().__init__()\n\ndef plain(): ...", _plain)  # noqa: S102 — Ours.
_CLASS: Final = _of_what_nobody_holds("Plain")
_FUNCTION: Final = _of_what_nobody_holds("plain")

"""What attributes the instances of a class have, as far as the class tells without being called."""

import dis
import functools
import inspect
from collections.abc import Iterable
from types import FrameType

from fxworker.choices import Group, Value, every_parameter_of, parameters_of


def has_field(cls: type, name: str) -> bool:
    """Whether instances of a class have an attribute, as far as the class tells."""
    if hasattr(cls, name) or any(name in getattr(each, "__annotations__", {}) for each in cls.__mro__):
        return True
    return name in parameters_of(cls)


def is_assigned(cls: type, name: str) -> bool:
    """Whether a method of a class, or one that it inherits, assigns an attribute."""
    return any(name in _assigned_in(each) for each in cls.__mro__)


def is_assigned_later(name: str, frame: FrameType) -> bool:
    """Whether the code of a frame assigns an attribute, and nowhere before where it is now."""
    instructions = dis.get_instructions(frame.f_code)
    places = [each.offset for each in instructions if each.opname == "STORE_ATTR" and each.argval == name]
    return bool(places) and min(places) > frame.f_lasti


@functools.lru_cache(maxsize=1024)
def _assigned_in(cls: type) -> frozenset[str]:
    """Return the attributes that a class's own methods assign."""
    methods = (each for each in vars(cls).values() if inspect.isfunction(each))
    instructions = (each for method in methods for each in dis.Bytecode(method))
    return frozenset(each.argval for each in instructions if each.opname == "STORE_ATTR")


def lacked_by_all(values: Iterable[Value], fields: Iterable[str]) -> bool:
    """Whether calls of classes are among some values, and none of these has one of some attributes."""
    classes = [each.cls for each in values if isinstance(each, Group) and each.style == "call"]
    return bool(classes) and not any(
        has_field(each, name) or is_assigned(each, name) for each in classes for name in fields
    )


def refuses(cls: type) -> bool:
    """Whether the constructor of a class does nothing but raise: it is made in other ways."""
    constructor = inspect.getattr_static(cls, "__init__", None)
    if not inspect.isfunction(constructor):
        return False
    names = {each.opname for each in dis.get_instructions(constructor)}
    return "RAISE_VARARGS" in names and not any(
        each.startswith(("STORE_", "RETURN_", "POP_JUMP", "FOR_ITER")) for each in names
    )


def takes_any(cls: type) -> bool:
    """Whether a class takes arguments by any name."""
    return any(each.kind is each.VAR_KEYWORD for each in every_parameter_of(cls).values())

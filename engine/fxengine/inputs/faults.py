"""Exceptions that a model raises for a fault of its own code, whatever it is given: no inputs mend them."""

import sys
from types import CodeType, FunctionType
from typing import Final

from torch import nn

from fxengine.bytecode import attributes_stored
from fxengine.errors import OF_THE_CODE, kept_in

_SETTING: Final = frozenset({"__dict__", "__getattr__", "add_module", "register_module", "setattr"})
"""What gives a module attributes whose names no instruction tells."""

_NO_VIEW: Final = "view size is not compatible with input tensor's size and stride"


def is_fault(error: BaseException | None) -> bool:
    """Whether an exception says that the code uses a name, or an attribute of a module, that nothing gives a value."""
    if isinstance(error, OF_THE_CODE):
        return True
    if not isinstance(error, AttributeError):
        return False
    owner, name = (kept_in(error, AttributeError, each) for each in ("obj", "name"))
    return isinstance(owner, nn.Module) and isinstance(name, str) and not _may_have(type(owner), name)


def is_of_layout(error: BaseException | None) -> bool:
    """Whether an exception says that a tensor does not lie in memory so that it could be viewed in another shape.

    That follows from how the code has moved its dimensions, and comes right only where some have a size of one.
    """
    return isinstance(error, RuntimeError) and says_layout(str(error))


def says_layout(message: str) -> bool:
    """Whether a message is one of these."""
    return _NO_VIEW in message


def _may_have(cls: type, name: str) -> bool:
    """Whether code of a class, or of one that it inherits from, may give its instances an attribute.

    Nobody knows it of a container, whose parts others name, and of a class that no statement defines.
    """
    if issubclass(cls, nn.ModuleDict) or _is_made_by_type(cls):
        return True
    for each in cls.__mro__[: cls.__mro__.index(nn.Module)]:
        methods = [method for method in vars(each).values() if isinstance(method, FunctionType)]
        if any(_may_set(method.__code__, name) for method in methods) or "__getattr__" in vars(each):
            return True
    return False


def _is_made_by_type(cls: type) -> bool:
    """Whether a class comes from a call of `type`: it is in no module, and in no function."""
    module = sys.modules.get(getattr(cls, "__module__", ""), sys)
    return "." not in cls.__qualname__ and vars(module).get(cls.__name__) is not cls


def _may_set(code: CodeType, name: str) -> bool:
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    if name in attributes_stored(code) or name in code.co_consts or not _SETTING.isdisjoint(code.co_names):
        return True
    return any(_may_set(each, name) for each in inner)

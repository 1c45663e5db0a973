"""Which classes stand for one that is only there to be inherited from, where an instance of it is wanted.

A base class that is abstract, a module without a forward, or one whose forward only raises `NotImplementedError` says
what is wanted; what is given are its subclasses, as far as they are imported.
"""

import inspect
from collections.abc import Collection, Iterator, Mapping
from types import CodeType
from typing import Any, Final

from torch import nn

from fxworker.absent import is_stand_in
from fxworker.choices import attribute_of, required_parameters
from fxworker.having import has_field, is_assigned

_MOST: Final = 3
_MOST_SEEN: Final = 200
"""How many classes are looked at: a root of everything has thousands of subclasses."""

_LOOKED_UP: Final = frozenset({"NotImplementedError", "__class__", "__name__"})
"""What a function looks up that only says that it is left to subclasses."""

_HOLDING: Final = (nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)


def is_template(cls: type) -> bool:
    """Whether a class is only there to be inherited from."""
    return _is_bare(cls) or _has_abstract(cls)


def standing_for(cls: type, *, but: Any = None) -> list[type]:
    """Return the classes whose instances may be given for one of a class, likeliest first: itself, if it can be made.

    Those nearby come first, and of them those that need no arguments.

    Args:
        cls: The class.
        but: A class that is none of them, nor are its subclasses.
    """
    if not is_template(cls):
        return [cls]
    module = cls.__module__
    below = [each for each in subclasses_of(cls) if not _is_bare(each) and but not in each.__mro__]
    found = [each for each in below if not _has_abstract(each)] or below
    found.sort(
        key=lambda each: (
            each.__module__ != module,
            _around(each.__module__) != _around(module),
            bool(required_parameters(each)),
            each.__name__,
        )
    )
    return found[:_MOST] or ([] if inspect.isabstract(cls) else [cls])


def is_out_of_place(cls: Any, hint: Any, around: Collection[Any]) -> bool:
    """Whether an instance of a class is hardly meant, though it is called like the place, or has what is read there.

    Args:
        cls: The class.
        hint: What the place is annotated with: a module of another kind is none, and one that is only there to be
            inherited from does nothing.
        around: The classes that it would be a part of: hardly anything is made of its own kind.
    """
    if not isinstance(cls, type):
        return False
    is_kind = isinstance(hint, type) and issubclass(hint, nn.Module)
    return cls in around or (is_kind and (is_template(cls) or not issubclass(cls, hint)))


def heirs_of(cls: type, scope: Mapping[str, Any]) -> list[tuple[str, type]]:
    """Return the subclasses among the names of a file that inherit a class's forward as it is, with their names.

    Those that need no arguments come first, then they come by name, wherever in the file they stand.
    """
    found = [
        (name, each)
        for name, each in scope.items()
        if isinstance(each, type)
        and cls in each.__mro__[1:]
        and attribute_of(each, "forward") is cls.forward
        and not inspect.isabstract(each)
    ]
    found.sort(key=lambda one: (bool(required_parameters(one[1])), one[0]))
    return found[:_MOST]


def is_left_out(code: Any) -> bool:
    """Whether a function does nothing but raise `NotImplementedError`."""
    if not isinstance(code, CodeType) or "NotImplementedError" not in code.co_names:
        return False
    return _LOOKED_UP.issuperset(code.co_names)


def heirs_with(cls: type, name: str) -> list[type]:
    """Return the subclasses of a class of modules, none of torch's, that have an attribute which it lacks."""
    if not issubclass(cls, nn.Module) or cls.__module__.startswith("torch.") or has_field(cls, name):
        return []
    found = [each for each in subclasses_of(cls) if not inspect.isabstract(each)]
    return [each for each in found if has_field(each, name) or is_assigned(each, name)][:_MOST]


def _around(module: str) -> str:
    return module.rpartition(".")[0]


def subclasses_of(cls: type) -> Iterator[type]:
    """Yield the subclasses of a class, nearest first, without those of packages that are not installed."""
    waiting, seen = [cls], {cls}
    for each in waiting:
        try:
            inner = type.__subclasses__(each)
        except TypeError:  # A metaclass of the user's.
            continue
        new = [one for one in inner if one not in seen and not is_stand_in(one)]
        seen.update(new)
        waiting += new
        yield from new
        if len(seen) > _MOST_SEEN:
            return


def _is_bare(cls: type) -> bool:
    """Whether a class cannot be made, or is a module that does nothing."""
    if inspect.isabstract(cls) or getattr(cls, "_is_protocol", False):
        return True
    if not issubclass(cls, nn.Module) or issubclass(cls, _HOLDING):
        return False
    forward = getattr(cls, "forward", None)
    return forward is nn.Module.forward or is_left_out(attribute_of(forward, "__code__"))


def _has_abstract(cls: type) -> bool:
    """Whether a class has methods that are abstract, also one that no metaclass forbids to make."""
    members = {name: each for base in cls.__mro__[::-1] for name, each in vars(base).items()}
    return any(attribute_of(each, "__isabstractmethod__") is True for each in members.values())

"""Parts of models that come from packages which are not installed: what a constructor makes of them.

A model is built with them, since most of it is its own. A part is a module without a forward, and to a tracer a step of
the graph; what it gives is not known, so no input is found for such a model.
"""

import dis
import operator
import re
import sys
import types
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, NoReturn

from torch import nn

from fxworker.callers import is_constructing
from fxworker.records import number_of

_NAME: Final = re.compile(r"(?:_|self\.)*((?:\w*?_)?name)")
"""What a variable is called that holds a name."""


_USUAL: Final = 64
"""What a number is of which nothing is known."""


def _computed(operation: Callable[[Any, Any], Any], *, reflected: bool = False) -> Callable[[Any, Any], Any]:
    """Return a method that computes with a part as with the number that it must be."""

    def compute(self: "Part", other: Any) -> Any:
        if not isinstance(other, int | float | Part):
            return NotImplemented
        if not is_constructing(sys._getframe(1)):
            self.forward()
        one, two = _number(self), _number(other)
        return operation(two, one) if reflected else operation(one, two)

    return compute


def _number(value: Any) -> Any:
    """Return the number that a part is, by its name; a number as it is."""
    if not isinstance(value, Part):
        return value
    found = number_of(type(value).__name__)
    return _USUAL if found is None else found


class Part(nn.Module):
    """A part of a model of which only the name is known.

    What is read of it has the value that is usual for its name, or stands for itself. What a constructor computes$
    with is a number.
    """

    __module__ = "torch.nn"  # To a tracer it is one of torch's own, whose calls are steps of the graph.

    def __init__(self, path: str, missing: ModuleNotFoundError, attribute: Callable[[str, str], Any]) -> None:
        super().__init__()
        self.__dict__.update(_path=path, _missing=missing, _attribute=attribute)

    def forward(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Say what is missing."""
        missing = self.__dict__["_missing"]
        raise ModuleNotFoundError(*missing.args, name=missing.name)

    def __iter__(self) -> Iterator[Any]:
        own = self.__dict__
        return _unpacked(sys._getframe(1), lambda: part(own["_path"], own["_missing"], own["_attribute"]))

    def __getitem__(self, key: Any) -> Any:
        # What a model is made of is asked for while it is constructed; what its forward takes out has no place in it.
        if not is_constructing(sys._getframe(1)):
            self.forward()
        own = self.__dict__
        found = number_of(key) if isinstance(key, str) else None
        return part(own["_path"], own["_missing"], own["_attribute"]) if found is None else found

    __add__, __radd__ = _computed(operator.add), _computed(operator.add, reflected=True)
    __sub__, __rsub__ = _computed(operator.sub), _computed(operator.sub, reflected=True)
    __mul__, __rmul__ = _computed(operator.mul), _computed(operator.mul, reflected=True)
    __floordiv__, __rfloordiv__ = _computed(operator.floordiv), _computed(operator.floordiv, reflected=True)
    __truediv__, __rtruediv__ = _computed(operator.truediv), _computed(operator.truediv, reflected=True)
    __lt__, __le__, __gt__, __ge__ = map(_computed, (operator.lt, operator.le, operator.gt, operator.ge))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in self._modules or "_attribute" not in self.__dict__:
            return super().__getattr__(name)
        found = number_of(name)
        return self.__dict__["_attribute"](self.__dict__["_path"], name) if found is None else found


def part(path: str, missing: ModuleNotFoundError, attribute: Callable[[str, str], Any]) -> Part:
    """Return a part of a class that has the name of what it stands for.

    Args:
        path: The full name of that.
        missing: What its forward raises.
        attribute: Gives what stands for an attribute, by the full name of what it is one of and its own.
    """
    return _kind_of(path.rpartition(".")[2])(path, missing, attribute)


@lru_cache(maxsize=256)
def _kind_of(name: str) -> type[Part]:
    return type(name, (Part,), {"__module__": Part.__module__})


def _unpacked(frame: types.FrameType, make: Callable[[], Part]) -> Iterator[Any]:
    """Yield what a frame unpacks right now from what a call gave: parts, and names for them where it wants names."""
    instructions = iter([each for each in dis.get_instructions(frame.f_code) if each.offset >= frame.f_lasti])
    unpacking = next(instructions)
    count = int(unpacking.arg or 0) if unpacking.opname == "UNPACK_SEQUENCE" else 0
    targets: list[str] = []
    for each in instructions:
        if len(targets) >= count:
            break
        if each.opname.startswith("STORE_"):
            targets += each.argval if isinstance(each.argval, tuple) else [each.argval]
    for each in targets[:count]:
        named = _NAME.fullmatch(str(each))
        yield (named[1].removesuffix("_name") if named is not None else make())

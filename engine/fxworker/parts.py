"""Parts of models that come from packages which are not installed: what a constructor makes of them.

A model is built with them, since most of it is its own. A part is a module without a forward, and to a tracer a step of
the graph; what it gives is not known, so no input is found for such a model.
"""

import contextlib
import dis
import operator
import re
import sys
import types
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any, Final, Self

from torch import nn

from fxworker.arrays import SQUARE, ones
from fxworker.callers import asserted, calls_attribute, is_constructing
from fxworker.records import number_of

_NAME: Final = re.compile(r"(?:_|self\.)*((?:\w*?_)?name)")
"""What a variable is called that holds a name."""


_USUAL: Final = 64
"""What a number is of which nothing is known."""


_OF_ARRAYS: Final = frozenset({"astype", "flatten", "ravel", "reshape", "squeeze", "swapaxes", "transpose"})
"""Methods that arrays have, whose shape decides what they give."""


def _computed(operation: Callable[[Any, Any], Any], *, reflected: bool = False) -> Callable[[Any, Any], Any]:
    """Return a method that computes with a part as with the number that it must be, if it is none of something else."""

    def compute(self: "Part", other: Any) -> Any:
        if not isinstance(other, int | float | Part):
            return NotImplemented
        if not is_constructing(sys._getframe(1)):
            raise self._lack()
        one, two = _number(self), _number(other)
        found = operation(two, one) if reflected else operation(one, two)
        return PartNumber.of(found, self) if type(found) is int else found

    return compute


def unless_asserted(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a method that compares what stands in for something absent with something else.

    A constructor that raises for one of the answers is given the other: nobody knows better.
    """

    def compare(self: Any, other: Any) -> Any:
        frame = sys._getframe(1)
        wanted = asserted(frame) if is_constructing(frame) else None
        return operation(self, other) if wanted is None else wanted

    return compare


class PartNumber(int):
    """What was read of a part, or computed with one: a number, unless it is asked for what numbers have not."""

    _part: "Part"

    @classmethod
    def of(cls, value: int, of_part: "Part") -> "PartNumber":
        """Return a number that was computed with a part."""
        made = cls(value)
        made._part = of_part
        return made

    def __add__(self, other: Any) -> Any:
        return self._again(super().__add__(other))

    def __sub__(self, other: Any) -> Any:
        return self._again(super().__sub__(other))

    def __mul__(self, other: Any) -> Any:
        return self._again(super().__mul__(other))

    def _again(self, found: Any) -> Any:
        return PartNumber.of(found, self._part) if type(found) is int else found

    __lt__, __le__, __gt__, __ge__ = map(unless_asserted, (int.__lt__, int.__le__, int.__gt__, int.__ge__))
    __eq__, __ne__ = map(unless_asserted, (int.__eq__, int.__ne__))
    __hash__ = int.__hash__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        own = self._part.__dict__
        is_called = calls_attribute(sys._getframe(1))
        return own["_attribute"](own["_path"], name) if is_called else getattr(self._part, name)

    def __iter__(self) -> Iterator[Any]:
        return _unpacked(sys._getframe(1), self._part.again)

    def __len__(self) -> int:
        return int(self)

    def __getitem__(self, key: Any) -> Any:
        return self._part[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        """Put nothing there: what stands in a part that is absent is no part of the model."""


def _number(value: Any) -> Any:
    """Return the number that a part is, by its name; a number as it is."""
    if not isinstance(value, Part):
        return value
    found = number_of(type(value).__name__)
    return _USUAL if found is None else found


class Part(nn.Module):
    """A part of a model of which only the name is known.

    What is read of it has the value that is usual for its name, or stands for itself. What a constructor computes
    with is a number, and what it hands to numpy, or makes a tensor of, an array.
    """

    __module__ = "torch.nn"  # To a tracer it is one of torch's own, whose calls are steps of the graph.

    def __init__(
        self,
        path: str,
        missing: ModuleNotFoundError,
        attribute: Callable[[str, str], Any],
        shape: tuple[int, ...] = SQUARE,
    ) -> None:
        super().__init__()
        self.__dict__.update(_path=path, _missing=missing, _attribute=attribute, _shape=shape)

    def forward(self, *_args: Any, **_kwargs: Any) -> "Part":
        """Say what is missing; while a model is constructed return another part: what was looked up may be a class."""
        if is_constructing(sys._getframe(1)):
            return self.again()
        raise self._lack()

    def _lack(self) -> ModuleNotFoundError:
        """Return what is raised for want of what it stands for."""
        missing = self.__dict__["_missing"]
        return ModuleNotFoundError(*missing.args, name=missing.name)

    def again(self) -> "Part":
        """Return another of the same kind."""
        own = self.__dict__
        return part(own["_path"], own["_missing"], own["_attribute"], own["_shape"])

    def _shaped(self, method: str, *args: Any, **kwargs: Any) -> "Part":
        """Return another of the same kind, of the shape that a method of arrays gives."""
        made = self.again()
        with contextlib.suppress(TypeError):  # What is no array of numpy's may take other arguments.
            made.__dict__["_shape"] = getattr(ones(made.__dict__["_shape"]), method)(*args, **kwargs).shape
        return made

    def detach(self) -> Self:
        """Return itself: what a parameter is made of, and takes the place of that."""
        return self

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        if not is_constructing(sys._getframe(1)):
            raise self._lack()
        return int(self.__dict__["_shape"][0])

    def __array__(self, *_dtype: Any, **_options: Any) -> Any:
        if not is_constructing(sys._getframe(1)):
            raise self._lack()
        return ones(self.__dict__["_shape"])

    def __index__(self) -> int:
        return int(_number(self))

    def __float__(self) -> float:
        return float(_number(self))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        return None

    def __iter__(self) -> Iterator[Any]:
        return _unpacked(sys._getframe(1), self.again)

    def __getitem__(self, key: Any) -> Any:
        # What a model is made of is asked for while it is constructed; what its forward takes out has no place in it.
        if not is_constructing(sys._getframe(1)):
            raise self._lack()
        found = number_of(key) if isinstance(key, str) else None
        return self.again() if found is None else found

    __add__, __radd__ = _computed(operator.add), _computed(operator.add, reflected=True)
    __sub__, __rsub__ = _computed(operator.sub), _computed(operator.sub, reflected=True)
    __mul__, __rmul__ = _computed(operator.mul), _computed(operator.mul, reflected=True)
    __floordiv__, __rfloordiv__ = _computed(operator.floordiv), _computed(operator.floordiv, reflected=True)
    __truediv__, __rtruediv__ = _computed(operator.truediv), _computed(operator.truediv, reflected=True)
    __lt__, __le__, __gt__, __ge__ = (
        unless_asserted(_computed(each)) for each in (operator.lt, operator.le, operator.gt, operator.ge)
    )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in self._modules or "_attribute" not in self.__dict__:
            return super().__getattr__(name)
        if name == "shape":
            return self.__dict__["_shape"]
        if name == "ndim":
            return len(self.__dict__["_shape"])
        if name == "T":
            return self._shaped("transpose")
        own = self.__dict__
        if name in _OF_ARRAYS and own["_shape"] != SQUARE and is_constructing(sys._getframe(1)):
            return partial(self._shaped, name)
        found = number_of(name) if not calls_attribute(sys._getframe(1)) else None
        if type(found) is int:
            return PartNumber.of(found, part(f"{own['_path']}.{name}", own["_missing"], own["_attribute"]))
        return own["_attribute"](own["_path"], name) if found is None else found


def part(
    path: str,
    missing: ModuleNotFoundError,
    attribute: Callable[[str, str], Any],
    shape: tuple[int, ...] = SQUARE,
) -> Part:
    """Return a part of a class that has the name of what it stands for.

    Args:
        path: The full name of that.
        missing: What its forward raises.
        attribute: Gives what stands for an attribute, by the full name of what it is one of and its own.
        shape: The shape that it has where it is an array.
    """
    return _kind_of(path.rpartition(".")[2])(path, missing, attribute, shape)


@lru_cache(maxsize=256)
def _kind_of(name: str) -> type[Part]:
    return type(name, (Part,), {"__module__": Part.__module__})


def _unpacked(frame: types.FrameType, make: Callable[[], Part]) -> Iterator[Any]:
    """Yield what a frame unpacks right now from what a call gave: parts, and names for them where it wants names."""
    instructions = iter([each for each in dis.get_instructions(frame.f_code) if each.offset >= frame.f_lasti])
    unpacking = next(instructions)
    # Before what takes the rest there are as many names as the low byte says.
    count = int(unpacking.arg or 0) & 0xFF if unpacking.opname in {"UNPACK_SEQUENCE", "UNPACK_EX"} else 0
    targets: list[str] = []
    for each in instructions:
        if len(targets) >= count:
            break
        if each.opname.startswith("STORE_"):
            targets += each.argval if isinstance(each.argval, tuple) else [each.argval]
    for each in targets[:count]:
        named = _NAME.fullmatch(str(each))
        yield _free_name(named[1].removesuffix("_name"), frame) if named is not None else make()


def _free_name(name: str, frame: types.FrameType) -> str:
    """Return a name for a part of what a frame constructs, another one where its class has something of that name.

    That may be a property which looks for the part by its name: `getattr(self, self.norm1_name)`.
    """
    return f"{name}_layer" if hasattr(type(frame.f_locals.get("self")), name) else name

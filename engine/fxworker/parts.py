"""Parts of models that come from packages which are not installed: what a constructor makes of them.

A model is built with them, since most of it is its own. A part is a module without a forward, and to a tracer a step of
the graph; what it gives is not known, so no input is found for such a model.
"""

import dis
import inspect
import re
import sys
import types
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, NoReturn

from torch import Tensor, nn

from fxworker.choices import is_number, literal
from fxworker.conventions import usual_values

_CONVERTING: Final = re.compile(
    r"to_(container|object|dict|list|primitive|tuple)|create|\w*[dD]ict(Config)?|\w*Box|Munch"
)
"""What is called that gives data in another form."""
_PROCESSES: Final = re.compile(r"(get_)?(\w+_)?world_?size")
_PROCESS: Final = re.compile(r"(get_)?(\w+_)?rank")
_NAME: Final = re.compile(r"(?:_|self\.)*((?:\w*?_)?name)")
"""What a variable is called that holds a name."""


class Part(nn.Module):
    """A part of a model of which only the name is known.

    What is read of it has the value that is usual for its name, or stands for itself.
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


def converted(path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the data that a call gives in another form, with items that are attributes too; None for another call."""
    if not _CONVERTING.fullmatch(path.rpartition(".")[2]):
        return None
    if not args and kwargs:
        return Record(kwargs)
    is_data = len(args) == 1 and not isinstance(args[0], nn.Module | Tensor) and not callable(args[0])
    if not is_data or not all(isinstance(each, bool) for each in kwargs.values()):
        return None
    data: Any = args[0]
    return Record(data) if type(data) is dict else data


def number_of(path: str) -> int | float | None:
    """Return the number that something of a name usually is, None where it is none."""
    name = path.rpartition(".")[2]
    if _PROCESSES.fullmatch(name):
        return 1
    if _PROCESS.fullmatch(name):
        return 0
    found = next(iter(usual_values(name.removeprefix("get_"))), "")
    return literal(found) if is_number(found) else None


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


class Record(dict[str, Any]):
    """A mapping whose items are attributes too."""

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        value = self[name]
        return Record(value) if type(value) is dict else value


class Options(Record):
    """What a base keeps of the arguments of a constructor; what was not among them is what is usual for its name."""

    def __getattr__(self, name: str) -> Any:
        found = number_of(name) if name not in self else None
        return super().__getattr__(name) if found is None else found

    def __missing__(self, name: str) -> Any:
        found = number_of(name)
        if found is None:
            raise KeyError(name)
        return found


def arguments_of(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a constructor by their names, defaults among them; none where they do not fit."""
    constructor = inspect.getattr_static(cls, "__init__", None)
    if not inspect.isfunction(constructor):
        return {}
    signature = inspect.signature(constructor)
    try:
        bound = signature.bind(None, *args, **kwargs)
    except TypeError:
        return {}
    bound.apply_defaults()
    _, *found = bound.arguments.items()
    several = {name for name, each in signature.parameters.items() if each.kind is each.VAR_KEYWORD}
    return {
        key: value for name, given in found for key, value in (given.items() if name in several else [(name, given)])
    }

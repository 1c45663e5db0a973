"""What code may change beside modules, as it was at one moment: whether it is different now, and how it is put back."""

import functools
import itertools
import operator
import pickle
import random
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import partial
from types import CellType, MappingProxyType
from typing import Any, Final, NamedTuple

import torch

from fxengine.module_snapshot import MISSING, fill, has_content

__all__ = [
    "REMEMBERING", "Names", "Value", "Watched", "content_of", "is_drawing", "is_single", "of_cell", "of_numbers",
    "of_single", "of_slot",
]  # fmt: skip

REMEMBERING: Final = type(functools.lru_cache(len))

_DRAWING: Final = frozenset({"random", "numpy.random._generator", "numpy.random.mtrand"})
"""Where the classes of generators of random numbers are from, beside torch's."""

_MOST_BYTES: Final = 1 << 18
"""The most bytes of an array that is kept."""


class Names(NamedTuple):
    """Names or items, as they were.

    Attributes:
        name: How what has them is reached.
        owner: What has them, so that it lives on; the container itself, or what has names.
        now: Its content: the container itself, or the names of an object.
        before: A copy of that.
    """

    name: str
    owner: Any
    now: Any
    before: Any

    def has_changed(self) -> bool:
        """Whether anything is different."""
        return not has_content(self.now, self.before)

    def different(self) -> list[str]:
        """How the names are reached that mean something else; the container where it is one."""
        now, before = self.now, self.before
        if self.owner is now:
            return [self.name]
        names = [name for name in {**before, **now} if name not in now or now[name] is not before.get(name, now)]
        return [f"{self.name}.{name}" if self.name else name for name in names]

    def restore(self) -> None:
        """Put everything back."""
        now, before = self.now, self.before
        if isinstance(now, MappingProxyType):
            for name in [name for name in now if name not in before]:
                delattr(self.owner, name)
            for name, value in before.items():
                if now.get(name) is not value:
                    setattr(self.owner, name, value)
        elif type(now) is dict:
            for name in [name for name in now if name not in before]:
                del now[name]
            for name, value in before.items():
                if name not in now or now[name] is not value:
                    now[name] = value
        else:
            fill(now, before)

    def forget_watched(self) -> None:
        """Take the iterators that are there again, and not what stood for them, for what was there."""
        items = self.before.items() if isinstance(self.before, dict) else enumerate(self.before)
        for key, value in [*items]:
            if type(value) is Watched:
                self.before[key] = self.now[key]


class Value(NamedTuple):
    """One value, as it was.

    Attributes:
        name: How it is reached.
        read: Returns what it is now.
        before: What it was.
        put: Makes it that again.
        is_same: Whether two are the same.
    """

    name: str
    read: Callable[[], Any]
    before: Any
    put: Callable[[Any], object]
    is_same: Callable[[Any, Any], bool] = operator.is_

    def has_changed(self) -> bool:
        """Whether it is different."""
        return not self.is_same(self.read(), self.before)

    def different(self) -> list[str]:
        """How it is reached."""
        return [self.name]

    def restore(self) -> None:
        """Put it back."""
        self.put(self.before)


class Watched(Iterator[Any]):
    """Stands in the place of an iterator, so that what is taken of it can be given back. Mutable."""

    def __init__(self, name: str, iterator: Iterator[Any], put: Callable[[Any], None]) -> None:
        """Stand for an iterator that is reached by `name`, and that `put` puts another one in the place of."""
        self._name = name
        self._iterator = iterator
        self._put = put
        self._taken: list[Any] = []
        put(self)

    def __next__(self) -> Any:
        self._taken.append(next(self._iterator))
        return self._taken[-1]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._iterator, name)

    def has_changed(self) -> bool:
        """Whether anything was taken."""
        return bool(self._taken)

    def different(self) -> list[str]:
        """How it is reached."""
        return [self._name]

    def restore(self) -> None:
        """Put an iterator in its place that gives all it would have given."""
        self._put(itertools.chain(self._taken, self._iterator) if self._taken else self._iterator)


def of_cell(name: str, cell: CellType) -> Value:
    """A variable of a function around."""
    return Value(name, partial(content_of, cell), content_of(cell), partial(setattr, cell, "cell_contents"))


def of_slot(name: str, owner: Any, slot: str) -> Value:
    """An attribute that an object has in a slot."""

    def put(value: Any) -> None:
        if value is not MISSING:
            object.__setattr__(owner, slot, value)
        elif hasattr(owner, slot):
            object.__delattr__(owner, slot)

    read = partial(getattr, owner, slot, MISSING)
    return Value(name, read, read(), put)


def is_single(kind: type) -> bool:
    """Whether objects of a class remember a thing that is not seen: functions, arrays, variables of contexts."""
    return kind is REMEMBERING or kind is ContextVar or (kind.__module__ == "numpy" and kind.__name__ == "ndarray")


def of_single(name: str, value: Any) -> Value:
    """What such an object remembers; of a large array nothing is kept."""
    if type(value) is REMEMBERING:
        return Value(name, partial(_misses, value), _misses(value), lambda _: value.cache_clear(), operator.eq)
    if type(value) is ContextVar:
        # One that is not set gets what it has by default: there is no other way back.
        kept = _in_context(value)
        return Value(name, partial(_in_context, value), kept, lambda _: None if kept is MISSING else value.set(kept))
    if value.nbytes > _MOST_BYTES:
        return Value(name, partial(bytes), b"", lambda _: None, operator.eq)
    kept = value.copy()
    return Value(name, value.tobytes, kept.tobytes(), lambda _: value.__setitem__(..., kept), operator.eq)


def is_drawing(kind: type) -> bool:
    """Whether objects of a class are generators of random numbers."""
    return issubclass(kind, torch.Generator) or kind.__module__ in _DRAWING


def of_numbers(name: str, generator: Any) -> Value:
    """Where a generator of random numbers is."""
    if isinstance(generator, torch.Generator):
        return Value(name, generator.get_state, generator.get_state(), generator.set_state, torch.equal)
    bits = getattr(generator, "bit_generator", None)
    if bits is not None:
        read, put = partial(getattr, bits, "state"), partial(setattr, bits, "state")
    elif isinstance(generator, random.Random):
        read, put = generator.getstate, generator.setstate
    else:
        read, put = generator.get_state, generator.set_state
    state = read()
    return Value(name, lambda: pickle.dumps(read()), pickle.dumps(state), lambda _: put(state), operator.eq)


def content_of(cell: CellType) -> Any:
    """What a variable of a function around is; `MISSING` where it is nothing yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def _misses(function: Any) -> int:
    return function.cache_info().misses


def _in_context(variable: ContextVar[Any]) -> Any:
    try:
        return variable.get()
    except LookupError:
        return MISSING

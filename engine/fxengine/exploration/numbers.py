"""Symbolic values that C code can have a number of, where it asks for one.

C code that wants a number looks at the type of what it is given, so a proxy that has one is another thing to it. Only
values that were refused before get such a type, and only where it was: where any other code wants a number of the same
value, the run is given up and made again with a value that has none from there on, so that what is raised is what
torch.fx would raise.
"""

import functools
import operator
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Final, TypeAlias

from fxengine.classification import Moment
from fxengine.exploration.places import asking_frame, place_of
from fxengine.exploration.values import Values
from fxengine.graph import Graph
from fxengine.node import Node
from fxengine.proxy import Attribute, Proxy
from fxengine.source import OriginRecord, SourceFrame, frame_at

Birth: TypeAlias = tuple[Any, ...]
"""Where a symbolic value is made, in a form that is the same in every run."""


class Again(BaseException):
    """The run has to be made again. No `Exception`: the user's code must not take it for its own."""


@dataclass(slots=True)
class Grants:
    """Which values have numbers, and where. Mutable; one for all runs.

    Attributes:
        places: The expressions in which a value may be asked for its number. Not the instructions: while CPython calls
            a function that is written in Python it seems to be a little further on.
        parts: The names of the attributes of a value that have numbers.
        limits: How many answers a value gives in the next run before it is a value like any other.
    """

    places: dict[Birth, set[SourceFrame]] = field(default_factory=dict[Birth, set[SourceFrame]])
    parts: dict[Birth, set[str]] = field(default_factory=dict[Birth, set[str]])
    limits: dict[Birth, int] = field(default_factory=dict[Birth, int])

    def grant(self, value: Proxy | Node, place: SourceFrame) -> bool:
        """Let a value have a number at a place; whether it had none there."""
        birth = _birth(value)
        if birth is None or place in self.places.get(birth, ()):
            return False
        self.places.setdefault(birth, set()).add(place)
        if isinstance(value, Attribute):
            self.parts.setdefault(birth[1], set()).add(value.attr)
        return True


class Gate:
    """Gives out the numbers of one run. Mutable.

    Attributes:
        void: Whether the run has to be made again.
    """

    def __init__(self, grants: Grants, values: Values) -> None:
        self.void = False
        self._grants = grants
        self._values = values
        self._limits, grants.limits = grants.limits, {}
        self._answers: dict[Birth, int] = {}

    @property
    def is_open(self) -> bool:
        """Whether any value has a number."""
        return bool(self._grants.places)

    def admit(self, proxy: Proxy, birth: Birth | None = None) -> None:
        """Give a new symbolic value the type that it needs."""
        birth = _birth(proxy.node) if birth is None else birth
        if birth is None or not (birth in self._grants.places or birth in self._grants.parts):
            return
        if self._answers.get(birth, 0) < self._limits.get(birth, sys.maxsize):
            _set_class(proxy, _numeric(type(proxy)))
            vars(proxy).update(_gate=self, _birth=birth)

    def admit_part(self, attribute: Attribute, owner: Birth) -> None:
        """Give an attribute of a value the type that it needs."""
        if attribute.attr in self._grants.parts.get(owner, ()):
            self.admit(attribute, ("attribute", owner, attribute.attr))

    def number(self, proxy: Proxy, birth: Birth) -> Any:
        """The number of a value.

        Raises:
            TypeError: It has none after all.
            Again: It has none at this place.
        """
        frame = asking_frame(sys._getframe(2))
        answers = self._answers.get(birth, 0)
        if frame is None or frame_at(frame.f_code, frame.f_lasti) not in self._grants.places.get(birth, ()):
            self.void = True
            self._grants.limits[birth] = answers
            raise Again
        number = self._values.number(proxy)
        if number is None:
            raise TypeError("'Proxy' object cannot be interpreted as an integer")
        self._answers[birth] = answers + 1
        if answers + 1 >= self._limits.get(birth, sys.maxsize):
            _set_class(proxy, type(proxy).__mro__[2])
        return number


def numbers_at(moment: Moment, graph: Graph) -> Iterator[Node]:
    """The last values of a graph that an instruction itself has made: the items of what it was given."""
    for node in reversed(graph.nodes):
        record = node._origin
        if not isinstance(record, OriginRecord) or record[1][:2] != (moment.frame.f_code, moment.lasti):
            return
        yield node


class Numeric(Proxy):
    """A symbolic value that has a number. The class of a value is set to a subclass of this and of its own class."""

    def _number(self) -> Any:
        state = vars(self)
        return state["_gate"].number(self, state["_birth"])

    def __getattr__(self, k: str) -> Attribute:
        attribute = super().__getattr__(k)
        reader = sys._getframe(1)
        attribute._read_at = (reader.f_code, reader.f_lasti)
        state = vars(self)
        state["_gate"].admit_part(attribute, state["_birth"])
        return attribute

    def __index__(self) -> int:
        return operator.index(self._number())

    def __int__(self) -> int:
        return int(self._number())

    def __float__(self) -> float:
        return float(self._number())

    def __complex__(self) -> complex:
        return complex(self._number())

    def __trunc__(self) -> int:
        return int(self._number())

    def __round__(self, digits: int | None = None) -> Any:
        return round(self._number(), digits)

    def __format__(self, specification: str) -> str:
        return format(self._number(), specification) if specification else str(self)


@functools.lru_cache(maxsize=64)
def _numeric(cls: type[Proxy]) -> type[Proxy]:
    """The subclass of a class of symbolic values whose instances have numbers; it calls itself as that does."""
    return type(cls.__name__, (Numeric, cls), {"__module__": cls.__module__, "__qualname__": cls.__qualname__})


_set_class: Final[Callable[[Proxy, type[Proxy]], None]] = vars(object)["__class__"].__set__
"""Sets the class of an object whose own `__class__` says something else."""


def _birth(value: Proxy | Node) -> Birth | None:
    if isinstance(value, Attribute):
        owner = None if isinstance(value.root, Attribute) else _birth(value.root.node)
        return None if owner is None else ("attribute", owner, value.attr)
    node = value.node if isinstance(value, Proxy) else value
    if node.op == "placeholder":
        return node.op, str(node.target)
    record = node._origin
    if not isinstance(record, OriginRecord) or not record[1]:
        return None
    code, lasti = record[1][:2]
    assert isinstance(code, CodeType)
    assert isinstance(lasti, int)
    item = node.args[1] if node.target is operator.getitem and isinstance(node.args[1], int) else None
    target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return (*place_of(code, lasti), target, item)

"""What is handed values: constructors and functions, how they are come to, what was read of them, whose place is which.

Nothing is read here.
"""

import argparse
import dataclasses
import inspect
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Final

from fxworker.evidence import Usage

_DEEPEST: Final = 3
"""How many constructors a value is followed into, and how many methods on the way."""


@dataclasses.dataclass(frozen=True, slots=True)
class Way:
    """How a constructor is come to: in how many others it is called, and in how many methods of theirs.

    What was read of the others is kept: the same constructor is called in many places.
    """

    constructors: int = 0
    methods: int = 0
    read: "dict[tuple[int, int, int, int], Reading]" = dataclasses.field(
        default_factory=dict[tuple[int, int, int, int], "Reading"]
    )

    def into(self, *, method: bool) -> "Way":
        """Return the way on into a constructor or function, or into a method of the same object."""
        return dataclasses.replace(self, constructors=self.constructors + (not method), methods=self.methods + method)

    @property
    def ends(self) -> bool:
        """Whether nothing is followed from here on."""
        return self.constructors >= _DEEPEST or self.methods >= _DEEPEST


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """What was read of a constructor: what it says, and which of its names hold which of the values that it is given.

    The class is held, since what is kept is found by its identity.
    """

    cls: Any
    usage: Usage
    names: dict[str, str]


def holds_data(value: Any) -> bool:
    """Whether a class is one of those whose instances have what they are called with by name."""
    kinds = (dict, SimpleNamespace, argparse.Namespace)
    return isinstance(value, type) and (issubclass(value, kinds) or dataclasses.is_dataclass(value))


def positional(parameters: Mapping[str, inspect.Parameter], index: int) -> inspect.Parameter | None:
    """Return the parameter that is given in a place, None where there are not so many."""
    named = [each for each in parameters.values() if each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}]
    return named[index] if index < len(named) else None

"""A choice of arguments, and what becomes of it where a place gets another value: with all that this one needs.

Which value is to be changed is not known here.
"""

import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from fxworker.choices import Choice, Group, Value, joined, literal, without
from fxworker.evidence import GIVEN
from fxworker.likeness import all_alike, twins_of
from fxworker.proposing import Proposals

_DEEPEST: Final = 4
"""How many groups may be inside each other."""
_UNCOUNTED: Final = re.compile(rf"\.(?:{re.escape(GIVEN)}|\d+)(?=\.|$)")
"""What is no group of its own: what a function gives, an item of a list."""
_FEW: Final = 2
"""Of how few items hardly anything is built."""
_APART: Final = 0.5
"""What it costs more to change one of several like places alone."""
_DEGENERATE: Final = 2.0
"""What it costs more to take away items that something may be made for."""


class Changing:
    """A call with its arguments, which are changed. Mutable: it keeps what is proposed for a place."""

    def __init__(self, root: Group, proposals: Proposals) -> None:
        """Prepare to change the arguments of a call.

        Args:
            root: The call.
            proposals: What its arguments may be.
        """
        self._root = root
        self._proposals = proposals
        self._kept: dict[tuple[str, Value], list[Value]] = {}

    def first(self) -> dict[str, Value]:
        """Return the choice of what is proposed first for everything that is required."""
        return self._with({}, "", self._root)

    def _with(self, choice: Choice, path: str, value: Value) -> dict[str, Value]:
        """Return a choice with another value, and first proposals for all that this one needs."""
        if isinstance(value, str) and isinstance(choice.get(path, ""), str):
            return {**choice, path: value}  # Neither is made of anything.
        kept = without(choice, path) if path else {}
        changed: dict[str, Value] = {
            each: value if each == path else kept[each] for each in choice if each in {path, *kept}
        }
        changed[path] = value
        if isinstance(value, Group) and _UNCOUNTED.sub("", path).count(".") < _DEEPEST:
            for name in self._proposals.fields(changed, path):
                inner = joined(path, name)
                changed = self._with(changed, inner, self._proposed(changed, inner)[0])
        return changed

    def _proposed(self, choice: Choice, path: str) -> list[Value]:
        """Return what a place may hold, best first."""
        key = (path, choice.get(path.rpartition(".")[0], ""))
        if key not in self._kept:
            self._kept[key] = self._proposals.of(choice, path)
        return self._kept[key]

    def _changed(
        self, choice: Choice, path: str, value: Value, cost: float
    ) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield a choice with another value in a place, first also in the same place of other calls of that class."""
        # Of what has hardly any items hardly anything is built.
        cost += _DEGENERATE * (path in choice and length_of(value) < min(_FEW, length_of(choice[path])))
        changed = self._everywhere(choice, path, value)
        twins = twins_of(choice, path)
        if twins:
            together = changed
            for each in twins:
                together = self._everywhere(together, each, value)
            yield cost, together
            cost += _APART
        yield cost, changed

    def _everywhere(self, choice: Choice, path: str, value: Value) -> dict[str, Value]:
        """Return a choice with another value in a place, and in the same place of the other items of its list."""
        changed = dict(choice)
        for each in all_alike(choice, path):
            changed = self._with(changed, each, value)
        return changed

    def _is_nothing(self, choice: Choice, path: str) -> bool:
        """Whether nothing is given for a parameter that has no default, or None."""
        return path not in choice and not self._proposals.slot(choice, path).usual_type


def name_of(path: str) -> str:
    """Return the name that a place is spoken of by: for what a function gives, that of the function."""
    return path.removesuffix(f".{GIVEN}").rpartition(".")[2]


def length_of(value: Value | None) -> int:
    """Return how many items an expression has; those that have none count as long ones."""
    return _length(value) if isinstance(value, str) else sys.maxsize


@lru_cache(maxsize=1024)
def _length(expression: str) -> int:
    found = literal(expression)
    return len(found) if isinstance(found, list | tuple | dict) else sys.maxsize

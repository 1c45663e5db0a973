"""What was found about the values of one model, for as long as the model is the same.

It is kept by what computes a value, and from what: two runs that compute the same ask for the same. From one diagnosis
to the next the model is put back to what it was, but its code may be replaced. What may depend on code that will be is
not kept.
"""

import sys
from collections.abc import Callable, Hashable, Iterable
from types import FrameType
from typing import Any, Final

from fxengine.node import Node

UNKNOWN: Final = object()
"""Stands for a value that cannot be told."""


class Memory:
    """The values that were found for a model, numbered. Mutable.

    Attributes:
        found: The values, by their numbers.
    """

    def __init__(self, replaceable: Iterable[str] = ()) -> None:
        """Prepare to remember; the code of the files that are `replaceable` may be another in the next diagnosis."""
        self.found: list[Any] = []
        self._numbers: dict[Hashable, int] = {}
        self._held: dict[int, Any] = {}
        self._replaceable = frozenset(replaceable)
        self._passing = set[int]()

    def number(self, key: Hashable, held: object = None) -> int:
        """Return the number of a value; that of the next one to be found if nothing was found for its key.

        Args:
            key: What the value is computed by, and from what.
            held: Something by whose identity the key names it, which must not be let go.

        Raises:
            TypeError: The key cannot be hashed.
        """
        number = self._numbers.setdefault(key, len(self.found))
        if number == len(self.found):
            self._held[number] = held
        return number

    def find(self, compute: Callable[[], Any]) -> None:
        """Find the value with the next number."""
        if not self._replaceable:
            self.found.append(compute())
            return
        replaceable, passing = self._replaceable, self._passing
        number, before = len(self.found), sys.getprofile()

        def note(frame: FrameType, event: str, _argument: object) -> None:
            if event == "call" and frame.f_code.co_filename in replaceable:
                passing.add(number)

        sys.setprofile(note)
        try:
            value = compute()
        finally:
            sys.setprofile(before)
        self.found.append(value)

    def found_in_passing(self) -> None:
        """Keep the value that was found last for this diagnosis alone."""
        self._passing.add(len(self.found) - 1)

    def settle(self) -> None:
        """Keep what holds in another diagnosis of the same model, whose code may be replaced now; ends its watching."""
        self._numbers = {
            key: number
            for key, number in self._numbers.items()
            if number not in self._passing and not isinstance(key, Node) and self.found[number] is not UNKNOWN
        }
        self._replaceable = frozenset()
        self._passing.clear()

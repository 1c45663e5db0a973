"""Many spans of a text, of which those on a few lines are found without a look at the others."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Generic, TypeVar

from fxworker.wire import Span

_Item = TypeVar("_Item")


class ByLine(Generic[_Item]):
    """Items, each with the span that it lies at. They are sorted when somebody first asks."""

    def __init__(self, items: Iterable[_Item], span: Callable[[_Item], Span]) -> None:
        self._items = items
        self._span = span
        self._sorted: list[_Item] | None = None
        self._begins: list[int] = []
        self._reached: list[int] = []

    def touching(self, first: int, last: int) -> Iterator[_Item]:
        """Yield the items that lie on one of the lines `first` to `last`, both included."""
        items = self._sorted if self._sorted is not None else self._sort()
        # Those before the first that reaches so far end above, as all before it do; others may end there, too.
        for index in range(bisect_left(self._reached, first), bisect_right(self._begins, last)):
            if self._span(items[index]).end_line >= first:
                yield items[index]

    def _sort(self) -> list[_Item]:
        found = sorted(self._items, key=lambda each: self._span(each).line)
        spans = [self._span(each) for each in found]
        self._begins = [each.line for each in spans]
        self._reached = [*accumulate((each.end_line for each in spans), max)]
        self._items = self._sorted = found
        return found

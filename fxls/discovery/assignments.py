"""The assignments of a file, where they are after edits: a long file has a thousand, and hardly any is asked about."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fxls.text.by_line import ByLine
from fxls.text.edits import Carry
from fxworker.wire import Span


@dataclass(frozen=True, slots=True)
class Assignment:
    """An assignment or returned expression: the span of the statement, and that of its value."""

    span: Span
    value: Span


class Assignments:
    """The assignments of a text that was edited since they were found, without those that the edits touched."""

    __slots__ = ("_by_line", "_carry", "_found")

    def __init__(self, found: Iterable[Assignment] = ()) -> None:
        self._found = tuple(found)
        self._by_line = ByLine(self._found, lambda each: each.span)
        self._carry = Carry.identity()

    def carried(self, carry: Carry) -> "Assignments":
        """Return them where edits of this text have moved them."""
        made = Assignments()
        # Edits that follow on others are rare: mostly both lead on from the text in which this was found.
        source = Assignments(self) if self._carry.replacements else self
        made._found, made._by_line, made._carry = source._found, source._by_line, carry
        return made

    def in_lines(self, first: int, last: int) -> list[Assignment]:
        """Return those that lie on one of the lines `first` to `last`, both included."""
        near = self._by_line.touching(*self._carry.lines_before(first, last))
        return [each for each in self._moved(near) if each.span.line <= last and first <= each.span.end_line]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Assignments) and [*self] == [*other]

    def __hash__(self) -> int:
        return hash((*self,))

    def __iter__(self) -> Iterator[Assignment]:
        return self._moved(self._found)

    def _moved(self, found: Iterable[Assignment]) -> Iterator[Assignment]:
        for each in found:
            span, value = self._carry.span(each.span), self._carry.span(each.value)
            if span is not None and value is not None:
                yield Assignment(span, value)

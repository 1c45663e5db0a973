"""Edits of a text: applying what the client sends, and carrying spans of an older text to the current one.

A report is computed from a text that the person goes on editing. Until the next report arrives, a `Carry` says where
an expression of the old text lies now, and that an expression which an edit touched lies nowhere any more.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from lsprotocol import types as lsp

from fxls.text.mapper import Mapper
from fxls.text.scanning import same_ends
from fxworker.wire import Span

Point: TypeAlias = tuple[int, int]
"""A CPython line and byte column."""

_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
"""A line with its end."""

_UNKNOWN: Final = "?"
"""Stands for a character at the edge of an edit that is not known; counts as no space."""


@dataclass(frozen=True, slots=True)
class Change:
    """The replacement of a span of a text. `at_line_end` says that it begins where its line's characters end."""

    span: Span
    text: str
    at_line_end: bool = False


def apply_changes(
    mapper: Mapper, changes: Iterable[lsp.TextDocumentContentChangeEvent]
) -> tuple[Mapper, tuple[Change, ...]]:
    """Return the mapper of the edited text, and the changes in CPython's coordinates, each relative to the text before.

    A change without a range replaces the whole text; the lines that stay the same at both ends are no part of it.
    """
    applied: list[Change] = []
    for event in changes:
        if isinstance(event, lsp.TextDocumentContentChangeWholeDocument):
            old, mapper = mapper, Mapper(event.text, mapper.encoding)
            change = difference(old.text, mapper.text)
        else:
            mapper, change = _applied(mapper, event)
        if change is not None:
            applied.append(change)
    return mapper, tuple(applied)


def difference(old: str, new: str) -> Change | None:
    """Return one change of whole lines that leads from one text to another, None when they are equal."""
    if old == new:
        return None
    before, after = _lines(old), _lines(new)
    head, tail = same_ends(before, after)
    mapper = Mapper(old)
    start = sum(map(len, before[:head]))
    end = len(old) - sum(map(len, before[len(before) - tail :]))
    span = Span(*mapper.at_offset(start), *mapper.at_offset(end))
    return Change(span, "".join(after[head : len(after) - tail]), at_line_end=mapper.line(span.line) == "")


def _lines(text: str) -> list[str]:
    """Return the lines of a text with their ends."""
    if "\r" in text:
        return _LINE.findall(text)
    *lines, last = text.split("\n")
    return [*(each + "\n" for each in lines), *filter(None, [last])]


def _applied(mapper: Mapper, event: lsp.TextDocumentContentChangePartial) -> tuple[Mapper, Change | None]:
    """Return the mapper of the text after one incremental change of another mapper's, and that change."""
    span = mapper.span(event.range)
    new = mapper.edited(span, event.text)
    if "\r" in new.text:
        start = mapper.offset(span.line, span.column)
        joined = (new.text[at - 1 : at + 1] for at in (start, start + len(event.text)))
        if "\r\n" in joined:
            # A lone carriage return and a line feed became one line end: the lines around do not count as they did.
            return new, difference(mapper.text, new.text)
    at_line_end = mapper.position(span.line, span.column) == mapper.end_of_line(span.line)
    return new, Change(span, event.text, at_line_end)


@dataclass(frozen=True, slots=True)
class _Replacement:
    """A range of the old text and what stands in its place in the new one.

    `head` and `tail` are the first and last character of the new text, "" where there is none.
    """

    old_start: Point
    old_end: Point
    new_start: Point
    new_end: Point
    head: str
    tail: str
    at_line_end: bool


@dataclass(frozen=True, slots=True)
class Carry:
    """The way from an older text to the current one.

    Invariants:
    - `replacements` are ordered and lie apart in both texts; what stands between them is the same in both.
    - Their number is that of the distinct places that were edited, however many keystrokes it took.
    """

    replacements: tuple[_Replacement, ...] = ()

    @classmethod
    def identity(cls) -> "Carry":
        """Return the carry of a text to itself."""
        return cls()

    def then(self, changes: Sequence[Change]) -> "Carry":
        """Return this carry followed by changes of the text that it leads to, each relative to the one before."""
        replacements = self.replacements
        for change in changes:
            replacements = _followed(replacements, change)
        return Carry(replacements)

    def span(self, span: Span) -> Span | None:
        """Return where a span of the old text lies in the new one, None when an edit touched it.

        An insertion right beside a span touches it unless a space or a line end stands between them.
        """
        if not self.replacements or span.end_line < self.replacements[0].old_start[0]:
            return span
        last = self.replacements[-1]
        if span.line > last.old_end[0]:
            lines = last.new_end[0] - last.old_end[0]
            return Span(span.line + lines, span.column, span.end_line + lines, span.end_column) if lines else span
        start, end = (span.line, span.column), (span.end_line, span.end_column)
        before: _Replacement | None = None
        for replacement in self.replacements:
            if replacement.old_start > end:
                break
            if replacement.old_end < start or (replacement.old_end == start and not _glues(replacement.tail)):
                before = replacement
            elif replacement.old_start != end or start == end or _glues(replacement.head):
                return None
        return Span(*_moved(start, before), *_moved(end, before))

    def around(self, span: Span) -> Span | None:
        """Return where a span lies whose inside may have been edited, None when one edit took the whole of it."""
        start, end = (span.line, span.column), (span.end_line, span.end_column)
        before_start: _Replacement | None = None
        before_end: _Replacement | None = None
        new_start: Point | None = None
        new_end: Point | None = None
        for replacement in self.replacements:
            if (
                replacement.old_start <= start
                and end <= replacement.old_end
                and replacement.old_start < replacement.old_end
            ):
                return None
            if replacement.old_end <= start:
                before_start = replacement
            elif replacement.old_start <= start:
                new_start = replacement.new_start
            if replacement.old_end <= end and replacement.old_start < end:
                before_end = replacement
            elif replacement.old_start < end:
                new_end = replacement.new_end
        return Span(*(new_start or _moved(start, before_start)), *(new_end or _moved(end, before_end)))

    def lines_before(self, first: int, last: int) -> tuple[int, int]:
        """Return the lines of the old text between which all lies that is now on the lines `first` to `last`."""
        old_first, old_last = first, last
        for replacement in self.replacements:
            start, end = replacement.new_start[0], replacement.new_end[0]
            if start < first:
                old_first = replacement.old_end[0] + max(0, first - end)
            if start > last:
                break
            old_last = replacement.old_end[0] + last - end if end <= last else replacement.old_start[0]
        return old_first, old_last

    def line(self, number: int) -> int | None:
        """Return the number that a line of the old text has now, None when an edit touched it.

        Lines inserted above or below it touch it as little as a line end typed behind its last character.
        """
        before: _Replacement | None = None
        for replacement in self.replacements:
            if replacement.old_start[0] > number:
                break
            ends_above = replacement.old_end <= (number, 0) and replacement.new_end[1] == 0
            if replacement.old_end[0] < number or ends_above:
                before = replacement
                continue
            begins_below = (
                replacement.old_start[0] == number and replacement.at_line_end and replacement.head in {"\r", "\n"}
            )
            if not begins_below:
                return None
            break
        return _moved((number, 0), before)[0]


def _glues(character: str) -> bool:
    """Whether a character beside an expression may become a part of it."""
    return bool(character) and not character.isspace()


def _moved(point: Point, before: _Replacement | None) -> Point:
    """Return where a point of the old text lies, given the last replacement before it."""
    return point if before is None else _shifted(point, before.old_end, before.new_end)


def _shifted(point: Point, origin: Point, target: Point) -> Point:
    """Return the point that is as far behind `target` as `point` is behind `origin`."""
    line = target[0] + point[0] - origin[0]
    return (line, target[1] + point[1] - origin[1]) if point[0] == origin[0] else (line, point[1])


def _followed(replacements: tuple[_Replacement, ...], change: Change) -> tuple[_Replacement, ...]:
    """Return the replacements after one more change: those that it touches merge with it, later ones move."""
    start, end = (change.span.line, change.span.column), (change.span.end_line, change.span.end_column)
    new_end = _end_of_text(start, change.text)
    before = [each for each in replacements if each.new_end < start]
    after = [each for each in replacements if each.new_start > end]
    touched = replacements[len(before) : len(replacements) - len(after)]
    last = before[-1] if before else None
    merged = _Replacement(
        old_start=_origin(start, last),
        old_end=_origin(end, touched[-1] if touched else last),
        new_start=start,
        new_end=new_end,
        head=change.text[:1],
        tail=change.text[-1:],
        at_line_end=change.at_line_end,
    )
    if touched and touched[0].new_start < start:
        first = touched[0]
        merged = replace(
            merged,
            old_start=first.old_start,
            new_start=first.new_start,
            head=first.head,
            tail=merged.tail or _UNKNOWN,
            at_line_end=first.at_line_end,
        )
    elif touched and touched[0].new_start == start:
        merged = replace(merged, at_line_end=touched[0].at_line_end)
    if touched and touched[-1].new_end > end:
        merged = replace(
            merged,
            old_end=touched[-1].old_end,
            new_end=_shifted(touched[-1].new_end, end, new_end),
            head=merged.head or _UNKNOWN,
            tail=touched[-1].tail,
        )
    elif touched:
        merged = replace(merged, old_end=_origin(end, touched[-1]))
    later = [
        replace(each, new_start=_shifted(each.new_start, end, new_end), new_end=_shifted(each.new_end, end, new_end))
        for each in after
    ]
    nothing = merged.old_start == merged.old_end and merged.new_start == merged.new_end
    return (*before, *(() if nothing else (merged,)), *later)


def _origin(point: Point, before: _Replacement | None) -> Point:
    """Return where a point of the new text lay in the old one, given the last replacement before it."""
    return point if before is None else _shifted(point, before.new_end, before.old_end)


def _end_of_text(start: Point, text: str) -> Point:
    """Return where a text ends that is inserted at a point."""
    mapper = Mapper(text)
    last = len(mapper.line(mapper.line_count).encode("utf-8", "surrogatepass"))
    return (start[0], start[1] + last) if mapper.line_count == 1 else (start[0] + mapper.line_count - 1, last)

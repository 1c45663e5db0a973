"""Whether an edit changes comments and blank space alone, told from the changed lines and not from the whole file.

Such an edit needs no new trace: what is known is carried to the new text. The answer `False` is always safe, so
everything that would need a parser's knowledge of the surroundings gets it.
"""

import re
from collections.abc import Iterator
from typing import Final

from fxls.text.edits import Change
from fxls.text.mapper import Mapper
from fxls.text.scanning import LINE_END, STRING_OR_COMMENT, byte_length, same_ends
from fxworker.wire import Span

_TRIPLE: Final = re.compile(r"\"\"\"|'''")
_FORMATTED: Final = re.compile(r"""[fFtT][rR]?["']|[rR][fFtT]["']""")
_DIRECTIVE: Final = re.compile(r"#\s*fx\s*:(?!\s*ignore\b)")


class Layout:
    """Knows where the long strings of a text are, which one edit of layout after the other only moves. Mutable."""

    def __init__(self) -> None:
        self._strings: list[tuple[int, int]] | None = None

    def changes(self, old: Mapper, new: Mapper) -> tuple[Change, ...] | None:
        """Return the changes between two texts that differ in comments, blank lines and trailing space alone.

        Comments that say how a model is built or fed count as code. The changes touch nothing of the code, the last one
        comes first: an editor may send the whole text for them, or all from the first to the last.

        Args:
            old: A text that parses: the one that this knows, or the first one that it is asked about.
            new: The text that it knows from now on, unless the answer is None: that other code may have changed.
        """
        first, old_last, new_last = _changed(old, new)
        before, after = old.lines(first, old_last), new.lines(first, new_last)
        if _beside_directive(old, first, old_last) or _is_joined(old, first):
            return None
        old_code, new_code = _code(before), _code(after)
        if old_code is None or old_code != new_code:
            return None
        if self._strings is None:
            self._strings = list(_long_strings(old))
        if any(begin <= old_last and end >= first for begin, end in self._strings):
            return None
        grown = new_last - old_last
        self._strings = [
            (begin + grown, end + grown) if begin > old_last else (begin, end) for begin, end in self._strings
        ]
        gaps = zip(_gaps(old, first, old_last), _gaps(new, first, new_last), strict=True)
        return tuple(change for before, after in gaps if (change := _change(old, before, new, after)))[::-1]


def _gaps(mapper: Mapper, first: int, last: int) -> Iterator[Span]:
    """Yield what stands before, between and behind the lines of code from one line to another."""
    begin = (first - 1, byte_length(mapper.line(first - 1))) if first > 1 else (1, 0)
    for number, line in enumerate(mapper.lines(first, last), first):
        code = _bare(line)
        if code:
            yield Span(*begin, number, 0)
            begin = number, byte_length(code)
    ends_line = first > 1 or last == mapper.line_count
    yield Span(*begin, *((last, byte_length(mapper.line(last))) if ends_line else (last + 1, 0)))


def _change(old: Mapper, before: Span, new: Mapper, after: Span) -> Change | None:
    """Return the change of a stretch of a text into another, of whole lines if it can be, None if line ends differ."""
    one, other = (LINE_END.split(mapper.source(span)) for mapper, span in ((old, before), (new, after)))
    if one == other:
        return None
    head, tail = same_ends(one, other)
    if head + tail == min(len(one), len(other)):
        head, tail = (head, tail - 1) if tail else (head - 1, tail)
    begin = before.line + head, 0 if head else before.column
    number = before.line + len(one) - tail - 1
    length = byte_length(one[len(one) - tail - 1])
    end = number, length if number > before.line else before.column + length
    at_line_end = begin[1] == byte_length(old.line(begin[0]))
    return Change(Span(*begin, *end), "\n".join(other[head : len(other) - tail]), at_line_end)


def _changed(old: Mapper, new: Mapper) -> tuple[int, int, int]:
    """Return the first changed line, and the last one in both texts, 1-based; a last below the first means none."""
    before, after = old.lines(1, old.line_count), new.lines(1, new.line_count)
    head, tail = same_ends(before, after)
    return head + 1, len(before) - tail, len(after) - tail


def _is_joined(old: Mapper, first: int) -> bool:
    """Whether a line may be a part of the one above: of equal blank lines any may be what an edit took away."""
    above = first - 1
    while above > 1 and not old.line(above).strip():
        above -= 1
    return old.line(above).endswith("\\")


def _beside_directive(old: Mapper, first: int, last: int) -> bool:
    """Whether a directive stands right above or below: its place may be what changes."""
    return bool(_DIRECTIVE.search(old.line(first - 1)) or _DIRECTIVE.search(old.line(last + 1)))


def _code(lines: list[str]) -> list[str] | None:
    """Return the lines without comments and blank space at their ends, None where a line needs a parser."""
    code: list[str] = []
    for line in lines:
        if _TRIPLE.search(line) or _DIRECTIVE.search(line) or ("#" in line and _FORMATTED.search(line)):
            return None
        bare = _bare(line)
        if bare.endswith("\\"):
            return None
        if bare:
            code.append(bare)
    return code


def _bare(line: str) -> str:
    """Return a line without its comment and the blank space at its end."""
    comments = (each.start() for each in STRING_OR_COMMENT.finditer(line) if each[0].startswith("#"))
    return line[: next(comments, None)].rstrip(" \t\f")


def _long_strings(mapper: Mapper) -> Iterator[tuple[int, int]]:
    """Yield the first and the last line of each string that goes over several lines."""
    for match in STRING_OR_COMMENT.finditer(mapper.text):
        if "\n" in match[0] or "\r" in match[0]:
            yield mapper.at_offset(match.start())[0], mapper.at_offset(match.end())[0]

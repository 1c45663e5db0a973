r"""The only place that converts coordinates.

Four ways to name a place in a text meet here: CPython's (1-based line, 0-based UTF-8 byte column), which everything
inside uses; LSP's (0-based line, 0-based column in the encoding that client and server agreed on); code points, which
people and the command line count from 1; and offsets into the string. Lines end at `\n`, `\r\n` and `\r` alone, as they
do for CPython's tokenizer and for LSP; `str.splitlines` has more ends and is not used.

A place beyond the text is moved to the nearest place that exists: clients and reports may lag behind an edit.
"""

from bisect import bisect_right
from itertools import accumulate
from typing import Final

from lsprotocol import types as lsp

from fxls.text.scanning import LINE_END, byte_length
from fxworker.wire import Span

_ONE_MORE: Final = (1).__add__


class Mapper:
    """The coordinates of one text. Immutable; lines are split once, everything else is computed on demand.

    Invariants:
    - There is at least one line; the last one is what follows the last line end, and may be empty.
    - A column inside a character is moved to the character's beginning.
    """

    __slots__ = ("_lines", "_starts", "encoding", "text")

    def __init__(self, text: str, encoding: str = "utf-16", lines: list[str] | None = None) -> None:
        self.text: Final = text
        self.encoding: Final = str(getattr(encoding, "value", encoding))
        if lines is None:
            lines = LINE_END.split(text) if "\r" in text else text.split("\n")
        self._lines: Final = lines
        self._starts: list[int] | None = None

    def edited(self, span: Span, text: str) -> "Mapper":
        """Return the coordinates of this text with another one in the place of a span."""
        if "\r" in self.text or "\r" in text:
            start, end = self.offset(span.line, span.column), self.offset(span.end_line, span.end_column)
            return Mapper(self.text[:start] + text + self.text[end:], self.encoding)
        before = self.line(span.line)[: self.code_point(span.line, span.column) - 1]
        after = self.line(span.end_line)[self.code_point(span.end_line, span.end_column) - 1 :]
        lines = [*self._lines[: span.line - 1], *(before + text + after).split("\n"), *self._lines[span.end_line :]]
        return Mapper("\n".join(lines), self.encoding, lines)

    def fitting(self, text: str) -> str:
        """Return what is to stand in this text, its lines ending as the ones here do."""
        return text.replace("\r\n", "\n").replace("\n", "\r\n") if "\r\n" in self.text else text

    @property
    def line_count(self) -> int:
        """The number of lines, the empty one after a final line end included."""
        return len(self._lines)

    def line(self, number: int) -> str:
        """Return the 1-based line without its end; "" beyond the text."""
        return self._lines[number - 1] if 0 < number <= len(self._lines) else ""

    def lines(self, first: int, last: int) -> list[str]:
        """Return the 1-based lines `first` to `last`, both included, without their ends."""
        return self._lines[max(first - 1, 0) : max(last, 0)]

    # From inside to LSP.

    def position(self, line: int, column: int) -> lsp.Position:
        """Return the LSP position of a CPython line and byte column."""
        row, text = self._row(line)
        if line != row + 1:
            return lsp.Position(row, self._units(text, len(text)) if line > row + 1 else 0)
        if text.isascii():
            return lsp.Position(row, min(max(column, 0), len(text)))
        return lsp.Position(row, self._units(text, _characters(text, column, "utf-8")))

    def range(self, span: Span) -> lsp.Range:
        """Return the LSP range of a span."""
        return lsp.Range(self.position(span.line, span.column), self.position(span.end_line, span.end_column))

    def end_of_line(self, line: int) -> lsp.Position:
        """Return the LSP position after the last character of a 1-based line, before its end."""
        row, text = self._row(line)
        return lsp.Position(row, self._units(text, len(text)))

    # From LSP to inside.

    def point(self, position: lsp.Position) -> tuple[int, int]:
        """Return the CPython line and byte column of an LSP position."""
        row, text = self._row(position.line + 1)
        if position.line != row:
            return row + 1, byte_length(text) if position.line > row else 0
        if text.isascii():
            return row + 1, min(max(position.character, 0), len(text))
        return row + 1, byte_length(text[: _characters(text, position.character, self.encoding)])

    def span(self, range_: lsp.Range) -> Span:
        """Return the span of an LSP range; an end before its start becomes the start."""
        start = self.point(range_.start)
        return Span(*start, *max(start, self.point(range_.end)))

    # Code points and offsets.

    def code_point(self, line: int, column: int) -> int:
        """Return the 1-based column in code points of a CPython line and byte column."""
        text = self.line(line)
        return (min(max(column, 0), len(text)) if text.isascii() else _characters(text, column, "utf-8")) + 1

    def byte_column(self, line: int, code_point: int) -> int:
        """Return the byte column of a 1-based column in code points."""
        return byte_length(self.line(line)[: max(code_point - 1, 0)])

    def offset(self, line: int, column: int) -> int:
        """Return the index into the text of a CPython line and byte column."""
        row, text = self._row(line)
        start = self._offsets()[row]
        if line != row + 1:
            return start + (len(text) if line > row + 1 else 0)
        return start + self.code_point(line, column) - 1

    def at_offset(self, offset: int) -> tuple[int, int]:
        """Return the CPython line and byte column of an index into the text."""
        starts = self._offsets()
        row = bisect_right(starts, min(max(offset, 0), len(self.text))) - 1
        return row + 1, byte_length(self._lines[row][: max(offset - starts[row], 0)])

    def source(self, span: Span) -> str:
        """Return the text of a span, its line ends as they are."""
        lines = self._lines[max(span.line - 1, 0) : max(span.end_line, 0)]
        if "\r" in self.text or not lines or len(lines) != span.end_line - span.line + 1:
            return self.text[self.offset(span.line, span.column) : self.offset(span.end_line, span.end_column)]
        # The last line first: it may be the first one, too.
        lines[-1] = lines[-1][: self.code_point(span.end_line, span.end_column) - 1]
        lines[0] = lines[0][self.code_point(span.line, span.column) - 1 :]
        return "\n".join(lines)

    def _row(self, line: int) -> tuple[int, str]:
        """Return the 0-based index of the nearest existing line, and its text."""
        row = min(max(line - 1, 0), len(self._lines) - 1)
        return row, self._lines[row]

    def _units(self, text: str, characters: int) -> int:
        """Return how many units of the client's encoding the first characters of a line take."""
        if text.isascii():
            return characters
        return sum(_width(character, self.encoding) for character in text[:characters])

    def _offsets(self) -> list[int]:
        if self._starts is None:
            if "\r" in self.text:
                self._starts = [0, *(end.end() for end in LINE_END.finditer(self.text))]
            else:
                self._starts = [0, *accumulate(map(_ONE_MORE, map(len, self._lines[:-1])))]
        return self._starts


def _width(character: str, encoding: str) -> int:
    """Return how many units of an encoding a character takes. A lone surrogate counts as what would hold it."""
    code = ord(character)
    match encoding:
        case "utf-8":
            return 1 if code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4
        case "utf-16":
            return 1 if code < 0x10000 else 2
        case _:
            return 1


def _characters(text: str, units: int, encoding: str) -> int:
    """Return how many whole characters of a line fit into a number of units."""
    if encoding == "utf-32":
        return min(max(units, 0), len(text))
    for index, character in enumerate(text):
        units -= _width(character, encoding)
        if units < 0:
            return index
    return len(text)

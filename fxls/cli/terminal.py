"""The terminal: colours where they are wanted, the width of characters, and a line of progress that leaves no trace."""

import os
import sys
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TextIO

_CODES: Final = {
    "error": "1;31",
    "warning": "1;33",
    "information": "1;34",
    "hint": "1;36",
    "gutter": "34",
    "strong": "1",
    "quiet": "2",
}

_COLUMNS: Final = 80
"""The width of a terminal that does not say how wide it is."""


@dataclass(frozen=True, slots=True)
class Paint:
    """Colours text, or leaves it alone."""

    on: bool

    @classmethod
    def for_stream(cls, stream: TextIO, choice: str, environ: Mapping[str, str] = os.environ) -> "Paint":
        """Return whether a stream gets colours: as chosen, else on a terminal where NO_COLOR is not set."""
        if choice != "auto":
            return cls(choice == "always")
        return cls(stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb")

    def __call__(self, style: str, text: str) -> str:
        """Return a text in a style."""
        return f"\033[{_CODES[style]}m{text}\033[0m" if self.on and text else text


class Progress:
    """A line on a terminal that says how far the work is, and is gone when it is done. Mutable."""

    def __init__(self, stream: TextIO = sys.stderr) -> None:
        self._stream = stream
        self._shown = stream.isatty()
        self._length = 0

    def say(self, text: str) -> None:
        """Show a text in place of the last one."""
        if not self._shown:
            return
        columns = os.get_terminal_size(self._stream.fileno()).columns or _COLUMNS
        text = text[: max(columns - 1, 0)]
        self._stream.write("\r" + text.ljust(self._length))
        self._stream.flush()
        self._length = len(text)

    def clear(self) -> None:
        """Take the line away."""
        if self._shown and self._length:
            self._stream.write("\r" + " " * self._length + "\r")
            self._stream.flush()
            self._length = 0


def width(character: str) -> int:
    """Return how many columns of a terminal a character takes."""
    if unicodedata.combining(character) or unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def underlay(text: str) -> str:
    """Return blanks as wide as a text; tabs stay, so that what follows stands where it does below the text itself."""
    return "".join("\t" if character == "\t" else " " * width(character) for character in text)

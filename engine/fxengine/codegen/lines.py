"""The last steps of code generation: chunks become numbered lines.

In between, a user's transformer may see them as pieces of text and rewrite these.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from fxengine.codegen.body import Chunk

_COUNTER: Final = re.compile(r"# COUNTER: (\d+)")


@dataclass(slots=True)
class Lines:
    """The lines of a function's body, without indentation, and the index of the node that each belongs to."""

    text: list[str] = field(default_factory=list[str])
    owners: list[int | None] = field(default_factory=list[int | None])

    def add(self, owner: int | None, text: str) -> None:
        """Add ``text``, whole lines, as belonging to the node with index ``owner``."""
        for line in text[:-1].split("\n"):
            self.text.append(line)
            self.owners.append(owner)

    def source(self) -> str:
        """Return the body, indented; empty lines at its start are left out."""
        lines = self.text[self.leading() :]
        return "    " + "\n    ".join(lines)

    def leading(self) -> int:
        """Return the number of empty lines at the start."""
        return next((number for number, line in enumerate(self.text) if line), len(self.text))


def to_lines(chunks: Iterable[Chunk]) -> Lines:
    """Return the lines of a body. A comment before a node belongs to the node before that."""
    lines = Lines()
    texts, owners = lines.text, lines.owners
    owner: int | None = None
    for before, index, statement, tail in chunks:
        if before:
            lines.add(owner, before)
        owner = index
        if "\n" in statement:
            lines.add(index, statement if tail is None else f"{statement}{tail}\n")
        elif tail is not None:
            texts.append(statement + tail)
            owners.append(index)
    return _finished(lines, owner)


def to_pieces(chunks: Iterable[Chunk]) -> list[str]:
    """Return the text of a body as a transformer gets it; a comment with a counter marks the beginning of each node."""
    pieces: list[str] = []
    for before, index, statement, tail in chunks:
        counter = "" if index is None else f"# COUNTER: {index}\n"
        marked = (before, counter, statement, "" if tail is None else f"{tail}\n")
        pieces += [piece for piece in marked if piece]
    return pieces or ["pass\n"]


def from_pieces(pieces: Iterable[str]) -> Lines:
    """Return the lines of a transformed body, without the counters; what comes before the first belongs to no node."""
    lines = Lines()
    owner: int | None = None
    for line in "".join(pieces).split("\n"):
        counter = _COUNTER.search(line)
        if counter is not None:
            owner = int(counter.group(1))
        else:
            lines.text.append(line)
            lines.owners.append(owner)
    return lines


def _finished(lines: Lines, owner: int | None) -> Lines:
    """Return the lines of a whole body: at least one statement, and the empty line that follows the last line end."""
    if not lines.text:
        lines.add(owner, "pass\n")
    lines.text.append("")
    lines.owners.append(owner)
    return lines

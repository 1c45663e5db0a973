"""What is seen of a text without a parser, also where it does not parse, and fast: strings, comments, what is equal."""

import re
from collections.abc import Iterable, Sequence
from itertools import compress, count, islice
from operator import ne
from typing import Final

STRING_OR_COMMENT: Final = re.compile(
    r"""\#[^\r\n]*
    | \"{3}(?:[^\\]|\\.)*?\"{3} | '{3}(?:[^\\]|\\.)*?'{3}
    | "(?:[^"\\\r\n]|\\.)*" | '(?:[^'\\\r\n]|\\.)*'""",
    re.VERBOSE | re.DOTALL,
)
"""A comment without its line end, or a string without its prefix."""

LINE_END: Final = re.compile(r"\r\n|\r|\n")


def byte_length(text: str) -> int:
    """Return how many bytes a text takes in UTF-8, of which CPython's columns are counted."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def same_ends(one: Sequence[str], other: Sequence[str]) -> tuple[int, int]:
    """Return how many lines two texts have in common at their beginnings and, of the others, at their ends."""
    shorter = min(len(one), len(other))
    head = _same(one, other, shorter)
    return head, _same(reversed(one), reversed(other), shorter - head)


def _same(one: Iterable[str], other: Iterable[str], most: int) -> int:
    """Return how many items are equal from the first on, at most so many."""
    return next(compress(count(), islice(map(ne, one, other), most)), most)

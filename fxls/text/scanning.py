"""Strings and comments in Python text, found without a parser: also in a text that does not parse, and fast."""

import re
from typing import Final

STRING_OR_COMMENT: Final = re.compile(
    r"""\#[^\r\n]*
    | \"{3}(?:[^\\]|\\.)*?\"{3} | '{3}(?:[^\\]|\\.)*?'{3}
    | "(?:[^"\\\r\n]|\\.)*" | '(?:[^'\\\r\n]|\\.)*'""",
    re.VERBOSE | re.DOTALL,
)
"""A comment without its line end, or a string without its prefix."""

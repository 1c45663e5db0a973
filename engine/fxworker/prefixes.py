"""Prefixes that code takes off the names of options: `{name[4:]: … if name.startswith("enc_")}`.

What lacks an option of the shorter name says nothing of the longer one; the text of the prefix stands in the code.
"""

import re
from collections.abc import Iterator
from types import CodeType
from typing import Final

from fxengine.source import is_user_file
from fxworker.lacking import Moments

_PREFIX: Final = re.compile(r"[A-Za-z]\w*[_.]")


def prefixes_in(moments: Moments) -> Iterator[str]:
    """Yield the texts that look like prefixes in the functions that something came through, innermost first."""
    for _, frame, _ in moments:
        if is_user_file(frame.f_code.co_filename):
            yield from filter(_PREFIX.fullmatch, _texts_of(frame.f_code))


def _texts_of(code: CodeType) -> Iterator[str]:
    """Yield the texts in a function, and in those inside it."""
    for each in code.co_consts:
        if isinstance(each, str):
            yield each
        elif isinstance(each, CodeType):
            yield from _texts_of(each)

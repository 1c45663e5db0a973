"""What server and worker alike hold a text to be: the name that it goes by, and the program in it.

Both sides must come to the same answer, or a report would be taken for that of another text.
"""

import ast
import hashlib
import re
import warnings

_BEHIND_LINE_END = re.compile(r"\n[ \t]*[%!]")
_NOTEBOOK_LINE = re.compile(r"(\A|\n)([ \t]*)([%!][^\n]*)")


def digest(text: str) -> str:
    """Return the name of a text: 32 hexadecimal digits, equal for equal texts."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def program_of(text: str) -> str:
    """Return a text as Python reads it: lines that only a notebook understands, `%magic` and `!command`, are comments.

    They are looked for only in a text that is no program as it stands. The mark that a file's bytes may begin with is
    none of the text.
    """
    text = text.removeprefix("\ufeff")
    # Asked at each edit of a text that may be long: what begins with a fixed character is found fastest.
    if _BEHIND_LINE_END.search(text) is None and _NOTEBOOK_LINE.match(text) is None:
        return text
    changed = _NOTEBOOK_LINE.sub(r"\1\2pass  # \3", text)
    for candidate in (text, changed):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ast.parse(candidate)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        return candidate
    return text

"""Names that are another one but for a slip of the keys."""

import difflib
from collections.abc import Iterable
from typing import Final

_CLOSE: Final = 0.85
"""How alike such a name is, of 1 for the same."""


def meant_as_forward(methods: Iterable[str]) -> str:
    """Return the method that is probably meant to be called `forward`; "" where none is."""
    single = [each for each in methods if "_" not in each]
    return next(iter(difflib.get_close_matches("forward", single, n=1, cutoff=_CLOSE)), "")

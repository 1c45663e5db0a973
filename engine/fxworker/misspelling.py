"""Names that are another one but for a slip of the keys."""

import difflib
from collections.abc import Iterable, Mapping
from types import FunctionType
from typing import Final

_CLOSE: Final = 0.85
"""How alike such a name is, of 1 for the same."""

_CLOSE_AS_IT_DOES: Final = 0.6
"""How alike a name is that says the same by what is done under it."""

_SHORTEST: Final = 3
"""Letters of a name below which others are alike by chance."""

_CONSTRUCTOR: Final = "__init__"


def alike(name: str, others: Iterable[str]) -> str:
    """Return the name that another one probably is, written otherwise or with a slip; "" where none is, or several."""
    names = sorted({*others} - {name})
    for spoken in (str.lower, _spoken):
        same = [each for each in names if spoken(each) == spoken(name)]
        if same:
            return same[0] if len(same) == 1 else ""
    if len(name) < _SHORTEST:
        return ""
    swapped = [each for each in names if _is_swapped(name, each)]
    if swapped:
        return swapped[0] if len(swapped) == 1 else ""
    return next(iter(difflib.get_close_matches(name, names, n=1, cutoff=_CLOSE)), "")


def _is_swapped(name: str, other: str) -> bool:
    """Whether two letters that follow each other are all that two names differ in."""
    differ = [place for place, (one, another) in enumerate(zip(name, other, strict=False)) if one != another]
    if len(name) != len(other) or len(differ) != 2 or differ[1] != differ[0] + 1:
        return False
    first, second = differ
    return (name[first], name[second]) == (other[second], other[first])


def _spoken(name: str) -> str:
    """Return a name as one says it: without what tells ways of writing apart."""
    return name.replace("_", "").lower()


def meant_as_forward(methods: Iterable[str]) -> str:
    """Return the method that is probably meant to be called `forward`; "" where none is."""
    single = [each for each in methods if "_" not in each]
    return next(iter(difflib.get_close_matches("forward", single, n=1, cutoff=_CLOSE)), "")


def meant_as_constructor(methods: Mapping[str, FunctionType]) -> str:
    """Return the method that is probably meant to be called `__init__`; "" where none is, or there is one.

    Such a method hands on to the constructor of the base, which no other one does.
    """
    if _CONSTRUCTOR in methods:
        return ""
    handing_on = [name for name, each in methods.items() if _CONSTRUCTOR in each.__code__.co_names]
    return next(iter(difflib.get_close_matches(_CONSTRUCTOR, handing_on, n=1, cutoff=_CLOSE_AS_IT_DOES)), "")

"""What a project makes ready before it builds a model, for the one process there is: `initialize_model_parallel(1)`.

Layers that are shared out among processes ask their library for the group that theirs is in, and raise where there is
none. A script would have called the function of that library which makes it.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from fxengine.classification import moments_of
from fxengine.errors import text_of
from fxworker.retrying import again

_MOST: Final = 2
"""How often something is made ready for one model."""

_UNREADY: Final = re.compile(r"(?:\bnot|n't)\b[\w\s]{0,20}\binitiali[sz]ed\b", re.IGNORECASE)
_READYING: Final = re.compile(r"init(iali[sz]e)?_\w+")

_Result = TypeVar("_Result")


def with_groups(work: Callable[[], _Result]) -> _Result:
    """Do something, again where what it wants is not initialised and there is a function that does that.

    Raises:
        BaseException: What it raises for another reason.
    """
    return again(work, _is_initialised, _MOST)


def _is_initialised(error: Exception) -> bool:
    """Call what initialises that which an error says is not, and return whether there was such a function."""
    text = text_of(error)
    if not isinstance(error, AssertionError | RuntimeError | ValueError) or not _UNREADY.search(text):
        return False
    for moment in reversed(moments_of(error.__traceback__)):
        for function, count in _readying(moment.frame.f_globals, _words(text)):
            try:
                function(*(1,) * count)
            except Exception:  # noqa: BLE001, S112 — The user's code; then another function may do it.
                continue
            return True
    return False


def _readying(names: Mapping[str, Any], words: set[str]) -> Iterator[tuple[Callable[..., Any], int]]:
    """Yield the functions of a module that are called as what initialises something, with how many arguments they need.

    One may ask for a number of processes.
    """
    module = str(names.get("__name__", ""))
    for name, value in names.items() if module.partition(".")[0] != "torch" else ():
        if not inspect.isfunction(value) or value.__module__ != module or not _READYING.fullmatch(name):
            continue
        needed = [each for each in inspect.signature(value).parameters.values() if each.default is each.empty]
        if len(needed) <= 1 and not words.isdisjoint(_words(name)):
            yield value, sum(each.kind is each.POSITIONAL_OR_KEYWORD for each in needed)


def _words(text: str) -> set[str]:
    """Return the words of a text, or a name, that say what is spoken of."""
    return {each for each in re.findall(r"[a-z]{4,}", text.lower()) if not each.startswith("initiali")}

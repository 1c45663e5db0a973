"""Functions of libraries that do something else here, put in their places once however often that is asked for."""

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

_Function: TypeAlias = Callable[..., Any]


def wrapped_once(function: _Function, wrapper: Callable[[_Function], _Function]) -> _Function | None:
    """Return a function with a wrapper around it, which has its name; None where it is one that was made here."""
    if hasattr(function, "__fxls_wrapped__"):
        return None
    wrapped: Any = functools.wraps(function)(wrapper(function))
    wrapped.__fxls_wrapped__ = True
    return wrapped

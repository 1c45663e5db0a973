"""Decorators that check types when a function is called, and refuse annotations that name what is not installed.

What is annotated so is no less a model: the decorator then gives the function back as it is.
"""

import functools
import itertools
import sys
from collections.abc import Callable, Iterator
from types import FrameType, FunctionType
from typing import Any

from fxengine.classification import moments_of
from fxworker.absent import names_stand_in


def without_check(error: Exception) -> bool:
    """Let the decorator that has refused a function give such functions back from now on, and return whether it did."""
    if not names_stand_in(error):
        return False
    for frame, decorator in _called(error):
        for scope in (frame.f_globals, *_modules_of(decorator)):
            for name, value in list(scope.items()):
                if value is decorator:
                    scope[name] = _lenient(decorator)
        return True
    return False


def _called(error: Exception) -> Iterator[tuple[FrameType, FunctionType]]:
    """Yield the functions of other packages that an exception came through, each with who called it by its name."""
    frames = [each.frame for each in moments_of(error.__traceback__)]
    for outer, inner in itertools.pairwise(frames):
        if _package_of(outer.f_globals) != _package_of(inner.f_globals):
            named = (value for value in list(outer.f_globals.values()) if isinstance(value, FunctionType))
            yield from ((outer, value) for value in named if value.__code__ is inner.f_code)


def _lenient(decorator: Callable[..., Any]) -> Callable[..., Any]:
    """Return a decorator that gives back what it refuses for what is not installed."""

    @functools.wraps(decorator)
    def decorate(*args: Any, **kwargs: Any) -> Any:
        try:
            return decorator(*args, **kwargs)
        except Exception as error:
            if args and callable(args[0]) and names_stand_in(error):
                return args[0]
            raise

    return decorate


def _modules_of(function: FunctionType) -> Iterator[dict[str, Any]]:
    """Yield the namespaces of the modules of a function's package."""
    package = _package_of(function.__globals__)
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == package:
            yield vars(module)


def _package_of(scope: dict[str, Any]) -> str:
    return str(scope.get("__name__", "")).partition(".")[0]

"""Whether a constructor that need not be given arguments wanted some, by what it raised without any."""

import ast
import re
from typing import Any, Final

from fxengine.classification import Moment, moments_of
from fxengine.errors import text_of
from fxengine.source import is_user_file
from fxengine.syntax import nodes_around
from fxworker.choices import handed_parameters_of, taking_several
from fxworker.complaints import complaint_of
from fxworker.keywords import keys_of_keywords
from fxworker.lacking import unmade
from fxworker.tracebacks import is_given_none
from fxworker.wording import is_not_positive

_NOTHING: Final = {"NoneType": None, "ellipsis": ...}
"""Defaults that say that there is nothing yet, by what errors call them."""

_OF_NOTHING: Final = (AssertionError, AttributeError, IndexError, RuntimeError, TypeError, ValueError)
"""What a constructor raises that takes any number of things and was given none."""

_SIZES: Final = re.compile(
    r"shape '.*' is invalid for input of size|must match the size|shapes cannot be multiplied"
    r"|negative dimension"
)


def wants_arguments(cls: Any, error: BaseException | None) -> bool:
    """Whether a constructor that was called without arguments asked for some.

    It did so if it raised by `raise` or `assert`, a check of its own and no mistake, looked in vain into `**kwargs` or
    handed them on to a constructor that needs some, or could not do with a default: with None or `...`, with nothing
    where there must be something, with what leaves out every branch that makes a variable, or with the name of a file
    that is not there. One that takes any number of things may want some.
    """
    wants_several = taking_several(cls) is not None and isinstance(error, _OF_NOTHING)
    is_missing = isinstance(error, TypeError) and " missing " in text_of(error)
    if isinstance(error, UnboundLocalError) or is_missing or wants_several:
        return True
    if nothing := _nothing_in(error):
        return _may_be_given(cls, nothing)
    defaults = [each.default for each in handed_parameters_of(cls).values()]
    if isinstance(error, FileNotFoundError):
        return error.filename in defaults
    if isinstance(error, IndexError):
        return () in defaults or [] in defaults
    if isinstance(error, RuntimeError) and _SIZES.search(text_of(error)):
        # Its defaults do not go together, or one of them stands for a size that has to be given.
        sizes = [each for each in defaults if isinstance(each, int) and not isinstance(each, bool)]
        return any(each < 0 for each in sizes) if is_not_positive(text_of(error)) else bool(sizes)
    if isinstance(error, KeyError | AttributeError):
        # Its defaults may leave out what it needs later.
        return bool(complaint_of(error).missing) or (isinstance(error, AttributeError) and unmade(error))
    moments = moments_of(error.__traceback__) if isinstance(error, Exception) else []
    if not moments or not is_user_file(moments[-1].path) or moments[-1].opname != "RAISE_VARARGS":
        return False
    return not isinstance(error, OSError) and not _checks_only_the_world(moments[-1])


def _may_be_given(cls: Any, nothing: list[Any]) -> bool:
    """Whether a constructor has one of some values by default, or looks for what it can do without in its keywords."""
    if None in nothing and keys_of_keywords(cls):
        return True
    return any(each.default is value for each in handed_parameters_of(cls).values() for value in nothing)


def _nothing_in(error: BaseException | None) -> list[Any]:
    """Return what stands for nothing that an error is about, as `torch.empty(n)` does not say of None."""
    if not isinstance(error, TypeError | AttributeError):
        return []
    told = text_of(error)
    found = [value for name, value in _NOTHING.items() if name in told]
    return found or ([None] if isinstance(error, TypeError) and _is_of_none(error) else [])


def _is_of_none(error: TypeError) -> bool:
    moments = moments_of(error.__traceback__)
    return bool(moments) and is_given_none(moments[-1])


def _checks_only_the_world(moment: Moment) -> bool:
    """Whether something was raised under conditions that have nothing to do with the function's variables."""
    around = nodes_around(moment.path, moment.source.span)
    tests = [node.test for node in around if isinstance(node, ast.If | ast.Assert)]
    names = {node.id for test in tests for node in ast.walk(test) if isinstance(node, ast.Name)}
    return bool(tests) and names.isdisjoint(moment.frame.f_code.co_varnames)

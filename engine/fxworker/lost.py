"""A forgotten `return`, and what fails for want of what it would have given: one mistake, told where it was made."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from fxengine.exploration import Diagnosis
from fxengine.passes.shape_prop import ShapeFailure
from fxengine.silent.results import is_lost
from fxworker.failing import is_of_none
from fxworker.wire import Problem

_NONE: Final = type(None).__name__


def told_once(
    problems: tuple[Problem, ...], diagnosis: Diagnosis, failures: Iterable[ShapeFailure], complaint: str
) -> tuple[Problem, ...]:
    """Return the problems of a trace if a missing `return` is among them and all that fails does so as it gets None.

    That is then no mere information. Where there is no such thing, nothing is returned. `complaint` says how the best
    of the inputs failed that were tried, where none was found.
    """
    lost = {each.headline for each in diagnosis.silent if is_lost(each)}
    failed = [is_of_none(each) for each in failures] or [_NONE in complaint]
    if not lost or not all(failed):
        return ()
    return tuple(replace(each, severity="warning") if each.message in lost else each for each in problems)

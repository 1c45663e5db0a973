"""Doing something again, as often as what it wants can be mended."""

from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")


def again(work: Callable[[], _Result], mended: Callable[[Exception], bool], most: int) -> _Result:
    """Do something, again as often as what it raises is mended, and return what it gives.

    Args:
        work: What is done.
        mended: Does something about an exception, and says whether it did.
        most: How often that is done.

    Raises:
        BaseException: What it raises, where that is not mended.
    """
    for _ in range(most):
        try:
            return work()
        except Exception as error:
            if not mended(error):
                raise
    return work()

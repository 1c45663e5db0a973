"""Argument lists that are written down: what stands between the parentheses of a call."""

from typing import Any, TypeAlias

from fxworker.packages import reach, with_packages

Arguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]
"""What a call hands over by position, and by name."""


def arguments_of(expression: str, scope: dict[str, Any]) -> Arguments:
    """Return the real arguments that an argument list makes.

    Raises:
        BaseException: Whatever the expression raises.
    """
    call = f"__fxls_call__({expression})"
    code = compile(call, "<inputs>", "eval")
    reach(call, scope)
    names = with_packages(code, scope)
    return eval(code, {**names, "__fxls_call__": lambda *args, **kwargs: (args, kwargs)})  # noqa: S307 — The person's own.

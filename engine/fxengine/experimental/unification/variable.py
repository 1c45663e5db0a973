"""Variables: objects that stand for what is not known yet."""

import itertools
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

__all__ = ["Var", "isvar", "var", "variables", "vars"]

_NUMBERS: Final = itertools.count(1)

_declared: ContextVar[frozenset[Hashable]] = ContextVar("fxengine_declared_variables", default=frozenset())
"""What counts as a variable in this context without being one."""


class Var:
    """A variable. Two with the same token are the same; without a token it is like no other."""

    def __init__(self, *token: Hashable) -> None:
        self.token: Any = token[0] if len(token) == 1 else token or f"_{next(_NUMBERS)}"

    def __repr__(self) -> str:
        return f"~{self.token}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Var) and type(self) is type(other) and self.token == other.token

    def __hash__(self) -> int:
        return hash((type(self), self.token))


def var() -> Callable[..., Var]:
    """Return a function that makes a variable."""
    return Var


def vars() -> Callable[[int], list[Callable[..., Var]]]:  # noqa: A001 - torch.fx's name.
    """Return a function that returns so many functions that make a variable."""
    return lambda count: [Var] * count


def isvar(o: object) -> bool:
    """Return whether ``o`` is a variable, or counts as one in this context."""
    return isinstance(o, Var) or (isinstance(o, Hashable) and _is_declared(o))


def _is_declared(o: Hashable) -> bool:
    declared = _declared.get()
    try:
        return bool(declared) and o in declared
    except TypeError:  # A tuple with a list in it.
        return False


@contextmanager
def variables(*variables: Hashable) -> Generator[None]:
    """Let objects count as variables within the ``with`` statement."""
    token = _declared.set(_declared.get() | set(variables))
    try:
        yield
    finally:
        _declared.reset(token)

"""What a condition tells of the names in it: where `mode == "fast"` does not hold, `mode` is something else."""

import ast
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Final

from fxls.discovery.closing import Bound, Scope

__all__ = ["under"]

_ASKING: Final = {
    "exists": True,
    "is_given": True,
    "is_some": True,
    "not_none": True,
    "is_not_none": True,
    "is_none": False,
}
"""How functions are called that say whether something is there, and what they say where it is."""


@contextmanager
def under(test: ast.expr, scope: Scope, *, holds: bool) -> Generator[None]:
    """Let a name have, in the body, the value that it must have where a test holds, or does not.

    It is unknown there where all that is known of it is that it has another one.
    """
    told = dict(_told(test, scope, holds=holds))
    before = {name: scope.names.get(name) for name in told}
    now = {name: Bound(value) for name, value in told.items()}
    scope.names |= now
    yield
    for name, known in before.items():
        if scope.names.get(name) is not now[name]:
            continue  # What is assigned in a branch counts behind it.
        if known is None:
            del scope.names[name]
        else:
            scope.names[name] = known


def _told(test: ast.expr, scope: Scope, *, holds: bool) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the names that a test is about, with the values that they must have; none that may be what is known."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            yield from _told(inner, scope, holds=not holds)
        case ast.BoolOp(op=kind, values=parts) if holds is isinstance(kind, ast.And):
            for part in parts:
                yield from _told(part, scope, holds=holds)
        case ast.Name(id=name):
            known = _literal(name, scope)
            if known is not None and bool(known.value) is not holds:
                yield name, ast.Constant(holds) if isinstance(known.value, bool) else None
        case ast.Compare(
            left=ast.Name(id=name),
            ops=[ast.Eq() | ast.NotEq() | ast.Is() | ast.IsNot() as operator],
            comparators=[ast.Constant() as wanted],
        ):
            yield from _compared(name, wanted, scope, must_be_equal=holds is isinstance(operator, ast.Eq | ast.Is))
        case ast.Call(func=ast.Name(id=asking), args=[ast.Name(id=name)], keywords=[]) if asking in _ASKING:
            yield from _compared(name, ast.Constant(None), scope, must_be_equal=holds is not _ASKING[asking])
        case _:
            pass


def _compared(
    name: str, wanted: ast.Constant, scope: Scope, *, must_be_equal: bool
) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield a name that must have a value, or another one, unless that may be what is known of it."""
    known = _literal(name, scope)
    if known is not None and _are_equal(known, wanted) is not must_be_equal:
        yield name, wanted if must_be_equal else None


def _literal(name: str, scope: Scope) -> ast.Constant | None:
    """Return the constant that a name is bound to, None where it is anything else."""
    bound = scope.lookup(name)
    return bound.value if bound is not None and isinstance(bound.value, ast.Constant) else None


def _are_equal(one: ast.Constant, other: ast.Constant) -> bool:
    """Whether two constants are the same, which `1` and `True` are not here."""
    return type(one.value) is type(other.value) and one.value == other.value

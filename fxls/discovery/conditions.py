"""What a condition tells of the names in it: where `mode == "fast"` does not hold, `mode` is something else."""

import ast
from collections.abc import Generator
from contextlib import contextmanager

from fxls.discovery.closing import Bound, Scope

__all__ = ["under"]


@contextmanager
def under(test: ast.expr, scope: Scope, *, holds: bool) -> Generator[None]:
    """Let a name have, in the body, the value that it must have where a test holds, or does not.

    It is unknown there where all that is known of it is that it has another one.
    """
    told = _told(test, scope, holds=holds)
    if told is None:
        yield
        return
    name, value = told
    before, now = scope.names.get(name), Bound(value)
    scope.names[name] = now
    yield
    if scope.names.get(name) is now:  # What is assigned in a branch counts behind it.
        if before is None:
            del scope.names[name]
        else:
            scope.names[name] = before


def _told(test: ast.expr, scope: Scope, *, holds: bool) -> tuple[str, ast.expr | None] | None:
    """Return the name that a test is about and the value that it must have; None where what is known of it may be."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return _told(inner, scope, holds=not holds)
        case ast.Name(id=name):
            known = _literal(name, scope)
            if known is None or bool(known.value) is holds:
                return None
            return name, ast.Constant(holds) if isinstance(known.value, bool) else None
        case ast.Compare(left=ast.Name(id=name), ops=[operator], comparators=[ast.Constant() as wanted]):
            known = _literal(name, scope)
            if known is None or not isinstance(operator, ast.Eq | ast.NotEq | ast.Is | ast.IsNot):
                return None
            must_be_equal = holds is isinstance(operator, ast.Eq | ast.Is)
            if _are_equal(known, wanted) is must_be_equal:
                return None
            return name, wanted if must_be_equal else None
        case _:
            return None


def _literal(name: str, scope: Scope) -> ast.Constant | None:
    """Return the constant that a name is bound to, None where it is anything else."""
    bound = scope.lookup(name)
    return bound.value if bound is not None and isinstance(bound.value, ast.Constant) else None


def _are_equal(one: ast.Constant, other: ast.Constant) -> bool:
    """Whether two constants are the same, which `1` and `True` are not here."""
    return type(one.value) is type(other.value) and one.value == other.value

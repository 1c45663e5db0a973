"""The older pass manager: passes return the object they changed, constraints are checked but not solved."""

import logging
from collections.abc import Callable
from functools import wraps
from inspect import unwrap
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

__all__ = [
    "PassManager",
    "inplace_wrapper",
    "log_hook",
    "loop_pass",
    "these_before_those_pass_constraint",
    "this_before_that_pass_constraint",
]

_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T")
_Pass: TypeAlias = Callable[..., Any]
_Constraint: TypeAlias = Callable[[_Pass, _Pass], bool]

logger = logging.getLogger(__name__)


def inplace_wrapper(fn: Callable[Concatenate[_T, _P], Any]) -> Callable[Concatenate[_T, _P], _T]:
    """Return ``fn``, which changes its first argument, as a pass that returns it."""

    @wraps(fn)
    def wrapped(gm: _T, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        fn(gm, *args, **kwargs)
        return gm

    return wrapped


def log_hook(fn: Callable[_P, _R], level: int = logging.INFO) -> Callable[_P, _R]:
    """Return ``fn`` as a pass that logs what it returns; goes inside ``inplace_wrapper``."""

    @wraps(fn)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        result = fn(*args, **kwargs)
        logger.log(level, "Ran pass %s\t Return value: %s", fn, result)
        return result

    return wrapped


def loop_pass(
    base_pass: Callable[[_T], _T],
    n_iter: int | None = None,
    predicate: Callable[[_T], bool] | None = None,
) -> Callable[[_T], _T]:
    """Return a pass that repeats ``base_pass`` ``n_iter`` times, or while ``predicate`` holds.

    Raises:
        AssertionError: Not exactly one of the two is given.
    """
    assert (n_iter is None) != (predicate is None), "Exactly one of `n_iter`or `predicate` must be specified."

    @wraps(base_pass)
    def repeated(source: _T) -> _T:
        output = source
        if predicate is not None:
            while predicate(output):
                output = base_pass(output)
            return output
        if n_iter is None or n_iter <= 0:
            raise RuntimeError(
                f"loop_pass must be given positive int n_iter (given {n_iter}) xor predicate (given {predicate})"
            )
        for _ in range(n_iter):
            output = base_pass(output)
        return output

    return repeated


def _validate_pass_schedule_constraint(constraint: _Constraint, passes: list[_Pass]) -> None:
    for i, a in enumerate(passes):
        for j, b in enumerate(passes[i + 1 :]):
            if not constraint(a, b):
                raise RuntimeError(
                    f"pass schedule constraint violated. Expected {a} before {b}"
                    f" but found {a} at index {i} and {b} at index{j} in pass list."
                )


def this_before_that_pass_constraint(this: _Pass, that: _Pass) -> _Constraint:
    """Return the constraint that ``this`` comes before ``that``."""
    return lambda a, b: a != that or b != this


def these_before_those_pass_constraint(these: _Pass, those: _Pass) -> _Constraint:
    """Return the constraint that ``these`` comes before ``those``, whatever wrappers are around them."""
    return lambda a, b: unwrap(a) != those or unwrap(b) != these


class PassManager:
    """A sequence of passes, each of which takes an object and returns it.

    Attributes:
        passes: The passes.
        constraints: Constraints on their order, such as ``this_before_that_pass_constraint`` makes.
    """

    passes: list[_Pass]
    constraints: list[_Constraint]
    _validated: bool = False

    def __init__(self, passes: list[_Pass] | None = None, constraints: list[_Constraint] | None = None) -> None:
        self.passes = passes or []
        self.constraints = constraints or []

    @classmethod
    def build_from_passlist(cls, passes: list[_Pass]) -> "PassManager":
        """Return a manager of these passes."""
        return PassManager(passes)

    def add_pass(self, _pass: _Pass) -> None:
        """Add a pass at the end."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: _Constraint) -> None:
        """Add a constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def remove_pass(self, _passes: list[str]) -> None:
        """Remove the passes with these names."""
        self.passes = [each for each in self.passes if each.__name__ not in _passes]
        self._validated = False

    def replace_pass(self, _target: _Pass, _replacement: _Pass) -> None:
        """Put ``_replacement`` in the place of each pass with ``_target``'s name."""
        self.passes = [_replacement if each.__name__ == _target.__name__ else each for each in self.passes]
        self._validated = False

    def validate(self) -> None:
        """Check the order of the passes against all constraints.

        Raises:
            RuntimeError: One of them forbids it.
        """
        if self._validated:
            return
        for constraint in self.constraints:
            _validate_pass_schedule_constraint(constraint, self.passes)
        self._validated = True

    def __call__(self, source: Any) -> Any:
        """Return what the last pass returns, each having been given what the one before returned."""
        self.validate()
        for each in self.passes:
            source = each(source)
        return source

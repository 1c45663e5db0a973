"""Runs passes in an order that their constraints allow, until nothing changes."""

import inspect
from collections import deque
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeAlias

from torch import nn

from fxengine.graph_module import GraphModule
from fxengine.passes.infra.pass_base import PassResult

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]

_Pass: TypeAlias = Callable[..., PassResult | None]
_Constraint: TypeAlias = Callable[[Callable[..., Any], Callable[..., Any]], bool]
"""Whether its first argument may come before its second."""


def pass_result_wrapper(fn: Callable[..., Any]) -> Callable[..., PassResult | None]:
    """Return ``fn`` as a pass that returns a ``PassResult``, which says that the module was changed."""

    @wraps(fn)
    def wrapped(gm: nn.Module) -> PassResult | None:
        result = fn(gm)
        if isinstance(result, PassResult):
            return result
        if result is None:
            return PassResult(gm, modified=True)
        return PassResult(result, modified=True) if isinstance(result, nn.Module) else None

    if not inspect.isfunction(fn):
        wrapped.__name__ = type(fn).__name__
    return wrapped


def this_before_that_pass_constraint(this: Callable[..., Any], that: Callable[..., Any]) -> _Constraint:
    """Return the constraint that ``this`` comes before ``that``."""
    return lambda a, b: a != that or b != this


def _validate_pass_schedule_constraint(constraint: _Constraint, passes: list[Callable[..., Any]]) -> None:
    """Raise if two passes stand in an order that ``constraint`` forbids.

    Raises:
        RuntimeError: They do.
    """
    for i, a in enumerate(passes):
        for j, b in enumerate(passes[i + 1 :]):
            if not constraint(a, b):
                raise RuntimeError(
                    f"pass schedule constraint violated. Expected {a} before {b}"
                    f" but found {a} at index {i} and {b} at index {j} in pass list."
                )


def _topological_sort_passes(
    passes: list[Callable[..., Any]], constraints: Iterable[_Constraint]
) -> list[Callable[..., Any]]:
    """Return ``passes`` in an order that all constraints allow.

    Raises:
        RuntimeError: There is none.
    """
    rules = list(constraints)
    if not rules:
        return passes
    after: dict[Callable[..., Any], list[Callable[..., Any]]] = {each: [] for each in passes}
    waiting = dict.fromkeys(passes, 0)
    for a in passes:
        for b in passes:
            forbidden = sum(not rule(a, b) for rule in rules) if a != b else 0
            after[b] += [a] * forbidden
            waiting[a] += forbidden
    ready = deque(each for each in passes if not waiting[each])
    order: list[Callable[..., Any]] = []
    while ready:
        each = ready.popleft()
        order.append(each)
        for later in after[each]:
            waiting[later] -= 1
            if not waiting[later]:
                ready.append(later)
    left = [each for each, count in waiting.items() if count]
    if left:
        raise RuntimeError(f"Circular dependency detected within the following passes: {left}")
    return order


class PassManager:
    """A sequence of passes with constraints on their order.

    Attributes:
        passes: The passes.
        constraints: The constraints.
        steps: How often at most all passes are run; they stop when one round changes nothing.
        run_checks_after_each_pass: Call ``check`` after each pass.
        suppress_check_failures: Kept for the user's own checks.
    """

    passes: list[_Pass]
    constraints: list[_Constraint]
    _validated: bool = False
    steps: int = 1

    def __init__(
        self,
        passes: list[_Pass] | None = None,
        constraints: list[_Constraint] | None = None,
        steps: int | None = None,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
    ) -> None:
        self.passes = passes or []
        self.constraints = constraints or []
        if steps:
            self.steps = steps
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures

    def add_pass(self, _pass: _Pass) -> None:
        """Add a pass at the end."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: _Constraint) -> None:
        """Add a constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def validate_constraints(self) -> None:
        """Check the present order against all constraints.

        Raises:
            RuntimeError: One of them forbids it.
        """
        if self._validated:
            return
        for constraint in self.constraints:
            _validate_pass_schedule_constraint(constraint, self.passes)
        self._validated = True

    def solve_constraints(self) -> None:
        """Bring the passes into an order that all constraints allow.

        Raises:
            RuntimeError: There is none.
        """
        self.passes = _topological_sort_passes(self.passes, self.constraints)
        self._validated = True

    def add_checks(self, check: Callable[[nn.Module], None]) -> None:
        """Let ``check`` be called with the module before the first pass, and after each if that is asked for.

        Raises:
            TypeError: It does not take exactly one argument.
        """
        if len(inspect.signature(check).parameters) != 1:
            raise TypeError("PassManager check function should only take in one variable, a module")
        setattr(self, "check", check)  # noqa: B010 - takes the place of the method.

    def check(self, module: nn.Module) -> None:
        """Raise if something is wrong with ``module``; checks nothing unless ``add_checks`` was called."""

    def __call__(self, module: nn.Module) -> PassResult:
        """Run the passes and return the module with whether any changed it.

        Raises:
            Exception: A pass raised; the message names it and those before it, the cause is its own exception.
        """
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        modified = False
        for _ in range(self.steps):
            module, changed = self._run_all(module)
            modified = modified or changed
            if not changed:
                break
        return PassResult(module, modified)

    def _run_all(self, module: nn.Module) -> tuple[nn.Module, bool]:
        modified = False
        for index, each in enumerate(self.passes):
            try:
                module, changed = self._run(each, module)
            except Exception as error:  # A pass is the user's code.
                before = [_name_of(earlier) for earlier in self.passes[:index]]
                raise Exception(  # noqa: TRY002 - the type that torch.fx raises.
                    f"An error occurred when running the '{_name_of(each)}' pass after the following passes: {before}"
                ) from error
            modified = modified or changed
        return module, modified

    def _run(self, each: _Pass, module: nn.Module) -> tuple[nn.Module, bool]:
        result: Any = each(module)
        if not hasattr(result, "graph_module"):
            raise TypeError(
                f"The result of the pass {_name_of(each)} should be type PassResult."
                "Please wrap it with pass_result_wrapper()"
            )
        if isinstance(result.graph_module, GraphModule):
            result.graph_module.recompile()
        if self.run_checks_after_each_pass:
            self.check(result.graph_module)
        return result.graph_module, result.modified


def _name_of(each: Callable[..., Any]) -> str:
    return each.__name__ if inspect.isfunction(each) else type(each).__name__

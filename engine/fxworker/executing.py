"""Executing a slice statement by statement: one that raises is a problem, and what does not depend on it goes on.

What definitions need of statements that are not executed, that fail, or whose branches are not taken is assumed where
the file tells what it may be (`assuming`): models are built with it, and the person is told.
"""

import __future__

import ast
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import torch

from fxengine.errors import kept_in
from fxengine.syntax import tree_of
from fxworker.absences import ABSENCES, not_found
from fxworker.absent import is_stand_in, path_of
from fxworker.assuming import assumed_value
from fxworker.blackbox import passing
from fxworker.guarded import is_caught
from fxworker.held import is_held_by_name_alone
from fxworker.meta import OnMeta
from fxworker.slicing import Refused, Slice, consequences
from fxworker.statements import Definition, Statement

_Run: TypeAlias = Callable[[Statement, int, dict[str, Any]], list[ImportError]]
_Branching: Final = ast.If | ast.For | ast.While | ast.Try | ast.With | ast.Match


class NotExecutedError(Exception):
    """A statement that is needed was not executed. Never raised: it stands where an error would."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.cost)
        self.refused = refused


class NotAssignedError(Exception):
    """A statement was executed and did not assign a name that it could have. Never raised, as above."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.name)
        self.refused = refused


@dataclass(frozen=True, slots=True)
class Failure:
    """A statement that raised; `statement` is None for a text that is no program, and for what was not executed.

    `uses` are the names that definitions look up and that are not known for it. `assumed` says what names are taken to
    be instead.
    """

    error: BaseException
    statement: Statement | None
    uses: tuple[Refused, ...] = ()
    assumed: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Missing:
    """An import of something that is not installed.

    `needed` says that models of the file may need it: the import was repeated with something that stands in for it.
    """

    node: ast.stmt
    name: str
    error: ImportError | None = None

    @property
    def needed(self) -> bool:
        """Whether models of the file may need it."""
        return self.error is not None

    @property
    def is_caught(self) -> bool:
        """Whether what the file imports does without it."""
        return self.error is not None and is_caught(self.error.__traceback__)


@dataclass(frozen=True, slots=True)
class Executed:
    """What came of the statements of a slice: what failed, what is not there, and what is not installed.

    `alone` are the names of the definitions that nothing holds but their names.
    """

    failures: tuple[Failure, ...]
    broken: frozenset[str]
    missing: tuple[Missing, ...]
    alone: frozenset[str]


def execute(slice_: Slice, path: str, run: _Run, namespace: dict[str, Any]) -> Executed:
    """Execute the statements of a slice in a namespace.

    Args:
        slice_: The statements.
        path: The file that they are of.
        run: Executes one of them.
        namespace: The globals of the file's module.
    """
    failures = [*_refusals(slice_, path, namespace)]
    assumed = _names_in(failures)
    missing: list[Missing] = []
    broken, doubtful = set(slice_.lost - assumed), set(assumed)
    alone, held = set[str](), set[str]()
    for statement, flags in with_flags(slice_):
        if statement.now & broken:
            broken |= statement.binds - assumed
            continue
        passing(statement.node.lineno)
        is_doubtful = not statement.now.isdisjoint(doubtful)
        try:
            lacking = run(statement, flags, namespace)
        except BaseException as error:  # noqa: BLE001 — User code; SystemExit too is an answer.
            lacks = kept_in(error, NameError, "name") if isinstance(error, NameError) else None
            # What was assumed need not be what the statement is meant for.
            if not is_doubtful and (lacks is None or lacks not in broken - statement.binds):
                uses = consequences(statement, slice_.statements)
                failures.append(Failure(error, statement, uses, _assume(uses, path, namespace)))
                assumed |= _names_in(failures[-1:])
                doubtful |= _names_in(failures[-1:])
            there = namespace.keys() if statement.is_import else set[str]()
            broken |= statement.binds - assumed - there
        else:
            if isinstance(statement.node, Definition):
                led = {each for each in statement.binds if is_held_by_name_alone(each, namespace, path)}
                alone, held = alone | led, held | (statement.binds - led)
            broken -= statement.binds
            doubtful |= statement.binds if is_doubtful else set()
            lacking += _asked_before(statement, slice_, missing)
            lacking += _asked_elsewhere(statement, namespace, {each.name for each in (*missing, *lacking)})
            silent = statement.node in slice_.silent
            told = (each for each in lacking if not (silent and is_caught(each.__traceback__)))
            missing += (Missing(statement.node, str(each.name), None if silent else each) for each in told)
            unknown = _unknown(statement, slice_, path, namespace)
            failures += unknown
            assumed |= _names_in(unknown)
            doubtful |= _names_in(unknown)
    return Executed(tuple(failures), frozenset(broken), tuple(missing), frozenset(alone - held))


def refusals(slice_: Slice) -> tuple[Failure, ...]:
    """Return what definitions need of statements that are not executed."""
    return tuple(Failure(NotExecutedError(each), None) for each in slice_.refused)


def with_flags(slice_: Slice) -> Iterator[tuple[Statement, int]]:
    """Yield the statements of a slice, each with the flags that it is compiled with."""
    flags = 0  # Of the future statements, none but this one is still to come.
    for statement in slice_.statements:
        if isinstance(statement.node, ast.ImportFrom) and statement.node.module == "__future__":
            flags = __future__.annotations.compiler_flag if "annotations" in statement.binds else 0
        yield statement, flags


def compiled(node: ast.stmt, path: str, flags: int = 0) -> types.CodeType:
    """Return a statement of a file compiled.

    Raises:
        SyntaxError: It cannot be; a ValueError, RecursionError or MemoryError is possible, too.
    """
    return compile(ast.Module([node], []), path, "exec", flags=flags, dont_inherit=True)


def run_on_meta(code: types.CodeType, statement: Statement, namespace: dict[str, Any]) -> None:
    """Execute a statement; one that computes something makes its models on the meta device, if they allow it."""
    if not isinstance(statement.node, ast.Assign | ast.AnnAssign | ast.Expr | ast.With | ast.For):
        exec(code, namespace)  # noqa: S102 — This is what a worker is for.
        return
    try:
        with OnMeta(values_on_cpu=True):
            exec(code, namespace)  # noqa: S102 — As above.
    except Exception:  # noqa: BLE001 — User code that needs real values says so in any way; it gets them.
        exec(code, namespace)  # noqa: S102 — As above.


def _refusals(slice_: Slice, path: str, namespace: dict[str, Any]) -> Iterator[Failure]:
    for failure, refused in zip(refusals(slice_), slice_.refused, strict=True):
        yield Failure(failure.error, None, assumed=_assume([refused], path, namespace))


def _asked_before(statement: Statement, slice_: Slice, missing: list[Missing]) -> list[ImportError]:
    """Return the packages that an import is the first to need, though an import that nothing needs asked before it.

    What is told of that one is taken back.
    """
    if not statement.is_import or statement.node in slice_.silent:
        return []
    wanted = {name.partition(".")[0] for name in _modules_of(statement.node)}
    told = [each for each in missing if each.node in slice_.silent and each.name in wanted]
    for each in told:
        missing.remove(each)
    return [ModuleNotFoundError(f"No module named '{each.name}'", name=each.name) for each in told]


def _asked_elsewhere(
    statement: Statement, namespace: Mapping[str, Any], told: Collection[str | None]
) -> list[ImportError]:
    """Return the packages of which an import gives something, though another file was the first to ask for them."""
    if not statement.is_import:
        return []
    given = [namespace.get(each) for each in sorted(statement.binds)]
    paths = dict.fromkeys(ABSENCES.leads_into(path_of(each)) for each in given if is_stand_in(each))
    return [not_found(each) for each in paths if each and each not in told]


def _modules_of(node: ast.stmt) -> list[str]:
    """Return the full names of the modules that a statement imports from elsewhere."""
    match node:
        case ast.Import(names=names):
            return [each.name for each in names]
        case ast.ImportFrom(module=str(name), level=0):
            return [name]
        case _:
            return []


def _names_in(failures: Iterable[Failure]) -> set[str]:
    return {name for failure in failures for name in failure.assumed}


def _unknown(statement: Statement, slice_: Slice, path: str, namespace: dict[str, Any]) -> list[Failure]:
    """Assume what a statement that was executed leaves unknown, as far as definitions need it."""
    if any(is_stand_in(namespace.get(each)) for each in statement.binds):
        return _made_of_absent(statement, slice_, path, namespace)
    if isinstance(statement.node, _Branching) and not statement.binds <= namespace.keys():
        return _unassigned(statement, slice_, path, namespace)
    return []


def _unassigned(statement: Statement, slice_: Slice, path: str, namespace: dict[str, Any]) -> list[Failure]:
    """Assume what a statement has not assigned, in a branch that was not taken, and what definitions need of it."""
    names = statement.binds - namespace.keys()
    needed = [each for each in consequences(statement, slice_.statements) if each.name not in namespace]
    lost = [Refused(name, statement.node, statement.node, statement.node, "") for name in names] if needed else []
    assumed = _assume(lost, path, namespace)
    return [Failure(NotAssignedError(each), None, assumed=assumed) for each in needed if assumed]


def _made_of_absent(statement: Statement, slice_: Slice, path: str, namespace: dict[str, Any]) -> list[Failure]:
    """Assume what definitions need of what a package would have given that is not installed."""
    made = [each for each in consequences(statement, slice_.statements) if is_stand_in(namespace.get(each.name))]
    found: list[Failure] = []
    for each in made:
        assumed = _assume([each], path, namespace)
        if assumed:
            why = Refused(each.name, each.use, each.binder, each.statement, "it needs a package that is not installed")
            found.append(Failure(NotExecutedError(why), None, assumed=assumed))
    return found


def _assume(lost: Iterable[Refused], path: str, namespace: dict[str, Any]) -> dict[str, str]:
    """Give names that are not known a value, where the file tells what they may be, and return what that is."""
    found: dict[str, str] = {}
    for each in lost:
        is_known = each.name in namespace and not is_stand_in(namespace[each.name])
        value = assumed_value(each.name, each.binder, tree_of(path)) if not is_known else ""
        if value:
            namespace[each.name] = eval(value, {"torch": torch})  # noqa: S307 — An expression of ours, or a literal.
            found[each.name] = value
    return found

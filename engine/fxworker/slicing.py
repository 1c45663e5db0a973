"""Which statements of a file its models need: the slice that is executed.

A model file may also train, parse arguments or download when it is imported; a person who opens it wants none of that.
So only those statements run that a wanted name depends on, through what they evaluate at once and through what the
functions and methods they define look up later. Effects without a name (`torch.fx.wrap("f")`, `sys.path.insert(...)`,
registrations) are known by what they call. One that is needed and would train or read data all the same is refused,
unless a comment asks for it or says what to take instead. This module reads syntax only and executes nothing.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from fxworker.conventions import is_configuration
from fxworker.costs import Definitions, cost_of, costly_in, lightened
from fxworker.orders import Order, orders_of
from fxworker.reparsing import last_line
from fxworker.statements import Definition, Statement, statements_of, with_node

_DYNAMIC: Final = frozenset({"globals", "locals", "vars", "eval", "exec", "__import__"})
"""Names whose use means that any definition of the file may be looked up by its name."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Something that a definition needs, and that is not known since a statement is not executed.

    Attributes:
        name: The name that the definition looks up.
        use: Where it does.
        binder: The statement that assigns the name: the refused one, or one that needs it.
        statement: The statement that is not executed.
        cost: What it would do, as a clause.
    """

    name: str
    use: ast.AST
    binder: ast.stmt
    statement: ast.stmt
    cost: str


@dataclass(frozen=True, slots=True)
class Slice:
    """What of a file is executed, in order, and the imports that nothing in it needs.

    Attributes:
        statements: What is executed.
        unneeded_imports: Imports that nothing in it needs.
        refused: What definitions need and do not get.
        lost: The names that are not known for that reason.
        silent: Imports of names that the file never looks up, which are there for what they do.
    """

    statements: tuple[Statement, ...]
    unneeded_imports: tuple[ast.Import | ast.ImportFrom, ...]
    refused: tuple[Refused, ...] = ()
    lost: frozenset[str] = frozenset()
    silent: frozenset[ast.stmt] = frozenset()


def slice_of(
    tree: ast.Module,
    text: str,
    path: str,
    wanted: Iterable[str],
    *,
    again: bool = False,
    known: dict[ast.stmt, Statement] | None = None,
) -> Slice:
    """Return the slice that the names in `wanted` depend on.

    Args:
        tree: The file.
        text: Its text.
        path: Its path.
        wanted: The names.
        again: Whether the file was executed once already, as a part of its package: what it registers is registered.
        known: What is known of the statements of an older tree that this one may share; that of this tree afterwards.
    """
    statements = statements_of(tree, text, path, {} if known is None else known)
    orders = orders_of([each.node for each in statements], text)
    if again:
        statements = [each.unregistered for each in statements]
    choice = _Choice(statements, orders)
    choice.add([each for each in statements if _is_root(each)])
    names = frozenset(wanted)
    choice.add([each for name in names for each in choice.binders.get(name, ())])
    unneeded: list[ast.Import | ast.ImportFrom] = []
    silent: list[ast.stmt] = []
    for statement in statements:
        node = statement.node
        if statement not in choice.chosen and isinstance(node, ast.Import | ast.ImportFrom) and not statement.guarded:
            if _is_mentioned(statement, text):
                unneeded.append(node)
            else:
                # Nothing in the file speaks of it: it is there for what it does.
                choice.chosen[statement] = statement
                silent.append(node)
    executed = tuple(choice.chosen[each] for each in statements if each in choice.chosen)
    asked = [choice.chosen.get(each, each) for each in statements if each in choice.chosen or each in choice.refused]
    refused, lost = _refusals(asked, choice.refused, names, choice.lightened)
    return Slice(executed, tuple(unneeded), refused, lost, frozenset(silent))


def names_in(expression: str) -> frozenset[str]:
    """Return the names that an expression looks up; none if it is no expression."""
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError):
        return frozenset()
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


def imports_of(statements: Iterable[Statement]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the import statements of a slice, also those that are tried."""
    for statement in statements:
        if isinstance(statement.node, ast.Import | ast.ImportFrom):
            yield statement.node
        elif isinstance(statement.node, ast.Try):
            yield from (each for each in statement.node.body if isinstance(each, ast.Import | ast.ImportFrom))


def preparing(statements: Sequence[Statement]) -> list[Statement]:
    """Return the statements of a slice that decide where its imports are looked for, and what these need."""
    found: list[Statement] = []
    names = set[str]()
    for statement in reversed(statements):
        if not statement.is_import and (statement.binds & names or _changes_path(statement.node)):
            found.append(statement)
            names |= statement.now | statement.later
    return found[::-1]


def _changes_path(node: ast.stmt) -> bool:
    """Whether a statement that is no definition speaks of `sys.path`."""
    for part in ast.walk(node) if isinstance(node, ast.Expr | ast.Assign | ast.AugAssign | ast.If | ast.For) else ():
        match part:
            case ast.Attribute(value=ast.Name(id="sys"), attr="path"):
                return True
            case _:
                pass
    return False


class _Choice:
    """The statements of one slice, as they are chosen. Mutable.

    Attributes:
        binders: The statements that assign a name or change its object.
        chosen: The statements that are chosen, each with what is executed of it.
        refused: Those that are not executed though they were asked for, each with what it would do.
        lightened: What is executed of those that lose something, each with the whole, and the first that it loses.
    """

    def __init__(self, statements: list[Statement], orders: dict[ast.stmt, Order]) -> None:
        self.binders = _binders(statements)
        self.chosen: dict[Statement, Statement] = {}
        self.refused: dict[Statement, str] = {}
        self.lightened: dict[Statement, tuple[Statement, Statement, str]] = {}
        self._orders = orders
        self._selves = frozenset(name for each in statements if _is_own_module(each.node) for name in each.binds)
        self._definitions = [each for each in statements if isinstance(each.node, Definition) and not each.guarded]
        self._named: Definitions = {
            each.node.name: each.node for each in statements if isinstance(each.node, Definition)
        }

    def add(self, pending: list[Statement]) -> None:
        """Choose the statements that are pending, and all that they need."""
        while pending:
            statement = pending.pop()
            if statement in self.chosen or statement in self.refused:
                continue
            executed = self._executed(statement)
            if executed is None:
                continue
            self.chosen[statement] = executed
            names = executed.now | executed.later
            if names & self._selves:
                names |= _attributes(executed.node, self._selves)
            if names & _DYNAMIC:
                pending += self._definitions
            pending += [binder for name in names for binder in self.binders.get(name, ())]

    def _executed(self, statement: Statement) -> Statement | None:
        """Return what is executed of a statement, None where it is refused."""
        order = self._orders.get(statement.node)
        if order is not None:
            return statement if order.instead is None else with_node(statement, order.instead)
        if isinstance(statement.node, Definition):
            return statement
        cost = cost_of(statement.node, self._named)
        if cost:
            self.refused[statement] = cost
            return None
        node = lightened(statement.node, self._named)
        if node is statement.node:
            return statement
        light = with_node(statement, node)
        first, cost = next(costly_in(statement.node, self._named))
        self.lightened[light] = statement, with_node(statement, first), cost
        return light


def _is_own_module(node: ast.stmt) -> bool:
    """Whether a statement gives a name to the module itself: `library = sys.modules[__name__]`."""
    match node:
        case ast.Assign(value=ast.Subscript(value=ast.Attribute(attr="modules"), slice=ast.Name(id="__name__"))):
            return True
        case _:
            return False


def _attributes(node: ast.stmt, names: frozenset[str]) -> frozenset[str]:
    """Return what a statement looks up as an attribute of some names."""
    found = (each for each in ast.walk(node) if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name))
    return frozenset(each.attr for each in found if isinstance(each.value, ast.Name) and each.value.id in names)


def _binders(statements: list[Statement]) -> dict[str, list[Statement]]:
    """Return for each name the statements that assign it, or change its object where that is the file's own.

    Those of the main block count for names that nothing else assigns.
    """
    own = set[str]().union(*(each.binds for each in statements if not each.guarded))
    imported = set[str]().union(*(each.binds for each in statements if each.is_import))
    binders: dict[str, list[Statement]] = {}
    for statement in statements:
        for name in statement.binds | (statement.changes - imported):
            if not (statement.guarded and name in own):
                binders.setdefault(name, []).append(statement)
    return binders


def consequences(failed: Statement, executed: Sequence[Statement]) -> tuple[Refused, ...]:
    """Return what definitions look up that is not known since a statement of a slice failed."""
    return _refusals(executed, {failed: ""}, frozenset())[0]


def _refusals(
    statements: Sequence[Statement],
    refused: Mapping[Statement, str],
    wanted: frozenset[str],
    light: Mapping[Statement, tuple[Statement, Statement, str]] = MappingProxyType({}),
) -> tuple[tuple[Refused, ...], frozenset[str]]:
    """Return what definitions need of statements that are refused, and all names that are not known for that.

    Args:
        statements: What was asked for.
        refused: Those that are not executed, each with what it would do.
        wanted: The names that were asked for.
        light: Those that lose something, each with the whole, the first that it loses, and what that would do.
    """
    reasons = _reasons(statements, refused, {each: light[each][:2] for each in statements if each in light})
    refused = {**refused, **{first: cost for _, first, cost in light.values()}}
    found: dict[tuple[str, Statement], Refused] = {}
    for user in statements if reasons else ():
        is_definition = isinstance(user.node, Definition)
        for name in sorted(((user.now | user.later) if is_definition else (user.binds & wanted)) & reasons.keys()):
            binder, source = reasons[name]
            use = _use_of(name, user.node) if is_definition else user.node
            found.setdefault((name, source), Refused(name, use, binder.node, source.node, refused[source]))
    return tuple(found.values()), frozenset(reasons)


def _reasons(
    statements: Sequence[Statement],
    refused: Mapping[Statement, str],
    light: Mapping[Statement, tuple[Statement, Statement]],
) -> dict[str, tuple[Statement, Statement]]:
    """Return the names that are not known, each with the statement that assigns it and the one that is refused."""
    if not refused and not light:
        return {}
    bound = set[str]().union(*(each.binds for each in statements if each not in refused))
    found: dict[str, tuple[Statement, Statement]] = {}
    for statement in statements:
        if statement in refused:
            found |= dict.fromkeys(statement.binds - bound, (statement, statement))
        elif statement in light:
            whole, first = light[statement]
            found |= dict.fromkeys(whole.binds - bound, (first, first))
        elif not isinstance(statement.node, Definition):
            for name in statement.now & found.keys():
                found |= dict.fromkeys(statement.binds - found.keys(), (statement, found[name][1]))
    return found


def _use_of(name: str, node: ast.stmt) -> ast.AST:
    """Return the first place in a definition that looks a name up."""
    uses = [each for each in ast.walk(node) if isinstance(each, ast.Name) and each.id == name]
    return min(uses, key=lambda each: (each.lineno, each.col_offset), default=node)


def _is_root(statement: Statement) -> bool:
    """Whether a statement is executed though no name that is wanted depends on it.

    Those are effects, what decides how the others are compiled, and configurations.
    """
    if statement.guarded:
        return False
    node = statement.node
    if statement.effect or "*" in statement.binds or (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
        return True
    # With what holds the arguments of a model one can be built that nothing else says how to.
    return isinstance(node, ast.ClassDef) and is_configuration(node.name)


def _is_mentioned(statement: Statement, text: str) -> bool:
    """Whether the file speaks anywhere else of a name that an import binds."""
    first, last = statement.node.lineno, last_line(statement.node)
    return any(not first <= line <= last for name in statement.binds for line in _lines_with(name, text))


def _lines_with(name: str, text: str) -> Iterator[int]:
    """Yield the lines of a text in which a name stands as a word."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    at = text.find(name)
    while at >= 0:
        if word.match(text, at) is not None:
            yield text.count("\n", 0, at) + 1
        at = text.find(name, at + 1)

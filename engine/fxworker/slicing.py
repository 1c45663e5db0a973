"""Which statements of a file its models need: the slice that is executed.

A model file may also train, parse arguments or download when it is imported; a person who opens it wants none of that.
So only those statements run that a wanted name depends on, through what they evaluate at once and through what the
functions and methods they define look up later. Effects without a name (`torch.fx.wrap("f")`, `sys.path.insert(...)`,
registrations) are known by what they call. This module reads syntax only and executes nothing.
"""

import ast
import copy
import re
import symtable
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

_REGISTERING: Final = ("register", "_register", "define", "impl", "add_safe_globals")
"""How functions begin that enter something into a table, which some tables allow only once."""

_SETTING_UP: Final = (
    *_REGISTERING,
    "wrap",
    "allow_in_graph",
    "set_default",
    "manual_seed",
    "filterwarnings",
    "simplefilter",
)
"""How functions begin whose call on a module, or as a decorator, prepares what comes after it."""

_PREPARED: Final = frozenset({"path", "environ", "backends", "modules", "meta_path"})
"""Attributes of modules (`sys.path`, `os.environ`, `torch.backends`) whose change prepares what comes after it."""

_CHANGING: Final = (
    "add",
    "append",
    "apply",
    "clear",
    "eval",
    "extend",
    "freeze",
    "insert",
    "merge",
    "pop",
    "register",
    "remove",
    "requires_grad",
    "set",
    "update",
)
"""How methods begin that change the object that they are called on, so that whoever needs it needs the call."""

_CONFIGURATION: Final = re.compile(r"(Config|Configuration|Args|Arguments|Params|HParams|Hyperparameters|Options)$")
"""How classes end that hold the arguments of a model, with which one can be built that nothing else says how to."""

_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*")

_DYNAMIC: Final = frozenset({"globals", "locals", "vars", "eval", "exec", "__import__"})
"""Names whose use means that any definition of the file may be looked up by its name."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement at the top level of a file.

    `binds` are the names it assigns, `changes` those whose objects it changes; `now` are the names it looks up when it
    is executed, `later` those that the functions it defines look up when they are called. `effect` says that it
    matters though no name shows it.
    """

    node: ast.stmt
    binds: frozenset[str]
    changes: frozenset[str]
    now: frozenset[str]
    later: frozenset[str]
    effect: bool

    @property
    def is_import(self) -> bool:
        """Whether it is a plain import statement."""
        return isinstance(self.node, ast.Import | ast.ImportFrom)


@dataclass(frozen=True, slots=True)
class Slice:
    """What of a file is executed, in order, and the imports that nothing in it needs."""

    statements: tuple[Statement, ...]
    unneeded_imports: tuple[ast.Import | ast.ImportFrom, ...]


def slice_of(tree: ast.Module, text: str, path: str, wanted: Iterable[str], *, again: bool = False) -> Slice:
    """Return the slice that the names in `wanted` depend on.

    Args:
        tree: The file.
        text: Its text.
        path: Its path.
        wanted: The names.
        again: Whether the file was executed once already, as a part of its package: what it registers is registered.
    """
    statements = list(_statements(tree, symtable.symtable(text, path, "exec")))
    if again:
        statements = [_without_registration(each) for each in statements]
    chosen = _closure(statements, set(wanted))
    mentioned = set[str]().union(*(each.now | each.later for each in statements))
    unneeded = [
        each.node
        for each in statements
        if id(each) not in chosen and isinstance(each.node, ast.Import | ast.ImportFrom) and each.binds & mentioned
    ]
    return Slice(tuple(each for each in statements if id(each) in chosen), tuple(unneeded))


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


def _closure(statements: list[Statement], wanted: set[str]) -> set[int]:
    """Return the identities of the statements that are wanted, or needed by one that is."""
    binders: dict[str, list[Statement]] = {}
    imported = set[str]().union(*(each.binds for each in statements if each.is_import))
    for statement in statements:
        for name in statement.binds | (statement.changes - imported):
            binders.setdefault(name, []).append(statement)
    mentioned = set[str]().union(*(each.now | each.later for each in statements))
    chosen: set[int] = set()
    pending: list[Statement] = [each for each in statements if _is_root(each, mentioned)]
    pending += [statement for name in wanted for statement in binders.get(name, ())]
    while pending:
        statement = pending.pop()
        if id(statement) in chosen:
            continue
        chosen.add(id(statement))
        names = statement.now | statement.later
        if names & _DYNAMIC:
            pending += [each for each in statements if isinstance(each.node, Definition)]
        pending += [binder for name in names for binder in binders.get(name, ())]
    return chosen


def _is_root(statement: Statement, mentioned: set[str]) -> bool:
    """Whether a statement is executed though no name that is wanted depends on it.

    That is so for effects, for configurations, and for an import whose name the file never mentions: it is there for
    what it does.
    """
    if statement.effect or (isinstance(statement.node, ast.ClassDef) and _CONFIGURATION.search(statement.node.name)):
        return True
    return statement.is_import and ("*" in statement.binds or not statement.binds & mentioned)


def _statements(tree: ast.Module, table: symtable.SymbolTable) -> Iterator[Statement]:
    scopes = sorted(table.get_children(), key=lambda each: each.get_lineno())
    position = 0
    for node in tree.body:
        first = min((each.lineno for each in getattr(node, "decorator_list", ())), default=node.lineno)
        last = node.end_lineno or node.lineno
        while position < len(scopes) and scopes[position].get_lineno() < first:
            position += 1
        inner: list[symtable.SymbolTable] = []
        while position < len(scopes) and scopes[position].get_lineno() <= last:
            inner.append(scopes[position])
            position += 1
        if not _is_main_block(node):
            yield _statement(node, inner)


def _statement(node: ast.stmt, scopes: list[symtable.SymbolTable]) -> Statement:
    later = set[str]().union(*map(_globals_of, scopes))
    if isinstance(node, Definition):
        later |= _annotations(node)
    names = _Names()
    for part in _executed(node):
        names.note(part)
    effect = _is_effect(node)
    if effect and isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        arguments = [each.value for each in node.value.args if isinstance(each, ast.Constant)]
        names.now.update(each for each in arguments if isinstance(each, str))
    return Statement(
        node, frozenset(names.binds), frozenset(names.changes), frozenset(names.now), frozenset(later), effect
    )


@dataclass
class _Names:
    """The names of one statement, as they are found. Mutable."""

    binds: set[str] = field(default_factory=set[str])
    changes: set[str] = field(default_factory=set[str])
    now: set[str] = field(default_factory=set[str])

    def note(self, part: ast.AST) -> None:
        """Add the names of one part of the statement."""
        match part:
            case ast.Name(ctx=ast.Load()):
                self.now.add(part.id)
            case ast.Name(id=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                self.binds.add(name)
            case ast.ClassDef(name=name) | ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                self.binds.add(name)
            case ast.Import() | ast.ImportFrom():
                self.binds.update(alias.asname or alias.name.partition(".")[0] for alias in part.names)
            case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
                _add_root(part, self.changes)
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name) as function)) if name.startswith(_CHANGING):
                _add_root(function, self.changes)
            case ast.AugAssign(target=ast.Name(id=name)):
                self.now.add(name)
            case _:
                pass


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a statement that are evaluated when it is executed, not the bodies of functions."""
    yield node
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            parts: list[ast.AST] = [*node.decorator_list, *_signature(node.args)]
            parts += [node.returns] if node.returns is not None else []
        case ast.Lambda():
            parts = _signature(node.args)
        case ast.ClassDef():
            parts = [*node.decorator_list, *node.bases, *(each.value for each in node.keywords)]
        case ast.comprehension():
            parts = [node.iter, *node.ifs]
        case _:
            parts = list(ast.iter_child_nodes(node))
    for part in parts:
        yield from _executed(part)


def _signature(arguments: ast.arguments) -> list[ast.AST]:
    """Return the defaults and annotations of parameters."""
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    annotations = [each.annotation for each in every if each.annotation is not None]
    return [*arguments.defaults, *(each for each in arguments.kw_defaults if each is not None), *annotations]


def _annotations(node: Definition) -> set[str]:
    """Return the names in the annotations of a function's or a class's methods' parameters, quoted ones too.

    They say with what a class can be built, even where they are never evaluated.
    """
    functions = [node] if not isinstance(node, ast.ClassDef) else node.body
    names = set[str]()
    for function in functions:
        if isinstance(function, ast.FunctionDef):
            every = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
            for annotation in (each.annotation for each in every if each.annotation is not None):
                for part in ast.walk(annotation):
                    if isinstance(part, ast.Name):
                        names.add(part.id)
                    elif isinstance(part, ast.Constant) and isinstance(part.value, str):
                        names.update(_IDENTIFIER.findall(part.value))
    return names


def _globals_of(scope: symtable.SymbolTable) -> set[str]:
    """Return the global names that a scope and those inside it look up."""
    names = {symbol.get_name() for symbol in scope.get_symbols() if symbol.is_global() and symbol.is_referenced()}
    for child in scope.get_children():
        names |= _globals_of(child)
    return names


def _add_root(node: ast.expr, names: set[str]) -> None:
    """Add the variable at the root of `a.b[c].d`."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name):
        names.add(node.id)


def _without_registration(statement: Statement) -> Statement:
    """Return a statement without what it registers."""
    node = statement.node
    if isinstance(node, Definition):
        kept = [each for each in node.decorator_list if not _called(each).startswith(_REGISTERING)]
        if len(kept) < len(node.decorator_list):
            node = copy.copy(node)
            node.decorator_list = kept
            return replace(statement, node=node, effect=_is_effect(node))
    elif isinstance(node, ast.Expr) and _called(node.value).startswith(_REGISTERING):
        return replace(statement, effect=False)
    return statement


def _called(node: ast.expr) -> str:
    """Return the last name of a function that is called, or used as a decorator."""
    match node.func if isinstance(node, ast.Call) else node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _is_effect(node: ast.stmt) -> bool:
    """Whether a statement prepares what comes after it without a name that shows it."""
    match node:
        case ast.Expr(value=ast.Call(func=function)):
            return _sets_up(function)
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript() as target]):
            return _is_prepared(target)
        case ast.AugAssign(target=ast.Attribute() | ast.Subscript() as target):
            return _is_prepared(target)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            decorators = [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
            return any(_sets_up(each) for each in decorators)
        case _:
            return False


def _sets_up(function: ast.expr) -> bool:
    match function:
        case ast.Name(id=name):
            return name.startswith(_SETTING_UP)
        case ast.Attribute(attr=name):
            return name.startswith(_SETTING_UP) or _is_prepared(function.value)
        case _:
            return False


def _is_prepared(node: ast.expr) -> bool:
    """Whether an expression is a part of a module such as `sys.path` or `torch.backends.cudnn`."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute) and node.attr in _PREPARED and isinstance(node.value, ast.Name):
            return True
        node = node.value
    return False


def _is_main_block(node: ast.stmt) -> bool:
    """Whether a statement is `if __name__ == "__main__":` without an `else`."""
    match node:
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"), comparators=[ast.Constant(value="__main__")])):
            return not node.orelse
        case _:
            return False

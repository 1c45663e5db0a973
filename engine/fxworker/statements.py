"""The statements of a file: which names each assigns, looks up and changes, and whether it is there for its effect.

What a function or method looks up counts too, later than what a statement looks up at once. A statement in the block
`if __name__ == "__main__":` is one like any other, but it is only of interest to names that nothing else assigns.
This module reads syntax only.
"""

import ast
import copy
import re
import symtable
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from fxworker.reparsing import first_line, last_line

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

_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*")

_POSTPONED: Final = "from __future__ import annotations"
"""What lets names in annotations be looked up later."""


@dataclass(frozen=True, eq=False)
class Statement:
    """A statement at the top level of a file. What it looks up is found out when somebody asks: most are never asked.

    Attributes:
        node: The statement.
        binds: The names that it assigns.
        changes: The names whose objects it changes.
        effect: Whether it matters though no name shows it.
        scopes: The functions, classes and comprehensions in it.
        guarded: Whether it stands in the block that runs only when the file is a program.
    """

    node: ast.stmt
    binds: frozenset[str]
    changes: frozenset[str]
    effect: bool
    scopes: tuple[symtable.SymbolTable, ...]
    guarded: bool = False

    @property
    def is_import(self) -> bool:
        """Whether it is a plain import statement."""
        return isinstance(self.node, ast.Import | ast.ImportFrom)

    @cached_property
    def now(self) -> frozenset[str]:
        """The names that it looks up when it is executed."""
        names = _names([self.node]).now
        if self.effect and isinstance(self.node, ast.Expr) and isinstance(self.node.value, ast.Call):
            arguments = [each.value for each in self.node.value.args if isinstance(each, ast.Constant)]
            names.update(each for each in arguments if isinstance(each, str))
        return frozenset(names)

    @cached_property
    def later(self) -> frozenset[str]:
        """The names that the functions which it defines look up when they are called."""
        names = set[str]().union(*map(_globals_of, self.scopes))
        if isinstance(self.node, Definition):
            names |= _annotations(self.node)
        return frozenset(names)

    @cached_property
    def unregistered(self) -> "Statement":
        """The statement without what it registers."""
        return _without_registration(self)

    @property
    def unadorned(self) -> "Definition | None":
        """The definition without its decorators, None for another statement or where there are none."""
        if not isinstance(self.node, Definition) or not self.node.decorator_list:
            return None
        node = copy.copy(self.node)
        node.decorator_list = []
        return node


def statements_of(tree: ast.Module, text: str, path: str, known: dict[ast.stmt, Statement]) -> list[Statement]:
    """Return the statements of a file, those of the main block too.

    Args:
        tree: The file.
        text: Its text.
        path: Its path.
        known: Statements that need not be looked at; those of this tree afterwards.
    """
    around = {node: top for top in tree.body for node in (_main_body(top) or (top,))}
    new = [node for node in around if node not in known]
    if new:
        first, last = first_line(around[new[0]]), last_line(around[new[-1]])
        lines = text.split("\n")
        # What a statement's scopes are does not depend on the statements around it, but for this one.
        header = _POSTPONED if first > 1 and any(map(_postpones, tree.body)) else ""
        part = header + "\n" * (first - 1) + "\n".join(lines[first - 1 : last]) + "\n"
        found = _found(around, new, text if len(new) == len(around) else part, path)
    else:
        found = {}
    statements = [known.get(node) or found[node] for node in around]
    known.clear()
    known.update(zip(around, statements, strict=True))
    return statements


def with_node(statement: Statement, node: ast.stmt) -> Statement:
    """Return a statement with another node in the place of its own."""
    names = _names([node])
    return replace(statement, node=node, binds=frozenset(names.binds), changes=frozenset(names.changes))


def assigned_by(node: ast.stmt) -> frozenset[str]:
    """Return the names that a statement assigns, or whose objects it changes."""
    names = _names([node])
    return frozenset(names.binds | names.changes)


def _found(
    around: Mapping[ast.stmt, ast.stmt], nodes: list[ast.stmt], text: str, path: str
) -> dict[ast.stmt, Statement]:
    """Return what statements are, which stand in a text in this order; `around` has the top-level ones around them."""
    table = symtable.symtable(text, path, "exec")
    walrus = ":=" in text
    scopes = sorted(table.get_children(), key=lambda each: each.get_lineno())
    position = 0
    found: dict[ast.stmt, Statement] = {}
    for node in nodes:
        while position < len(scopes) and scopes[position].get_lineno() < first_line(node):
            position += 1
        inner: list[symtable.SymbolTable] = []
        while position < len(scopes) and scopes[position].get_lineno() <= last_line(node):
            inner.append(scopes[position])
            position += 1
        found[node] = _statement(node, inner, walrus=walrus, guarded=around[node] is not node)
    return found


def _postpones(node: ast.stmt) -> bool:
    """Whether a statement is `from __future__ import annotations`."""
    names = node.names if isinstance(node, ast.ImportFrom) and node.module == "__future__" else []
    return any(each.name == "annotations" for each in names)


def _statement(node: ast.stmt, scopes: list[symtable.SymbolTable], *, walrus: bool, guarded: bool) -> Statement:
    names = _names(_assigned(node) if not walrus else [node])
    effect = not guarded and _is_effect(node)
    return Statement(node, frozenset(names.binds), frozenset(names.changes), effect, tuple(scopes), guarded)


def _assigned(node: ast.stmt) -> list[ast.AST]:
    """Return the parts of a statement in which names are bound; values that bind none are left out."""
    match node:
        case ast.Assign(targets=targets):
            return [*targets]
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            return [target]
        case _:
            return [node]


def _names(parts: list[ast.AST]) -> "_Names":
    names = _Names()
    for part in parts:
        for inner in _executed(part):
            names.note(inner)
    return names


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
            case ast.Expr(value=ast.Call(func=ast.Call(func=ast.Attribute(attr=name) as function))) if name.startswith(
                _CHANGING
            ):
                # A decorator that is called: `REGISTRY.register("bn")(nn.BatchNorm2d)`.
                _add_root(function, self.changes)
            case ast.AugAssign(target=ast.Name(id=name)):
                self.now.add(name)
            case _:
                pass


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a statement that are evaluated when it is executed, not the bodies of functions."""
    pending = [node]
    while pending:
        part = pending.pop()
        yield part
        match part:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                pending += [*part.decorator_list, *_signature(part.args)]
                pending += [part.returns] if part.returns is not None else []
            case ast.Lambda():
                pending += _signature(part.args)
            case ast.ClassDef():
                pending += [*part.decorator_list, *part.bases, *(each.value for each in part.keywords)]
            case ast.comprehension():
                pending += [part.iter, *part.ifs]
            case ast.Name() | ast.Constant():
                pass
            case _:
                pending += ast.iter_child_nodes(part)


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
    """Return the global names that a scope and those inside it look up.

    The body of a class looks a name up outside as long as it has not assigned it: `Part = Part[int]`.
    """
    in_class = scope.get_type() == "class"
    names = {
        symbol.get_name()
        for symbol in scope.get_symbols()
        if symbol.is_referenced() and (symbol.is_global() or (in_class and symbol.is_local()))
    }
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


def _main_body(node: ast.stmt) -> list[ast.stmt]:
    """Return the block of `if __name__ == "__main__":` without an `else`, none of another statement."""
    match node:
        case ast.If(test=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]), body=body, orelse=[]):
            sides = {ast.unparse(left), ast.unparse(right)}
            return body if sides == {"__name__", "'__main__'"} else []
        case _:
            return []

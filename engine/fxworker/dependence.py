"""What the report of a target follows from, as a key: where it is that of an earlier report, that report still holds.

A key names texts and not places: the target's definition, every definition that it may reach, everything beside the
definitions, the ways to build and to feed it, and the files that were imported. Whatever could reach further than names
show (registrations, hooks of base classes, functions that change what all share, names made at run time) makes that
all of the file counts, or that there is no key. What was seen of the trace is held against it, too: a model whose
modules or nodes come from definitions that its names do not lead to has none.
"""

import ast
import re
from abc import ABCMeta
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final
from weakref import WeakKeyDictionary

from torch import nn

from fxengine.graph import Graph
from fxworker.loading import Document, Loaded
from fxworker.reparsing import first_line, last_line
from fxworker.statements import Definition, Statement
from fxworker.texts import digest
from fxworker.wire import LOCALS, TraceRequest, TraceTarget

_UNSEEN: Final = frozenset(
    """__init_subclass__ __subclasses__ __set_name__ __class_getitem__ __globals__ __code__ __builtins__ __import__
    import_module getsource getsourcelines getmembers get_objects""".split()  # noqa: SIM905 — Easier to read than a list.
)
"""Names of functions and attributes with which code may reach what no name leads to."""

_LOOKING: Final = frozenset({"globals", "locals", "vars", "eval", "exec", "__import__"})
"""Functions that do, too."""

_BETWEEN: Final = "-"
"""Stands in a key between the name of the target's definition and that of all that it follows from."""

_ANYTHING: Final = "*"
"""Stands for what no name leads to."""

_PLAIN: Final = ("abc", "contextlib", "dataclasses", "enum", "functools", "torch", "typing", "typing_extensions")
"""Modules whose decorators and base classes enter nothing into a table that another definition could find it in."""

_TABLES: Final = (
    "torch.library",
    "torch._library",
    "torch.fx",
    "torch.ops",
    "torch.utils._pytree",
    "torch.serialization",
)
"""Those of their parts that do."""

_CHANGING: Final = re.compile(
    r".*_$|add|append|clear|extend|freeze|insert|load|merge|pop|register|remove|requires_grad|set|update"
)
"""How methods are called that change the object of the file that they are called on."""

_SWITCHING: Final = re.compile(
    r"append|clear|disable|enable|extend|freeze|insert|manual_seed|pop|register|remove|set|update|use_"
)
"""How functions of modules are called that change what all share."""

_meddling: Final[WeakKeyDictionary[Statement, frozenset[tuple[str, bool]]]] = WeakKeyDictionary()
"""What the functions in a definition may change; a statement that stays the same is read once."""

_texts: Final[WeakKeyDictionary[Statement, str]] = WeakKeyDictionary()
"""The digests of the statements' texts, of each but once, too: another text makes another statement."""


class Dependence:
    """The keys of one request's targets. It reads the file's slice as soon as the first one is asked for."""

    def __init__(self, request: TraceRequest, loaded: Loaded, document: Document) -> None:
        self._request = request
        self._loaded = loaded
        self._found: dict[str, list[Statement]] = {}
        # What traces import themselves comes later, and is watched by whoever asks.
        self._state = (document.state(), request.sandbox, request.limits)

    def key(self, target: TraceTarget) -> str:
        """Return the key of a target, "" where it has none."""
        needed = self._needed(target)
        if not needed:
            return ""
        ways = [(each.expression, each.source) for each in (*target.constructs, *target.inputs)]
        names = sorted(each.qualname for each in self._request.targets)
        # Arguments that have to be inferred may be what the project says of them.
        said = [] if ways else self._said
        parts = (target.qualname, target.kind, ways, said, len(target.constructs), names, *self._state)
        all_of_it = digest("\n".join((repr(parts), *map(self._text, needed))))
        return f"{self._own(target)}{_BETWEEN}{all_of_it}"

    def is_key(self, target: TraceTarget, key: str) -> bool:
        """Whether a key is that of a target: it is not looked any further where the definition itself is another."""
        return key.partition(_BETWEEN)[0] == self._own(target) and key == self.key(target)

    def covers(self, target: TraceTarget, root: Any, graph: Graph) -> bool:
        """Whether all that was seen of a model in this file is among what its key follows from."""
        needed = self._needed(target)
        names = {name for each in needed for name in each.binds}
        module = self._loaded.module.__name__
        inner = root.modules() if isinstance(root, nn.Module) else ()
        types = {part for each in inner for part in type(each).__mro__ if part.__module__ == module}
        if any(each.__qualname__.partition(".")[0] not in names for each in types):
            return False
        lines = {line for each in needed for line in range(first_line(each.node), last_line(each.node) + 1)}
        path = self._loaded.module.__file__
        origins = {node.origin for node in graph.nodes}
        return all(
            frame.line in lines
            for origin in origins
            if origin is not None
            for frame in origin.frames
            if frame.path == path
        )

    def _own(self, target: TraceTarget) -> str:
        """Return a name for the target's own definition."""
        return digest("".join(map(self._text, self._definitions.get(target.qualname.partition(".")[0], ()))))

    def _needed(self, target: TraceTarget) -> list[Statement]:
        """Return the statements that a target may reach, in their order; none where that is not known."""
        known = self._found.get(target.qualname)
        if known is None:
            known = self._found[target.qualname] = self._reachable(target)
        return known

    def _reachable(self, target: TraceTarget) -> list[Statement]:
        name = target.qualname.partition(".")[0]
        if name not in self._definitions or not self._is_plain:
            return []
        reached = self._reached | _closure({name}, self._definitions)
        return [each for each in self._loaded.slice.statements if each in reached]

    @cached_property
    def _said(self) -> list[tuple[str, str]]:
        return [(each.name, each.expression) for each in self._request.settings]

    @cached_property
    def _is_plain(self) -> bool:
        """Whether names lead to all that definitions of this file reach, and everything in it was executed."""
        loaded = self._loaded
        if loaded.failures or loaded.broken or any(each.needed for each in loaded.missing):
            return False
        if any(LOCALS in each.qualname for each in self._request.targets):
            return False
        statements = loaded.slice.statements
        shared = frozenset(name for each in statements if not each.is_import for name in each.binds)
        imported = frozenset(name for each in statements if each.is_import for name in each.binds)
        return not any(
            changed == _ANYTHING
            or (isinstance(each.node, Definition) and changed in (imported if is_switch else shared))
            for each in statements
            for changed, is_switch in _meddles(each)
        )

    @cached_property
    def _definitions(self) -> Mapping[str, list[Statement]]:
        found: dict[str, list[Statement]] = {}
        for each in self._loaded.slice.statements:
            if isinstance(each.node, Definition):
                for name in each.binds:
                    found.setdefault(name, []).append(each)
        return found

    @cached_property
    def _reached(self) -> set[Statement]:
        """What every target may reach: all but definitions, those that a table may hold, and what they need."""
        statements = self._loaded.slice.statements
        origins = dict(pair for each in statements if each.is_import for pair in _imported(each.node))
        common = [
            each
            for each in statements
            if not isinstance(each.node, Definition) or not self._is_found_by_name(each, origins)
        ]
        return {*common, *_closure({name for each in common for name in each.now | each.later}, self._definitions)}

    def _is_found_by_name(self, statement: Statement, origins: Mapping[str, str]) -> bool:
        """Whether nobody can find a definition but by its name."""
        node = statement.node
        is_alone = statement.binds <= self._loaded.alone
        if not isinstance(node, ast.ClassDef):
            return is_alone or self._are_plain(node, origins)
        made = self._loaded.namespace.get(node.name)
        if not isinstance(made, type) or type(made) not in {type, ABCMeta}:
            return False
        hooks = (each for each in made.__mro__[1:-1] if "__init_subclass__" in vars(each))
        return is_alone or (self._are_plain(node, origins) and all(_is_plain(each.__module__) for each in hooks))

    def _are_plain(self, node: ast.stmt, origins: Mapping[str, str]) -> bool:
        """Whether all decorators of a definition are known to enter nothing into a table."""
        return all(_is_plain(_dotted(each, origins)) for each in getattr(node, "decorator_list", []))

    def _text(self, statement: Statement) -> str:
        """Return a name for the text of a statement."""
        known = _texts.get(statement)
        if known is None:
            text = "".join(self._lines[first_line(statement.node) - 1 : last_line(statement.node)])
            # A comment may hold what is executed instead of a statement, in several lines.
            known = _texts[statement] = digest(ast.dump(statement.node) if text.lstrip().startswith("#") else text)
        return known

    @cached_property
    def _lines(self) -> list[str]:
        return self._request.text.splitlines(keepends=True)


def read_ahead(statements: Iterable[Statement]) -> None:
    """Find out of the definitions of a file what a key needs; the next text has mostly the same ones."""
    for each in statements:
        _ = _meddles(each), each.now, each.later


def _closure(names: set[str], definitions: Mapping[str, list[Statement]]) -> set[Statement]:
    """Return the definitions that names lead to, and those that these look up."""
    waiting, found = [*names], set[Statement]()
    while waiting:
        for each in definitions.get(waiting.pop(), ()):
            if each not in found:
                found.add(each)
                waiting += each.now | each.later
    return found


def _meddles(statement: Statement) -> frozenset[tuple[str, bool]]:
    """Return the names whose objects the functions of a statement may change when they are called, or anything.

    With each goes whether that is so if it is imported; otherwise it is so if it is one of the file's own.
    """
    known = _meddling.get(statement)
    if known is None:
        known = _meddling[statement] = frozenset(_changed(statement.node))
    return known


def _changed(statement: ast.AST) -> Iterator[tuple[str, bool]]:
    for node in ast.walk(statement):
        if _is_unseen(node):
            yield _ANYTHING, False
        match node:
            case ast.Global(names=names):
                yield from ((name, False) for name in names)
            case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
                yield from ((name, imported) for name in _root(node) for imported in (False, True))
            case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[changed, *_]):
                yield from ((name, imported) for name in _root(changed) for imported in (False, True))
            case ast.Call(func=ast.Attribute(value=value, attr=attribute)):
                kinds = [
                    imported for imported, calls in ((False, _CHANGING), (True, _SWITCHING)) if calls.match(attribute)
                ]
                yield from ((name, imported) for name in _root(value) for imported in kinds)
            case _:
                pass


def _is_unseen(node: ast.AST) -> bool:
    """Whether a part of a file may reach, or be reached by, what no name leads to."""
    match node:
        case ast.Name(id=name):
            return name in _LOOKING
        case ast.Attribute(value=ast.Name(id="sys"), attr="modules") | ast.keyword(arg="metaclass"):
            return True
        case ast.Attribute(attr=name) | ast.FunctionDef(name=name):
            return name in _UNSEEN
        case _:
            return False


def _root(node: ast.expr) -> Iterator[str]:
    """Yield the variable at the root of `a.b[c].d`."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id


def _imported(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """Yield the names that an import statement binds, each with what it means."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name.partition(".")[0]
            yield (alias.asname, alias.name) if alias.asname else (top, top)
    elif isinstance(node, ast.ImportFrom) and not node.level:
        for alias in node.names:
            yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _dotted(node: ast.expr, origins: Mapping[str, str]) -> str:
    """Return what a decorator is, with the module that it was imported from; "" where that is not known."""
    names: list[str] = []
    node = node.func if isinstance(node, ast.Call) else node
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in origins:
        return ""
    return ".".join((origins[node.id], *reversed(names)))


def _is_plain(name: str) -> bool:
    """Whether a decorator, or the module of a class, is known to enter nothing into a table."""
    return name.partition(".")[0] in _PLAIN and not name.startswith(_TABLES)

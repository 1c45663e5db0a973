"""Reading statements: what they bind, which way goes on, and what they change that must not be changed."""

import ast
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from fxls.syntactic.expressions import items, narrow, operation
from fxls.syntactic.program import is_container
from fxls.syntactic.scope import Return, Scope
from fxls.syntactic.values import (
    NONE,
    PERHAPS,
    PLAIN,
    Function,
    Items,
    Module,
    Symbolic,
    Value,
    joined,
    outcome_of,
)

if TYPE_CHECKING:
    from fxls.syntactic.reading import Reading


def block(reading: "Reading", body: Iterable[ast.stmt], scope: Scope) -> bool:
    """Read statements; whether nothing behind them runs."""
    try:
        for statement in body:
            _statement(reading, statement, scope)
    except Return:
        return True
    return False


def _statement(reading: "Reading", node: ast.stmt, scope: Scope) -> None:  # noqa: C901, PLR0912 — A case for each kind.
    match node:
        case ast.Return(value=value):
            scope.returned.append(NONE if value is None else reading.value(value, scope))
            raise Return
        case ast.Raise():
            raise Return
        case ast.Assign(targets=targets, value=value):
            # What `map` does is done when its items are taken.
            reading.taking = targets[0] if _is_map(value) and isinstance(targets[0], ast.Tuple) else None
            found = reading.value(value, scope)
            reading.taking = None
            for target in targets:
                store(reading, target, found, scope, value)
        case ast.AnnAssign(target=target, value=value) if value is not None:
            store(reading, target, reading.value(value, scope), scope, value)
        case ast.AugAssign(target=target, value=value):
            _augment(reading, target, reading.value(value, scope), scope)
        case ast.Delete(targets=targets):
            for target in targets:
                if isinstance(target, ast.Subscript):
                    _change(reading, target, reading.value(target.value, scope))
        case ast.Expr(value=value):
            reading.value(value, scope)
        case ast.Assert(test=test):
            reading.ask(test, scope, "asserted")
            narrow(reading, test, scope, outcome=True)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            scope.names[node.name] = Function(node, scope.names, None, scope.cls)
        case ast.If() | ast.While() | ast.For() | ast.AsyncFor() | ast.Try() | ast.With() | ast.AsyncWith():
            _compound(reading, node, scope)
        case ast.Match():
            _match(reading, node, scope)
        case ast.Break() | ast.Continue():
            raise Return
        case _:
            pass


def _compound(
    reading: "Reading",
    node: ast.If | ast.While | ast.For | ast.AsyncFor | ast.Try | ast.With | ast.AsyncWith,
    scope: Scope,
) -> None:
    match node:
        case ast.If():
            _if(reading, node, scope)
        case ast.While():
            if reading.ask(node.test, scope, "loop") is not False:
                _loop(
                    reading, node.body, scope, lambda: reading.silently(lambda: reading.ask(node.test, scope, "loop"))
                )
            block(reading, node.orelse, scope)
        case ast.For() | ast.AsyncFor():
            each = items(reading, node.iter, scope)
            _loop(reading, node.body, scope, lambda: store(reading, node.target, each, scope, node.iter))
            block(reading, node.orelse, scope)
        case ast.Try():
            _try(reading, node, scope)
        case _:
            for item in node.items:
                found = reading.value(item.context_expr, scope)
                if item.optional_vars is not None:
                    store(reading, item.optional_vars, outcome_of(found), scope, item.context_expr)
            if block(reading, node.body, scope):
                raise Return


def _if(reading: "Reading", node: ast.If, scope: Scope) -> None:
    outcome = reading.ask(node.test, scope, "branch")
    if outcome is not None:
        narrow(reading, node.test, scope, outcome=outcome)
        if block(reading, node.body if outcome else node.orelse, scope):
            raise Return
        return
    before = dict(scope.names)
    narrow(reading, node.test, scope, outcome=True)
    ended = block(reading, node.body, scope)
    after, scope.names = scope.names, before
    narrow(reading, node.test, scope, outcome=False)
    otherwise = block(reading, node.orelse, scope)
    if ended and otherwise:
        raise Return
    if otherwise:
        scope.names = after
    elif not ended:
        scope.names = _merged(after, scope.names)


def _loop(reading: "Reading", body: list[ast.stmt], scope: Scope, begin: Callable[[], object]) -> None:
    """Read a loop's body twice: what the first round leaves behind may be what the second one meets."""
    for _ in range(2):
        before = dict(scope.names)
        begin()
        block(reading, body, scope)
        scope.names = _merged(before, scope.names)


def _try(reading: "Reading", node: ast.Try, scope: Scope) -> None:
    before = dict(scope.names)
    if _catches_everything(node):
        ended = False
        reading.silently(lambda: block(reading, node.body, scope))
    else:
        ended = block(reading, node.body, scope)
    if not ended:
        ended = block(reading, node.orelse, scope)
    for handler in node.handlers:
        after, scope.names = scope.names, dict(before)
        left = block(reading, handler.body, scope)
        scope.names = after if left else _merged(after, scope.names)
        ended = ended and left
    if block(reading, node.finalbody, scope) or ended:
        raise Return


def _match(reading: "Reading", node: ast.Match, scope: Scope) -> None:
    subject = reading.value(node.subject, scope)
    before, after = scope.names, dict(scope.names)
    for case in node.cases:
        if isinstance(subject, Symbolic) and isinstance(case.pattern, ast.MatchValue):
            reading.say("FX001", case.pattern, "branch", subject)
        scope.names = dict(before)
        if case.guard is not None:
            reading.ask(case.guard, scope, "branch")
        if not block(reading, case.body, scope):
            after = _merged(after, scope.names)
    scope.names = after


def store(reading: "Reading", target: ast.expr, value: Value, scope: Scope, source: ast.expr) -> None:
    """Bind a value to a target: a name, several, an attribute, an item."""
    match target:
        case ast.Name():
            scope.names[target.id] = value
        case ast.Tuple() | ast.List():
            _unpack(reading, target.elts, value, scope, source)
        case ast.Starred():
            store(reading, target.value, Items(None, value), scope, source)
        case ast.Subscript():
            reading.value(target.slice, scope)
            _change(reading, target, reading.value(target.value, scope))
            _put(target, value, scope)
        case ast.Attribute():
            owner = reading.value(target.value, scope)
            if isinstance(owner, Module) and isinstance(owner.attributes, dict):
                known = owner.attributes.get(target.attr)
                owner.attributes[target.attr] = _held(value) if known is None else joined(known, _held(value))
        case _:
            pass


def _unpack(reading: "Reading", targets: list[ast.expr], value: Value, scope: Scope, source: ast.expr) -> None:
    starred = any(isinstance(each, ast.Starred) for each in targets)
    if isinstance(value, Symbolic):
        if starred:
            reading.say("FX003", source, "unpacked", value)
        for each in targets:
            store(reading, each, value, scope, source)
    elif is_container(value) and isinstance(value, Module) and len(value.parts) == len(targets) and not starred:
        for each, item in zip(targets, value.parts, strict=True):
            store(reading, each, item, scope, source)
    elif isinstance(value, Items) and value.items is not None and len(value.items) == len(targets) and not starred:
        for each, item in zip(targets, value.items, strict=True):
            store(reading, each, item, scope, source)
    else:
        item = value.each if isinstance(value, Items) else outcome_of(value)
        for each in targets:
            store(reading, each, item, scope, source)


def _put(target: ast.Subscript, value: Value, scope: Scope) -> None:
    """Note that a collection that a name stands for holds a further value."""
    if isinstance(target.value, ast.Name):
        owner = scope.names.get(target.value.id)
        if isinstance(owner, Items):
            each = value if owner.items == () else joined(owner.each, value)
            scope.names[target.value.id] = Items(None, each, owner.mapping)


def _augment(reading: "Reading", target: ast.expr, value: Value, scope: Scope) -> None:
    if isinstance(target, ast.Subscript):
        owner = reading.value(target.value, scope)
        reading.value(target.slice, scope)
        _change(reading, target, owner)
        _put(target, value, scope)
    elif isinstance(target, ast.Name):
        scope.names[target.id] = operation((scope.names.get(target.id, PLAIN), value))
    else:
        store(reading, target, operation((reading.value(target, scope), value)), scope, target)


def _change(reading: "Reading", target: ast.Subscript, owner: Value) -> None:
    if isinstance(owner, Symbolic):
        reading.say("FX005", target, "assigned", owner)


def _held(value: Value) -> Value:
    """Return a value as a module holds it: modules in a plain list are no part of it."""
    if isinstance(value, Items) and isinstance(value.each, Module):
        stray = replace(value.each, registered=False)
        items = value.items
        if items is not None:
            items = tuple(replace(each, registered=False) if isinstance(each, Module) else each for each in items)
        return Items(items, stray, value.mapping)
    return value


def _merged(one: dict[str, Value], other: dict[str, Value]) -> dict[str, Value]:
    """Return the names after two ways that meet."""
    if one is other:
        return one
    return {
        name: joined(one[name], other[name]) if name in one and name in other else PERHAPS
        for name in one.keys() | other.keys()
    }


def _catches_everything(node: ast.Try) -> bool:
    names = {"Exception", "BaseException", "TypeError", "ValueError", "RuntimeError"}
    kinds = [each for handler in node.handlers for each in _kinds(handler.type)]
    return any(kind is None or (isinstance(kind, ast.Name) and kind.id in names) for kind in kinds)


def _is_map(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "map"


def _kinds(node: ast.expr | None) -> list[ast.expr | None]:
    return [*node.elts] if isinstance(node, ast.Tuple) else [node]

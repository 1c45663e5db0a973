"""Reading expressions and conditions: what they stand for, and what they ask that torch.fx cannot answer."""

import ast
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from fxls.syntactic import calls
from fxls.syntactic.program import is_container
from fxls.syntactic.scope import Scope
from fxls.syntactic.values import (
    METADATA,
    NONE,
    PERHAPS,
    PLAIN,
    SYMBOLIC,
    Buffer,
    Class,
    Constant,
    Function,
    Items,
    Module,
    Perhaps,
    Symbolic,
    Value,
    collection,
    combined,
    holds_symbolic,
    joined,
    joined_all,
    may_be_symbolic,
    outcome_of,
    truth,
)

if TYPE_CHECKING:
    from fxls.syntactic.reading import Reading


def ask(reading: "Reading", node: ast.expr, scope: Scope, way: str) -> bool | None:
    """Read a condition, report what in it is symbolic, and return its outcome where that is known."""
    match node:
        case ast.BoolOp(op=op, values=values):
            decisive = isinstance(op, ast.Or)
            outcomes: list[bool | None] = []
            for each in values:
                outcome = reading.ask(each, scope, way)
                if outcome is decisive:
                    return decisive if all(before is not None for before in outcomes) else None
                outcomes.append(outcome)
                # What stands behind `x is not None and` knows it.
            return None if None in outcomes else not decisive
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            outcome = reading.ask(operand, scope, way)
            return None if outcome is None else not outcome
        case ast.Compare(ops=ops) if len(ops) > 1:
            _chain(reading, node, scope, way)
            return None
        case _:
            value = reading.value(node, scope)
            if isinstance(value, Symbolic):
                reading.say("FX001", node, way, value)
            return truth(value)


def _chain(reading: "Reading", node: ast.Compare, scope: Scope, way: str) -> None:
    left = node.left
    value = reading.value(left, scope)
    for op, right in zip(node.ops, node.comparators, strict=True):
        other = reading.value(right, scope)
        found = compared(reading, op, value, other, node)
        if isinstance(found, Symbolic):
            reading.say("FX001", _between(left, right), way, found)
        left, value = right, other


def compared(reading: "Reading", op: ast.cmpop, left: Value, right: Value, node: ast.AST) -> Value:
    """Return what a comparison gives."""
    if isinstance(op, ast.Is | ast.IsNot):
        same = _is_same(left, right)
        return PLAIN if same is None else Constant(same is isinstance(op, ast.Is))
    if isinstance(op, ast.In | ast.NotIn):
        if isinstance(left, Symbolic) and isinstance(right, Items) and not right.mapping and right.items != ():
            reading.say("FX001", node, "asked", left)
        return PLAIN
    if isinstance(left, Constant) and isinstance(right, Constant):
        return _compared_constants(op, left.value, right.value)
    return operation((left, right))


def _compared_constants(op: ast.cmpop, left: object, right: object) -> Value:
    """Return what a comparison of two values gives that stand in the text."""
    if isinstance(op, ast.Eq | ast.NotEq):
        return Constant((left == right) is isinstance(op, ast.Eq))
    if not (isinstance(left, int | float) and isinstance(right, int | float)):
        return PLAIN
    match op:
        case ast.Lt():
            return Constant(left < right)
        case ast.LtE():
            return Constant(left <= right)
        case ast.Gt():
            return Constant(left > right)
        case _:
            return Constant(left >= right)


def operation(values: Iterable[Value]) -> Value:
    """Return what an operator gives."""
    values = list(values)
    collections = [each for each in values if isinstance(each, Items)]
    if collections and not any(isinstance(each, Symbolic) for each in values):
        filled = [each for each in collections if each.items != ()]
        return Items(None, joined_all(each.each for each in filled), holds=any(map(holds_symbolic, filled)))
    return combined(values)


def narrow(reading: "Reading", test: ast.expr, scope: Scope, *, outcome: bool) -> None:
    """Note what a condition that came out so says of a name: that it is None, or a number."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            narrow(reading, operand, scope, outcome=not outcome)
        case ast.BoolOp(op=ast.And(), values=values) if outcome:
            for each in values:
                narrow(reading, each, scope, outcome=True)
        case ast.Compare(
            left=ast.Name(id=name), ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]
        ):
            if isinstance(op, ast.Is) is outcome and not isinstance(scope.names.get(name), Symbolic):
                scope.names[name] = NONE
        case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=name), ast.expr() as kinds]) if outcome:
            if isinstance(scope.names.get(name), Perhaps) and not _mentions_tensor(kinds):
                scope.names[name] = PLAIN
        case _:
            pass


def items(reading: "Reading", node: ast.expr, scope: Scope) -> Value:
    """Return what an expression that is iterated gives each time."""
    return reading.each_of(node, reading.value(node, scope))


def each_of(reading: "Reading", node: ast.expr, value: Value, way: str = "iterated") -> Value:
    """Return what iterating a value gives each time."""
    match value:
        case Symbolic():
            reading.say("FX003", node, way, value)
            return METADATA if value.metadata else PERHAPS
        case Items():
            return PLAIN if value.mapping else value.each
        case Module() if is_container(value):
            return joined_all(value.parts) if value.parts else PERHAPS
        case Buffer():
            return value
        case _:
            return outcome_of(value)


def value_of(reading: "Reading", node: ast.expr, scope: Scope) -> Value:  # noqa: C901, PLR0911 — A case for each kind.
    """Return what an expression stands for, having reported what in it asks too much."""
    match node:
        case ast.Constant():
            return Constant(node.value)
        case ast.Name():
            return scope.names.get(node.id, PLAIN if node.id in calls.BUILTINS else PERHAPS)
        case ast.Attribute():
            return reading.attribute(reading.value(node.value, scope), node.attr)
        case ast.Call():
            return calls.call(reading, node, scope)
        case ast.Subscript():
            return _subscript(reading, node, scope)
        case ast.BinOp():
            return operation((reading.value(node.left, scope), reading.value(node.right, scope)))
        case ast.UnaryOp(op=ast.Not()):
            outcome = reading.ask(node.operand, scope, "asked")
            return PLAIN if outcome is None else Constant(not outcome)
        case ast.UnaryOp():
            return operation((reading.value(node.operand, scope),))
        case ast.BoolOp():
            return _bool_op(reading, node, scope)
        case ast.Compare():
            return _compare(reading, node, scope)
        case ast.IfExp():
            return _choice(reading, node, scope)
        case _:
            return _further(reading, node, scope)


def _further(reading: "Reading", node: ast.expr, scope: Scope) -> Value:  # noqa: C901, PLR0911, PLR0912 — As above.
    match node:
        case ast.Tuple() | ast.List() | ast.Set():
            return _display(reading, node.elts, scope)
        case ast.Dict():
            for key in node.keys:
                if key is not None:
                    reading.value(key, scope)
            values = [reading.value(each, scope) for each in node.values]
            return Items(None if values else (), joined_all(values), mapping=True)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
            return Items(None, _comprehension(reading, node.generators, scope, node.elt))
        case ast.DictComp():
            return Items(None, _comprehension(reading, node.generators, scope, node.value), mapping=True)
        case ast.Lambda():
            return Function(node, scope.names, scope.me, scope.cls)
        case ast.NamedExpr():
            value = reading.value(node.value, scope)
            reading.store(node.target, value, scope, node.value)
            return value
        case ast.JoinedStr():
            _format(reading, node, scope)
            return PLAIN
        case ast.Starred():
            return items(reading, node.value, scope)
        case ast.Yield() | ast.YieldFrom() | ast.Await():
            return _suspended(reading, node, scope)
        case ast.Slice():
            parts = [part for part in (node.lower, node.upper, node.step) if part is not None]
            return combined([reading.value(part, scope) for part in parts])
        case _:
            return PLAIN


def _suspended(reading: "Reading", node: ast.Yield | ast.YieldFrom | ast.Await, scope: Scope) -> Value:
    if isinstance(node, ast.Yield):
        scope.yielded.append(NONE if node.value is None else reading.value(node.value, scope))
        return PERHAPS
    value = reading.value(node.value, scope)
    if isinstance(node, ast.YieldFrom):
        scope.yielded.append(reading.each_of(node.value, value))
    return PERHAPS


def _format(reading: "Reading", node: ast.JoinedStr, scope: Scope) -> None:
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            value = reading.value(part.value, scope)
            if isinstance(value, Symbolic) and part.format_spec is not None and part.conversion < 0:
                reading.say("FX004", node, "number", value)


def _display(reading: "Reading", elements: list[ast.expr], scope: Scope) -> Value:
    found: list[Value] = []
    known = True
    for each in elements:
        if isinstance(each, ast.Starred):
            value = reading.value(each.value, scope)
            if isinstance(value, Items) and value.items is not None:
                found += value.items
            else:
                known = False
                found.append(reading.each_of(each.value, value))
        else:
            found.append(reading.value(each, scope))
    return collection(found) if known else Items(None, joined_all(found))


def _comprehension(reading: "Reading", generators: list[ast.comprehension], scope: Scope, result: ast.expr) -> Value:
    inner = replace(scope, names=dict(scope.names))
    for generator in generators:
        each = items(reading, generator.iter, inner)
        reading.store(generator.target, each, inner, generator.iter)
        for condition in generator.ifs:
            reading.ask(condition, inner, "branch")
    return reading.value(result, inner)


def _bool_op(reading: "Reading", node: ast.BoolOp, scope: Scope) -> Value:
    decisive = isinstance(node.op, ast.Or)
    found: list[Value] = []
    for each in node.values[:-1]:
        value = reading.value(each, scope)
        if isinstance(value, Symbolic):
            reading.say("FX001", each, "operand", value)
        outcome = truth(value)
        if outcome is decisive:
            return joined_all([*found, value])
        if outcome is None:
            found.append(value)
    return joined_all([*found, reading.value(node.values[-1], scope)])


def _compare(reading: "Reading", node: ast.Compare, scope: Scope) -> Value:
    if len(node.ops) > 1:
        _chain(reading, node, scope, "asked")
        return PLAIN
    left, right = reading.value(node.left, scope), reading.value(node.comparators[0], scope)
    return compared(reading, node.ops[0], left, right, node)


def _choice(reading: "Reading", node: ast.IfExp, scope: Scope) -> Value:
    outcome = reading.ask(node.test, scope, "branch")
    if outcome is not None:
        return reading.value(node.body if outcome else node.orelse, scope)
    before = dict(scope.names)
    narrow(reading, node.test, scope, outcome=True)
    one = reading.value(node.body, scope)
    scope.names = before
    narrow(reading, node.test, scope, outcome=False)
    return joined(one, reading.value(node.orelse, scope))


def _subscript(reading: "Reading", node: ast.Subscript, scope: Scope) -> Value:
    owner, index = reading.value(node.value, scope), reading.value(node.slice, scope)
    match owner:
        case Symbolic():
            return owner
        case Items():
            return _item(reading, node, owner, index)
        case Module() if is_container(owner):
            if isinstance(index, Symbolic):
                reading.say("FX004", node, "number", index)
            if isinstance(node.slice, ast.Slice):
                return owner
            if (
                isinstance(index, Constant)
                and isinstance(index.value, int)
                and -len(owner.parts) <= index.value < len(owner.parts)
            ):
                return owner.parts[index.value]
            return joined_all(owner.parts) if owner.parts else PERHAPS
        case Buffer():
            return _part_of_buffer(reading, node, index, scope)
        case _:
            return outcome_of(owner)


def _item(reading: "Reading", node: ast.Subscript, owner: Items, index: Value) -> Value:
    if isinstance(index, Symbolic):
        reading.say(*(("FX006", node, "key", index) if owner.mapping else ("FX004", node, "number", index)))
        return PERHAPS if may_be_symbolic(owner) else owner.each
    if isinstance(node.slice, ast.Slice):
        return Items(None, owner.each)
    known = owner.items
    if known is None or not isinstance(index, Constant) or not isinstance(index.value, int):
        return owner.each
    return known[index.value] if -len(known) <= index.value < len(known) else owner.each


def _part_of_buffer(reading: "Reading", node: ast.Subscript, index: Value, scope: Scope) -> Value:
    """Return a part of a real tensor: its slices need numbers, its indices may be symbolic."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    for part in parts:
        value = PLAIN
        if isinstance(part, ast.Slice):
            value = _quietly(reading, part, scope)
        if isinstance(value, Symbolic):
            reading.say("FX004", node, "number", value)
            return SYMBOLIC
    return SYMBOLIC if holds_symbolic(index) else PERHAPS if may_be_symbolic(index) else Buffer()


def _quietly(reading: "Reading", node: ast.expr, scope: Scope) -> Value:
    """Return what an expression stands for that was read before."""
    found: list[Value] = []
    reading.silently(lambda: found.append(reading.value(node, scope)))
    return found[0]


def _is_same(left: Value, right: Value) -> bool | None:
    """Return whether two values are one and the same thing, None where that is not known."""
    for one, other in ((left, right), (right, left)):
        if one == NONE:
            if isinstance(other, Symbolic | Module | Items | Buffer | Function | Class):
                return False
            if isinstance(other, Constant):
                return other.value is None
        elif isinstance(one, Constant) and isinstance(other, Symbolic):
            return False
    if isinstance(left, Constant) and isinstance(right, Constant):
        return left.value is right.value
    return None


def _mentions_tensor(node: ast.expr) -> bool:
    names = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    names |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return bool(names & {"Tensor", "Proxy", "list", "tuple", "Sequence", "dict", "Iterable"})


def _between(left: ast.expr, right: ast.expr) -> ast.expr:
    """Return a node that spans two others."""
    return ast.Compare(
        left,
        [ast.Lt()],
        [right],
        lineno=left.lineno,
        col_offset=left.col_offset,
        end_lineno=right.end_lineno,
        end_col_offset=right.end_col_offset,
    )

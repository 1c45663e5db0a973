"""Conditions of the user's code that did not hold: what to change about inputs so that they do."""

import ast
import copy
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import torch

from fxengine.classification import Moment
from fxengine.inputs.choosing import TABLES, chosen
from fxengine.inputs.clues import BATCH
from fxengine.inputs.frames import Frame
from fxengine.inputs.moves import Change
from fxengine.inputs.proposals import Proposer
from fxengine.inputs.recipes import Constant, Listing, Recipe, Record, TensorRecipe, packed
from fxengine.syntax import nodes_around

__all__ = ["Conditions", "conditions", "conditions_of", "expression_nodes", "function_around"]

_NEGATED: Final[Mapping[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


_ORDERS: Final = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)

_INVERSES: Final[Mapping[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: lambda wanted, other: wanted - other,
    ast.Sub: lambda wanted, other: wanted + other,
    ast.Mult: lambda wanted, other: wanted // other if other and wanted % other == 0 else 0,
    ast.FloorDiv: lambda wanted, other: wanted * other,
}
"""What the left side of an operation is to be for the whole to be what is wanted."""

_MOST_ITEMS: Final = 64
"""The most items that a list is given."""

_MOST_OPTIONS: Final = 4
"""How many of several numbers are tried."""

_MOST_STEPS: Final = 6
"""How many definitions and operations are followed from a number to the inputs."""


def conditions(moment: Moment) -> Iterator[tuple[ast.expr, bool]]:
    """Yield the conditions under which a frame raised, the nearest first, each with what it should have been.

    Of a chain of `if` and `elif` whose `else` raised, the first comes first: it is the usual one.
    """
    around = nodes_around(moment.path, moment.source.span)[::-1]
    raised: ast.AST | None = None
    chain: list[tuple[ast.expr, bool]] = []
    latest: ast.AST | None = None
    for node in around:
        match node:
            case ast.Assert(test=test):
                yield test, True
            case ast.Raise():
                raised = node
            case ast.If(test=test, body=body, orelse=others) if raised is not None:
                is_other = not any(raised is each or raised in ast.walk(each) for each in body)
                if is_other and others == [latest]:
                    chain.insert(0, (test, True))
                else:
                    yield from chain
                    chain = [(test, is_other)]
                latest = node
            case ast.FunctionDef(body=body):
                yield from chain
                yield from ((test, True) for test in _ways_out(body, raised))
                return
            case ast.Lambda():
                break
            case _:
                pass
    yield from chain


def _ways_out(body: list[ast.stmt], raised: ast.AST | None) -> Iterator[ast.expr]:
    """Yield the conditions under which a function would have returned before it raised in the end."""
    for statement in itertools.takewhile(lambda each: each is not raised, body if raised in body else ()):
        match statement:
            case ast.If(test=test, body=[*_, ast.Return()]):
                yield test
            case _:
                pass


def conditions_of(name: str, moment: Moment) -> Iterator[ast.expr]:
    """Yield the conditions under which a local variable is assigned."""
    function = function_around(moment)
    for node in ast.walk(function) if function is not None else ():
        if isinstance(node, ast.If) and any(
            isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store)
            for statement in node.body
            for each in ast.walk(statement)
        ):
            yield node.test


def function_around(moment: Moment) -> ast.FunctionDef | None:
    """Return the function that a frame runs."""
    around = nodes_around(moment.path, moment.source.span)[::-1]
    return next((node for node in around if isinstance(node, ast.FunctionDef)), None)


def expression_nodes(moment: Moment) -> Iterator[ast.AST]:
    """Yield the expression that a frame was evaluating, and the statement that it stands in."""
    around = nodes_around(moment.path, moment.source.span)[::-1]
    expression = next((node for node in around if isinstance(node, ast.expr)), None)
    statement = next((node for node in around if isinstance(node, ast.stmt)), None)
    if expression is not None:
        yield expression
    if isinstance(statement, ast.Assign | ast.For | ast.Return):
        yield statement


def _definition(name: str, moment: Moment) -> ast.expr | None:
    """Return what a local variable was assigned before the line that a frame is at: an item, where it was unpacked.

    That it was let go of then, as generated code does with `x = None`, is passed over.
    """
    found: ast.expr | None = None
    function = function_around(moment)
    for node in ast.walk(function) if function is not None else ():
        if not isinstance(node, ast.Assign) or node.lineno >= moment.source.line:
            continue
        match node.targets[0]:
            case ast.Name(id=given) if given == name and not _is_none(node.value):
                found = node.value
            case ast.Tuple(elts=targets):
                for index, target in enumerate(targets):
                    if isinstance(target, ast.Name) and target.id == name:
                        found = ast.Subscript(node.value, ast.Constant(index), ast.Load())
                        ast.fix_missing_locations(ast.copy_location(found, node.value))
            case _:
                pass
    return found


def _is_none(expression: ast.expr) -> bool:
    return isinstance(expression, ast.Constant) and expression.value is None


class _Defined(ast.NodeTransformer):
    """Puts what they were assigned in the place of names that stand for nothing any more. Mutable: it knows these."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.names: set[str] = set()

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Return the definition of a name that is None by now."""
        if node.id in self.names or self.frame.value(node) is not None:
            return node
        self.names.add(node.id)
        found = _definition(node.id, self.frame.moment)
        return node if found is None else self.visit(copy.deepcopy(found))


class Conditions:
    """What makes conditions hold in one frame. Mutable: it knows which names it has looked behind."""

    def __init__(self, frame: Frame, proposer: Proposer, cost: float) -> None:
        self.frame = frame
        self.moves = frame.moves
        self.proposer = proposer
        self.cost = cost
        self._names: set[str] = set()

    def fulfil(self, test: ast.expr, *, holds: bool) -> Iterator[Change]:  # noqa: C901, PLR0912 - a table of syntax.
        """Make a condition hold, or not hold."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield from self.fulfil(operand, holds=not holds)
            case ast.BoolOp(op=operator, values=values):
                for value in values:
                    if _truth(self.frame.value(value)) is not holds or isinstance(operator, ast.Or) is holds:
                        yield from self.fulfil(value, holds=holds)
            case (
                ast.Call(func=ast.Name(id="isinstance"), args=[value, kinds])
                | ast.Compare(
                    left=ast.Call(func=ast.Name(id="type"), args=[value]),
                    ops=[ast.Is() | ast.Eq()],
                    comparators=[kinds],
                )
            ):
                yield from self._of_type(value, kinds, holds=holds)
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                kind = type(operator) if holds else _NEGATED.get(type(operator))
                if kind is not None:
                    yield from self._compare(left, kind, right)
            case ast.Compare(left=left, ops=operators, comparators=comparators) if holds:
                yield from self._between(left, *comparators)
                for one, operator, other in zip((left, *comparators), operators, comparators, strict=False):
                    yield from self._compare(one, type(operator), other)
            case ast.Call(func=ast.Name(id="is_complex") | ast.Attribute(attr="is_complex")) if holds:
                for place, recipe in self.moves.among(self.frame.places(test)):
                    yield self.moves.put(place, replace(recipe, fill="normal", dtype=torch.complex64), self.cost + 0.1)
            case ast.Call(func=ast.Name(id="is_floating_point") | ast.Attribute(attr="is_floating_point")):
                change = self.moves.floating if holds else self.moves.integral
                yield from change(self.frame.places(test), self.cost + 0.1)
            case ast.Call(
                func=ast.Name(id="all"),
                args=[
                    ast.GeneratorExp(elt=each, generators=[generator]) | ast.ListComp(elt=each, generators=[generator])
                ],
            ) if holds:
                yield from self._of_each(each, generator)
            case _:
                yield from self._truth(test, holds=holds)

    def _truth(self, test: ast.expr, *, holds: bool) -> Iterator[Change]:
        """Something should be there, or not: ``assert mask``, ``exists(labels)``."""
        for node in ast.walk(test):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], _ORDERS):
                yield from self._bounded(node)
            if isinstance(node, ast.Name):
                place = self.frame.constant_place(node)
                part = self.moves.parts.get(place) if place is not None else None
                if place is not None and isinstance(part, Constant) and isinstance(part.value, bool):
                    yield self.moves.put(place, Constant(holds), self.cost + 0.2)
        if isinstance(test, ast.Name) and test.id not in self._names and type(self.frame.value(test)) is bool:
            self._names.add(test.id)
            source = _definition(test.id, self.frame.moment)
            if source is not None:
                yield from self.fulfil(_Defined(self.frame).visit(copy.deepcopy(source)), holds=holds)

    def _compare(self, left: ast.expr, kind: type[ast.cmpop], right: ast.expr) -> Iterator[Change]:
        a, b = _number_in(self.frame.value(left)), _number_in(self.frame.value(right))
        if isinstance(a, torch.dtype) and kind in {ast.Eq, ast.Is, ast.In}:
            yield from self._of_dtype(left, b)
        elif kind is ast.In and isinstance(a, str) and isinstance(b, dict):
            yield from self._with_key(b, a)
        elif kind is ast.In and isinstance(b, (tuple, list, set, *TABLES)):
            yield from chosen(self.frame, left, b, self.cost + 0.1)
            yield from self._sized_as(left, a, b)
        elif kind is ast.IsNot and b is None:
            yield from self._looked_up(left)
        elif kind is ast.Eq:
            yield from self._looked_up(left)
            yield from self._equal(left, a, b)
            yield from self._equal(right, b, a)
        elif type(a) is int and type(b) is int:
            bounds: dict[type[ast.cmpop], int] = {
                ast.Lt: b - 1,
                ast.LtE: b,
                ast.Gt: b + 1,
                ast.GtE: b,
                ast.NotEq: a + 1,
            }
            bound = bounds.get(kind)
            if bound is not None and a != bound:
                yield from self._number(left, a, bound)
                opposites: dict[type[ast.cmpop], int] = {ast.Lt: a + 1, ast.LtE: a, ast.Gt: a - 1, ast.GtE: a}
                opposite = opposites.get(kind)
                if opposite is not None:
                    yield from self._number(right, b, opposite)
        elif kind in _ORDERS:
            yield from self._bounded(left, right)

    def _between(self, *parts: ast.expr) -> Iterator[Change]:
        """Give an input that is to lie between two numbers one that does: ``assert 0 < truncation <= 1``."""
        for low, inner, high in zip(parts, parts[1:], parts[2:], strict=False):
            bounds = [_number_in(self.frame.value(each)) for each in (low, high)]
            place = self.frame.place(self.frame.value(inner))
            if place is not None and all(type(each) in {int, float} for each in bounds):
                yield self.moves.put(place, Constant(sum(bounds) / 2), self.cost + 0.05)

    def _of_dtype(self, expression: ast.expr, wanted: Any) -> Iterator[Change]:
        """Give tensors the type, or one of the types, that an expression of theirs is to be."""
        options = wanted if isinstance(wanted, tuple | list | set) else [wanted]
        for cost, dtype in enumerate(each for each in options if isinstance(each, torch.dtype)):
            yield from self.moves.typed(self.frame.places(expression), dtype, self.cost + 0.1 + 0.1 * cost)

    def _sized_as(self, expression: ast.expr, value: Any, options: Iterable[Any]) -> Iterator[Change]:
        """Bring a number that comes from the inputs to one of several."""
        for option in itertools.islice(options, _MOST_OPTIONS):
            if type(value) is int and type(option) is int:
                yield from self._number(expression, value, option)

    def _looked_up(self, expression: ast.expr) -> Iterator[Change]:
        """What `get` finds in a dictionary should not be None, nor what is used where there is none: `x.shape[1]`."""
        names = [each.id for each in ast.walk(expression) if isinstance(each, ast.Name)]
        sources = [_definition(each, self.frame.moment) for each in dict.fromkeys(names)]
        for node in (each for whole in (expression, *sources) if whole is not None for each in ast.walk(whole)):
            match node:
                case ast.Call(func=ast.Attribute(value=base, attr="get"), args=[ast.expr() as index, *_]):
                    table, key = self.frame.value(base), self.frame.value(index)
                    if isinstance(table, dict) and isinstance(key, str) and key not in table:
                        yield from self._with_key(table, key)
                case _:
                    pass

    def _with_key(self, table: dict[Any, Any], key: str) -> Iterator[Change]:
        """Give a dictionary among the inputs a key that code looks for."""
        place = self.frame.place(table)
        # What is looked into may have been made of what was given, and of other things.
        places = [place] if place is not None else [(name,) for name in self.moves.recipes]
        for each in places:
            whole = self.frame.recipe(each)
            if isinstance(whole, Record):
                for cost, entry in enumerate(self.proposer.named(key)[:2]):
                    yield self.moves.put(each, Record((*whole.items, (key, entry))), self.cost + 0.1 + 0.4 * cost)

    def _bounded(self, *expressions: ast.expr) -> Iterator[Change]:
        """The values of an input should be in some range: ``assert x.min() >= 0 and x.max() <= 1``."""
        for expression in expressions:
            yield from self.moves.bounded(self.frame.places(expression), self.cost + 0.1)

    def _equal(self, expression: ast.expr, value: Any, wanted: Any) -> Iterator[Change]:
        """Bring what an expression gives to a value."""
        if isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.Mod) and wanted == 0:
            factor, size = self.frame.value(expression.right), self.frame.value(expression.left)
            if type(factor) is int and type(size) is int:
                yield from self._number(expression.left, size, -(-size // factor) * factor if factor else size)
                yield from self.moves.multiple(factor, self.cost + 0.5)
        elif type(value) is int and type(wanted) is int and value != wanted:
            yield from self._number(expression, value, wanted)
        elif isinstance(value, tuple | list) and isinstance(wanted, tuple | list):
            yield from self._sizes(expression, [*map(_number_in, value)], [*map(_number_in, wanted)])
        elif isinstance(wanted, str):
            yield from chosen(self.frame, expression, [wanted], self.cost + 0.1)

    def _sizes(self, expression: ast.expr, given: list[Any], wanted: list[Any]) -> Iterator[Change]:
        """Bring a shape, or a part of one, to another."""
        match expression:
            case ast.Subscript(
                value=ast.Attribute(attr="shape"), slice=ast.Slice(lower=ast.expr() as lower, upper=None)
            ):
                first = self.frame.value(lower)
                known = type(first) is int and all(type(size) is int for size in wanted)
                for place, recipe in self.moves.among(self.frame.places(expression)) if known else ():
                    yield self.moves.reshape(place, (*recipe.shape[:first], *wanted), self.cost + 0.1)
            case _:
                pass
        if len(given) != len(wanted) and all(type(size) is int for size in wanted):
            cost = 0.2 if len(given) < len(wanted) else 0.6  # What lacks a dimension tells less of it than what has it.
            for place, _ in self.moves.among(self.frame.places(expression)):
                yield self.moves.reshape(place, wanted, self.cost + cost)
        for got, size in zip(given, wanted, strict=False):
            if type(got) is int and type(size) is int and got != size:
                yield from self._number(expression, got, size)

    def _number(self, expression: ast.expr, got: int, wanted: int, steps: int = 0) -> Iterator[Change]:
        """Bring a number that comes from the inputs, a rank or a size or one of them itself, to another."""
        yield from self._behind(expression, got, wanted, steps)
        place = self.frame.constant_place(expression)
        if place is not None:
            yield self.moves.put(place, Constant(wanted), self.cost + 0.1)
        places = self.frame.places(expression)
        text = ast.unparse(expression)
        if _is_rank(expression):
            yield from self.moves.rerank(places or frozenset(self.moves.parts), got, wanted, self.cost + 0.2)
            return
        if text.startswith("len("):
            for each in places:
                whole = self.frame.recipe(each[:1])
                if isinstance(whole, TensorRecipe) and len(each) == 1 and 0 < wanted <= _MOST_ITEMS:
                    yield self.moves.put(each, Listing((whole,) * wanted), self.cost + 0.4)
                if isinstance(whole, Listing) and whole.items and 0 < wanted <= _MOST_ITEMS:
                    items = (whole.items * wanted)[:wanted]
                    yield self.moves.put(each[:1], Listing(items, whole.type), self.cost + 0.1)
        if got == BATCH and wanted == 1 and _is_first_size(expression):
            yield from self.moves.single(self.cost + 0.1)
        if got > 0 and wanted > 0:
            named = places or frozenset(each for each, recipe in self.moves.tensors() if got in recipe.shape)
            yield from self.moves.resize(named or frozenset(self.moves.parts), got, wanted, self.cost + 0.2)
            dimension = _dimension(expression)
            if dimension is not None:
                yield from self.moves.lessened(places, dimension, got, wanted, self.cost)
                yield from self.moves.joined(places, got, wanted, dimension, self.cost + 0.3)

    def _behind(self, expression: ast.expr, got: int, wanted: int, steps: int) -> Iterator[Change]:
        """Bring what a number was computed from to what makes it another."""
        match expression:
            case _ if steps >= _MOST_STEPS:
                return
            case ast.Name(id=name):
                source = _definition(name, self.frame.moment)
                # A tensor may have got other dimensions since they were counted.
                if source is not None and (self.frame.value(source) == got or _is_rank(source)):
                    yield from self._number(source, got, wanted, steps + 1)
            case ast.BinOp(left=left, op=operator, right=right):
                first, second = self.frame.value(left), self.frame.value(right)
                inverse = _INVERSES.get(type(operator))
                if inverse is None or type(first) is not int or type(second) is not int:
                    return
                yield from self._number(left, first, inverse(wanted, second), steps + 1)
                if isinstance(operator, ast.Add | ast.Mult):
                    yield from self._number(right, second, inverse(wanted, first), steps + 1)
            case _:
                pass

    def _of_type(self, value: ast.expr, kinds: ast.expr, *, holds: bool) -> Iterator[Change]:
        """``isinstance(x, dict)`` should be true, or not."""
        place = self.frame.place(self.frame.value(value))
        if place is None:
            place = self.frame.constant_place(value)
        whole = self.frame.recipe(place) if place is not None else None
        if place is not None and whole is not None and holds:
            for cost, recipe in self._kinds(whole, kinds, str(place[-1])):
                yield self.moves.put(place, recipe, self.cost + 0.2 + 0.1 * cost)

    def _of_each(self, test: ast.expr, generator: ast.comprehension) -> Iterator[Change]:
        """``all(isinstance(each, list) for each in inputs)`` should be true."""
        place = self.frame.place(self.frame.value(generator.iter))
        whole = self.frame.recipe(place) if place is not None else None
        match test:
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, kinds]) if (
                place is not None and isinstance(whole, Listing) and whole.items
            ):
                others = [list(self._kinds(item, kinds, str(place[-1]))) for item in whole.items]
                for kind in zip(*others, strict=True):
                    items = tuple(recipe for _, recipe in kind)
                    yield self.moves.put(place, replace(whole, items=items), self.cost + 0.2 + 0.1 * kind[0][0])
            case _:
                pass

    def _kinds(self, whole: Recipe, kinds: ast.expr, called: str) -> Iterator[tuple[int, Recipe]]:
        """Yield what is of a type that an expression names, made of an input, each with its number."""
        names = {node.id for node in ast.walk(kinds) if isinstance(node, ast.Name)} | {
            node.attr for node in ast.walk(kinds) if isinstance(node, ast.Attribute)
        }
        number, clues = self.proposer.number(called), self.moves.clues
        options: list[tuple[str, Callable[[], Recipe]]] = [
            ("list", lambda: Listing((whole, whole))),
            ("tuple", lambda: Listing((whole, whole), tuple)),
            ("Sequence", lambda: Listing((whole, whole))),
            ("dict", lambda: Record(())),
            ("Mapping", lambda: Record(())),
            ("int", lambda: Constant(number)),
            ("float", lambda: Constant(float(number))),
            ("str", lambda: Constant("")),
            ("bool", lambda: Constant(False)),
            ("Tensor", lambda: self.proposer.named(called)[0]),
            ("PackedSequence", lambda: packed(clues.lengths[0], BATCH, clues.widths[0])),
        ]
        for cost, (name, make) in enumerate(options):
            if name in names:
                yield cost, make()


def _is_first_size(expression: ast.expr) -> bool:
    """Whether an expression is how many examples there are: `x.shape[0]`, `x.size()[0]`, `x.size(0)`, `len(x)`."""
    match expression:
        case ast.Subscript(
            value=ast.Attribute(attr="shape") | ast.Call(func=ast.Attribute(attr="size"), args=[]),
            slice=ast.Constant(value=0),
        ):
            return True
        case ast.Call(func=ast.Attribute(attr="size"), args=[ast.Constant(value=0)]):
            return True
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name()]):
            return True
        case _:
            return False


def _dimension(expression: ast.expr) -> int | None:
    """Return which size of a tensor an expression is, as `x.shape[-1]` or `x.size(1)`; None where it is no such."""
    match expression:
        case ast.Subscript(
            value=ast.Attribute(attr="shape") | ast.Call(func=ast.Attribute(attr="size"), args=[]), slice=index
        ):
            pass
        case ast.Call(func=ast.Attribute(attr="size"), args=[index]):
            pass
        case _:
            return None
    try:
        dimension = ast.literal_eval(index)
    except ValueError:
        return None
    return dimension if type(dimension) is int else None


def _is_rank(expression: ast.expr) -> bool:
    """Whether an expression counts dimensions."""
    text = ast.unparse(expression)
    return "ndim" in text or ".dim()" in text or ("len(" in text and "shape" in text)


def _truth(value: Any) -> bool | None:
    """Return whether a value counts as true, None where it does not say: a tensor of several numbers, say."""
    try:
        return bool(value)
    except Exception:  # noqa: BLE001 - the value is the user's, and may raise anything.
        return None


def _number_in(value: Any) -> Any:
    """Return the whole number that a tensor holds which has one, anything else as it is."""
    is_one = (
        isinstance(value, torch.Tensor) and not value.is_meta and not value.dtype.is_floating_point and not value.ndim
    )
    return int(value) if is_one and value.dtype is not torch.bool else value

"""What the Python code around a failure says: the expression that raised, the condition that did not hold.

torch's message tells what a kernel wanted. What *code* wanted stands in the code: that a value was called, indexed by a
key or unpacked, or that ``x.shape[1] % self.patch == 0`` was asserted. The frames of the failed trial still have their
variables, so the parts of a condition can be evaluated; only such as read names, attributes, items and sizes are.
"""

import ast
import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from torch import Size, Tensor, nn

from fxengine.classification import Moment
from fxengine.inputs.moves import Change, Moves
from fxengine.inputs.proposals import Proposer
from fxengine.inputs.recipes import Constant, Listing, Place, Recipe, Record, Structure, TensorRecipe, Verbatim
from fxengine.syntax import nodes_around

__all__ = ["absent_names", "by_scene"]

_FRAMES: Final = 6
"""How many frames are looked at, from the innermost outwards."""

_MAPPING: Final = frozenset({"get", "items", "keys", "values", "update", "pop", "setdefault"})
_SEQUENCE: Final = frozenset({"append", "extend", "insert"})
_MISSING: Final = re.compile(r"(?:argument|arguments|key|keys|and)\W{0,3}'(\w+)'")
_MISCOUNTED: Final = re.compile(r"^\w+\(\) takes \d+ positional arguments? but \d+ were given")
"""What torch says when it is given tensors where it wants numbers."""

_UNKNOWN: Final = object()
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


def by_scene(moves: Moves, proposer: Proposer) -> Iterator[Change]:
    """Yield changes for what the code wanted that raised, the innermost first."""
    yield from _missing_entries(moves, proposer)
    for depth, moment in enumerate(moves.outcome.moments[:_FRAMES]):
        scene = _Scene(moves, proposer, moment, depth)
        yield from scene.changes()


def absent_names(moments: tuple[Moment, ...]) -> Iterator[str]:
    """Yield the names which stand for None in the expressions that raised, and those for want of which these ran.

    The innermost come first.
    """
    for moment in moments[:_FRAMES]:
        for node in _expression_nodes(moment):
            for each in ast.walk(node):
                if isinstance(each, ast.Name) and moment.frame.f_locals.get(each.id, _UNKNOWN) is None:
                    yield each.id
    for moment in moments[:_FRAMES]:
        for node in nodes_around(moment.path, moment.source.span)[::-1]:
            for each in ast.walk(node.test) if isinstance(node, ast.If) else ():
                match each:
                    case ast.Compare(left=ast.Name(id=name), ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
                        if moment.frame.f_locals.get(name, _UNKNOWN) is None:
                            yield name
                    case _:
                        pass


def _missing_entries(moves: Moves, proposer: Proposer) -> Iterator[Change]:
    """Give dictionaries among the inputs what the code looked for and found None."""
    records = [(name, recipe) for name, recipe in moves.recipes.items() if isinstance(recipe, Record)]
    wanted = [*_MISSING.findall(str(moves.outcome.error)), *absent_names(moves.outcome.moments)] if records else []
    for cost, key in enumerate(dict.fromkeys(wanted)):
        for name, recipe in records:
            if key not in dict(recipe.items) and key not in moves.recipes:
                entry = proposer.named(key)[0]
                yield moves.put((name,), Record((*recipe.items, (key, entry))), 0.5 + 0.2 * cost)


class _Scene:
    """One frame of a failure."""

    def __init__(self, moves: Moves, proposer: Proposer, moment: Moment, depth: int) -> None:
        self.moves = moves
        self.proposer = proposer
        self.moment = moment
        self.cost = 0.1 * depth
        self.error = moves.outcome.error
        self.innermost = depth == 0

    def changes(self) -> Iterator[Change]:
        """Yield what may mend the failure."""
        around = list(_expression_nodes(self.moment))
        if self.innermost:
            for node in around:
                yield from self._used_as(node)
        if self.innermost and isinstance(
            self.error, AssertionError | ValueError | RuntimeError | TypeError | Exception
        ):
            for test, wanted in _conditions(self.moment):
                yield from self._fulfil(test, holds=wanted)
        if not self.innermost:
            for node in around:
                if isinstance(node, ast.Call):
                    yield from self._mistaken(node)

    def _used_as(self, node: ast.AST) -> Iterator[Change]:
        """Yield an input of the kind that an expression takes it for."""
        match node:
            case ast.Attribute(value=base, attr=name) if isinstance(self.error, AttributeError):
                yield from self._with_attribute(base, name)
            case ast.Call(func=function, keywords=keywords, args=arguments):
                value = self._value(function)
                place = self._place(value)
                if place is not None and "not callable" in str(self.error):
                    yield self.moves.put(place, Verbatim("torch.nn.Identity()"), self.cost + 0.2)
                if "must be a mapping" in str(self.error):
                    for keyword in keywords:
                        place = self._place(self._value(keyword.value)) if keyword.arg is None else None
                        if place is not None:
                            yield self.moves.put(place, Record(()), self.cost + 0.1)
                yield from self._sized(keywords, arguments)
                yield from self._mistaken(node)
            case ast.Subscript(value=base, slice=index):
                yield from self._indexed(base, index)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                yield from self._unpacked(value, len(targets))
            case ast.For(iter=value, target=target):
                yield from self._iterated(value, target)
            case _:
                pass

    def _with_attribute(self, base: ast.expr, name: str) -> Iterator[Change]:
        """The base of an attribute is not what it was taken for."""
        value = self._value(base)
        place = self._place(value)
        if place is None:
            place = self._constant_place(base)
        if place is None:
            return
        whole = self._recipe(place)
        if isinstance(whole, Structure):
            proposed = self.proposer.named(name)[0]
            yield self.moves.put(place, Structure((*whole.items, (name, proposed))), self.cost)
        elif name in _MAPPING and not isinstance(value, dict):
            yield self.moves.put(place, Record(()), self.cost + 0.1)
        elif name in _SEQUENCE and isinstance(whole, TensorRecipe):
            yield self.moves.put(place, Listing((whole,)), self.cost + 0.1)
            yield self.moves.put(place, Listing(()), self.cost + 0.2)
        elif isinstance(whole, Listing) and whole.items and hasattr(Tensor, name):
            yield self.moves.put(place, whole.items[0], self.cost + 0.2)
        elif isinstance(whole, Constant | Verbatim | Record) and hasattr(Tensor, name):
            for cost, proposed in enumerate(self.proposer.named(str(place[-1]))[:3]):
                yield self.moves.put(place, proposed, self.cost + 0.2 + 0.3 * cost)
        elif not hasattr(Tensor, name):
            proposed = self.proposer.named(name)[0]
            yield self.moves.put(place, Structure(((name, proposed),)), self.cost + 0.2)

    def _sized(self, keywords: list[ast.keyword], arguments: list[ast.expr]) -> Iterator[Change]:
        """``rearrange(x, "b (h w) c -> b h w c", **sizes)`` wants names that an empty dictionary does not have."""
        for keyword in keywords:
            value = self._value(keyword.value) if keyword.arg is None else None
            place = self._place(value)
            pattern = next((each.value for each in arguments if isinstance(each, ast.Constant)), "")
            if place is None or not isinstance(value, dict) or not isinstance(pattern, str):
                continue
            groups = [group for group in pattern.replace("->", " ").split("(")[1:] if ")" in group]
            names = [name for group in groups for name in group.partition(")")[0].split() if name not in value]
            length = self.moves.clues.lengths[0]
            side = max(1, round(length**0.5))
            whole = self._recipe(place)
            if names and isinstance(whole, Record):
                items = tuple((name, Constant(side)) for name in dict.fromkeys(names))
                yield self.moves.put(place, Record((*whole.items, *items)), self.cost + 0.1)

    def _mistaken(self, node: ast.Call) -> Iterator[Change]:
        """A tensor was given where Python or torch wants a number or several."""
        message = str(self.error)
        wants_number = isinstance(self.error, TypeError) and any(
            phrase in message
            for phrase in ("'int'", " int", "integer", "of ints", "(Number ", "must be real number", "iterable of")
        )
        miscounted = isinstance(self.error, TypeError) and _MISCOUNTED.search(message) is not None
        if not miscounted and not (wants_number and "ensor" in message):
            return
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            for each in ast.walk(argument):
                if not isinstance(each, ast.Name):
                    continue
                place = self._place(self._value(each))
                part = self._recipe(place) if place is not None else None
                if place is not None and isinstance(part, TensorRecipe):
                    number = self.proposer.number(str(place[-1]))
                    for cost, value in enumerate((number, (number, number), 4, 1)):
                        yield self.moves.put(place, Constant(value), self.cost + 0.3 + 0.2 * cost)

    def _indexed(self, base: ast.expr, index: ast.expr) -> Iterator[Change]:
        """A key is missing, or an index lies beyond the end."""
        value, key = self._value(base), self._value(index)
        place = self._place(value)
        whole = self._recipe(place) if place is not None else None
        if isinstance(key, str) and place is not None:
            proposed = self.proposer.named(key)
            known = whole.items if isinstance(whole, Record) else ()
            for cost, recipe in enumerate(proposed[:3]):
                yield self.moves.put(place, Record((*known, (key, recipe))), self.cost + 0.1 + 0.4 * cost)
        elif isinstance(key, int) and isinstance(whole, Listing) and whole.items:
            count = key + 1 if key >= 0 else -key
            if count > len(whole.items):
                longer = (*whole.items, *(whole.items[-1],) * (count - len(whole.items)))
                yield self.moves.put(place or (), Listing(longer, whole.type), self.cost + 0.1)
        elif isinstance(key, int) and isinstance(self.error, IndexError):
            if isinstance(whole, TensorRecipe) and place:
                yield self.moves.put(place, Listing((whole,) * (abs(key) + 1)), self.cost + 0.6)
            else:
                yield from self._beyond(base, value, key)

    def _beyond(self, base: ast.expr, value: Any, key: int) -> Iterator[Change]:
        """An index lies beyond the end of something that is no input: of a shape, or of what the model keeps."""
        if isinstance(value, Size):
            yield from self._of_higher_rank(base, value)
        elif isinstance(value, list | tuple):
            yield from self._lengthened(len(value), key)
            # Something of ours counts more than what is kept in a list.
            for ours, recipe in self.moves.tensors():
                for dimension, size in enumerate(recipe.shape):
                    if size > len(value) > 0 and dimension:
                        shape = (*recipe.shape[:dimension], len(value), *recipe.shape[dimension + 1 :])
                        yield self.moves.reshape(ours, shape, self.cost + 0.4)

    def _of_higher_rank(self, base: ast.expr, shape: Size) -> Iterator[Change]:
        """Give the tensor as many dimensions as the statement that failed looks at of its shape."""
        statement = next((each for each in _expression_nodes(self.moment) if isinstance(each, ast.stmt)), None)
        text = ast.unparse(base)
        seen = [
            self._value(each.slice)
            for each in ast.walk(statement or base)
            if isinstance(each, ast.Subscript) and ast.unparse(each.value) == text
        ]
        wanted = max((key + 1 for key in seen if isinstance(key, int)), default=0)
        places = frozenset(place for place, recipe in self.moves.tensors() if recipe.shape == tuple(shape))
        if wanted > len(shape):
            yield from self.moves.rerank(places or frozenset(self.moves.parts), len(shape), wanted, self.cost + 0.1)

    def _lengthened(self, count: int, key: int) -> Iterator[Change]:
        """Give lists of ours as many items as the code looks for, or as the model has layers in a row.

        A dictionary that has nothing in it gets as many pictures.
        """
        rows = {len(each) for each in self.moves.clues.modules.values() if isinstance(each, nn.ModuleList)}
        for name, recipe in self.moves.recipes.items():
            if isinstance(recipe, Record) and not recipe.items and count == 0:
                picture = self.proposer.named("image")[0]
                for cost, wanted in enumerate([*sorted(row for row in rows if row > key), max(key + 1, 1)]):
                    items = tuple((str(index), picture) for index in range(wanted))
                    yield self.moves.put((name,), Record(items), self.cost + 0.1 + 0.1 * cost)
            if isinstance(recipe, Listing) and len(recipe.items) == count > 0:
                for cost, wanted in enumerate([*sorted(row for row in rows if row > key), key + 1]):
                    longer = (*recipe.items, *(recipe.items[-1],) * (wanted - count))
                    yield self.moves.put((name,), Listing(longer, recipe.type), self.cost + 0.1 + 0.1 * cost)

    def _unpacked(self, value: ast.expr, count: int) -> Iterator[Change]:
        """So many values are wanted of an input, or of the shape of one."""
        base = value.value if isinstance(value, ast.Attribute) and value.attr == "shape" else None
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "size":
            base = value.func.value
        if base is not None:
            tensor = self._value(base)
            if isinstance(tensor, Tensor):
                yield from self.moves.rerank(self.moves.of(tensor), tensor.dim(), count, self.cost + 0.2)
            return
        place = self._place(self._value(value))
        if place is None:
            place = self._constant_place(value)
        whole = self._recipe(place) if place is not None else None
        if place is None or whole is None:
            return
        if isinstance(whole, Listing) and whole.items:
            items = (whole.items * count)[:count]
            yield self.moves.put(place, Listing(items, tuple), self.cost + 0.1)
        else:
            yield self.moves.put(place, Listing((whole,) * count, tuple), self.cost + 0.3)
        if isinstance(whole, Constant) and isinstance(whole.value, tuple) and 2 <= len(whole.value) != count > 2:
            sizes = (*whole.value[:2], *(whole.value[-1],) * (count - 2))  # A shape: so many dimensions in space.
            yield self.moves.put(place, Constant(sizes), self.cost)
        number = self.proposer.number(str(place[-1]))
        yield self.moves.put(place, Constant((number or 1,) * count), self.cost + 0.4)

    def _iterated(self, value: ast.expr, target: ast.expr) -> Iterator[Change]:
        """The items of an input do not unpack, or it has none."""
        place = self._place(self._value(value))
        whole = self._recipe(place) if place is not None else None
        if place is None:
            return
        count = len(target.elts) if isinstance(target, ast.Tuple) else 1
        if isinstance(whole, TensorRecipe) and count > 1:
            yield self.moves.put(place, Constant([(1, 4, 4)[-count:]] * 2), self.cost + 0.4)
            yield self.moves.put(place, Listing((Listing((whole,) * count, tuple),)), self.cost + 0.6)
        elif isinstance(whole, Constant):
            yield self.moves.put(place, Constant((whole.value,) * 2), self.cost + 0.3)

    def _fulfil(self, test: ast.expr, *, holds: bool) -> Iterator[Change]:
        """Make a condition hold, or not hold."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield from self._fulfil(operand, holds=not holds)
            case ast.BoolOp(op=operator, values=values):
                for value in values:
                    if _truth(self._value(value)) is not holds or isinstance(operator, ast.Or) is holds:
                        yield from self._fulfil(value, holds=holds)
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                kind = type(operator) if holds else _NEGATED.get(type(operator))
                if kind is not None:
                    yield from self._compare(left, kind, right)
            case ast.Compare(left=left, ops=operators, comparators=comparators) if holds:
                for one, operator, other in zip((left, *comparators), operators, comparators, strict=False):
                    yield from self._compare(one, type(operator), other)
            case ast.Call(func=ast.Name(id="isinstance"), args=[value, kinds]):
                yield from self._of_type(value, kinds, holds=holds)
            case _:
                yield from self._truth(test, holds=holds)

    def _truth(self, test: ast.expr, *, holds: bool) -> Iterator[Change]:
        """Something should be there, or not: ``assert mask``, ``exists(labels)``."""
        for node in ast.walk(test):
            if isinstance(node, ast.Name):
                place = self._constant_place(node)
                part = self.moves.parts.get(place) if place is not None else None
                if place is not None and isinstance(part, Constant) and isinstance(part.value, bool):
                    yield self.moves.put(place, Constant(holds), self.cost + 0.2)

    def _compare(self, left: ast.expr, kind: type[ast.cmpop], right: ast.expr) -> Iterator[Change]:
        a, b = self._value(left), self._value(right)
        if kind is ast.In and isinstance(b, tuple | list | set | dict):
            place = self._constant_place(left)
            for cost, option in enumerate(list(b)[:4]):
                if place is not None and isinstance(option, str | int | float | bool):
                    yield self.moves.put(place, Constant(option), self.cost + 0.1 + 0.1 * cost)
            for option in list(b)[:4]:
                if type(a) is int and type(option) is int:
                    yield from self._number(left, a, option)
        elif kind is ast.Eq:
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

    def _equal(self, expression: ast.expr, value: Any, wanted: Any) -> Iterator[Change]:
        """Bring what an expression gives to a value."""
        if isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.Mod) and wanted == 0:
            factor, size = self._value(expression.right), self._value(expression.left)
            if type(factor) is int and type(size) is int:
                yield from self._number(expression.left, size, -(-size // factor) * factor if factor else size)
                yield from self.moves.multiple(factor, self.cost + 0.5)
        elif type(value) is int and type(wanted) is int and value != wanted:
            yield from self._number(expression, value, wanted)
        elif isinstance(value, tuple | list) and isinstance(wanted, tuple | list):
            yield from self._sizes(expression, list(value), list(wanted))
        elif isinstance(wanted, str):
            place = self._constant_place(expression)
            if place is not None:
                yield self.moves.put(place, Constant(wanted), self.cost + 0.1)

    def _sizes(self, expression: ast.expr, given: list[Any], wanted: list[Any]) -> Iterator[Change]:
        """Bring a shape, or a part of one, to another."""
        if len(given) != len(wanted) and all(type(size) is int for size in wanted):
            for place, _ in self.moves.among(self._places(expression)):
                yield self.moves.reshape(place, wanted, self.cost + 0.2)
        for got, size in zip(given, wanted, strict=False):
            if type(got) is int and type(size) is int and got != size:
                yield from self._number(expression, got, size)

    def _number(self, expression: ast.expr, got: int, wanted: int) -> Iterator[Change]:
        """Bring a number that comes from the inputs, a rank or a size or one of them itself, to another."""
        place = self._constant_place(expression)
        if place is not None:
            yield self.moves.put(place, Constant(wanted), self.cost + 0.1)
        places = self._places(expression)
        text = ast.unparse(expression)
        if "ndim" in text or ".dim()" in text or ("len(" in text and "shape" in text):
            yield from self.moves.rerank(places or frozenset(self.moves.parts), got, wanted, self.cost + 0.2)
            return
        if text.startswith("len("):
            for each in places:
                whole = self._recipe(each[:1])
                if isinstance(whole, Listing) and whole.items and 0 < wanted <= 64:
                    items = (whole.items * wanted)[:wanted]
                    yield self.moves.put(each[:1], Listing(items, whole.type), self.cost + 0.1)
        if got > 0 and wanted > 0:
            named = places or frozenset(each for each, recipe in self.moves.tensors() if got in recipe.shape)
            yield from self.moves.resize(named or frozenset(self.moves.parts), got, wanted, self.cost + 0.2)

    def _of_type(self, value: ast.expr, kinds: ast.expr, *, holds: bool) -> Iterator[Change]:
        """``isinstance(x, dict)`` should be true, or not."""
        place = self._place(self._value(value))
        if place is None:
            place = self._constant_place(value)
        whole = self._recipe(place) if place is not None else None
        if place is None or whole is None or not holds:
            return
        names = {node.id for node in ast.walk(kinds) if isinstance(node, ast.Name)} | {
            node.attr for node in ast.walk(kinds) if isinstance(node, ast.Attribute)
        }
        number = self.proposer.number(str(place[-1]))
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
            ("Tensor", lambda: self.proposer.named(str(place[-1]))[0]),
        ]
        for cost, (name, make) in enumerate(options):
            if name in names:
                yield self.moves.put(place, make(), self.cost + 0.2 + 0.1 * cost)

    def _places(self, expression: ast.expr) -> frozenset[Place]:
        """Return which inputs the tensors are computed from that an expression names."""
        found: frozenset[Place] = frozenset()
        for node in ast.walk(expression):
            if isinstance(node, ast.Name | ast.Attribute):
                value = self._value(node)
                if isinstance(value, Tensor | list | tuple | dict):
                    found |= self.moves.of(value)
        return found

    def _place(self, value: Any) -> Place | None:
        return self.moves.is_input(value) if value is not _UNKNOWN else None

    def _constant_place(self, expression: ast.expr) -> Place | None:
        """Return the place of an input that is a number or such, if an expression is the name of one."""
        if not isinstance(expression, ast.Name):
            return None
        part = self.moves.parts.get((expression.id,))
        if isinstance(part, Constant) and self._value(expression) == part.value:
            return (expression.id,)
        return None

    def _recipe(self, place: Place) -> Recipe | None:
        """Return the recipe at a place, whole."""
        if not place:
            return None
        recipe: Recipe | None = self.moves.recipes.get(str(place[0]))
        for key in place[1:]:
            match recipe:
                case Listing():
                    recipe = recipe.items[int(key)] if int(key) < len(recipe.items) else None
                case Record() | Structure():
                    recipe = dict(recipe.items).get(str(key))
                case _:
                    return None
        return recipe

    def _value(self, expression: ast.expr) -> Any:
        """Return what an expression of names, attributes, items, sizes and arithmetic stands for."""
        if not _is_harmless(expression):
            return _UNKNOWN
        frame = self.moment.frame
        with contextlib.suppress(Exception):
            code = compile(ast.Expression(expression), "<condition>", "eval")
            return eval(code, frame.f_globals, {**frame.f_locals})  # noqa: S307 - reads only; see `_is_harmless`.
        return _UNKNOWN


_READS: Final = (
    ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.List, ast.Set,
    ast.Slice, ast.operator, ast.unaryop, ast.expr_context, ast.Compare, ast.cmpop, ast.BoolOp, ast.boolop,
)  # fmt: skip
_HARMLESS_CALLS: Final = frozenset(
    {"len", "size", "dim", "min", "max", "tuple", "list", "int", "isinstance", "numel", "set"}
)


def _truth(value: Any) -> bool | None:
    """Return whether a value counts as true, None where it does not say: a tensor of several numbers, say."""
    try:
        return bool(value)
    except Exception:  # noqa: BLE001 - the value is the user's, and may raise anything.
        return None


def _is_harmless(expression: ast.expr) -> bool:
    """Whether evaluating an expression again does nothing but read."""
    for node in ast.walk(expression):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if name not in _HARMLESS_CALLS:
                return False
        elif not isinstance(node, _READS):
            return False
    return True


def _expression_nodes(moment: Moment) -> Iterator[ast.AST]:
    """Yield the expression that a frame was evaluating, and the statement that it stands in."""
    around = nodes_around(moment.path, moment.source.span)[::-1]
    expression = next((node for node in around if isinstance(node, ast.expr)), None)
    statement = next((node for node in around if isinstance(node, ast.stmt)), None)
    if expression is not None:
        yield expression
    if isinstance(statement, ast.Assign | ast.For | ast.Return):
        yield statement


def _conditions(moment: Moment) -> Iterator[tuple[ast.expr, bool]]:
    """Yield the conditions under which a frame raised, the nearest first, each with what it should have been."""
    around = nodes_around(moment.path, moment.source.span)[::-1]
    raised: ast.AST | None = None
    for node in around:
        match node:
            case ast.Assert(test=test):
                yield test, True
            case ast.Raise():
                raised = node
            case ast.If(test=test, body=body) if raised is not None:
                yield test, not any(raised is each or raised in ast.walk(each) for each in body)
            case ast.FunctionDef() | ast.Lambda():
                return
            case _:
                pass

"""What the Python code around a failure says: the expression that raised, the condition that did not hold.

torch's message tells what a kernel wanted. What *code* wanted stands in the code: that a value was called, indexed by a
key or unpacked, or that ``x.shape[1] % self.patch == 0`` was asserted. The frames of the failed trial still have their
variables, so what was used can be evaluated (``frames``), as can the parts of a condition (``conditions``).
"""

import ast
import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final

from torch import Size, Tensor, nn

from fxengine.classification import Moment
from fxengine.inputs.absences import is_nothing, missing_names, unbound_name
from fxengine.inputs.annotations import of_one
from fxengine.inputs.choosing import TABLES, chosen
from fxengine.inputs.clues import BATCH
from fxengine.inputs.conditions import Conditions, conditions, conditions_of, expression_nodes, function_around
from fxengine.inputs.entries import missing_entries, missing_parts
from fxengine.inputs.frames import Frame
from fxengine.inputs.moves import Change, Moves
from fxengine.inputs.proposals import SENTENCES, Proposer
from fxengine.inputs.reading import starred_part
from fxengine.inputs.recipes import (
    Arguments,
    Constant,
    Keyed,
    Listing,
    Place,
    Recipe,
    Record,
    Structure,
    TensorRecipe,
    Verbatim,
)
from fxengine.syntax import nodes_around

__all__ = ["by_scene"]

_FRAMES: Final = 6
"""How many frames are looked at, from the innermost outwards."""

_MAPPING: Final = frozenset({"get", "items", "keys", "values", "update", "pop", "setdefault"})
_SEQUENCE: Final = frozenset({"append", "copy", "extend", "insert", "reverse"})
_OF_TEXTS: Final = frozenset(vars(str)) - frozenset(dir(Tensor)) - frozenset(vars(list)) - frozenset(vars(dict))
_OF_DISTRIBUTIONS: Final = frozenset({"log_prob", "rsample", "cdf", "icdf", "entropy", "perplexity"})
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_BESIDE: Final = 0.15
"""What the frame costs at most that a comprehension stands in, which has a frame of its own or not."""

_IDENTITY: Final = "torch.nn.Identity()"
_LAYER: Final = "torch.nn.Linear(8, 8)"
"""What is given for a model that is looked into."""

_FIRST: Final = "(lambda first, *_others, **_named: first)"
"""What is given for a function: what returns its argument, and the first of several."""

_OF_PICTURES: Final = 4
_SEVERAL: Final = 3
"""How many dimensions pictures have, and how many there are in a list of which nobody knows how long it is."""

_MISCOUNTED: Final = re.compile(r"^\w+\(\) takes \d+ positional arguments? but \d+ were given")
"""What torch says when it is given tensors where it wants numbers."""

_AS_A_WHOLE: Final = re.compile(r"must be (?:tuple|list) of Tensors, not Tensor")


def by_scene(moves: Moves, proposer: Proposer) -> Iterator[Change]:
    """Yield changes for what the code wanted that raised, the innermost first."""
    yield from missing_entries(moves, proposer)
    yield from missing_parts(moves, proposer)
    for depth, moment in enumerate(moves.outcome.moments[:_FRAMES]):
        scene = _Scene(moves, proposer, moment, depth)
        yield from scene.changes()


class _Scene:
    """One frame of a failure."""

    def __init__(self, moves: Moves, proposer: Proposer, moment: Moment, depth: int) -> None:
        self.moves = moves
        self.proposer = proposer
        self.moment = moment
        self.frame = Frame(moves, moment)
        self.cost = 0.1 * depth
        self.error = moves.outcome.error
        self.innermost = depth == 0

    def changes(self) -> Iterator[Change]:
        """Yield what may mend the failure."""
        around = list(expression_nodes(self.moment))
        wishes = Conditions(self.frame, self.proposer, self.cost)
        if self.innermost:
            for node in around:
                yield from self._used_as(node)
            for test, wanted in (*conditions(self.moment), *self._bound()):
                yield from wishes.fulfil(test, holds=wanted)
        if "to unpack" in str(self.error) and self.cost < _BESIDE:
            yield from self._comprehended()
        for node in around:
            match node:
                case ast.Call(args=[ast.Compare() as test, *_]):  # A check of its own: `_assert(length == h * w)`.
                    yield from wishes.fulfil(test, holds=True)
                case ast.Call(args=[ast.Name() as test, *_]) if self.frame.value(test) is False:
                    yield from wishes.fulfil(test, holds=True)
                case ast.Call() if not self.innermost:
                    yield from self._mistaken(node)
                case _:
                    pass

    def _bound(self) -> Iterator[tuple[ast.expr, bool]]:
        """Yield the conditions under which a name would have a value that has none."""
        unbound = unbound_name(self.error)
        if unbound:
            yield from ((test, True) for test in conditions_of(unbound, self.moment))

    def _used_as(self, node: ast.AST) -> Iterator[Change]:
        """Yield an input of the kind that an expression takes it for."""
        match node:
            case ast.Attribute(value=base, attr=name) if isinstance(self.error, AttributeError):
                yield from self._with_attribute(base, name)
            case ast.Call(func=function, keywords=keywords, args=arguments):
                yield from self._called(function)
                for keyword in keywords if "must be a mapping" in str(self.error) else ():
                    place = self.frame.place(self.frame.value(keyword.value)) if keyword.arg is None else None
                    if place is not None:
                        yield self.moves.put(place, Record(()), self.cost + 0.1)
                yield from self._sized(keywords, arguments)
                yield from self._joined(arguments)
                yield from self._handed_on(arguments)
                yield from self._mistaken(node)
                yield from self._given_for_tensor(node)
            case ast.Subscript(value=base) if "step must be" in str(self.error):
                yield from self._turned(base)
            case ast.Subscript(value=base, slice=index):
                yield from self._indexed(base, index)
            case ast.Compare(left=key, ops=[ast.In() | ast.NotIn()], comparators=[whole]):
                yield from self._searched(key, whole)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                yield from self._unpacked(*starred_part(value, targets))
            case ast.For(iter=value, target=target):
                yield from self._iterated(value, target)
            case _:
                pass

    def _called(self, function: ast.expr) -> Iterator[Change]:
        """An input was called that is no function, or one of other arguments."""
        place = self.frame.place(self.frame.value(function))
        if place is None and isinstance(function, ast.Attribute) and self.frame.value(function) is None:
            owner = self.frame.place(self.frame.value(function.value))  # A tensor has something of that name: `grad`.
            if owner is not None and isinstance(self.frame.recipe(owner), TensorRecipe):
                yield self.moves.put(owner, Structure(((function.attr, Verbatim(_FIRST)),)), self.cost + 0.1)
        if place is None:
            return
        given, message = self.frame.recipe(place), str(self.error)
        if "not callable" in message:
            yield self.moves.put(place, Verbatim(_IDENTITY), self.cost + 0.2)
        elif isinstance(given, Verbatim) and given.source == _IDENTITY and "argument" in message:
            yield self.moves.put(place, Verbatim(_FIRST), self.cost + 0.1)

    def _with_attribute(self, base: ast.expr, name: str) -> Iterator[Change]:  # noqa: C901 - a table of kinds.
        """The base of an attribute is not what it was taken for."""
        value = self.frame.value(base)
        place = self._origin(base, value)
        if place is None:
            return
        whole = self.frame.recipe(place)
        if isinstance(whole, Structure) and whole.takes(name):
            parts = self.proposer.parts(str(place[-1]), [name], dict(whole.items))
            yield self.moves.put(place, replace(whole, items=(*whole.items, *parts)), self.cost)
        elif name in _MAPPING and not isinstance(value, dict):
            yield self.moves.put(place, Record(()), self.cost + 0.1)
        elif name in _OF_TEXTS and isinstance(whole, TensorRecipe):
            yield self._texts(place, whole, value)
        elif name in _SEQUENCE and isinstance(whole, TensorRecipe):
            yield self.moves.put(place, Listing((whole,)), self.cost + 0.1)
            yield self.moves.put(place, Listing(()), self.cost + 0.2)
            yield self.moves.put(place, Listing((whole, whole)), self.cost + 0.3)
        elif isinstance(whole, Listing) and whole.items and hasattr(Tensor, name):
            yield self.moves.put(place, whole.items[0], self.cost + 0.2)
        elif isinstance(whole, Constant | Verbatim | Record) and hasattr(Tensor, name):
            yield from self._as_tensor(place, whole)
        elif hasattr(nn.Module, name) and not hasattr(Tensor, name):
            yield self.moves.put(place, Verbatim(_LAYER), self.cost + 0.1)
        elif name in _OF_DISTRIBUTIONS and isinstance(whole, TensorRecipe):
            shape = ", ".join(map(str, self._shape_beside(place, whole)))
            source = f"torch.distributions.Normal(torch.zeros({shape}), torch.ones({shape}))"
            yield self.moves.put(place, Verbatim(source), self.cost + 0.1)
        elif not hasattr(Tensor, name):
            proposed = self.proposer.named(name)[0]
            if isinstance(whole, Record) and whole.items:
                yield from self._keyed(place, whole, [name])
            if isinstance(whole, TensorRecipe) and isinstance(value, Tensor) and value.dim() == len(whole.shape) - 1:
                yield self.moves.put(place, Listing((self._with_all(base),) * BATCH), self.cost + 0.1)
            yield self.moves.put(place, Structure(((name, proposed),)), self.cost + 0.2)

    def _as_tensor(self, place: Place, whole: Recipe) -> Iterator[Change]:
        """Put what an input is by its name in the place of what it was taken for."""
        proposed = [each for each in self.proposer.named(str(place[-1])) if each != whole]
        for cost, each in enumerate(proposed[:3]):
            yield self.moves.put(place, each, self.cost + 0.2 + 0.3 * cost)

    def _given_for_tensor(self, node: ast.Call) -> Iterator[Change]:
        """An input is no tensor, whatever its annotation says, where torch wants one: `clip(bbox, 0, 1)`."""
        if not isinstance(self.error, TypeError) or "Tensor" not in str(self.error):
            return
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            value = self.frame.value(argument)
            place = self.frame.place(value)
            whole = self.frame.recipe(place) if place is not None else None
            if place is not None and isinstance(whole, Record | Structure):
                yield from self._as_tensor(place, whole)

    def _shape_beside(self, place: Place, whole: TensorRecipe) -> tuple[int, ...]:
        """Return the shape of another tensor among the inputs, which a distribution is asked about; its own if none."""
        others = [recipe for other, recipe in self.moves.tensors() if other != place and recipe.shape]
        return others[0].shape if others else whole.shape

    def _with_all(self, base: ast.expr) -> Structure:
        """Return an object with all that the function reads of an expression and a tensor does not have."""
        text, function = ast.unparse(base), function_around(self.moment)
        names = dict.fromkeys(
            each.attr
            for each in (ast.walk(function) if function is not None else ())
            if isinstance(each, ast.Attribute) and not hasattr(Tensor, each.attr) and ast.unparse(each.value) == text
        )
        return Structure(tuple((name, self.proposer.named(name)[0]) for name in names))

    def _texts(self, place: Place, whole: TensorRecipe, value: Any) -> Change:
        """Make an input a text, or several where one of its items is taken for one."""
        is_item = isinstance(value, Tensor) and value.dim() < len(whole.shape)
        return self.moves.put(place, Constant(list(SENTENCES) if is_item else SENTENCES[0]), self.cost + 0.1)

    def _origin(self, base: ast.expr, value: Any) -> Place | None:
        """Return the place of the input that a value is, or that a layer made it of, which would leave an object."""
        place = self.frame.place(value)
        if place is None:
            place = self.frame.constant_place(base)
        made_of = self.moves.of(value) if place is None and isinstance(value, Tensor) else ()
        return next(iter(made_of)) if len(made_of) == 1 else place

    def _sized(self, keywords: list[ast.keyword], arguments: list[ast.expr]) -> Iterator[Change]:
        """``rearrange(x, "b (h w) c -> b h w c", **sizes)`` wants names that an empty dictionary does not have."""
        for keyword in keywords:
            value = self.frame.value(keyword.value) if keyword.arg is None else None
            place = self.frame.place(value)
            pattern = next((each.value for each in arguments if isinstance(each, ast.Constant)), "")
            if place is None or not isinstance(value, dict) or not isinstance(pattern, str):
                continue
            groups = [group for group in pattern.replace("->", " ").split("(")[1:] if ")" in group]
            names = [name for group in groups for name in group.partition(")")[0].split() if name not in value]
            length = self.moves.clues.lengths[0]
            side = max(1, round(length**0.5))
            whole = self.frame.recipe(place)
            if names and isinstance(whole, Record):
                items = tuple((name, Constant(side)) for name in dict.fromkeys(names))
                yield self.moves.put(place, Record((*whole.items, *items)), self.cost + 0.1)

    def _joined(self, arguments: list[ast.expr]) -> Iterator[Change]:
        """What is to be joined was given as a whole: ``torch.cat(targets["forces"])``."""
        for argument in arguments if _AS_A_WHOLE.search(str(self.error)) else ():
            place = self.frame.place(self.frame.value(argument))
            whole = self.frame.recipe(place) if place is not None else None
            if place is not None and isinstance(whole, TensorRecipe):
                yield self.moves.put(place, Listing((whole, whole)), self.cost)

    def _handed_on(self, arguments: list[ast.expr]) -> Iterator[Change]:
        """``self.inner(x, *args)`` lacks what `inner` calls `mask` and `labels`."""
        moments = self.moves.outcome.moments
        missing = missing_names(moments, self.error)
        for argument in arguments if missing and self.moment is moments[-1] else ():
            match argument:
                case ast.Starred(value=ast.Name(id=name) as spread) if is_nothing(self.frame.value(spread)):
                    items = tuple(self.proposer.named(each)[0] for each in missing)
                    yield self.moves.put((name,), Listing(items, Arguments), self.cost)
                case _:
                    pass

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
                place = self.frame.place(self.frame.value(each))
                part = self.frame.recipe(place) if place is not None else None
                if place is not None and isinstance(part, TensorRecipe):
                    number = self.proposer.number(str(place[-1]))
                    for cost, value in enumerate((number, (number, number), 4, 1)):
                        yield self.moves.put(place, Constant(value), self.cost + 0.3 + 0.2 * cost)

    def _searched(self, key: ast.expr, whole: ast.expr) -> Iterator[Change]:
        """A name was looked for in a tensor: what has names is a dictionary, with or without this one."""
        name, table = self.frame.value(key), self.frame.value(whole)
        place = self.frame.place(table)
        if isinstance(name, str) and isinstance(table, Tensor) and place is not None:
            yield self.moves.put(place, Record(()), self.cost + 0.1)
            yield self.moves.put(place, Record(((name, self.proposer.named(name)[0]),)), self.cost + 0.2)
        given = self.frame.recipe(place) if place is not None else None
        if isinstance(name, str) and place is not None and isinstance(given, Structure):
            yield from self._keyed(place, given, ())

    def _turned(self, base: ast.expr) -> Iterator[Change]:
        """``skips[::-1]`` is the other order of a list: tensors have none such."""
        place = self.frame.place(self.frame.value(base))
        whole = self.frame.recipe(place) if place is not None else None
        if place is None or not isinstance(whole, TensorRecipe):
            return
        yield self.moves.put(place, Listing((whole,) * _SEVERAL), self.cost + 0.1)
        if len(whole.shape) == _OF_PICTURES:
            smaller = tuple(
                whole.with_shape((*whole.shape[:2], *(max(1, side >> level) for side in whole.shape[2:])))
                for level in range(_SEVERAL)
            )
            yield self.moves.put(place, Listing(smaller), self.cost + 0.2)

    def _indexed(self, base: ast.expr, index: ast.expr) -> Iterator[Change]:
        """A key is missing, or an index lies beyond the end."""
        value, key = self.frame.value(base), self.frame.value(index)
        place = self.frame.place(value)
        whole = self.frame.recipe(place) if place is not None else None
        if place is None and isinstance(value, TABLES) and isinstance(self.error, KeyError | TypeError):
            yield from chosen(self.frame, index, value, self.cost)
        elif isinstance(key, str) and place is not None:
            yield from self._looked_up(base, key, place, whole)
        elif isinstance(whole, Record) and place is not None and _is_of_dimensions(key):
            yield from self._as_tensor(place, whole)
        elif isinstance(key, str) and isinstance(value, Tensor):
            yield from self._looked_up_in_items(base, value)
        elif isinstance(key, int) and isinstance(whole, Listing) and whole.items:
            count = self._items_read(base, key)
            if count > len(whole.items):
                longer = (*whole.items, *(whole.items[-1],) * (count - len(whole.items)))
                yield self.moves.put(place or (), Listing(longer, whole.type), self.cost + 0.1)
        elif isinstance(key, int) and isinstance(self.error, IndexError):
            # One of ours that is alone in a list has the place of that list.
            if isinstance(whole, TensorRecipe) and place and not isinstance(value, list | tuple):
                yield self.moves.put(place, Listing((whole,) * self._items_read(base, key)), self.cost + 0.6)
            else:
                yield from self._beyond(base, value, key)

    def _items_read(self, base: ast.expr, key: int) -> int:
        """Return how many items there have to be for an index, and for the others that the function reads by number."""
        text = ast.unparse(base)
        read = [
            each.slice.value
            for each in ast.walk(function_around(self.moment) or base)
            if isinstance(each, ast.Subscript)
            and isinstance(each.slice, ast.Constant)
            and isinstance(each.slice.value, int)
            and ast.unparse(each.value) == text
        ]
        return max(key + 1 if key >= 0 else -key, *(each + 1 for each in read), 1)

    def _looked_up(self, base: ast.expr, key: str, place: Place, whole: Recipe | None) -> Iterator[Change]:
        """An input is a dictionary with a key, or an object that is looked into as one."""
        if isinstance(whole, Structure):
            yield from self._keyed(place, whole, self._keys(base))
            return
        known = whole.items if isinstance(whole, Record) else ()
        others = [each for each in self._keys(base) if each not in dict(known)]
        if len(others) > 1:
            items = tuple((each, self.proposer.named(each)[0]) for each in others)
            yield self.moves.put(place, Record((*known, *items)), self.cost + 0.05)
        for cost, recipe in enumerate(self.proposer.named(key)[:3]):
            yield self.moves.put(place, Record((*known, (key, recipe))), self.cost + 0.1 + 0.4 * cost)

    def _keyed(self, place: Place, whole: Structure | Record, names: Collection[str]) -> Iterator[Change]:
        """An input is read by attributes and by keys, as what holds the data of a graph."""
        known, kind = dict(whole.items), getattr(whole, "type", Keyed)
        if kind in {SimpleNamespace, Keyed} and all(map(str.isidentifier, known)):
            parts = self.proposer.parts(str(place[-1]), [each for each in names if each not in known], known)
            yield self.moves.put(place, Structure((*whole.items, *parts), whole.because, Keyed), self.cost)

    def _looked_up_in_items(self, base: ast.expr, item: Tensor) -> Iterator[Change]:
        """The items of an input are dictionaries: ``[each["boxes"] for each in targets]``, ``targets[0]["boxes"]``."""
        whole = self.frame.value(base.value) if isinstance(base, ast.Subscript) else item
        for place, recipe in self.moves.among(self.moves.of(whole)):
            if item.dim() == len(recipe.shape) - 1:
                entries = tuple((key, of_one(self.proposer.named(key)[0])) for key in self._keys(base))
                yield self.moves.put(place, Listing((Record(entries),) * BATCH), self.cost + 0.1)

    def _keys(self, base: ast.expr) -> list[str]:
        """Return all keys by which the function looks something up in an expression."""
        text, function = ast.unparse(base), function_around(self.moment)
        keys = dict.fromkeys(
            each.slice.value
            for each in (ast.walk(function) if function is not None else ())
            if isinstance(each, ast.Subscript)
            and isinstance(each.slice, ast.Constant)
            and isinstance(each.slice.value, str)
            and isinstance(each.ctx, ast.Load)
            and ast.unparse(each.value) == text
        )
        return list(keys)

    def _beyond(self, base: ast.expr, value: Any, key: int) -> Iterator[Change]:
        """An index lies beyond the end of something that is no input: of a shape, or of what the model keeps."""
        if isinstance(value, Size):
            yield from self._of_higher_rank(base, value)
        elif isinstance(value, list | tuple | nn.ModuleList | nn.ParameterList):
            yield from self._lengthened([*value], key)
            # Something of ours counts more than what is kept in a list.
            for ours, recipe in self.moves.tensors():
                for dimension, size in enumerate(recipe.shape):
                    if size > len(value) > 0 and dimension:
                        shape = (*recipe.shape[:dimension], len(value), *recipe.shape[dimension + 1 :])
                        yield self.moves.reshape(ours, shape, self.cost + 0.4)

    def _of_higher_rank(self, base: ast.expr, shape: Size) -> Iterator[Change]:
        """Give the tensor as many dimensions as the statement that failed looks at of its shape."""
        statement = next((each for each in expression_nodes(self.moment) if isinstance(each, ast.stmt)), None)
        text = ast.unparse(base)
        seen = [
            self.frame.value(each.slice)
            for each in ast.walk(statement or base)
            if isinstance(each, ast.Subscript) and ast.unparse(each.value) == text
        ]
        wanted = max((key + 1 for key in seen if isinstance(key, int)), default=0)
        places = frozenset(place for place, recipe in self.moves.tensors() if recipe.shape == tuple(shape))
        if wanted > len(shape):
            yield from self.moves.rerank(places or frozenset(self.moves.parts), len(shape), wanted, self.cost + 0.1)

    def _lengthened(self, listed: Collection[Any], key: int) -> Iterator[Change]:
        """Give lists of ours as many items as the code looks for, or as the model has layers in a row.

        It may look for them among those that it has left. A dictionary that has nothing in it gets as many pictures.
        """
        count = len(listed)
        rows = {len(each) for each in self.moves.clues.modules.values() if isinstance(each, nn.ModuleList)}
        for name, recipe in self.moves.recipes.items():
            if isinstance(recipe, Record) and not recipe.items and count == 0:
                picture = self.proposer.named("image")[0]
                for cost, wanted in enumerate([*sorted(row for row in rows if row > key), max(key + 1, 1)]):
                    items = tuple((str(index), picture) for index in range(wanted))
                    yield self.moves.put((name,), Record(items), self.cost + 0.1 + 0.1 * cost)
            others = len(recipe.items) - count if isinstance(recipe, Listing) else 0
            is_left = others > 0 and all(self._is_of(name, each) for each in listed)
            if isinstance(recipe, Listing) and recipe.items and (is_left or len(recipe.items) == count):
                for cost, wanted in enumerate([*sorted(row for row in rows if row > key), key + 1]):
                    longer = (*recipe.items, *(recipe.items[-1],) * (wanted - count))
                    yield self.moves.put((name,), Listing(longer, recipe.type), self.cost + 0.1 + 0.1 * cost)

    def _is_of(self, name: str, value: Any) -> bool:
        """Whether a value is an input, or a part of one, of a name."""
        place = self.frame.place(value)
        return place is not None and place[0] == name

    def _unpacked(self, value: ast.expr, targets: list[ast.expr]) -> Iterator[Change]:
        """So many values are wanted of an input, or of the shape of one."""
        base, passed = _measured(value)
        count = len(targets) + passed
        yield from self._taken_apart(value, count)
        if base is not None:
            tensor = self.frame.value(base)
            if isinstance(tensor, Tensor):
                yield from self._of_axes(tensor, targets)
                yield from self.moves.rerank(self.moves.of(tensor), tensor.dim(), count, self.cost + 0.2)
            return
        place = self.frame.place(self.frame.value(value))
        if place is None:
            place = self.frame.constant_place(value)
        whole = self.frame.recipe(place) if place is not None else None
        if place is None or whole is None:
            return
        called = [self.proposer.by_name(each.id) if isinstance(each, ast.Name) else () for each in targets]
        if not isinstance(whole, Constant) and any(called):
            one = whole.items[0] if isinstance(whole, Listing) and whole.items else whole
            items = tuple(known[0] if known else one for known in called)
            yield self.moves.put(place, Listing(items, tuple), self.cost + 0.05)
        if isinstance(whole, Listing) and whole.items:
            items = (whole.items * count)[:count]
            yield self.moves.put(
                place, Listing(items, Arguments if whole.type is Arguments else tuple), self.cost + 0.1
            )
        elif isinstance(whole, Constant) and isinstance(whole.value, tuple | list):
            yield from self._of_sizes(place, whole.value, count)
        else:
            yield self.moves.put(place, Listing((whole,) * count, tuple), self.cost + 0.3)
        number = self.proposer.number(str(place[-1]))
        yield self.moves.put(place, Constant((number or 1,) * count), self.cost + 0.4)

    def _taken_apart(self, value: ast.expr, count: int) -> Iterator[Change]:
        """Yield inputs of which a dimension has as many parts as are wanted: ``w, x, y, z = q.unbind(-1)``."""
        match value:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="unbind"), args=[whole, *rest]):
                pass
            case ast.Call(func=ast.Attribute(value=whole, attr="unbind"), args=rest):
                pass
            case _:
                return
        tensor = self.frame.value(whole)
        given = [*rest, *(each.value for each in value.keywords)]
        dimension = self.frame.value(given[0]) if given else 0
        if isinstance(tensor, Tensor) and type(dimension) is int and -tensor.dim() <= dimension < tensor.dim():
            yield from self.moves.resize(self.moves.of(tensor), tensor.shape[dimension], count, self.cost)

    def _of_axes(self, tensor: Tensor, targets: list[ast.expr]) -> Iterator[Change]:
        """Yield an input of the sizes that its axes are called after: ``batch, nodes, features, steps = x.shape``."""
        names = [each.id for each in targets if isinstance(each, ast.Name) and each.id.strip("_")]
        place = self.frame.place(tensor) if len(names) == len(targets) else None
        if place is not None:
            clues = self.moves.clues
            shape = clues.shape_of_pattern(" ".join(names), clues.widths[0])
            yield self.moves.reshape(place, shape, self.cost + 0.1)

    def _of_sizes(self, place: Place, sizes: tuple[Any, ...] | list[Any], count: int) -> Iterator[Change]:
        """So many sizes are wanted: with one frame more of the same picture, or a shape of so many dimensions."""
        kind = type(sizes)
        if self.proposer.in_tokens and len(sizes) < count:
            yield self.moves.put(place, Constant(kind((*(1,) * (count - len(sizes)), *sizes))), self.cost)
        elif 2 <= len(sizes) != count > 2:
            yield self.moves.put(place, Constant(kind((*sizes[:2], *sizes[-1:] * (count - 2)))), self.cost)

    def _comprehended(self) -> Iterator[Change]:
        """The items of an input do not unpack in a comprehension."""
        for node in nodes_around(self.moment.path, self.moment.source.span):
            for generator in node.generators if isinstance(node, _COMPREHENSIONS) else ():
                yield from self._iterated(generator.iter, generator.target)

    def _iterated(self, value: ast.expr, target: ast.expr) -> Iterator[Change]:
        """The items of an input do not unpack, or it has none."""
        place = self.frame.place(self.frame.value(value))
        whole = self.frame.recipe(place) if place is not None else None
        if place is None:
            return
        targets = target.elts if isinstance(target, ast.Tuple) else []
        count = max(1, len(targets))
        # The targets are called as what they are, or else the whole: `pictures_and_masks`.
        parts = str(place[-1]).split("_and_")
        names = [each.id if isinstance(each, ast.Name) else "" for each in targets]
        for called in (names, parts if len(parts) == count else []):
            known = [self.proposer.by_name(name) for name in called]
            if count > 1 and whole is not None and any(known):
                items = tuple(each[0] if each else whole for each in known)
                yield self.moves.put(place, Listing((Listing(items, tuple),) * 2), self.cost + 0.1)
        if isinstance(whole, TensorRecipe) and count > 1:
            yield self.moves.put(place, Constant([(1, 4, 4)[-count:]] * 2), self.cost + 0.4)
            yield self.moves.put(place, Listing((Listing((whole,) * count, tuple),)), self.cost + 0.6)
        elif isinstance(whole, Constant):
            yield self.moves.put(place, Constant((whole.value,) * 2), self.cost + 0.3)


def _measured(value: ast.expr) -> tuple[ast.expr | None, int]:
    """Return the expression whose sizes a value is, and how many of them it leaves out; None for another value."""
    match value:
        case ast.Attribute(value=base, attr="shape") | ast.Call(func=ast.Attribute(value=base, attr="size")):
            return base, 0
        case ast.Subscript(value=ast.Attribute(value=base, attr="shape"), slice=ast.Slice(ast.Constant(int(passed)))):
            return base, max(passed, 0)
        case _:
            return None, 0


def _is_of_dimensions(key: Any) -> bool:
    """Whether an index is one of a tensor's: `[:, 0]`."""
    return isinstance(key, slice) or (isinstance(key, tuple) and any(isinstance(each, slice) for each in key))

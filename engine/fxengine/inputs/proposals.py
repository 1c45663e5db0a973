"""What a parameter might want, judged by its annotation, what the source says, its name and the layer that takes it.

Proposals are ordered by how often they are right. They need not be right: the search runs the model on them and
mends what the model complains about. A rule here is about how people name things in this field, never about one
model.
"""

import ast
import collections.abc
import copy
import dataclasses
import inspect
import math
import re
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence

from fxengine.inputs.annotations import holds_tensors, name_of, of_one, plain, resolved, singular
from fxengine.inputs.clues import BATCH, COORDINATES, NODES, Clues, LayerWish
from fxengine.inputs.graphs import by_kind, kind_of_graph
from fxengine.inputs.levels import levelled
from fxengine.inputs.names import MAPS, NAME_RULES, OF_MEASUREMENTS, features, image, is_of_graph, of_layer
from fxengine.inputs.recipes import (
    Arguments,
    Constant,
    Listing,
    Recipe,
    Record,
    Structure,
    TensorRecipe,
    Verbatim,
    packed,
)
from fxengine.inputs.signature import Parameter, is_tensor_type, without_none

__all__ = ["SENTENCES", "Proposer"]

_T = TypeVar("_T")

_KINDS: Mapping[str, tuple[str, torch.dtype]] = {
    "LongTensor": ("integers", torch.int64),
    "IntTensor": ("integers", torch.int32),
    "BoolTensor": ("ones", torch.bool),
    "FloatTensor": ("normal", torch.float32),
    "HalfTensor": ("normal", torch.float32),
}
"""Tensors whose annotation says what they hold."""

_SCALARS: Mapping[Any, Any] = {int: 1, float: 1.0, bool: False, complex: 1j}
_CONTAINERS = frozenset({list, tuple, collections.abc.Sequence, collections.abc.Iterable})

_SIDES = re.compile(r"^(h|w|height|width|size|img_?size|image_?size|x_?size|in_?[hw]|h_size|w_size)$", re.IGNORECASE)
_ENDS_IN_SPACE = re.compile(r"\b(w|width|h|height|(image|img|input|crop)_?size|resolution)\W*$", re.IGNORECASE)
_NOTHING = re.compile(r"(^|_)(start|offset|pos|position|step|idx|index|layer|level|i|shift)(_|$)")

_OF_PICTURES = frozenset({4, 5})
"""The dimensions that pictures have, or volumes."""

_LEVELS = 3
_LARGEST = 64
_SMALLEST = 4
"""A list of pictures of features where nothing says how many there are, and the sides of the first and the last."""

_RANK_OF_NODES = 2
"""The most dimensions of what has a row for each node; what is said to have more has a batch, or steps, of graphs."""

_OF_EDGES = re.compile(r"edge|^e_?idx$")
_OF_NODES = re.compile(r"x(_?\w{1,6})?|h|feats?|features?|(n|node)_?(feats?|features?|attrs?|embs?)")
_COORDINATES = re.compile(r"pos|coords?|xyz")
"""What the nodes of a graph have."""

_STATES = re.compile(r"state|hidden|^h[xc]$")
"""What is called so and unpacked is several tensors."""

_AXES = re.compile(r"_[A-Z](x?[A-Z])*$")
"""Axes behind a name."""

_MEASURED, _TABLE = "y", "X"
"""What is measured, where it comes first, and no class; a table of numbers, with a row for each example."""

SENTENCES = ("a photo of two cats", "a small house by the sea")
"""Texts where such are wanted."""

_OF_WORDS = re.compile(r"(^|_)(text|caption|prompt|sentence|question|query|instruction|words?|title)s?($|_)")
"""What is called so, and annotated as one, is a text and no setting."""

_TABLE_OF_NUMBERS = re.compile(r"torch\.tensor\((\[[\d, \[\]]*\])\)")

_WHATEVER = re.compile(r"args|inputs|params|parameters|kwargs")
"""What arguments are called that are only passed on."""


class Proposer:
    """Proposes recipes for the parameters of one model, and for what their containers hold by name."""

    def __init__(
        self,
        clues: Clues,
        wishes: Mapping[str, LayerWish],
        said: Mapping[str, list[str]],
        *,
        items: Mapping[str, tuple[LayerWish, ...]] | None = None,
        states: Mapping[str, nn.RNNBase | nn.RNNCellBase] | None = None,
        rows: Collection[str] = (),
        numbers: Collection[str] = (),
        flags: Collection[str] = (),
        shares: Collection[str] = (),
        texts: Mapping[str, tuple[str, ...]] | None = None,
        unpacked: Mapping[str, tuple[str, ...]] | None = None,
        counted: Collection[str] = (),
        lengths: Collection[str] = (),
        levels: Collection[str] = (),
        kinds: Mapping[str, str] | None = None,
        attributes: Mapping[str, tuple[str, ...]] | None = None,
        keys: Mapping[str, tuple[str, ...]] | None = None,
        in_tokens: bool = False,
        of_graph: bool = False,
    ) -> None:
        """Prepare.

        Args:
            clues: What the model says of sizes.
            wishes: What the layers want that take the parameters, where that is known from a graph.
            said: What the source says of the parameters' shapes, as patterns.
            items: What the layers want that take the items of parameters.
            states: The recurrent layers that take parameters as their states.
            rows: The parameters that are states without a dimension for layers.
            numbers: The parameters that sizes are made of.
            flags: The parameters that are asked whether they are true.
            shares: The parameters that sizes are multiplied with.
            texts: The texts that parameters are compared with.
            unpacked: The names that parameters are unpacked into.
            counted: The names of what is counted with, so that a mask is one of numbers.
            lengths: The parameters that say how long each example is.
            levels: The parameters that are lists of pictures of features, or go over such beside them.
            kinds: How torch calls the tensors that parameters are, where their annotations tell what these hold.
            attributes: What is read of parameters that no tensor has.
            keys: What is looked up in parameters by a name.
            in_tokens: Whether no input is a picture, so that sides that are numbers are those of a picture of tokens.
            of_graph: Whether another parameter says how nodes are joined, so that the input has a row for each node.
        """
        self.in_tokens = in_tokens
        self.of_graph = of_graph
        self.clues = clues
        self.wishes = wishes
        self.said = said
        self.items = items or {}
        self.states = states or {}
        self.rows = rows
        self.numbers = numbers
        self.flags = flags
        self.shares = shares
        self.texts = texts or {}
        self.unpacked = unpacked or {}
        self.counted = counted
        self.lengths = lengths
        self.levels = levels
        self.kinds = kinds or {}
        self.attributes = attributes or {}
        self.keys = keys or {}

    def propose(self, parameter: Parameter, *, is_first: bool) -> list[Recipe]:
        """Return recipes for one parameter, best first; never empty.

        Args:
            parameter: The parameter.
            is_first: Whether it is the first one: what no rule knows is then taken for the model's main input.
        """
        if parameter.variadic:
            return self._spread(parameter)
        clues, wish = self.clues, self.wishes.get(parameter.name)
        is_measured = is_first and parameter.name == _MEASURED and not clues.is_of_predictions
        by_name = [] if is_measured else list(self._by_name(parameter.name))
        patterns = list(self._by_source(parameter, by_name, wish))
        wishes = _like_named(list(wish.recipes), by_name) if wish else []
        table = by_kind(parameter.name, clues)
        recipes: list[Recipe] = [table] if table is not None else []
        recipes += [*self._by_annotation(parameter, by_name), *self._by_use(parameter)]
        recipes += [each for each in patterns if self.of_graph and len(getattr(each, "shape", ())) > _RANK_OF_NODES]
        if self.of_graph and not isinstance(next(iter(recipes), None), Constant):
            recipes += self._of_nodes(parameter.name, wish, is_first=is_first and not _OF_EDGES.search(parameter.name))
        if by_name and isinstance(by_name[0], Verbatim):  # Its values matter, and no layer or comment knows them.
            recipes += by_name
        # A layer for tensors of one rank knows better than what is said of a parameter.
        fitting = [each for each in patterns if wish is None or wish.any_rank or _rank(each) == _rank(wishes[0])]
        recipes += [*fitting, *wishes, *(each for each in patterns if each not in fitting), *by_name]
        if is_first or not recipes:
            recipes += [recipe for other in clues.wishes[:2] for recipe in other.recipes]
        is_vector = clues.is_of_predictions or parameter.name == _TABLE
        recipes += [*image(clues), *features(clues)] if is_first and not is_vector else features(clues)
        named = name_of(without_none(parameter.annotation)), self.kinds.get(parameter.name, "")
        kind = next((_KINDS[each] for each in named if each in _KINDS), None)
        if kind is not None:
            recipes = [self._of_kind(recipe, *kind) for recipe in recipes]
        if is_tensor_type(without_none(parameter.annotation)):
            recipes = [recipe for recipe in recipes if not isinstance(recipe, Constant)]
        if parameter.required and parameter.nullable:
            # An object with parts of its own, as a state, is mostly made where there is none.
            rank = 0 if isinstance(recipes[0], Structure) else 1
            recipes.insert(2 if is_first else rank, Constant(None, f"`{parameter.name}` may be None"))
        unique: dict[str, Recipe] = {}
        for recipe in recipes:
            unique.setdefault(recipe.expression, recipe)
        return list(unique.values())

    def knows(self, parameter: Parameter) -> bool:
        """Whether anything tells what a parameter is: a layer, the source, its name, or what it is annotated with."""
        tables = (
            self.wishes,
            self.said,
            self.items,
            self.states,
            self.numbers,
            self.unpacked,
            self.levels,
            self.attributes,
            self.keys,
        )
        is_told = any(parameter.name in each for each in tables) or bool(self.by_name(parameter.name))
        annotation = without_none(parameter.annotation)
        return is_told or not (annotation is None or is_tensor_type(annotation))

    def named(self, name: str) -> list[Recipe]:
        """Return recipes for what is known by its name alone: a key, an attribute."""
        return self.propose(Parameter(name, None, required=True, keyword_only=False), is_first=False)

    def parts(self, owner: str, names: Collection[str], beside: Collection[str] = ()) -> tuple[tuple[str, Recipe], ...]:
        """Return recipes for what an object or a dictionary has by these names, with others `beside` them."""
        inner = copy.copy(self)
        inner.of_graph = self.of_graph or is_of_graph((*names, *beside))
        inner.wishes = _below(owner, self.wishes)
        inner.attributes, inner.keys = _below(owner, self.attributes), _below(owner, self.keys)
        inner.flags = _below(owner, dict.fromkeys(self.flags))
        return _as_measured(tuple((name, inner.named(name)[0]) for name in names))

    def _whole(self, name: str) -> Structure | Record | Listing | None:
        """Return an object or a dictionary with what is read of a parameter, or several such, None where nothing is."""
        for owner in (name, f"{name}[]"):
            read, looked_up = self.attributes.get(owner, ()), self.keys.get(owner, ())
            if read or owner in self.keys:
                known = of_layer(self.clues) if "weight" in read and not is_of_graph(read) else {}
                parts = tuple((key, known.get(key, part)) for key, part in self.parts(owner, read or looked_up))
                because = f"{', '.join(read or looked_up) or 'names'} of `{name}`"
                if owner == name:
                    return Structure(parts, because, kind_of_graph(read)) if read else Record(parts, because)
                ones = tuple((key, of_one(part)) for key, part in parts)
                return Listing((Structure(ones) if read else Record(ones),) * BATCH, because=because)
        return None

    def by_name(self, name: str) -> list[Recipe]:
        """Return recipes for what a name alone tells; none where it tells nothing."""
        return list(self._by_name(name))

    def _spread(self, parameter: Parameter) -> list[Recipe]:
        """Return recipes for what takes any number of arguments: several where it is called so, else one."""
        items = self.items.get(parameter.name, ())
        inner = replace(parameter, name=singular(parameter.name), variadic=False)
        one: list[Recipe] = [items[0].recipes[0]] if items else self.propose(inner, is_first=True)[:2]
        alike = [Listing((each,) * count, Arguments) for each in one for count in (1, 2, 3)]
        if parameter.name.endswith("s") and not _WHATEVER.fullmatch(parameter.name):
            alike.insert(0, alike.pop(1))
        used = [replace(each, type=Arguments) for each in self._by_use(parameter) if isinstance(each, Listing)]
        different = [Listing(tuple(each.recipes[0] for each in items), Arguments)] if len(items) > 1 else []
        return [*used, *different, *alike] if len(items) > 1 else [*alike[:1], *used, *alike[1:]]

    def number(self, name: str) -> int:
        """Return a number for a parameter that wants one."""
        clues = self.clues
        lowered = name.lower()
        if _SIDES.match(lowered):
            return max(1, math.isqrt(clues.lengths[0])) if self.in_tokens else clues.image_sizes[0][0]
        if "frame" in lowered:
            return 1 if self.in_tokens else clues.frames
        if re.search(r"len|num_(tokens|patches|steps)|^n$|^l$|^t$", lowered):
            return clues.lengths[0]
        if "batch" in lowered:
            return BATCH
        return 0 if _NOTHING.search(lowered) else 1

    def _of_kind(self, recipe: Recipe, fill: Any, dtype: torch.dtype) -> Recipe:
        """Return a tensor that holds what its annotation says."""
        if not isinstance(recipe, TensorRecipe) or recipe.dtype.is_floating_point == dtype.is_floating_point:
            return recipe
        if fill == "normal" and recipe.fill == "integers" and len(recipe.shape) == 1:  # A step of each example.
            fill = "uniform"
        high = recipe.high if recipe.fill == "integers" else self.clues.vocabulary
        return replace(recipe, fill=fill, dtype=dtype, high=high)

    def _by_name(self, name: str) -> Iterator[Recipe]:
        because = f"the name `{name}`"
        bare = _AXES.sub("", name).lower()
        for rule in NAME_RULES:
            if rule.pattern.search(bare):
                for recipe in rule.make(self.clues):
                    is_flag = isinstance(recipe, TensorRecipe) and recipe.dtype is torch.bool
                    known = replace(recipe, dtype=torch.float32) if is_flag and name in self.counted else recipe
                    yield replace(known, because=because)

    def _of_nodes(self, name: str, wish: LayerWish | None, *, is_first: bool) -> Iterator[Recipe]:
        """Yield a row for each node of a graph: of features, of an index, or of coordinates."""
        because = "a row for each node of the graph"
        if _COORDINATES.fullmatch(name):
            yield TensorRecipe((NODES, 3), because=because)
        elif is_first or _OF_NODES.fullmatch(name):
            wanted = wish.recipes[0] if wish is not None else None
            if wanted is not None and wanted.fill == "integers":
                yield wanted.with_shape((NODES,), because)
            width = wanted.shape[-1] if wanted is not None else self.clues.channels[0]
            yield TensorRecipe((NODES, width), because=because)

    def _by_source(self, parameter: Parameter, by_name: list[Recipe], wish: LayerWish | None) -> Iterator[Recipe]:
        """Yield tensors of the shapes that comments, docstrings and statements speak of."""
        like = next((each for each in by_name if isinstance(each, TensorRecipe)), None)
        for pattern in self.said.get(parameter.name, ()):
            shape = self.clues.shape_of_pattern(pattern, self.clues.widths[0])
            because = f"`{pattern}` in the source"
            wanted = wish.recipes[0] if wish is not None else None
            if wish is not None and wanted is not None and wish.any_rank:
                if wanted.fill != "integers" and _ENDS_IN_SPACE.search(pattern):
                    continue  # A layer that works on the last size takes no pictures, channels first.
                whole = shape if wanted.fill == "integers" else (*shape[:-1], wanted.shape[-1])
                yield replace(wanted, shape=whole, because=because)
            elif wanted is not None and len(wanted.shape) == len(shape):
                is_in_another_order = sorted(shape[:-1]) == sorted(wanted.shape[:-1])
                whole = (*shape[:-1], wanted.shape[-1]) if is_in_another_order else wanted.shape
                yield replace(wanted, shape=whole, because=because)
            elif like is not None and not like.dtype.is_floating_point and not self.clues.is_of_features(pattern):
                yield replace(like, shape=shape, because=because)
            elif (
                like is not None
                and len(like.shape) == len(shape)
                and like.shape[-1] <= COORDINATES
                and not pattern[-1].isdigit()
            ):
                yield like  # The last size is told by the name, and only called something by the source.
            else:
                yield TensorRecipe(shape, because=because)

    def _by_use(self, parameter: Parameter) -> Iterator[Recipe]:
        """Yield what is no tensor by what is done with it: a list of pictures, the state of a layer, a size."""
        if not is_tensor_type(without_none(parameter.annotation)):
            yield from self._no_tensors(parameter.name)
        if parameter.name in self.numbers:
            named = (each for each in self.by_name(parameter.name) if isinstance(each, Constant))
            known = next((each for each in named if isinstance(each.value, float)), None)
            yield known or Constant(self.number(parameter.name), f"`{parameter.name}` is a size")
        if self._is_flag(parameter):
            yield Constant(value=False, because=f"`{parameter.name}` is asked whether it is true")
        yield from self._of_lengths(parameter.name)
        if parameter.name in self.levels and parameter.name not in self.items:
            yield levelled(parameter.name, self.clues)
        called = self.unpacked.get(parameter.name, ())
        is_known = any(map(self.by_name, called)) or (called and _STATES.search(parameter.name))
        is_tensor = is_tensor_type(without_none(parameter.annotation)) or self._is_of_edges(parameter.name)
        if is_known and not is_tensor:
            items = tuple((self.by_name(each) or features(self.clues))[0] for each in called)
            yield Listing(items, tuple, f"`{parameter.name}` is unpacked into {', '.join(called)}")
        items = self.items.get(parameter.name, ())
        rank = max((len(wish.recipes[0].shape) for wish in items), default=0)
        if len(items) > 1 and rank not in _OF_PICTURES:
            because = f"the items of `{parameter.name}` go to {', '.join(wish.path for wish in items)}"
            yield Listing(tuple(wish.recipes[0] for wish in items), because=because)
        pictures = [wish.recipes[0] for wish in items if len(wish.recipes[0].shape) in _OF_PICTURES]
        if pictures and len(pictures) == len(items):
            levels = pictures * (len(called) or _LEVELS) if len(pictures) == 1 else pictures
            largest = max(_LARGEST, _SMALLEST << (len(levels) - 1))
            yield Listing(
                tuple(
                    each.with_shape((*each.shape[:2], *(largest >> level for _ in each.shape[2:])))
                    for level, each in enumerate(levels)
                ),
                because=f"the items of `{parameter.name}` go to {', '.join(wish.path for wish in items)}",
            )
        module = self.states.get(parameter.name)
        if module is not None:
            because = f"`{parameter.name}` is the state of a {type(module).__name__}"
            width = module.hidden_size
            if isinstance(module, nn.RNNBase) and parameter.name not in self.rows:
                layers = module.num_layers * (2 if module.bidirectional else 1)
                state = TensorRecipe((layers, BATCH, width), because=because)
            else:
                state = TensorRecipe((BATCH, width), because=because)
            is_pair = isinstance(module, nn.LSTM | nn.LSTMCell)
            yield Listing((state, state), tuple, because) if is_pair else state

    def _no_tensors(self, name: str) -> Iterator[Recipe]:
        """Yield the texts that a parameter is compared with, and the object that it is read as."""
        for text in self.texts.get(name, ()):
            yield Constant(text, f"`{name}` is compared with {text!r}")
        if (whole := self._whole(name)) is not None:
            yield whole

    def _is_of_edges(self, name: str) -> bool:
        """Whether what is unpacked is a table of edges, with a row for their beginnings and one for their ends."""
        table = next(iter(self.by_name(name)), None)
        is_table = isinstance(table, TensorRecipe) and table.fill == "integers" and len(table.shape) == 2
        return _OF_EDGES.search(name) is not None and is_table and len(self.unpacked.get(name, ())) == 2

    def _of_lengths(self, name: str) -> Iterator[Recipe]:
        """Yield how long each example is: in steps, or as a share of the longest."""
        if name in self.shares and any(_is_length(each) for each in self.by_name(name)[:1]):
            yield TensorRecipe((BATCH,), "ones", because=f"a size is multiplied with `{name}`")
        if name in self.lengths:
            because = f"steps are compared with `{name}`"
            yield TensorRecipe((BATCH,), "full", torch.int64, self.clues.lengths[0], because)

    def _is_flag(self, parameter: Parameter) -> bool:
        """Whether a parameter that has to be given is a flag: it is asked whether it is true, and nothing else."""
        used = (self.wishes, self.items, self.states, self.numbers, self.unpacked, self.attributes, self.keys)
        is_bare = parameter.required and parameter.annotation is None and parameter.name in self.flags
        return is_bare and not any(parameter.name in each for each in used)

    def _by_annotation(self, parameter: Parameter, by_name: list[Recipe]) -> Iterator[Recipe]:
        """Yield what the annotation alone decides: numbers, containers of tensors, shapes written out."""
        annotation = without_none(parameter.annotation)
        because = f"the annotation of `{parameter.name}`"
        dimensions = getattr(annotation, "dim_str", None)
        if isinstance(dimensions, str):
            yield self._jaxtyped(annotation, dimensions, because, are_lengths=any(map(_is_length, by_name[:1])))
            return
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if annotation in _SCALARS:
            yield Constant(self.number(parameter.name) if annotation is int else _SCALARS[annotation], because)
        elif annotation is str:
            yield Constant(SENTENCES[0] if _OF_WORDS.search(parameter.name) else "", because)
        elif annotation is torch.Size:
            yield from (each for each in by_name if isinstance(each, Constant))
            yield Constant((BATCH, self.clues.channels[0], *self.clues.image_sizes[0]), because)
        elif origin is typing.Literal:
            yield Constant(arguments[0], because)
        elif collections.abc.Callable in {origin, annotation}:
            yield Verbatim("torch.nn.Identity()", because)
        elif origin in _CONTAINERS or annotation is list:
            yield from _as_lists(by_name, because)
            yield from self._container(parameter, origin or list, arguments or (torch.Tensor,))
        elif origin in {dict, collections.abc.Mapping} or annotation is dict:
            yield from self._dictionary(parameter, arguments, because)
        elif isinstance(annotation, type):
            yield from self._of_class(annotation, parameter.name, because)

    def _dictionary(self, parameter: Parameter, arguments: tuple[Any, ...], because: str) -> Iterator[Recipe]:
        """Yield a dictionary with what is looked up in it; where nothing is, with what a list would hold, by number."""
        looked_up = self.keys.get(parameter.name, ())
        yield Record(self.parts(parameter.name, looked_up), because)
        if not looked_up and arguments and plain(arguments[0]) is str and holds_tensors(arguments[-1]):
            for each in self._container(parameter, list, arguments[1:]):
                if isinstance(each, Listing):
                    yield Record(tuple((str(index), item) for index, item in enumerate(each.items)), because)

    def _container(self, parameter: Parameter, origin: Any, arguments: tuple[Any, ...]) -> Iterator[Recipe]:
        """Yield lists and tuples of what the annotation says that they hold."""
        because = f"the annotation of `{parameter.name}`"
        whole = self._whole(parameter.name)
        if isinstance(whole, Listing):
            yield whole
        kind = tuple if origin is tuple else list
        count = 2 if kind is list or Ellipsis in arguments else len(arguments)
        inner = Parameter(singular(parameter.name), arguments[0], required=True, keyword_only=False)
        if plain(arguments[0]) is int:
            side = self.number("size")
            plane = (side, side) if self.in_tokens else self.clues.image_sizes[0]
            sizes = plane if count == 2 else (1, 4, 4)[:count] if count == 3 else (1,) * count
            yield Constant(kind(sizes), because)
            return
        proposed = self.propose(inner, is_first=holds_tensors(arguments[0]))
        if is_tensor_type(without_none(arguments[0])):  # What is known of a name without a plural is of the whole.
            proposed = [each for each in proposed if not isinstance(each, Listing)]
        item = next(
            (each for each in proposed if holds_tensors(arguments[0]) or not isinstance(each, TensorRecipe)), None
        )
        if item is None:
            return
        if plain(arguments[0]) is str:
            yield Constant(kind(SENTENCES), because)
            return
        is_batch = kind is list and not MAPS.search(parameter.name)  # As a list of images is.
        if is_batch and isinstance(item, TensorRecipe) and len(item.shape) == 4:
            single = item.with_shape(item.shape[1:])
            yield Listing((single, single), because=because)
        if kind is tuple and Ellipsis not in arguments:
            names = self.unpacked.get(parameter.name, ())
            names = names if len(names) == len(arguments) else (parameter.name,) * len(arguments)
            inners = [
                self.propose(Parameter(name, each, required=True, keyword_only=False), is_first=True)[0]
                for name, each in zip(names, arguments, strict=True)
            ]
            yield Listing(tuple(inners), tuple, because)
        yield Listing((item,) * count, kind, because)

    def _of_class(self, cls: type, name: str, because: str) -> Iterator[Recipe]:
        """Yield an object with the fields of a dataclass or named tuple, or a module that does nothing."""
        if issubclass(cls, nn.Module):
            yield Verbatim("torch.nn.Identity()", because)
            return
        if cls is PackedSequence:
            wish = self.wishes.get(name)
            width = wish.recipes[0].shape[-1] if wish is not None else self.clues.widths[0]
            yield packed(self.clues.lengths[0], BATCH, width, because)
            return
        if typing.is_typeddict(cls):
            yield Record(
                tuple((key, self._of_field(key, hint)) for key, hint in typing.get_type_hints(cls).items()), because
            )
            return
        if issubclass(cls, torch.Tensor) or cls in {list, dict, tuple, object}:
            return
        fields: dict[str, Any] = {}
        kind: Callable[..., Any] = SimpleNamespace
        if dataclasses.is_dataclass(cls) or hasattr(cls, "_fields"):
            kind = cls if self._is_at_hand(cls) else SimpleNamespace
            # `collections.namedtuple` says of its fields how they are called, and nothing else.
            fields = dict.fromkeys(getattr(cls, "_fields", ())) | {
                name: hint
                for base in reversed(cls.__mro__)
                for name, hint in getattr(base, "__annotations__", {}).items()
            }
        if fields:
            parameters = [
                Parameter(name, hint if not isinstance(hint, str) else None, True, False)
                for name, hint in fields.items()
            ]
            if kind is cls:
                needed = inspect.signature(cls).parameters
                required = [each for each in parameters if needed[each.name].default is inspect.Parameter.empty]
                parameters = required or parameters
            items = tuple((each.name, self.propose(each, is_first=False)[0]) for each in parameters)
            yield Structure(items, because, kind)
        elif self._is_at_hand(cls):
            yield from self._of_constructor(cls, name, because)

    def _of_constructor(self, cls: type, name: str, because: str) -> Iterator[Recipe]:
        """Yield an object of a class that is made of what its constructor takes: what it needs, and what is read."""
        if not inspect.isfunction(cls.__init__) or inspect.isabstract(cls) or getattr(cls, "_is_protocol", False):
            return
        taken = inspect.signature(cls).parameters
        spread = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
        needed = [
            each for each in taken.values() if each.default is inspect.Parameter.empty and each.kind not in spread
        ]
        if all(each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for each in needed):
            items = {each.name: self._of_field(each.name, resolved(each.annotation)) for each in needed}
            takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in taken.values())
            read = [each for each in self.attributes.get(name, ()) if takes_any or each in taken]
            yield Structure(tuple({**dict(self.parts(name, read)), **items}.items()), because, cls)

    def _of_field(self, name: str, hint: Any) -> Recipe:
        """Return a recipe for a part of an object that is called and annotated so."""
        return self.propose(Parameter(name, hint, required=True, keyword_only=False), is_first=False)[0]

    def _is_at_hand(self, cls: type) -> bool:
        """Whether the code of the model knows a class by its name, and its objects are nothing but their fields."""
        code = getattr(inspect.unwrap(type(self.clues.root).forward), "__globals__", {})
        return code.get(cls.__name__) is cls and not hasattr(cls, "__post_init__")

    def _jaxtyped(self, annotation: Any, dimensions: str, because: str, *, are_lengths: bool = False) -> TensorRecipe:
        """Return the tensor of a jaxtyping annotation such as ``Float[Tensor, "b c h w"]``.

        Lengths are those of whole examples, or of parts of them, which are one long each: no more than there is.
        """
        axes = [axis.lstrip("#*?_") for axis in dimensions.split() if axis != "..."]
        shape = self.clues.shape_of_pattern(" ".join(axis.partition("=")[2] or axis for axis in axes if axis))
        kinds = "".join(map(str, getattr(annotation, "dtypes", ())))
        if "bool" in kinds and "float" not in kinds:
            return TensorRecipe(shape, "ones", torch.bool, because=because)
        if "int" in kinds and "float" not in kinds and are_lengths:
            steps = self.clues.lengths[0] if len(shape) < _RANK_OF_NODES else 1
            return TensorRecipe(shape, "full", torch.int64, steps, because)
        if "int" in kinds and "float" not in kinds:
            return TensorRecipe(shape, "integers", torch.int64, self.clues.vocabulary, because)
        return TensorRecipe(shape, because=because)


def _as_lists(by_name: list[Recipe], because: str) -> Iterator[Recipe]:
    """Yield tables of known numbers as the lists that they are made of."""
    for recipe in by_name:
        table = _TABLE_OF_NUMBERS.fullmatch(recipe.source) if isinstance(recipe, Verbatim) else None
        if table is not None:
            yield Constant(ast.literal_eval(table[1]), because)


def _is_length(recipe: Recipe) -> bool:
    """Whether something says how many steps each example has."""
    return isinstance(recipe, TensorRecipe) and recipe.fill == "full" and not recipe.dtype.is_floating_point


def _below(owner: str, table: Mapping[str, _T]) -> dict[str, _T]:
    """Return what a table has of the parts of a parameter, by what these are called in it."""
    start = f"{owner}."
    return {path.removeprefix(start): value for path, value in table.items() if path.startswith(start)}


def _as_measured(parts: tuple[tuple[str, Recipe], ...]) -> tuple[tuple[str, Recipe], ...]:
    """Return the parts of a dictionary, those that say what was measured with the shape of the first numbers beside."""
    numbers = (part for name, part in parts if not OF_MEASUREMENTS.search(name) and isinstance(part, TensorRecipe))
    like = next((each for each in numbers if each.dtype.is_floating_point and len(each.shape) > 1), None)
    return tuple(
        (name, part.with_shape(like.shape))
        if like is not None and isinstance(part, TensorRecipe) and OF_MEASUREMENTS.search(name)
        else (name, part)
        for name, part in parts
    )


def _like_named(wishes: list[TensorRecipe], by_name: list[Recipe]) -> list[TensorRecipe]:
    """Return what a layer wants with the rank first that the parameter's name tells: a layer takes several."""
    named = next((each for each in by_name if isinstance(each, TensorRecipe)), None)
    if named is None or not wishes:
        return wishes
    if wishes[0].fill == named.fill == "integers" and wishes[0].shape != named.shape:
        return [wishes[0].with_shape(named.shape), *wishes]
    return sorted(wishes, key=lambda each: len(each.shape) != len(named.shape))


def _rank(recipe: Recipe | None) -> int | None:
    return len(recipe.shape) if isinstance(recipe, TensorRecipe) else None

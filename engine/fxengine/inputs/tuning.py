"""Inputs that fit, made to fit better: pictures that are no more than a machine does in a moment, sequences of steps.

Whether others fit too is for the search to say; what fits is kept where they do not.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias

import torch
from torch import nn

from fxengine.inputs.clues import Clues
from fxengine.inputs.moves import Moves
from fxengine.inputs.probe import Outcome
from fxengine.inputs.recipes import Listing, Place, Recipe, Record, TensorRecipe, call_arguments
from fxengine.passes.cost import model_cost

__all__ = ["Tuning", "by_factor"]

_Fit: TypeAlias = tuple[dict[str, Recipe], Outcome]
_Tensors: TypeAlias = list[tuple[Place, TensorRecipe]]

_SMALLER: Final = (4, 2, 2, 7)
"""By how much pictures are made smaller, one after the other, where they are too much."""

_MUCH_MORE: Final = 1.25
"""How many times as many calls there are at least where a model works on another input, too."""

_MOST_TABLES: Final = 3
"""In how many tables of parts keys are looked for."""

_LENGTHS_OF: Final = re.compile(r"_(lens?|lengths?)$")
"""How it is called behind the name of something how long its examples are."""

_WIDEST: Final = 64
_NARROWEST: Final = 4
"""The most and the fewest pixels of a side of pictures of features in several levels."""

_SMALLEST_SIDE: Final = 8
_LARGE: Final = 1 << 28
_MANY_ELEMENTS: Final = 1 << 26
_MANY_OPERATIONS: Final = 1.2e11
"""What makes a run heavy: so many elements of one tensor, or operations; from how many of all on these are counted."""

_HELD: Final = 1 << 30
_SHORTER: Final = 16
_MOST_TIMES: Final = 3
"""From how many elements on a tensor is more than most machines hold; by how much what leads to it is made shorter at
a time, and how often.
"""

_META: Final = torch.device("meta")


class Tuning:
    """Changes inputs that fit, each change if a trial says that it fits too."""

    def __init__(
        self, root: Any, clues: Clues, positional: int, tried: Callable[[dict[str, Recipe]], Outcome | None]
    ) -> None:
        """Prepare.

        Args:
            root: The model or function.
            clues: What the model says of sizes.
            positional: How many of the inputs are passed by position.
            tried: Returns how a trial of other inputs goes, None where they do not fit.
        """
        self.root = root
        self.clues = clues
        self.positional = positional
        self.tried = tried

    def fuller(self, recipes: dict[str, Recipe], outcome: Outcome) -> _Fit:
        """Return dictionaries with an entry for each part of the model where nothing was in them: all was passed by."""
        tables = [(path, each) for path, each in self.clues.modules.items() if isinstance(each, nn.ModuleDict)]
        empty = [name for name, recipe in recipes.items() if isinstance(recipe, Record) and not recipe.items]
        for name, (path, table) in itertools.product(empty, tables[:_MOST_TABLES]):
            wishes = {key: self.clues.first_wish(f"{path}.{key}") for key in table}
            items = tuple((key, wish.recipes[0]) for key, wish in wishes.items() if wish is not None)
            changed = {**recipes, name: Record(items, f"the keys of `{path}`")}
            found = self.tried(changed) if items else None
            if found is not None and found.calls > outcome.calls:
                return changed, found
        return recipes, outcome

    def beside(self, more: dict[str, Recipe], recipes: dict[str, Recipe], outcome: Outcome) -> _Fit:
        """Return inputs with another beside them, if the model does far more with it."""
        found = self.tried(more)
        return (more, found) if found is not None and found.calls > _MUCH_MORE * outcome.calls else (recipes, outcome)

    def whole(self, recipes: dict[str, Recipe], outcome: Outcome) -> _Fit:
        """Return lengths of whole examples, where a name says what they are the lengths of: `x_lengths` of `x`."""
        changed = dict(recipes)
        for name, recipe in recipes.items():
            of = recipes.get(_LENGTHS_OF.sub("", name)) if _LENGTHS_OF.search(name) else None
            if isinstance(recipe, TensorRecipe) and recipe.fill == "full" and isinstance(of, TensorRecipe):
                steps = of.shape[1] if len(of.shape) > 1 else recipe.high
                changed[name] = replace(recipe, high=steps)
        found = self.tried(changed) if changed != recipes else None
        return (changed, found) if found is not None and found.calls >= outcome.calls else (recipes, outcome)

    def narrowing(self, recipes: dict[str, Recipe], outcome: Outcome) -> _Fit:
        """Return pictures of features that become smaller from level to level, where several are given that do not."""
        for name, whole in recipes.items():
            levels = _levels(whole)
            sides = {level.shape[2:] for level in levels}
            if len(sides) != 1 or len({level.shape[1] for level in levels}) != len(levels):
                continue
            first = min(_WIDEST, *next(iter(sides)))
            smaller = [max(_NARROWEST, first >> index) for index in range(len(levels))]
            items = [
                level.with_shape((*level.shape[:2], side, side)) for level, side in zip(levels, smaller, strict=True)
            ]
            changed = {**recipes, name: _with_levels(whole, items)}
            found = self.tried(changed)
            if found is not None and found.calls >= outcome.calls:
                recipes, outcome = changed, found
        return recipes, outcome

    def longer(self, recipes: dict[str, Recipe], outcome: Outcome) -> _Fit:
        """Return longer sequences of tokens where some have one step: what is done for each further one was not."""
        moves = Moves(recipes, outcome, self.clues)
        longer: dict[Place, Recipe] = {**moves.longer_steps()}
        alone = [{place: part} for place, part in longer.items()] if len(longer) > 1 else []
        for parts in (longer, *alone) if longer else ():
            changed = dict(moves.change(parts, 0.0).recipes)
            found = self.tried(changed)
            if found is not None and found.calls >= outcome.calls:
                return changed, found
        return recipes, outcome

    def lighter(self, recipes: dict[str, Recipe], outcome: Outcome) -> _Fit:
        """Return smaller pictures where those that fit are more than a machine does in a moment."""
        for shrunk in (_of_levels, *(partial(by_factor, factor=factor) for factor in _SMALLER)):
            moves = Moves(recipes, outcome, self.clues)
            smaller: dict[Place, Recipe] = {**shrunk(moves.tensors())}
            if not smaller:
                continue
            if not self._is_heavy(recipes, outcome):
                break
            changed = dict(moves.change(smaller, 0.0).recipes)
            found = self.tried(changed)
            if found is not None:
                recipes, outcome = changed, found
        return recipes, outcome

    def bearable(self, recipes: dict[str, Recipe], outcome: Outcome) -> _Fit:
        """Return shorter inputs where those that fit lead to a tensor that hardly any machine holds."""
        for _ in range(_MOST_TIMES if outcome.largest > _HELD else 0):
            found = next(self._shorter(recipes, outcome), None)
            if found is None:
                break
            recipes, outcome = found
            if outcome.largest <= _HELD:
                break
        return recipes, outcome

    def _shorter(self, recipes: dict[str, Recipe], outcome: Outcome) -> Iterator[_Fit]:
        """Yield inputs that are shorter in the dimension that the largest tensor follows from."""
        moves = Moves(recipes, outcome, self.clues)
        for place, part in moves.tensors():
            for index in reversed(range(1, len(part.shape))):
                size = part.shape[index] // _SHORTER
                if not size:
                    continue
                shape = (*part.shape[:index], size, *part.shape[index + 1 :])
                changed = dict(moves.reshape(place, shape, 0.0).recipes)
                found = self.tried(changed)
                if found is not None and found.largest * _SHORTER <= outcome.largest:
                    yield changed, found

    def _is_heavy(self, recipes: Mapping[str, Recipe], outcome: Outcome) -> bool:
        if outcome.largest > _LARGE or 2 * outcome.products > _MANY_OPERATIONS:
            return True
        if outcome.elements < _MANY_ELEMENTS:
            return False
        values = {name: recipe.make(_META, None) for name, recipe in recipes.items()}
        args, kwargs = call_arguments(values, self.positional)
        try:
            return model_cost(self.root, args, kwargs).flops > _MANY_OPERATIONS
        except Exception:  # noqa: BLE001 - the model runs here, and may want data in the end.
            return False


def _levels(whole: Recipe) -> list[TensorRecipe]:
    """Return the pictures that a list or a dictionary of nothing else holds; none of what is neither, or has one."""
    match whole:
        case Listing(items=items):
            levels = items
        case Record(items=items):
            levels = tuple(level for _, level in items)
        case _:
            return []
    found = [level for level in levels if isinstance(level, TensorRecipe) and len(level.shape) == 4]
    return found if 1 < len(found) == len(levels) else []


def _with_levels(whole: Recipe, levels: list[TensorRecipe]) -> Recipe:
    """Return a list or a dictionary with other items."""
    if isinstance(whole, Listing):
        return replace(whole, items=tuple(levels))
    assert isinstance(whole, Record)
    return replace(whole, items=tuple((key, level) for (key, _), level in zip(whole.items, levels, strict=True)))


def by_factor(tensors: _Tensors, factor: int) -> dict[Place, TensorRecipe]:
    """Return the pictures among inputs with shorter sides, as far as they have so long ones.

    What has a number for each pixel of one has as many fewer: a mask of what a picture is flattened to.
    """
    sides = {part.shape[-2:] for _, part in tensors if len(part.shape) >= 4}
    found = {
        place: part.with_shape(shape)
        for place, part in tensors
        if len(part.shape) >= 4 or part.shape[-2:] in sides  # A single picture, beside a batch of them.
        if (shape := _smaller_picture(part.shape, factor)) is not None
    }
    pixels = {
        math.prod(part.shape[2:]): math.prod(found[place].shape[2:])
        for place, part in tensors
        if place in found and len(part.shape) >= 4
    }
    for place, part in tensors:
        if place not in found and not pixels.keys().isdisjoint(part.shape[1:]):
            found[place] = part.with_shape((part.shape[0], *(pixels.get(size, size) for size in part.shape[1:])))
    return found


def _of_levels(tensors: _Tensors) -> dict[Place, TensorRecipe]:
    """Return pictures of several sizes, each of which is a multiple of the smallest, as multiples of a small one."""
    pictures = {place: part for place, part in tensors if len(part.shape) >= 4}
    sides = [part.shape[2:] for part in pictures.values()]
    if len(set(sides)) < 2 or len(set(map(len, sides))) > 1:
        return {}
    least = [min(each) for each in zip(*sides, strict=True)]
    if min(least) <= _NARROWEST or any(size % unit for each in sides for size, unit in zip(each, least, strict=True)):
        return {}
    return {
        place: part.with_shape(
            (
                *part.shape[:2],
                *(size // unit * _NARROWEST for size, unit in zip(part.shape[2:], least, strict=True)),
            )
        )
        for place, part in pictures.items()
    }


def _smaller_picture(shape: tuple[int, ...], factor: int) -> tuple[int, ...] | None:
    """Return the shape of smaller pictures, channels first or last; None where it is none, or too small for that."""
    if len(shape) < 3:
        return None
    first, last = len(shape) - 2, len(shape)
    if len(shape) == 5 and shape[2] == shape[3] == shape[4]:  # Cubes.
        first = 2
    elif shape[-1] != shape[-2] == shape[-3]:  # Channels last.
        first, last = first - 1, last - 1
    sides = shape[first:last]
    if min(sides) < factor * _SMALLEST_SIDE:
        return None
    return (*shape[:first], *(size // factor for size in sides), *shape[last:])

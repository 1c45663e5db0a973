"""Whether what fails of a model has sizes that no input makes fit: it changes them not at all, or both alike."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fxengine.inputs.clues import BATCH
from fxengine.inputs.probe import Outcome, probe
from fxengine.inputs.recipes import Recipe, tensors_in, with_part

__all__ = ["fails_at_any_size", "is_of_pictures", "stays_in_proportion"]

_SIZES = re.compile(r"\d+\D+\d+|channel")
"""What a message says that is about sizes."""

_MOST_TRIALS = 24

_OF_TWO = re.compile(
    r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)"
    r"|Sizes of tensors must match .* Expected (?:size )?(\d+)(?: in dimension \d+)? but got (?:size )?(\d+)"
)
"""What is said of two sizes that are to be the same, of which none is that of a layer."""

_SIDES = (48, 64, 96, 100, 128, 160, 250, 256, 384, 512)
"""Sides of pictures, even as most are."""

_PICTURES = 4
"""The fewest dimensions of a batch of pictures."""

_LEAST_RATIO = 1.8
_MOST_APART = 0.2
"""What one size is of another at least that is twice as long, and by how much proportions differ: padding adds."""


def fails_at_any_size(
    root: Any, recipes: Mapping[str, Recipe], positional: int, outcome: Outcome, limit: float
) -> bool:
    """Return whether a model fails no later and says the same there with each size of its inputs changed.

    Where others fail earlier, what comes before wants that very size; where they come as far, the sizes that do not fit
    follow from none that was changed. Sizes that are equal are also changed together.

    Args:
        root: The model.
        recipes: What was passed to it.
        positional: How many of them by position.
        outcome: How that ended.
        limit: The processor time of this process at which a trial is broken off.
    """
    if not _SIZES.search(str(outcome.error)):
        return False
    for number, changed in enumerate(_changed(recipes)):
        if number == _MOST_TRIALS:
            return False
        found = probe(root, changed, positional, limit)
        if found.accepted or isinstance(found.error, TimeoutError) or found.calls > outcome.calls:
            return False
        if found.where == outcome.where and str(found.error) != str(outcome.error):
            return False
    return next(_changed(recipes), None) is not None


def is_of_pictures(shape: Sequence[Any]) -> bool:
    """Whether a shape may be that of a batch of pictures, or of cubes."""
    return len(shape) >= _PICTURES


def stays_in_proportion(root: Any, recipes: Mapping[str, Recipe], positional: int, limit: float) -> bool:
    """Return whether two sizes that do not fit follow from the only picture, one of them as a multiple of the other.

    A side of one point may be the same in both; of all that are longer none is.

    Args:
        root: The model.
        recipes: What was passed to it.
        positional: How many of them by position.
        limit: The processor time of this process at which a trial is broken off.
    """
    tensors = tensors_in(recipes)
    if len(tensors) != 1 or not is_of_pictures(tensors[0][2].shape):
        return False
    name, place, part = tensors[0]
    places = set[str]()
    met: list[tuple[int, int]] = []
    for side in _SIDES:
        shape = (*part.shape[:2], *(side for _ in part.shape[2:]))
        found = probe(
            root, {**recipes, name: with_part(recipes[name], place, part.with_shape(shape))}, positional, limit
        )
        sizes = _OF_TWO.search(str(found.error))
        if sizes is None:
            return False
        places.add(found.where)
        one, other = (int(each) for each in sizes.groups() if each is not None)
        met.append((one, other))
    grow = len(dict(met)) == len({other for _, other in met}) == len(met)
    return len(places) == 1 and grow and _are_in_proportion([max(pair) / min(pair) for pair in met])


def _are_in_proportion(ratios: list[float]) -> bool:
    """Whether of two sizes one is so many times the other, the same each time but for what padding adds."""
    return min(ratios) > _LEAST_RATIO and max(ratios) - min(ratios) < _MOST_APART


def _changed(recipes: Mapping[str, Recipe]) -> Iterator[dict[str, Recipe]]:
    """Yield inputs with another size: one after the other, and those that are equal together."""
    tensors = tensors_in(recipes)
    single = [
        (index, dim)
        for index, (_, _, part) in enumerate(tensors)
        for dim, size in enumerate(part.shape)
        if dim or size != BATCH
    ]
    alike: dict[int, list[tuple[int, int]]] = {}
    for index, dim in single:
        alike.setdefault(tensors[index][2].shape[dim], []).append((index, dim))
    for places in [[each] for each in single] + [each for each in alike.values() if len(each) > 1]:
        for twice in (True, False):
            made: dict[str, Recipe] = dict(recipes)
            shapes = {index: list(tensors[index][2].shape) for index, _ in places}
            for index, dim in places:
                size = shapes[index][dim]
                shapes[index][dim] = 2 * size if twice else size + 1
            for index, shape in shapes.items():
                name, place, part = tensors[index]
                made[name] = with_part(made[name], place, part.with_shape(tuple(shape)))
            yield made

"""Whether what fails of a model has sizes that no input changes: whatever is put in, they do not fit."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from fxengine.inputs.clues import BATCH
from fxengine.inputs.probe import Outcome, probe
from fxengine.inputs.recipes import Recipe, tensors_in, with_part

__all__ = ["fails_at_any_size"]

_SIZES = re.compile(r"\d+\D+\d+|channel")
"""What a message says that is about sizes."""

_MOST_TRIALS = 24


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

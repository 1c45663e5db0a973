"""Whether what fails of a model has sizes that no input makes fit: it changes them not at all, or both alike."""

import itertools
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fxengine.inputs.clues import BATCH
from fxengine.inputs.disagreements import Disagreement, are_of_two_sizes, disagreement
from fxengine.inputs.probe import Outcome, probe
from fxengine.inputs.recipes import Place, Recipe, TensorRecipe, tensors_in, with_part, with_shape

__all__ = [
    "comes_further_flat",
    "fails_at_any_length",
    "fails_at_any_size",
    "is_of_dimensions",
    "is_of_pictures",
    "is_out_of_reach",
    "stays_apart",
    "stays_in_proportion",
    "with_other_sizes",
    "with_size_changed",
]

_SIZES = re.compile(r"\d+\D+\d+|channel")
"""What a message says that is about sizes."""

_RANKS = re.compile(r"number of dimensions", re.IGNORECASE)
"""What it says about how many dimensions there are: no size of several inputs changes that."""

_OF_DIMENSIONS = re.compile(
    r"expected \d+ dims\b|number of dimensions|\bdims can not be|Dimension out of range", re.IGNORECASE
)
"""What is said of how many dimensions something has."""

_DIMENSIONS = re.compile(r"\d-?D\b")
"""How it names them: `expected 3D`, `a 2-D tensor`."""

_MOST_TRIALS = 32

_SIDES = (48, 64, 96, 100, 128, 160, 250, 256, 384, 512)
"""Sides of pictures, even as most are."""

_LENGTHS = (48, 64, 100, 128, 250)
"""Lengths of sequences."""

_ALL_LENGTHS = (*range(1, 9), 12, 16, 24, 32, 48, 64, 100, 128, 256, 512)
"""Lengths that are tried before one believes that none fits."""

_MOST_LENGTHS = 64
"""At how many lengths, with those that messages name, one ends."""

_OF_VALUES = re.compile(r"batch2 tensor to be: \[\d+, \d+\] but got: \[\d+, \d+\]|must have same reduction dim")
"""What is said of two values that do not go together."""

_MOST_SIZES = 8
"""Sizes of all inputs with more of which one does not look what each of them changes."""

_PICTURES = 4
"""The fewest dimensions of a batch of pictures."""

_WHOLE_SIDES = (64, 128, 192, 256, 384, 512)
"""Sides that can be halved as often as most models do it, and nothing is left over."""

_LEAST_RATIO = 1.8
_MOST_APART = 0.2
"""What one size is of another at least that is twice as long, and by how much proportions differ: padding adds."""


def fails_at_any_size(
    root: Any, recipes: Mapping[str, Recipe], positional: int, outcome: Outcome, limit: float
) -> bool:
    """Return whether a model fails no later, and the same sizes do not fit, with each size of its inputs changed.

    Where others fail earlier, what comes before wants that very size; where they come as far, the sizes that do not fit
    follow from none that was changed. Sizes that are equal are also changed together, and those of two inputs that may
    be joined. Where there are several inputs, the sizes have to be known, or what is said has to name them.

    Args:
        root: The model.
        recipes: What was passed to it.
        positional: How many of them by position.
        outcome: How that ended.
        limit: The processor time of this process at which a trial is broken off.
    """
    said = str(outcome.error)
    met = None if _DIMENSIONS.search(said) else disagreement(outcome)
    are_told = (met is not None or re.search(r"\d", said) is not None) and not _RANKS.search(said)
    if not (_SIZES.search(said) or met) or (not are_told and len(tensors_in(recipes)) > 1):
        return False
    for number, changed in enumerate(_changed(recipes)):
        if number == _MOST_TRIALS:
            return False
        found = probe(root, changed, positional, limit)
        if _may_fit(found, outcome):
            return False
        if found.where != outcome.where:
            continue
        if met is None:
            if str(found.error) != said:
                return False
        elif disagreement(found) != met:
            return False
    return next(_changed(recipes), None) is not None


def is_out_of_reach(root: Any, recipes: Mapping[str, Recipe], positional: int, outcome: Outcome, limit: float) -> bool:
    """Return whether a size that does not fit grows in steps with one of the inputs, and steps over what is wanted.

    Patches of 16 × 16 points have 256 times as many numbers as there are channels, so never 769. No other size of the
    inputs may change it, and none let the model come further.

    Args:
        root: The model.
        recipes: What was passed to it.
        positional: How many of them by position.
        outcome: How that ended.
        limit: The processor time of this process at which a trial is broken off.
    """
    met, tensors = disagreement(outcome), tensors_in(recipes)
    if met is None or sum(len(part.shape) for _, _, part in tensors) > _MOST_SIZES:
        return False
    made, wanted = met
    steps: list[bool] = []
    for name, place, part in tensors:
        for dim, size in enumerate(part.shape):
            shapes = [(*part.shape[:dim], size + more, *part.shape[dim + 1 :]) for more in (1, size, 2 * size)]
            parts = (with_part(recipes[name], place, part.with_shape(each)) for each in shapes)
            sizes = _made_with(root, [{**recipes, name: each} for each in parts], positional, outcome, limit)
            if sizes is None:
                return False
            if any(each != made for each in sizes):
                each, *others = sizes
                step = each - made
                if others != [made + size * step, made + 2 * size * step] or step < 1:
                    return False
                steps.append((wanted - made) % step > 0 or made + (1 - size) * step > wanted)
    return steps == [True]


def is_of_dimensions(outcome: Outcome) -> bool:
    """Whether a trial ended with what is said of how many dimensions something has, whatever their sizes."""
    return _OF_DIMENSIONS.search(str(outcome.error)) is not None


def comes_further_flat(
    root: Any, recipes: Mapping[str, Recipe], positional: int, outcome: Outcome, limit: float
) -> bool:
    """Return whether a model comes further if several inputs lack the second dimension that they have in common.

    What is joined along its second dimension are then vectors, and no sequences of such.

    Args:
        root: The model.
        recipes: What was passed to it.
        positional: How many of them by position.
        outcome: How that ended.
        limit: The processor time of this process at which a trial is broken off.
    """
    alike: dict[int, list[tuple[str, Place, TensorRecipe]]] = {}
    for each in tensors_in(recipes):
        if 1 < len(each[2].shape) < _PICTURES:
            alike.setdefault(each[2].shape[1], []).append(each)
    for several in alike.values():
        made: dict[str, Recipe] = dict(recipes)
        for name, place, part in several if len(several) > 1 else ():
            made[name] = with_part(made[name], place, part.with_shape((part.shape[0], *part.shape[2:])))
        if len(several) > 1:
            found = probe(root, made, positional, limit)
            if found.accepted or found.calls > outcome.calls:
                return True
    return False


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
    shape = _shape_of_only(recipes)
    if not is_of_pictures(shape):
        return False
    met = _met_with(root, _with_sides(recipes, _SIDES), positional, limit)
    if _grow(met) and _are_in_proportion(_ratios(met)):
        return True
    # Of other sides something may be left over before.
    whole = _met_with(root, _with_sides(recipes, _WHOLE_SIDES), positional, limit)
    return _grow(whole) and len({*_ratios(whole)}) == 1


def stays_apart(root: Any, recipes: Mapping[str, Recipe], positional: int, limit: float) -> bool:
    """Return whether two sizes that do not fit follow from the length of the only input, and always differ by as much.

    Args:
        root: The model.
        recipes: What was passed to it.
        positional: How many of them by position.
        limit: The processor time of this process at which a trial is broken off.
    """
    for dim in range(1, len(_shape_of_only(recipes))):
        others = [_with_length(recipes, dim, length) for length in _LENGTHS]
        met = _met_with(root, others, positional, limit)
        if _grow(met) and len({one - other for one, other in met}) == 1:
            return True
    return False


def fails_at_any_length(
    root: Any, recipes: Mapping[str, Recipe], positional: int, outcome: Outcome, limit: float
) -> bool:
    """Return whether a model comes no further with its only input in any length; those that it names are tried.

    Args:
        root: The model.
        recipes: What was passed to it.
        positional: How many of them by position.
        outcome: How that ended.
        limit: The processor time of this process at which nothing more is tried.
    """
    shape = _shape_of_only(recipes)
    if not 1 < len(shape) < _PICTURES or not _is_of_values(outcome):
        return False
    for dim in range(1, len(shape)):
        lengths = list(_ALL_LENGTHS)
        for length in lengths:  # It grows meanwhile.
            found = probe(root, _with_length(recipes, dim, length), positional, limit)
            if _may_fit(found, outcome):
                return False
            if found.where == outcome.where:
                if not _is_of_values(found) or len(lengths) > _MOST_LENGTHS:
                    return False
                said = {int(each) for each in re.findall(r"\d+", str(found.error))}
                lengths += sorted(said.difference(lengths, {0}))
    return True


def with_other_sizes(
    root: Any, recipes: Mapping[str, Recipe], positional: int, limit: float
) -> Iterator[tuple[dict[str, Recipe], bool]]:
    """Yield inputs with one size changed, or several that are equal, and whether a model runs on them.

    Args:
        root: The model.
        recipes: What it runs on.
        positional: How many of them are passed by position.
        limit: The processor time of this process at which nothing more is tried.
    """
    for changed in itertools.islice(_changed(recipes), _MOST_TRIALS):
        if time.process_time() > limit:
            return
        found = probe(root, changed, positional, limit)
        if not isinstance(found.error, TimeoutError):
            yield changed, found.accepted


def with_size_changed(recipes: Mapping[str, Recipe], size: int, other: int) -> Iterator[dict[str, Recipe]]:
    """Yield inputs as they are, with all sizes of one number changed to another, and with each of them by itself.

    Last come those whose pictures have as many times the sides as the other is of the one: there are patches of them.
    """
    tensors = tensors_in(recipes)
    places = [(i, dim) for i, (_, _, part) in enumerate(tensors) for dim, each in enumerate(part.shape) if each == size]
    for changed in ([], places, *([each] for each in places)):
        made: dict[str, Recipe] = dict(recipes)
        for index in dict.fromkeys(index for index, _ in changed):
            name, place, part = tensors[index]
            shape = tuple(other if (index, dim) in changed else each for dim, each in enumerate(part.shape))
            made[name] = with_part(made[name], place, part.with_shape(shape))
        yield made
    sides = {part.shape[-1] for _, _, part in tensors if is_of_pictures(part.shape)}
    if len(sides) == 1 and size:
        yield from _with_sides(recipes, [side * other // size for side in sides])


def _may_fit(found: Outcome, outcome: Outcome) -> bool:
    """Whether a trial fits, comes further than another, or took too long to tell."""
    return found.accepted or isinstance(found.error, TimeoutError) or found.calls > outcome.calls


def _made_with(
    root: Any, others: Iterable[Mapping[str, Recipe]], positional: int, outcome: Outcome, limit: float
) -> list[int] | None:
    """Return the size that does not fit with each of some inputs that come as far as others did.

    It is None where some may fit, or another size is wanted there.
    """
    met, sizes = disagreement(outcome), list[int]()
    for recipes in others:
        found = probe(root, recipes, positional, limit)
        if _may_fit(found, outcome):
            return None
        if found.where == outcome.where:
            pair = disagreement(found)
            if pair is None or met is None or pair[1] != met[1]:
                return None
            sizes.append(pair[0])
    return sizes


def _is_of_values(outcome: Outcome) -> bool:
    """Whether a trial ended with two values that do not go together."""
    said = str(outcome.error)
    return are_of_two_sizes(said) or _OF_VALUES.search(said) is not None


def _shape_of_only(recipes: Mapping[str, Recipe]) -> tuple[int, ...]:
    """Return the shape of the only tensor among inputs, () where there are several."""
    tensors = tensors_in(recipes)
    return tensors[0][2].shape if len(tensors) == 1 else ()


def _with_sides(recipes: Mapping[str, Recipe], sides: Iterable[int]) -> Iterator[dict[str, Recipe]]:
    """Yield inputs whose pictures all have both sides of one length, for each of some lengths."""
    for side in sides:
        made: dict[str, Recipe] = dict(recipes)
        for name, place, part in tensors_in(recipes):
            if is_of_pictures(part.shape):
                made[name] = with_part(
                    made[name], place, part.with_shape((*part.shape[:2], *(side for _ in part.shape[2:])))
                )
        yield made


def _with_length(recipes: Mapping[str, Recipe], dim: int, length: int) -> dict[str, Recipe]:
    """Return inputs with another size of their only tensor in one dimension."""
    shape = _shape_of_only(recipes)
    return with_shape(recipes, (*shape[:dim], length, *shape[dim + 1 :]))


def _met_with(root: Any, others: Iterable[Mapping[str, Recipe]], positional: int, limit: float) -> list[Disagreement]:
    """Return the two sizes that do not fit with each of some inputs, all at one place of a model.

    There are none where some inputs fit, or fail in another way.
    """
    places = set[str]()
    met: list[tuple[int, int]] = []
    for recipes in others:
        found = probe(root, recipes, positional, limit)
        sizes = disagreement(found)
        places.add(found.where)
        if sizes is None or len(places) > 1:
            return []
        met.append(sizes)
    return met


def _grow(met: list[tuple[int, int]]) -> bool:
    """Whether both of two sizes that do not fit are others each time."""
    return bool(met) and len(dict(met)) == len({other for _, other in met}) == len(met)


def _ratios(met: list[tuple[int, int]]) -> list[float]:
    return [max(pair) / min(pair) for pair in met]


def _are_in_proportion(ratios: list[float]) -> bool:
    """Whether of two sizes one is so many times the other, the same each time but for what padding adds."""
    return min(ratios) > _LEAST_RATIO and max(ratios) - min(ratios) < _MOST_APART


def _changed(recipes: Mapping[str, Recipe]) -> Iterator[dict[str, Recipe]]:
    """Yield inputs with another size: one after the other, those that are equal together, and as much of two."""
    tensors = tensors_in(recipes)
    sizes = {
        (index, dim): size
        for index, (_, _, part) in enumerate(tensors)
        for dim, size in enumerate(part.shape)
        if dim or size != BATCH
    }
    alike: dict[int, list[tuple[int, int]]] = {}
    for place, size in sizes.items():
        alike.setdefault(size, []).append(place)
    others: list[dict[tuple[int, int], int]] = []
    for places in [[each] for each in sizes] + [each for each in alike.values() if len(each) > 1]:
        others += [dict.fromkeys(places, 2 * sizes[places[0]]), dict.fromkeys(places, sizes[places[0]] + 1)]
    for changes in (*others, *_shared([part.shape for _, _, part in tensors])):
        made: dict[str, Recipe] = dict(recipes)
        for index in dict.fromkeys(index for index, _ in changes):
            name, place, part = tensors[index]
            shape = tuple(changes.get((index, dim), size) for dim, size in enumerate(part.shape))
            made[name] = with_part(made[name], place, part.with_shape(shape))
        yield made


def _shared(shapes: Sequence[tuple[int, ...]]) -> Iterator[dict[tuple[int, int], int]]:
    """Yield other sizes that come to the same together, for each two inputs that may be joined: one gives the other."""
    for (i, one), (j, other) in itertools.combinations(enumerate(shapes), 2):
        differing = [dim for dim, pair in enumerate(zip(one, other, strict=False)) if dim and len({*pair}) > 1]
        if len(one) != len(other) or one[:1] != other[:1] or len(differing) > 1:
            continue
        for dim in differing or range(1, len(one)):
            both = one[dim] + other[dim]
            for share in {both // 2, one[dim] + (1 if one[dim] < other[dim] else -1)} - {one[dim], other[dim], 0}:
                yield {(i, dim): share, (j, dim): both - share}

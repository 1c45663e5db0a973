"""From a failed trial to better inputs: what the operation that raised wanted, and which input it was given.

The numbers come from the operation itself (the weight that did not fit) rather than from its message wherever there is
one; the part of the inputs to blame comes from the account that the trial keeps of what was computed from what. What
messages and the code around them say is read by ``complaints`` and ``scenes``.
"""

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it.
from torch import Tensor
from torch.nn.parameter import is_lazy

from fxengine.inputs.accounts import Operation, Sources
from fxengine.inputs.clues import BATCH, Clues
from fxengine.inputs.complaints import by_message
from fxengine.inputs.moves import Assignment, Change, Moves
from fxengine.inputs.operands import factors, joined, summed
from fxengine.inputs.probe import Outcome
from fxengine.inputs.proposals import Proposer
from fxengine.inputs.recipes import (
    Listing,
    Place,
    Recipe,
    Record,
    TensorRecipe,
    leaves,
    with_part,
)
from fxengine.inputs.scenes import by_scene

__all__ = ["Change", "repairs"]

_ALONE = 0.3
"""What it costs to change one item of a list alone whose items were equal."""

_LARGEST_LEVEL, _LARGEST_VOLUME, _SMALLEST_LEVEL = 64, 16, 4
"""The sides of the first of several pictures, or volumes, of features, and of the last where there are many."""

_OF_PICTURES, _OF_VOLUMES = 4, 5
"""How many dimensions a batch of pictures has, and one of volumes."""

_TIMES = ({2.0}, {4.0}, {8.0})
"""How many times as large pictures of features are as those of other levels."""

_AS_BATCH = 0.6
_RAISED = 0.3
"""What it costs to make a size equal to that of the batch of what has fewer dimensions, and to give it those."""

_ROWS = 2
"""How many dimensions a batch of rows has."""

_IN_STEPS = 0.3
"""What it costs to change a side by as many steps of a layer as what came out of it is off."""

_SOUND = 16000
"""Samples of sound, which is what sequences of one or two channels mostly are."""

_CONVOLUTIONS: Mapping[Callable[..., Any], int] = {
    torch.conv1d: 1,
    torch.conv2d: 2,
    torch.conv3d: 3,
    F.conv1d: 1,
    F.conv2d: 2,
    F.conv3d: 3,
}
_TRANSPOSED: Mapping[Callable[..., Any], int] = {
    F.conv_transpose1d: 1,
    F.conv_transpose2d: 2,
    F.conv_transpose3d: 3,
}
_ADDED = (1, 2, 4)
"""How many entries a table may have for what is no item: for what fills up, begins or ends."""

_LINEAR = frozenset({F.linear})
_RANKS_OF_PRODUCTS = {torch.bmm: 3, Tensor.bmm: 3, torch.mm: 2, Tensor.mm: 2}
"""Products that take factors of one rank alone."""

_MATMUL = frozenset({torch.matmul, Tensor.matmul, Tensor.__matmul__, Tensor.__rmatmul__, *_RANKS_OF_PRODUCTS})
_EMBEDDING = frozenset({F.embedding, torch.embedding, F.embedding_bag})
_VIEWS = frozenset({Tensor.view, Tensor.reshape, torch.reshape})
_JOINS = frozenset({torch.cat, torch.concat, torch.concatenate, torch.stack})
_SELECTIONS = frozenset({torch.index_select, Tensor.index_select, torch.gather, Tensor.gather})
_BY_VECTOR = frozenset({torch.index_select, Tensor.index_select})
_NORMS = frozenset({F.layer_norm, F.rms_norm, F.batch_norm, F.group_norm, F.instance_norm})


def repairs(recipes: Assignment, outcome: Outcome, clues: Clues, proposer: Proposer) -> Iterator[Change]:
    """Yield changed assignments that answer the complaint of ``outcome``, the most promising first."""
    moves = Moves(recipes, outcome, clues)
    if outcome.operation is not None:
        yield from _with_siblings(moves, _safely(by_operation(moves, outcome.operation)))
        yield from moves.lengthened(0.3)
    yield from _with_siblings(moves, _safely(by_scene(moves, proposer)), of_pictures=False)
    yield from _with_siblings(moves, _safely(by_message(moves, outcome.said, proposer)), of_pictures=False)
    yield from by_guess(moves)


def _safely(changes: Iterator[Change]) -> Iterator[Change]:
    """Yield changes until thinking of one raises: what stands in the frames is the user's, and may when it is read."""
    with contextlib.suppress(Exception):
        yield from changes


def _with_siblings(moves: Moves, changes: Iterator[Change], *, of_pictures: bool = True) -> Iterator[Change]:
    """Yield changes, before one of a part the same of all that are like it: items of a list, entries, pictures."""
    listed = {name for name, recipe in moves.recipes.items() if isinstance(recipe, Listing) and len(recipe.items) > 1}
    for change in changes:
        whole = dict(change.recipes)
        if of_pictures:
            whole = {name: _like_its_equal(moves, change.recipes, name) for name in change.recipes}
        whole = {name: _as_beside(moves.recipes.get(name), recipe, name) for name, recipe in whole.items()}
        for name in listed & whole.keys():
            recipe, changed = moves.recipes[name], whole[name]
            if isinstance(recipe, Listing) and isinstance(changed, Listing) and recipe.is_of_equals:
                others = [item for item in changed.items if item != recipe.items[0]]
                if len(others) == 1 and len(recipe.items) == len(changed.items) > 1:
                    whole[name] = replace(changed, items=(others[0],) * len(changed.items))
        if whole != change.recipes:
            yield Change(whole, change.cost)
            change = replace(change, cost=change.cost + _ALONE)  # noqa: PLW2901 - the same, later.
        yield change


def _as_beside(old: Recipe | None, new: Recipe, name: str) -> Recipe:
    """Return a changed dictionary, with all entries in the shape of the changed one that had the same as it."""
    if not isinstance(old, Record) or not isinstance(new, Record) or old == new:
        return new
    before, after = dict(leaves(old, (name,))), dict(leaves(new, (name,)))
    changed = [place for place, part in before.items() if after.get(place) != part]
    one, other = (each.get(changed[0]) for each in (before, after)) if len(changed) == 1 else (None, None)
    if not isinstance(one, TensorRecipe) or not isinstance(other, TensorRecipe) or one.shape == other.shape:
        return new
    for place, part in before.items():
        if isinstance(part, TensorRecipe) and part.shape == one.shape and len(part.shape) > 1 and place != changed[0]:
            new = with_part(new, place[1:], part.with_shape(other.shape, other.because))
    return new


def _like_its_equal(moves: Moves, changed: Assignment, name: str) -> Recipe:
    """Return the recipe of a parameter, changed as that of another picture of the same shape was, if one was."""
    old = moves.recipes.get(name)
    if changed[name] == old and isinstance(old, TensorRecipe) and len(old.shape) >= 4:
        for other, new in changed.items():
            before = moves.recipes.get(other)
            if (
                new != before
                and isinstance(before, TensorRecipe)
                and before.like(old)
                and isinstance(new, TensorRecipe)
            ):
                return new
    return changed[name]


def by_operation(moves: Moves, operation: Operation) -> Iterator[Change]:
    """Compare what the operation got with what its weights ask for."""
    function = operation.function
    if any(isinstance(each, Tensor) and is_lazy(each) for each in (*operation.args, *operation.kwargs.values())):
        return  # They ask for whatever they are given first.
    rule = next((rule for functions, rule in _RULES if function in functions), None)
    if rule is not None:
        yield from rule(moves, operation)
    elif len(operation.tensors) >= 2:
        if function in _JOINS:
            yield from _alike(moves, operation)
            yield from joined(moves, operation)
        yield from _disagreement(moves, operation)


def _convolution(moves: Moves, operation: Operation) -> Iterator[Change]:
    arguments: dict[str, Any] = dict(
        zip(("input", "weight", "bias", "stride", "padding"), operation.args, strict=False)
    )
    arguments.update(operation.kwargs)
    given, weight = arguments.get("input"), arguments.get("weight")
    if not isinstance(given, Tensor) or not isinstance(weight, Tensor) or not operation.sources:
        return
    spatial = _CONVOLUTIONS.get(operation.function) or _TRANSPOSED[operation.function]
    if weight.dim() != spatial + 2:
        return  # It is an input as well.
    groups = operation.kwargs.get("groups", operation.args[6] if len(operation.args) > 6 else 1)
    transposed = operation.function in _TRANSPOSED
    wanted = weight.shape[0] if transposed else weight.shape[1] * (groups if isinstance(groups, int) else 1)
    places = operation.sources[0]
    if given.dim() != spatial + 2:
        height, width = moves.clues.image_sizes[0]
        length = 64 if wanted > 2 else _SOUND
        sides = {1: (length,), 2: (height, width), 3: (moves.clues.frames, height, width)}[spatial]
        for place, _ in moves.among(places):
            yield moves.put(place, TensorRecipe((BATCH, wanted, *sides)), 0.5)
        yield from moves.rerank(places, given.dim(), spatial + 2)
        return
    if not given.is_floating_point():
        yield from moves.floating(places)
    if given.shape[1] != wanted:
        yield from moves.resize(places, given.shape[1], wanted)
        yield from moves.joined(places, given.shape[1], wanted, 1 - given.dim(), 0.5)
        yield from moves.several(places, 1, given.shape[1], wanted, 0.3)
        if wanted in given.shape[2:]:  # Channels last.
            yield from _channels_first(moves, places, given.shape.index(wanted, 2))
    yield from moves.grow(places)


def _viewed(moves: Moves, operation: Operation) -> Iterator[Change]:
    """Give steps to what has none, a row for each of a batch, where the code takes each step apart, as into heads."""
    given, *sizes = operation.args
    asked = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], tuple | list) else sizes
    if isinstance(given, Tensor) and given.dim() == _ROWS and len(asked) > _ROWS + 1 and asked[0] == given.shape[0]:
        yield from moves.rerank(operation.sources[0], _ROWS, _ROWS + 1, 0.0)


def _channels_first(moves: Moves, places: Sources, dimension: int) -> Iterator[Change]:
    for place, recipe in moves.among(places):
        if dimension < len(recipe.shape):
            shape = list(recipe.shape)
            shape.insert(1, shape.pop(dimension))
            yield moves.reshape(place, shape, 0.4)


def _linear(moves: Moves, operation: Operation) -> Iterator[Change]:
    if len(operation.args) < 2:
        return
    given, weight = operation.args[0], operation.args[1]
    if not isinstance(given, Tensor) or not isinstance(weight, Tensor):
        return
    if not given.is_floating_point():
        yield from moves.floating(operation.sources[0])
    if not given.dim() or not weight.dim() or given.shape[-1] == weight.shape[-1]:
        return
    places, got, wanted = operation.sources[0], given.shape[-1], weight.shape[-1]
    yield from moves.spread(got, wanted, 0.2)
    yield from moves.lined_up(places, 0.1) if given.dim() == 1 else moves.unflattened(places, got, wanted, 0.4)
    yield from moves.divided(places, got, wanted, 0.4)
    yield from moves.resize(places, got, wanted)
    yield from moves.joined(places, got, wanted, moves.joined_along(places, got), 0.5)


def _embedding(moves: Moves, operation: Operation) -> Iterator[Change]:
    tables = [tensor for tensor in operation.tensors if tensor.is_floating_point() and tensor.dim() == 2]
    high = tables[-1].shape[0] if tables else moves.clues.vocabulary
    are_numbers = all(tensor.is_floating_point() for tensor in operation.tensors)
    for place, recipe in moves.among(frozenset().union(*operation.sources)):
        if recipe.fill != "integers":
            if not are_numbers and recipe.dtype.is_floating_point:  # Columns of numbers, some of which are codes.
                yield moves.put(place, replace(recipe, fill="integers", high=high), 0.1)
            shapes = [recipe.shape] if len(recipe.shape) <= 2 else [(BATCH, moves.clues.lengths[0])]
            for shape in [*shapes, (BATCH,), ()]:
                yield moves.put(place, TensorRecipe(shape, "integers", torch.int64, high), 0.2)
        elif recipe.high > high:
            yield moves.put(place, replace(recipe, high=high), 0.0)
        else:
            # As many numbers more were added to them as there are entries for what is no item.
            for cost, added in enumerate(each for each in _ADDED if each < recipe.high):
                yield moves.put(place, replace(recipe, high=recipe.high - added), 0.1 + 0.1 * cost)


def _index(moves: Moves, operation: Operation) -> Iterator[Change]:
    """``rows[index]``: a list of rows, as long as others that choose rows of this tensor or of another; or a mask."""
    given, *indices = operation.tensors
    if not isinstance(operation.args[0], Tensor) or not given.dim():
        return
    if _is_of_mask(operation):
        yield from _masked(moves, operation)
        return
    known = [recipe.shape for _, recipe in moves.tensors() if recipe.fill == "integers" and len(recipe.shape) == 1]
    for index, places in zip(indices, operation.sources[1:], strict=True):
        for place, recipe in moves.among(places) if index.is_floating_point() else ():
            shape = known[0] if known else (moves.clues.lengths[0],)
            yield moves.put(place, TensorRecipe(shape, "integers", torch.int64, given.shape[0]), 0.1)
            yield moves.put(place, moves.as_integers(recipe, given.shape[0]), 0.3)


def _assigned(moves: Moves, operation: Operation) -> Iterator[Change]:
    """``rows[mask] = value``: a mask as for what is taken; otherwise what is assigned is to fit where it is put."""
    yield from (_masked if _is_of_mask(operation) else _disagreement)(moves, operation)


def _is_of_mask(operation: Operation) -> bool:
    """Whether rows are taken of a tensor, or assigned, by a mask."""
    given, index = operation.args[:2]
    return isinstance(given, Tensor) and isinstance(index, Tensor) and index.dtype is torch.bool


def _masked(moves: Moves, operation: Operation) -> Iterator[Change]:
    """``rows[mask]``: as many flags as there are rows, or rows as there are flags, in each dimension of the mask."""
    (given, mask), (places, others) = operation.tensors[:2], operation.sources[:2]
    for size, wanted in zip(mask.shape, given.shape, strict=False):
        if size != wanted:
            yield from moves.resize(others - places, size, wanted)
            yield from moves.resize(places - others, wanted, size)
    if mask.dim() > given.dim():
        yield from moves.rerank(others - places, mask.dim(), given.dim())


def _select(moves: Moves, operation: Operation) -> Iterator[Change]:
    """``index_select(rows, 0, index)``: numbers of parts, of as many as there are."""
    if len(operation.tensors) < 2 or not operation.tensors[0].dim():
        return
    given, index = operation.tensors[:2]
    if operation.function not in _BY_VECTOR and given.dim() != index.dim():
        yield from _like_its_index(moves, operation)
    known = [each for each in (*operation.args, *operation.kwargs.values()) if type(each) is int]
    dimension = known[0] if known and -given.dim() <= known[0] < given.dim() else 0
    for place, recipe in moves.among(operation.sources[1]):
        if operation.function in _BY_VECTOR and index.dim() > 1:
            yield moves.put(place, moves.as_integers(recipe.with_shape(recipe.shape[:1]), given.shape[dimension]), 0.1)
        elif not recipe.dtype.is_floating_point and index.dtype is not torch.bool:
            yield moves.put(place, replace(recipe, high=min(recipe.high, given.shape[dimension])), 0.1)
        else:
            yield moves.put(place, moves.as_integers(recipe, given.shape[dimension]), 0.1)


def _like_its_index(moves: Moves, operation: Operation) -> Iterator[Change]:
    """Give what is gathered from the shape, or as many dimensions, of what the places to gather were computed from."""
    given, index = operation.tensors[:2]
    places, others = operation.sources[:2]
    for place, _ in moves.among(places - others):
        for shape in dict.fromkeys(recipe.shape for _, recipe in moves.among(others)):
            if len(shape) == index.dim():
                yield moves.reshape(place, shape, 0.05)
    yield from moves.rerank(places - others, given.dim(), index.dim(), 0.1)


def _attended(moves: Moves, operation: Operation) -> Iterator[Change]:
    """Queries, keys and values are floating point numbers."""
    whole = [
        places
        for tensor, places in zip(operation.tensors[:3], operation.sources, strict=False)
        if not tensor.is_floating_point()
    ]
    if whole:
        yield from moves.floating(frozenset[Place]().union(*whole), 0.1)
    yield from _disagreement(moves, operation)


def _one_hot(moves: Moves, operation: Operation) -> Iterator[Change]:
    """Numbers of fewer classes, where it is said how many there are."""
    classes = next((each for each in (*operation.args[1:], *operation.kwargs.values()) if type(each) is int), 0)
    for place, recipe in moves.among(frozenset().union(*operation.sources)):
        if 0 < classes < recipe.high and recipe.fill == "integers":
            yield moves.put(place, replace(recipe, high=classes), 0.0)


def _best(moves: Moves, operation: Operation) -> Iterator[Change]:
    """``topk(100)`` of fewer: as many times as many as it takes, in one dimension of what they were made of."""
    arguments: dict[str, Any] = {**dict(zip(("input", "k", "dim"), operation.args, strict=False)), **operation.kwargs}
    given, count, dimension = (arguments.get(key, -1) for key in ("input", "k", "dim"))
    if type(count) is not int or type(dimension) is not int or not isinstance(given, Tensor) or not given.dim():
        return
    size = given.shape[dimension % given.dim()]
    times = -(-count // size) if size else 0
    for place, recipe in moves.among(operation.sources[0]) if times > 1 else ():
        for step, index in enumerate(range(1, len(recipe.shape))):
            shape = (*recipe.shape[:index], times * recipe.shape[index], *recipe.shape[index + 1 :])
            yield moves.reshape(place, shape, 0.2 + 0.1 * step)


def _norm(moves: Moves, operation: Operation) -> Iterator[Change]:
    given = operation.args[0] if operation.args else None
    others = [tensor for tensor in operation.tensors[1:] if tensor.dim()]
    if not isinstance(given, Tensor) or not given.dim():
        return
    places = operation.sources[0]
    if not given.is_floating_point():
        yield from moves.floating(places)
    if operation.function in {F.layer_norm, F.rms_norm}:
        shape = operation.args[1] if len(operation.args) > 1 else operation.kwargs.get("normalized_shape", ())
        wanted = tuple(shape) if not isinstance(shape, int) else (shape,)
        if wanted and given.shape[-1] != wanted[-1]:
            yield from moves.resize(places, given.shape[-1], wanted[-1])
            if wanted[-1] in given.shape[1:-1]:
                for place, recipe in moves.among(places):
                    if wanted[-1] in recipe.shape[1:-1]:
                        moved = list(recipe.shape)
                        moved.append(moved.pop(moved.index(wanted[-1], 1)))
                        yield moves.reshape(place, moved, 0.3)
        return
    axis = min(1, given.dim() - 1)
    if others and given.shape[axis] != others[0].shape[-1]:
        yield from moves.resize(places, given.shape[axis], others[0].shape[-1])
        yield from moves.joined(places, given.shape[axis], others[0].shape[-1], axis - given.dim(), 0.5)


def _matmul(moves: Moves, operation: Operation) -> Iterator[Change]:
    if len(operation.tensors) < 2:
        return
    first, second = operation.tensors[:2]
    if first.is_floating_point() != second.is_floating_point():
        yield from moves.floating(operation.sources[1 if first.is_floating_point() else 0])
    rank = _RANKS_OF_PRODUCTS.get(operation.function)
    if rank is not None and not first.dim() == second.dim() == rank:
        yield from factors(moves, operation, rank)
    elif first.dim() and second.dim() > 1 and first.shape[-1] != second.shape[-2]:
        inner, outer = first.shape[-1], second.shape[-2]
        yield from moves.resize(operation.sources[0], inner, outer)
        yield from moves.resize(operation.sources[1], outer, inner)
    elif first.dim() and second.dim() == 1 and first.shape[-1] != second.shape[0]:
        yield from moves.resize(operation.sources[0], first.shape[-1], second.shape[0])
        yield from moves.resize(operation.sources[1], second.shape[0], first.shape[-1])
    elif first.dim() and second.dim() > 1:
        yield from _disagreement(moves, operation)


def _alike(moves: Moves, operation: Operation) -> Iterator[Change]:
    """Inputs that are joined as they are: all like one of them, but for the size that may differ."""
    dimension = operation.kwargs.get("dim", operation.args[1] if len(operation.args) > 1 else 0)
    found = list(zip(operation.tensors, operation.sources, strict=True))
    for cost, shape in enumerate(sorted({tuple(tensor.shape) for tensor, _ in found}, key=len, reverse=True)):
        parts: dict[Place, Recipe] = {}
        for tensor, places in found:
            for place, recipe in moves.among(places) if len(places) == 1 else ():
                if recipe.shape == tensor.shape:
                    sizes = list(shape)
                    is_own = isinstance(dimension, int) and -len(sizes) <= dimension < len(sizes) == tensor.dim()
                    if is_own and operation.function is not torch.stack:
                        sizes[dimension] = tensor.shape[dimension]
                    parts[place] = recipe.with_shape(tuple(sizes), moves.because)
        if parts:
            yield moves.change(parts, 0.1 + 0.1 * cost)


def _disagreement(moves: Moves, operation: Operation) -> Iterator[Change]:
    """Two tensors that should broadcast, or be joined: bring the input's one to the size of the other."""
    for (first, first_places), (second, second_places) in _pairs(operation.tensors, operation.sources):
        yield from _levelled(moves, first, second)
        yield from _in_sequence(moves, first, first_places, second if not second_places else None)
        yield from _in_sequence(moves, second, second_places, first if not first_places else None)
        for back, (a, b) in enumerate(zip(reversed(first.shape), reversed(second.shape), strict=False), 1):
            if a == b or 1 in {a, b} or first_places == second_places:
                continue
            cost = 0.0
            if first_places and second_places and _meets_batch(first, second, back):
                cost = _AS_BATCH
                yield from _raised(moves, (first, first_places), (second, second_places))
            yield from moves.resize(first_places - second_places or first_places, a, b, cost)
            yield from moves.resize(second_places - first_places or second_places, b, a, cost)
            yield from moves.stepped(first_places - second_places, back, a, b, _IN_STEPS)
            yield from moves.stepped(second_places - first_places, back, b, a, _IN_STEPS)
            if min(a, b) > 0 and max(a, b) % min(a, b) == 0 and max(a, b) in {first.shape[0], second.shape[0]}:
                yield from _unbatched(moves, first_places if a > b else second_places)
            if len(first_places) > 1:
                yield from moves.scale(first_places, a, b, 0.5)
                yield from moves.joined(first_places, a, b, -back, 0.4)
            if len(second_places) > 1:
                yield from moves.scale(second_places, b, a, 0.5)
                yield from moves.joined(second_places, b, a, -back, 0.4)
        if first_places & second_places and first.dim() == second.dim() >= 3:
            yield from _evened(moves)
        if first.dim() != second.dim():
            yield from moves.rerank(first_places - second_places, first.dim(), second.dim())
            yield from moves.rerank(second_places - first_places, second.dim(), first.dim())
        yield from _same_shape(moves, first_places, second_places)


def _levelled(moves: Moves, first: Tensor, second: Tensor) -> Iterator[Change]:
    """Several pictures of features: each with sides half as long as those of the one before, or twice as long.

    So it is where the one picture that met another was exactly so many times as large.
    """
    ratios = {max(pair) / max(1, min(pair)) for pair in zip(first.shape[-2:], second.shape[-2:], strict=False)}
    for name in moves.recipes if min(first.dim(), second.dim()) > 2 and ratios - {1.0} in _TIMES else ():
        parts = {place: part for place, part in moves.parts.items() if place[0] == name and len(place) > 1}
        levels = {place: part for place, part in parts.items() if isinstance(part, TensorRecipe) and _is_picture(part)}
        if len(levels) < max(2, len(parts)):
            continue
        most = _LARGEST_VOLUME if any(len(part.shape) == _OF_VOLUMES for part in levels.values()) else _LARGEST_LEVEL
        largest = max(most, _SMALLEST_LEVEL << (len(levels) - 1))
        sides = [largest >> index for index in range(len(levels))]
        for cost, order in enumerate((sides, sides[::-1])):
            smaller: dict[Place, Recipe] = {
                place: _with_sides(part, side) for (place, part), side in zip(levels.items(), order, strict=True)
            }
            yield moves.change(smaller, 0.05 + 0.2 * cost)


def _in_sequence(moves: Moves, given: Tensor, places: Sources, table: Tensor | None) -> Iterator[Change]:
    """A picture that nothing was done to, and that meets a table of vectors: a sequence of such, as of positions.

    The table has as many as there are steps, or is cut to that. A whole one without a batch may be of pixels.
    """
    if table is None or table.dim() not in {2, 3} or given.dim() < _OF_PICTURES:
        return
    *others, steps, width = table.shape
    is_cut = steps in {1, *given.shape[:2]} and {*others} <= {1, *given.shape[:2]}
    if width in {1, given.shape[-1]} or not (is_cut or others == [1]):
        return
    for place, recipe in moves.among(places):
        if recipe.shape == given.shape:
            yield moves.reshape(place, (BATCH, moves.clues.lengths[0] if is_cut else steps, width), 0.05)


def _with_sides(part: TensorRecipe, side: int) -> TensorRecipe:
    """Return a batch of pictures, or of volumes, with such sides."""
    directions = 3 if len(part.shape) == _OF_VOLUMES else 2
    return part.with_shape((BATCH, part.shape[-1 - directions], *[side] * directions))


def _is_picture(part: TensorRecipe) -> bool:
    """Whether a tensor may be a picture of features, or a batch of such, or of volumes."""
    return len(part.shape) in {3, 4, _OF_VOLUMES} and part.dtype.is_floating_point


def _evened(moves: Moves) -> Iterator[Change]:
    """What was halved and doubled again does not fit what was not: a size is odd on the way."""
    for factor in (32, 64, 16):
        yield from moves.together(factor, 0.4)
        yield from moves.multiple(factor, 0.5)


def _meets_batch(first: Tensor, second: Tensor, back: int) -> bool:
    """Whether so many dimensions from the last the batch of one meets what is none of another with more dimensions."""
    lower = min(first, second, key=Tensor.dim)
    return first.dim() != second.dim() and back == lower.dim() and lower.shape[0] == BATCH


def _raised(moves: Moves, *known: tuple[Tensor, Sources]) -> Iterator[Change]:
    """Give what has fewer dimensions as many as what it meets has."""
    (lower, lower_places), (higher, higher_places) = sorted(known, key=lambda each: each[0].dim())
    yield from moves.rerank(lower_places - higher_places, lower.dim(), higher.dim(), _RAISED)


def _unbatched(moves: Moves, places: Sources) -> Iterator[Change]:
    """Give an input a batch of one: the model repeats it as often as it has examples."""
    for place, recipe in moves.among(places):
        if recipe.shape[:1] == (BATCH,) and len(moves.among(places)) == 1:
            yield moves.reshape(place, (1, *recipe.shape[1:]), 0.6)


def _same_shape(moves: Moves, first: Sources, second: Sources) -> Iterator[Change]:
    """Give one of two inputs the shape of the other."""
    for one, other in ((first, second), (second, first)):
        if len(one) == 1 and len(other) == 1 and one != other:
            for place, _ in moves.among(one):
                for _, recipe in moves.among(other):
                    yield moves.reshape(place, recipe.shape, 0.7)


_RULES: Sequence[tuple[Collection[Callable[..., Any]], Callable[[Moves, Operation], Iterator[Change]]]] = (
    (_CONVOLUTIONS, _convolution),
    (_TRANSPOSED, _convolution),
    (_LINEAR, _linear),
    (_VIEWS, _viewed),
    (_EMBEDDING, _embedding),
    (_NORMS, _norm),
    (_MATMUL, _matmul),
    ((torch.einsum,), summed),
    ((Tensor.__getitem__,), _index),
    ((Tensor.__setitem__,), _assigned),
    ((F.one_hot,), _one_hot),
    (_SELECTIONS, _select),
    ((F.scaled_dot_product_attention,), _attended),
    ((torch.topk, Tensor.topk), _best),
)
"""What operations want of what they are given."""


def by_guess(moves: Moves) -> Iterator[Change]:
    """Yield what is usual, where nothing is known."""
    for place, recipe in moves.tensors():
        yield from _usual_sizes(moves, place, recipe)
        for other in (len(recipe.shape) + 1, len(recipe.shape) - 1):
            yield from moves.rank(place, recipe, other, 2.5 if place in moves.blamed else 4.0)
        if recipe.dtype.is_floating_point:
            yield moves.put(place, moves.as_integers(recipe), 4.0)
        else:
            yield moves.put(place, replace(recipe, fill="normal", dtype=torch.float32), 4.0)
    yield from moves.single(3.2)


def _usual_sizes(moves: Moves, place: Place, recipe: TensorRecipe) -> Iterator[Change]:
    clues, shape = moves.clues, recipe.shape
    if len(shape) >= 4:
        for size in clues.image_sizes[:8]:
            yield moves.put(place, recipe.with_shape((*shape[:-2], *size)), 3.0)
        for channels in clues.channels[:4]:
            yield moves.put(place, recipe.with_shape((shape[0], channels, *shape[2:])), 3.5)
    if len(shape) in {2, 3}:
        for length in clues.lengths[:5]:
            yield moves.put(place, recipe.with_shape((*shape[:1], length, *shape[2:])), 3.5)
    if len(shape) == 3:
        yield moves.put(place, recipe.with_shape((shape[0], shape[2], shape[1])), 3.0)


def _pairs(
    tensors: Sequence[Tensor], sources: Sequence[Sources]
) -> list[tuple[tuple[Tensor, Sources], tuple[Tensor, Sources]]]:
    """Return each neighbouring pair of tensors with what they come from."""
    known = list(zip(tensors, sources, strict=True))
    return list(itertools.pairwise(known))[:4]

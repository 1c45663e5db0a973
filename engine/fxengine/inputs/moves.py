"""What can be changed about inputs that did not fit: sizes, ranks, types and kinds of their parts.

A move yields changed assignments, best first, each with what it cost to think of. Moves know nothing of why; rules do.
"""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias

import torch
from torch import Tensor

from fxengine.inputs.accounts import Sources
from fxengine.inputs.clues import BATCH, COORDINATES, Clues
from fxengine.inputs.probe import Outcome
from fxengine.inputs.recipes import Arguments, Fill, Listing, Place, Recipe, TensorRecipe, leaves, with_part

__all__ = ["Assignment", "Change", "Moves"]

Assignment: TypeAlias = Mapping[str, Recipe]

_MAX_SIDE = 2048
_STRIDES = (8, 4, 16, 2, 32)
"""Steps that convolutions and poolings take together."""

_SPATIAL = 2
"""The first dimension of what layers go over in steps."""

_LEAST_PATCH = 2
_LONGEST = 1 << 16
_MAX_RANK = 7
_ADDED = 2
_JOINED = 4
"""How many numbers are joined to a vector, or channels to a picture, that one knows nothing of: places, a mask."""

_MOST_HALVINGS = 4
_LARGEST = 1 << 16
_MOST_ELEMENTS = 1 << 28
_MOST_ARGUMENTS = 16
_MOST_ITEMS = 8


@dataclass(frozen=True, slots=True)
class Change:
    """A new assignment, and what it cost to think of (0 is a certainty)."""

    recipes: Assignment
    cost: float


class Moves:
    """The changes of one assignment.

    Attributes:
        recipes: The assignment.
        outcome: How the trial with it ended.
        clues: What the model says of sizes.
        parts: The parts of the assignment by their places.
    """

    def __init__(self, recipes: Assignment, outcome: Outcome, clues: Clues) -> None:
        self.recipes = recipes
        self.outcome = outcome
        self.clues = clues
        self.parts: dict[Place, Recipe] = {
            place: part for name, recipe in recipes.items() for place, part in leaves(recipe, (name,))
        }
        self.because = f"`{outcome.module}`" if outcome.module else "its first use"

    @cached_property
    def blamed(self) -> Sources:
        """The parts that fed the operation that failed, or the code that raised."""
        operation = self.outcome.operation
        if operation is not None and operation.tensors:
            return frozenset[Place]().union(*operation.sources)
        for moment in self.outcome.moments:
            words = re.findall(r"\w+", moment.source.text)
            known = moment.frame.f_locals
            for values in ([known[word] for word in words if word in known], known.values()):
                places = frozenset[Place]().union(*map(self.of, values))
                if places:
                    return places
        return frozenset()

    @property
    def suspects(self) -> Sources:
        """The parts that are to blame, or all where nothing says which are."""
        return self.blamed or frozenset(self.parts)

    def tensors(self) -> list[tuple[Place, TensorRecipe]]:
        """Return the tensors among the parts, those that fed the failing operation first."""
        blamed = self.blamed
        found = [(place, part) for place, part in self.parts.items() if isinstance(part, TensorRecipe)]
        return sorted(found, key=lambda pair: pair[0] not in blamed) if blamed else found

    def among(self, places: Sources) -> list[tuple[Place, TensorRecipe]]:
        """Return the tensors at ``places``, in the order of the inputs."""
        return [
            (place, part) for place, part in self.parts.items() if place in places and isinstance(part, TensorRecipe)
        ]

    def change(self, parts: Mapping[Place, Recipe], cost: float) -> Change:
        """Return the assignment with other parts at some places."""
        recipes = dict(self.recipes)
        for place, part in parts.items():
            name, *rest = place
            part = part if part.because else replace(part, because=self.because)  # noqa: PLW2901 - the same, explained.
            recipes[str(name)] = with_part(recipes[str(name)], tuple(rest), part) if rest else part
        return Change(recipes, cost)

    def put(self, place: Place, part: Recipe, cost: float) -> Change:
        """Return the assignment with another part at one place."""
        return self.change({place: replace(part, because=self.because)}, cost)

    def reshape(self, place: Place, shape: Sequence[int], cost: float) -> Change:
        """Return the assignment with a tensor in another shape."""
        recipe = self.parts[place]
        assert isinstance(recipe, TensorRecipe)
        sizes = tuple(max(1, min(size, _LARGEST)) for size in shape)
        if math.prod(sizes) > _MOST_ELEMENTS:
            return Change(self.recipes, cost)
        return self.put(place, recipe.with_shape(sizes), cost)

    def resize(self, places: Sources, got: int, wanted: int, cost: float = 0.0) -> Iterator[Change]:
        """Change what is ``got`` long to ``wanted``: directly where the input has that size, else in proportion."""
        direct: dict[Place, Recipe] = {}
        for place, recipe in self.among(places):
            shape = recipe.shape
            dimensions = [each for each in range(len(shape) - 1, -1, -1) if shape[each] == got]
            for dimension in range(1, len(shape)):
                if 0 < abs(shape[dimension] - got) <= _ADDED and wanted != got:  # A token was added, a frame lost.
                    nearby = shape[dimension] + wanted - got
                    yield self.reshape(place, (*shape[:dimension], nearby, *shape[dimension + 1 :]), cost + 0.4)
            last = shape[-1] if len(shape) > 1 else got
            rest = got - last
            if not dimensions and 0 < rest < min(wanted, last):  # Something was joined to it.
                yield self.reshape(place, (*shape[:-1], wanted - rest), cost + 0.45)
            for dimension in sorted(dimensions, key=lambda each: each == 0):
                if len(shape) >= 4 and dimension >= len(shape) - 2 and shape[-1] == shape[-2]:
                    yield self.reshape(place, (*shape[:-2], wanted, wanted), cost + 0.1)
                resized = (*shape[:dimension], wanted, *shape[dimension + 1 :])
                direct.setdefault(place, recipe.with_shape(resized, self.because))
                yield self.reshape(place, resized, cost + 0.2 + self._of_batch(shape, dimension))
            yield from self._of_patches(place, recipe, wanted, cost)
            if dimensions in ([], [0]):
                yield from self._in_proportion(place, recipe, Fraction(wanted, got or wanted or 1), cost)
        if len(direct) > 1 and 0 < wanted <= _LARGEST:
            yield self.change(direct, cost + 0.3)

    def _of_patches(self, place: Place, recipe: TensorRecipe, wanted: int, cost: float) -> Iterator[Change]:
        """Make a picture, or a cube, one of as many patches as there were to be, with or without a token beside."""
        patch = self.clues.patch_sides
        count = len(patch)
        if count != len(recipe.shape) - 2 or min(patch) < _LEAST_PATCH:
            return
        for patches in (max(0, wanted), max(0, wanted - 1)):
            side = round(patches ** (1 / count))
            if side > 1 and side**count == patches:
                sides = tuple(side * each for each in patch)
                yield self.reshape(place, (*recipe.shape[:2], *sides), cost + 0.3)

    def spread(self, got: int, wanted: int, cost: float) -> Iterator[Change]:
        """Pass as many arguments as a size that comes from how many there are: coordinates, say, of so many axes."""
        for name, recipe in self.recipes.items():
            several = isinstance(recipe, Listing) and recipe.type is Arguments and recipe.is_of_equals
            if isinstance(recipe, Listing) and several and len(recipe.items) == got and wanted <= _MOST_ARGUMENTS:
                yield self.put((name,), replace(recipe, items=recipe.items[:1] * wanted), cost)

    def joined(self, places: Sources, got: int, wanted: int, dimension: int, cost: float) -> Iterator[Change]:
        """Let tensors that were joined along a dimension, or one of them, make up for what is missing, or too much."""
        found = self.among(places)
        if len(found) > 1 and all(-len(recipe.shape) <= dimension < len(recipe.shape) for _, recipe in found):
            sizes = [recipe.shape[dimension] for _, recipe in found]
            if sum(sizes) == got and all(size * wanted % got == 0 for size in sizes):
                yield self.change(
                    {place: recipe.with_shape(_with(recipe.shape, dimension, wanted, got)) for place, recipe in found},
                    0.2 * cost,
                )
            if sum(sizes) == got and len(found) == 2 and wanted > 1 and dimension % len(found[1][1].shape):
                parts = zip(found, (wanted - 1, 1), strict=True)  # The second is a mask, as wide as one channel.
                yield self.change(
                    {
                        place: recipe.with_shape(_with(recipe.shape, dimension, size, recipe.shape[dimension]))
                        for (place, recipe), size in parts
                    },
                    0.3 * cost,
                )
        made_of = sum(
            recipe.shape[dimension] for _, recipe in found if -len(recipe.shape) <= dimension < len(recipe.shape)
        )
        unit = got // made_of if made_of and got and got % made_of == 0 and wanted % (got // made_of) == 0 else 1
        if len(found) == 1:  # What the rest is comes from the model.
            unit = 1
        if 0 < made_of == got:  # They are all that was joined.
            cost *= 0.2
        for place, recipe in found if 0 < made_of < got or len(found) > 1 else ():
            index = dimension % len(recipe.shape) if -len(recipe.shape) <= dimension < len(recipe.shape) else 0
            size = recipe.shape[index] + (wanted - got) // unit if index else 0
            if 0 < size <= _LARGEST:
                yield self.reshape(place, (*recipe.shape[:index], size, *recipe.shape[index + 1 :]), cost)

    def several(self, places: Sources, dimension: int, got: int, wanted: int, cost: float) -> Iterator[Change]:
        """Change how many items there are of each of which a model joins something as wide as a tensor with that."""
        found = self.among(places)
        counts = {name: _count(self.recipes[name]) for name in dict.fromkeys(str(place[0]) for place, _ in found)}
        wide = [(place, recipe) for place, recipe in found if len(recipe.shape) > dimension]
        for name, count in counts.items():
            for place, recipe in wide if count else ():
                width = recipe.shape[dimension]
                of_each, rest = divmod(got // width - 1, count)
                if place[0] == name or got % width or rest or of_each < 1:
                    continue
                for other in (each for each in range(1, _MOST_ITEMS) if each != count):
                    size, left = divmod(wanted, 1 + of_each * other)
                    if size and not left:
                        shape = (*recipe.shape[:dimension], size, *recipe.shape[dimension + 1 :])
                        changed = {
                            place: recipe.with_shape(shape, self.because),
                            (name,): _of_count(self.recipes[name], other),
                        }
                        yield self.change(changed, cost)

    def joined_along(self, places: Sources, got: int) -> int:
        """Return the dimension along which tensors that were joined are `got` long together: mostly the last."""
        shapes = [recipe.shape for _, recipe in self.among(places)]
        others = range(1, min(map(len, shapes), default=0)) if len(shapes) > 1 else ()
        return next((each for each in others if sum(shape[each] for shape in shapes) == got), -1)

    def scale(self, places: Sources, got: int, wanted: int, cost: float) -> Iterator[Change]:
        """Change one dimension in the same proportion in all of several tensors."""
        if got <= 0 or wanted <= 0 or (wanted % got and got % wanted):
            return
        found = self.among(places)
        for dimension in range(max((len(recipe.shape) for _, recipe in found), default=0)):
            parts: dict[Place, Recipe] = {}
            for place, recipe in found:
                if dimension < len(recipe.shape) and recipe.shape[dimension] * wanted % got == 0:
                    size = recipe.shape[dimension] * wanted // got
                    shape = (*recipe.shape[:dimension], size, *recipe.shape[dimension + 1 :])
                    if math.prod(shape) <= _MOST_ELEMENTS:
                        parts[place] = recipe.with_shape(shape, self.because)
            if parts:
                yield self.change(parts, cost + 0.2 * dimension)

    def stepped(self, places: Sources, back: int, got: int, wanted: int, cost: float) -> Iterator[Change]:
        """Change a side of the only picture among tensors, `back` from the last, so that what layers made of it fits.

        They go in steps, or put steps between, and pad: what comes out is off by as many steps as goes in, or as many
        times. As long as those are that make the one of the other, nearly, they are first.
        """
        found = self.among(places) if got > 0 else []
        for place, recipe in found if len(found) == 1 else ():
            shape, index = recipe.shape, len(recipe.shape) - back
            if index < _SPATIAL:
                continue
            ratio = math.log2(got / shape[index])
            likely = sorted(_STRIDES, key=lambda step: abs(abs(ratio) - math.log2(step)))
            off = wanted - got
            sizes = [shape[index] + (off // step if ratio > 0 else off * step) for step in likely if off % step == 0]
            for rank, size in enumerate(size for size in sizes if 0 < size <= _MAX_SIDE):
                yield self.reshape(place, (*shape[:index], size, *shape[index + 1 :]), cost + 0.1 * rank)

    def divided(self, places: Sources, got: int, wanted: int, cost: float) -> Iterator[Change]:
        """Change what was a factor of a size, such as the channels of patches, in the exact proportion."""
        for place, recipe in self.among(places) if got else ():
            shape = recipe.shape
            for dimension in sorted(range(len(shape)), key=lambda each: (each + 1) % len(shape)):
                size, rest = divmod(shape[dimension] * wanted, got)
                if not rest and size and got not in shape and got != wanted:
                    of_batch = 0.8 if dimension == 0 and len(place) == 1 else 0.0
                    yield self.reshape(place, (*shape[:dimension], size, *shape[dimension + 1 :]), cost + of_batch)
            common = math.gcd(got, wanted)
            for dimension, factor in itertools.product(range(1, len(shape)), range(2, common + 1)):
                rest = got // factor - shape[dimension]  # A mask was joined to it before.
                if common % factor == 0 and 0 < rest <= _ADDED and wanted // factor > rest:
                    size = wanted // factor - rest
                    yield self.reshape(place, (*shape[:dimension], size, *shape[dimension + 1 :]), cost + 0.1)

    def lessened(self, places: Sources, dimension: int, got: int, wanted: int, cost: float) -> Iterator[Change]:
        """Change a size that something was joined to before it was asked for: coordinates, to the channels."""
        for place, recipe in self.among(places):
            shape = recipe.shape
            more = got - shape[dimension] if 0 < dimension < len(shape) else 0
            if 0 < more <= _JOINED and wanted > more:
                yield self.reshape(place, (*shape[:dimension], wanted - more, *shape[dimension + 1 :]), cost)

    @staticmethod
    def _of_batch(shape: Sequence[int], dimension: int) -> float:
        """Return what it costs to change a dimension: much if it is the batch."""
        return 0.0 if dimension else 4.0 if shape[0] == BATCH and len(shape) > 1 else 1.0

    def _in_proportion(self, place: Place, recipe: TensorRecipe, ratio: Fraction, cost: float) -> Iterator[Change]:
        """Scale the spatial dimensions so that their product, or one of them, changes by ``ratio``."""
        shape: Sequence[int] = recipe.shape
        if not shape or ratio <= 0:
            return
        if len(shape) >= 4:
            for extra, side in enumerate(_unpadded(shape[-1], ratio)):
                yield self.reshape(place, (*shape[:-2], side, side), cost + 0.6 + 0.1 * extra)
            for exponent in (0.5, 1.0):
                sides = _rounded(shape[-1] * ratio**exponent)
                for extra, side in enumerate(sides):
                    yield self.reshape(place, (*shape[:-2], side, side), cost + 0.5 + 0.3 * extra + exponent)
        if len(shape) == 5:
            side = round(shape[-1] * ratio ** (1 / 3))
            yield self.reshape(place, (*shape[:2], round(shape[2] * ratio ** (1 / 3)), side, side), cost + 0.6)
            yield self.reshape(place, (*shape[:2], round(shape[2] * ratio), *shape[3:]), cost + 0.8)
        channel = (shape[0], round(shape[1] * ratio), *shape[2:]) if len(shape) >= 2 else shape
        yield self.reshape(place, channel, cost + 1.5)
        if 2 <= len(shape) <= 3:
            *lead, last = list(shape)
            yield self.reshape(place, (*lead, round(last * ratio)), cost + 1.2)

    def rank(self, place: Place, recipe: TensorRecipe, rank: int, cost: float) -> Iterator[Change]:
        """Give a tensor another rank: with the usual sizes of that rank, its own first and last ones kept."""
        for shape, more in self._of_rank(recipe, rank):
            yield self.reshape(place, shape, cost + more)

    def _of_rank(self, recipe: TensorRecipe, rank: int) -> Iterator[tuple[Sequence[int], float]]:
        """Yield shapes of another rank for a tensor, and what each costs beside the others."""
        shape = recipe.shape
        if not 0 <= rank <= _MAX_RANK or rank == len(shape):
            return
        height, width = self.clues.image_sizes[0]
        is_of_points = 2 < len(shape) < rank and shape[-1] <= COORDINATES
        if is_of_points:
            yield (*shape[:-1], *(1,) * (rank - len(shape)), shape[-1]), 0.0
        if rank == 4 and recipe.dtype.is_floating_point:
            yield (BATCH, self.clues.channels[0], height, width), 0.3 if is_of_points else 0.0
        if rank == 5 and recipe.dtype.is_floating_point:
            yield (BATCH, self.clues.channels[0], self.clues.frames, height, width), 0.0
        if rank > len(shape):
            middle = (self.clues.lengths[0],) * (rank - len(shape))
            yield (*shape[:1], *middle, *shape[1:]), 0.1
            yield (*shape, *middle), 0.3
            yield (*shape[:1], *(1,) * (rank - len(shape)), *shape[1:]), 0.4
        else:
            gone = len(shape) - rank
            yield (*shape[:1], *shape[1 + gone :]) if rank else (), 0.1
            yield shape[:rank], 0.3
            yield shape[gone:], 0.5

    def rerank(self, places: Sources, got: int, wanted: int, cost: float = 0.8) -> Iterator[Change]:
        """Change the ranks of tensors by as much as one that they led to is off: of all that are alike, or of one."""
        found = self.among(places)
        if len(found) > 1 and len({len(recipe.shape) for _, recipe in found}) == 1:
            each = [list(self._of_rank(recipe, len(recipe.shape) + wanted - got)) for _, recipe in found]
            for variants in zip(*(shapes[-min(map(len, each)) :] for shapes in each), strict=True):
                parts: dict[Place, Recipe] = {
                    place: recipe.with_shape(tuple(shape))
                    for (place, recipe), (shape, _) in zip(found, variants, strict=True)
                }
                yield self.change(parts, cost + variants[0][1] + 0.05)
        for place, recipe in found:
            yield from self.rank(place, recipe, len(recipe.shape) + wanted - got, cost)

    def lined_up(self, places: Sources, cost: float) -> Iterator[Change]:
        """Put steps behind what tensors of several dimensions have, of which the code has taken the last together."""
        parts: dict[Place, Recipe] = {
            place: recipe.with_shape((*recipe.shape, self.clues.lengths[0]), self.because)
            for place, recipe in self.among(places)
            if len(recipe.shape) > 1
        }
        if parts:
            yield self.change(parts, cost)

    def unflattened(self, places: Sources, got: int, wanted: int, cost: float) -> Iterator[Change]:
        """Make rows, or steps, as many steps as were laid side by side: of all that are alike."""
        found = self.among(places)
        ranks = {len(recipe.shape) for _, recipe in found}
        steps = Fraction(wanted, got) if got else Fraction(0)
        if len(ranks) != 1 or not ranks <= {2, 3}:
            return
        parts: dict[Place, Recipe] = {}
        for place, recipe in found:
            batch, *before, features = recipe.shape
            count = steps * (before[0] if before else 1)
            if count.denominator != 1 or count <= 1:
                return
            parts[place] = recipe.with_shape((batch, int(count), features), self.because)
        yield self.change(parts, cost)

    def grow(self, places: Sources, cost: float = 2.0) -> Iterator[Change]:
        """Double the spatial dimensions, or make sequences far longer: the input was too small for the kernels."""
        for place, recipe in self.longer_steps().items():
            if place in places:
                yield self.put(place, recipe, 0.5 * cost)
        for place, recipe in self.among(places):
            is_signal = len(recipe.shape) == 2 and recipe.dtype.is_floating_point
            if (is_signal or len(recipe.shape) == 3) and recipe.shape[-1] < _LONGEST:
                yield self.reshape(place, (*recipe.shape[:-1], 8 * recipe.shape[-1]), cost + 0.1)
            if len(recipe.shape) == 3 and recipe.shape[1] < _LONGEST:  # Steps that come before what each has.
                yield self.reshape(place, (recipe.shape[0], 8 * recipe.shape[1], recipe.shape[2]), cost + 0.2)
            if len(recipe.shape) >= 3 and max(recipe.shape[2:]) < _MAX_SIDE:
                yield self.reshape(place, (*recipe.shape[:2], *(2 * size for size in recipe.shape[2:])), cost)

    def longer_steps(self) -> dict[Place, TensorRecipe]:
        """Return sequences of tokens that have one step with as many as is usual."""
        length = self.clues.lengths[0]
        return {
            place: recipe.with_shape((*recipe.shape[:1], length))
            for place, recipe in self.tensors()
            if recipe.fill == "integers" and recipe.shape[1:] == (1,) != (length,)
        }

    def shrink(self, cost: float) -> Iterator[Change]:
        """Make all pictures smaller, and all sequences shorter, in one proportion."""
        for exponent in range(1, _MOST_HALVINGS + 1):
            parts: dict[Place, Recipe] = {}
            for place, recipe in self.tensors():
                shape = recipe.shape
                pairs = [each for each in range(1, len(shape) - 1) if shape[each] == shape[each + 1]]
                first, last = (pairs[-1], pairs[-1] + 2) if pairs else (1, 2)
                sizes = [size >> exponent for size in shape[first:last]]
                if sizes and min(sizes) > 0:
                    parts[place] = recipe.with_shape((*shape[:first], *sizes, *shape[last:]))
            if parts:
                yield self.change(parts, cost + 0.1 * exponent)

    def lengthened(self, cost: float) -> Iterator[Change]:
        """Make all sequences together as long as the model names: it may take no others."""
        for length in self.clues.named_lengths[:2]:
            parts: dict[Place, Recipe] = {
                place: recipe.with_shape((*recipe.shape[:1], length, *recipe.shape[2:]))
                for place, recipe in self.tensors()
                if len(recipe.shape) in {2, 3} and recipe.shape[1] == self.clues.lengths[0] != length
            }
            if len(parts) > 1:
                yield self.change(parts, cost)

    def single(self, cost: float) -> Iterator[Change]:
        """Make a batch of one of all that are batches."""
        parts: dict[Place, Recipe] = {**self.single_parts()}
        if parts:
            yield self.change(parts, cost)

    def single_parts(self) -> dict[Place, TensorRecipe]:
        """Return what is a batch as a batch of one."""
        return {
            place: recipe.with_shape((1, *recipe.shape[1:]))
            for place, recipe in self.tensors()
            if recipe.shape[:1] == (BATCH,)
        }

    def floating(self, places: Sources, cost: float = 0.3) -> Iterator[Change]:
        """Make tensors of integers ones of floating point numbers: all together, or one of them."""
        parts: dict[Place, Recipe] = {
            place: replace(recipe, fill=_as_number(recipe), dtype=torch.float32, because=self.because)
            for place, recipe in self.among(places)
            if not recipe.dtype.is_floating_point
        }
        if len(parts) > 1:
            yield self.change(parts, cost)
        for place, part in parts.items():
            yield self.change({place: part}, cost)

    def integral(self, places: Sources, cost: float = 0.5, high: int | None = None) -> Iterator[Change]:
        """Make tensors of floating point numbers ones of integers."""
        for place, recipe in self.among(places):
            if recipe.dtype.is_floating_point:
                yield self.put(place, self.as_integers(recipe, high), cost)

    def typed(self, places: Sources, dtype: torch.dtype, cost: float) -> Iterator[Change]:
        """Make tensors ones of a type, and have them hold what such hold: bytes are anything up to 255."""
        for place, recipe in self.among(places):
            if dtype.is_floating_point or dtype.is_complex:
                fill = recipe.fill if recipe.dtype.is_floating_point else _as_number(recipe)
                part = replace(recipe, fill="normal" if dtype.is_complex else fill)
            elif dtype is torch.bool:
                part = replace(recipe, fill="ones")
            elif recipe.dtype.is_floating_point or recipe.dtype is torch.bool:
                high = torch.iinfo(dtype).max + 1 if dtype.itemsize == 1 else None
                part = self.as_integers(recipe, high)
            else:
                part = replace(recipe, high=min(recipe.high, torch.iinfo(dtype).max))
            yield self.put(place, replace(part, dtype=dtype), cost)

    def bounded(self, places: Sources, cost: float) -> Iterator[Change]:
        """Make tensors of any numbers ones of numbers from zero to one."""
        for place, recipe in self.among(places):
            if recipe.fill == "normal" and recipe.dtype.is_floating_point:
                yield self.put(place, replace(recipe, fill="uniform"), cost)

    def multiple(self, factor: int, cost: float = 0.6) -> Iterator[Change]:
        """Round sizes up to multiples of a number."""
        for place, recipe in self.tensors():
            for dimension in range(len(recipe.shape) - 1, 0, -1):
                size = recipe.shape[dimension]
                if factor > 1 and size % factor:
                    larger = -(-size // factor) * factor
                    shape = recipe.shape
                    yield self.reshape(place, (*shape[:dimension], larger, *shape[dimension + 1 :]), cost)
                    if len(shape) >= 4 and dimension == len(shape) - 1:
                        yield self.reshape(place, (*shape[:-2], larger, larger), cost - 0.1)

    def together(self, factor: int, cost: float) -> Iterator[Change]:
        """Enlarge several pictures in one proportion, so that the smallest side becomes a multiple of a number."""
        pictures = [(place, recipe) for place, recipe in self.tensors() if len(recipe.shape) >= 4]
        least = min((min(recipe.shape[-2:]) for _, recipe in pictures), default=0)
        wanted = -(-least // factor) * factor
        if len(pictures) < 2 or wanted == least:
            return
        parts: dict[Place, Recipe] = {
            place: recipe.with_shape((*recipe.shape[:-2], *(size * wanted // least for size in recipe.shape[-2:])))
            for place, recipe in pictures
        }
        yield self.change(parts, cost)

    def as_integers(self, recipe: TensorRecipe, high: int | None = None) -> TensorRecipe:
        """Return integers of the same shape; flags, as masks are full of, stay what they are."""
        if recipe.fill in {"ones", "zeros"} and not high:
            return replace(recipe, dtype=torch.int64)
        return replace(recipe, fill="integers", dtype=torch.int64, high=high or self.clues.vocabulary)

    def of(self, value: Any) -> Sources:
        """Return which parts of the inputs a value was computed from."""
        return self.outcome.account(value)

    def is_input(self, value: Any) -> Place | None:
        """Return the place of a part that is this very value."""
        places = self.of(value)
        if len(places) == 1:
            place = next(iter(places))
            part = self.parts.get(place)
            # What was computed from one input alone has its place too.
            if isinstance(part, TensorRecipe) and isinstance(value, Tensor) and tuple(value.shape) != part.shape:
                return None
            return place
        return None


def _as_number(recipe: TensorRecipe) -> Fill:
    """Return what a tensor holds whose whole numbers are to be any: the step of an example is still a large one."""
    if recipe.dtype is torch.bool:
        return "ones"
    return "integers" if recipe.fill == "integers" and len(recipe.shape) <= 1 else "normal"


def _with(shape: Sequence[int], dimension: int, wanted: int, got: int) -> tuple[int, ...]:
    """Return a shape with one size in proportion."""
    sizes = list(shape)
    sizes[dimension] = sizes[dimension] * wanted // got
    return tuple(sizes)


def _unpadded(side: int, ratio: Fraction) -> list[int]:
    """Return sides of pictures that convolutions make into maps whose areas have a ratio to those of the given side.

    What they take off at the borders is the same for pictures of all sizes.
    """
    wanted, got = math.isqrt(max(0, ratio.numerator)), math.isqrt(ratio.denominator)
    if ratio == 1 or Fraction(wanted, got) ** 2 != ratio:
        return []
    maps = [(stride, side // stride // got) for stride in _STRIDES]
    return list(dict.fromkeys(side - count * (got - wanted) * stride for stride, count in maps if count))


def _rounded(side: float) -> list[int]:
    """Return sides near ``side``, multiples of powers of two first."""
    found = [max(step, round(side / step) * step) for step in (32, 16, 8, 4, 1)]
    return [value for value in dict.fromkeys(found) if value <= _MAX_SIDE]


def _count(recipe: Recipe) -> int:
    """How many items an input has that a model may go over: those of a list, the rows of a tensor; 0 for another."""
    if isinstance(recipe, TensorRecipe):
        return recipe.shape[0] if len(recipe.shape) > 1 else 0
    return len(recipe.items) if isinstance(recipe, Listing) and recipe.is_of_equals else 0


def _of_count(recipe: Recipe, count: int) -> Recipe:
    """The same with another number of items."""
    if isinstance(recipe, TensorRecipe):
        return recipe.with_shape((count, *recipe.shape[1:]))
    assert isinstance(recipe, Listing)
    return replace(recipe, items=recipe.items[:1] * count)

"""From a failed trial to better inputs: what the operation that raised wanted, and which parameter it was given.

Each rule looks at one kind of complaint and answers with changed recipes, best first. The numbers come from the
operation itself (the weight that did not fit) rather than from its message wherever there is one; the parameter to
blame comes from the account that the trial keeps of which tensors were computed from which parameters.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it.
from torch import Tensor

from fxengine.inputs.clues import BATCH, Clues
from fxengine.inputs.probe import Operation, Outcome
from fxengine.inputs.recipes import Listing, Recipe, Record, TensorRecipe

__all__ = ["Change", "repairs"]

Assignment: TypeAlias = Mapping[str, Recipe]

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
_LINEAR = frozenset({F.linear})
_MATMUL = frozenset({torch.matmul, torch.bmm, torch.mm, Tensor.matmul, Tensor.__matmul__, Tensor.__rmatmul__})
_EMBEDDING = frozenset({F.embedding, torch.embedding, F.embedding_bag})
_MAX_SIDE = 2048


@dataclass(frozen=True, slots=True)
class Change:
    """A new assignment, what it cost to think of (0 is a certainty), and why."""

    recipes: Assignment
    cost: float


def repairs(recipes: Assignment, outcome: Outcome, clues: Clues) -> Iterator[Change]:
    """Yield changed assignments that answer the complaint of ``outcome``, the most promising first."""
    operation = outcome.operation
    because = f"`{outcome.module}`" if outcome.module else "its first use"
    repairer = _Repairer(dict(recipes), outcome, clues, because)
    if operation is not None:
        yield from repairer.by_operation(operation)
    yield from repairer.by_message(str(outcome.error))
    yield from repairer.by_guess()


class _Repairer:
    def __init__(self, recipes: dict[str, Recipe], outcome: Outcome, clues: Clues, because: str) -> None:
        self.recipes = recipes
        self.outcome = outcome
        self.clues = clues
        self.because = because

    def by_operation(self, operation: Operation) -> Iterator[Change]:
        """Compare what the operation got with what its weights ask for."""
        function = operation.function
        if function in _CONVOLUTIONS or function in _TRANSPOSED:
            yield from self._convolution(operation)
        elif function in _LINEAR:
            yield from self._linear(operation)
        elif function in _EMBEDDING:
            yield from self._embedding(operation)
        elif function in {F.layer_norm, F.rms_norm, F.batch_norm, F.group_norm, F.instance_norm}:
            yield from self._norm(operation)
        elif function in _MATMUL:
            yield from self._matmul(operation)
        elif len(operation.tensors) >= 2:
            yield from self._disagreement(operation)

    def _convolution(self, operation: Operation) -> Iterator[Change]:
        given, weight = operation.args[0], operation.args[1]
        spatial = _CONVOLUTIONS.get(operation.function) or _TRANSPOSED[operation.function]
        groups = operation.kwargs.get("groups", operation.args[6] if len(operation.args) > 6 else 1)
        transposed = operation.function in _TRANSPOSED
        wanted = weight.shape[0] if transposed else weight.shape[1] * (groups if isinstance(groups, int) else 1)
        if not isinstance(given, Tensor):
            return
        if given.dim() != spatial + 2:
            height, width = self.clues.image_sizes[0]
            sides = {1: (64,), 2: (height, width), 3: (self.clues.frames, height, width)}[spatial]
            for name in self._blamed(operation.sources[0]):
                yield self._replace(name, TensorRecipe((BATCH, wanted, *sides)), 0.5)
            yield from self._other_rank(operation.sources[0], given.dim(), spatial + 2)
            return
        if not given.is_floating_point():
            yield from self._floating(operation.sources[0])
        yield from self._resize(operation.sources[0], given.shape[1], wanted)
        yield from self._grow(operation.sources[0])

    def _linear(self, operation: Operation) -> Iterator[Change]:
        given, weight = operation.args[0], operation.args[1]
        if not isinstance(given, Tensor) or not isinstance(weight, Tensor):
            return
        if not given.is_floating_point():
            yield from self._floating(operation.sources[0])
        if given.dim() and given.shape[-1] != weight.shape[-1]:
            yield from self._resize(operation.sources[0], given.shape[-1], weight.shape[-1])

    def _embedding(self, operation: Operation) -> Iterator[Change]:
        tables = [tensor for tensor in operation.tensors if tensor.is_floating_point() and tensor.dim() == 2]
        high = tables[-1].shape[0] if tables else self.clues.vocabulary
        for name in self._blamed(frozenset().union(*operation.sources)):
            recipe = self.recipes[name]
            if isinstance(recipe, TensorRecipe) and recipe.fill != "integers":
                shapes = [recipe.shape] if len(recipe.shape) <= 2 else [(BATCH, self.clues.lengths[0])]
                for shape in [*shapes, (BATCH,)]:
                    yield self._replace(name, TensorRecipe(shape, "integers", torch.int64, high), 0.2)

    def _norm(self, operation: Operation) -> Iterator[Change]:
        given = operation.args[0]
        others = [tensor for tensor in operation.tensors[1:] if tensor.dim()]
        if not isinstance(given, Tensor) or not others or not given.dim():
            return
        axis = -1 if operation.function in {F.layer_norm, F.rms_norm} else min(1, given.dim() - 1)
        if not given.is_floating_point():
            yield from self._floating(operation.sources[0])
        if given.shape[axis] != others[0].shape[-1]:
            yield from self._resize(operation.sources[0], given.shape[axis], others[0].shape[-1])

    def _matmul(self, operation: Operation) -> Iterator[Change]:
        first, second = operation.tensors[:2]
        if first.is_floating_point() != second.is_floating_point():
            yield from self._floating(operation.sources[1 if first.is_floating_point() else 0])
        if first.dim() and second.dim() > 1:
            inner, outer = first.shape[-1], second.shape[-2]
            yield from self._resize(operation.sources[0], inner, outer)
            yield from self._resize(operation.sources[1], outer, inner)

    def _disagreement(self, operation: Operation) -> Iterator[Change]:
        """Two tensors that should broadcast, or be joined: bring the input's one to the size of the other."""
        tensors = operation.tensors
        for (first, first_names), (second, second_names) in _pairs(tensors, operation.sources):
            for a, b in zip(reversed(first.shape), reversed(second.shape), strict=False):
                if a != b and 1 not in {a, b}:
                    if first_names and first_names != second_names:
                        yield from self._resize(first_names, a, b)
                    if second_names and first_names != second_names:
                        yield from self._resize(second_names, b, a)
            if first.dim() != second.dim():
                yield from self._other_rank(first_names, first.dim(), second.dim())
                yield from self._other_rank(second_names, second.dim(), first.dim())

    def by_message(self, message: str) -> Iterator[Change]:
        """Read the numbers and names in a message that people or torch wrote."""
        for pattern, act in _MESSAGES:
            match = pattern.search(message)
            if match is not None:
                yield from act(self, match)
        yield from self._numbers(message)

    def _unpacked(self, match: re.Match[str]) -> Iterator[Change]:
        """``not enough values to unpack (expected 3, got 2)``: a shape was unpacked."""
        wanted, got = (int(match[1]), int(match[2])) if match[2] else (int(match[1]), -1)
        for name, recipe in self._tensor_recipes():
            if len(recipe.shape) == got or got < 0:
                yield from self._ranked(name, recipe, wanted, 0.4)

    def _dimensions(self, match: re.Match[str]) -> Iterator[Change]:
        """Some rank is not the one that was wanted."""
        numbers = [int(number) for number in match.groups() if number is not None]
        ranks = [number for number in numbers if 0 < number <= 6]
        for name, recipe in self._tensor_recipes():
            for rank in dict.fromkeys([*ranks, len(recipe.shape) + 1]):
                if rank != len(recipe.shape):
                    yield from self._ranked(name, recipe, rank, 0.6)

    def _integers(self, _match: re.Match[str]) -> Iterator[Change]:
        operation = self.outcome.operation
        names = frozenset().union(*operation.sources) if operation else frozenset(self.recipes)
        for name in self._blamed(names):
            recipe = self.recipes[name]
            if isinstance(recipe, TensorRecipe) and recipe.dtype.is_floating_point:
                yield self._replace(
                    name, replace(recipe, fill="integers", dtype=torch.int64, high=self.clues.vocabulary), 0.5
                )

    def _floats(self, _match: re.Match[str]) -> Iterator[Change]:
        operation = self.outcome.operation
        yield from self._floating(frozenset().union(*operation.sources) if operation else frozenset(self.recipes))

    def _booleans(self, _match: re.Match[str]) -> Iterator[Change]:
        for name, recipe in self._tensor_recipes():
            if "mask" in name and recipe.dtype is not torch.bool:
                yield self._replace(name, replace(recipe, fill="ones", dtype=torch.bool), 0.4)

    def _volume(self, match: re.Match[str]) -> Iterator[Change]:
        """``shape '[2, 8, 8]' is invalid for input of size 64``: bring the volume to the one that was wanted."""
        sizes = [int(size) for size in re.findall(r"-?\d+", match[1])]
        wanted, given = math.prod(abs(size) for size in sizes), int(match[2])
        for name, recipe in self._tensor_recipes():
            if given and wanted != given:
                yield from self._in_proportion(name, recipe, wanted / given, 0.0)
            for size in (size for size in sizes[1:] if size > 1 and recipe.shape):
                yield from self._resize(frozenset({name}), recipe.shape[-1], size, cost=1.5)

    def _missing_key(self, match: re.Match[str]) -> Iterator[Change]:
        """A dictionary has no such key, or a tensor was used as one."""
        key = match[1]
        for name, recipe in self.recipes.items():
            items = recipe.items if isinstance(recipe, Record) else ()
            if isinstance(recipe, Record) and key not in dict(items):
                value = TensorRecipe((BATCH, self.clues.channels[0], *self.clues.image_sizes[0]))
                yield self._replace(name, Record((*items, (key, value))), 0.5)

    def _as_list(self, _match: re.Match[str]) -> Iterator[Change]:
        """A list of tensors was wanted where one was given."""
        for name, recipe in self._tensor_recipes():
            if len(recipe.shape) > 1:
                item = recipe.with_shape(recipe.shape[1:])
                yield self._replace(name, Listing((item, item)), 1.5)

    def _described(self, match: re.Match[str]) -> Iterator[Change]:
        """``a tensor of shape (batch_size, 2, num_channels, height, width)``: as it says."""
        axes = [axis.strip().removesuffix("_size").removeprefix("num_") for axis in match[1].split(",")]
        shape = self.clues.shape_of_pattern(" ".join(axis for axis in axes if axis.isidentifier() or axis.isdigit()))
        for name, recipe in self._tensor_recipes():
            if shape and shape != recipe.shape:
                yield self._reshape(name, shape, 0.3)

    def _multiple(self, match: re.Match[str]) -> Iterator[Change]:
        """Some size should be a multiple of a number."""
        factor = int(match[1])
        for name, recipe in self._tensor_recipes():
            for place in range(len(recipe.shape) - 1, 0, -1):
                size = recipe.shape[place]
                if factor > 1 and size % factor:
                    larger = -(-size // factor) * factor
                    yield self._reshape(name, (*recipe.shape[:place], larger, *recipe.shape[place + 1 :]), 0.6)
                    if len(recipe.shape) >= 4 and place == len(recipe.shape) - 1:
                        yield self._reshape(name, (*recipe.shape[:-2], larger, larger), 0.5)

    def _too_small(self, _match: re.Match[str]) -> Iterator[Change]:
        yield from self._grow(frozenset(self.recipes))

    def _numbers(self, message: str) -> Iterator[Change]:
        """Exchange a number of the message that is one of our sizes for one that is not."""
        numbers = list(dict.fromkeys(int(number) for number in re.findall(r"(?<![\w.])\d{1,5}(?!\w|\.\d)", message)))
        for name, recipe in self._tensor_recipes():
            ours = [number for number in numbers if number in recipe.shape[1:] and number > 1]
            theirs = [number for number in numbers if number not in recipe.shape and 0 < number <= 1 << 14]
            for a in ours[:3]:
                for b in theirs[:3]:
                    yield from self._resize(frozenset({name}), a, b, cost=1.0)

    def by_guess(self) -> Iterator[Change]:
        """Yield what is usual, where nothing is known."""
        for name, recipe in self._tensor_recipes():
            rank = len(recipe.shape)
            if rank >= 4:
                for size in self.clues.image_sizes[:8]:
                    yield self._replace(name, recipe.with_shape((*recipe.shape[:-2], *size)), 3.0)
                for channels in self.clues.channels[:4]:
                    yield self._replace(name, recipe.with_shape((recipe.shape[0], channels, *recipe.shape[2:])), 3.5)
            if rank in {2, 3}:
                for length in self.clues.lengths[:5]:
                    yield self._replace(name, recipe.with_shape((recipe.shape[0], length, *recipe.shape[2:])), 3.5)
            if rank == 3:
                yield self._replace(name, recipe.with_shape((recipe.shape[0], recipe.shape[2], recipe.shape[1])), 3.0)
            for other in (rank + 1, rank - 1):
                yield from self._ranked(name, recipe, other, 4.0)
            yield from self._other_kind(name, recipe)

    def _other_kind(self, name: str, recipe: TensorRecipe) -> Iterator[Change]:
        if recipe.dtype.is_floating_point:
            yield self._replace(name, self._as_integers(recipe), 4.0)
        else:
            yield self._replace(name, replace(recipe, fill="normal", dtype=torch.float32), 4.0)

    def _as_integers(self, recipe: TensorRecipe) -> TensorRecipe:
        return replace(recipe, fill="integers", dtype=torch.int64, high=self.clues.vocabulary)

    def _resize(self, names: frozenset[str], got: int, wanted: int, cost: float = 0.0) -> Iterator[Change]:
        """Change what is ``got`` long to ``wanted``: directly where the input has that size, else in proportion."""
        for name in self._blamed(names):
            recipe = self.recipes[name]
            if not isinstance(recipe, TensorRecipe):
                continue
            shape = recipe.shape
            places = [place for place in range(len(shape) - 1, -1, -1) if shape[place] == got]
            for place in sorted(places, key=lambda place: place == 0):
                if len(shape) >= 4 and place >= len(shape) - 2 and shape[-1] == shape[-2]:
                    yield self._reshape(name, (*shape[:-2], wanted, wanted), cost + 0.1)
                yield self._reshape(name, (*shape[:place], wanted, *shape[place + 1 :]), cost + 0.2 + (place == 0))
            if not places:
                yield from self._in_proportion(name, recipe, wanted / got if got else 1.0, cost)

    def _in_proportion(self, name: str, recipe: TensorRecipe, ratio: float, cost: float) -> Iterator[Change]:
        """Scale the spatial dimensions so that their product, or one of them, changes by ``ratio``."""
        shape: Sequence[int] = recipe.shape
        if not shape:
            return
        if len(shape) >= 4:
            for exponent in (0.5, 1.0):
                sides = _rounded(shape[-1] * ratio**exponent)
                for extra, side in enumerate(sides):
                    yield self._reshape(name, (*shape[:-2], side, side), cost + 0.5 + 0.3 * extra + exponent)
        if len(shape) == 5:
            side = round(shape[-1] * ratio ** (1 / 3))
            yield self._reshape(name, (*shape[:2], round(shape[2] * ratio ** (1 / 3)), side, side), cost + 0.6)
            yield self._reshape(name, (*shape[:2], round(shape[2] * ratio), *shape[3:]), cost + 0.8)
        channel = (shape[0], round(shape[1] * ratio), *shape[2:]) if len(shape) >= 2 else shape
        yield self._reshape(name, channel, cost + 1.5)
        if 2 <= len(shape) <= 3:
            *lead, last = list(shape)
            yield self._reshape(name, (*lead, round(last * ratio)), cost + 1.2)

    def _reshape(self, name: str, shape: tuple[int, ...], cost: float) -> Change:
        recipe = self.recipes[name]
        assert isinstance(recipe, TensorRecipe)
        return self._replace(name, recipe.with_shape(tuple(max(1, min(size, 1 << 16)) for size in shape)), cost)

    def _floating(self, names: frozenset[str]) -> Iterator[Change]:
        for name in self._blamed(names):
            recipe = self.recipes[name]
            if isinstance(recipe, TensorRecipe) and not recipe.dtype.is_floating_point:
                yield self._replace(name, replace(recipe, fill="normal", dtype=torch.float32), 0.3)

    def _grow(self, names: frozenset[str]) -> Iterator[Change]:
        """Double the spatial dimensions: the input was too small for the kernels."""
        for name in self._blamed(names):
            recipe = self.recipes[name]
            if isinstance(recipe, TensorRecipe) and len(recipe.shape) >= 3 and max(recipe.shape[2:]) < _MAX_SIDE:
                yield self._reshape(name, (*recipe.shape[:2], *(2 * size for size in recipe.shape[2:])), 2.0)

    def _other_rank(self, names: frozenset[str], got: int, wanted: int) -> Iterator[Change]:
        for name in self._blamed(names):
            recipe = self.recipes[name]
            if isinstance(recipe, TensorRecipe):
                yield from self._ranked(name, recipe, len(recipe.shape) + wanted - got, 0.8)

    def _ranked(self, name: str, recipe: TensorRecipe, rank: int, cost: float) -> Iterator[Change]:
        """Give a tensor another rank: with the usual sizes of that rank, its own first and last ones kept."""
        shape = recipe.shape
        if not 0 <= rank <= 6 or rank == len(shape):
            return
        height, width = self.clues.image_sizes[0]
        if rank == 4 and recipe.dtype.is_floating_point:
            yield self._reshape(name, (BATCH, self.clues.channels[0], height, width), cost)
        if rank == 5 and recipe.dtype.is_floating_point:
            yield self._reshape(name, (BATCH, self.clues.channels[0], self.clues.frames, height, width), cost)
        if rank > len(shape):
            middle = (self.clues.lengths[0],) * (rank - len(shape))
            yield self._reshape(name, (*shape[:1], *middle, *shape[1:]), cost + 0.1)
            yield self._reshape(name, (*shape, *middle), cost + 0.3)
            yield self._reshape(name, (*shape[:1], *(1,) * (rank - len(shape)), *shape[1:]), cost + 0.4)
        else:
            gone = len(shape) - rank
            yield self._reshape(name, (*shape[:1], *shape[1 + gone :]) if rank else (), cost + 0.1)
            yield self._reshape(name, shape[:rank], cost + 0.3)
            yield self._reshape(name, shape[gone:], cost + 0.5)

    def _tensor_recipes(self) -> list[tuple[str, TensorRecipe]]:
        """The tensor inputs, those that fed the failing operation first."""
        operation = self.outcome.operation
        blamed = frozenset().union(*operation.sources) if operation else frozenset()
        found = [(name, recipe) for name, recipe in self.recipes.items() if isinstance(recipe, TensorRecipe)]
        return sorted(found, key=lambda pair: pair[0] not in blamed) if blamed else found

    def _blamed(self, names: frozenset[str]) -> list[str]:
        return [name for name in self.recipes if name in names]

    def _replace(self, name: str, recipe: TensorRecipe | Listing | Record, cost: float) -> Change:
        return Change({**self.recipes, name: replace(recipe, because=self.because)}, cost)


_MESSAGES: Sequence[tuple[re.Pattern[str], Callable[[_Repairer, re.Match[str]], Iterator[Change]]]] = tuple(
    (re.compile(pattern), act)
    for act, patterns in (
        (
            _Repairer._unpacked,
            (
                r"not enough values to unpack \(expected (?:at least )?(\d+), got (\d+)\)",
                r"too many values to unpack \(expected (\d+)(?:, got (\d+))?\)",
            ),
        ),
        (
            _Repairer._dimensions,
            (
                r"input\.dim\(\) = (\d+) is not equal to len\(dims\) = (\d+)",
                r"[Ee]xpected (\d+)(?:D?-?D?(?: \(\w+\))? or (\d+))?[- ]?(?:D|dim)",
                r"Dimension out of range \(expected to be in range of \[-(\d+), \d+\], but got -?(\d+)\)",
                r"too many indices for tensor of dimension (\d+)",
                r"tuple index out of range|list index out of range",
                r"Expected (\d+) dimensions, got (\d+)|[Ww]rong shape: expected (\d+) dims",
                r"must be a? ?(\d+)[- ]?(?:D|dim)",
            ),
        ),
        (_Repairer._volume, (r"shape '\[([^\]]*)\]' is invalid for input of size (\d+)",)),
        (
            _Repairer._integers,
            (
                r"indices must be|must be long|[Ee]xpected .*Long|got (?:torch\.)?FloatTensor|scalar type Long",
                r"one_hot is only applicable|tensors used as indices",
            ),
        ),
        (
            _Repairer._floats,
            (r"must have the same dtype|not implemented for '(?:Long|Int|Bool)'|scalar type Float|floating",),
        ),
        (_Repairer._described, (r"shape:? [(\[]((?:[a-z_]+|\d+)(?:, *(?:[a-z_]+|\d+))+)[)\]]",)),
        (_Repairer._multiple, (r"(?:multiple of|divisible by|divide)\D{0,40}?(\d+)",)),
        (_Repairer._booleans, (r"mask.*bool|bool.*mask|Bool",)),
        (_Repairer._missing_key, (r"^'(\w+)'$",)),
        (
            _Repairer._too_small,
            (
                r"[Kk]ernel size can't be greater|too small|smaller than|more than 1 value per channel",
                r"[Pp]adding size should be less than|non-zero size|has no elements|less than one",
            ),
        ),
        (_Repairer._as_list, (r"expected .*(?:List|list|sequence|tuple) .*|must be (?:tuple|list) of",)),
    )
    for pattern in patterns
)
"""What is said, and what to do about it."""


def _pairs(
    tensors: Sequence[Tensor], sources: Sequence[frozenset[str]]
) -> list[tuple[tuple[Tensor, frozenset[str]], tuple[Tensor, frozenset[str]]]]:
    """Return each neighbouring pair of tensors with the parameters they come from."""
    known = list(zip(tensors, sources, strict=True))
    return list(itertools.pairwise(known))[:4]


def _rounded(side: float) -> list[int]:
    """Return sides near ``side``, multiples of powers of two first."""
    found = [max(step, round(side / step) * step) for step in (32, 16, 8, 4, 1)]
    return [value for value in dict.fromkeys(found) if value <= _MAX_SIDE]

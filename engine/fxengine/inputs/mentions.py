"""Shapes and sizes that messages mention, whoever wrote them, where no rule knows the message."""

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fxengine.inputs.moves import Change, Moves
from fxengine.inputs.proposals import Proposer
from fxengine.inputs.recipes import Constant, Listing

if TYPE_CHECKING:
    from fxengine.inputs.recipes import Place, Recipe

__all__ = ["by_mention"]

_SHAPE: Final = re.compile(
    r"[(\[]((?:[A-Za-z_]\w*|\d+)(?:(?:\s*[,×]\s*|\s+x\s+)(?:[A-Za-z_]\w*|\d+|\.\.\.))+)\s*,?\s*[)\]]"
)
"""A shape that is written out."""

_EQUATION: Final = re.compile(r"^ *([A-Za-z(\[][\w()\[\] ]*) = (\d+(?: \d+)*)$", re.MULTILINE)
_SECOND: Final = re.compile(r"Sizes of tensors must match except in dimension 1\b")
_AXIS: Final = re.compile(r"\([^)]*\)|\w+")
"""The names of the axes of a tensor, some of them in one dimension, and how long they are."""


def by_mention(moves: Moves, message: str, proposer: Proposer) -> Iterator[Change]:
    """Yield changes for what a message mentions: equations, what several inputs have together, shapes, numbers."""
    yield from _joined(moves, message)
    yield from _equations(moves, message)
    yield from _parts(moves, message)
    yield from _shapes(moves, message, proposer)
    yield from _settings(moves, message)
    yield from _counts(moves, message)
    yield from _numbers(moves, message)


def _equations(moves: Moves, message: str) -> Iterator[Change]:
    """``b i j d = 2 16 16 1`` and ``b d = 16 1``: what is called alike is as long, and there are as many as names."""
    found = [
        (_AXIS.findall(re.sub(r"[\[\]]", " ", names)), tuple(map(int, sizes.split())))
        for names, sizes in _EQUATION.findall(message)
    ]
    known: dict[str, int] = {}
    for axes, sizes in reversed(found):
        known.update(zip(axes, sizes, strict=False) if len(axes) == len(sizes) else ())
    for axes, sizes in found:
        if len(axes) != len(sizes):
            alike = frozenset(place for place, recipe in moves.tensors() if recipe.shape == sizes)
            yield from moves.rerank(alike or moves.suspects, len(sizes), len(axes), 0.1)
            continue
        for at, (axis, size) in enumerate(zip(axes, sizes, strict=True)):
            wanted = _in_chunks(axis, size, known) if axis.startswith("(") else known[axis]
            if wanted != size and not axis.isdigit():
                yield from _along(moves, at, sizes, wanted)


def _joined(moves: Moves, message: str) -> Iterator[Change]:
    """``Sizes of tensors must match except in dimension 1``: what is joined there are vectors, and no sequences."""
    if not _SECOND.search(message):
        return
    alike: dict[int, dict[Place, Recipe]] = {}
    for place, recipe in moves.tensors():
        if len(recipe.shape) in {2, 3}:
            first, second, *rest = recipe.shape
            alike.setdefault(second, {})[place] = recipe.with_shape((first, *rest))
    for parts in alike.values():
        if len(parts) > 1:
            yield moves.change(parts, 0.4)


def _in_chunks(axis: str, size: int, known: Mapping[str, int]) -> int:
    """Return how long a dimension is to be that has several axes, of some of which it is known how long they are."""
    chunk = math.prod(known.get(each, 1) for each in re.findall(r"\w+", axis))
    return -(-size // chunk) * chunk if chunk else size


def _along(moves: Moves, at: int, sizes: tuple[int, ...], wanted: int) -> Iterator[Change]:
    """Make inputs of some sizes, or such that lead to them, as long in one dimension as is wanted."""
    for place, recipe in moves.tensors():
        if recipe.shape[: at + 1] == sizes[: at + 1]:
            yield moves.reshape(place, (*recipe.shape[:at], wanted, *recipe.shape[at + 1 :]), 0.1)
    yield from moves.resize(moves.suspects, sizes[at], wanted, 0.2)


def _shapes(moves: Moves, message: str, proposer: Proposer) -> Iterator[Change]:
    """``x must have shape (B, L, 3), got (2, 16)``: the shapes that are written out, for the input that is named."""
    found = _SHAPE.findall(message)
    if not found or moves.outcome.operation is not None or "einops" in message:
        return
    named = [place for place in moves.parts if re.search(rf"\b{re.escape(str(place[0]))}\b", message)]
    given = {recipe.shape for _, recipe in moves.tensors()}
    for place, recipe in moves.tensors():
        if named and place not in named:
            continue
        for text in found[:3]:
            axes = [axis.strip().removesuffix("_size").removeprefix("num_") for axis in re.split(r",|×| x ", text)]
            axes = [axis for axis in axes if axis.isidentifier() or axis.isdigit()]
            shape = proposer.clues.shape_of_pattern(" ".join(axes))
            if shape and shape not in given and 0 < len(shape) <= 6:
                kept = tuple(
                    size if axis.isdigit() or place_of >= len(recipe.shape) else recipe.shape[place_of]
                    for place_of, (axis, size) in enumerate(zip(axes, shape, strict=True))
                )
                cost = 0.3 if named else 0.9
                alike: dict[Place, Recipe] = {
                    other: part.with_shape(shape, moves.because)
                    for other, part in moves.tensors()
                    if other in named and part.shape == recipe.shape
                }
                if len(alike) > 1:  # ``a and b must have shape (4, 2)``
                    yield moves.change(alike, cost - 0.1)
                yield moves.reshape(place, kept if len(kept) >= len(recipe.shape) else shape, cost)
                yield moves.reshape(place, shape, cost + 0.1)


def _numbers(moves: Moves, message: str) -> Iterator[Change]:
    """Exchange a number of the message that is one of our sizes for one that is not."""
    numbers = list(dict.fromkeys(int(number) for number in re.findall(r"(?<![\w.])\d{1,5}(?!\w|\.\d)", message)))
    for place, recipe in moves.tensors():
        ours = [number for number in numbers if number in recipe.shape[1:] and number > 1]
        theirs = [number for number in numbers if number not in recipe.shape and 0 < number <= 1 << 14]
        for a in ours[:3]:
            for b in theirs[:3]:
                yield from moves.resize(frozenset({place}), a, b, cost=1.0)


def _settings(moves: Moves, message: str) -> Iterator[Change]:
    """``must hold `seq_len` (16) tokens, got [64, 64]``: a number that is an input itself becomes another one."""
    numbers = [int(number) for number in re.findall(r"(?<![\w.])\d{1,9}(?!\w|\.\d)", message)]
    for place, part in moves.parts.items():
        value = part.value if isinstance(part, Constant) else None
        if type(value) is int and value in numbers and re.search(rf"\b{re.escape(str(place[-1]))}\b", message):
            for number in dict.fromkeys(each for each in numbers if each != value):
                yield moves.put(place, Constant(number), 0.2)


def _counts(moves: Moves, message: str) -> Iterator[Change]:
    """``there must be n_levels=4 of them, got 2``: lists that have as many items get as many as are wanted."""
    numbers = dict.fromkeys(int(number) for number in re.findall(r"(?<![\w.])[1-8](?!\w|\.\d)", message))
    for got, wanted in itertools.permutations(numbers, 2):
        lists: dict[Place, Recipe] = {
            (name,): replace(recipe, items=(recipe.items * wanted)[:wanted])
            for name, recipe in moves.recipes.items()
            if isinstance(recipe, Listing) and len(recipe.items) == got
        }
        if lists:
            yield moves.change(lists, 0.5)


def _parts(moves: Moves, message: str) -> Iterator[Change]:
    """``Input image size (1792*448) doesn't match model (896*448)``: what several inputs have together is too much."""
    numbers = list(dict.fromkeys(int(number) for number in re.findall(r"(?<!\w)\d{2,5}(?!\w)", message)))
    for whole, wanted in itertools.permutations(numbers[:4], 2):
        for count in (2, 3):
            got, size = whole // count, wanted // count
            found = [(place, recipe) for place, recipe in moves.tensors() if got in recipe.shape[2:]]
            if whole % count or wanted % count or not found:
                continue
            parts: dict[Place, Recipe] = {}
            for place, recipe in found:
                dimension = recipe.shape.index(got, 2)
                parts[place] = recipe.with_shape((*recipe.shape[:dimension], size, *recipe.shape[dimension + 1 :]))
            yield moves.change(parts, 0.4 if len(found) >= count else 0.6)

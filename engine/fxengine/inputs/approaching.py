"""Which size fits, as two others tell that do not: what is computed of a size follows it.

Pictures of 224 points a side leave 110 where 124 are wanted, and such of 256 leave 126: those of 252 fit.
"""

import math
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Final, TypeAlias

from fxengine.inputs.disagreements import disagreement
from fxengine.inputs.probe import Outcome
from fxengine.inputs.recipes import Recipe, TensorRecipe, call_expression, tensors_in, with_part

__all__ = ["Approach"]

_LARGEST: Final = 2048
_KEPT: Final = 8

_Assignment: TypeAlias = Mapping[str, Recipe]


class Approach:
    """What trials have told of two sizes that did not agree, by where they met. Mutable: it remembers the latest."""

    def __init__(self) -> None:
        self._met: dict[str, deque[tuple[int, _Assignment]]] = defaultdict(partial(deque, maxlen=_KEPT))

    def next(self, recipes: _Assignment, outcome: Outcome) -> Iterator[dict[str, Recipe]]:
        """Yield inputs with which two sizes may agree that did not, as an earlier trial with another size tells.

        Args:
            recipes: What was tried.
            outcome: How that ended.
        """
        met = disagreement(outcome)
        if met is None:
            return
        gap, earlier = met[0] - met[1], self._met[outcome.where]
        for gap_there, tried in reversed(earlier):
            sizes = _changed_size(tried, recipes) if gap != gap_there else None
            if sizes is not None:
                old, new = sizes
                size = new - Fraction(gap * (new - old), gap - gap_there)
                for each in dict.fromkeys((math.floor(size), math.ceil(size))):
                    if 0 < each <= _LARGEST and each not in sizes:
                        yield _with_size(recipes, tried, each)
                break
        earlier.append((gap, recipes))


def _changed_size(old: _Assignment, new: _Assignment) -> tuple[int, int] | None:
    """Return the one size that differs between inputs, in both; None where anything else differs."""
    pairs = _pairs(old, new)
    moved = dict(old)
    sizes = set[tuple[int, int]]()
    for name, place, one, other in pairs:
        moved[name] = with_part(moved[name], place, other)
        if len(one.shape) != len(other.shape) or replace(one, shape=other.shape).expression != other.expression:
            return None
        sizes |= {(a, b) for a, b in zip(one.shape, other.shape, strict=True) if a != b}
    is_alike = call_expression((), moved) == call_expression((), dict(new))
    return next(iter(sizes)) if is_alike and len(sizes) == 1 else None


def _with_size(recipes: _Assignment, other: _Assignment, size: int) -> dict[str, Recipe]:
    """Return inputs with a size where it is not that of others."""
    changed = dict(recipes)
    for name, place, one, there in _pairs(recipes, other):
        shape = tuple(a if a == b else size for a, b in zip(one.shape, there.shape, strict=True))
        changed[name] = with_part(changed[name], place, one.with_shape(shape))
    return changed


def _pairs(one: _Assignment, other: _Assignment) -> list[tuple[str, tuple[str | int, ...], TensorRecipe, TensorRecipe]]:
    """Return the tensors of inputs beside those of others, if there are as many in the same places; else none."""
    first, second = tensors_in(one), tensors_in(other)
    if [each[:2] for each in first] != [each[:2] for each in second]:
        return []
    return [(name, place, part, there) for (name, place, part), (_, _, there) in zip(first, second, strict=True)]

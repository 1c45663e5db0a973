"""Which size fits, as two others tell that do not: what is computed of a size follows it.

Pictures of 224 points a side leave 110 where 124 are wanted, and such of 256 leave 126: those of 252 fit.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final, TypeAlias

from fxengine.inputs.disagreements import disagreement
from fxengine.inputs.probe import Outcome
from fxengine.inputs.recipes import Recipe, TensorRecipe, call_expression, tensors_in, with_part

__all__ = ["approached"]

_LARGEST: Final = 2048

_Assignment: TypeAlias = Mapping[str, Recipe]


def approached(
    recipes: _Assignment, outcome: Outcome, earlier: Sequence[tuple[Outcome, _Assignment]]
) -> Iterator[dict[str, Recipe]]:
    """Yield inputs with which two sizes may agree that did not, as an earlier trial with another size tells.

    Args:
        recipes: What was tried.
        outcome: How that ended.
        earlier: How other trials ended, the latest last.
    """
    met = disagreement(outcome)
    if met is None:
        return
    for ended, tried in reversed(earlier):
        met_there = disagreement(ended) if ended.where == outcome.where else None
        sizes = _changed_size(tried, recipes) if met_there is not None else None
        if met_there is None or sizes is None:
            continue
        old, new = sizes
        gap, gap_there = met[0] - met[1], met_there[0] - met_there[1]
        if gap == gap_there:
            continue
        size = new - Fraction(gap * (new - old), gap - gap_there)
        for each in dict.fromkeys((math.floor(size), math.ceil(size))):
            if 0 < each <= _LARGEST and each not in sizes:
                yield _with_size(recipes, tried, each)
        return


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

"""Which of several things an input chooses that a model keeps under names: ``self.heads[task](x)``."""

import ast
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from torch import Tensor, nn

from fxengine.inputs.frames import Frame
from fxengine.inputs.moves import Change
from fxengine.inputs.recipes import Constant, Place

__all__ = ["TABLES", "chosen"]

TABLES: Final = (dict, nn.ModuleDict, nn.ParameterDict)
"""What keeps things under names."""

_MOST: Final = 4
"""How many of the names are tried."""


def chosen(frame: Frame, key: ast.expr, options: Iterable[Any], cost: float) -> Iterator[Change]:
    """Yield inputs of which the one that an expression names is one of several options, or all if its items are named.

    What nothing is known of was taken for a tensor.
    """
    ordered = sorted(options, key=repr) if isinstance(options, set | frozenset) else options
    names = [each for each in islice(ordered, _MOST) if isinstance(each, str | int | float)]
    value, moves = frame.value(key), frame.moves
    place = frame.constant_place(key) or frame.place(value) or _absent(frame, key, value)
    if place is not None:
        is_tensor = isinstance(value, Tensor)
        for index, name in enumerate(each for each in names if not is_tensor or isinstance(each, str)):
            yield moves.put(place, Constant(name), cost + 0.1 * index)
    elif isinstance(value, Tensor) and names:
        for whole, recipe in moves.among(moves.of(value)):
            if value.dim() < len(recipe.shape):
                yield moves.put(whole, Constant(names), cost)


def _absent(frame: Frame, key: ast.expr, value: Any) -> Place | None:
    """Return the place of a parameter of the model that was not passed, if an expression is its name."""
    outermost = frame.moves.outcome.moments[-1].frame
    taken = outermost.f_code.co_varnames[: outermost.f_code.co_argcount + outermost.f_code.co_kwonlyargcount]
    match key:
        case ast.Name(id=name) if name in taken and name not in frame.moves.recipes:
            return (name,) if outermost.f_locals.get(name) is value else None
        case _:
            return None

"""Lists of pictures of features, one for each level, with what goes beside them, as a forward goes over them.

``for source, mask, position in zip(sources, masks, positions): b, c, h, w = source.shape`` tells of three lists: of
pictures, of masks that are as high and as wide, and of pictures again.
"""

import ast
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from torch import nn

from fxengine.inputs.clues import BATCH, Clues
from fxengine.inputs.reading import definition_read, measured
from fxengine.inputs.recipes import Listing, TensorRecipe

__all__ = ["levelled", "levels_said"]

_LARGEST: Final = 16
_OF_A_MASK: Final = re.compile(r"mask")
_RANK: Final = 4


def levels_said(root: nn.Module | Callable[..., Any], names: list[str]) -> frozenset[str]:
    """Return the parameters whose items a forward takes for pictures as it goes over them, and those beside them."""
    definition = definition_read(root)
    found = set[str]()
    for loop in ast.walk(definition) if definition is not None else ():
        if isinstance(loop, ast.For):
            items = dict(_items(loop.target, loop.iter))
            if any(name in items for name in _unpacked_as_pictures(loop)):
                found.update(owner for owner in items.values() if owner in names)
    return frozenset(found)


def levelled(name: str, clues: Clues) -> Listing:
    """Return a list of pictures of features, or of masks if it is called so, each half as large as the one before."""
    because = f"the items of `{name}` are gone over with pictures"
    sides = [max(1, _LARGEST >> level) for level in range(clues.levels)]
    if _OF_A_MASK.search(name):
        return Listing(
            tuple(TensorRecipe((BATCH, side, side), "zeros", torch.bool, because=because) for side in sides),
            because=because,
        )
    width = clues.widths[0]
    return Listing(tuple(TensorRecipe((BATCH, width, side, side), because=because) for side in sides), because=because)


def _items(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, str]]:
    """Yield the names of what a loop gives at a time, with the names of what it goes over."""
    match value:
        case ast.Call(func=ast.Name(id="enumerate"), args=[inner, *_]) if isinstance(target, ast.Tuple):
            yield from _items(target.elts[-1], inner)
        case ast.Call(func=ast.Name(id="zip"), args=several) if isinstance(target, ast.Tuple):
            for one, whole in zip(target.elts, several, strict=False):
                yield from _items(one, whole)
        case ast.Name(id=owner) if isinstance(target, ast.Name):
            yield target.id, owner
        case _:
            pass


def _unpacked_as_pictures(loop: ast.For) -> Iterator[str]:
    """Yield the names whose shapes are taken apart into as many sizes as a batch of pictures has."""
    for node in ast.walk(loop):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=axes)], value=value) if len(axes) == _RANK:
                yield measured(value)
            case _:
                pass

"""The ranks that operations want of what they take several of: of factors, and of what is joined."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fxengine.inputs.accounts import Operation
from fxengine.inputs.moves import Change, Moves

if TYPE_CHECKING:
    from fxengine.inputs.recipes import Place, Recipe

__all__ = ["factors", "joined"]


def factors(moves: Moves, operation: Operation, rank: int) -> Iterator[Change]:
    """Yield inputs that are multiplied as they are of the rank that is wanted, with as many columns as rows."""
    parts: dict[Place, Recipe] = {}
    columns = 0
    for tensor, places in zip(operation.tensors[:2], operation.sources, strict=False):
        shape = (*tensor.shape[: rank - 2], *((moves.clues.lengths[0],) * 2 + tuple(tensor.shape[rank - 2 :]))[-2:])
        if columns:
            shape = (*shape[:-2], columns, shape[-1])
        columns = shape[-1]
        for place, recipe in moves.among(places) if len(places) == 1 else ():
            if recipe.shape == tensor.shape:
                parts[place] = recipe.with_shape(shape, moves.because)
    if parts:
        yield moves.change(parts, 0.1)


def joined(moves: Moves, operation: Operation) -> Iterator[Change]:
    """Yield inputs of another rank where what is joined has several: what leads to one of them as what leads to others.

    Args:
        moves: The changes of the inputs that were tried.
        operation: The call that joins, which failed.
    """
    ranks = sorted({each.dim() for each in operation.tensors})
    for tensor, places in zip(operation.tensors, operation.sources, strict=False):
        for rank in ranks if len(ranks) > 1 else ():
            if rank != tensor.dim():
                yield from moves.rerank(places, tensor.dim(), rank, 0.0 if rank < tensor.dim() else 0.3)

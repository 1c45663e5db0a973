"""The ranks that operations want of what they take several of: of factors, of what is joined, of what is summed up."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fxengine.inputs.accounts import Operation
from fxengine.inputs.clues import BATCH
from fxengine.inputs.moves import Change, Moves
from fxengine.inputs.recipes import TensorRecipe

if TYPE_CHECKING:
    from fxengine.inputs.recipes import Place, Recipe

__all__ = ["factors", "joined", "summed"]


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


def summed(moves: Moves, operation: Operation) -> Iterator[Change]:
    """Yield inputs that have the axes of an equation, and where two say the same axis, what no input leads to decides.

    Args:
        moves: The changes of the inputs that were tried.
        operation: The call of `torch.einsum`, which failed.
    """
    equation, *_ = operation.args
    terms = equation.replace(" ", "").partition("->")[0].split(",") if isinstance(equation, str) else []
    if len(terms) != len(operation.tensors) or not all(map(str.isalpha, terms)):
        return
    operands = list(zip(terms, operation.tensors, operation.sources, strict=True))
    kept = {
        axis: size
        for term, tensor, places in operands
        if not places and tensor.dim() == len(term)
        for axis, size in zip(term, tensor.shape, strict=True)
    }
    parts: dict[Place, Recipe] = {}
    for term, tensor, places in operands:
        if tensor.dim() == len(term):
            continue
        for place, recipe in moves.among(places) if len(places) == 1 else ():
            # What was added on the way, as ones to its end, is not part of the input.
            added = tensor.shape[-1] - recipe.shape[-1] if tensor.dim() == len(recipe.shape) > 0 else 0
            sizes = [kept.get(axis, moves.clues.lengths[0] if index else BATCH) for index, axis in enumerate(term)]
            sizes[-1] = max(sizes[-1] - added, 1) if term[-1] in kept else sizes[-1]
            parts[place] = TensorRecipe(tuple(sizes), because=moves.because)
    if parts:
        yield moves.change(parts, 0.1)
        return
    wanted = dict(kept)
    for term, tensor, places in operands:
        for axis, size in zip(term, tensor.shape, strict=True):
            if wanted.setdefault(axis, size) != size:
                yield from moves.resize(places, size, wanted[axis])

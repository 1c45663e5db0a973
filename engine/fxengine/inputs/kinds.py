"""What messages say of the kind of an input: a text, a list, a number of each example, complex numbers.

Each function answers one message, as those of ``complaints`` do, which knows the messages.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import torch

from fxengine.inputs.clues import BATCH, NODES
from fxengine.inputs.moves import Change, Moves
from fxengine.inputs.proposals import SENTENCES
from fxengine.inputs.recipes import Constant, Listing, Place, Recipe, TensorRecipe, Verbatim
from fxengine.inputs.recipes import packed as packed_sequences

__all__ = [
    "PRECISIONS", "as_list", "complex_numbers", "left_out", "of_examples", "one_for_each", "options", "packed", "place",
    "precision", "sparse", "texts", "two_parts", "words",
]  # fmt: skip

PRECISIONS: Final = r"(?:\b|_)(?i:(b?float(?:16|32|64)?|double|half)(?:tensor)?)\b"
"""How torch names the types of floating point numbers."""

_MOST_OPTIONS: Final = 4
_PRECISIONS: Final = {
    "float": torch.float32,
    "float32": torch.float32,
    "float64": torch.float64,
    "double": torch.float64,
    "float16": torch.float16,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
}


def texts(moves: Moves, _match: re.Match[str]) -> Iterator[Change]:
    """``expected string or bytes-like object, got 'Tensor'``: a text, or several of them."""
    for place, _ in moves.among(moves.blamed):
        yield moves.put(place, Constant(list(SENTENCES)), 0.3)
        yield moves.put(place, Constant(SENTENCES[0]), 0.4)


def words(moves: Moves, _match: re.Match[str]) -> Iterator[Change]:
    """``unsupported operand type(s) for +: 'Tensor' and 'list'``: a list for each example, of words or of numbers."""
    for place, _ in moves.among(moves.suspects):
        yield moves.put(place, Constant([text.split() for text in SENTENCES]), 0.2)
        yield moves.put(place, Constant([[1, 2, 3], [4, 5]]), 0.3)


def packed(moves: Moves, _match: re.Match[str]) -> Iterator[Change]:
    """``'Tensor' object has no attribute 'batch_sizes'``: sequences that are packed."""
    for place, recipe in moves.among(moves.suspects):
        width = recipe.shape[-1] if recipe.shape else moves.clues.widths[0]
        yield moves.put(place, packed_sequences(moves.clues.lengths[0], BATCH, width), 0.1)


def one_for_each(moves: Moves, match: re.Match[str]) -> Iterator[Change]:
    """``'float' object has no attribute 'device'``: a tensor with a number of each example."""
    for place, part in moves.parts.items() if hasattr(torch.Tensor, match[2]) else ():
        if isinstance(part, Constant) and type(part.value).__name__ == match[1]:
            fraction = TensorRecipe((BATCH,), "uniform")
            whole = TensorRecipe((BATCH,), "full", torch.int64, part.value)
            yield moves.put(place, fraction if match[1] == "float" else whole, 0.1)


def of_examples(moves: Moves, _match: re.Match[str]) -> Iterator[Change]:
    """``int() argument must be a number, not 'list'``: a number of each example is wanted, mostly how long it is."""
    for place, recipe in moves.among(moves.blamed):
        if len(recipe.shape) > 1:
            sizes = {other.shape[1] for _, other in moves.tensors() if len(other.shape) > 1 and other is not recipe}
            for steps in dict.fromkeys([max(sizes, default=recipe.shape[1]), moves.clues.lengths[0]]):
                yield moves.put(place, TensorRecipe((BATCH,), "full", torch.int64, steps), 0.1)


def left_out(moves: Moves, _match: re.Match[str]) -> Iterator[Change]:
    """``argument 'other' must be Tensor, not NoneType``: an entry goes to a part that the model has not; it is None."""
    for place, _ in moves.among(moves.blamed):
        if len(place) > 1 and isinstance(place[-1], str):
            yield moves.put(place, Constant(None), 0.4)


def as_list(moves: Moves, _match: re.Match[str]) -> Iterator[Change]:
    """A list of tensors was wanted where one was given."""
    for place, recipe in moves.tensors():
        if recipe.shape and len(place) == 1:
            item = recipe.with_shape(recipe.shape[1:])
            yield moves.put(place, Listing((item, item)), 1.5)
            yield moves.put(place, Listing((recipe, recipe)), 1.6)


def place(moves: Moves, _match: re.Match[str]) -> Iterator[Change]:
    """``only integer tensors of a single element can be converted to an index``: a place in a list is a number."""
    for place, _ in moves.among(moves.blamed):
        yield moves.put(place, Constant(0), 0.1)


def options(moves: Moves, match: re.Match[str]) -> Iterator[Change]:
    """``mode must be 'a' or 'b', got ...``, ``x is no domain, the domains are ['a', 'b']``: one of those."""
    before = match.string[: match.start(1)]
    named: list[Place] = [(each,) for each in re.findall(r"\w+", before) if (each,) in moves.parts][-1:]
    words = _words(before)
    spoken_of = named or [each for each in moves.parts if not words.isdisjoint(_words(str(each[-1])))]
    for step, option in enumerate([*dict.fromkeys(re.findall(r"['\"](\w+)['\"]", match[1]))][:_MOST_OPTIONS]):
        for each in spoken_of:
            yield moves.put(each, Constant(option), 0.3 + 0.1 * step)


def _words(text: str) -> set[str]:
    """Return the words of a text, or of a name, that say something."""
    return set(re.findall(r"[a-z]{3,}", text.lower()))


def complex_numbers(moves: Moves, _match: re.Match[str]) -> Iterator[Change]:
    """``not implemented for tensors with non-complex dtypes``: complex numbers of the same shape.

    What was taken for whole numbers is of the shape of others that are complex.
    """
    known = [recipe for _, recipe in moves.tensors() if recipe.dtype.is_complex]
    for place, recipe in moves.among(moves.suspects):
        if recipe.dtype.is_floating_point:
            yield moves.put(place, replace(recipe, fill="normal", dtype=torch.complex64), 0.3)
        elif not recipe.dtype.is_complex:
            like = next(iter(known), recipe)
            yield moves.put(place, TensorRecipe(like.shape, dtype=torch.complex64), 0.3)


def two_parts(moves: Moves, _match: re.Match[str]) -> Iterator[Change]:
    """``Tensor must have a last dimension of size 2``: the two parts of complex numbers, as real ones."""
    for place, recipe in moves.among(moves.suspects):
        shape = recipe.shape
        yield moves.put(place, recipe.with_shape((*shape, 2)), 0.0)
        yield moves.put(place, recipe.with_shape((*shape[:-1], 2)), 0.1)


def precision(moves: Moves, match: re.Match[str]) -> Iterator[Change]:
    """``mat1 and mat2 must have the same dtype, but got Float and Double``: numbers as precise as the model's."""
    named = [_PRECISIONS.get(each.lower()) for each in re.findall(PRECISIONS, match.string)]
    floating = {place: recipe for place, recipe in moves.tensors() if recipe.dtype.is_floating_point}
    for dtype in dict.fromkeys(named):
        parts: dict[Place, Recipe] = {
            place: replace(recipe, dtype=dtype)
            for place, recipe in floating.items()
            if dtype not in {None, recipe.dtype}
        }
        if parts and dtype is not torch.float32:
            yield moves.change(parts, 0.1)
        for place, part in parts.items() if len(parts) > 1 else ():
            yield moves.put(place, part, 0.2 if place in moves.suspects else 0.4)


def sparse(moves: Moves, _match: re.Match[str]) -> Iterator[Change]:
    """``Could not run 'aten::_indices' with arguments from the 'CPU' backend``: a sparse matrix."""
    for place, recipe in moves.among(moves.suspects):
        rows, columns = recipe.shape if len(recipe.shape) == 2 else (NODES, NODES)
        for cost, sizes in enumerate(dict.fromkeys([f"{NODES}", f"{rows}, {columns}"])):
            yield moves.put(place, Verbatim(f"torch.eye({sizes}).to_sparse()"), 0.1 + 0.1 * cost)

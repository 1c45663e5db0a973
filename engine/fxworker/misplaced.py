"""Values whose dimensions lie otherwise than an operation takes them: what fits then does so by chance alone.

One value lacks dimensions that the other has behind the batch, a product has one and the same batch on both of its
sides, two dimensions lie crosswise, a token is joined to others along the features, or has no place in a table.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import nn
from torch.utils import _pytree as pytree

from fxengine.capturing.dimensions import JOINING, PRODUCTS, Dimension, misfit, origin_of, shape_of
from fxengine.inputs.clues import BATCH
from fxengine.inputs.sizes import is_of_pictures
from fxengine.node import Node
from fxengine.passes.shape_prop import ShapeFailure
from fxworker.argument_lists import Arguments

_OTHER_BATCH: Final = 11
"""Another size of the batch, which is hardly one of anything else."""

_OF_ELEMENTS: Final = "must match the size of tensor b"
"""What is said of two values that are added or multiplied element by element."""

_ROWS: Final = 2
"""How many dimensions a batch of rows has."""


def stays_misplaced(
    failure: ShapeFailure, root: nn.Module, arguments: Arguments, run: Callable[[Arguments], ShapeFailure | None]
) -> bool:
    """Return whether what fails at a node are two values of which one lies otherwise than the other, with any batch.

    Args:
        failure: How some inputs fail.
        root: The model.
        arguments: The inputs.
        run: Returns how others fail.
    """
    if not _is_misplaced(failure, root):
        return False
    other = run(_with_batch(arguments, _OTHER_BATCH))
    is_so = other is not None and other.node is failure.node and _is_misplaced(other, root)
    return is_so and run(_with_batch(arguments, 0)) is not None


def _is_misplaced(failure: ShapeFailure, root: nn.Module) -> bool:
    """Whether one of two values lies otherwise than the other."""
    node = failure.node
    given = [each for each in node.all_input_nodes if shape_of(each) is not None]
    if node.op == "call_module" or len(given) < _ROWS or len(given) != len(node.all_input_nodes):
        return False
    name = getattr(node.target, "__name__", str(node.target))
    if name in JOINING:
        return _is_token(node, given, root)
    if len(given) != _ROWS:
        return False
    one, other = given
    if name in PRODUCTS:
        return _is_product_of_rows(one, other, root)
    return _OF_ELEMENTS in str(failure.error) and (_is_beside(one, other, root) or _is_crosswise(one, other, root))


def lacks_tokens(failure: ShapeFailure, root: nn.Module, shapes: Sequence[torch.Size]) -> bool:
    """Return whether a parameter has a place for each part of a picture, and none for the tokens that are joined to it.

    No picture is one part smaller, unless it is a strip.
    """
    sizes = misfit(failure.node, root) if len(shapes) == 1 and is_of_pictures(shapes[0]) else ()
    if len(sizes) != _ROWS or _OF_ELEMENTS not in str(failure.error):
        return False
    made, held = sorted(sizes, key=lambda each: not each.parts)
    tokens = [each.size for each in made.parts if _is_held(each)]
    return bool(tokens) and _is_held(held) and made.size - sum(tokens) == held.size


def _with_batch(arguments: Arguments, size: int) -> Arguments:
    """Return arguments whose tensors have another size of the batch; with a size of 0, no batch at all."""

    def changed(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.shape[:1] != (BATCH,):
            return value
        return value[0] if size == 0 else value.new_zeros((size, *value.shape[1:]))

    return pytree.tree_map(changed, arguments)


def _is_product_of_rows(one: Node, other: Node, root: nn.Module) -> bool:
    """Whether both factors have a batch of rows that are as long, so that one of them has to be transposed."""
    shape = shape_of(one) or ()
    if len(shape) != _ROWS or shape != shape_of(other) or shape[0] == shape[1]:
        return False
    rows, lengths = zip(*((origin_of(each, 0, root), origin_of(each, 1, root)) for each in (one, other)), strict=True)
    return all(each.is_of_batch for each in rows) and all(each.of_layer for each in lengths)


def _is_beside(one: Node, other: Node, root: nn.Module) -> bool:
    """Whether one value has not all dimensions of the other, so that its batch meets another one than the batch."""
    small, big = sorted((one, other), key=lambda each: len(shape_of(each) or ()))
    few, many = shape_of(small), shape_of(big)
    if few is None or many is None or not _ROWS <= len(few) < len(many):
        return False
    at = len(many) - len(few)
    if few[0] != many[0] or many[at] in {1, few[0]} or not _is_within(few, many):
        return False
    of_few, of_many = origin_of(small, 0, root), origin_of(big, 0, root)
    return of_few.is_of_batch and of_few.given == of_many.given


def _is_within(few: tuple[int, ...], many: tuple[int, ...]) -> bool:
    """Whether a shape is what is left of another one if some dimensions are taken out."""
    rest = iter(many)
    return all(size in rest for size in few)


def _is_crosswise(one: Node, other: Node, root: nn.Module) -> bool:
    """Whether two sizes lie the other way round in one value, one of which is a layer's and one is not."""
    first, second = shape_of(one) or (), shape_of(other) or ()
    differing = [dim for dim, pair in enumerate(zip(first, second, strict=False)) if len({*pair} - {1}) > 1]
    if len(first) != len(second) or len(differing) != _ROWS or differing[0] == 0:
        return False
    i, j = differing
    if (first[i], first[j]) != (second[j], second[i]):
        return False
    sizes = [origin_of(each, dim, root) for each in (one, other) for dim in differing]
    fixed = {each.size for each in sizes if each.of_layer}
    return len(fixed) == 1 and any(each.given is not None for each in sizes if each.size not in fixed)


def _is_token(node: Node, given: list[Node], root: nn.Module) -> bool:
    """Whether a single token that is a parameter is joined along the features with values of the same length."""
    shapes = [shape_of(each) or () for each in given]
    ranks = {len(each) for each in shapes}
    if len(ranks) != 1 or len(given) != _ROWS:
        return False
    said: Any = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else 0)
    differing = [dim for dim, pair in enumerate(zip(*shapes, strict=True)) if len({*pair}) > 1]
    if len(differing) != 1 or type(said) is not int or said % ranks.pop() == differing[0]:
        return False
    (dim,) = differing
    single = [origin_of(each, dim, root) for each, shape in zip(given, shapes, strict=True) if shape[dim] == 1]
    return len(single) == 1 and _is_held(single[0])


def _is_held(origin: Dimension) -> bool:
    """Whether a size is that of a parameter."""
    return origin.built is not None and origin.built.held is not None

"""What fits by accident: a product of two values of one shape, which has to be as long as it is wide.

Whether the trace of a model is whole is of no matter: where its graph holds for the inputs alone that were found, the
model itself says what becomes of others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from fxengine.capturing.dimensions import PRODUCTS, frame_of
from fxengine.inputs import InferredInputs
from fxengine.inputs.probe import probe
from fxengine.inputs.recipes import Recipe
from fxengine.inputs.sizes import with_other_sizes
from fxengine.node import Node
from fxengine.passes.shape_prop import ShapeFailure, describe
from fxworker.failing import failure_with
from fxworker.never import Hopeless, Search


def by_accident(search: Search) -> Hopeless | InferredInputs | None:
    """Return a product of two values of one shape, which fits only as they are as long as they are wide.

    The shapes of the graph's nodes are known. With a transposition that is missing, it fails on longer inputs, and
    what it is given has one and the same shape then, too. Where it is right, inputs are returned with which such
    values are longer than wide, if there are any. None says that there is no such product.
    """
    suspects = [node for node in search.module.graph.nodes if _is_of_squares(node)]
    if not suspects:
        return None
    found = longer = search.found
    for recipes, runs in with_other_sizes(search.root, found.recipes, found.positional, search.limit):
        if runs and longer is not found:
            continue
        args, kwargs, guess = search.of_recipes(recipes)
        failure = failure_with(search.module, args, kwargs, search.root)
        if failure is None and runs and not any(map(_is_of_squares, suspects)):
            longer = replace(found, args=args, kwargs=kwargs, expression=guess, recipes=recipes)
        elif failure is not None and failure.node in suspects and len({shape for _, shape in failure.inputs}) == 1:
            return Hopeless(failure, guess)
        elif failure is not None and not runs and (met := _stopped_at(suspects, search, recipes)) is not None:
            return Hopeless(met, guess)
    return longer


def _stopped_at(suspects: Sequence[Node], search: Search, recipes: Mapping[str, Recipe]) -> ShapeFailure | None:
    """Return the product at which the model itself stops with some inputs, if both its values have one shape there."""
    outcome = probe(search.root, recipes, search.found.positional, search.limit)
    given = [each for each in outcome.operation.args if isinstance(each, torch.Tensor)] if outcome.operation else []
    places = {(each.source.path, each.source.line) for each in outcome.moments}
    frames = ((node, frame_of(node)) for node in suspects)
    node = next((node for node, place in frames if place is not None and (place.path, place.line) in places), None)
    if node is None or not isinstance(outcome.error, Exception) or len(given) != len(node.all_input_nodes):
        return None
    if len({each.shape for each in given}) != 1:
        return None
    named = zip(node.all_input_nodes, given, strict=True)
    shapes = tuple((each.name, describe(value)) for each, value in named)
    return ShapeFailure(node, outcome.error, shapes, needs_data=False)


def _is_of_squares(node: Node) -> bool:
    """Whether a node is the product of two values that are as long as they are wide, and of the same shape."""
    name = getattr(node.target, "__name__", str(node.target))
    given = [each.tensor.shape for each in node.all_input_nodes if each.tensor is not None]
    if name not in PRODUCTS or len(given) != 2 or given[0] != given[1]:
        return False
    return len(given[0]) > 1 and given[0][-1] == given[0][-2]

"""What is missing where pictures come into a layer that takes rows: that they are flattened."""

from typing import Any, Final

from torch import Tensor, nn

from fxengine.called import called_module
from fxengine.inputs import InferredInputs, infer_inputs
from fxengine.inputs.sizes import is_of_pictures
from fxengine.node import Node

__all__ = ["fits_flattened"]

_SECONDS: Final = 0.5


def fits_flattened(node: Node, root: nn.Module) -> InferredInputs | None:
    """Return inputs on which a model runs if what comes into a layer is flattened before, None if there are none.

    Args:
        node: The call of the layer, which failed. Its inputs' shapes are known.
        root: The model. It is left as it was.
    """
    layer = called_module(node, root)
    if not isinstance(layer, nn.Linear) or not any(map(_is_picture, node.all_input_nodes)):
        return None
    hook = layer.register_forward_pre_hook(_flattened)
    try:
        found = infer_inputs(root, budget_s=_SECONDS)
    finally:
        hook.remove()
    return found if found.complete else None


def _is_picture(node: Node) -> bool:
    return node.tensor is not None and is_of_pictures(node.tensor.shape)


def _flattened(_layer: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(each.flatten(1) if isinstance(each, Tensor) and is_of_pictures(each.shape) else each for each in args)

"""Types of what is taken out of typed tuples and lists, which TorchScript wants to know."""

import operator
import typing
from typing import Any

import torch

from fxengine.graph import Graph
from fxengine.node import Node

__all__ = ["annotate_getitem_nodes"]


def annotate_getitem_nodes(graph: Graph) -> None:
    """Give each ``getitem`` of a node whose type is a tuple, a list or a named tuple the type of the item."""
    for node in graph.nodes:
        if node.target is operator.getitem:
            sequence, index = node.args
            if isinstance(sequence, Node) and sequence.type:
                node.type = _item_type(sequence.type, index) or node.type


def _item_type(annotation: Any, index: Any) -> Any | None:
    """Return the type of one item, or None if ``annotation`` does not tell."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is list:
        (item,) = arguments
        return item
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return arguments[0]
        assert index < len(arguments), f"Index {index} out of range for parameterized_types (len={len(arguments)})"
        return arguments[index]
    if annotation is not torch.Tensor and hasattr(annotation, "_fields"):
        return annotation.__annotations__[annotation._fields[index]]
    return None

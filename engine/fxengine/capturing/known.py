"""What follows from a model's own tensors alone: computed for real at the moment when code asks for it.

A learned threshold may decide which way code goes. The graph has computed with it what it computes with all
parameters, without data; the few nodes that lead to the question are carried out here.
"""

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any, Final

import torch
from torch import Tensor, nn

from fxengine.capturing.evaluation import mutates
from fxengine.capturing.questions import RANDOM
from fxengine.node import Node, map_arg

__all__ = ["computed"]

_MOST_NODES: Final = 100


def computed(node: Node, root: nn.Module) -> Tensor | None:
    """Return the value of a node; None if it depends on inputs or chance, was changed in place, or costs much."""
    values: dict[Node, Any] = {}
    pending = [node]
    while pending:
        current = pending[-1]
        missing = [each for each in current.all_input_nodes if each not in values]
        if missing:
            pending += missing
            if len(pending) > _MOST_NODES:
                return None
            continue
        pending.pop()
        if current not in values:
            if len(values) >= _MOST_NODES:
                return None
            values[current] = _value(current, root, values)
            if values[current] is None:
                return None
    return values[node]


def _value(node: Node, root: nn.Module, values: dict[Node, Any]) -> Any:
    """The value of a node whose arguments have values, None if it must not be computed."""
    if node.op == "get_attr":
        value = reduce(getattr, str(node.target).split("."), root)
        return value.detach() if isinstance(value, Tensor) and not value.is_meta else None
    function = _function(node)
    if function is None or function in RANDOM or function is operator.setitem or mutates(function, node.kwargs):
        return None
    args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
    with torch.no_grad():
        return function(*args, **kwargs)


def _function(node: Node) -> Callable[..., Any] | None:
    if node.op == "call_method":
        return getattr(Tensor, str(node.target), None)
    return node.target if node.op == "call_function" and callable(node.target) else None

"""What follows from a model's own tensors, or from shapes, alone: computed for real when code asks for it.

A learned threshold may decide which way code goes, or the largest index of those that `x.new_zeros(n)` stands for. The
graph has computed with it what it computes with all tensors, without data; the few nodes that lead to the question are
carried out here.
"""

import math
import operator
from collections.abc import Callable, Container
from functools import reduce
from typing import Any, Final

import torch
from torch import Tensor, nn

from fxengine.capturing.drawing import RANDOM
from fxengine.capturing.evaluation import mutates
from fxengine.node import Node, map_arg
from fxengine.silent.mutation import VIEWS

__all__ = ["computed"]

_MOST_NODES: Final = 100
_MOST_ELEMENTS: Final = 1 << 20
_FILLED: Final = frozenset({"new_zeros", "new_ones", "new_full", "zeros_like", "ones_like", "full_like"})
"""Functions whose first argument says only of what shape and type a tensor is."""

_NEW: Final = _FILLED | {"new_empty", "empty_like", "new_tensor"}
"""Functions that return what nobody else has."""


_SHARING: Final = VIEWS | {
    "contiguous", "cpu", "expand", "expand_as", "flatten", "float", "getitem", "imag", "ravel", "real", "reshape",
    "reshape_as", "squeeze_", "to", "type", "type_as", "unsqueeze_", "view_as_complex", "view_as_real",
}  # fmt: skip
"""Functions and methods whose results may share memory with their first argument."""


def computed(node: Node, root: nn.Module, may_be_read: Callable[[Tensor], bool]) -> Tensor | None:
    """Return the value of a node; None if it depends on inputs or chance, was changed in place, or costs much.

    Args:
        node: The node.
        root: What has the model's own tensors.
        may_be_read: Tells whether the data of one of these are still what they were.
    """
    own: list[Tensor] = []
    found = _computed(node, root, own)
    return found if found is not None and all(may_be_read(each) for each in own) else None


def _computed(node: Node, root: nn.Module, own: list[Tensor]) -> Tensor | None:
    """The value of a node, with the model's own tensors that it follows from in `own`."""
    values: dict[Node, Any] = {}
    pending = [node]
    while pending:
        current = pending[-1]
        model = _model_of(current)
        missing = [each for each in current.all_input_nodes if each not in values and each is not model]
        if missing:
            pending += missing
            if len(pending) > _MOST_NODES:
                return None
            continue
        pending.pop()
        if current not in values:
            if len(values) >= _MOST_NODES:
                return None
            values[current] = _value(current, root, values, own)
            if values[current] is None:
                return None
    return values[node]


def _value(node: Node, root: nn.Module, values: dict[Node, Any], own: list[Tensor]) -> Any:
    """The value of a node whose arguments have values, None if it must not be computed."""
    if node.op == "get_attr":
        value = reduce(getattr, str(node.target).split("."), root)
        if not isinstance(value, Tensor) or value.is_meta:
            return None
        own.append(value)
        return value.detach()
    function = _function(node)
    if function is None or function in RANDOM or (_mutates(function, node) and not _goes_on(node)):
        return None
    model = _model_of(node)
    if model is not None:
        facts = model.tensor
        if facts is None or math.prod(facts.shape) > _MOST_ELEMENTS or _is_changed(node):
            return None
        values = {**values, model: torch.empty(facts.shape, dtype=facts.dtype)}
    elif _is_written_to(node):
        return None
    args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
    with torch.no_grad():
        return function(*args, **kwargs)


def _goes_on(node: Node) -> bool:
    """Whether a node changes in place what was made for that, and nobody else has: `x.new_zeros(n).index_add_(…)`."""
    changed = node.args[0] if node.args else None
    if node.op != "call_method" or "out" in node.kwargs or not isinstance(changed, Node):
        return False
    return set(changed.users) == {node} and (_model_of(changed) is not None or _goes_on(changed))


def _model_of(node: Node) -> Node | None:
    """Return the node after whose shape and type a tensor is made and filled, None where that is not what is done."""
    if _name(node) not in _FILLED or not node.args or not isinstance(node.args[0], Node):
        return None
    others = (*node.args[1:], *node.kwargs.values())
    return node.args[0] if not any(each is node.args[0] for each in others) else None


def _name(node: Node) -> str:
    return str(node.target) if node.op == "call_method" else getattr(node.target, "__name__", "")


def _is_changed(node: Node) -> bool:
    """Whether a tensor, or what was made of it, was changed in place since, as far as the graph has come."""
    seen = {node}
    pending = [node]
    while pending:
        current = pending.pop()
        for user in current.users:
            if _name(user) in _NEW and user.args[:1] == (current,):
                continue
            function = _function(user)
            if function is None or (_mutates(function, user) and not _only_reads(user, seen) and not _goes_on(user)):
                return True
            if user not in seen:
                seen.add(user)
                pending.append(user)
                if len(seen) > _MOST_NODES:
                    return True
    return False


def _is_written_to(node: Node) -> bool:
    """Whether what a node makes, or what shares memory with it, is changed in place, as far as the graph has come."""
    seen = {node}
    pending = [node]
    while pending:
        for user in pending.pop().users:
            function = _function(user)
            if function is None or user in seen:
                continue
            if _mutates(function, user) and not _only_reads(user, seen) and not _goes_on(user):
                return True
            if _name(user) in _SHARING:
                seen.add(user)
                pending.append(user)
    return False


def _mutates(function: Callable[..., Any], node: Node) -> bool:
    return function is operator.setitem or mutates(function, node.kwargs)


def _only_reads(node: Node, tensors: Container[Node]) -> bool:
    """Whether a node that changes its first argument in place, or `out`, changes none of these, but reads them."""
    changed = node.kwargs.get("out", node.args[0] if node.args else None)
    is_plain = node.target is operator.setitem or node.op == "call_method" or "out" in node.kwargs
    return is_plain and isinstance(changed, Node) and changed not in tensors


def _function(node: Node) -> Callable[..., Any] | None:
    if node.op == "call_method":
        return getattr(Tensor, str(node.target), None)
    return node.target if node.op == "call_function" and callable(node.target) else None

"""Which nodes a back end can run: rules, and rules made of rules."""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import nn

from fxengine.node import Node
from fxengine.passes.shape_prop import TensorMetadata
from fxengine.passes.tools_common import CALLABLE_NODE_OPS, get_node_target

__all__ = ["OpSupports", "OperatorSupport", "OperatorSupportBase", "any_chain", "chain", "create_op_support"]

TargetTypeName: TypeAlias = str
SupportedArgumentDTypes: TypeAlias = (
    tuple[Sequence[Sequence[torch.dtype] | None], dict[str, Sequence[torch.dtype]]] | None
)
SupportDict: TypeAlias = Mapping[TargetTypeName, SupportedArgumentDTypes]
IsNodeSupported: TypeAlias = Callable[[Mapping[str, nn.Module], Node], bool]


class OperatorSupportBase(abc.ABC):
    """Says whether a back end can run a node."""

    @abc.abstractmethod
    def is_node_supported(self, submodules: Mapping[str, nn.Module], node: Node) -> bool:
        """Return whether ``node`` can be run; ``submodules`` are those of its module, by qualified name."""


class OperatorSupport(OperatorSupportBase):
    """Looks up what a node calls in a table.

    The table has for each name that ``get_node_target`` gives either None (any types) or the types of tensors that
    are allowed: a sequence for the positional arguments, in which None stands for any, and a dictionary for keyword
    arguments.
    """

    _support_dict: SupportDict

    def __init__(self, support_dict: SupportDict | None = None) -> None:
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules: Mapping[str, nn.Module], node: Node) -> bool:
        """Return whether the table has what ``node`` calls with its arguments' types; what is no call is supported."""
        if node.op not in CALLABLE_NODE_OPS:
            return True
        target = get_node_target(submodules, node)
        if target not in self._support_dict:
            return False
        allowed = self._support_dict[target]
        if allowed is None:
            return True
        positional, named = allowed
        pairs: list[tuple[Any, Sequence[torch.dtype] | None]] = [
            *zip(node.args, positional, strict=False),
            *((node.kwargs[name], dtypes) for name, dtypes in named.items() if name in node.kwargs),
        ]
        return all(
            dtypes is None or not isinstance(argument, Node) or _get_arg_dtype(argument) in dtypes
            for argument, dtypes in pairs
        )


class _FunctionalSupport(OperatorSupportBase):
    def __init__(self, function: IsNodeSupported) -> None:
        self._function = function

    def is_node_supported(self, submodules: Mapping[str, nn.Module], node: Node) -> bool:
        return self._function(submodules, node)


def create_op_support(is_node_supported: IsNodeSupported) -> OperatorSupportBase:
    """Return a rule that asks a function."""
    return _FunctionalSupport(is_node_supported)


def chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Return a rule that supports what all the others support."""
    return create_op_support(
        lambda submodules, node: all(rule.is_node_supported(submodules, node) for rule in op_support)
    )


def any_chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Return a rule that supports what any of the others supports."""
    return create_op_support(
        lambda submodules, node: any(rule.is_node_supported(submodules, node) for rule in op_support)
    )


class OpSupports:
    """Rules to be combined."""

    @classmethod
    def decline_if_input_dtype(cls, dtype: torch.dtype) -> OperatorSupportBase:
        """Return a rule against nodes with an input of type ``dtype``."""
        return create_op_support(
            lambda _submodules, node: all(_get_arg_dtype(source) != dtype for source in node.all_input_nodes)
        )

    @classmethod
    def decline_if_node_in_names(cls, disallow_set: set[str]) -> OperatorSupportBase:
        """Return a rule against nodes with these names."""
        return create_op_support(lambda _submodules, node: node.name not in disallow_set)


def _get_arg_dtype(arg: Node) -> Any:
    """Return the type of the tensor, or of whatever else ``arg`` makes, as shape propagation noted it."""
    assert isinstance(arg, Node), f"Expected torch.fx.Node, got {type(arg)}"
    meta = arg.meta.get("tensor_meta")
    return meta.dtype if isinstance(meta, TensorMetadata) else arg.meta["type"]

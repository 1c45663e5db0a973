"""Calls in one form: arguments as signatures name them, and operators in place of the functions that they stand for."""

import operator
from collections.abc import Callable
from typing import Any, ClassVar

import torch

from fxengine.experimental.schema_type_annotation import AnnotateTypesWithSchema
from fxengine.graph_module import GraphModule
from fxengine.interpreter import Transformer
from fxengine.node import Argument, Node, Target, map_aggregate
from fxengine.operator_schemas import create_type_hint, normalize_function, normalize_module
from fxengine.proxy import Proxy

__all__ = ["NormalizeArgs", "NormalizeOperators"]


class NormalizeArgs(Transformer):
    """Passes arguments by the names in the signature of what is called, default values among them.

    Calls stay as they are where the signature is not known or has ``*args``, ``**kwargs`` or positional parameters
    alone. Where several overloads fit, ``node.meta["type"]`` decides.

    Example:
        ``NormalizeArgs(symbolic_trace(model)).transform()``

    Attributes:
        node_map: The node that each value of the new graph was made for.
        normalize_to_only_use_kwargs: Whether all arguments become keyword arguments.
    """

    def __init__(self, module: GraphModule, normalize_to_only_use_kwargs: bool = True) -> None:
        """Prepare to normalize a copy of ``module``.

        Args:
            module: The graph module.
            normalize_to_only_use_kwargs: Pass all arguments by keyword, not only those that were.
        """
        super().__init__(module)
        self.node_map: dict[Proxy, Node] = {}
        self.normalize_to_only_use_kwargs = normalize_to_only_use_kwargs

    def run_node(self, n: Node) -> Any:
        """Record the node anew; annotation and ``meta`` are the old node's.

        Raises:
            RuntimeError: Several overloads fit, and no types decide between them.
        """

        def type_of(arg: object) -> Any:
            return n.meta.get("type") if isinstance(arg, Node) else type(arg)

        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if n.op == "call_function":
            types: Any = map_aggregate(n.args, type_of)
            arg_types = tuple(create_type_hint(kind) for kind in types)
            kwarg_types = {name: type_of(value) for name, value in kwargs.items()}
            out = self.call_function(n.target, args, kwargs, arg_types, kwarg_types)
        else:
            out = super().run_node(n)
        if n.op != "output":
            self.node_map[out] = n
            out.node.meta = n.meta
            out.node.type = n.type
            out.node.tensor = n.tensor
        return out

    def call_function(
        self,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Any],
        arg_types: tuple[Any, ...] | None = None,
        kwarg_types: dict[str, Any] | None = None,
    ) -> Proxy:
        """Record the call with normalized arguments.

        Args:
            target: The function.
            args: The positional arguments.
            kwargs: The keyword arguments.
            arg_types: The types of the positional arguments.
            kwarg_types: The types of the keyword arguments.
        """
        assert callable(target), f"Expected callable target, got {type(target)}"
        types: Any = arg_types
        normalized = normalize_function(target, args, kwargs, types, kwarg_types, self.normalize_to_only_use_kwargs)
        if normalized is None:
            return super().call_function(target, args, kwargs)
        return self.tracer.create_proxy("call_function", target, *normalized)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """Record the call with normalized arguments."""
        assert isinstance(target, str), f"Expected str target, got {type(target)}"
        given: Any = args
        normalized = normalize_module(self.module, target, given, kwargs, self.normalize_to_only_use_kwargs)
        return super().call_module(target, *(normalized or (args, kwargs)))


class NormalizeOperators(AnnotateTypesWithSchema):
    """Calls Python's operators in place of torch's functions for them: ``x + y``, not ``torch.add(x, y)``.

    Calls with other than two positional arguments stay as they are.

    Example:
        ``NormalizeOperators(symbolic_trace(model)).transform()``
    """

    binary_magic_method_remap: ClassVar[dict[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
        torch.add: operator.add,
        torch.mul: operator.mul,
        torch.sub: operator.sub,
        torch.div: operator.truediv,
        torch.floor_divide: operator.floordiv,
        torch.remainder: operator.mod,
        torch.eq: operator.eq,
        torch.ne: operator.ne,
        torch.lt: operator.lt,
        torch.le: operator.le,
        torch.gt: operator.gt,
        torch.ge: operator.ge,
    }

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """Record the call, of the operator if there is one."""
        assert callable(target), f"Expected callable target, got {type(target)}"
        equivalent = self.binary_magic_method_remap.get(target)
        if equivalent is None or len(args) != 2:
            return super().call_function(target, args, kwargs)
        return super().call_function(equivalent, args, {})

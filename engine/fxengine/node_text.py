"""Nodes and arguments as text for people, as ``print(graph)`` shows them."""

from typing import TYPE_CHECKING

import torch

from fxengine.names import _get_qualified_name, _type_repr, dtype_abbreviation
from fxengine.node_fields import _NodeBase

if TYPE_CHECKING:
    from collections.abc import Callable

    from fxengine.node import Node

__all__ = ["_format_arg", "format_node", "pretty_target"]


def format_node(
    node: "Node",
    placeholder_names: list[str] | None = None,
    maybe_return_typename: list[str] | None = None,
    *,
    include_tensor_metadata: bool = False,
) -> str | None:
    """Return a node on one line; ``Node.format_node`` describes the arguments."""
    annotation = f"{_type_repr(node.type)} " if node.type is not None else ""
    start = f"%{node._name} : {annotation}[num_users={len(node.users)}] = {node._op}"
    match node._op:
        case "placeholder":
            if placeholder_names:
                # torch.fx writes the name twice where there is a type.
                annotated = f"{node._target}{node._target}: {_type_repr(node.type)}"
                placeholder_names.append(annotated if node.type else str(node._target))
                return None
            if not node.type:  # An empty tuple stands for none.
                start = f"%{node._name} : [num_users={len(node.users)}] = {node._op}"
            default = f"(default={node._args[0]})" if node._args else ""
            return f"{start}[target={node._target}]{default}"
        case "get_attr":
            return f"{start}[target={pretty_target(node._target)}]"
        case "output":
            if node.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {_type_repr(node.type)}"
            return f"return {node._args[0]}"
        case _:
            if include_tensor_metadata and (metadata := _tensor_metadata(node)) is not None:
                start = f"%{node._name} : {metadata}[num_users={len(node.users)}] = {node._op}"
            return (
                f"{start}[target={pretty_target(node._target)}]"
                f"(args = {_format_arg(node._args)}, kwargs = {_format_arg(node._kwargs)})"
            )


def pretty_target(target: object) -> str:
    """Return a target for people: ``operator.add``, ``builtins.getattr``, ``torch.relu``."""
    if isinstance(target, str):
        return target
    name: str | None = getattr(target, "__name__", None)
    module: str | None = getattr(target, "__module__", None)
    if name is not None and module in {"builtins", "_operator"}:
        return f"{module.lstrip('_')}.{name}"
    assert callable(target)
    return _get_qualified_name(target)


def _tensor_metadata(node: "Node") -> str | None:
    """Return dtype, shape, stride and device of the example value in ``meta``, if that is a strided tensor."""
    meta = node.meta
    value = meta.get("val", meta.get("tensor_meta", meta.get("example_value")))
    if not isinstance(value, torch.Tensor) or value.layout in {torch.sparse_csc, torch.sparse_csr}:
        return None
    shape = ", ".join(str(size) for size in value.shape)
    stride = ", ".join(str(step) for step in value.stride())
    return f'Tensor "{dtype_abbreviation(value.dtype)}[{shape}][{stride}]{value.device}"'


def _format_arg(arg: object, max_list_len: float = float("inf")) -> str:
    """Return an argument as ``format_node`` shows it: nodes with a percent sign, lists cut after some items."""
    custom: Callable[[], str] | None = getattr(arg, "_custom_fx_repr_fn", None)
    if custom is not None:
        return custom()
    match arg:
        case list() | tuple():
            shown = [_format_arg(item) for index, item in enumerate(arg) if index < max_list_len]
            cut = "" if len(arg) < max_list_len + 1 else f", ...[total_len={len(arg)}]"
            if isinstance(arg, list):
                return f"[{', '.join(shown)}{cut}]"
            comma = "," if len(arg) == 1 else ""
            return f"({', '.join(shown)}{comma}{cut})"
        case dict():
            return "{" + ", ".join(f"{key}: {_format_arg(item)}" for key, item in arg.items()) + "}"
        case _NodeBase():
            return f"%{arg}"
        case _:
            return str(arg)

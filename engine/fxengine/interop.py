"""The bridge to torch.fx: graphs, modules, code and meta there and back, so that its consumers take ours.

Quantization, export and compiler back ends check for `torch.fx.GraphModule`, and torch.fx's nodes live in C++, so
neither engine can use the other's graphs. This module rebuilds them, node by node. It is the only one of the engine
that imports torch.fx, and it is imported by nobody else in it: who does not need the bridge does not load torch.fx.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import torch.fx
import torch.fx.graph
import torch.fx.node
from torch import nn
from torch.fx.passes.shape_prop import TensorMetadata as TorchTensorMetadata
from torch.utils import _pytree as pytree

from fxengine.codegen import CodeGen, _BoxedCodeGen, _PyTreeCodeGen, _PyTreeInfo
from fxengine.graph import Graph
from fxengine.graph_module import GraphModule
from fxengine.node import Node, map_arg
from fxengine.passes.shape_prop import TensorMetadata

__all__ = ["from_torch_fx", "graph_from_torch_fx", "graph_to_torch_fx", "to_torch_fx"]

_AnyNode: TypeAlias = Node | torch.fx.Node

_ORIGIN: Final = "fxengine_origin"
"""The key of `meta` under which a node of torch.fx carries the origin that ours has as a field."""


def to_torch_fx(module: GraphModule) -> torch.fx.GraphModule:
    """Return a `torch.fx.GraphModule` that computes the same, with the same node names, code and meta.

    Parameters and submodules are shared with `module`; submodules that are graph modules are themselves rebuilt. `meta`
    of module and nodes is copied, shape facts as torch.fx's `TensorMetadata`.

    Args:
        module: The graph module to rebuild.

    Raises:
        TypeError: The graph has a code generator of the user's own, which only its own engine can run.
    """
    graph = graph_to_torch_fx(module.graph)
    converted = torch.fx.GraphModule(module, graph, type(module).__name__)
    _share_state(module, converted, GraphModule, to_torch_fx)
    return converted


def from_torch_fx(module: torch.fx.GraphModule) -> GraphModule:
    """Return a `GraphModule` that computes the same as one of torch.fx's; the counterpart of `to_torch_fx`.

    Args:
        module: The graph module to rebuild.

    Raises:
        TypeError: The graph has a code generator of the user's own, which only its own engine can run.
    """
    graph = graph_from_torch_fx(module.graph)
    converted = GraphModule(module, graph, type(module).__name__)
    _share_state(module, converted, torch.fx.GraphModule, from_torch_fx)
    return converted


def graph_to_torch_fx(graph: Graph) -> torch.fx.Graph:
    """Return a graph of torch.fx with the same nodes.

    Raises:
        TypeError: The graph has a code generator of the user's own.
    """
    converted = torch.fx.Graph()
    _copy_nodes(graph, converted, map_arg, _to_torch_meta)
    converted.set_codegen(_codegen(graph._codegen, _TO_TORCH, torch.fx.graph._PyTreeInfo))
    return converted


def graph_from_torch_fx(graph: torch.fx.Graph) -> Graph:
    """Return a graph of ours with the same nodes.

    Raises:
        TypeError: The graph has a code generator of the user's own.
    """
    converted = Graph()
    _copy_nodes(graph, converted, torch.fx.node.map_arg, _from_torch_meta)
    converted.set_codegen(_codegen(graph._codegen, _FROM_TORCH, _PyTreeInfo))
    return converted


_TO_TORCH: Final[dict[type, Callable[..., Any]]] = {
    CodeGen: torch.fx.graph.CodeGen,
    _BoxedCodeGen: getattr(torch.fx.graph, "_BoxedCodeGen", torch.fx.graph.CodeGen),
    _PyTreeCodeGen: torch.fx.graph._PyTreeCodeGen,
}
_FROM_TORCH: Final[dict[type, Callable[..., Any]]] = {theirs: ours for ours, theirs in reversed(_TO_TORCH.items())}  # type: ignore[misc]


def _copy_nodes(
    source: Any,
    target: Any,
    map_nodes: Callable[[Any, Callable[[Any], Any]], Any],
    copy_meta: Callable[[Any, Any], None],
) -> None:
    """Append copies of all nodes of a graph of one engine to an empty graph of the other."""
    copies: dict[_AnyNode, Any] = {}
    for node in source.nodes:
        copied = target.create_node(
            node.op,
            node.target,
            map_nodes(node.args, copies.__getitem__),
            map_nodes(node.kwargs, copies.__getitem__),
            name=node.name,
            type_expr=node.type,
        )
        copied.name = node.name
        copy_meta(node, copied)
        copies[node] = copied


def _to_torch_meta(node: Node, copied: torch.fx.Node) -> None:
    copied.meta = dict(node.meta)
    if "tensor_meta" in node.meta:
        copied.meta["tensor_meta"] = _facts(node.meta["tensor_meta"], TensorMetadata, TorchTensorMetadata)
    if node.origin is not None:
        copied.meta[_ORIGIN] = node.origin


def _from_torch_meta(node: torch.fx.Node, copied: Node) -> None:
    copied.meta = dict(node.meta)
    if "tensor_meta" in node.meta:
        copied.meta["tensor_meta"] = _facts(node.meta["tensor_meta"], TorchTensorMetadata, TensorMetadata)
    copied.origin = copied.meta.pop(_ORIGIN, None)


def _facts(described: Any, source: type[Any], target: type[Any]) -> Any:
    """Return the description of a value, a container of them perhaps, in the other engine's type."""

    def is_facts(part: Any) -> bool:
        return isinstance(part, source)

    return pytree.tree_map(lambda part: target(*part) if is_facts(part) else part, described, is_leaf=is_facts)


def _codegen(codegen: Any, counterparts: dict[type, Callable[..., Any]], make_info: Callable[..., Any]) -> Any:
    """Return the code generator of the other engine that generates the same code."""
    make = counterparts.get(type(codegen))
    if make is None:
        raise TypeError(
            f"{type(codegen).__qualname__} generates code for one engine alone; "
            "set a CodeGen of the other engine on the graph after the conversion, and a plain one before it"
        )
    info = getattr(codegen, "pytree_info", None)
    converted = make() if info is None else make(make_info(*info))
    converted._body_transformer = codegen._body_transformer
    converted._func_name = codegen._func_name
    return converted


def _share_state(
    module: nn.Module, converted: nn.Module, kind: type[nn.Module], convert: Callable[[Any], nn.Module]
) -> None:
    """Give `converted` the mode and meta of `module`, and rebuilt graph modules where its graph calls them."""
    converted.training = module.training
    converted.meta = dict(module.meta)  # type: ignore[assignment, operator]
    for path, child in list(converted.named_modules(remove_duplicate=False)):
        if not path or not isinstance(child, kind):
            continue
        parent, _, name = path.rpartition(".")
        # Below a submodule that is shared as a whole nothing is replaced: it belongs to `module` too.
        owner = converted.get_submodule(parent)
        if owner is converted or owner is not module.get_submodule(parent):
            setattr(owner, name, convert(child))

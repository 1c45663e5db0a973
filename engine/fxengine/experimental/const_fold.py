"""Constant folding: what depends on parameters and buffers alone is computed once, before the first call.

The constants are computed when the module is first called rather than when it is folded, so folding needs no
memory, works for modules on meta, and follows a move to another device before that.
"""

import re
from collections.abc import Callable
from operator import getitem
from typing import Any, Final, cast

import sympy
import torch
from torch import nn

from fxengine._symbolic_trace import symbolic_trace
from fxengine.graph import Graph
from fxengine.graph_module import GraphModule
from fxengine.node import Node, map_arg
from fxengine.passes.split_module import split_module

__all__ = ["FoldedGraphModule", "_inline_module", "get_unique_attr_name_in_module", "split_const_subgraphs"]


class FoldedGraphModule(GraphModule):
    """A graph module whose constants are computed by another graph before the first call.

    Attributes:
        const_subgraph_module: Computes the constants; None if there are none.
        fx_const_folded_attrs_name: The attribute that holds them: a parameter, or a list of parameters.
        has_folding_been_run: Whether they have been computed.
        device_for_folded_attrs: Where constants that are numbers go; tensors stay where they are.
    """

    def __init__(
        self,
        root: nn.Module,
        graph: Graph,
        const_subgraph: Graph | None = None,
        fx_const_folded_attrs_name: str | None = None,
        device_for_folded_attrs: str = "cuda",
    ) -> None:
        super().__init__(root, graph)
        self.const_subgraph_module = None if const_subgraph is None else GraphModule(root, const_subgraph)
        self.has_folding_been_run = False
        self.fx_const_folded_attrs_name = fx_const_folded_attrs_name
        self.device_for_folded_attrs = device_for_folded_attrs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module, its constants computed before if they were not yet."""
        if not self.has_folding_been_run:
            self.run_folding()
        return super().__call__(*args, **kwargs)

    def run_folding(self) -> None:
        """Compute the constants; does nothing if there are none.

        Raises:
            AssertionError: They have been computed.
        """
        if self.const_subgraph_module is None or self.fx_const_folded_attrs_name is None:
            return
        assert not self.has_folding_been_run, "Folding has already been run"
        self.has_folding_been_run = True
        folded = self.const_subgraph_module()
        constants = (
            nn.ParameterList([self._parameter(value) for value in folded])
            if isinstance(folded, tuple)
            else self._parameter(folded)
        )
        setattr(self, self.fx_const_folded_attrs_name, constants)

    def _parameter(self, value: torch.Tensor | int) -> nn.Parameter:
        if isinstance(value, torch.Tensor):
            return nn.Parameter(value.detach().clone(), requires_grad=value.requires_grad)
        return nn.Parameter(torch.Tensor([value]).to(device=self.device_for_folded_attrs), requires_grad=False)


def split_const_subgraphs(
    module: nn.Module | GraphModule,
    skip_folding_node_fn: Callable[[Node], bool] | None = None,
    device_for_folded_attrs: str = "cpu",
) -> FoldedGraphModule:
    """Return ``module`` with everything that depends on its state alone moved to where it is computed once.

    Args:
        module: The module; traced if it is no graph module. Not changed.
        skip_folding_node_fn: Returns whether a node, and so what depends on it, is to stay.
        device_for_folded_attrs: Where constants that are numbers go.
    """
    traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
    constant = _constant_nodes(traced, skip_folding_node_fn)
    if not any(node.op != "get_attr" for node in constant):
        return FoldedGraphModule(traced, traced.graph)
    split = split_module(traced, module, lambda node: 0 if node in constant else 1)
    constants = cast("GraphModule", split.get_submodule(_CONSTANTS))
    rest = cast("GraphModule | None", getattr(split, _REST, None))
    for part in (constants, rest):
        for node in part.graph.find_nodes(op="call_module") if part is not None else ():
            setattr(split, node.target, getattr(part, node.target))
    call = next(node for node in split.graph.nodes if node.op == "call_module" and node.target == _CONSTANTS)
    folding = GraphModule(split, constants.graph)
    _read_attributes(folding.graph, call.args)
    name = get_unique_attr_name_in_module(traced, "_FX_CONST_FOLDED_ATTRS")
    is_tuple = isinstance(folding.graph.output_node().args[0], tuple)
    setattr(split, name, nn.ParameterList() if is_tuple else nn.Parameter())
    with split.graph.inserting_before(call):
        folded = split.graph.get_attr(name)
    folded.meta = call.meta.copy()
    call.replace_all_uses_with(folded)
    if rest is not None:
        _inline_module(split, _REST)
    split.graph.eliminate_dead_code()
    return FoldedGraphModule(split, split.graph, folding.graph, name, device_for_folded_attrs)


_CONSTANTS: Final = "submod_0"
_REST: Final = "submod_1"


def _read_attributes(graph: Graph, inputs: tuple[Any, ...]) -> None:
    """Read what the inputs of ``graph`` are given, attributes each of them, in their place."""
    for placeholder, given in zip(graph.find_nodes(op="placeholder"), inputs, strict=True):
        assert given.op == "get_attr", f"Expected get_attr, got {given.op}"
        with graph.inserting_before(placeholder):
            read = graph.get_attr(given.target)
        read.meta = placeholder.meta.copy()
        placeholder.replace_all_uses_with(read)
        graph.erase_node(placeholder)


def _constant_nodes(module: GraphModule, skip: Callable[[Node], bool] | None) -> dict[Node, None]:
    """Return the nodes that depend on attributes alone, and can be computed once for all calls."""
    found: dict[Node, None] = {}
    for node in module.graph.nodes:
        if node.op in {"placeholder", "output"}:
            continue
        depends_on_constants = node.op == "get_attr" or all(source in found for source in node.all_input_nodes)
        if not depends_on_constants or (skip is not None and skip(node)) or node.is_impure():
            continue
        if isinstance(node.kwargs.get("fill_value"), sympy.Expr):
            continue
        if node.op == "call_module" and _is_impure(module.get_submodule(str(node.target))):
            continue
        found[node] = None
    return found


def _is_impure(module: nn.Module) -> bool:
    """Whether a graph module contains a node with an effect."""
    if not isinstance(module, GraphModule):
        return False
    return any(
        node.is_impure() if node.op == "call_function" else _is_impure(module.get_submodule(str(node.target)))
        for node in module.graph.nodes
        if node.op in {"call_function", "call_module"}
    )


def _inline_module(gm: GraphModule, inline_mod_name: str, run_dce: bool = True) -> dict[Node, Node]:
    """Put the nodes of a graph module in the place of its first call in ``gm``; return what stands for each of them.

    Targets are copied as they are: what they refer to must be found in ``gm`` too.

    Args:
        gm: The graph module that calls the other one; it is changed.
        inline_mod_name: The qualified name of the other one.
        run_dce: Erase what is dead then.

    Raises:
        AssertionError: There is no call, or what is called is no graph module.
    """
    inlined = dict(gm.named_modules())[inline_mod_name]
    assert isinstance(inlined, GraphModule), f"Expected GraphModule, got {type(inlined)}"
    calls = (node for node in gm.graph.nodes if node.op == "call_module" and node.target == inline_mod_name)
    call = next(calls, None)
    assert call is not None, f"Could not find call_module node for {inline_mod_name}"
    copies: dict[Node, Any] = {}
    for place, node in enumerate(inlined.graph.find_nodes(op="placeholder")):
        copies[node] = call.kwargs[node.name] if node.name in call.kwargs else call.args[place]

    def copied(node: Node) -> Any:
        copies[node].meta = node.meta.copy()
        return copies[node]

    with gm.graph.inserting_before(call):
        for node in inlined.graph.nodes:
            if node.op not in {"placeholder", "output"}:
                copies[node] = gm.graph.node_copy(node, copied)
    results = map_arg(inlined.graph.output_node().args[0], copied)
    if isinstance(results, list | tuple):
        for user in list(call.users):
            if user.op == "call_function" and user.target is getitem and isinstance(user.args[1], int):
                copies[user] = results[user.args[1]]
                user.replace_all_uses_with(copies[user])
                gm.graph.erase_node(user)
    call.replace_all_uses_with(cast("Any", results))
    gm.graph.erase_node(call)
    if run_dce:
        gm.graph.eliminate_dead_code()
    return copies


def get_unique_attr_name_in_module(mod_traced: GraphModule, name: str) -> str:
    """Return ``name`` as an identifier that ``mod_traced`` has no attribute of, numbered if need be."""
    name = re.sub(r"[^0-9a-zA-Z_]+", "_", name)
    if name[0].isdigit():
        name = f"_{name}"
    while hasattr(mod_traced, name):
        base, separator, number = name.rpartition("_")
        name = f"{base}_{int(number) + 1}" if separator and number.isdigit() else f"{name}_1"
    return name

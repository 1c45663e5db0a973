"""An interpreter that runs on proxies and so builds a new graph in place of values.

``Transformer`` is the shortest way to write a pass that replaces operations one by one: override the method of an
opcode, return something computed from its arguments, call ``transform``. It does not look inside submodules (each
is a leaf) and does not copy
parameters: the new module shares them with the old one.
"""

import copy
import inspect
from typing import Any

import torch

from fxengine.graph import Graph
from fxengine.graph_module import GraphModule
from fxengine.interpreter import Interpreter
from fxengine.node import Argument, Node, Target, map_aggregate
from fxengine.proxy import Proxy
from fxengine.tracer import Tracer

__all__ = ["Transformer"]

_INHERITED_META = (
    "nn_module_stack",
    "stack_trace",
    "torch_fn",
    "source_fn_stack",
    "original_aten",
    "recompute",
    "ac_graph_id",
    "has_backward_hook",
    "from_node",
    "quantization_tag",
    "custom",
    "partitioner_tag",
)
"""The entries of ``meta`` that say where a node comes from, and thus hold for whatever replaces it."""


class _TransformerTracer(Tracer):
    """Records calls of modules as they are, whatever they are."""

    def __init__(self, graph: Graph, root: torch.nn.Module) -> None:
        super().__init__()
        self.graph = graph
        self.root = root
        self.tensor_attrs = {}

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        return True


class Transformer(Interpreter):
    """Produces a new ``GraphModule`` by running the old one on proxies.

    Example:
        Exchange ``torch.neg`` and ``torch.sigmoid``::

            class Swap(Transformer):
                def call_function(self, target, args, kwargs):
                    swapped = {torch.neg: torch.sigmoid, torch.sigmoid: torch.neg}
                    return super().call_function(swapped.get(target, target), args, kwargs)


            swapped = Swap(symbolic_trace(lambda x: torch.sigmoid(torch.neg(x)))).transform()

    Attributes:
        new_graph: The graph that is being built.
        tracer: The tracer behind the proxies.
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = _TransformerTracer(self.new_graph, module)

    def run_node(self, n: Node) -> Any:
        """Execute ``n`` on proxies; the nodes that this creates inherit where ``n`` came from."""
        before = self.new_graph._root.prev
        result = super().run_node(n)
        created = self.new_graph._root.prev
        while created is not before and created.op != "root":
            _inherit(created, n)
            created = created.prev
        return result

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """Return a proxy for a new placeholder."""
        assert isinstance(target, str)
        default = args[0] if args else inspect.Signature.empty
        return Proxy(self.new_graph.placeholder(target, default_value=default), self.tracer)

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """Return a proxy for a new ``get_attr`` node."""
        assert isinstance(target, str)
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return what the tracer makes of the call: a proxy for a ``call_module`` node where the module is a leaf."""
        assert isinstance(target, str)
        submodule = self.fetch_attr(target)
        return self.tracer.call_module(submodule, submodule.forward, args, kwargs)

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return a proxy for a new ``call_function`` node, so that wrapped functions stay wrapped."""
        assert not isinstance(target, str)
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Return the new module; the old one is left as it was."""
        result = super().run(enable_io_processing=False)
        if result is not None:
            output = self.new_graph.output(map_aggregate(result, _strip_proxy))
            old_output = next(iter(reversed(self.graph.nodes)))
            assert old_output.op == "output"
            output.meta.update(old_output.meta)
        return GraphModule(self.module, self.new_graph)


def _strip_proxy(value: Any) -> Any:
    return value.node if isinstance(value, Proxy) else value


def _inherit(created: Node, old: Node) -> None:
    created._origin = old._origin
    for key in _INHERITED_META:
        if key in old.meta:
            created.meta[key] = copy.copy(old.meta[key])

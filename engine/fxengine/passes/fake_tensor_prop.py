"""Propagation of fake tensors: exact about devices, strides and aliases, slower than ``propagate_partial``."""

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from fxengine.graph_module import GraphModule
from fxengine.interpreter import Interpreter
from fxengine.node import Node, TensorFacts, map_aggregate

__all__ = ["FakeTensorProp"]


class FakeTensorProp(Interpreter):
    """Runs a graph on fake tensors and notes on each node what it makes.

    ``node.meta["val"]`` gets the result with each tensor in it as a fake tensor of its own, numbers as they are,
    and None for anything else; ``node.tensor`` the facts of a result that is a tensor.
    """

    def __init__(self, module: GraphModule, mode: FakeTensorMode | None = None) -> None:
        """Prepare to run ``module`` under ``mode``, or under a mode of its own."""
        super().__init__(module)
        self._mode = mode if mode is not None else FakeTensorMode()
        self._mode.epoch += 1
        self._mode.reset_nt_tensor_id_counter()

    def propagate(self, *args: object) -> Any:
        """Run the graph on fake tensors like ``args``, note what the nodes make, and return the result."""
        return self.propagate_dont_convert_inputs(
            *(self._mode.from_tensor(value) if isinstance(value, torch.Tensor) else value for value in args)
        )

    def propagate_dont_convert_inputs(self, *args: object) -> Any:
        """Run the graph on ``args``, fake tensors already, note what the nodes make, and return the result."""
        with self._mode:
            return super().run(*args)

    def run_node(self, n: Node) -> Any:
        """Execute ``n`` and note what it makes."""
        result = super().run_node(n)
        value = map_aggregate(result, self._snapshot)
        if value is not None:
            n.meta["val"] = value
        if isinstance(result, torch.Tensor):
            n.tensor = TensorFacts.of(result)
        return result

    def _snapshot(self, value: Any) -> Any:
        """Return a fake tensor that later changes of ``value`` do not affect."""
        match value:
            case torch.Tensor():
                fake = value if isinstance(value, FakeTensor) else self._mode.from_tensor(value, static_shapes=True)
                return fake.detach()
            case int() | float() | bool() | torch.SymInt() | torch.SymFloat() | torch.SymBool():
                return value
            case _:
                return None

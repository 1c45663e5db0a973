"""What a pass is, and what it returns."""

import abc
from typing import NamedTuple

from torch import nn

from fxengine.graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """What a pass returns.

    Attributes:
        graph_module: The module, changed or not.
        modified: Whether it was changed.
    """

    graph_module: nn.Module
    modified: bool


class PassBase(abc.ABC):
    """A pass with a condition that must hold before it and one that holds after it; called like a function."""

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        """Check what must hold before, run the pass, check what must hold after."""
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """Run the pass."""

    def requires(self, graph_module: GraphModule) -> None:  # noqa: B027 - there need not be a condition.
        """Raise if the pass cannot be run on ``graph_module``."""

    def ensures(self, graph_module: GraphModule) -> None:  # noqa: B027 - likewise.
        """Raise if the pass did not do what it promises."""

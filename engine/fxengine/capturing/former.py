"""What a run of a model has left behind, for the capture of the next run, which goes on from there."""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from fxengine.capturing.held import Held
    from fxengine.node import Node

__all__ = ["Former", "taken_over"]


class Former:
    """The tensors that one run has made, as the next one finds them."""

    def __init__(self, held: "dict[int, Held]", initial: Collection[int]) -> None:
        """Of `held`, what the graph of the run knows of tensors, those are left behind that are not `initial`."""
        self._held = held
        self._initial = initial
        self._taken: list[int] = []

    def has(self, tensor: Tensor) -> bool:
        """Whether the run has made a tensor, or given one its data, in its graph."""
        held = self._held.get(id(tensor))
        return held is not None and held.tensor is tensor and not held.constant and id(tensor) not in self._initial

    def number_of(self, tensor: Tensor) -> int:
        """The number by which a tensor is known here."""
        self._taken.append(id(tensor))
        return len(self._taken) - 1

    def node_of(self, number: int) -> "Node | None":
        """The node of the run's graph that computes the tensor of this number, if there is one."""
        return self._held[self._taken[number]].node


def taken_over(number: int) -> Callable[..., Tensor]:
    """Stand for a tensor of the run before, in a graph that is only compared."""
    raise NotImplementedError(number)

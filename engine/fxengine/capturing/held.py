"""Which tensors of a running model are values of the graph, and which node computes each.

The code that is captured works on ordinary tensors. What depends on the inputs has no data; it is known here by its
identity, together with the node that computes it. Nodes are made when they are needed: an item of a tuple, a
parameter, a constant become nodes when something is computed from them.
"""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

from fxengine.node import Node

__all__ = ["Held", "Place", "storage_of"]


class Place:
    """Where a value is found in the graph: at a node, or at one that is still to be made. Mutable.

    Attributes:
        node: The node, None as long as nobody has needed it.
        parent: The place of the tuple, list or dict that it is an item of, if it is one.
        key: Its index or key there.
        made: How else it is made: an opcode, a target, arguments and keyword arguments.
    """

    __slots__ = ("key", "made", "node", "parent")

    def __init__(
        self,
        node: Node | None,
        parent: "Place | None" = None,
        key: Any = None,
        made: tuple[str, str | Callable[..., Any], tuple[Any, ...], Mapping[str, Any]] | None = None,
    ) -> None:
        self.node = node
        self.parent = parent
        self.key = key
        self.made = made


class Held(Place):
    """A tensor that the graph knows. Mutable: an operation in place gives it a new node.

    Attributes:
        tensor: The tensor that the code has; kept, so that no other takes its identity.
        value: What stands for it in a computation of shapes: the tensor itself if it has no data.
        sources: The inputs that it depends on, as bits.
        constant: Whether its data are known, so that what is computed from it alone need not be recorded.
        version: How often a constant had been changed in place when it became known.
        is_given: Whether it is an input.
    """

    __slots__ = ("constant", "is_given", "sources", "tensor", "value", "version")

    def __init__(self, tensor: Tensor, value: Tensor, place: Place, sources: int) -> None:
        super().__init__(place.node, place.parent, place.key, place.made)
        self.tensor = tensor
        self.value = value
        self.sources = sources
        self.constant = False
        self.version = 0
        self.is_given = False


def storage_of(tensor: Tensor) -> int | None:
    """What identifies the memory that a tensor has or would have; None for one that stands for a batch."""
    return None if is_functorch_wrapped_tensor(tensor) else tensor.untyped_storage()._cdata

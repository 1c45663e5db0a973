"""Which module a node calls."""

from torch import nn

from fxengine.node import Node

__all__ = ["called_module"]


def called_module(node: Node, root: nn.Module) -> nn.Module | None:
    """Return the module that a node calls, None where it calls none, or one that the root has no name for.

    Such a one is held in a list, say: a trace names it, and takes the name back at its end.
    """
    if node.op != "call_module":
        return None
    try:
        return root.get_submodule(str(node.target))
    except AttributeError:
        return None

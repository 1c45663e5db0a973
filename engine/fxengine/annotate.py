"""Giving a value inside a traced function a type, which generated code and TorchScript then see."""

from typing import Any

from fxengine.proxy import Proxy

__all__ = ["annotate"]


def annotate(val: Any, type: Any) -> Any:  # noqa: A002 - torch.fx's name.
    """Return ``val``, whose node, if it is a proxy, is given the type ``type``.

    Raises:
        RuntimeError: The node has a type.
    """
    if isinstance(val, Proxy):
        if val.node.type:
            raise RuntimeError(
                "Tried to annotate a value that already had a type on it!"
                f" Existing type is {val.node.type} and new type is {type}. "
                "This could happen if you tried to annotate a function parameter value (in which case you should use "
                "the type slot on the function signature) or you called annotate on the same value twice"
            )
        val.node.type = type
    return val

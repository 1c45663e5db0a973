"""Gradients and autocast in a captured graph: where the code switches them, a node does."""

from typing import TYPE_CHECKING, Any

import torch

from fxengine.node_list import NO_KWARGS

if TYPE_CHECKING:
    from fxengine.capturing.tracer import CaptureTracer
    from fxengine.node import Node

__all__ = ["Modes"]


class Modes:
    """Which modes are on where the graph of a tracer ends now. Mutable."""

    def __init__(self, tracer: "CaptureTracer", device: torch.device) -> None:
        """Start with the modes that are on; autocast is looked at for the type of `device`."""
        self._tracer = tracer
        self._kind = device.type
        self._grad = torch.is_grad_enabled()
        self._autocast: tuple[Any, ...] | None = None
        self._autocast_node: Node | None = None

    def may_differ(self) -> bool:
        """Whether modes may have been switched since the last node."""
        return (
            torch.is_grad_enabled() is not self._grad
            or self._autocast is not None
            or torch._C._is_any_autocast_enabled()
        )

    def follow(self) -> None:
        """Append what switches the modes that were switched since the last node."""
        append = self._tracer.graph._append
        grad = torch.is_grad_enabled()
        if grad is not self._grad:
            self._grad = grad
            append("call_function", torch._C._set_grad_enabled, (grad,), NO_KWARGS, "_set_grad_enabled", None, ())
        now = None
        if torch._C._is_any_autocast_enabled():
            now = (
                self._kind,
                torch.get_autocast_dtype(self._kind),
                torch.is_autocast_enabled(self._kind),
                torch.is_autocast_cache_enabled(),
            )
        if now == self._autocast:
            return
        used = () if self._autocast_node is None else (self._autocast_node,)
        if used:
            leave = torch.amp.autocast_mode._exit_autocast
            append("call_function", leave, used, NO_KWARGS, "_exit_autocast", None, used)
        self._autocast, self._autocast_node = now, None
        if now is not None:
            enter = torch.amp.autocast_mode._enter_autocast
            self._autocast_node = append("call_function", enter, now, NO_KWARGS, "_enter_autocast", None, ())

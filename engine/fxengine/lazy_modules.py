"""Modules of torch's that get their parameters in their first run: having that, and making them wait for it again.

What such a module becomes, parameters and class, it becomes in place. Who runs it without data undoes that, since the
sizes may be wrong and no parameter got its numbers; a capture has the first run for it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import is_lazy

__all__ = ["Lazy", "first_run", "lazy_among"]


class Lazy:
    """A module that has had no run yet."""

    __slots__ = ("_attributes", "_dictionaries", "_kind", "_module", "_tensors")

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._kind = type(module)
        self._attributes = vars(module).copy()
        self._dictionaries = [(each, each.copy()) for each in self._attributes.values() if isinstance(each, dict)]
        registered = (*module._parameters.values(), *module._buffers.values())
        self._tensors: list[tuple[Tensor, Any]] = [
            (each, type(each)) for each in registered if each is not None and is_lazy(each)
        ]

    def restore(self) -> None:
        """Let the module wait for its first run again."""
        if type(self._module) is self._kind and all(is_lazy(tensor) for tensor, _ in self._tensors):
            return
        self._module.__class__ = self._kind
        vars(self._module).clear()
        vars(self._module).update(self._attributes)
        for dictionary, content in self._dictionaries:
            dictionary.clear()
            dictionary.update(content)
        with torch._C.DisableTorchFunction(), torch.no_grad():
            for tensor, kind in self._tensors:
                if not is_lazy(tensor):
                    tensor.data = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
                    tensor.__class__ = kind


def lazy_among(modules: Iterable[nn.Module]) -> list[Lazy]:
    """Those among modules that have had no run yet."""
    return [Lazy(each) for each in modules if isinstance(each, LazyModuleMixin)]


def first_run(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Give a module what it gets in its first run, for real whatever watches; one that had it is left as it is.

    Raises:
        Exception: What the module raises where it does not take these arguments.
    """
    if isinstance(module, LazyModuleMixin) and hasattr(module, "_initialize_hook"):
        with torch._C.DisableTorchFunction():
            infer: Any = module._infer_parameters  # pyright: ignore[reportAttributeAccessIssue] - it asks for a Protocol.
            infer(module, args, kwargs)

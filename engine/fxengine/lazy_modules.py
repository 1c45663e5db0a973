"""Modules of torch's that get their parameters in their first run: making them wait for that again.

What such a module becomes, parameters and class, it becomes in place. A search that tries inputs undoes that, since the
wrong ones would stay.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import is_lazy

__all__ = ["Lazy", "lazy_among"]


class Lazy:
    """A module that has had no run yet."""

    __slots__ = ("_kind", "_module", "_tensors")

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._kind = type(module)
        registered = (*module._parameters.values(), *module._buffers.values())
        self._tensors: list[tuple[Tensor, Any]] = [
            (each, type(each)) for each in registered if each is not None and is_lazy(each)
        ]

    def restore(self) -> None:
        """Let the module wait for its first run again; its attributes are not this object's concern."""
        if type(self._module) is self._kind:
            return
        self._module.__class__ = self._kind
        with torch._C.DisableTorchFunction(), torch.no_grad():
            for tensor, kind in self._tensors:
                if not is_lazy(tensor):
                    tensor.data = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
                    tensor.__class__ = kind


def lazy_among(modules: Iterable[nn.Module]) -> list[Lazy]:
    """Those among modules that have had no run yet."""
    return [Lazy(each) for each in modules if isinstance(each, LazyModuleMixin)]

"""What a captured graph was specialised on, and whether other inputs are the same in that."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fxengine.diagnosis import Guard

__all__ = ["InputGuard", "fact_of"]


@dataclass(frozen=True, slots=True)
class InputGuard(Guard):
    """Something about an input that the graph holds for.

    Attributes:
        path: Which input, as the name of a parameter and the steps into its value.
        kind: What of a tensor: its `shape`, `dtype`, `device`, `layout`, `requires_grad`; empty for the value itself.
    """

    path: tuple[Any, ...]
    kind: str

    def reason(self, found: Mapping[tuple[Any, ...], Any]) -> str:
        """Why inputs violate the guard, as a sentence; empty if they do not.

        Args:
            found: What is in the inputs, by path.
        """
        if self.path not in found:
            return f"{self.expression} is not given; the graph was made for {self.value}"
        value = found[self.path]
        if self.kind and not isinstance(value, Tensor):
            return f"{self.expression}: no tensor but {type(value).__name__}; the graph was made for {self.value}"
        now = fact_of(value, self.kind)
        same = now is self.value or (type(now) is type(self.value) and bool(now == self.value))
        return "" if same else f"{self.expression} is {now}; the graph was made for {self.value}"


def fact_of(value: Any, kind: str) -> Any:
    """What a guard compares: a property of a tensor, or the value itself."""
    match kind:
        case "":
            return value
        case "shape":
            return tuple(value.shape)
        case "device":
            return torch.device("cpu") if value.is_meta else value.device
        case _:
            return getattr(value, kind)

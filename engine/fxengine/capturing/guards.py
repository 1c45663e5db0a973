"""What a captured graph was specialised on, and whether other inputs are the same in that."""

import dis
import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final

import torch
from torch import Tensor

from fxengine.diagnosis import Guard

__all__ = ["InputGuard", "fact_of", "in_order", "sizes_read"]


@dataclass(frozen=True, slots=True)
class InputGuard(Guard):
    """Something about an input that the graph holds for.

    Attributes:
        path: Which input, as the name of a parameter and the steps into its value.
        kind: What of a tensor: its `shape`, one size of it as `shape[1]`, its `ndim`, `dtype`, `device`, `layout`,
            `requires_grad`, the numbers in it as `tolist()`; empty for the value itself.
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
        case "tolist()":
            return None if value.is_meta else value.tolist()
        case "device":
            return torch.device("cpu") if value.is_meta else value.device
        case _ if kind.startswith("shape["):
            index = int(kind[6:-1])
            return value.shape[index] if index < value.dim() else None
        case _:
            return getattr(value, kind)


def in_order(kind: str, rank: int) -> str:
    """Return a kind of guard with its dimension counted from the front."""
    return f"shape[{int(kind[6:-1]) % rank}]" if kind.startswith("shape[-") and rank else kind


@functools.lru_cache(maxsize=4096)
def sizes_read(code: CodeType, at: int) -> tuple[str, ...]:
    """Return which sizes code reads of the shape that the instruction at an offset gives: `shape[0]`, or `shape`."""
    later = (each for each in dis.get_instructions(code) if each.offset > at)
    following = [each for each in itertools.islice(later, _MOST_INSTRUCTIONS) if each.opname != "CACHE"]
    keys = list(itertools.takewhile(lambda each: each.opname in _CONSTANTS, following))
    user = following[len(keys)] if len(keys) < len(following) else None
    if len(keys) == 1 and type(keys[0].argval) is int and user is not None and _subscribes(user):
        return (f"shape[{keys[0].argval}]",)
    return ("shape",)


_CONSTANTS: Final = frozenset({"LOAD_CONST", "LOAD_SMALL_INT"})
_MOST_INSTRUCTIONS: Final = 16
"""How many instructions, fillers included, may stand between a shape and what reads it."""


def _subscribes(instruction: dis.Instruction) -> bool:
    return instruction.opname == "BINARY_SUBSCR" or (instruction.opname == "BINARY_OP" and instruction.argrepr == "[]")

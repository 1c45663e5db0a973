"""What all rules ask of shapes."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

Rule: TypeAlias = Callable[..., Tensor | tuple[Tensor | None, ...] | None]
"""Returns what a function returns for its arguments, None where it is not sure of that."""


def new(like: Tensor, shape: Sequence[int], dtype: torch.dtype | None = None) -> Tensor:
    """Return a tensor of a shape, contiguous, without data."""
    return torch.empty(shape, dtype=dtype or like.dtype, device="meta")


def fits(small: Sequence[int], large: Sequence[int]) -> bool:
    """Whether a tensor of shape ``small`` broadcasts to ``large`` without changing it."""
    if len(small) > len(large):
        return False
    return all(a in {1, b} for a, b in zip(reversed(small), reversed(large), strict=False))


def broadcast(one: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    """The shape that two shapes broadcast to.

    Raises:
        RuntimeError: They do not; in the words of the kernels for data.
    """
    last = max(len(one), len(other)) - 1
    shape: list[int] = []
    for place, (a, b) in enumerate(itertools.zip_longest(reversed(one), reversed(other), fillvalue=1)):
        if a != b and 1 not in {a, b}:
            raise RuntimeError(
                f"The size of tensor a ({a}) must match the size of tensor b ({b}) "
                f"at non-singleton dimension {last - place}"
            )
        shape.append(b if a == 1 else a)
    return tuple(reversed(shape))


def for_each(value: Any, count: int, least: int) -> tuple[int, ...] | None:
    """A parameter for each dimension; None where it is none that needs no second thought."""
    values = (value,) * count if type(value) is int else value
    if not isinstance(values, tuple | list) or len(values) != count:
        return None
    return tuple(values) if all(type(each) is int and each >= least for each in values) else None

"""Example inputs of a model, in the forms in which a person gives them."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from torch import Tensor

Arguments: TypeAlias = tuple[Sequence[Any], Mapping[str, Any]]
"""The positional and keyword arguments of a call."""

Inputs: TypeAlias = Tensor | Sequence[Any] | Mapping[str, Any] | Arguments
"""A tensor, the positional or the keyword arguments of a call, or a pair of both."""


def arguments_of(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return inputs as positional and keyword arguments; what is none of their forms is the only argument."""
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    if isinstance(inputs, Tensor) or not isinstance(inputs, Sequence):
        return (inputs,), {}
    if len(inputs) == 2 and isinstance(inputs[0], list | tuple) and isinstance(inputs[1], Mapping):
        return tuple(inputs[0]), dict(inputs[1])
    return tuple(inputs), {}

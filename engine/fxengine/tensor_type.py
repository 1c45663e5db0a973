"""Types of tensors whose sizes are known, in part or not at all: for annotations and gradual typing."""

from collections.abc import Sequence
from typing import Any, Final

__all__ = ["Dyn", "TensorType", "is_consistent", "is_more_precise"]


class TensorType:
    """The type of a tensor with these sizes; one that is not known is ``Dyn``.

    It stands in annotations: ``def forward(self, x: TensorType((1, 2, 3, Dyn)))``.
    """

    def __init__(self, dim: Sequence[Any]) -> None:
        self.__origin__ = TensorType
        self.__args__ = dim

    @property
    def dims(self) -> Sequence[Any]:
        """The sizes."""
        return self.__args__

    def __repr__(self) -> str:
        return f"TensorType[{self.dims}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and list(self.dims) == list(other.dims)

    __hash__ = None  # type: ignore[assignment] - the sizes may be in a list.

    def __class_getitem__(cls, dims: Any) -> "TensorType":
        return TensorType(tuple(dims) if isinstance(dims, tuple) else (dims,))


class _DynType:
    """The type of that of which no type is known."""

    def __init__(self) -> None:
        self.__name__ = "_DynType"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self))

    def __hash__(self) -> int:
        return hash(_DynType)

    def __repr__(self) -> str:
        return "Dyn"


Dyn: Final = _DynType()


def is_consistent(t1: object, t2: object) -> bool:
    """Return whether two types may be those of the same value: whether they agree where both are known."""
    if t1 == t2 or _is_open(t1) or _is_open(t2):
        return True
    return isinstance(t1, TensorType) and isinstance(t2, TensorType) and _pairwise(is_consistent, t1, t2)


def is_more_precise(t1: object, t2: object) -> bool:
    """Return whether ``t1`` says all that ``t2`` says."""
    if t1 == t2 or isinstance(t2, _DynType):
        return True
    return isinstance(t1, TensorType) and isinstance(t2, TensorType) and _pairwise(is_more_precise, t1, t2)


def _pairwise(relation: Any, t1: TensorType, t2: TensorType) -> bool:
    return len(t1.dims) == len(t2.dims) and all(map(relation, t1.dims, t2.dims))


def _is_open(kind: object) -> bool:
    """Return whether a type is unknown, or a variable of unification."""
    return isinstance(kind, _DynType) or type(kind).__name__ == "Var"

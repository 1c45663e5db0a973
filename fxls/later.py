"""A sequence that is computed when somebody first looks into it."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar, overload

_Item_co = TypeVar("_Item_co", covariant=True)


class Later(Sequence[_Item_co]):
    """What a function gives, asked for at the first look and kept."""

    __slots__ = ("_find", "_items")

    def __init__(self, find: Callable[[], Iterable[_Item_co]]) -> None:
        self._find: Callable[[], Iterable[_Item_co]] | None = find
        self._items: tuple[_Item_co, ...] = ()

    @overload
    def __getitem__(self, index: int) -> _Item_co: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[_Item_co]: ...

    def __getitem__(self, index: int | slice) -> _Item_co | Sequence[_Item_co]:
        return self._found()[index]

    def __len__(self) -> int:
        return len(self._found())

    def _found(self) -> tuple[_Item_co, ...]:
        if self._find is not None:
            self._items, self._find = tuple(self._find()), None
        return self._items

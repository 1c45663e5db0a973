"""Account of a trial: which parts of the inputs each value was computed from, and what call of torch's raised."""

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch import Tensor, nn
from torch.utils import _pytree as pytree

from fxengine.inputs.recipes import Arguments, Place

__all__ = ["Accounts", "Operation", "Sources"]

Sources: TypeAlias = frozenset[Place]
"""Parts of the inputs that a tensor was computed from."""


@dataclass(frozen=True, slots=True)
class Operation:
    """The call of a torch function that raised.

    Attributes:
        function: The function.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        sources: For each tensor among the arguments, in order, what it was computed from.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    sources: tuple[Sources, ...]

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors among the arguments, those in lists included."""
        return [leaf for leaf in pytree.tree_leaves((self.args, dict(self.kwargs))) if isinstance(leaf, Tensor)]


class Accounts:
    """Knows of the values of one run which parts of the inputs they come from. Mutable: it grows with the run.

    Attributes:
        failed: The last error of a torch function, and its call.
    """

    def __init__(self) -> None:
        self.failed: tuple[BaseException, Operation] | None = None
        self._sources: dict[int, tuple[Any, Sources]] = {}
        self._spread: tuple[Place, Arguments] | None = None

    def mark(self, value: Any, places: Sources) -> None:
        """Note that the tensors in ``value`` were computed from ``places``."""
        if isinstance(value, Tensor):
            self._sources[id(value)] = (value, places)
        elif isinstance(value, list | tuple):
            self._sources[id(value)] = (value, places)
            for item in value:
                self.mark(item, places)
        elif isinstance(value, dict):
            for item in value.values():
                self.mark(item, places)

    def mark_input(self, value: Any, place: Place) -> None:
        """Note that ``value``, and each part of it, is what stands at its place of the inputs."""
        self._sources[id(value)] = (value, frozenset({place}))
        if isinstance(value, Arguments):
            self._spread = (place, value)
        match value:
            case list() | tuple():
                for key, item in zip(getattr(value, "_fields", itertools.count()), value, strict=False):
                    self.mark_input(item, (*place, key))
            case dict():
                for key, item in value.items():
                    self.mark_input(item, (*place, key))
            case _ if hasattr(value, "__dict__") and not isinstance(value, Tensor | nn.Module | type):
                for key, item in _attributes(value).items():
                    self.mark_input(item, (*place, key))
            case _:
                pass

    def of(self, value: Any) -> Sources:
        """Return which parts of the inputs a value is or was computed from."""
        if isinstance(value, int | float | str | bool | type(None)):  # Equal ones may be one object.
            return frozenset()
        known = self._sources.get(id(value))
        if known is not None:
            return known[1]
        if isinstance(value, Tensor) and value._base is not None:
            return self.of(value._base)
        if self._spread is not None and isinstance(
            value, tuple
        ):  # What takes arguments one by one has them in another.
            place, given = self._spread
            if len(value) == len(given) and all(one is other for one, other in zip(value, given, strict=True)):
                return frozenset({place})
        return self._places_in(value if isinstance(value, list | tuple) else ())

    def note_failure(
        self, error: BaseException, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        """Note that a call raised."""
        self.failed = (error, self.operation(func, args, kwargs))

    def operation(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Operation:
        """Return a call with what its tensors come from."""
        sources = tuple(self.of(tensor) for tensor in Operation(func, args, kwargs, ()).tensors)
        return Operation(func, args, kwargs, sources)

    def note_result(self, result: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Note that a call returned something."""
        places = self._places_in((*args, *kwargs.values()))
        if places:
            self.mark(result, places)
            if result is None and args and isinstance(args[0], Tensor):  # It was written into: `steps[0] = x`.
                self.mark(args[0], places | self.of(args[0]))

    def operation_of(self, error: BaseException) -> Operation | None:
        """Return the call that raised an error, if it was one of a torch function."""
        return self.failed[1] if self.failed is not None and self.failed[0] is error else None

    def _places_in(self, values: Iterable[Any]) -> Sources:
        places: Sources = frozenset()
        for value in values:
            if isinstance(value, Tensor):
                known = self._sources.get(id(value))
                places |= known[1] if known is not None else frozenset()
            elif isinstance(value, list | tuple):
                places |= self._places_in(value)
        return places


def _attributes(value: Any) -> dict[str, Any]:
    """Return what an object was made of, which graphs of `torch_geometric` keep in one of their own."""
    kept = vars(vars(value)["_store"]).get("_mapping") if hasattr(vars(value).get("_store"), "__dict__") else None
    return kept if isinstance(kept, dict) else vars(value)

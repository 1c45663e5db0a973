"""One trial run of a model on proposed inputs, without data, and what can be learned from its failure.

A trial leaves the module as it was: attributes that user code sets while it runs (caches, counters) are put back.
It runs in evaluation mode, as a profile does, so that models do not ask for labels.
"""

import math
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from fxengine.inputs.recipes import Recipe
from fxengine.shapes_only import ShapesOnly, needs_data

__all__ = ["Operation", "Outcome", "probe"]

_META = torch.device("meta")


@dataclass(frozen=True, slots=True)
class Operation:
    """The call of a torch function that raised.

    Attributes:
        function: The function.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        sources: For each tensor among the arguments, in order, the parameters that it was computed from.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    sources: tuple[frozenset[str], ...]

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors among the arguments, those in lists included."""
        return [leaf for leaf in pytree.tree_leaves((self.args, dict(self.kwargs))) if isinstance(leaf, Tensor)]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a trial ended.

    Attributes:
        calls: How many torch functions ran: the further a trial came, the better its inputs.
        error: What was raised, or None if the model ran through.
        operation: The call that raised, if it was one of a torch function.
        module: The path of the innermost module that was running.
    """

    calls: int
    error: Exception | None = None
    operation: Operation | None = None
    module: str = ""

    @property
    def accepted(self) -> bool:
        """Whether the inputs fit as far as can be known: the model ran, or stopped only as it wanted to read data."""
        return self.error is None or needs_data(self.error)


class _OutOfTime(BaseException):
    """A trial took too long. No ``Exception``: the code that runs must not handle it."""


class _Probe(ShapesOnly):
    """Runs for shapes and keeps account of which parameters each tensor was computed from."""

    def __init__(self, module: nn.Module | None, limit: float) -> None:
        super().__init__(module)
        self.limit = limit
        self.failed: tuple[BaseException, Operation] | None = None
        self._sources: dict[int, tuple[Tensor, frozenset[str]]] = {}

    def mark(self, value: Any, names: frozenset[str]) -> None:
        """Note that the tensors in ``value`` were computed from the parameters ``names``."""
        if isinstance(value, Tensor):
            self._sources[id(value)] = (value, names)
        elif isinstance(value, list | tuple):
            for item in value:
                self.mark(item, names)
        elif isinstance(value, dict):
            for item in value.values():
                self.mark(item, names)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if time.monotonic() > self.limit:
            raise _OutOfTime
        try:
            result = super().__torch_function__(func, types, args, kwargs)
        except Exception as error:  # The user's code may do anything to a tensor; it goes on to that code.
            sources = tuple(self._sources_of(tensor) for tensor in Operation(func, args, kwargs, ()).tensors)
            self.failed = (error, Operation(func, args, kwargs, sources))
            raise
        names = self._names_in((*args, *kwargs.values()))
        if names:
            self.mark(result, names)
        return result

    def _sources_of(self, tensor: Tensor) -> frozenset[str]:
        known = self._sources.get(id(tensor))
        return known[1] if known is not None else frozenset()

    def _names_in(self, values: Iterable[Any]) -> frozenset[str]:
        names: frozenset[str] = frozenset()
        for value in values:
            if isinstance(value, Tensor):
                names |= self._sources_of(value)
            elif isinstance(value, list | tuple):
                names |= self._names_in(value)
        return names


def probe(
    root: nn.Module | Callable[..., Any], recipes: Mapping[str, Recipe], positional: int, limit: float = math.inf
) -> Outcome:
    """Run ``root`` once on what the recipes make.

    Args:
        root: The model or function.
        recipes: What to pass, by parameter name, in the order of the signature.
        positional: How many of them to pass by position.
        limit: The time, on the monotonic clock, at which the trial is broken off.
    """
    module = root if isinstance(root, nn.Module) else None
    mode = _Probe(module, limit)
    values = {name: recipe.make(_META, None) for name, recipe in recipes.items()}
    for name, value in values.items():
        mode.mark(value, frozenset({name}))
    names = list(values)
    args = [values[name] for name in names[:positional]]
    kwargs = {name: values[name] for name in names[positional:]}
    with preserved_state(module) as parts:
        for part in parts:
            part.training = False
        try:
            with torch.no_grad(), mode:
                root(*args, **kwargs)
        except _OutOfTime:
            return Outcome(mode.calls, TimeoutError("this trial took too long"))
        except Exception as error:  # noqa: BLE001 - the user's code raises whatever it likes: it is what we want to know.
            operation = mode.failed[1] if mode.failed is not None and mode.failed[0] is error else None
            return Outcome(mode.calls, error, operation, _module_of(error, module))
    return Outcome(mode.calls)


@contextmanager
def preserved_state(module: nn.Module | None) -> Generator[list[nn.Module]]:
    """Yield all modules, and put back at the end every attribute and registered tensor that code inside has changed.

    The contents of dictionaries and lists that are attributes are put back too; what lies deeper is not looked at.
    """
    parts = list(module.modules()) if module is not None else []
    kept = [_snapshot(part) for part in parts]
    try:
        yield parts
    finally:
        for part, (attributes, containers) in zip(parts, kept, strict=True):
            state = vars(part)
            state.clear()
            state.update(attributes)
            for container, content in containers:
                container.clear()
                if isinstance(container, dict):
                    container.update(content)
                else:
                    container.extend(content)


def _snapshot(part: nn.Module) -> tuple[dict[str, Any], list[tuple[dict[str, Any] | list[Any], Any]]]:
    """Return the attributes of one module, and its containers with copies of their contents."""
    attributes = dict(vars(part))
    return attributes, [(value, value.copy()) for value in attributes.values() if type(value) in {dict, list}]


def _module_of(error: BaseException, root: nn.Module | None) -> str:
    """Return the path of the innermost of ``root``'s modules among the frames of ``error``."""
    if root is None:
        return ""
    paths = {id(module): path for path, module in root.named_modules()}
    found = ""
    traceback = error.__traceback__
    while traceback is not None:
        found = paths.get(id(_self_of(traceback.tb_frame)), found)
        traceback = traceback.tb_next
    return found


def _self_of(frame: FrameType) -> Any:
    return frame.f_locals.get("self") if frame.f_code.co_varnames[:1] == ("self",) else None

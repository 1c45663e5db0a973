"""What a report says in sum: of a model its size, of a file its status and the time that it took."""

import time
from collections.abc import Iterable
from typing import Any

from torch import nn
from torch.nn.parameter import is_lazy

from fxengine.hierarchy import modules_of
from fxworker.wire import ModuleFacts, Problem, Status, Timings


class Clock:
    """Measures what passed since it was asked last. Mutable."""

    def __init__(self) -> None:
        self._at = time.perf_counter()

    def lap(self) -> float:
        """Return the milliseconds since the last lap."""
        before, self._at = self._at, time.perf_counter()
        return 1000 * (self._at - before)


def facts_of(root: Any) -> ModuleFacts | None:
    """Return what is told of a model beside its graph, None for a function."""
    if not isinstance(root, nn.Module):
        return None
    every = (tensor for module in modules_of(root) for tensor in module._parameters.values() if tensor is not None)
    parameters = {id(tensor): tensor for tensor in every if not is_lazy(tensor)}.values()
    count = sum(each.numel() for each in parameters)
    size = sum(each.numel() * each.element_size() for each in parameters)
    return ModuleFacts(type(root).__qualname__, count, size, None)


def overall(statuses: Iterable[Status], problems: Iterable[Problem]) -> Status:
    """Return the status of a file whose targets have these."""
    if all(each == "complete" for each in statuses) and not any(each.severity == "error" for each in problems):
        return "complete"
    return "partial" if any(each != "not traced" for each in statuses) else "not traced"


def total(load_ms: float, timings: list[Timings]) -> Timings:
    """Return the time that a file took whose targets took these."""
    return Timings(
        load_ms,
        sum(each.build for each in timings),
        sum(each.trace for each in timings),
        sum(each.shapes for each in timings),
        sum(each.report for each in timings),
    )

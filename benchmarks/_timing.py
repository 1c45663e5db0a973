"""Times of functions beside each other, in one process, so that what else the machine does strikes all alike."""

import gc
import time
from collections.abc import Callable
from typing import Final

_SHORT: Final = 0.1
"""Seconds within which it still matters what the caches hold when a function begins."""


def best_of(
    repeats: int, *functions: Callable[[], object], clock: Callable[[], float] = time.process_time
) -> list[float]:
    """The shortest time of each function, in seconds, the functions taking turns.

    At its turn a short function runs twice, and the second run counts: otherwise each would pay for the state in which
    the one before it leaves the process. torch.fx for one assigns `nn.Module.__call__`, after which CPython has to look
    up anew whatever any module's class has: right after that the engine takes twice as long for a small model.

    Args:
        repeats: How many turns there are.
        *functions: What is measured.
        clock: Processor time, or wall-clock time where several threads work.
    """
    best = [float("inf")] * len(functions)
    gc.collect()
    gc.disable()
    try:
        for _ in range(repeats):
            for index, function in enumerate(functions):
                if best[index] < _SHORT:
                    function()
                start = clock()
                function()
                best[index] = min(best[index], clock() - start)
    finally:
        gc.enable()
    return best

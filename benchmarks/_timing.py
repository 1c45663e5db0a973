"""Times of functions beside each other, in one process, so that what else the machine does strikes all alike."""

import gc
import time
from collections.abc import Callable


def best_of(
    repeats: int, *functions: Callable[[], object], clock: Callable[[], float] = time.process_time
) -> list[float]:
    """The shortest time of each function, in seconds, the functions taking turns.

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
                start = clock()
                function()
                best[index] = min(best[index], clock() - start)
    finally:
        gc.enable()
    return best

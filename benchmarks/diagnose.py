"""What it costs to diagnose a model: the time of `diagnose` over that of one trace, for each model, then the median.

One trace is a trace to the end of the model: of a model that does not trace, that of the diagnosis's own first way, on
which every refusal is answered. Example inputs are not given. The budget is the default one; no model may cost more.

    python benchmarks/diagnose.py [--only PART_OF_NAME] [--limit N] [--each]
"""

import argparse
import contextlib
import gc
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from _models import all_models

import fxengine
from fxengine.exploration import Budget


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of one model."""

    name: str
    trace: float
    straight: float
    diagnosis: float
    problems: int
    cut: bool

    @property
    def ratio(self) -> float:
        """The diagnosis over one trace to the end."""
        return self.diagnosis / max(self.trace, self.straight)


def main(arguments: list[str]) -> int:
    """Measure, print, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only models with this in their name")
    parser.add_argument("--limit", type=int, help="at most so many models of the libraries")
    parser.add_argument("--each", action="store_true", help="print each model")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    costs: list[Cost] = []
    for name, build in all_models(options.only, options.limit):
        try:
            root = build()
        except Exception as error:  # noqa: BLE001 - libraries raise whatever they like.
            print(f"{name}: not built: {error!r:.100}", file=sys.stderr)
            continue
        cost = measured(name, root)
        costs.append(cost)
        if options.each:
            print(
                f"{name:60} {cost.ratio:6.2f}  trace {1e3 * cost.trace:8.1f} ms  straight {1e3 * cost.straight:8.1f} ms"
                f"  diagnose {1e3 * cost.diagnosis:8.1f} ms  {cost.problems} problems{'  cut' if cost.cut else ''}",
                flush=True,
            )
    for title, chosen in (
        ("all models", costs),
        ("models that trace", [cost for cost in costs if not cost.problems]),
        ("models that do not", [cost for cost in costs if cost.problems]),
    ):
        if chosen:
            ratios = sorted(cost.ratio for cost in chosen)
            print(
                f"{title}: {len(chosen)}, median {statistics.median(ratios):.2f}, worst {ratios[-1]:.2f}, "
                f"longest {max(cost.diagnosis for cost in chosen):.2f} s, cut {sum(cost.cut for cost in chosen)}"
            )
    return 0


def measured(name: str, root: Any) -> Cost:
    """The cost of one model: the best of three, the three things taking turns."""
    trace = straight = diagnosis = float("inf")
    problems, cut = 0, False
    # As in the worker, what is there before is not looked at again by the garbage collector.
    gc.collect()
    gc.freeze()
    for _ in range(3):
        trace = min(trace, seconds(lambda: traced(root)))
        straight = min(straight, seconds(lambda: fxengine.diagnose(root, budget=Budget(0.0))))
        start = time.process_time()
        found = fxengine.diagnose(root)
        diagnosis = min(diagnosis, time.process_time() - start)
        problems, cut = len(found.problems), bool(found.cut)
        if not problems:
            straight = trace
    return Cost(name, trace, straight, diagnosis, problems, cut)


def traced(root: Any) -> None:
    """Trace, whatever comes of it."""
    with contextlib.suppress(Exception):
        fxengine.Tracer().trace(root)


def seconds(work: Callable[[], object]) -> float:
    """The processor time that a function takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main(sys.argv[1:]))

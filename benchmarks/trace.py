"""How much faster the engine traces than torch.fx: a ratio for each model, the median, and the worst.

Both run in this process, in turn, over the same models on the meta device; each takes its best of several traces, in
processor time, so that what else the machine does counts little. The engine records origins, torch.fx has its defaults,
which record none.

    python benchmarks/trace.py [--only PART_OF_NAME] [--repeats N] [--own]
"""

import argparse
import gc
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.fx
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import fxengine
from tests.parity.corpus_models import models

ENOUGH_SECONDS = 0.4


class DirectParameters(nn.Module):
    """Uses each of its parameters directly, by name."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        for index in range(count):
            self.register_parameter(f"w{index}", nn.Parameter(torch.ones(4)))

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102 - the class says it.
        for index in range(self.count):
            x = x * getattr(self, f"w{index}")
        return x


def long_function(unpackings: int) -> Callable[..., Any]:
    """A function with so many tuple unpackings."""
    body = "".join(f"    a{index}, b{index} = x.shape\n" for index in range(unpackings))
    namespace: dict[str, Any] = {}
    exec(f"def forward(x):\n{body}    return x\n", namespace)
    return namespace["forward"]


class Deep(nn.Module):
    """A module in a module in a module, and so on."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.inner = Deep(depth - 1) if depth else nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102 - the class says it.
        return torch.relu(self.inner(x) + 1).sum(0)


def own_models() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Models that grow in one direction each, for the cost of a node to show."""
    for count in (100, 1000):
        yield f"own:parameters-{count}", lambda count=count: DirectParameters(count)
        yield f"own:unpackings-{count}", lambda count=count: long_function(count)
    yield "own:deep-60", lambda: Deep(60)


def best_of(repeats: int, *functions: Callable[[], object]) -> list[float]:
    """The shortest time of each function, in seconds, the functions taking turns; short ones get more turns."""
    best = [float("inf")] * len(functions)
    gc.collect()
    gc.disable()
    enough = time.process_time() + ENOUGH_SECONDS
    try:
        while repeats > 0 or time.process_time() < enough:
            repeats -= 1
            for index, function in enumerate(functions):
                start = time.process_time()
                function()
                best[index] = min(best[index], time.process_time() - start)
    finally:
        gc.enable()
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", default="", help="models with this in their name")
    parser.add_argument("--own", action="store_true", help="no model libraries")
    parser.add_argument("--repeats", type=int, default=3, help="at least so many for each model")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    ratios: dict[str, float] = {}
    costs: list[float] = []
    print(f"{'model':52} {'nodes':>6} {'torch.fx µs/node':>17} {'engine µs/node':>15} {'ratio':>6}")
    for name, build in [*own_models(), *(() if options.own else models())]:
        if options.only not in name:
            continue
        root = build()
        try:
            nodes = len(fxengine.Tracer().trace(root).nodes)
        except Exception:  # noqa: BLE001 - models that cannot be traced are for the parity tests.
            continue
        theirs, ours = best_of(
            options.repeats,
            lambda root=root: torch.fx.Tracer().trace(root),
            lambda root=root: fxengine.Tracer().trace(root),
        )
        ratios[name] = theirs / ours
        costs.append(ours / nodes * 1e6)
        print(
            f"{name:52} {nodes:6} {theirs / nodes * 1e6:17.1f} {costs[-1]:15.1f} {theirs / ours:6.2f}",
            flush=True,
        )
    if not ratios:
        print("no model of this name can be traced")
        return 1
    worst = min(ratios, key=lambda name: ratios[name])
    print(
        f"{len(ratios)} models: {statistics.median(ratios.values()):.2f} times as fast at the median, "
        f"{ratios[worst]:.2f} at the worst ({worst}); {statistics.median(costs):.1f} µs a node"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

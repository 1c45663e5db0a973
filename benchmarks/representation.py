"""How much faster than torch.fx the engine builds, prints, copies, checks and cleans graphs.

Prints one line for each operation and size: microseconds a node here and in torch.fx, and the ratio. Both run in one
process, one after the other, and the best of several runs counts.

    python benchmarks/representation.py [NODES ...]
"""

import copy
import gc
import operator
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.fx
from torch import nn

import fxengine.graph
import fxengine.graph_module

LIBRARIES = (fxengine, torch.fx)
NODES_PER_BLOCK = 6


class Layers(nn.Module):
    """What the graphs refer to."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(blocks)])
        self.scale = nn.Parameter(torch.ones(3))


def build(library: Any, blocks: int) -> Any:
    """Return a graph with a typical mixture of nodes."""
    graph = library.graph.Graph()
    x = graph.placeholder("x")
    scale = graph.get_attr("scale")
    for block in range(blocks):
        y = graph.call_module(f"layers.{block}", (x,))
        z = graph.call_function(operator.add, (y, x))
        z = graph.call_function(nn.functional.gelu, (z,), {"approximate": "tanh"})
        z = graph.call_method("view", (z, -1, 3))
        z = graph.call_function(torch.cat, ([z, y],), {"dim": 1})
        x = graph.call_function(torch.mul, (z, scale))
    graph.output(x)
    return graph


def best(action: Callable[[], Any], repetitions: int) -> float:
    """Return the shortest processor time of several, in seconds."""
    times: list[float] = []
    for _ in range(repetitions):
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return min(times)


def operations(library: Any, blocks: int, root: nn.Module) -> dict[str, Callable[[], Any]]:
    """Return what is measured, by name."""
    graph = build(library, blocks)
    module = library.graph_module.GraphModule(root, graph)
    return {
        "build": lambda: build(library, blocks),
        "python_code": lambda: graph.python_code("self"),
        "GraphModule": lambda: library.graph_module.GraphModule(root, graph),
        "graph_copy": lambda: library.graph.Graph().graph_copy(graph, {}),
        "deepcopy": lambda: copy.deepcopy(graph),
        "lint": module.graph.lint,
        "eliminate_dead_code": module.graph.eliminate_dead_code,
        "str": lambda: str(graph),
    }


def main(sizes: list[int]) -> None:
    """Measure graphs of these sizes."""
    print(f"{'nodes':>7}  {'operation':20} {'here':>8} {'torch.fx':>8} {'ratio':>6}")
    for size in sizes:
        blocks = max(1, size // NODES_PER_BLOCK)
        repetitions = 7 if size <= 10_000 else 2
        root = Layers(blocks)
        ours, theirs = (operations(library, blocks, root) for library in LIBRARIES)
        for name in ours:
            gc.collect()
            here, there = (best(table[name], repetitions) / size * 1e6 for table in (ours, theirs))
            print(f"{size:7}  {name:20} {here:8.2f} {there:8.2f} {there / here:6.1f}")


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [60, 600, 6000])

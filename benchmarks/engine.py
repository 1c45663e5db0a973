"""How much faster than torch.fx the engine is: for each operation the median over many models, and the worst.

Both engines run in this process, in turn, over the same models, which lie on the meta device; each takes its best of
several runs, in processor time. The engine records where nodes come from, torch.fx has its defaults, which record
nothing. A graph module of the engine compiles its code when somebody asks for it, which is measured too. Then graphs of
100 to 100,000 nodes show what a node costs as they grow; torch.fx takes part as far as it is not too slow.

    python benchmarks/engine.py [--only PART_OF_NAME] [--limit N] [--repeats N] [--operation NAME] [--each] [--growth]
"""

import argparse
import copy
import statistics
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx
from _models import GROWING, Build, all_models, plain_graph
from _timing import best_of
from torch import nn

import fxengine

SMALLEST, LARGEST = 30, 4000
"""The nodes of the models that count."""
GROWTH = (100, 1_000, 10_000, 100_000)
SLOW_TRACE, SLOW_EDIT = 1_000, 10_000
"""The largest models that torch.fx traces here, and the largest graphs that it prints, copies and cleans."""

Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Row:
    """One operation on one model: seconds here and there."""

    model: str
    operation: str
    nodes: int
    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        """How many times as fast the engine is."""
        return self.theirs / self.ours


def works(library: Any, root: Any) -> dict[str, Work | None]:
    """What is measured with one engine, by name; None where there is nothing to measure."""
    graph = library.Tracer().trace(root)
    module = library.GraphModule(root if isinstance(root, nn.Module) else nn.Module(), graph)
    idle = idle_interpreter(library)(module)
    arguments = [None] * len([node for node in graph.nodes if node.op == "placeholder"])
    clean = copy.deepcopy(graph)
    clean.owning_module = module
    clean.eliminate_dead_code()
    return {
        "trace": lambda: library.Tracer().trace(root),
        "python_code": lambda: graph.python_code("self"),
        "GraphModule": lambda: library.GraphModule(module, graph),
        "its forward too": lambda: type(library.GraphModule(module, graph)).forward,
        "Interpreter": lambda: idle.run(*arguments),
        "graph_copy": lambda: library.Graph().graph_copy(graph, {}),
        "deepcopy": lambda: copy.deepcopy(graph),
        "lint": graph.lint,
        "eliminate_dead_code": clean.eliminate_dead_code if len(clean.nodes) >= SMALLEST else None,
    }


def idle_interpreter(library: Any) -> type[Any]:
    """An interpreter whose calls do nothing: what is left is what it costs over calling the modules directly."""

    class Idle(library.Interpreter):
        def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
            del target, args, kwargs

        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            del target, args, kwargs

        def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
            del target, args, kwargs

        def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
            del args, kwargs
            self.fetch_attr(target)

    return Idle


def measured(name: str, build: Build, operations: list[str], repeats: int) -> Iterator[Row]:
    """The operations on one model; none if it cannot be traced again and again or is too small or large."""
    root = build()
    try:
        nodes = len(fxengine.Tracer().trace(root).nodes)
        theirs, ours = (works(library, root) for library in (torch.fx, fxengine))
        for lint in (ours["lint"], theirs["lint"]):
            assert lint is not None
            lint()
    except Exception:  # noqa: BLE001 - models that cannot be traced, or keep proxies, are for the parity tests.
        return
    if not SMALLEST <= nodes <= LARGEST:
        return
    for operation in operations:
        if (there := theirs[operation]) and (here := ours[operation]):
            seconds_there, seconds_here = best_of(repeats, there, here)
            yield Row(name, operation, nodes, seconds_here, seconds_there)


def compare(models: list[tuple[str, Build]], operations: list[str], repeats: int, *, each: bool) -> None:
    """Print median and worst of each operation, and each model if that is wanted."""
    rows: list[Row] = []
    for name, build in models:
        for row in measured(name, build, operations, repeats):
            rows.append(row)
            if each:
                print(f"  {row.model:58} {row.operation:20} {row.nodes:5} nodes {row.ratio:6.2f}", flush=True)
    sizes = sorted({row.model: row.nodes for row in rows}.values())
    print(f"{len(sizes)} models of {sizes[0]} to {sizes[-1]} nodes, {statistics.median(sizes):.0f} at the median")
    print(f"{'':20} {'torch.fx':>9} {'engine':>9}      times as fast")
    print(f"{'':20} {'µs/node':>9} {'µs/node':>9} {'median':>8} {'worst':>7}")
    for operation in operations:
        of = [row for row in rows if row.operation == operation]
        there, here = (
            statistics.median(getattr(row, who) / row.nodes for row in of) * 1e6 for who in ("theirs", "ours")
        )
        worst = min(of, key=lambda row: row.ratio)
        median = statistics.median(row.ratio for row in of)
        print(f"{operation:20} {there:9.2f} {here:9.2f} {median:8.2f} {worst.ratio:7.2f}  {worst.model}")


def growth(repeats: int) -> None:
    """Print what a node costs in graphs of growing size."""
    print("\nµs a node, engine (torch.fx)" + "".join(f"{nodes:>18,}" for nodes in GROWTH))
    for name, make in GROWING.items():
        show(f"trace: {name}", [trace_works(make(nodes), nodes) for nodes in GROWTH], repeats)
    makers: dict[str, Callable[[Any, Any], Work]] = {
        "print": lambda _library, graph: lambda: graph.python_code("self"),
        "copy": lambda library, graph: lambda: library.Graph().graph_copy(graph, {}),
        "deepcopy": lambda _library, graph: lambda: copy.deepcopy(graph),
        "lint": lambda _library, graph: graph.lint,
        "dead code": lambda _library, graph: graph.eliminate_dead_code,
    }
    for name, make in makers.items():
        cases = []
        for nodes in GROWTH:
            libraries = (torch.fx, fxengine) if nodes <= SLOW_EDIT else (fxengine,)
            cases.append([make(library, plain_graph(library, nodes)) for library in libraries])
        show(name, cases, repeats)


def trace_works(root: Any, nodes: int) -> list[Work]:
    """A trace in torch.fx, unless it would be slow, and here."""
    libraries = (torch.fx, fxengine) if nodes <= SLOW_TRACE else (fxengine,)
    return [lambda library=library: library.Tracer().trace(root) for library in libraries]


def show(name: str, cases: list[list[Work]], repeats: int) -> None:
    """Print a line of what a node costs at each size."""
    cells = []
    for nodes, functions in zip(GROWTH, cases, strict=True):
        times = best_of(repeats if nodes <= 1_000 else 1, *functions)
        there = f" ({times[0] / nodes * 1e6:.1f})" if len(times) > 1 else ""
        cells.append(f"{times[-1] / nodes * 1e6:.1f}{there}")
    print(f"{name:28}" + "".join(f"{cell:>18}" for cell in cells), flush=True)


def main(arguments: list[str] | None = None) -> int:
    known = list(works(fxengine, lambda x: x))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", default="", help="models with this in their name")
    parser.add_argument("--limit", type=int, help="so many of the libraries' models, evenly spread")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--operation", action="append", choices=known, help="by default all")
    parser.add_argument("--each", action="store_true", help="a line for each model")
    parser.add_argument("--growth", action="store_true", help="only what a node costs in growing graphs")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    sys.setrecursionlimit(10_000)
    if not options.growth:
        models = all_models(options.only, options.limit)
        compare(models, options.operation or known, options.repeats, each=options.each)
    if options.growth or not (options.only or options.operation):
        growth(options.repeats)
    return 0


if __name__ == "__main__":
    sys.exit(main())

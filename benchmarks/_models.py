"""What the benchmarks run over: models that grow in one direction each, and those of the model libraries."""

import operator
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.parity import corpus_models

Build = Callable[[], Any]


class Chain(nn.Module):
    """Calls one layer after the other, with an operator, a function and a method in between."""

    def __init__(self, nodes: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Identity() for _ in range(nodes // 4)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x) + 1).abs()
        return x


class DirectParameters(nn.Module):
    """Uses each of its parameters directly, by name."""

    def __init__(self, nodes: int) -> None:
        super().__init__()
        self.count = nodes // 2
        for index in range(self.count):
            self.register_parameter(f"w{index}", nn.Parameter(torch.ones(4)))

    def forward(self, x: Tensor) -> Tensor:
        for index in range(self.count):
            x = x * getattr(self, f"w{index}")
        return x


class Deep(nn.Module):
    """A module in a module in a module, and so on."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.inner = Deep(depth - 1) if depth else nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.inner(x) + 1).sum(0)


def long_function(nodes: int) -> Callable[..., Any]:
    """One function of that many nodes, all from unpacking tuples."""
    body = "".join(f"    a{index}, b{index} = x.shape\n" for index in range(nodes // 3))
    namespace: dict[str, Any] = {}
    exec(f"def forward(x):\n{body}    return x\n", namespace)
    return namespace["forward"]


GROWING: dict[str, Callable[[int], Any]] = {
    "modules and operators": Chain,
    "direct parameters": DirectParameters,
    "tuple unpacking": long_function,
}
"""Models of about as many nodes as one asks for."""


def own_models() -> Iterator[tuple[str, Build]]:
    """Models of a few hundred and a few thousand nodes."""
    for name, make in GROWING.items():
        for nodes in (300, 3000):
            yield f"own:{name} {nodes}", lambda make=make, nodes=nodes: make(nodes)
    yield "own:deep", lambda: Deep(60)


def all_models(part_of_name: str = "", limit: int | None = None) -> list[tuple[str, Build]]:
    """Our own models and those of the libraries.

    Args:
        part_of_name: Only models with this in their name.
        limit: So many of the libraries' at most, evenly spread over all.
    """
    library = [each for each in corpus_models.models() if part_of_name in each[0]]
    if limit is not None and limit < len(library):
        library = [library[index * len(library) // limit] for index in range(limit)]
    return [*(each for each in own_models() if part_of_name in each[0]), *library]


def plain_graph(library: Any, nodes: int) -> Any:
    """A graph of an engine with a typical mixture of nodes, made by hand, that belongs to what it refers to."""
    root = nn.Module()
    root.layers = nn.ModuleList([nn.Identity() for _ in range(nodes // 6)])
    root.scale = nn.Parameter(torch.ones(3))
    graph = library.Graph()
    x = graph.placeholder("x")
    scale = graph.get_attr("scale")
    for block in range(nodes // 6):
        y = graph.call_module(f"layers.{block}", (x,))
        z = graph.call_function(operator.add, (y, x))
        z = graph.call_function(nn.functional.gelu, (z,), {"approximate": "tanh"})
        z = graph.call_method("view", (z, -1, 3))
        z = graph.call_function(torch.cat, ([z, y],), {"dim": 1})
        x = graph.call_function(torch.mul, (z, scale))
    graph.output(x)
    graph.owning_module = root
    return graph

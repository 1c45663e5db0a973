"""Where the nodes of a graph are drawn: layers from top to bottom, edges that bend around what lies between.

The method is that of Sugiyama: each node lies one layer below the lowest of its inputs; an edge over several layers
gets a point in each; the order within a layer is improved by sweeps that move each item to the median of its
neighbours; and positions follow the medians as far as the neighbours in the layer leave room.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_SWEEPS: Final = 6
_MOST_BENDS: Final = 20_000
"""Points on long edges beyond which edges are drawn straight: such a graph is looked at in parts anyway."""


@dataclass(frozen=True, slots=True)
class Box:
    """A node's place: the centre of its upper edge, and its size."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of nodes in their order, and the points of each edge from its source to its target."""

    boxes: tuple[Box, ...]
    edges: dict[tuple[int, int], tuple[tuple[float, float], ...]]
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Spacing:
    """Distances in the drawing's units."""

    gap: float = 24.0
    rank: float = 34.0
    margin: float = 24.0
    bend: float = 14.0


def layout(
    sizes: Sequence[tuple[float, float]], inputs: Sequence[Sequence[int]], spacing: Spacing = Spacing()
) -> Layout:
    """Return the layout of a graph whose nodes are given in an order in which inputs come first."""
    return _Drawing(sizes, inputs, spacing).result()


class _Drawing:
    """The items of a drawing: nodes, then the bends of long edges. Mutable while it is made."""

    def __init__(self, sizes: Sequence[tuple[float, float]], inputs: Sequence[Sequence[int]], spacing: Spacing) -> None:
        self._spacing = spacing
        self._count = len(sizes)
        self._sizes = list(sizes)
        self._rank = _ranks(inputs)
        self._edges = [(source, target) for target, each in enumerate(inputs) for source in dict.fromkeys(each)]
        self._above: list[list[int]] = [[] for _ in sizes]
        self._below: list[list[int]] = [[] for _ in sizes]
        self._bends: dict[tuple[int, int], list[int]] = {}
        self._insert_bends()
        self._layers: list[list[int]] = [[] for _ in range(max(self._rank, default=-1) + 1)]
        for item, rank in enumerate(self._rank):
            self._layers[rank].append(item)
        self._x = [0.0] * len(self._sizes)

    def result(self) -> Layout:
        """Order the layers, place their items, and read off the drawing."""
        self._order()
        self._place()
        margin = self._spacing.margin
        left = min((x - self._sizes[item][0] / 2 for item, x in enumerate(self._x)), default=0.0)
        shifted = [x - left + margin for x in self._x]
        tops, height = self._tops()
        boxes = tuple(Box(shifted[item], tops[self._rank[item]], *self._sizes[item]) for item in range(self._count))
        edges = {edge: self._points(edge, shifted, tops, boxes) for edge in self._edges}
        width = max((x + self._sizes[item][0] / 2 for item, x in enumerate(shifted)), default=0.0) + margin
        return Layout(boxes, edges, width, height)

    def _insert_bends(self) -> None:
        """Connect neighbouring layers: long edges by way of a bend in each layer between."""
        total = sum(max(self._rank[target] - self._rank[source] - 1, 0) for source, target in self._edges)
        for source, target in self._edges:
            previous = source
            bends: list[int] = []
            if total <= _MOST_BENDS:
                for rank in range(self._rank[source] + 1, self._rank[target]):
                    bend = len(self._sizes)
                    self._sizes.append((self._spacing.bend, 0.0))
                    self._rank.append(rank)
                    self._above.append([])
                    self._below.append([])
                    self._connect(previous, bend)
                    bends.append(bend)
                    previous = bend
            self._connect(previous, target)
            self._bends[source, target] = bends

    def _connect(self, above: int, below: int) -> None:
        self._below[above].append(below)
        self._above[below].append(above)

    def _order(self) -> None:
        """Sort each layer by the medians of its neighbours, downwards and upwards in turn."""
        position = {item: index for layer in self._layers for index, item in enumerate(layer)}
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            neighbours = self._above if down else self._below
            for layer in self._layers if down else reversed(self._layers):
                keys = {item: _median([position[each] for each in neighbours[item]], position[item]) for item in layer}
                layer.sort(key=lambda item: keys[item])
                position.update((item, index) for index, item in enumerate(layer))

    def _place(self) -> None:
        """Give each item the median of its neighbours' places, as far as the order leaves room."""
        for layer in self._layers:
            x = 0.0
            for item in layer:
                self._x[item] = x + self._sizes[item][0] / 2
                x += self._sizes[item][0] + self._spacing.gap
        for sweep in range(_SWEEPS + 2):
            down = sweep % 2 == 0
            neighbours = self._above if down else self._below
            for layer in self._layers if down else reversed(self._layers):
                wanted = [_median([self._x[each] for each in neighbours[item]], self._x[item]) for item in layer]
                for item, x in zip(layer, self._spread(layer, wanted), strict=True):
                    self._x[item] = x

    def _spread(self, layer: list[int], wanted: list[float]) -> list[float]:
        """Return the places nearest to the wanted ones that keep order and distance.

        Items that would overlap form a block, whose place is the mean of what its items want (isotonic regression).
        """
        offsets: list[float] = []
        offset = 0.0
        for index, item in enumerate(layer):
            if index:
                offset += (self._sizes[layer[index - 1]][0] + self._sizes[item][0]) / 2 + self._spacing.gap
            offsets.append(offset)
        blocks: list[tuple[float, float, int]] = []
        for item, want, shift in zip(layer, wanted, offsets, strict=True):
            weight = 1.0 if item < self._count else 2.0  # A straight long edge is worth more than a centred node.
            total, weights, count = (want - shift) * weight, weight, 1
            while blocks and blocks[-1][0] / blocks[-1][1] > total / weights:
                before = blocks.pop()
                total, weights, count = total + before[0], weights + before[1], count + before[2]
            blocks.append((total, weights, count))
        bases = [total / weights for total, weights, count in blocks for _ in range(count)]
        return [base + shift for base, shift in zip(bases, offsets, strict=True)]

    def _tops(self) -> tuple[list[float], float]:
        """Return the upper edge of each layer, and the drawing's height."""
        tops: list[float] = []
        y = self._spacing.margin
        for layer in self._layers:
            tops.append(y)
            y += max(self._sizes[item][1] for item in layer) + self._spacing.rank
        return tops, (y - self._spacing.rank + self._spacing.margin if tops else 2 * self._spacing.margin)

    def _points(
        self, edge: tuple[int, int], x: list[float], tops: list[float], boxes: tuple[Box, ...]
    ) -> tuple[tuple[float, float], ...]:
        source, target = edge
        start = (boxes[source].x, boxes[source].y + boxes[source].height)
        bends: list[tuple[float, float]] = []
        for bend in self._bends[edge]:
            rank = self._rank[bend]
            layer_height = max(self._sizes[item][1] for item in self._layers[rank])
            bends.extend(((x[bend], tops[rank]), (x[bend], tops[rank] + layer_height)))
        return (start, *bends, (boxes[target].x, boxes[target].y))


def _ranks(inputs: Sequence[Sequence[int]]) -> list[int]:
    """Return the layer of each node: one below the lowest of its inputs; sources right above what uses them first."""
    ranks = [0] * len(inputs)
    for node, each in enumerate(inputs):
        ranks[node] = 1 + max((ranks[source] for source in each), default=-1)
    first_use: dict[int, int] = {}
    for node, each in enumerate(inputs):
        for source in each:
            first_use[source] = min(first_use.get(source, ranks[node]), ranks[node])
    for node, each in enumerate(inputs):
        if not each and node in first_use:
            ranks[node] = max(first_use[node] - 1, 0)
    return ranks


def _median(values: list[float] | list[int], default: float) -> float:
    if not values:
        return default
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2

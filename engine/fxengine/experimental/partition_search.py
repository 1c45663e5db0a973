"""Partitions that make the whole faster: nodes are joined, or exchanged, as long as by the cost model that pays."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from fxengine.experimental.partition_placement import (
    check_dependency,
    combine_two_partitions,
    get_bfs_level_partition,
    get_device_to_partitions_mapping,
    reorganize_partitions,
    reset_partition_device,
)
from fxengine.experimental.partitioner_utils import (
    Device,
    NodeLatency,
    Partition,
    get_latency_of_partitioned_graph,
    get_partition_to_latency_mapping,
    is_state,
)
from fxengine.node import Node

__all__ = ["CostModel", "exchange_nodes", "join_partitions"]

_Exchange: TypeAlias = tuple[Node, Node | None]


@dataclass(frozen=True, slots=True)
class CostModel:
    """How long a graph in partitions takes."""

    devices: list[Device]
    transfer_rate: float
    latencies: Mapping[Node, NodeLatency]

    def cost(self, partitions: list[Partition]) -> float:
        """Return the seconds that the longest path takes."""
        latencies = get_partition_to_latency_mapping(partitions, self.latencies)
        return get_latency_of_partitioned_graph(partitions, latencies, self.transfer_rate)

    def cost_on_new_devices(self, partitions: list[Partition]) -> float:
        """Find devices anew, and return the seconds that the longest path takes; infinity if there are not enough."""
        reset_partition_device(partitions)
        if not get_device_to_partitions_mapping(partitions, self.devices):
            return math.inf
        return self.cost(partitions)


def join_partitions(partitions: list[Partition], model: CostModel) -> None:
    """Join two of ``partitions``, those for which it pays most, again and again until it does not pay."""
    pair = _best_pair(partitions, model)
    while len(partitions) > 1:
        if pair is not None:
            combine_two_partitions(partitions[pair[0]], partitions[pair[1]], partitions)
        get_bfs_level_partition(partitions)
        reset_partition_device(partitions)
        get_device_to_partitions_mapping(partitions, model.devices)
        if pair is None:
            return
        pair = _best_pair(partitions, model)


def _best_pair(partitions: list[Partition], model: CostModel) -> tuple[int, int] | None:
    """The pair that makes the whole fastest when joined, or None if every pair makes it slower."""
    cost = model.cost(partitions)
    best = None
    for pair in itertools.combinations(range(len(partitions)), 2):
        joined = _cost_joined(*pair, partitions[:], model)
        if joined <= cost:
            best, cost = pair, joined
        reorganize_partitions(partitions)
    return best


def _cost_joined(first: int, second: int, partitions: list[Partition], model: CostModel) -> float:
    """The cost with two partitions joined, which is done in ``partitions``; infinity if that cannot be."""
    p0, p1 = partitions[first], partitions[second]
    if abs(p0.bfs_level - p1.bfs_level) > 1 and p0 not in p1.parents and p0 not in p1.children:
        return math.inf
    combine_two_partitions(p0, p1, partitions)
    return math.inf if check_dependency(partitions[-1]) else model.cost_on_new_devices(partitions)


def exchange_nodes(partitions: list[Partition], homes: Mapping[Node, int], model: CostModel) -> None:
    """Let nodes of different partitions change places, or move, one after the other, as long as that pays.

    As in torch.fx, a node's best exchange with a partition is made if just moving the node there would pay.

    Args:
        partitions: The partitions, which are changed.
        homes: The number of each node's partition; not brought up to date.
        model: Says what pays.
    """
    cost = model.cost(partitions)
    exchange: tuple[_Exchange, Partition, Partition] | None = None
    for node in sorted(node for node in homes if not is_state(node)):
        home = partitions[homes[node]]
        for other in partitions:
            if other is home:
                continue
            pair, moved = _best_exchange(node, home, other, partitions, model)
            if moved < cost and pair is not None:
                cost = moved
                exchange = pair, home, other
        if exchange is not None:
            (leaving, coming), source, destination = exchange
            _swap(leaving, coming, source, destination)
            reorganize_partitions(partitions)
            get_device_to_partitions_mapping(partitions, model.devices)
    reorganize_partitions(partitions)
    get_device_to_partitions_mapping(partitions, model.devices)


def _best_exchange(
    node: Node, home: Partition, other: Partition, partitions: list[Partition], model: CostModel
) -> tuple[_Exchange | None, float]:
    """The cheapest exchange of a node with one of another partition, or with none; and the cost of the latter."""
    best, lowest, cost = None, math.inf, math.inf
    for partner in (*sorted(each for each in other.nodes if not is_state(each)), None):
        cost = _cost_swapped(node, partner, home, other, partitions, model)
        if cost < lowest:
            best, lowest = (node, partner), cost
    return best, cost


def _cost_swapped(
    node: Node, partner: Node | None, home: Partition, other: Partition, partitions: list[Partition], model: CostModel
) -> float:
    """The cost after an exchange, which is undone; infinity if it cannot be."""
    _swap(node, partner, home, other)
    reorganize_partitions(partitions)
    circular = check_dependency(home) or check_dependency(other)
    cost = math.inf if circular else model.cost_on_new_devices(partitions)
    _swap(partner, node, home, other)
    reorganize_partitions(partitions)
    reset_partition_device(partitions)
    get_device_to_partitions_mapping(partitions, model.devices)
    return cost


def _swap(leaving: Node | None, coming: Node | None, source: Partition, destination: Partition) -> None:
    if leaving is not None:
        source.remove_node(leaving)
        destination.add_node(leaving)
    if coming is not None:
        source.add_node(coming)
        destination.remove_node(coming)

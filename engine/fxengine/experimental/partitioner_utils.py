"""Partitions of a graph for several devices: what they hold, how much memory they take, how long they run.

The cost model is simple: a node takes as long as its computing or its memory traffic, whichever is longer; nodes that
do not depend on each other run at the same time; between devices values travel at one rate.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from fxengine.node import Node
from fxengine.passes.graph_manipulation import size_bytes

__all__ = [
    "Device",
    "NodeLatency",
    "Partition",
    "PartitionLatency",
    "PartitionMode",
    "PartitionerConfig",
    "get_comm_latency_between",
    "get_extra_size_of",
    "get_latency_of_one_partition",
    "get_latency_of_partitioned_graph",
    "get_partition_to_latency_mapping",
    "is_state",
]

_NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})


def is_state(node: Node) -> bool:
    """Return whether a node is given rather than computed, and so belongs to every partition that uses it."""
    return node.op in {"placeholder", "get_attr"}


class Partition:
    """A set of nodes that run on the same device. Mutable.

    Attributes:
        nodes: The nodes; inputs and attributes that they use are among them.
        partition_id: The number of the partition.
        parents: The partitions whose values this one uses.
        children: The partitions that use values of this one.
        bfs_level: The length of the longest way to it from a partition without parents; -1 if it is not known.
        used_mem_bytes: The memory that it needs.
        logical_device_ids: The devices that it runs on; several if it is replicated.
    """

    def __init__(self, partition_id: int) -> None:
        self.nodes: set[Node] = set()
        self.partition_id = partition_id
        self.parents: set[Partition] = set()
        self.children: set[Partition] = set()
        self.bfs_level = -1
        self.used_mem_bytes = 0
        self.logical_device_ids: list[int] = []

    def __str__(self) -> str:
        return str(self.partition_id)

    def recalculate_mem_size(self) -> None:
        """Bring ``used_mem_bytes`` up to date with ``nodes``."""
        self.used_mem_bytes = sum(get_extra_size_of(node, self.nodes) for node in self.nodes)

    def add_node(self, node: Node) -> None:
        """Add a node, and the inputs and attributes that it uses."""
        self.nodes.update(filter(is_state, node.all_input_nodes))
        self.nodes.add(node)
        self.recalculate_mem_size()

    def remove_node(self, node: Node) -> None:
        """Take a node out, if it is there, and the inputs and attributes that no other node here uses."""
        if node not in self.nodes:
            return
        self.nodes.remove(node)
        for source in node.all_input_nodes:
            if is_state(source) and self.nodes.isdisjoint(source.users):
                self.nodes.discard(source)
        self.recalculate_mem_size()


class Device(NamedTuple):
    """What partitions run on."""

    name: str
    available_mem_bytes: int
    logical_id: int


class NodeLatency(NamedTuple):
    """How long a node takes."""

    mem_latency_sec: float
    """What moving its data takes."""
    computer_latency_sec: float
    """What computing takes, which happens meanwhile."""


class PartitionLatency(NamedTuple):
    """How long a partition takes, on its longest path."""

    mem_latency_sec: float
    """What moving data takes in all."""
    computer_latency_sec: float
    """What computing takes in all."""
    overall_latency_sec: float
    """For each node the longer of the two, in all."""


class PartitionMode(Enum):
    """How partitions are found."""

    size_based = 0
    """One device after the other is filled."""
    sparse_nn = 1
    """Likewise, with embeddings in partitions of their own."""
    cost_aware = 2
    """Single nodes are joined as long as that makes the whole faster."""
    kl_based = 3
    """Filled devices exchange nodes as long as that makes the whole faster."""
    aot_based = 4
    """The caller says which node goes where."""


class PartitionerConfig(NamedTuple):
    """What a ``Partitioner`` is to do.

    Attributes:
        devices: What there is to run on.
        mode: How partitions are found.
        transfer_rate_bytes_per_sec: How fast values travel between devices.
        node_to_latency_mapping: How long each node takes.
        node_to_partition_mapping: For ``aot_based``, the number of each node's partition.
        partition_to_logical_device_mapping: For ``aot_based``, the devices of each partition.
        saturate_host: Replicate the partitions on devices that are left over.
    """

    devices: list[Device]
    mode: PartitionMode = PartitionMode.size_based
    transfer_rate_bytes_per_sec: float = 0.0
    node_to_latency_mapping: Mapping[Node, NodeLatency] = _NOTHING
    node_to_partition_mapping: Mapping[Node, int] = _NOTHING
    partition_to_logical_device_mapping: Mapping[int, list[int]] = _NOTHING
    saturate_host: bool = False


def get_extra_size_of(node: Node, nodes: Collection[Node]) -> int:
    """Return the memory that a node needs: its own, and its inputs' where they are not among ``nodes``.

    Raises:
        RuntimeError: ``get_size_of_all_nodes`` has not run.
    """
    inputs = sum(_size_of(source).output_size for source in node.all_input_nodes if source not in nodes)
    return inputs + _size_of(node).total_size


def _size_of(node: Node) -> size_bytes:
    size: size_bytes | None = getattr(node, "size_bytes", None)
    if not size:
        raise RuntimeError("node has no size_bytes attr")
    return size


def get_latency_of_one_partition(
    partition: Partition, node_to_latency_mapping: Mapping[Node, NodeLatency]
) -> PartitionLatency:
    """Return how long the longest path through a partition takes."""
    nothing = PartitionLatency(0.0, 0.0, 0.0)
    until: dict[Node, PartitionLatency] = {}
    longest = nothing
    for node in sorted(partition.nodes):
        if is_state(node):
            continue
        before = _longest(nothing, (until[source] for source in node.all_input_nodes if source in until))
        memory, computing = node_to_latency_mapping[node]
        until[node] = PartitionLatency(
            before.mem_latency_sec + memory,
            before.computer_latency_sec + computing,
            before.overall_latency_sec + max(computing, memory),
        )
        if partition.nodes.isdisjoint(node.users):
            longest = _longest(longest, [until[node]])
    return longest


def _longest(first: PartitionLatency, others: Iterable[PartitionLatency]) -> PartitionLatency:
    """Return the first of those that take longest."""
    return max((first, *others), key=lambda latency: latency.overall_latency_sec)


def get_partition_to_latency_mapping(
    partitions: list[Partition], node_to_latency_mapping: Mapping[Node, NodeLatency]
) -> dict[Partition, PartitionLatency]:
    """Return how long each partition takes."""
    return {partition: get_latency_of_one_partition(partition, node_to_latency_mapping) for partition in partitions}


def get_comm_latency_between(
    parent_partition: Partition, child_partition: Partition, transfer_rate_bytes_per_sec: float
) -> float:
    """Return how long the values of one partition that another uses travel; no time if both have the same devices."""
    devices = parent_partition.logical_device_ids
    if devices and devices == child_partition.logical_device_ids:
        return 0.0
    sent = {
        source
        for node in child_partition.nodes
        for source in node.all_input_nodes
        if source in parent_partition.nodes and hasattr(source, "size_bytes")
    }
    return sum(_size_of(node).output_size for node in sent) / transfer_rate_bytes_per_sec


def get_latency_of_partitioned_graph(
    partitions: list[Partition],
    partition_to_latency_mapping: dict[Partition, PartitionLatency],
    transfer_rate_bytes_per_sec: float,
) -> float:
    """Return how long the longest path takes through partitions that do not depend on each other in a circle."""
    missing = {partition: len(partition.parents) for partition in partitions}
    ready = [partition for partition in partitions if not partition.parents]
    start = dict.fromkeys(ready, 0.0)
    longest = 0.0
    while ready:
        partition = ready.pop()
        end = start[partition] + partition_to_latency_mapping[partition].overall_latency_sec
        longest = max(longest, end)
        for child in partition.children:
            arrival = end + get_comm_latency_between(partition, child, transfer_rate_bytes_per_sec)
            start[child] = max(start.get(child, 0.0), arrival)
            missing[child] -= 1
            if not missing[child]:
                ready.append(child)
    return longest

"""How partitions lie to each other, and which device each of them gets."""

from collections import deque
from collections.abc import Sequence

from fxengine.experimental.partitioner_utils import Device, Partition, get_extra_size_of
from fxengine.node import Node

__all__ = [
    "check_dependency",
    "combine_two_partitions",
    "get_bfs_level_partition",
    "get_device_partition_stats",
    "get_device_to_partitions_mapping",
    "get_logical_id_to_device",
    "get_node_to_partition_mapping",
    "reorganize_partitions",
    "reset_partition_device",
    "set_parents_and_children",
]


def reset_partition_device(partitions: list[Partition]) -> None:
    """Take all devices away from the partitions."""
    for partition in partitions:
        partition.logical_device_ids = []


def combine_two_partitions(partition_0: Partition, partition_1: Partition, partitions: list[Partition]) -> None:
    """Replace two of ``partitions`` by a new one with the nodes of both, at the end."""
    combined = Partition(len(partitions))
    combined.nodes = partition_0.nodes | partition_1.nodes
    combined.recalculate_mem_size()
    partitions.append(combined)
    partitions.remove(partition_0)
    partitions.remove(partition_1)
    reorganize_partitions(partitions)


def set_parents_and_children(partitions: list[Partition]) -> None:
    """Set anew which partition uses values of which."""
    homes: dict[Node, list[Partition]] = {}
    for partition in partitions:
        partition.children = set()
        partition.parents = set()
        for node in partition.nodes:
            homes.setdefault(node, []).append(partition)
    for partition in partitions:
        for node in partition.nodes:
            for user in node.users:
                for home in homes.get(user, ()):
                    # Where the node itself is too, as inputs and attributes are, nothing has to be passed on.
                    if home is not partition and node not in home.nodes:
                        partition.children.add(home)
                        home.parents.add(partition)


def reorganize_partitions(partitions: list[Partition]) -> None:
    """Number the partitions in their order, and set anew which uses values of which."""
    for number, partition in enumerate(partitions):
        partition.partition_id = number
    set_parents_and_children(partitions)


def get_bfs_level_partition(partitions: list[Partition]) -> None:
    """Set the level of each partition: the length of the longest way to it from one without parents."""
    current = {partition for partition in partitions if not partition.parents}
    for level in range(len(partitions)):
        for partition in current:
            partition.bfs_level = level
        current = {child for partition in current for child in partition.children}


def get_node_to_partition_mapping(partitions: list[Partition]) -> dict[Node, int]:
    """Return the number of each node's partition, the last one of those that are in several."""
    return {node: partition.partition_id for partition in partitions for node in partition.nodes}


def get_logical_id_to_device(devices: list[Device]) -> dict[int, Device]:
    """Return the devices by number."""
    return {device.logical_id: device for device in devices}


def get_device_partition_stats(
    partitions: list[Partition], devices: list[Device]
) -> tuple[dict[Device, list[Partition]], dict[Device, int], list[Partition]]:
    """Return each device's partitions, the memory that is left on each, and the partitions without a device."""
    by_id = get_logical_id_to_device(devices)
    placed: dict[Device, list[Partition]] = {device: [] for device in devices}
    left = {device: device.available_mem_bytes for device in devices}
    for partition in partitions:
        for device_id in partition.logical_device_ids:
            device = by_id[device_id]
            placed[device].append(partition)
            left[device] -= partition.used_mem_bytes
    return placed, left, [partition for partition in partitions if not partition.logical_device_ids]


def get_device_to_partitions_mapping(partitions: list[Partition], devices: list[Device]) -> bool:
    """Give each partition without a device the one that it fills best; return whether all found one."""
    placed, left, homeless = get_device_partition_stats(partitions, devices)
    for partition in homeless:
        for device in sorted(left, key=left.__getitem__):
            needed = _extra_size_of(partition, placed[device])
            if needed < left[device]:
                placed[device].append(partition)
                partition.logical_device_ids.append(device.logical_id)
                left[device] -= needed
                break
        else:
            return False
    return True


def _extra_size_of(partition: Partition, others: Sequence[Partition]) -> int:
    """The memory that a partition needs on a device with others, with which it shares values."""
    nodes: set[Node] = set().union(*(other.nodes for other in others))
    if not nodes:
        return partition.used_mem_bytes
    nodes |= partition.nodes
    return sum(get_extra_size_of(node, nodes) for node in partition.nodes)


def check_dependency(partition: Partition) -> bool:
    """Return whether a partition depends on itself by way of others."""
    seen = {partition}
    waiting = deque([partition])
    while waiting:
        for child in waiting.popleft().children:
            if child is partition:
                return True
            if child not in seen:
                seen.add(child)
                waiting.append(child)
    return False

"""Models that one accelerator cannot hold: partitions for several, and which of them feeds which.

A ``Partitioner`` decides which node goes where, by one of five strategies, and splits the graph module accordingly.
What it needs to know (``size_bytes`` of nodes, their latencies) comes from shape propagation and from the caller.
"""

import operator
from collections.abc import Mapping
from typing import Final, NamedTuple

import torch

from fxengine.experimental.partition_placement import (
    check_dependency,
    combine_two_partitions,
    get_bfs_level_partition,
    get_device_partition_stats,
    get_device_to_partitions_mapping,
    get_logical_id_to_device,
    get_node_to_partition_mapping,
    reorganize_partitions,
    reset_partition_device,
    set_parents_and_children,
)
from fxengine.experimental.partition_search import CostModel, exchange_nodes, join_partitions
from fxengine.experimental.partitioner_utils import (
    Device,
    NodeLatency,
    Partition,
    PartitionerConfig,
    PartitionMode,
    get_extra_size_of,
    is_state,
)
from fxengine.graph_module import GraphModule
from fxengine.node import Node
from fxengine.passes.graph_manipulation import get_size_of_all_nodes
from fxengine.passes.split_module import split_module

__all__ = [
    "DAG",
    "DAGNode",
    "PartitionResult",
    "Partitioner",
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

_CALLS: Final = frozenset({"call_module", "call_method", "call_function"})


class DAGNode:
    """A partition as a submodule: its call, what feeds it, what comes out, and where it runs."""

    def __init__(
        self,
        submodule_node: Node,
        input_nodes: list[Node],
        output_nodes: list[Node],
        logical_device_ids: list[int],
        size_bytes: int,
    ) -> None:
        self.submodule_node = submodule_node
        self.input_nodes = input_nodes
        self.output_nodes = output_nodes
        self.logical_device_ids = logical_device_ids
        self.size_bytes = size_bytes

    def __str__(self) -> str:
        return str(self.submodule_node)


class DAG:
    """The partitions of a graph module, in the order in which they run."""

    def __init__(self) -> None:
        self.nodes: list[DAGNode] = []

    def create_node(
        self,
        submodule_node: Node,
        input_nodes: list[Node],
        output_nodes: list[Node],
        logical_devices: list[int],
        size_bytes: int,
    ) -> None:
        """Add a partition."""
        self.nodes.append(DAGNode(submodule_node, input_nodes, output_nodes, logical_devices, size_bytes))


class PartitionResult(NamedTuple):
    """The partitions, and the graph module that calls them as submodules."""

    dag: DAG
    module_with_submodules: GraphModule


class Partitioner:
    """Puts the nodes of one graph module on devices.

    Attributes:
        partitions: The partitions that were found.
        node_to_partition: The number of each node's partition.
        devices: What there is to run on.
    """

    def __init__(self) -> None:
        self.partitions: list[Partition] = []
        self.node_to_partition: Mapping[Node, int] = {}
        self.devices: list[Device] = []

    def partition_graph(
        self, fx_module: GraphModule, torch_module: torch.nn.Module, partitioner_config: PartitionerConfig
    ) -> PartitionResult:
        """Return ``fx_module`` in partitions.

        Args:
            fx_module: A graph module on which shape propagation has run.
            torch_module: The module that it was traced from.
            partitioner_config: What there is to run on, and how partitions are found.

        Raises:
            RuntimeError: The devices do not suffice, there are none, or there is nothing to compute.
        """
        self.graph_module = fx_module
        self.torch_module = torch_module
        self.devices = partitioner_config.devices
        if not self.devices:
            raise RuntimeError("No devices")
        get_size_of_all_nodes(fx_module)
        if all(is_state(node) or node.op == "output" for node in fx_module.graph.nodes):
            raise RuntimeError("No Partition since no operations in the module")
        self._find_partitions(partitioner_config)
        if partitioner_config.saturate_host:
            self.saturate_host()
        module_with_submodules = self.do_partition()
        return PartitionResult(self.dump_dag(module_with_submodules), module_with_submodules)

    def _find_partitions(self, config: PartitionerConfig) -> None:
        """Find partitions by the strategy that the configuration names, or one if one device can hold all."""
        total = sum(
            vars(node)["size_bytes"].total_size for node in self.graph_module.graph.nodes if node.op != "output"
        )
        largest = max(self.devices, key=lambda device: device.available_mem_bytes)
        if config.mode is PartitionMode.aot_based:
            self.aot_based_partition(config.node_to_partition_mapping, config.partition_to_logical_device_mapping)
        elif total <= largest.available_mem_bytes:
            self.find_single_partition(total, logical_device_id=largest.logical_id)
        elif total > sum(device.available_mem_bytes for device in self.devices):
            raise RuntimeError("Devices do not have enough memory for the module")
        elif config.mode is PartitionMode.sparse_nn:
            sizes = {device.available_mem_bytes for device in self.devices}
            if len(sizes) > 1:
                raise RuntimeError("All devices must have same memory size!")
            self.sparse_nn_partition(sizes.pop())
        elif config.mode is PartitionMode.cost_aware:
            self.cost_aware_partition(config.transfer_rate_bytes_per_sec, config.node_to_latency_mapping)
        elif config.mode is PartitionMode.kl_based:
            self.kl_based_partition(config.transfer_rate_bytes_per_sec, config.node_to_latency_mapping)
        else:
            self.size_based_partition()

    def find_single_partition(self, total_size_of_graph: int, logical_device_id: int = 0) -> None:
        """Put everything on one device."""
        partition = self.create_partition()
        partition.nodes.update(node for node in self.graph_module.graph.nodes if node.op != "output")
        partition.used_mem_bytes = total_size_of_graph
        partition.logical_device_ids = [logical_device_id]
        self.node_to_partition = get_node_to_partition_mapping(self.partitions)

    def size_based_partition(self) -> None:
        """Fill one device after the other; nodes that are left then become partitions where there is room.

        Raises:
            RuntimeError: A node is too large for any device, or there is no room for one that is left.
        """
        occupied: set[Device] = set()
        partition = self.create_partition()
        left = 0
        for node in self.graph_module.graph.nodes:
            if node.op not in _CALLS:
                continue
            if len(self.partitions) > len(self.devices):
                self.create_single_node_partition(node)
                continue
            needed = get_extra_size_of(node, partition.nodes)
            is_first = partition.used_mem_bytes == 0
            if not is_first and left < needed and len(self.partitions) == len(self.devices):
                self.create_single_node_partition(node)
                continue
            if is_first or left < needed:
                device = self._free_device(node, occupied)
                if not is_first:
                    partition = self.create_partition()
                    needed = get_extra_size_of(node, partition.nodes)
                left = device.available_mem_bytes
                partition.logical_device_ids.append(device.logical_id)
            partition.add_node(node)
            left -= needed
        reorganize_partitions(self.partitions)
        self.node_to_partition = get_node_to_partition_mapping(self.partitions)
        if not get_device_to_partitions_mapping(self.partitions, self.devices):
            raise RuntimeError("Cannot Get a Valid Partition to Logical Device Mapping")

    def _free_device(self, node: Node, occupied: set[Device]) -> Device:
        """The first device that can hold the node alone and is not occupied yet; it is now."""
        needed = get_extra_size_of(node, ())
        for device in self.devices:
            if device not in occupied and device.available_mem_bytes >= needed:
                occupied.add(device)
                return device
        raise RuntimeError(f"{node} is too large to fit any device")

    def saturate_host(self) -> None:
        """Replicate all partitions on devices that are left over, as often as there are enough."""
        placed, left, homeless = get_device_partition_stats(self.partitions, self.devices)
        assert not homeless, f"Expect no_device_partitions has 0 device, but get {len(homeless)}"
        used = [device for device in self.devices if placed[device]]
        replicas: dict[Device, Device] = {}
        while len(used) * 2 + len(replicas) <= len(self.devices):
            idle = [device for device in self.devices if device not in used and device not in replicas]
            found: dict[Device, Device] = {}
            for device in used:
                needed = device.available_mem_bytes - left[device]
                large = [each for each in idle if each.available_mem_bytes >= needed]
                if not large:
                    break
                smallest = min(large, key=lambda each: each.available_mem_bytes)
                idle.remove(smallest)
                found[smallest] = device
            if len(found) < len(used):
                break
            replicas.update(found)
        for replica, original in replicas.items():
            for partition in placed[original]:
                partition.logical_device_ids.append(replica.logical_id)

    def do_partition(self) -> GraphModule:
        """Return a graph module that calls the partitions as submodules."""
        return split_module(self.graph_module, self.torch_module, self.node_to_partition.__getitem__)

    def dump_dag(self, module_with_submodules: GraphModule) -> DAG:
        """Return which submodule feeds which."""
        dag = DAG()
        for node in module_with_submodules.graph.nodes:
            if node.op == "output":
                break
            if is_state(node) or node.target is operator.getitem:
                continue
            # Several results are taken apart by the users.
            results = list(node.users) if len(node.users) > 1 else [node]
            partition = self.partitions[int(node.name.rpartition("_")[2])]
            dag.create_node(node, node.all_input_nodes, results, partition.logical_device_ids, partition.used_mem_bytes)
        return dag

    def create_partition(self) -> Partition:
        """Add an empty partition and return it."""
        partition = Partition(len(self.partitions))
        self.partitions.append(partition)
        return partition

    def create_single_node_partition(self, node: Node) -> None:
        """Add a partition of one node."""
        self.create_partition().add_node(node)

    def sparse_nn_partition(self, available_mem_bytes: int) -> None:
        """Fill devices of one size, embeddings apart from all else; all else runs on each device with embeddings.

        Raises:
            RuntimeError: There are not enough devices, or all else does not fit beside embeddings.
        """
        dense, embeddings = self._consecutive_partitions(available_mem_bytes)
        set_parents_and_children(self.partitions)
        self._combine_by_size(dense, available_mem_bytes)
        self._combine_by_size(embeddings, available_mem_bytes)
        if len(embeddings) > len(self.devices):
            raise RuntimeError(f"Need {len(embeddings)} devices, but only {len(self.devices)} provided")
        total_dense = sum(partition.used_mem_bytes for partition in dense)
        occupied: list[int] = []
        for device, partition in zip(self.devices, embeddings, strict=False):
            if total_dense + partition.used_mem_bytes > available_mem_bytes:
                raise RuntimeError(
                    f"partition_{partition.partition_id}(embedding partition) and non embedding partitions can not "
                    "fit into one device"
                )
            partition.logical_device_ids = [device.logical_id]
            occupied.append(device.logical_id)
        for partition in dense:
            partition.logical_device_ids = list(occupied)
        self.node_to_partition = get_node_to_partition_mapping(self.partitions)

    def _consecutive_partitions(self, available: int) -> tuple[list[Partition], list[Partition]]:
        """Cut the graph where memory is full and where embeddings begin and end; return those without, those with."""
        kinds: tuple[list[Partition], list[Partition]] = ([], [])
        in_embeddings = False
        partition = self.create_partition()
        for node in self.graph_module.graph.nodes:
            if node.op not in _CALLS:
                continue
            if self._is_embedding(node) is not in_embeddings:
                if partition.used_mem_bytes:
                    kinds[in_embeddings].append(partition)
                    partition = self.create_partition()
                in_embeddings = not in_embeddings
            if get_extra_size_of(node, partition.nodes) + partition.used_mem_bytes > available:
                kinds[in_embeddings].append(partition)
                partition = self.create_partition()
                if get_extra_size_of(node, ()) > available:
                    raise RuntimeError(f"{node.target} is too large to fit into a device")
            partition.add_node(node)
        kinds[in_embeddings].append(partition)
        return kinds

    def _is_embedding(self, node: Node) -> bool:
        """Whether the node calls an embedding, or what is inside of a module that has one."""
        if node.op != "call_module":
            return False
        parts = str(node.target).split(".")
        return any(
            "Embedding" in str(self.graph_module.get_submodule(".".join(parts[: length + 1])))
            for length in range(len(parts))
        )

    def _combine_by_size(self, partitions: list[Partition], available: int) -> None:
        """Join the smallest of some partitions with the largest near it that it fits to, as long as there is one."""
        found = True
        while found and partitions:
            get_bfs_level_partition(self.partitions)
            smallest, *others = sorted(partitions, key=lambda partition: partition.used_mem_bytes)
            found = False
            for other in reversed(others):
                nodes = smallest.nodes | other.nodes
                needed = sum(get_extra_size_of(node, nodes) for node in nodes)
                if abs(smallest.bfs_level - other.bfs_level) <= 1 and needed <= available:
                    combine_two_partitions(other, smallest, self.partitions)
                    partitions.remove(smallest)
                    partitions.remove(other)
                    partitions.append(self.partitions[-1])
                    found = True
                    break

    def cost_aware_partition(
        self, transfer_rate_bytes_per_sec: float, node_to_latency_mapping: Mapping[Node, NodeLatency]
    ) -> None:
        """Begin with single nodes, and join partitions as long as that makes the whole faster."""
        for node in self.graph_module.graph.nodes:
            if not is_state(node) and node.op != "output":
                self.create_single_node_partition(node)
        set_parents_and_children(self.partitions)
        get_bfs_level_partition(self.partitions)
        join_partitions(self.partitions, CostModel(self.devices, transfer_rate_bytes_per_sec, node_to_latency_mapping))
        reorganize_partitions(self.partitions)
        self.node_to_partition = get_node_to_partition_mapping(self.partitions)

    def kl_based_partition(
        self, transfer_rate_bytes_per_sec: float, node_to_latency_mapping: Mapping[Node, NodeLatency]
    ) -> None:
        """Begin with filled devices, and let these exchange nodes as long as that makes the whole faster.

        As in torch.fx, what was exchanged shows in the partitions, their memory and devices, while the graph module is
        split as the devices were filled.
        """
        self.size_based_partition()
        model = CostModel(self.devices, transfer_rate_bytes_per_sec, node_to_latency_mapping)
        exchange_nodes(self.partitions, self.node_to_partition, model)

    def aot_based_partition(
        self,
        node_to_partition_mapping: Mapping[Node, int],
        partition_to_logical_device_mapping: Mapping[int, list[int]],
    ) -> None:
        """Take the partitions and devices that the caller gives."""
        self.node_to_partition = node_to_partition_mapping
        known: dict[int, Partition] = {}
        for node, number in node_to_partition_mapping.items():
            if number not in known:
                known[number] = Partition(number)
                known[number].logical_device_ids = list(partition_to_logical_device_mapping[number])
                self.partitions.append(known[number])
            known[number].add_node(node)

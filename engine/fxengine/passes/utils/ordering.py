"""The order of nodes: sorting sets of them by their dependencies, and whether a set can become one node."""

import heapq
from collections.abc import Collection, Iterable

from fxengine.node import Node

__all__ = ["topo_sort", "validate_partition"]


def topo_sort(nodes: Iterable[Node]) -> list[Node]:
    """Return ``nodes`` with each after those it depends on, otherwise in the order given.

    Raises:
        AssertionError: They depend on each other in a circle.
    """
    given = list(nodes)
    waiting = dict.fromkeys(given, 0)
    position = {node: index for index, node in enumerate(given)}
    for node in given:
        waiting[node] = sum(source in waiting for source in node.all_input_nodes)
    ready = [(position[node], node) for node in given if not waiting[node]]
    heapq.heapify(ready)
    ordered: list[Node] = []
    while ready:
        _, node = heapq.heappop(ready)
        ordered.append(node)
        for user in node.users:
            if user in waiting:
                waiting[user] -= 1
                if not waiting[user]:
                    heapq.heappush(ready, (position[user], user))
    assert len(ordered) == len(given), "topological sorted nodes doesn't have same length as input nodes"
    return ordered


def validate_partition(partition: Collection[Node]) -> bool:
    """Return whether ``partition`` can become one node: nothing that uses its results is needed to compute them."""
    inside = set(partition)
    pending = [user for node in inside for user in node.users if user not in inside]
    seen: set[Node] = set(pending)
    while pending:
        for user in pending.pop().users:
            if user in inside:
                return False
            if user not in seen:
                seen.add(user)
                pending.append(user)
    return True

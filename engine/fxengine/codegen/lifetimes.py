"""When a value is no longer needed."""

from collections.abc import Iterable

from fxengine.node import Node


def last_uses(nodes: Iterable[Node]) -> dict[Node, list[Node]]:
    """Return for each node the values that may be freed once it has run.

    Args:
        nodes: The nodes of a graph, last first.
    """
    seen: set[Node] = set()
    freed: dict[Node, list[Node]] = {}
    for user in nodes:
        dead = [node for node in user._inputs if node not in seen]
        if dead:
            seen.update(dead)
            freed[user] = dead
    return freed

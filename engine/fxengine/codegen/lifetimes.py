"""When a value is no longer needed."""

from collections.abc import Sequence

from fxengine.node import Node


def last_uses(nodes: Sequence[Node]) -> dict[Node, list[Node]]:
    """Return for each of the nodes of a graph the values that may be freed once it has run, if there are any."""
    seen: set[Node] = set()
    freed: dict[Node, list[Node]] = {}
    for user in reversed(nodes):
        inputs = user._inputs
        if len(inputs) == 1:
            if inputs[0] not in seen:
                seen.add(inputs[0])
                freed[user] = [inputs[0]]
        elif not seen.issuperset(inputs):
            freed[user] = [node for node in inputs if node not in seen]
            seen.update(inputs)
    return freed

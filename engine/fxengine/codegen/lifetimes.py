"""When a value is no longer needed."""

from collections.abc import Sequence

from fxengine.node import Node


def last_uses(nodes: Sequence[Node]) -> list[Sequence[Node]]:
    """Return, for each of the nodes of a graph in turn, the values that may be freed once it has run."""
    seen: set[Node] = set()
    freed: list[Sequence[Node]] = []
    for user in reversed(nodes):
        inputs = user._inputs
        if len(inputs) == 1:
            (node,) = inputs
            if node in seen:
                inputs = ()
            else:
                seen.add(node)
        elif inputs:
            inputs = [node for node in inputs if node not in seen]
            seen.update(inputs)
        freed.append(inputs)
    freed.reverse()
    return freed

"""What is made of a batch where pictures are put into rows that are shorter than they are: more rows than examples.

`x.view(-1, 32 * 7 * 7)` takes apart whatever it is given. Where pictures are larger than the code counts on, each
becomes several rows, no layer behind it objects, and a loss is the first to say that there are too many of them.
"""

import math
from collections.abc import Iterator
from typing import Final

from fxengine.capturing.dimensions import RESHAPING, asked_sizes
from fxengine.graph import Graph
from fxengine.inputs.sizes import is_of_pictures
from fxengine.names import dtype_abbreviation
from fxengine.node import Node
from fxengine.passes.shape_prop import ShapeFailure

__all__ = ["BatchSpreadError", "spread"]

_SIDES: Final = 2
"""How many dimensions of a picture are its sides."""


class BatchSpreadError(ValueError):
    """Rows that are made of a batch are more than its examples."""


def spread(graph: Graph) -> Iterator[ShapeFailure]:
    """Yield the nodes that make several rows of each picture of a batch, if as many come out at the end.

    What has whole dimensions in each row, or less than a channel, is taken apart on purpose.

    Args:
        graph: The graph, whose nodes have the shapes that some inputs make.
    """
    output = graph.output_node()
    results = {each.tensor.shape[0] for each in output.all_input_nodes if each.tensor is not None and each.tensor.shape}
    for node in graph.nodes:
        rows = _rows(node)
        if rows is None or results != {rows[0]}:
            continue
        made, (batch, *sizes), length = rows
        has = " × ".join(map(str, sizes))
        error = BatchSpreadError(
            f"{made} rows are made of a batch of {batch}, as each of it has {has} = {math.prod(sizes)} and not {length}"
        )
        (value,) = node.all_input_nodes
        shown = (
            f"{dtype_abbreviation(value.tensor.dtype)}[{batch}, {', '.join(map(str, sizes))}]" if value.tensor else ""
        )
        yield ShapeFailure(node, error, ((value.name, shown),), needs_data=False)


def _rows(node: Node) -> tuple[int, tuple[int, ...], int] | None:
    """How many rows of a fixed length a node makes of pictures, their shape, and that length; None if it is not so."""
    name = getattr(node.target, "__name__", str(node.target))
    sizes = asked_sizes(node)
    value = node.args[0] if node.args else None
    if name not in RESHAPING or not isinstance(value, Node) or value.tensor is None or node.tensor is None:
        return None
    shape = tuple(map(int, value.tensor.shape))
    if not is_of_pictures(shape) or len(sizes) != 2 or sizes[0] != -1:
        return None
    made, length = map(int, node.tensor.shape)
    is_apart = made > shape[0] and length > math.prod(shape[-_SIDES:])
    is_whole = any(length == math.prod(shape[start:]) for start in range(1, len(shape)))
    return (made, shape, length) if is_apart and not is_whole else None

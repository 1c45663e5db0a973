"""Equal parts of a model told as one: the twelve blocks of a transformer are one line that says twelve.

Nodes belong together if they come from the same expression in modules whose paths differ only in numbers.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from fxengine.profiling.results import NodeProfile, Place, Timing

__all__ = ["Fold", "fold_by_line", "folded_path"]

_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")


@dataclass(frozen=True, slots=True)
class Fold:
    """All nodes of one source line in equal modules.

    Attributes:
        key: What makes them belong together; the same in another run of the same source.
        place: The line; None for nodes without origin.
        module_path: Their common path, with ``*`` where it has different numbers.
        operations: What they call, in order, without repetition.
        count: How many modules there are; 1 for a part that is not repeated.
        timing: Their time in sum.
        host: The seconds that the host of an accelerator needed for them; None where it is the device.
        share: Their part of the whole.
        flops: Their operations in sum.
        bytes: Their memory traffic in sum.
        memory: The most bytes alive at one of them.
    """

    key: str
    place: Place | None
    module_path: str
    operations: tuple[str, ...]
    count: int
    timing: Timing
    host: float | None
    share: float
    flops: int
    bytes: int
    memory: int


def folded_path(path: str) -> str:
    """Return a module path with each number in it replaced by ``*``."""
    return _NUMBER.sub("*", path)


def fold_by_line(nodes: Iterable[NodeProfile]) -> list[Fold]:
    """Return the folds of ``nodes``, those that took longest first."""
    groups: dict[str, list[NodeProfile]] = {}
    for node in nodes:
        groups.setdefault(_key(node), []).append(node)
    return sorted((_fold(key, group) for key, group in groups.items()), key=lambda fold: -fold.timing.seconds)


def _key(node: NodeProfile) -> str:
    owner = folded_path(_owner(node))
    if node.place is None:
        return f"{owner}:{node.target}"
    return f"{node.place.path}:{node.place.line}:{owner}"


def _owner(node: NodeProfile) -> str:
    """Return the path of the module whose forward has the line: for a leaf, its parent's."""
    return node.module_path.rpartition(".")[0] if node.op == "call_module" else node.module_path


def _operation(node: NodeProfile) -> str:
    return folded_path(node.module_path).rpartition(".")[2] if node.op == "call_module" else node.target


def _fold(key: str, group: list[NodeProfile]) -> Fold:
    needed = [node.host for node in group if node.host is not None]
    owners = list(dict.fromkeys(_owner(node) for node in group))
    return Fold(
        key=key,
        place=group[0].place,
        module_path=owners[0] if len(owners) == 1 else folded_path(owners[0]),
        operations=tuple(dict.fromkeys(map(_operation, group))),
        count=len(owners),
        timing=Timing(
            sum(node.timing.seconds for node in group),
            sum(node.timing.error**2 for node in group) ** 0.5,
            group[0].timing.runs,
        ),
        host=sum(needed) if needed else None,
        share=sum(node.share for node in group),
        flops=sum(node.flops for node in group),
        bytes=sum(node.bytes for node in group),
        memory=max(node.memory for node in group),
    )

"""The state of a node: its fields, its place in the list of its graph, and its order among the others.

What a node means, and how its arguments are changed, is the matter of ``node``.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast

import torch

from fxengine.source import Mark, ModuleStack, Origin, OriginRecord, unrolled

if TYPE_CHECKING:
    from fxengine.graph import Graph
    from fxengine.node import Node

__all__ = ["Target", "TensorFacts", "_NodeBase", "fill", "replace_hooks"]

Target: TypeAlias = Callable[..., Any] | str


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """What is known about the tensor that a node yields, without the tensor."""

    shape: tuple[int | torch.SymInt, ...]
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Self:
        """Return the facts about ``tensor``."""
        return cls(tuple(tensor.shape), tensor.dtype, tensor.device)


class _NodeBase:
    """What every node has. There are no instances of this class itself.

    ``op`` and ``target`` are properties because the graph's table of nodes is sorted by them.
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_args",
        "_erased",
        "_inputs",
        "_kwargs",
        "_mark",
        "_meta",
        "_name",
        "_next",
        "_op",
        "_prev",
        "_repr_fn",
        "_sort_key",
        "_target",
        "graph",
        "tensor",
        "type",
        "users",
    )

    _args: tuple[Any, ...]
    _erased: bool
    _inputs: tuple["Node", ...]
    _kwargs: dict[str, Any]
    _mark: Origin | OriginRecord | Mark | None
    _meta: dict[str, Any] | ModuleStack | None
    _name: str
    _next: "Node"
    _op: str
    _prev: "Node"
    _repr_fn: Callable[["Node"], str] | None
    _sort_key: tuple[int, ...]
    _target: Target
    graph: "Graph"
    tensor: TensorFacts | None
    type: Any | None
    users: dict["Node", None]

    @property
    def op(self) -> str:
        """The opcode."""
        return self._op

    @op.setter
    def op(self, op: str) -> None:
        _set_indexed(cast("Node", self), "_op", op)

    @property
    def target(self) -> Target:
        """What is called or read; see the class."""
        return self._target

    @target.setter
    def target(self, target: Target) -> None:
        _set_indexed(cast("Node", self), "_target", target)

    @property
    def name(self) -> str:
        """The name of the value, unique in the graph; what is assigned to in generated code."""
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        hooks = replace_hooks(self)
        for user in self.users if hooks else ():
            for hook in hooks:
                hook(old=self, new=name, user=user)
        self._name = name

    @property
    def meta(self) -> dict[str, Any]:
        """Free for passes; kept when the node is copied.

        A tracer may set ``_meta`` to the modules that are running, which are put into a dict when somebody asks.
        """
        meta = self._meta
        if meta is None or type(meta) is tuple:
            meta = self._meta = {} if meta is None else {"nn_module_stack": unrolled(meta)}
        return cast("dict[str, Any]", meta)

    @meta.setter
    def meta(self, meta: dict[str, Any]) -> None:
        self._meta = meta

    @property
    def origin(self) -> Origin | None:
        """Where in the user's source the node comes from; None if no trace made it.

        A tracer may set ``_mark`` or ``_origin``; positions are looked up when somebody asks.
        """
        origin = self._origin
        return origin.resolve() if isinstance(origin, OriginRecord) else origin

    @origin.setter
    def origin(self, origin: Origin | None) -> None:
        self._mark = origin

    @property
    def _origin(self) -> Origin | OriginRecord | None:
        """The origin as it is kept: a record if its positions were not looked up yet."""
        mark = self._mark
        return OriginRecord.of(mark) if type(mark) is tuple else cast("Origin | OriginRecord | None", mark)

    @_origin.setter
    def _origin(self, origin: Origin | OriginRecord | None) -> None:
        self._mark = origin

    def __lt__(self, other: object) -> bool:
        return self._sort_key < other._sort_key if isinstance(other, _NodeBase) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return self._sort_key > other._sort_key if isinstance(other, _NodeBase) else NotImplemented

    def __le__(self, other: object) -> bool:
        return self is other or (self._sort_key <= other._sort_key if isinstance(other, _NodeBase) else NotImplemented)

    def __ge__(self, other: object) -> bool:
        return self is other or (self._sort_key >= other._sort_key if isinstance(other, _NodeBase) else NotImplemented)

    def _prepend(self, x: "Node") -> None:
        """Unlink ``x`` and link it in before this node; its sort key is one between its neighbours'."""
        assert self.graph is x.graph, "Attempting to move a Node into a different Graph"
        if self is x:
            return
        after = cast("Node", self)
        x._prev._next, x._next._prev = x._next, x._prev
        before = after._prev
        before._next = after._prev = x
        x._prev, x._next = before, after
        x._sort_key = _sort_key_between(before._sort_key, after._sort_key)

    def _remove_from_list(self) -> None:
        """Unlink the node. It keeps its own links, so that an iteration that stands on it can go on."""
        self._prev._next, self._next._prev = self._next, self._prev


def fill(  # noqa: PLR0917 - called for each node there is; keywords cost time.
    node: "Node",
    graph: "Graph",
    name: str,
    op: str,
    target: Target,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    type_expr: Any | None,
    inputs: Iterable["Node"],
) -> None:
    """Set every field of a new node, whose arguments are frozen and whose ``inputs`` are the nodes in them."""
    node.graph = graph
    node._name = name
    node._op = op
    node._target = target
    node.type = type_expr
    node._args = args
    node._kwargs = kwargs
    node._inputs = tuple(inputs)
    node.users = {}
    node._meta = None
    node._mark = None
    node.tensor = None
    node._prev = node._next = node
    node._sort_key = ()
    node._erased = False
    node._repr_fn = None
    for used in inputs:
        used.users[node] = None


def replace_hooks(node: _NodeBase) -> Sequence[Callable[..., object]]:
    """Return whom the graph's module has tell when a node takes another's place or name."""
    return getattr(node.graph._owning_module, "_replace_hooks", None) or ()


def _sort_key_between(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[int, ...]:
    """Return a key that sorts between two neighbours'; the root, first and last at once, has the empty key.

    Appending at the end counts up in one place; inserting between two keys of equal length adds a place, in which
    further insertions at either side of the first count up or down.
    """
    if len(before) > len(after):
        return (*before[: len(after)], before[len(after)] + 1)
    if len(before) < len(after):
        return (*after[: len(before)], after[len(before)] - 1)
    return (*before, 0)


def _set_indexed(node: "Node", field: str, value: object) -> None:
    """Set a field that the graph's table of nodes is sorted by."""
    table = node.graph._lookup_table
    listed = table is not None and node in table
    if table is not None and listed:
        table.remove(node)
    setattr(node, field, value)
    if table is not None and listed:
        table.insert(node)

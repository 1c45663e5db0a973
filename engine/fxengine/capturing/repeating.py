"""Whether a second run of a model would do what the first did, by the graphs of both.

A run may leave something behind: a counter, a cache, what it was given. The graph of a first run is that of all runs if
the graph of the next one computes the same, where what it takes over from the first may follow from the model's own
tensors alone. So the values of both graphs are numbered: two have the same number if they are computed alike.
"""

import hashlib
import operator
from collections.abc import Container
from functools import reduce
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from fxengine.capturing.evaluation import mutates
from fxengine.capturing.former import Former, taken_over
from fxengine.capturing.objects import content_of
from fxengine.capturing.values import Values
from fxengine.effects import is_impure_function
from fxengine.graph import Graph
from fxengine.node import Node
from fxengine.silent.mutation import changed_by, viewed

__all__ = ["Numbers", "first_difference"]


_FILLING: Final = frozenset({
    "bernoulli_", "cauchy_", "exponential_", "fill_", "geometric_", "log_normal_", "normal_", "random_", "uniform_",
    "zero_",
})  # fmt: skip
"""Methods that leave nothing of what was in a tensor: `torch.empty(2).normal_()`."""

_DETACHING: Final = frozenset({"detach", Tensor.detach, torch.detach})


class _Written(NamedTuple):
    """What was written to a place of a tensor: the number of the value, and its shape and type."""

    place: Any
    number: int
    is_steady: bool
    kind: tuple[Any, ...] | None


class Numbers:
    """The values of one run, numbered: alike in all runs with the same table. Immutable once it is made.

    Attributes:
        of: The number of each node's value.
        steady: The nodes whose values are the same in each run.
        effects: The nodes that do something beside computing, in order, without those that settle.
        settling: The nodes that write what is the same in each run to a tensor that the run has not changed before, so
            that it makes no difference whether they do it once more.
    """

    def __init__(
        self,
        graph: Graph,
        values: Values,
        root: nn.Module,
        table: dict[Any, int],
        before: "tuple[Former, Numbers] | None" = None,
    ) -> None:
        """Number the values of a graph.

        Args:
            graph: The graph of the run.
            values: What is known of its tensors.
            root: What has the modules and objects that the graph refers to.
            table: The numbers that were given so far.
            before: What the run before has left behind, and its numbers.
        """
        self.of: dict[Node, int] = {}
        self.steady: set[Node] = set()
        self.effects: list[Node] = []
        self.settling: list[Node] = []
        self._root = root
        self._table = table
        self._before = before
        self._initial = values.initial()
        self._drawn = values.drawn
        self._tensors = {
            held.node: held.tensor
            for held in values.held.values()
            if held.node is not None and (held.constant or held.node.op == "get_attr")
        }
        self._results = {held.node: held.tensor for held in values.held.values() if held.node is not None}
        self._written: dict[int | Node, _Written | None] = {}
        self._owners: dict[Node, Node] = {}
        self._changes: dict[Node, list[Node]] = {}
        self._made: dict[Node, int] = {}
        self._draws = 0
        for node in graph.nodes:
            self._add(node)

    def _add(self, node: Node) -> None:
        changed = _changed_by(node, self._root)
        whole = viewed(node) if changed is None else changed
        owner = self._owners[node] = node if whole is None else self._owners[whole]
        # What a run has made for itself it may change without that being seen.
        has_effect = owner.op in {"placeholder", "get_attr"} if changed is not None else self._has_effect(node)
        key, is_steady = self._key(node)
        written = self._write(node, owner) if changed is not None else None
        if has_effect and written is not None and written.is_steady and not self._changes.get(owner):
            key, is_steady = ("settling", key), False
            self.settling.append(node)
        elif has_effect:
            key, is_steady = ("effect", len(self.effects), key), False
            self.effects.append(node)
        self.of[node] = key if type(key) is int else self._table.setdefault(key, len(self._table))
        if is_steady:
            self.steady.add(node)
        changes = self._changes.setdefault(owner, [])
        if changed is not None:
            changes.append(node)
        self._made[node] = len(changes)

    def now(self, node: Node) -> tuple[int, bool]:
        """The number of what a node's value has become by changes in place, and whether it is the same in each run."""
        since = self._changes[self._owners[node]][self._made[node] :]
        if not since:
            return self.of[node], node in self.steady
        key = ("changed", self.of[node], tuple(self.of[each] for each in since))
        return self._table.setdefault(key, len(self._table)), node in self.steady and self.steady.issuperset(since)

    def _write(self, node: Node, owner: Node) -> "_Written | None":
        """Note what a change has put in a place of a tensor, None for a change of another kind."""
        found = None
        if node.target is operator.setitem and node.args[0] is owner and isinstance(value := node.args[2], Node):
            number, is_steady = self.now(value)
            found = _Written(self._place(node), number, is_steady, _kind_of(self._results.get(value)))
        self._written[self._name_of(owner)] = found
        return found

    def _read(self, node: Node) -> tuple[int, bool] | None:
        """The number of what was written last to the place of a tensor that a node reads, None where that is not known.

        A tensor that this run has not changed has what the run before has written, if that is the same in each run.
        """
        if node.target is not operator.getitem or not isinstance(whole := node.args[0], Node):
            return None
        name = self._name_of(whole)
        written = self._written.get(name)
        if name not in self._written and self._before is not None:
            earlier = self._before[1]._written.get(name)
            written = earlier if earlier is not None and earlier.is_steady else None
        kind = _kind_of(self._results.get(node))
        if written is None or kind is None or (written.place, written.kind) != (self._place(node), kind):
            return None
        return written.number, written.is_steady

    def _name_of(self, owner: Node) -> int | Node:
        """What a tensor is known by in all runs, if it is one of the model's own, else the node."""
        return id(self._own(owner)) if owner.op == "get_attr" else owner

    def _place(self, node: Node) -> Any:
        """What stands in the brackets that a node reads or changes, written in one way."""
        index = node.args[1]
        parts = index if isinstance(index, tuple) else (index,)
        plain = tuple(
            slice(each.start or 0, each.stop, 1 if each.step is None else each.step)
            if isinstance(each, slice)
            else each
            for each in parts
        )
        return _frozen(plain, {each: self.now(each)[0] for each in node.all_input_nodes})

    def _is_detached(self, node: Node) -> bool:
        """Whether a node takes from the graph of gradients what is in none."""
        whole = (
            self._results.get(node.args[0]) if node.target in _DETACHING and isinstance(node.args[0], Node) else None
        )
        return whole is not None and not whole.requires_grad

    def _key(self, node: Node) -> tuple[Any, bool]:
        """What tells a value from others, or its number, and whether it is the same in each run."""
        if node in self._tensors:
            return self._key_of(self._tensors[node]), True
        target: Any = node.target
        if target is taken_over and self._before is not None:
            former, numbers = self._before
            left = former.node_of(node.args[0])  # type: ignore[arg-type]
            number, is_steady = (0, False) if left is None else numbers.now(left)
            return (number if is_steady else ("taken over", node)), is_steady
        if node.op == "placeholder":
            return ("input", target), False
        if node.op == "get_attr":
            found = self._own(node)
            # What was handed a tensor of the run's own may have returned that one: the result's node is known then.
            return (self._key_of(found) if isinstance(found, Tensor) else self._number_of(found)), True
        if self._is_detached(node):
            return self.now(node.all_input_nodes[0])
        if (read := self._read(node)) is not None:
            return read
        if node.op == "call_module":
            target = _identity_of(self._root.get_submodule(target))
        if node.op == "call_method" and target in _FILLING and (filled := self._filled(node)) is not None:
            return filled
        inputs = {each: self.now(each) for each in node.all_input_nodes}
        arguments = _frozen((node.args, node.kwargs), {each: number for each, (number, _) in inputs.items()})
        return (node.op, target, arguments), all(is_steady for _, is_steady in inputs.values())

    def _filled(self, node: Node) -> tuple[Any, bool] | None:
        """What tells what a tensor is filled with that a run has made, None for a tensor that is not the run's own."""
        whole = node.args[0]
        if not isinstance(whole, Node) or self._owners[whole].op in {"placeholder", "get_attr"}:
            return None
        inputs = {each: self.now(each) for each in node.all_input_nodes if each is not whole}
        given = _frozen((node.args[1:], node.kwargs), {each: number for each, (number, _) in inputs.items()})
        is_drawn = node in self._drawn
        self._draws += is_drawn  # Each draw gives other numbers.
        key = ("filled", node.target, _kind_of(self._results.get(whole)), given, self._draws if is_drawn else 0)
        return key, not is_drawn and all(is_steady for _, is_steady in inputs.values())

    def _own(self, node: Node) -> Any:
        """What of the model's own a node gives."""
        return reduce(getattr, str(node.target).split("."), self._root)

    def _key_of(self, tensor: Tensor) -> tuple[Any, ...]:
        """What tells a tensor that is there before a graph runs from others."""
        return ("tensor", id(tensor) if _has_identity(tensor, self._initial) else _data_of(tensor))

    def _number_of(self, value: Any) -> int:
        """The number of an object, which is that of what holds the same: each run may make one for itself."""
        own = ("object", id(value))
        if own not in self._table:
            content = content_of(value)
            self._table[own] = self._table.setdefault(content, len(self._table))
        return self._table[own]

    def _has_effect(self, node: Node) -> bool:
        if node in self._drawn:
            return True
        if node.op == "call_module":
            return self._root.get_submodule(str(node.target)).training
        return node.op == "call_function" and is_impure_function(node.target, node.args, node.kwargs)  # type: ignore[arg-type]


def first_difference(one: Numbers, other: Numbers) -> Node | None:
    """The node of the second run where it begins to do something else than the first, None if it does the same."""
    known = set(one.of.values())
    if _done(one) == _done(other) and known.issuperset(other.of[each] for each in other.settling):
        return None
    new = [node for node, number in other.of.items() if number not in known]
    computed = [node for node in new if node.op not in {"get_attr", "output"} and node.target is not taken_over]
    return next(iter(computed or new), next(reversed(other.of)))


def _done(numbers: Numbers) -> tuple[Any, ...]:
    """What a run does and returns."""
    return (*(numbers.of[node] for node in numbers.effects), numbers.of[next(reversed(numbers.of))])


def _changed_by(node: Node, root: nn.Module) -> Node | None:
    """The node whose value a node changes in place, or None."""
    found = changed_by(node, root)
    if found is None and node.op == "call_function" and mutates(node.target, node.kwargs):  # type: ignore[arg-type]
        first = node.kwargs.get("out", node.args[0] if node.args else None)
        found = first if isinstance(first, Node) else None
    return found


def _has_identity(tensor: Tensor, initial: Container[int]) -> bool:
    """Whether a tensor is itself in each run; others were made by a run, and are what is in them."""
    return tensor.is_meta or id(tensor) in initial or tensor.layout is not torch.strided


def _kind_of(tensor: Tensor | None) -> tuple[Any, ...] | None:
    """The shape and the type of a tensor, None where there is none."""
    return None if tensor is None else (tuple(tensor.shape), tensor.dtype)


def _data_of(tensor: Tensor) -> tuple[Any, ...]:
    data = tensor.detach().cpu().contiguous().reshape(-1)
    if data.is_quantized:
        return (id(tensor),)
    found = hashlib.sha256(data.resolve_conj().resolve_neg().view(torch.uint8).numpy().tobytes())
    return (tuple(tensor.shape), tensor.dtype, found.digest())


def _identity_of(module: nn.Module) -> Any:
    """What tells a module from others; one without parameters and buffers is what it says of itself."""
    has_state = next(module.parameters(), None) is not None or next(module.buffers(), None) is not None
    return id(module) if has_state else (type(module), repr(module), module.training)


def _frozen(value: Any, numbers: dict[Node, int]) -> Any:
    """Arguments as something that can be compared, with the numbers of the nodes in them."""
    if isinstance(value, Node):
        return ("node", numbers[value])
    if isinstance(value, list | tuple):
        return (type(value).__name__, tuple(_frozen(each, numbers) for each in value))
    if isinstance(value, dict):
        return ("dict", tuple((repr(key), _frozen(each, numbers)) for key, each in value.items()))
    if isinstance(value, slice):
        return ("slice", _frozen((value.start, value.stop, value.step), numbers))
    return (type(value), repr(value))

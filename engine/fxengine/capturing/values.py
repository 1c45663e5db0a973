"""What the graph of a capture knows of the tensors that the code has: which node computes each, and of which inputs.

A tensor becomes a node when something is computed from it. What belongs to the model, and constants, are known from
their first use; a change in place gives a tensor a new node.
"""

import functools
import operator
import sys
from collections.abc import Callable, Container, Iterable
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor, nn
from torch._C._functorch import is_batchedtensor

from fxengine.capturing.former import Former, taken_over
from fxengine.capturing.gradients import Gradients
from fxengine.capturing.held import Held, Place, storage_of
from fxengine.capturing.modes import Modes
from fxengine.capturing.objects import is_record, tensors_in, with_tensors
from fxengine.capturing.spelling import spelled
from fxengine.capturing.unknown import NUMBERS, Unknown
from fxengine.immutable_collections import immutable_dict, immutable_list
from fxengine.node import Node
from fxengine.node_fields import TensorFacts
from fxengine.node_list import NO_KWARGS
from fxengine.recording import PLAIN_TYPES
from fxengine.shapes_only import to_meta

if TYPE_CHECKING:
    from fxengine.capturing.tracer import CaptureTracer

__all__ = ["NotConstant", "Values"]


class NotConstant(BaseException):
    """What was taken for a computation with constants is none. No `Exception`: the user's code must not take it."""


class Values:
    """The tensors of one capture. Mutable.

    Attributes:
        held: What is known of each tensor, by its identity.
        changed: Whether running the model from the beginning again would not do the same: inputs or its own tensors
            were changed in place, random numbers were drawn, or gradients were asked for.
        reworked: The tensors that were changed in place, by identity and in order; instead of views what they show.
        altered: The buffers by name that were changed in place after something had been computed from their data.
        was_read: The tensors by identity that something was computed from as from constants.
        asserted: The buffers by identity of which the graph asserts what is in them.
        drawn: The nodes that draw random numbers.
        former: What the run before has left behind, where this one goes on from there.
        initial: Tells which tensors the model had before the run, by identity.
        on_constants: Whether a `vmap` is being tried that may work on constants only.
        unknown: What is known of sizes and numbers that only data can tell; None as long as there are none.
        modes: Which modes are on where the graph ends now.
    """

    def __init__(self, tracer: "CaptureTracer", device: torch.device) -> None:
        """Make nodes with `tracer`; `device` is where all tensors without data seem to lie."""
        self.held: dict[int, Held] = {}
        self.changed = False
        self.reworked: list[int] = []
        self.altered: dict[str, Tensor] = {}
        self.asserted: set[int] = set()
        self.drawn: set[Node] = set()
        self.former: Former | None = None
        self.initial: Callable[[], Container[int]] = frozenset
        self.on_constants = False
        self.unknown: Unknown | None = None
        self.modes = Modes(tracer, device)
        self._tracer = tracer
        self._device = device
        self.was_read: set[int] = set()
        self._leaves_own: set[int] = set()
        self._originals: dict[int, Tensor] = {}
        self._recipes: dict[int, tuple[Tensor, Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {}
        self._sources = 0
        self._used: dict[Node, None] = {}

    @functools.cached_property
    def gradients(self) -> Gradients:
        """Through which values gradients flow."""
        return Gradients(self._tracer.graph, self._tracer.root, self.held.values)

    def remember(self, made: Tensor, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note how a constant was made, so that the graph can make it again instead of keeping it."""
        self._recipes[id(made)] = (made, func, args, kwargs)

    def read(self, values: Iterable[Any]) -> None:
        """Note that something follows from the data of tensors among values, which are taken for constants."""
        self.was_read.update(id(value) for value in values if isinstance(value, Tensor))

    def is_symbolic(self, values: Iterable[Any]) -> bool:
        """Whether anything among the values depends on inputs or parameters."""
        for value in values:
            kind = type(value)
            if kind in PLAIN_TYPES or (kind is torch.Size and self.unknown is None):
                continue
            if isinstance(value, Tensor):
                found = self.is_variable(value)
            elif isinstance(value, list | tuple):
                found = self.is_symbolic(value)
            elif isinstance(value, dict):
                found = self.is_symbolic(value.values())
            else:
                found = kind in NUMBERS or (kind is slice and self.is_symbolic((value.start, value.stop, value.step)))
            if found:
                return True
        return False

    def is_variable(self, tensor: Tensor) -> bool:
        """Whether a tensor depends on inputs or parameters."""
        held = self.held.get(id(tensor))
        if held is not None:
            return not held.constant
        if tensor.is_meta or isinstance(tensor, nn.Parameter) or id(tensor) in self._leaves_own:
            return True
        if self.former is not None and self.former.has(tensor):
            return True
        base = tensor._base
        owner = None if base is None else self.held.get(id(base))
        return (owner is not None and not owner.constant) or id(base) in self._leaves_own

    def is_state(self, tensor: Tensor) -> bool:
        """Whether a tensor is a parameter or buffer of the model, or what a module has as an attribute."""
        return isinstance(tensor, nn.Parameter) or self._tracer.kept_name(tensor) is not None

    def is_part_of_state(self, tensor: Tensor) -> bool:
        """Whether a tensor is a parameter or buffer of the model, or shows a part of one."""
        base = tensor._base
        return self.is_state(tensor) or (base is not None and not base.is_meta and self.is_state(base))

    def is_reworked(self, tensor: Tensor) -> bool:
        """Whether a tensor has other data in the graph, as far as that has come, than it has here."""
        owner = id(tensor if tensor._base is None else tensor._base)
        return owner in self._leaves_own or owner in self.reworked

    def arguments(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any], tuple[Any, ...], dict[str, Any], dict[Node, None], int]:
        """The arguments of a call as those of its node and without data; the nodes in them, and their sources."""
        outer = (self._used, self._sources)
        self._used, self._sources = {}, 0
        pairs = [self._pair(value) for value in args]
        named = {name: self._pair(value) for name, value in kwargs.items()} if kwargs else {}
        used, sources = self._used, self._sources
        self._used, self._sources = outer
        return (
            tuple([pair[0] for pair in pairs]),
            immutable_dict({name: pair[0] for name, pair in named.items()}) if named else NO_KWARGS,
            tuple([pair[1] for pair in pairs]),
            {name: pair[1] for name, pair in named.items()},
            used,
            sources,
        )

    def _pair(self, value: Any) -> tuple[Any, Any]:
        """A value as an argument of a node, and as an argument of a computation without data."""
        kind = type(value)
        if kind in PLAIN_TYPES:
            return value, value
        if isinstance(value, Tensor):
            held = self.hold(value)
            self._sources |= held.sources
            node = held.node or self._node_at(held)
            self._used[node] = None
            # A number among the arguments may be one that a size follows from.
            is_number = held.constant and not value.dim() and not value.is_floating_point()
            return node, value if is_number else held.value
        if kind is list or kind is tuple or kind is torch.Size:
            pairs = [self._pair(item) for item in value]
            items, values = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            return (immutable_list(items), values) if kind is list else (tuple(items), tuple(values))
        if kind is dict:
            pairs = {key: self._pair(item) for key, item in value.items()}
            return immutable_dict({key: pair[0] for key, pair in pairs.items()}), {
                key: pair[1] for key, pair in pairs.items()
            }
        if kind is slice:
            (start, stop, step), values = self._pair((value.start, value.stop, value.step))
            return slice(start, stop, step), slice(*values)
        return self._unusual_pair(value)

    def with_unknown(self) -> Unknown:
        """What is known of sizes that only data can tell, from now on."""
        if self.unknown is None:
            self.unknown = Unknown(self._tracer.graph, self._device, self.append, self._node_at)
        return self.unknown

    def number(self, value: Any) -> Any:
        """The node that computes a number that only data can tell."""
        tracer, unknown = self._tracer, self.with_unknown()
        last = next(reversed(tracer.graph.nodes), None)
        node = unknown.node_of(value)
        scope = tracer.scope
        for made in reversed(tracer.graph.nodes):
            if made is last:
                break
            if made._origin is None:
                tracer._describe(made, sys._getframe(1), (scope.module_path, scope.module_type), tracer._stack)
        return node

    def _number_pair(self, value: Any) -> tuple[Any, Any]:
        node = self.number(value)
        if isinstance(node, Node):
            self._used[node] = None
            self._sources |= self.with_unknown().sources_of(value)
        return node, value

    def _unusual_pair(self, value: Any) -> tuple[Any, Any]:
        if type(value) in NUMBERS:
            return self._number_pair(value)
        if hasattr(value, "item") and hasattr(value, "dtype") and getattr(value, "ndim", None) == 0:
            number = value.item()  # A number of numpy's.
            return number, number
        argument, used = self._tracer.create_arg(value), dict(self._used)
        values = with_tensors(lambda leaf: self._pair(leaf)[1], value)
        if isinstance(argument, Node):
            self._used = {**used, argument: None}
        return argument, values

    def with_data(self, value: Any, given: Any, dtype: torch.dtype) -> Any:
        """An argument with the constants of a type in it as they are: their data tell how large something is."""
        if isinstance(value, tuple) and isinstance(given, tuple):
            return tuple(self.with_data(*each, dtype) for each in zip(value, given, strict=True))
        if isinstance(given, Tensor) and given.dtype is dtype and not given.is_meta and self.hold(given).constant:
            return given
        return value

    def append(
        self,
        opcode: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        label: str,
        used: Iterable[Node],
    ) -> Node:
        """A new node at the end of the graph, after whatever the modes that are on demand."""
        modes = self.modes
        if modes.may_differ():
            modes.follow()
        tracer = self._tracer
        node = tracer.graph._append(opcode, target, args, kwargs, label, None, used)
        scope = tracer.scope
        tracer._describe(node, sys._getframe(1), (scope.module_path, scope.module_type), tracer._stack)
        return node

    def kept(self, result: Any, place: Place, sources: int, *, has_data: bool = False) -> Any:
        """What the code gets for the value at a place of the graph; with `has_data`, of tensors what is in them."""
        if isinstance(result, Tensor):
            if has_data and not result.is_meta:
                return self._kept_constant(result, place, sources)
            return self._kept_tensor(result, place, sources)
        if isinstance(result, list | tuple) and type(result) is not torch.Size:
            items = [
                self.kept(item, Place(None, place, index), sources, has_data=has_data)
                for index, item in enumerate(result)
            ]
            if all(new is old for new, old in zip(items, result, strict=True)):
                return result
            if isinstance(result, list):
                return items
            return tuple.__new__(type(result), items) if is_record(result) else tuple(items)
        if isinstance(result, dict):
            for key, item in result.items():
                result[key] = self.kept(item, Place(None, place, key), sources)
        return result

    def _kept_tensor(self, result: Tensor, place: Place, sources: int) -> Tensor:
        node = place.node
        if node is not None:
            node.tensor = TensorFacts(tuple(result.shape), result.dtype, self._device)
        known = self.held.get(id(result))
        if known is None:
            original = self._originals.get(id(result))
            known = None if original is None else self.held[id(original)]
        if known is None:
            if not result.is_meta:
                result = to_meta(result)
            self.held[id(result)] = Held(result, result, place, sources)
            return result
        if known.constant and known.tensor is result:
            return result
        # The same tensor comes back: it was changed in place, or there was nothing to do.
        known.node, known.parent, known.key, known.made = place.node, place.parent, place.key, place.made
        known.sources |= sources
        known.constant = False
        return known.tensor

    def add(self, tensor: Tensor, place: Place, sources: int) -> Tensor:
        """A tensor without data for an input, at a place of the graph."""
        twin = to_meta(tensor.detach())
        if twin is tensor:
            twin = tensor.detach()
        if twin.requires_grad is not tensor.requires_grad and tensor.is_leaf:
            twin.requires_grad_(tensor.requires_grad)
        held = self.held[id(twin)] = Held(twin, twin, place, sources)
        held.is_given = True
        if place.node is not None:
            place.node.tensor = TensorFacts(tuple(tensor.shape), tensor.dtype, self._device)
        return twin

    def add_known(self, tensor: Tensor, place: Place, sources: int) -> Tensor:
        """A copy of an input whose data are taken for known, at a place of the graph."""
        if place.node is not None:
            place.node.tensor = TensorFacts(tuple(tensor.shape), tensor.dtype, self._device)
        return self._kept_constant(tensor.detach().clone(), place, sources)

    def _kept_constant(self, tensor: Tensor, place: Place, sources: int) -> Tensor:
        held = self.held[id(tensor)] = Held(tensor, to_meta(tensor), place, sources)
        held.constant, held.version = True, _version(tensor)
        self._originals[id(held.value)] = tensor
        return tensor

    def may_be_read(self, tensor: Tensor) -> bool:
        """Whether code may see the data of the model's own tensor; the graph asserts them where a run changes them."""
        if self.is_reworked(tensor):
            return False
        name, held = self._tracer.kept_name(tensor), self.held.get(id(tensor))
        if name is not None and held is not None and not held.constant and id(tensor) not in self.asserted:
            # What is no constant, though nothing has changed it yet, is known from another run to be changed.
            self.asserted.add(id(tensor))
            said = f" == {tensor.tolist()}" if tensor.numel() <= _MOST_SAID else " as it is"
            self.hold_for(tensor, f"the graph holds for {name}{said}, which each run changes")
        return True

    def hold_for(self, tensor: Tensor, message: str) -> None:
        """Let the graph assert that a tensor has the data that it was taken to have."""
        nodes = self.node_of(tensor), self.node_of(tensor.clone())
        same = self.append("call_function", operator.eq, nodes, NO_KWARGS, "eq", nodes)
        same = self.append("call_method", "all", (same,), NO_KWARGS, "all", (same,))
        self.append("call_function", torch._assert, (same, message), NO_KWARGS, "_assert", (same,))

    def node_of(self, tensor: Tensor) -> Node:
        """The node that computes a tensor."""
        held = self.hold(tensor)
        return held.node or self._node_at(held)

    def _node_at(self, place: Place) -> Node:
        """The node of a place; it is made now if it was not needed before."""
        node = place.node
        if node is None:
            if place.parent is not None:
                parent = self._node_at(place.parent)
                item = (parent, place.key)
                node = self.append("call_function", operator.getitem, item, NO_KWARGS, "getitem", (parent,))
            else:
                node = self._made(place)
            place.node = node
            if isinstance(place, Held):
                node.tensor = TensorFacts(tuple(place.value.shape), place.value.dtype, self._device)
        return node

    def _made(self, place: Place) -> Node:
        assert place.made is not None
        opcode, target, args, kwargs = place.made
        if not callable(target):
            return self.append(opcode, target, (), NO_KWARGS, target.replace(".", "_"), ())
        args = tuple(self._node_at(each) if isinstance(each, Place) else each for each in args)
        used = tuple(each for each in args if isinstance(each, Node))
        if target is getattr:
            return self.append(opcode, target, args, NO_KWARGS, str(args[1]), used)
        opcode, function, args, label = spelled(target, args, dict(kwargs))
        return self.append(opcode, function, args, immutable_dict(kwargs), label, used)

    def hold(self, tensor: Tensor) -> Held:
        """What is known of a tensor; one that is not known yet belongs to the model, or is a constant."""
        held = self.held.get(id(tensor))
        if held is not None and (not held.constant or held.version == _version(tensor)):
            return held
        if self.on_constants and is_batchedtensor(tensor):
            raise NotConstant
        base = tensor._base
        if base is not None and held is None:
            owner = self.hold(base) if id(base) in self._leaves_own else self.held.get(id(base))
            if owner is not None and not owner.constant:
                return self._view(tensor, owner)
        if held is not None:
            # What stood for it is let go of, and another tensor may take its identity.
            self._originals.pop(id(held.value), None)
        held = self._adopt(tensor)
        self.held[id(tensor)] = held
        if held.value is not tensor:
            self._originals[id(held.value)] = tensor
        return held

    def _adopt(self, tensor: Tensor) -> Held:
        former = self.former
        if former is not None and former.has(tensor):
            given = (former.number_of(tensor),)
            return Held(tensor, to_meta(tensor), Place(None, made=("call_function", taken_over, given, NO_KWARGS)), 0)
        # What has no data and was not there before was made by this run, whatever it is called now.
        is_new = tensor.is_meta and id(tensor) not in self.initial()
        name = None if is_new else self._tracer.name_in_root(tensor)
        is_constant = not (tensor.is_meta or isinstance(tensor, nn.Parameter) or id(tensor) in self._leaves_own)
        if name is None:
            alias = self._alias(tensor) if tensor.is_meta else None
            if alias is not None:
                return alias
            recipe = self._recipes.get(id(tensor))
            if recipe is not None and _version(tensor) == 0:
                made: Any = ("call_function", recipe[1], *self._frozen_recipe(recipe))
                held = Held(tensor, to_meta(tensor), Place(None, made=made), 0)
                held.constant, held.version = True, 0
                return held
            name = self._tracer.constant(tensor)
        value = to_meta(tensor) if not tensor.is_meta else tensor.detach()
        held = Held(tensor, value, Place(None, made=("get_attr", name, (), NO_KWARGS)), 0)
        held.constant, held.version = is_constant, _version(tensor)
        return held

    def _frozen_recipe(self, recipe: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args, kwargs, *_ = self.arguments(recipe[2], recipe[3])
        return args, kwargs

    def _alias(self, tensor: Tensor) -> Held | None:
        """What is known of a tensor that was made, behind our back, of another one."""
        storage = storage_of(tensor)
        for held in reversed(self.held.values()):
            if storage is not None and not held.constant and storage_of(held.value) == storage:
                return self._view(tensor, held)
        return None

    def stands_for(self, twin: Tensor, tensor: Tensor) -> bool:
        """Whether a tensor is the one without data that stands for another one where a leaf is run."""
        return self._originals.get(id(twin)) is tensor

    def is_unchanged(self, value: Any, began: int, ended: int | None = None) -> bool:
        """Whether no tensor in a value was among those of these numbers that were changed in place."""
        reworked = set(self.reworked[began:ended])
        return not reworked or not any(
            id(tensor if tensor._base is None else tensor._base) in reworked for tensor in tensors_in(value)
        )

    def _view(self, tensor: Tensor, owner: Held) -> Held:
        """Make a tensor known that has its data in common with another."""
        if isinstance(tensor, nn.Parameter):  # The code has made it of a value.
            args = (self._node_at(owner), tensor.requires_grad)
            place: Place = Place(None, made=("call_function", nn.Parameter, args, NO_KWARGS))
        elif tensor.shape == owner.tensor.shape and tensor.stride() == owner.tensor.stride():
            place = Place(self._node_at(owner))
        else:
            args = (self._node_at(owner), tuple(tensor.shape), tensor.stride(), tensor.storage_offset())
            place = Place(None, made=("call_function", torch.as_strided, args, NO_KWARGS))
        value = tensor if tensor.is_meta else to_meta(tensor)
        held = self.held[id(tensor)] = Held(tensor, value, place, owner.sources)
        return held

    def make_variable(self, tensor: Tensor) -> None:
        """Prepare a tensor for being changed by what depends on the inputs: of constants each run needs its own."""
        base = tensor._base
        self.reworked.append(id(tensor if base is None else base))
        self.changed |= self.is_part_of_state(tensor)
        held = self.held.get(id(tensor))
        if held is not None and not held.constant:
            owner = held if base is None else self.held.get(id(base), held)
            self.changed |= owner.is_given
            owner.is_given = False
            return
        if base is not None and not self.is_state(tensor):
            self.make_variable(base)
        held = self.hold(tensor)
        if held.constant:
            held.constant = False
            self._note_altered(tensor)
            self._forget_views(tensor)
            if not self.is_state(tensor) and (held.made is None or held.made[0] == "get_attr"):
                node = self._node_at(held)
                held.node = self.append("call_method", "clone", (node,), NO_KWARGS, "clone", (node,))

    def _forget_views(self, owner: Tensor) -> None:
        """Take no view of a tensor for a constant any more."""
        for key, held in [*self.held.items()]:
            if held.constant and held.tensor._base is owner:
                self._originals.pop(id(held.value), None)
                del self.held[key]

    def make_own(self, buffers: Iterable[Tensor | None]) -> None:
        """Prepare the buffers of a leaf for being changed by it: they are no constants any more."""
        for buffer in buffers:
            if buffer is None:
                continue
            self._leaves_own.add(id(buffer))
            self._note_altered(buffer)
            held = self.held.get(id(buffer))
            if held is not None:
                held.constant = False
            self._forget_views(buffer)

    def _note_altered(self, tensor: Tensor) -> None:
        if id(tensor) in self.was_read and (name := self._tracer.kept_name(tensor)) is not None:
            self.altered[name] = tensor


_MOST_SAID: Final = 8
"""The most numbers in a message."""


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version

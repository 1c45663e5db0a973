"""Watching a model run on tensors without data: every call of a torch function on them becomes a node.

The code that is captured sees ordinary tensors, so `isinstance`, `x.shape[0]`, `len(x)` and `for row in x` do what they
do in eager mode. A `TorchFunctionMode` sees each call. A call on what depends on the inputs, or on parameters, is
recorded and carried out for its shapes; any other is carried out for real, and what comes out of it is a constant,
which the graph refers to if it is ever combined with the former.
"""

import math
import operator
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor, nn
from torch._C._functorch import is_batchedtensor
from torch._functorch.autograd_function import custom_function_call
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from fxengine.capturing.evaluation import evaluate, mutates
from fxengine.capturing.held import Held, Place
from fxengine.capturing.modules import MODULE_RULES
from fxengine.capturing.questions import DATA, METADATA, PLACES, RANDOM
from fxengine.capturing.spelling import spelled
from fxengine.errors import TraceError
from fxengine.immutable_collections import immutable_dict, immutable_list
from fxengine.node import Node
from fxengine.node_fields import TensorFacts
from fxengine.recording import PLAIN_TYPES
from fxengine.shapes_only import needs_data, to_meta

if TYPE_CHECKING:
    from fxengine.capturing.tracer import CaptureTracer
    from fxengine.source import Trail

__all__ = ["DataDependent", "NotConstant", "Recording"]


class DataDependent(TraceError):  # noqa: N818 - named as the rules are.
    """Code asked for something that only data can tell, and the data depend on the inputs."""


class NotConstant(BaseException):
    """What was taken for a computation with constants is none. No `Exception`: the user's code must not take it."""


class Recording(TorchFunctionMode):
    """While active, calls of torch functions are recorded by a tracer. Mutable.

    Attributes:
        asked: For each question that was answered by metadata, as inputs in bits and kind, where it was first asked.
        quiet: How many leaves are running: what they call is carried out and not recorded.
        changed: Whether inputs or the model's own tensors were changed in place.
        on_constants: Whether a `vmap` is being tried that may work on constants only.
        in_vmap: Whether one runs that does not.
    """

    def __init__(self, tracer: "CaptureTracer", device: torch.device) -> None:
        """Record with `tracer`; `device` is where all tensors without data seem to lie."""
        super().__init__()
        self.asked: dict[tuple[int, str], Trail] = {}
        self.quiet = 0
        self.changed = False
        self.on_constants = False
        self.in_vmap = False
        self._tracer = tracer
        self._device = device
        self._held: dict[int, Held] = {}
        self._originals: dict[int, Tensor] = {}
        self._recipes: dict[int, tuple[Tensor, Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {}
        self._sources = 0
        self._used: dict[Node, None] = {}
        self._grad = torch.is_grad_enabled()
        self._autocast: tuple[Any, ...] | None = None
        self._autocast_node: Node | None = None

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        kind = METADATA.get(func)
        if kind is not None:
            return self._metadata(kind, func, args, kwargs)
        place = PLACES.get(func)
        if place is not None:
            return self._place(place, func, args)
        if self.quiet:
            return self._quietly(func, args, kwargs)
        if func in DATA:
            return self._data(func, args, kwargs)
        if func is custom_function_call:  # An `autograd.Function` inside `vmap`.
            with self:
                return args[0].forward(*args[1:], **kwargs)
        if self._is_recorded(func, args, kwargs):
            return self._record(func, args, kwargs)
        result = func(*args, **kwargs)
        if func in _FACTORIES and type(result) is Tensor:
            self._recipes[id(result)] = (result, func, args, kwargs)
        return result

    # What code asks.

    def _metadata(self, kind: str, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self.quiet and args:
            self.note(kind, args[0])
        return func(*args, **kwargs)

    def note(self, kind: str, tensor: Any) -> None:
        """Note that something is decided by what a tensor is."""
        held = self._held.get(id(tensor))
        if held is not None and held.sources and kind:
            key = (held.sources, kind)
            if key not in self.asked:
                self.asked[key] = self._tracer._trail_from(sys._getframe(2))

    def _place(self, answer: Callable[[torch.device], Any], func: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        tensor = args[0]
        if not self.quiet:
            self.note("device", tensor)
        return answer(self._device) if tensor.is_meta else func(*args)

    def _data(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The answer to a question about data, where the data are at hand."""
        for value in pytree.tree_leaves((args, kwargs)):
            if isinstance(value, Tensor):
                held = self._held.get(id(value))
                if value.is_meta or (held is not None and not held.constant and held.tensor is not value):
                    raise self.refusal(func)
                if held is not None and not held.constant and not isinstance(value, nn.Parameter):
                    raise self.refusal(func)
        return func(*args, **kwargs)

    def refusal(self, func: Callable[..., Any]) -> DataDependent:
        """What is raised where code wants data."""
        name = getattr(func, "__name__", str(func))
        name = name if not name.startswith("__") else {"__bool__": "bool", "__int__": "int"}.get(name, name.strip("_"))
        return DataDependent(f"`{name}` of a tensor that depends on the inputs wants data, not only metadata")

    # What is recorded.

    def _is_recorded(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        if self._is_symbolic(args) or (kwargs and self._is_symbolic(kwargs.values())):
            return True
        if func in RANDOM and kwargs.get("generator") is None:
            return True
        if func in _SIZED and _elements(args, kwargs) > _MOST_ELEMENTS:
            return True
        # A change of what belongs to the model is for the graph to make, each time it runs.
        return bool(args) and mutates(func, kwargs) and isinstance(args[0], Tensor) and self._is_state(args[0])

    def _is_symbolic(self, values: Iterable[Any]) -> bool:
        """Whether anything among the values depends on inputs or parameters."""
        for value in values:
            kind = type(value)
            if kind in PLAIN_TYPES or kind is torch.Size:
                continue
            if isinstance(value, Tensor):
                found = self._is_variable(value)
            elif isinstance(value, list | tuple):
                found = self._is_symbolic(value)
            elif isinstance(value, dict):
                found = self._is_symbolic(value.values())
            else:
                found = kind is slice and self._is_symbolic((value.start, value.stop, value.step))
            if found:
                return True
        return False

    def _is_variable(self, tensor: Tensor) -> bool:
        """Whether a tensor depends on inputs or parameters."""
        held = self._held.get(id(tensor))
        if held is not None:
            return not held.constant
        if tensor.is_meta or isinstance(tensor, nn.Parameter):
            return True
        base = tensor._base
        owner = None if base is None else self._held.get(id(base))
        return owner is not None and not owner.constant

    def _is_state(self, tensor: Tensor) -> bool:
        hierarchy = self._tracer._hierarchy
        return isinstance(tensor, nn.Parameter) or hierarchy.buffer_name(tensor) is not None

    def _record(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Carry out a call without data and append its node."""
        if mutates(func, kwargs):
            for target in (*args[:1], kwargs.get("out")):
                if isinstance(target, Tensor):
                    self._make_variable(target)
        node_args, node_kwargs, values, named, used, sources = self._arguments(args, kwargs)
        if (func in RANDOM or func in _SIZED) and not any(isinstance(value, Tensor) for value in values):
            named = {**named, "device": "meta"}
        if func in _KEEP_MASKS:
            values = tuple(self._with_masks(value, arg) for value, arg in zip(values, args, strict=True))
        try:
            result = evaluate(func, values, named, self._device)
        except DataDependent:
            raise
        except Exception as error:
            if needs_data(error):
                raise self.refusal(func) from error
            raise
        opcode, target, node_args, label = spelled(func, node_args, node_kwargs)
        node = self.append(opcode, target, node_args, node_kwargs, label, used)
        return self.kept(result, Place(node), sources)

    def _arguments(
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
            immutable_dict({name: pair[0] for name, pair in named.items()}) if named else _NO_KWARGS,
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
            held = self._hold(value)
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

    def _unusual_pair(self, value: Any) -> tuple[Any, Any]:
        if hasattr(value, "item") and hasattr(value, "dtype") and getattr(value, "ndim", None) == 0:
            number = value.item()  # A number of numpy's.
            return number, number
        argument = self._tracer.create_arg(value)
        leaves = [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]
        for leaf in leaves:
            self._pair(leaf)
        if isinstance(argument, Node):
            self._used[argument] = None
        if not leaves:
            return argument, value
        return argument, pytree.tree_map_only(Tensor, lambda leaf: self._hold(leaf).value, value)

    def _with_masks(self, value: Any, given: Any) -> Any:
        """A key with the masks in it that are constants as they are: how much they select their data tell."""
        if isinstance(value, tuple) and isinstance(given, tuple):
            return tuple(self._with_masks(*each) for each in zip(value, given, strict=True))
        if isinstance(given, Tensor) and given.dtype is torch.bool and not given.is_meta and self._hold(given).constant:
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
        if (
            torch.is_grad_enabled() is not self._grad
            or self._autocast is not None
            or torch._C._is_any_autocast_enabled()
        ):
            self._follow_modes()
        tracer = self._tracer
        node = tracer.graph._append(opcode, target, args, kwargs, label, None, used)
        scope = tracer.scope
        tracer._describe(node, sys._getframe(1), (scope.module_path, scope.module_type), tracer._stack)
        return node

    def _follow_modes(self) -> None:
        """Record that gradients or autocast were switched since the last node."""
        append = self._tracer.graph._append
        grad = torch.is_grad_enabled()
        if grad is not self._grad:
            self._grad = grad
            append("call_function", torch._C._set_grad_enabled, (grad,), _NO_KWARGS, "_set_grad_enabled", None, ())
        kind = self._device.type
        now = None
        if torch._C._is_any_autocast_enabled():
            now = (
                kind,
                torch.get_autocast_dtype(kind),
                torch.is_autocast_enabled(kind),
                torch.is_autocast_cache_enabled(),
            )
        if now != self._autocast:
            if self._autocast_node is not None:
                used = (self._autocast_node,)
                append(
                    "call_function",
                    torch.amp.autocast_mode._exit_autocast,
                    used,
                    _NO_KWARGS,
                    "_exit_autocast",
                    None,
                    used,
                )
            self._autocast, self._autocast_node = now, None
            if now is not None:
                enter = torch.amp.autocast_mode._enter_autocast
                self._autocast_node = append("call_function", enter, now, _NO_KWARGS, "_enter_autocast", None, ())

    def end(self) -> None:
        """Record that the modes are what they were in the beginning."""
        self._follow_modes()

    # What the graph knows.

    def kept(self, result: Any, place: Place, sources: int) -> Any:
        """What the code gets for the value at a place of the graph."""
        if isinstance(result, Tensor):
            return self._kept_tensor(result, place, sources)
        if isinstance(result, list | tuple) and type(result) is not torch.Size:
            items = [self.kept(item, Place(None, place, index), sources) for index, item in enumerate(result)]
            if all(new is old for new, old in zip(items, result, strict=True)):
                return result
            if isinstance(result, list):
                return items
            return type(result)(*items) if hasattr(result, "_fields") else tuple(items)
        if isinstance(result, dict):
            for key, item in result.items():
                result[key] = self.kept(item, Place(None, place, key), sources)
        return result

    def _kept_tensor(self, result: Tensor, place: Place, sources: int) -> Tensor:
        node = place.node
        if node is not None:
            node.tensor = TensorFacts(tuple(result.shape), result.dtype, self._device)
        known = self._held.get(id(result))
        if known is None:
            original = self._originals.get(id(result))
            known = None if original is None else self._held[id(original)]
        if known is None:
            if not result.is_meta:
                result = to_meta(result)
            self._held[id(result)] = Held(result, result, place, sources)
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
        held = self._held[id(twin)] = Held(twin, twin, place, sources)
        held.is_given = True
        if place.node is not None:
            place.node.tensor = TensorFacts(tuple(tensor.shape), tensor.dtype, self._device)
        return twin

    def node_of(self, tensor: Tensor) -> Node:
        """The node that computes a tensor."""
        held = self._hold(tensor)
        return held.node or self._node_at(held)

    def _node_at(self, place: Place) -> Node:
        """The node of a place; it is made now if it was not needed before."""
        node = place.node
        if node is None:
            if place.parent is not None:
                parent = self._node_at(place.parent)
                item = (parent, place.key)
                node = self.append("call_function", operator.getitem, item, _NO_KWARGS, "getitem", (parent,))
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
            return self.append(opcode, target, (), _NO_KWARGS, target.replace(".", "_"), ())
        args = tuple(self._node_at(each) if isinstance(each, Place) else each for each in args)
        used = tuple(each for each in args if isinstance(each, Node))
        if target is getattr:
            return self.append(opcode, target, args, _NO_KWARGS, str(args[1]), used)
        opcode, function, args, label = spelled(target, args, dict(kwargs))
        return self.append(opcode, function, args, immutable_dict(kwargs), label, used)

    def _hold(self, tensor: Tensor) -> Held:
        """What is known of a tensor; one that is not known yet belongs to the model, or is a constant."""
        held = self._held.get(id(tensor))
        if held is not None and (not held.constant or held.version == _version(tensor)):
            return held
        if self.on_constants and is_batchedtensor(tensor):
            raise NotConstant
        base = tensor._base
        if base is not None and held is None:
            owner = self._held.get(id(base))
            if owner is not None and not owner.constant:
                return self._view(tensor, owner)
        held = self._adopt(tensor)
        self._held[id(tensor)] = held
        if held.value is not tensor:
            self._originals[id(held.value)] = tensor
        return held

    def _adopt(self, tensor: Tensor) -> Held:
        name = self._tracer.name_in_root(tensor)
        is_constant = not tensor.is_meta and not isinstance(tensor, nn.Parameter)
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
        held = Held(tensor, value, Place(None, made=("get_attr", name, (), _NO_KWARGS)), 0)
        held.constant, held.version = is_constant, _version(tensor)
        return held

    def _frozen_recipe(self, recipe: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args, kwargs, *_ = self._arguments(recipe[2], recipe[3])
        return args, kwargs

    def _alias(self, tensor: Tensor) -> Held | None:
        """What is known of a tensor that was made, behind our back, of another one."""
        storage = _storage(tensor)
        for held in reversed(self._held.values()):
            if storage is not None and not held.constant and _storage(held.value) == storage:
                return self._view(tensor, held)
        return None

    def _view(self, tensor: Tensor, owner: Held) -> Held:
        """Make a tensor known that has its data in common with another."""
        if tensor.shape == owner.tensor.shape and tensor.stride() == owner.tensor.stride():
            place: Place = Place(self._node_at(owner))
        else:
            args = (self._node_at(owner), tuple(tensor.shape), tensor.stride(), tensor.storage_offset())
            place = Place(None, made=("call_function", torch.as_strided, args, _NO_KWARGS))
        value = tensor if tensor.is_meta else to_meta(tensor)
        held = self._held[id(tensor)] = Held(tensor, value, place, owner.sources)
        return held

    def _make_variable(self, tensor: Tensor) -> None:
        """Prepare a constant for being changed by what depends on the inputs: each run needs one of its own."""
        held = self._held.get(id(tensor))
        if held is not None and not held.constant:
            owner = held if tensor._base is None else self._held.get(id(tensor._base), held)
            self.changed |= owner.is_given
            return
        if tensor._base is not None and not self._is_state(tensor):
            self._make_variable(tensor._base)
        self.changed |= self._is_state(tensor)
        held = self._hold(tensor)
        if held.constant:
            held.constant = False
            if not self._is_state(tensor) and (held.made is None or held.made[0] == "get_attr"):
                node = self._node_at(held)
                held.node = self.append("call_method", "clone", (node,), _NO_KWARGS, "clone", (node,))

    # Leaves.

    def leaf(
        self, module: nn.Module, path: str, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Record the call of a leaf module."""
        with torch._C.DisableTorchFunction():
            node_args, node_kwargs, values, named, used, sources = self._arguments(args, kwargs)
            rule = MODULE_RULES.get(type(module))
            result = None
            if rule is not None and not named and not torch._C._is_any_autocast_enabled() and _has_no_hooks(module):
                result = rule(module, *values)
        if result is None:
            result = self._run_quietly(run, (module, *values), named)
        with torch._C.DisableTorchFunction():
            node = self.append("call_module", path, node_args, node_kwargs, path.replace(".", "_"), used)
            return self.kept(result, Place(node), sources)

    def call(self, function: Callable[..., Any], run: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Record the call of a leaf function, which `run` carries out."""
        with torch._C.DisableTorchFunction():
            node_args, node_kwargs, values, named, used, sources = self._arguments(args, kwargs)
        result = self._run_quietly(run, values, named)
        with torch._C.DisableTorchFunction():
            label = getattr(function, "__name__", "call")
            node = self.append("call_function", function, node_args, node_kwargs, label, used)
            return self.kept(result, Place(node), sources)

    def call_object(self, function: Any, run: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Record the call of an object that is kept with the graph, such as a scripted function."""
        with torch._C.DisableTorchFunction():
            kept = self._tracer.kept_object(function)
            node_args, node_kwargs, values, named, used, sources = self._arguments(args, kwargs)
        result = self._run_quietly(run, (function, *values), named)
        with torch._C.DisableTorchFunction():
            label = getattr(function, "name", "call")
            node = self.append("call_method", "__call__", (kept, *node_args), node_kwargs, label, {kept: None, **used})
            return self.kept(result, Place(node), sources)

    def _run_quietly(self, run: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        self.quiet += 1
        try:
            return run(*args, **kwargs)
        except Exception as error:
            if needs_data(error):
                raise self.refusal(run) from error
            raise
        finally:
            self.quiet -= 1

    def _quietly(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Carry out what a leaf calls: on tensors without data, unless all have some."""
        leaves = [leaf for leaf in _flat((*args, *kwargs.values())) if isinstance(leaf, Tensor)]
        is_hollow = any(leaf.is_meta for leaf in leaves)
        if not is_hollow and not (leaves and mutates(func, kwargs) and self._is_state(leaves[0])):
            return func(*args, **kwargs)
        if not all(leaf.is_meta for leaf in leaves):
            values, named = pytree.tree_map_only(Tensor, self._twin, (args, kwargs))
        else:
            values, named = args, kwargs
        if func in _KEEP_MASKS:
            values = tuple(self._with_masks(value, arg) for value, arg in zip(values, args, strict=True))
        return evaluate(func, values, named, self._device)

    def _twin(self, tensor: Tensor) -> Tensor:
        return tensor if tensor.is_meta else self._hold(tensor).value

    def is_symbolic(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether anything among arguments depends on inputs or parameters."""
        with torch._C.DisableTorchFunction():
            return self._is_symbolic(args) or self._is_symbolic(kwargs.values())


_NO_KWARGS: Final[dict[str, Any]] = immutable_dict()
_KEEP_MASKS: Final = frozenset({Tensor.__getitem__, Tensor.__setitem__})
_SIZED: Final = frozenset({torch.zeros, torch.ones, torch.empty})
_MOST_ELEMENTS: Final = 1 << 24
"""The most elements of a constant that is made for real."""
_FACTORIES: Final = frozenset({torch.arange, torch.zeros, torch.ones, torch.full, torch.eye, torch.linspace})
"""What makes a constant that is better made again than kept: it is a line of code, and as large as it likes."""


def _elements(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    """How many elements a tensor has that is made of a size."""
    sizes = _flat([kwargs["size"]] if "size" in kwargs else args)
    return math.prod(each for each in sizes if type(each) is int)


def _storage(tensor: Tensor) -> int | None:
    """What identifies the memory that a tensor has or would have; None for one that stands for a batch."""
    return None if is_batchedtensor(tensor) else tensor.untyped_storage()._cdata


def _has_no_hooks(module: nn.Module) -> bool:
    return not (module._forward_hooks or module._forward_pre_hooks or module._backward_hooks)


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _flat(values: Iterable[Any]) -> list[Any]:
    flat: list[Any] = []
    for value in values:
        if isinstance(value, list | tuple):
            flat += _flat(value)
        elif isinstance(value, dict):
            flat += _flat(value.values())
        else:
            flat.append(value)
    return flat

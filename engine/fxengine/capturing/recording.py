"""Watching a model run on tensors without data: every call of a torch function on them becomes a node.

The code that is captured sees ordinary tensors, so `isinstance`, `x.shape[0]`, `len(x)` and `for row in x` do what they
do in eager mode. A `TorchFunctionMode` sees each call. A call on what depends on the inputs, or on parameters, is
recorded and carried out for its shapes; any other is carried out for real, and what comes out of it is a constant,
which the graph refers to if it is ever combined with the former.
"""

import contextlib
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import torch
from torch import Tensor, nn
from torch._functorch.autograd_function import custom_function_call
from torch.overrides import TorchFunctionMode

from fxengine.bytecode import passing_value
from fxengine.capturing.drawing import RANDOM, carried_out
from fxengine.capturing.evaluation import PACKING, READS_DATA, changed_by, evaluate, mutates
from fxengine.capturing.guards import sizes_read
from fxengine.capturing.held import Place
from fxengine.capturing.known import computed
from fxengine.capturing.modules import MODULE_RULES
from fxengine.capturing.objects import with_tensors
from fxengine.capturing.questions import (
    DATA,
    DETACHED,
    EQUAL,
    GRADIENTS,
    METADATA,
    PIECES,
    PLACES,
    SHAPE,
    asked_of_shape,
)
from fxengine.capturing.refusals import Refusals
from fxengine.capturing.spelling import spelled
from fxengine.capturing.unknown import SELECTING, DataDependent, asks_for_a_number, is_loaded
from fxengine.capturing.values import NotConstant, Values
from fxengine.errors import TraceError
from fxengine.handlers import catcher
from fxengine.lazy_modules import first_run
from fxengine.node import Node
from fxengine.node_list import NO_KWARGS
from fxengine.shapes_only import needs_data
from fxengine.silent.mutation import root_of

if TYPE_CHECKING:
    from fxengine.capturing.tracer import CaptureTracer
    from fxengine.source import Trail

__all__ = ["Question", "Recording"]

Question: TypeAlias = "tuple[int, str, Trail]"
"""Inputs in bits, what of them was asked, and where."""


_RAISED: Final = (AssertionError(), ValueError(), TypeError(), RuntimeError())
"""What code raises that asks whether something is so."""

_Made: TypeAlias = tuple[str, Any, tuple[Any, ...], dict[str, Any], str, Iterable[Node]]
"""What a node is made of."""


class Recording(TorchFunctionMode):
    """While active, calls of torch functions are recorded by a tracer. Mutable.

    Attributes:
        values: What the graph knows of tensors.
        quiet: How many leaves are running: what they call is carried out and not recorded.
        in_vmap: Whether a `vmap` runs that does not work on constants only.
        in_functional_call: How many calls of modules run that were given other parameters.
        generators: The generators of random numbers that go on from run to run, by identity.
        refusals: What was raised where code wanted data.
        has_seen_a_clock: Whether the code has asked what time it is.
    """

    def __init__(
        self,
        tracer: "CaptureTracer",
        device: torch.device,
        outermost: CodeType,
        *,
        may_load: bool = True,
        looks_after: bool = False,
    ) -> None:
        """Record with `tracer`; `device` is where all tensors without data seem to lie, and `outermost` runs the model.

        With `may_load` what only data can tell may be a value, whatever torch has to load for that. With `looks_after`
        each call that is carried out is checked for having drawn random numbers.
        """
        super().__init__()
        self.values = Values(tracer, device)
        self.quiet = 0
        self.in_vmap = False
        self.in_functional_call = 0
        self.generators: Mapping[int, torch.Generator] = {}
        self.refusals = Refusals(tracer)
        self.has_seen_a_clock = False
        self._tracer = tracer
        self._device = device
        self._may_load = may_load
        self._looks_after = looks_after
        self._outermost = outermost
        self._asked: dict[tuple[Any, ...], Trail] = {}
        self._failed: list[tuple[Exception, Node]] = []

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
        if not args and "tensor" in kwargs:  # The functions of `nn.init` hand on what they change by its name.
            args, kwargs = (kwargs["tensor"],), {name: value for name, value in kwargs.items() if name != "tensor"}
        if func is Tensor.new and len(args) == 2 and type(args[1]) is torch.Size:
            func = Tensor.new_empty  # Sizes are a tuple in a graph, of which `new` would make a tensor.
        if self._is_recorded(func, args, kwargs):
            return self._record(func, args, kwargs)
        if func in DETACHED and self.values.is_state(args[0]):  # What changes one of the two changes the other.
            return args[0]
        return self._carry_out(func, args, kwargs)

    def _carry_out(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Carry out a call for real: what it makes is a constant, unless it was drawn."""
        self.values.read(args)
        for each in changed_by(func, args, kwargs):
            self._tracer.keep_data(each)
        if self._looks_after:
            result, has_drawn = carried_out(func, args, kwargs)
            if has_drawn:
                return self._record(func, args, kwargs, draws=True)
        else:
            result = func(*args, **kwargs)
        if func in _FACTORIES and type(result) is Tensor:
            self.values.remember(result, func, args, kwargs)
        return result

    # What code asks.

    def _metadata(self, kind: str, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self.quiet and args:
            self._note(kind, func, args, kwargs)
            if kind == "requires_grad" and self.values.is_variable(args[0]):
                return self._of_gradients(GRADIENTS[func], func, args[0])
        return func(*args, **kwargs)

    def _of_gradients(self, asked: str, func: Callable[..., Any], tensor: Tensor) -> Any:
        """Whether gradients flow through a tensor; what has computed them nobody knows."""
        if isinstance(tensor, nn.Parameter):
            return func(tensor)
        gradients, node = self.values.gradients, self.values.node_of(tensor)
        if asked == "is_leaf":
            return gradients.begin(node)
        if asked == "grad_fn":
            if not gradients.begin(node):
                raise self.refusals.of(func)
            return None
        return gradients.flow(node)

    def _note(self, kind: str, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Note that something is decided by what a tensor is."""
        held = self.values.held.get(id(args[0]))
        if held is None or not held.sources or not kind:
            return
        if kind == "shape" and held.is_given:
            kind = asked_of_shape(func, args, kwargs)
            if func == SHAPE:  # Each look at a getter makes another object.
                # Which sizes are read is seen in the end, from the code around.
                frame = sys._getframe(3)
                self._ask((held.sources, kind, frame.f_code, frame.f_lasti))
                return
        self._ask((held.sources, kind))

    def _ask(self, question: tuple[Any, ...]) -> None:
        if question not in self._asked:
            self._asked[question] = self._tracer._trail_from(sys._getframe(3))

    def questions(self) -> Iterator[Question]:
        """Yield what was answered by metadata."""
        for (sources, kind, *place), trail in self._asked.items():
            for size in sizes_read(*place) if place else (kind,):
                yield sources, size, trail

    def _place(self, answer: Callable[[torch.device], Any], func: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        tensor = args[0]
        if not self.quiet:
            self._note("device", func, args, {})
        return answer(self._device) if tensor.is_meta else func(*args)

    def _data(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The answer to a question about data, where the data are at hand, or shapes tell it."""
        if func in EQUAL and self._differ(func, *args, *kwargs.values()):
            return False

        def known(tensor: Tensor) -> Tensor:
            held = self.values.held.get(id(tensor))
            has_data = not tensor.is_meta and (held is None or held.constant or isinstance(tensor, nn.Parameter))
            has_data = has_data and not self.values.is_reworked(tensor)
            if has_data and (held is None or held.constant or held.tensor is tensor):
                return tensor
            found = self._computed_data(tensor) if held is not None else None
            if held is None or found is None:
                raise self.refusals.of(func, 0 if held is None else held.sources)
            if held.sources:  # Only shapes and types of the inputs were looked at.
                self._ask((held.sources, "shape"))
            return found

        try:
            args, kwargs = with_tensors(known, (args, kwargs))
        except DataDependent:
            if func in SELECTING:
                return self._record(func, args, kwargs)
            if func is Tensor.__format__:  # As a part of a message it decides nothing.
                return str(args[0])
            passing = self.passing_value(sys._getframe(2)) if func is Tensor.__bool__ else None
            if passing is None:
                raise
            return self._asserted(args[0], passing)
        self.values.read(args)
        return func(*args, **kwargs)

    def passing_value(self, frame: FrameType) -> bool | None:
        """Return the truth value with which an assert passes that asks for one in a frame; None if no assert does.

        What raises, and what the code around catches, decides something: it is no assert.
        """
        passing = passing_value(frame)
        is_caught = passing is not None and any(catcher(each, frame, self._outermost) for each in _RAISED)
        return None if is_caught else passing

    def _differ(self, func: Callable[..., Any], *tensors: Tensor) -> bool:
        """Whether tensors are of different shapes, so that they are not equal, whatever they hold."""
        are_known = all(type(size) is int for tensor in tensors for size in tensor.shape)
        are_alike = len({tensor.dtype for tensor in tensors}) == 1  # Others are refused.
        differ = are_known and are_alike and len({tensor.shape for tensor in tensors}) > 1
        for tensor in tensors if differ else ():
            self._note("shape", func, (tensor,), NO_KWARGS)
        return differ

    def _computed_data(self, tensor: Tensor) -> Tensor | None:
        """The data of a tensor, as far as they follow from the model's own tensors, or from shapes, alone."""
        return computed(self.values.node_of(tensor), self._tracer.root, self.values.may_be_read)

    def _asserted(self, tensor: Tensor, passing: bool) -> bool:
        """Let the graph do what an assert does, and go on as after one that passed."""
        if not passing:
            tensor = self._record(torch.logical_not, (tensor,), NO_KWARGS)
        args, _, _, _, used, _ = self.values.arguments((tensor, "an assert of the model"), NO_KWARGS)
        self.values.append("call_function", torch._assert, args, NO_KWARGS, "_assert", used)
        return passing

    # What is recorded.

    def _is_recorded(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        if self.values.is_symbolic(args) or (kwargs and self.values.is_symbolic(kwargs.values())):
            return True
        if func in RANDOM and kwargs.get("training", True) and self._lasts(kwargs.get("generator")):
            return True
        if func in _SIZED and _elements(args, kwargs) > _MOST_ELEMENTS:
            return True
        # A change of what belongs to the model is for the graph to make, each time it runs.
        return self._changes_state(func, args, kwargs)

    def _lasts(self, generator: torch.Generator | None) -> bool:
        """Whether a generator goes on from run to run; one that the code has made draws the same in each."""
        return generator is None or id(generator) in self.generators

    def _changes_state(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Whether a call changes what belongs to the model."""
        return any(self.values.is_part_of_state(each) for each in changed_by(func, args, kwargs))

    def _record(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, draws: bool = False
    ) -> Any:
        """Carry out a call without data and append its node; with `draws` what it draws is no constant."""
        if self.values.on_constants:
            raise NotConstant
        draws = draws or func in RANDOM
        if func in PIECES and args:
            self._note("shape", func, args, kwargs)
        changed = changed_by(func, args, kwargs)
        for each in changed:
            self.values.make_variable(each)
        self.values.changed |= draws or func is torch.autograd.grad
        node_args, node_kwargs, values, named, used, sources = self.values.arguments(args, kwargs)
        if (draws or func in _SIZED) and not any(isinstance(value, Tensor) for value in values):
            named = {**named, "device": "meta"}
        generator = kwargs.get("generator")
        if isinstance(generator, torch.Generator):
            if not self._lasts(generator):
                raise self.refusals.saying(
                    "a generator that is made in each run draws for a tensor that depends on the inputs"
                )
            named = {name: value for name, value in named.items() if name != "generator"}
        if func in READS_DATA:
            values = self.values.with_data(values, args, READS_DATA[func])
        opcode, target, node_args, label = spelled(func, node_args, node_kwargs)
        made = (opcode, target, node_args, node_kwargs, label, used)
        result = self._noted(made, self._computed, func, values, named, sources)
        node = self.values.append(*made)
        if draws:
            self.values.drawn.add(node)
        if changed or target is setattr:
            owner = root_of(node, self._tracer.root)
            self.values.changed |= target is setattr or owner.op in {"placeholder", "get_attr"}
        return self._kept(result, Place(node), sources, has_data=func in PACKING)

    def _evaluate(self, func: Callable[..., Any], values: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Carry out a call without data."""
        unknown = self.values.unknown
        if unknown is None:
            return evaluate(func, values, named, self._device)
        is_about = unknown.concerns((*values, *named.values()))
        result = unknown.evaluate(func, values, named) if is_about else evaluate(func, values, named, self._device)
        if mutates(func, named):
            unknown.forget()
        return result

    def _computed(self, func: Callable[..., Any], values: tuple[Any, ...], named: dict[str, Any], sources: int) -> Any:
        """Carry out a call without data; where some are missing, they may tell no more than how large the result is."""
        try:
            return self._evaluate(func, values, named)
        except DataDependent:
            raise
        except Exception as error:
            if asks_for_a_number(error):
                raise self.refusals.of(func, sources) from error
            if not needs_data(error):
                raise
            known = self._with_numbers(values)
            with contextlib.suppress(Exception):  # Whatever is wrong with it, data are missing.
                return self._evaluate(func, known, {name: self._with_numbers(each) for name, each in named.items()})
            if not (self._may_load or is_loaded()):
                raise self.refusals.of(func, sources) from error
            try:
                return self.values.with_unknown().evaluate(func, values, named)
            except Exception:  # noqa: BLE001 - whatever torch says of it, data are what is missing.
                raise self.refusals.of(func, sources) from error

    def _with_numbers(self, value: Any) -> Any:
        """A value with the data of the whole numbers in it that follow from shapes alone: sizes, and ends of slices."""
        if isinstance(value, Tensor):
            held = self.values.held.get(id(value))
            if held is None or held.constant or value.dim() or value.is_floating_point():
                return value
            found = self._computed_data(value)
            if found is None:
                return value
            self._ask((held.sources, "shape"))
            return found
        if type(value) is slice:
            return slice(*(self._with_numbers(each) for each in (value.start, value.stop, value.step)))
        return type(value)(map(self._with_numbers, value)) if type(value) in {list, tuple} else value

    def _kept(self, result: Any, place: Place, sources: int, *, has_data: bool = False) -> Any:
        """What the code gets for the value of a node; `has_data` says whether what has data is known by these."""
        result = self.values.kept(result, place, sources, has_data=has_data)
        if self.values.unknown is not None:
            self.values.unknown.note(result, place, sources)
        return result

    def end(self) -> None:
        """Record that the modes are what they were in the beginning, and what was assumed of unknown sizes."""
        values = self.values
        values.modes.follow()
        if values.unknown is not None:
            for node, message in values.unknown.assertions():
                values.append("call_function", torch._assert, (node, message), NO_KWARGS, "_assert", (node,))

    # Leaves.

    def _noted(self, made: _Made, run: Callable[..., Any], *args: Any) -> Any:
        """Carry out a call; if it raises, append its node all the same: the run ends there if nobody catches it."""
        try:
            return run(*args)
        except TraceError:
            raise
        except Exception as error:
            with torch._C.DisableTorchFunction():
                self._failed.append((error, self.values.append(*made)))
            raise

    def failed_with(self, error: BaseException | None) -> Node | None:
        """Return the node of the call that ended the run, and remove those of calls that ended nothing."""
        last = None
        for raised, node in reversed(self._failed):
            if raised is error and last is None:
                last = node
            else:
                self._tracer.graph.erase_node(node)
        self._failed.clear()
        return last

    def first_run(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Let a lazy module that waits for its first run have what it gets there: that is no part of the graph."""
        self._run_quietly(first_run, (module, args, kwargs), NO_KWARGS)

    def leaf(
        self, module: nn.Module, path: str, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Record the call of a leaf module."""
        with torch._C.DisableTorchFunction():
            if getattr(module, "inplace", False) and args and isinstance(args[0], Tensor):
                self.values.make_variable(args[0])
            if module.training and module._buffers:
                self.values.make_own(module._buffers.values())
            node_args, node_kwargs, values, named, used, sources = self.values.arguments(args, kwargs)
            rule = MODULE_RULES.get(type(module))
            result = None
            is_plain = not named and not torch._C._is_any_autocast_enabled() and _has_no_hooks(module)
            if rule is not None and is_plain and not self._has_unknown(values):
                result = rule(module, *values)
        made = ("call_module", path, node_args, node_kwargs, path.replace(".", "_"), used)
        if result is None:
            try:
                result = self._noted(made, self._run_leaf, module, run, values, named, args, kwargs)
            except DataDependent as refusal:
                refusal.sources |= sources
                raise
        with torch._C.DisableTorchFunction():
            node = self.values.append(*made)
            return self._kept(result, Place(node), sources)

    def _has_unknown(self, values: tuple[Any, ...]) -> bool:
        unknown = self.values.unknown
        return unknown is not None and unknown.concerns(values)

    def has_other_tensors(self, module: nn.Module) -> bool:
        """Whether a module computes with tensors that are neither its own nor constants now."""
        if self.in_functional_call:
            return True
        held = self.values.held
        for value in module.__dict__.values():
            if type(value) is Tensor:
                known = held.get(id(value))
                if known is not None and not known.constant:
                    return True
        return False

    def has_made(self, module: nn.Module) -> bool:
        """Whether parameters of a module that the code has made are values of the graph, as those of a copy are."""
        with torch._C.DisableTorchFunction():
            return any(each.is_meta and id(each) not in self.values.initial() for each in module.parameters())

    def _run_leaf(
        self,
        module: nn.Module,
        run: Callable[..., Any],
        values: tuple[Any, ...],
        named: dict[str, Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Run a leaf module on tensors without data; if it asks for some, with the data of constants."""
        try:
            return self._run_quietly(run, (module, *values), named)
        except DataDependent:
            with torch._C.DisableTorchFunction():
                known, named = with_tensors(self._constant_or_twin, (args, kwargs))
            return self._run_quietly(run, (module, *known), named)

    def call(self, function: Callable[..., Any], run: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Record the call of a leaf function, which `run` carries out."""
        with torch._C.DisableTorchFunction():
            node_args, node_kwargs, values, named, used, sources = self.values.arguments(args, kwargs)
        made = ("call_function", function, node_args, node_kwargs, getattr(function, "__name__", "call"), used)
        result = self._noted(made, self._run_quietly, run, values, named)
        with torch._C.DisableTorchFunction():
            node = self.values.append(*made)
            return self._kept(result, Place(node), sources)

    def seed(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record that torch's generator of random numbers is seeded, or that its state is told or set."""
        self.values.changed = True
        with torch._C.DisableTorchFunction():
            node_args, node_kwargs, _, _, used, _ = self.values.arguments(args, kwargs)
            label = function.__name__
            node = self.values.append("call_function", function, node_args, node_kwargs, label, used)
            self.values.drawn.add(node)
            if label != "get_rng_state":
                return torch.default_generator if label == "manual_seed" else None
            return self._kept(torch.empty_like(function(), device="meta"), Place(node), 0)

    def call_object(
        self, called: Any, run: Callable[..., Any], args: Any, kwargs: Any, method: str = "__call__"
    ) -> Any:
        """Record the call of an object that is kept with the graph, such as a scripted function, or of its method."""
        with torch._C.DisableTorchFunction():
            kept = self._tracer.kept_object(called)
            node_args, node_kwargs, values, named, used, sources = self.values.arguments(args, kwargs)
        result = self._run_quietly(run, (called, *values), named)
        with torch._C.DisableTorchFunction():
            label = getattr(called, "name", "call") if method == "__call__" else method
            node = self.values.append(
                "call_method", method, (kept, *node_args), node_kwargs, label, {kept: None, **used}
            )
            return self._kept(result, Place(node), sources)

    def _run_quietly(self, run: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        self.quiet += 1
        try:
            return run(*args, **kwargs)
        except Exception as error:
            if needs_data(error) or asks_for_a_number(error):
                is_module = bool(args) and isinstance(args[0], nn.Module)
                raise self.refusals.of(type(args[0]) if is_module else run) from error
            raise
        finally:
            self.quiet -= 1

    def _quietly(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Carry out what a leaf calls: on tensors without data, unless all have some."""
        leaves = [leaf for leaf in _flat((*args, *kwargs.values())) if isinstance(leaf, Tensor)]
        is_hollow = any(leaf.is_meta for leaf in leaves)
        if not is_hollow and not self._changes_state(func, args, kwargs):
            return func(*args, **kwargs)
        if not all(leaf.is_meta for leaf in leaves):
            values, named = with_tensors(self._twin, (args, kwargs))
        else:
            values, named = args, kwargs
        if func in READS_DATA:
            values = self.values.with_data(values, args, READS_DATA[func])
        return self._evaluate(func, values, named)

    def _twin(self, tensor: Tensor) -> Tensor:
        return tensor if tensor.is_meta else self.values.hold(tensor).value

    def _constant_or_twin(self, tensor: Tensor) -> Tensor:
        held = self.values.hold(tensor)
        return tensor if held.constant else held.value

    def is_symbolic(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether anything among arguments depends on inputs or parameters."""
        with torch._C.DisableTorchFunction():
            return self.values.is_symbolic(args) or self.values.is_symbolic(kwargs.values())


_SIZED: Final = frozenset({torch.zeros, torch.ones, torch.empty})
_MOST_ELEMENTS: Final = 1 << 24
"""The most elements of a constant that is made for real."""
_FACTORIES: Final = frozenset({torch.arange, torch.zeros, torch.ones, torch.full, torch.eye, torch.linspace})
"""What makes a constant that is better made again than kept: it is a line of code, and as large as it likes."""


def _elements(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    """How many elements a tensor has that is made of a size."""
    sizes = _flat([kwargs["size"]] if "size" in kwargs else args)
    return math.prod(each for each in sizes if type(each) is int)


def _has_no_hooks(module: nn.Module) -> bool:
    return not (module._forward_hooks or module._forward_pre_hooks or module._backward_hooks)


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

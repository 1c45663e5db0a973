"""How calls become nodes: what a recorder does with their arguments, and what it notes on the new node.

A `Recorder` is what all tracers have beneath the methods that their users call and override, which `TracerBase` has. It
knows symbolic values only as things with a node; what they are, what they answer to the user's code, and how a module
is run is the business of `proxy` and `tracer`. Nodes are described as they are made: with the scope and
the stack of modules, with their origin, and on demand with Python's stack.
"""

import copy
import enum
import functools
import inspect
import operator
import sys
import traceback
import types
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from functools import partial  # Not by its module's name, which a tracer may have wrapped.
from types import CodeType, FrameType
from typing import Any, ClassVar, Final, Self, cast

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.utils._traceback import CapturedTraceback

from fxengine.arguments import SYMBOLIC_NUMBERS, warn_of_symbolic_numbers
from fxengine.errors import DynamicLength, ItemAssignment, Refusal, Rule, UnsupportedArgument
from fxengine.graph import Graph
from fxengine.immutable_collections import immutable_dict, immutable_list
from fxengine.names import _target_to_str
from fxengine.node import Argument, Node, Target, _freeze, base_types, map_arg
from fxengine.node_list import NO_KWARGS
from fxengine.source import ModuleSite, ModuleStack, Trail, is_engine_file, walk_known_frames

try:
    from torch._library.opaque_object import is_opaque_value_type
except ImportError:  # torch before 2.10 has no opaque objects.

    def is_opaque_value_type(cls: type[Any] | str) -> bool:  # noqa: ARG001
        """Whether values of this type are constants that print themselves."""
        return False


_fx_traceback = sys.modules.get("torch.fx.traceback")
"""Where torch keeps the metadata that `torch.fx.traceback.annotate` and its like want on new nodes."""


PLAIN_TYPES: Final[frozenset[type[Any]]] = frozenset(
    {
        *(kind for kind in base_types if kind is not torch.Tensor and kind not in SYMBOLIC_NUMBERS),
        types.NoneType,
        types.EllipsisType,
        HigherOrderOperator,
    }
)
"""The types of what the graph holds as it is; a tracer with a root looks tensors up first."""


class SymbolicValue:
    """What stands for the value of a node while code runs that works on it."""

    tracer: Any
    node: Node


class Scope:
    """The module whose operations are recorded: its path in the root, and its type."""

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path = module_path
        self.module_type = module_type


class ScopeContextManager:
    """Changes a tracer's scope to another one's values for the duration of a `with` block."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._scope = scope
        self._previous = (scope.module_path, scope.module_type)
        scope.module_path = current_scope.module_path
        scope.module_type = current_scope.module_type

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *_: object) -> None:
        self._scope.module_path, self._scope.module_type = self._previous


class Recorder:
    """What `TracerBase` does to record operations in a graph, and to refuse what no graph can hold."""

    graph: Graph
    record_stack_traces: bool
    _record_forward_stack_traces_only: bool = False
    scope: Scope
    module_stack: OrderedDict[str, tuple[str, Any]]
    node_name_to_scope: dict[str, tuple[str, type]]

    _site: ModuleSite | None
    """The module call that is being traced through; None when no trace runs, and then origins are not recorded."""
    _known_frame: FrameType | None
    """A frame inside the site that has none of the user's outside of it: mostly that of the forward."""
    _known_code: Any
    """The code of that frame; None if it is not the user's either."""
    _boundary: ClassVar[CodeType | None] = None
    """The code that runs a module's forward: frames outside of it belong to the site."""
    _stack: ModuleStack | None
    """What `module_stack` says, in the form that nodes keep, if only our own `call_module` changes that."""
    _records_plainly: bool
    """Whether no subclass has a say in how calls are recorded, so that this may be done in one go."""

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        """Make a recorder that records nothing yet, whether or not a subclass has an `__init__` that calls ours."""
        recorder = super().__new__(cls)
        # Not defaults in the class: what is read at each call is read several times faster if it is found nowhere else.
        recorder._site = recorder._known_frame = recorder._known_code = recorder._stack = None
        recorder._records_plainly = False
        return recorder

    @functools.cached_property
    def refusals(self) -> list[Refusal]:
        """What this tracer refused to do for symbolic values, in order, even if the exception was caught."""
        return []

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
    ) -> Node:
        """Return a new node at the end of the graph."""
        raise NotImplementedError

    def create_proxy(self, kind: str, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SymbolicValue:
        """Return the symbolic value of a new node."""
        raise NotImplementedError

    def create_arg(self, a: Any) -> Any:
        """Return what stands for `a` in a node's arguments."""
        raise NotImplementedError

    def refuse(
        self,
        rule: type[Rule],
        subject: Any,
        error: BaseException,
        instead: Callable[[], Any] | None = None,  # noqa: ARG002 - for who goes on.
    ) -> Any:
        """Raise `error`, and note that it was raised for `rule` on behalf of `subject`.

        Who wants to know what comes after it replaces this method, and returns what the code goes on with; `instead`
        records what was asked for, where that can be done.
        """
        self.refusals.append(Refusal(rule, subject, error))
        raise error

    def _describe(self, node: Node, caller: FrameType, module: tuple[str, Any], stack: ModuleStack | None) -> None:
        """Note on a new node where it comes from and which modules are running.

        Args:
            node: The node.
            caller: The frame of the engine or of the user that records it, or one further out that is the engine's.
            module: The path and type of the module that it belongs to.
            stack: The modules that are running, if the recorder keeps account of them in this form.
        """
        self.node_name_to_scope[node._name] = module
        site = self._site
        if site is not None:
            code = self._known_code
            if caller is self._known_frame and code is not None:
                # Mostly so, and not to call a function for it saves what that costs.
                node._mark = (site, code, caller.f_lasti)
            else:
                node._mark = (site, *self._trail_from(caller))
        if _fx_traceback is not None and _fx_traceback.should_preserve_node_meta:
            _copy_current_meta(node)
        elif self._records_plainly:
            node._meta = stack
        elif self.module_stack:
            node.meta["nn_module_stack"] = self.module_stack.copy()
        if self.record_stack_traces and not node.stack_trace:
            summary = self._filter_traceback_frames(CapturedTraceback.extract().summary())
            if summary:
                node.stack_trace = "".join(summary.format()).strip()

    def _trail_from(self, frame: FrameType) -> Trail:
        """The user frames from `frame` outwards that are inside the site."""
        if frame is self._known_frame:
            code = self._known_code
            return () if code is None else (code, frame.f_lasti)
        trail, known = walk_known_frames(frame, self._boundary, self._known_frame)
        if known is not self._known_frame:
            self._known_frame, self._known_code = known, trail[-2] if trail else None
        return trail

    def _filter_traceback_frames(self, user_stack_summary: traceback.StackSummary) -> traceback.StackSummary:
        """The frames of a recorded stack trace that are worth keeping: from the first `forward` on, without our own."""
        frames = [frame for frame in user_stack_summary if not is_engine_file(frame.filename)]
        if self._record_forward_stack_traces_only:
            anchors = getattr(sys.modules.get("torch.fx.proxy"), "_STACK_TRACE_ANCHORS", ())
            kept = [
                frame
                for frame in frames
                if frame.name == "forward"
                or frame.filename.endswith("torch/__init__.py")
                or (frame.filename, frame.name) in anchors
            ]
        else:
            first = next((i for i, frame in enumerate(frames) if frame.name == "forward"), len(frames))
            kept = frames[first:]
        return traceback.StackSummary.from_list(kept)

    def _record(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None,
        type_expr: Any | None,
    ) -> Node:
        """Append the node of a call: what `create_arg` and `Graph.create_node` do, in one pass over its arguments."""
        if len(args) == 1 and not kwargs and isinstance(value := args[0], SymbolicValue):
            # By far the most: the nodes that are used are the arguments.
            node_args: tuple[Any, ...] = (value.node,)
            inputs: Iterable[Node] = node_args
            node_kwargs = NO_KWARGS
        else:
            node_args, node_kwargs, inputs = self._arguments(kind, target, args, kwargs)
        label = name if name is not None else _target_to_str(target)
        return self.graph._append(kind, target, node_args, node_kwargs, label, type_expr, inputs)

    def _arguments(
        self, kind: str, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any], Iterable[Node]]:
        """The arguments of a node, and the nodes in them."""
        used: list[Node] = []
        items: list[Any] = []
        unusual = False
        named_plainly = not kwargs or PLAIN_TYPES.issuperset(map(type, kwargs.values()))
        for value in args if named_plainly else (*args, *kwargs.values()):
            value_type = type(value)
            if value_type in PLAIN_TYPES:
                items.append(value)
            elif isinstance(value, SymbolicValue):
                node = value.node
                used.append(node)
                items.append(node)
            elif (value_type is tuple or value_type is list) and (flat := _flat_items(value)) is not None:
                used += [item for item in flat if type(item) is Node]
                items.append(tuple(flat) if value_type is tuple else immutable_list(flat))
            else:
                argument = self.create_arg(value)
                if type(argument) is Node:
                    used.append(argument)
                else:
                    unusual = True
                    argument = _frozen(argument, used)
                items.append(argument)
        if named_plainly:
            node_args = tuple(items)
            node_kwargs = immutable_dict(kwargs) if kwargs else NO_KWARGS
        else:
            node_args = tuple(items[: len(args)])
            node_kwargs = immutable_dict(zip(kwargs, items[len(args) :], strict=True))
        if unusual:
            warn_of_symbolic_numbers(kind, target, node_args, node_kwargs)
        # A dict keeps the order and drops repetitions; it is not needed for one input.
        return node_args, node_kwargs, used if len(used) == 1 else dict.fromkeys(used)

    def _create_unusual_arg(self, a: Any) -> Any:
        """The argument for `a`, which is neither of the most frequent types nor a symbolic value."""
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        argument = a
        match a:
            case tuple():
                items = [self.create_arg(item) for item in a]
                argument = type(a)(*items) if hasattr(a, "_fields") else type(a)(items)
            case list():
                argument = [self.create_arg(item) for item in a]
            case dict():
                argument = create_arg_dict(self, a)
            case slice() | range():
                argument = type(a)(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
            case _ if isinstance(a, OpOverload | HigherOrderOperator) or is_opaque_value_type(type(a)):
                pass
            case _ if is_dataclass(a):
                kwargs = {field.name: self.create_arg(getattr(a, field.name)) for field in fields(a)}
                argument = self.create_node("call_function", type(a), (), kwargs)
            case _ if not isinstance(a, (*base_types, enum.Enum)):
                self.refuse(UnsupportedArgument, a, NotImplementedError(f"argument of type: {type(a)}"))
            case _:
                pass
        return argument

    def length(self, obj: SymbolicValue) -> int:
        """The length of `obj`. May be overridden by tracers that know more than this one.

        Raises:
            RuntimeError: Always, here.
        """
        error = RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, "
            "please call torch.fx.wrap('len') at module scope"
        )
        return self.refuse(DynamicLength, obj, error)

    def set_item(self, obj: SymbolicValue, key: Any, value: Any) -> None:
        """Assign `obj[key]`. May be overridden.

        Raises:
            TypeError: Always, here; what Python raises for objects without items.
        """
        error = TypeError(f"'{type(obj).__name__}' object does not support item assignment")
        instead = partial(self.create_proxy, "call_function", operator.setitem, (obj, key, value), {})
        self.refuse(ItemAssignment, obj, error, instead)

    def delete_item(self, obj: SymbolicValue, key: Any) -> None:
        """Delete `obj[key]`. May be overridden.

        Raises:
            TypeError: Always, here; what Python raises for objects without items.
        """
        error = TypeError(f"'{type(obj).__name__}' object doesn't support item deletion")
        instead = partial(self.create_proxy, "call_function", operator.delitem, (obj, key), {})
        self.refuse(ItemAssignment, obj, error, instead)


# As far as anybody can see, what a recorder is made with is up to the `__init__` of its class.
cast("Any", Recorder.__new__).__signature__ = inspect.Signature(
    [inspect.Parameter("cls", inspect.Parameter.POSITIONAL_ONLY)]
)


def _frozen(argument: Any, used: list[Node]) -> Any:
    """The argument with immutable containers; the nodes in it are added to those that are used."""
    inputs: dict[Node, None] = {}
    frozen = _freeze(argument, inputs)
    used += inputs
    return frozen


def _flat_items(values: Sequence[Any]) -> list[Any] | None:
    """The arguments for the items of a list or tuple, if each is symbolic, plain, or a slice of what is plain."""
    items: list[Any] = []
    for value in values:
        kind = type(value)
        if isinstance(value, SymbolicValue):
            items.append(value.node)
        elif kind in PLAIN_TYPES or (
            kind is slice and PLAIN_TYPES.issuperset((type(value.start), type(value.stop), type(value.step)))
        ):
            items.append(value)
        else:
            return None
    return items


def create_arg_dict(tracer: Recorder, values: dict[Any, Any]) -> dict[Any, Argument]:
    """Return what stands for the items of a dict in a node's arguments; no key may contain a symbolic value."""
    result: dict[Any, Argument] = {}
    for given, value in values.items():
        key = given
        if not isinstance(key, str):
            key = tracer.create_arg(key)
            map_arg(key, partial(_no_nodes_error, tracer))
        result[key] = tracer.create_arg(value)
    return result


def _no_nodes_error(tracer: Recorder, node: Node) -> None:
    error = RuntimeError(f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {node}")
    tracer.refuse(UnsupportedArgument, None, error)


def _copy_current_meta(node: Node) -> None:
    """Put on a new node what torch's traceback module wants on nodes that are made now."""
    assert _fx_traceback is not None
    current: dict[str, Any] = _fx_traceback.get_current_meta()
    stack_trace = current.get("stack_trace")
    if stack_trace:
        node.stack_trace = stack_trace
        if _fx_traceback.GRADIENT_ACC_SPECIAL_STACK in stack_trace:
            node.meta["is_gradient_acc"] = True
            node.meta["autograd_backward"] = True
    for field in _COPY_META_FIELDS:
        if field in current:
            node.meta[field] = copy.copy(current[field])
    replayed = getattr(_fx_traceback, "get_current_replay_node", _no_node)()
    number = _sequence_number(current, replayed)
    if number is not None:
        node.meta["seq_nr"] = number
    if replayed is not None:
        node.meta["is_functional_regenerated"] = True
        if "custom" in replayed.meta:
            node.meta["custom"] = replayed.meta["custom"]
        if "stack_trace" in replayed.meta:
            node.stack_trace = replayed.meta["stack_trace"]
    if current.get("autograd_backward", False):
        node.meta["autograd_backward"] = True


def _sequence_number(current: dict[str, Any], replayed: Any) -> int | None:
    """The number by which autograd's backward nodes are told from which node of the forward pass they come."""
    if current.get("in_grad_fn", 0) > 0:
        number = current["grad_fn_seq_nr"][-1]
    elif getattr(_fx_traceback, "_is_preserving_node_seq_nr", bool)():
        return current.get("seq_nr")
    else:  # Autograd has counted on when the operation was carried out.
        number = torch.autograd._get_sequence_nr() - 1  # pyright: ignore[reportPrivateImportUsage]
    return number if replayed is None else replayed.meta.get("seq_nr", number)


def _no_node() -> None:
    """Which node is replayed, for torch before 2.10, which does not note it."""


_COPY_META_FIELDS = [
    "nn_module_stack",
    "torch_fn",
    "source_fn_stack",
    "original_aten",
    "recompute",
    "ac_graph_id",
    "has_backward_hook",
    "from_node",
    "quantization_tag",
    "_numeric_debug_handle",
    "custom",
    "partitioner_tag",
]
"""The fields of `meta` that a node inherits from the one that torch is replaying."""

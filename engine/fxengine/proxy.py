"""Symbolic values, and the base of all tracers.

A `Proxy` stands for the value that a node will have when the graph runs. Whatever the user's code does with it, torch's
own functions included, becomes a node of the tracer's graph. What a proxy cannot answer (a truth value, a length, its
items) it asks its tracer, and the tracers here refuse: each refusal raises torch.fx's exception and is noted in
`TracerBase.refusals` together with its rule.

How a module is run, which calls are leaves, and what stands between the two is `tracer`'s business.
"""

import collections
import copy
import enum
import functools
import logging
import operator
import sys
import traceback
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from types import CodeType, FrameType
from typing import Any, ClassVar, NoReturn

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.utils import _pytree as pytree
from torch.utils._traceback import CapturedTraceback

from fxengine.bytecode import decides_assert, unpack_count
from fxengine.errors import (
    DynamicBool,
    DynamicIteration,
    DynamicLength,
    ItemAssignment,
    Refusal,
    Rule,
    TraceError,
    UnsupportedArgument,
)
from fxengine.graph import _NO_KWARGS, Graph, _warn_of_symbolic_numbers
from fxengine.immutable_collections import immutable_dict, immutable_list
from fxengine.names import _target_to_str
from fxengine.node import Argument, Node, Target, _freeze, base_types, map_arg
from fxengine.operator_schemas import check_for_mutable_operation
from fxengine.operators import magic_methods, reflectable_magic_methods
from fxengine.source import ModuleSite, OriginRecord, is_engine_file, walk_user_frames

try:
    from torch._library.opaque_object import is_opaque_value_type
except ImportError:  # torch before 2.10 has no opaque objects.

    def is_opaque_value_type(cls: type[Any] | str) -> bool:  # noqa: ARG001
        """Whether values of this type are constants that print themselves."""
        return False


__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "MetaProxy",
    "ParameterProxy",
    "Proxy",
    "Scope",
    "ScopeContextManager",
    "TraceError",
    "TracerBase",
]

log = logging.getLogger(__name__)

_fx_traceback = sys.modules.get("torch.fx.traceback")
"""Where torch keeps the metadata that `torch.fx.traceback.annotate` and its like want on new nodes."""


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


class TracerBase:
    """Records operations in a graph, and answers what symbolic values are asked.

    Attributes:
        graph: Where nodes go.
        record_stack_traces: Store Python's stack, as text, with each node.
        check_mutable_operations: Refuse operations that change their arguments.
        trace_asserts: Record `assert x` for a symbolic `x` instead of refusing it.
        proxy_buffer_attributes: Reading a buffer from a module gives a symbolic value.
        traced_func_name: The method of the root that is traced.
        scope: The module whose operations are being recorded.
        module_stack: The modules that are running, outermost first, with path and type.
        node_name_to_scope: Path and type of the module that each node belongs to.
    """

    graph: Graph
    record_stack_traces: bool = False
    _record_forward_stack_traces_only: bool = False
    check_mutable_operations: bool = False
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    traced_func_name: str = "forward"
    scope: Scope
    module_stack: OrderedDict[str, tuple[str, Any]]
    node_name_to_scope: dict[str, tuple[str, type]]

    _site: ModuleSite | None = None
    """The module call that is being traced through; None when no trace runs, and then origins are not recorded."""
    _boundary: ClassVar[CodeType | None] = None
    """The code that runs a module's forward: frames outside of it belong to the site."""
    _stack_snapshot: OrderedDict[str, tuple[str, Any]] | None = None
    """The module stack as the latest nodes have it in `meta`; shared until the stack changes."""
    _records_plainly: bool = False
    """Whether no subclass has a say in how calls are recorded, so that this may be done in one go."""

    @functools.cached_property
    def refusals(self) -> list[Refusal]:
        """What this tracer refused to do for symbolic values, in order, whether or not somebody caught the exception."""
        return []

    def refuse(self, rule: type[Rule], subject: Any, error: BaseException) -> NoReturn:
        """Raise `error`, and note that it was raised for `rule` on behalf of `subject`."""
        self.refusals.append(Refusal(rule, subject, error))
        raise error

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Return a new node at the end of the graph, with its origin and scope. May be overridden to check or change it."""
        if self.check_mutable_operations and kind == "call_function":
            assert callable(target)
            check_for_mutable_operation(target, args, kwargs)
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        self._describe(node, sys._getframe(1))
        return node

    def _describe(self, node: Node, caller: FrameType) -> None:
        """Note on a new node where it comes from and which modules are running."""
        scope = self.scope
        self.node_name_to_scope[node._name] = (scope.module_path, scope.module_type)
        site = self._site
        if site is not None:
            node._origin = OriginRecord((site, walk_user_frames(caller, self._boundary)))
        if _fx_traceback is not None and _fx_traceback.should_preserve_node_meta:
            _copy_current_meta(node)
        elif self.module_stack:
            node.meta["nn_module_stack"] = self._stack_snapshot or self._copied_module_stack()
        if self.record_stack_traces and not node.stack_trace:
            summary = self._filter_traceback_frames(CapturedTraceback.extract().summary())
            if summary:
                node.stack_trace = "".join(summary.format()).strip()

    def _copied_module_stack(self) -> OrderedDict[str, tuple[str, Any]]:
        """A copy of the module stack; kept for the next nodes if only our own `call_module` changes the stack."""
        copied = self.module_stack.copy()
        if self._records_plainly:
            self._stack_snapshot = copied
        return copied

    def _filter_traceback_frames(self, user_stack_summary: traceback.StackSummary) -> traceback.StackSummary:
        """The frames of a recorded stack trace that are worth keeping: from the first `forward` on, without our own."""
        frames = [frame for frame in user_stack_summary if not is_engine_file(frame.filename)]
        if self._record_forward_stack_traces_only:
            kept = [f for f in frames if f.name == "forward" or f.filename.endswith("torch/__init__.py")]
        else:
            first = next((i for i, frame in enumerate(frames) if frame.name == "forward"), len(frames))
            kept = frames[first:]
        return traceback.StackSummary.from_list(kept)

    def proxy(self, node: Node) -> "Proxy":
        """Return the symbolic value of `node`."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any | None = None,
        proxy_factory_fn: Callable[[Node], "Proxy"] | None = None,
    ) -> "Proxy":
        """Return the symbolic value of a new node, whose arguments may contain symbolic values.

        A placeholder's default value, if any, is its one positional argument.
        """
        if self._records_plainly and (
            callable(target) if kind == "call_function" else kind in _CALLS_BY_NAME and type(target) is str
        ):
            node = self._record(kind, target, args, kwargs, name, type_expr)
            return proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)
        node_args = self.create_arg(args)
        node_kwargs = self.create_arg(kwargs)
        assert isinstance(node_args, tuple), f"Expected args_ to be tuple, got {type(node_args)}"
        assert isinstance(node_kwargs, dict), f"Expected kwargs_ to be dict, got {type(node_kwargs)}"
        node = self.create_node(kind, target, node_args, node_kwargs, name, type_expr)
        return proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)

    def _record(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None,
        type_expr: Any | None,
    ) -> Node:
        """What `create_arg` and `create_node` do for a call, in one pass over its arguments."""
        inputs: dict[Node, None] = {}
        items: list[Any] = []
        unusual = False
        for arg in args:
            arg_type = type(arg)
            if arg_type is Proxy:
                node = arg.node
                inputs[node] = None
                items.append(node)
            elif arg_type in _PLAIN_TYPES:
                items.append(arg)
            elif (arg_type is tuple or arg_type is list) and _PLAIN_OR_PROXY.issuperset(map(type, arg)):
                flat = [item.node if type(item) is Proxy else item for item in arg]
                inputs.update(dict.fromkeys(item for item in flat if type(item) is Node))
                items.append(tuple(flat) if arg_type is tuple else immutable_list(flat))
            else:
                unusual = True
                items.append(_freeze(self.create_arg(arg), inputs))
        node_kwargs = _NO_KWARGS
        if kwargs:
            unusual = unusual or not _PLAIN_TYPES.issuperset(map(type, kwargs.values()))
            node_kwargs = immutable_dict(_freeze(self.create_arg(kwargs), inputs) if unusual else kwargs)
        node_args = tuple(items)
        if unusual:
            _warn_of_symbolic_numbers(kind, target, node_args, node_kwargs)
        label = name if name is not None else _target_to_str(target)
        node = self.graph._append(kind, target, node_args, node_kwargs, label, type_expr, inputs)
        self._describe(node, sys._getframe(2))
        return node

    def create_arg(self, a: Any) -> Any:
        """Return what stands for `a` in a node's arguments: nodes for symbolic values, containers converted inside.

        Raises:
            NotImplementedError: The graph cannot hold such an object.
        """
        kind = type(a)
        if kind is Proxy:
            return a.node
        if kind in _PLAIN_TYPES:
            return a
        if kind is tuple:
            return tuple([self.create_arg(item) for item in a])
        if kind is list or kind is immutable_list:
            return [self.create_arg(item) for item in a]
        if kind is dict or kind is immutable_dict:
            return _create_arg_dict(self, a)
        return self._create_unusual_arg(a)

    def _create_unusual_arg(self, a: Any) -> Any:
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        match a:
            case tuple():
                items = [self.create_arg(item) for item in a]
                return type(a)(*items) if hasattr(a, "_fields") else type(a)(items)
            case list():
                return [self.create_arg(item) for item in a]
            case dict():
                return _create_arg_dict(self, a)
            case slice() | range():
                return type(a)(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
            case _ if isinstance(a, OpOverload | HigherOrderOperator) or is_opaque_value_type(type(a)):
                return a
            case _ if is_dataclass(a):
                kwargs = {field.name: self.create_arg(getattr(a, field.name)) for field in fields(a)}
                return self.create_node("call_function", a.__class__, (), kwargs)
            case _ if isinstance(a, (*base_types, enum.Enum)):
                return a
            case _:
                error = NotImplementedError(f"argument of type: {type(a)}")
                self.refuse(UnsupportedArgument, a, error)

    def to_bool(self, obj: "Proxy") -> bool:
        """The truth value of `obj`. May be overridden by tracers that know more than this one.

        Raises:
            TraceError: Always, here.
        """
        error = TraceError("symbolically traced variables cannot be used as inputs to control flow")
        self.refuse(DynamicBool, obj, error)

    def iter(self, obj: "Proxy") -> Iterator[Any]:
        """The items of `obj`. May be overridden by tracers that know more than this one.

        Raises:
            TraceError: Always, here.
        """
        error = TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a "
            "*args or **kwargs function argument. See the torch.fx docs on pytorch.org for a more detailed "
            "explanation of what types of control flow can be traced, and check out the Proxy docstring for "
            "help troubleshooting Proxy iteration errors"
        )
        self.refuse(DynamicIteration, obj, error)

    def keys(self, obj: "Proxy") -> Any:
        """What `obj.keys()` gives, which is also what `**obj` asks for: here a symbolic value."""
        return Attribute(obj, "keys")()

    def length(self, obj: "Proxy") -> int:
        """The length of `obj`. May be overridden by tracers that know more than this one.

        Raises:
            RuntimeError: Always, here.
        """
        error = RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, "
            "please call torch.fx.wrap('len') at module scope"
        )
        self.refuse(DynamicLength, obj, error)

    def set_item(self, obj: "Proxy", key: Any, value: Any) -> None:  # noqa: ARG002 - for those who override it.
        """Assign `obj[key]`. May be overridden.

        Raises:
            TypeError: Always, here; what Python raises for objects without items.
        """
        error = TypeError(f"'{type(obj).__name__}' object does not support item assignment")
        self.refuse(ItemAssignment, obj, error)

    def delete_item(self, obj: "Proxy", key: Any) -> None:  # noqa: ARG002 - for those who override it.
        """Delete `obj[key]`. May be overridden.

        Raises:
            TypeError: Always, here; what Python raises for objects without items.
        """
        error = TypeError(f"'{type(obj).__name__}' object doesn't support item deletion")
        self.refuse(ItemAssignment, obj, error)


class GraphAppendingTracer(TracerBase):
    """The tracer of proxies that are made by hand, to append operations to a graph."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.node_name_to_scope = {}


def assert_fn(x: object) -> None:
    """Fail if `x` is false; stands in the graph for an `assert` statement."""
    if not x:
        raise AssertionError("Assertion failed")


class Proxy:
    """A symbolic value: stands for what a node will compute, and records in the graph whatever is done with it.

    Calls of torch functions, methods and operators become nodes. To have a truth value, a length or items a symbolic
    value is not concrete enough; where code needs them there are two ways out: move it into a top-level function and
    `wrap` that, or make the decision depend on something that is known beforehand.

    Example:
        In a transformation, a proxy around a node lets new operations be written down as Python::

            x = Proxy(node)
            y = torch.relu(x) + 1
            node.replace_all_uses_with(y.node)
    """

    tracer: TracerBase
    node: Node

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    @property
    def __class__(self) -> type[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Our type with torch.fx's counterpart among its bases, so that `isinstance(x, torch.fx.Proxy)` is true."""
        return _face(type(self))

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> "Attribute":
        # The node comes later, if it is needed at all: most attributes are methods that are called at once.
        attribute = Attribute(self, k)
        reader = sys._getframe(1)
        attribute._read_at = (reader.f_code, reader.f_lasti)
        return attribute

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, d: dict[str, Any]) -> None:
        self.__dict__ = d

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _new_proxy, (type(self),), self.__getstate__()

    def __deepcopy__(self, memo: dict[int, Any]) -> "Proxy":
        # Without this method deepcopy would take `__getattr__`'s answer for it.
        state = {name: _deepcopied(name, value, self, memo) for name, value in self.__dict__.items()}
        assert "node" in state, "'node' not in new_dict during proxy unpickling"
        assert "tracer" in state, "'tracer' not in new_dict during proxy unpickling"
        result = Proxy(state["node"], state["tracer"])
        result.__dict__.update(state)
        return result

    def __call__(self, *args: Any, **kwargs: Any) -> "Proxy":
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        count = unpack_count(sys._getframe(1))
        if count is not None:
            return iter([self[i] for i in range(count)])
        return self.tracer.iter(self)

    def __abs__(self) -> "Proxy":
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and decides_assert(sys._getframe(1)):
            self.tracer.create_proxy("call_function", assert_fn, (self,), {})
            return True
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        """What the tracer answers to `keys()`, and to `**x`."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        return self.tracer.length(self)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.tracer.set_item(self, key, value)

    def __delitem__(self, key: Any) -> None:
        self.tracer.delete_item(self, key)

    @classmethod
    def __torch_function__(
        cls,
        orig_method: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> "Proxy":
        args = args or ()
        kwargs = kwargs or {}
        tracer = _tracer_of(cls, orig_method, args, kwargs)
        if isinstance(orig_method, torch._C.ScriptMethod):
            args = (orig_method.owner, *args)  # type: ignore[attr-defined]
            return tracer.create_proxy("call_method", orig_method.name, args, kwargs)
        if orig_method in _tensor_methods() or orig_method.__name__ == "__get__":
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs)
        if isinstance(orig_method, HigherOrderOperator):
            _refuse_callables(tracer, orig_method, args, kwargs)
        name = tracer.graph._target_to_str(orig_method.__name__)
        return tracer.create_proxy("call_function", orig_method, args, kwargs, name=name)


class MetaProxy(Proxy):
    """A proxy that computes, beside each node, an example value under a fake tensor mode (`meta["val"]`)."""

    def __init__(self, node: Node, tracer: TracerBase | None = None, fake_mode: Any = None) -> None:
        super().__init__(node, tracer)
        self.fake_mode = fake_mode

    def __repr__(self) -> str:
        return f"MetaProxy({self.node.name})"

    @classmethod
    def __torch_function__(
        cls,
        orig_method: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> "MetaProxy":
        args = args or ()
        kwargs = kwargs or {}
        meta_proxy = next((arg for arg in args if isinstance(arg, MetaProxy)), None)
        assert meta_proxy is not None, "No MetaProxy found in arguments, but one is expected."
        proxy = super().__torch_function__(orig_method, types, args, kwargs)
        with meta_proxy.fake_mode:
            values = [a.node.meta["val"] if isinstance(a, Proxy) else a for a in args]
            proxy.node.meta["val"] = orig_method(*values, **kwargs)
        return MetaProxy(proxy.node, proxy.tracer, meta_proxy.fake_mode)


class Attribute(Proxy):
    """An attribute of a symbolic value. It becomes a node only when its value is used; called, it is a method call."""

    _read_at: tuple[CodeType, int] | None = None
    """The instruction that read the attribute, which is often long before the node is made."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node: Node | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Code objects cannot be pickled.
        return {name: value for name, value in self.__dict__.items() if name != "_read_at"}

    @property
    def node(self) -> Node:  # pyright: ignore[reportIncompatibleVariableOverride] - made at first use.
        """The node that reads the attribute."""
        if self._node is None:
            node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
            if self._read_at is not None and isinstance(node._origin, OriginRecord):
                node._origin = node._origin.moved_to(*self._read_at)
            self._node = node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A parameter as a symbolic value whose shape is known, so that control flow may depend on it."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: torch.nn.Parameter) -> None:
        super().__init__(node, tracer)
        assert isinstance(param, torch.nn.Parameter), f"Expected Parameter, got {type(param)}"
        self.param = param
        self.name = name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> torch.Size:
        """The parameter's shape."""
        return self.param.shape

    def size(self) -> torch.Size:
        """The parameter's shape."""
        return self.param.size()

    def dim(self) -> int:
        """The parameter's number of dimensions."""
        return self.param.dim()

    @property
    def ndim(self) -> int:
        """The parameter's number of dimensions."""
        return self.param.ndim

    def numel(self) -> int:
        """The parameter's number of elements."""
        return self.param.numel()

    def nelement(self) -> int:
        """The parameter's number of elements."""
        return self.param.nelement()


def _operator_method(name: str) -> Callable[..., Any]:
    target = getattr(operator, name)

    def impl(self: Proxy, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", target, (self, *args), kwargs)

    impl.__name__ = impl.__qualname__ = name
    return impl


def _reflected_method(name: str) -> Callable[..., Any]:
    target = getattr(operator, name)

    def impl(self: Proxy, rhs: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", target, (rhs, self), {})

    impl.__name__ = impl.__qualname__ = f"__r{name.strip('_')}__"
    return impl


for _name in magic_methods:
    if hasattr(operator, _name):
        setattr(Proxy, f"__{_name.strip('_')}__", _operator_method(_name))
for _name in reflectable_magic_methods:
    if hasattr(operator, _name):
        setattr(Proxy, f"__r{_name.strip('_')}__", _reflected_method(_name))


def _new_proxy(cls: type[Proxy]) -> Proxy:
    """Return an empty instance; what pickle calls before it restores the state."""
    return cls.__new__(cls)


@functools.lru_cache(maxsize=256)
def _face(cls: type[Proxy]) -> type[Any]:
    """Return a subclass of `cls` and of its namesake in torch.fx; `cls` itself where torch.fx is not loaded."""
    theirs = sys.modules.get("torch.fx.proxy")
    for base in cls.__mro__:
        counterpart = getattr(theirs, base.__name__, None)
        if counterpart is not None and base.__module__ == __name__:
            face = types.new_class(cls.__name__, (cls, counterpart))
            face.__module__, face.__qualname__ = cls.__module__, cls.__qualname__
            return face
    return cls


def _deepcopied(name: str, value: Any, owner: Proxy, memo: dict[int, Any]) -> Any:
    try:
        return copy.deepcopy(value, memo)
    except Exception:  # noqa: BLE001 - whatever the user's object raises, a shallow copy will do.
        log.warning(
            "Shallow copy %s of Proxy because it cannot be deepcopied. Proxy is created for node %s",
            name,
            owner.node.name,
        )
        return copy.copy(value)


_CALLS_BY_NAME = frozenset({"call_method", "call_module"})

_SYMBOLIC_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)

_PLAIN_TYPES: frozenset[type[Any]] = frozenset({
    *(kind for kind in base_types if kind is not torch.Tensor and kind not in _SYMBOLIC_NUMBERS),
    types.NoneType,
    types.EllipsisType,
    HigherOrderOperator,
})
"""The types of what the graph holds as it is; a tracer with a root looks tensors up first."""

_PLAIN_OR_PROXY: frozenset[type[Any]] = _PLAIN_TYPES | {Proxy}

_TRACERLESS_TYPES: frozenset[type[Any]] = _PLAIN_TYPES | {torch.Tensor, torch.nn.Parameter}


def _create_arg_dict(tracer: TracerBase, values: dict[Any, Any]) -> dict[Any, Argument]:
    result: dict[Any, Argument] = {}
    for given, value in values.items():
        key = given
        if not isinstance(key, str):
            key = tracer.create_arg(key)
            map_arg(key, functools.partial(_no_nodes_error, tracer))
        result[key] = tracer.create_arg(value)
    return result


def _no_nodes_error(tracer: TracerBase, node: Node) -> NoReturn:
    error = RuntimeError(f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {node}")
    tracer.refuse(UnsupportedArgument, None, error)


def _tracer_of(
    cls: type[Proxy], function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> TracerBase:
    """Return the tracer of the symbolic values among the arguments; they must have the same one."""
    found: TracerBase | None = None
    for value in (*args, *kwargs.values()) if kwargs else args:
        kind = type(value)
        if kind is Proxy or isinstance(value, cls):
            if found is not None and value.tracer is not found:
                break
            found = value.tracer
        elif kind not in _TRACERLESS_TYPES:
            break
    else:
        assert found is not None
        return found
    leaves = pytree.tree_leaves((args, kwargs))
    tracers = dict.fromkeys(leaf.tracer for leaf in leaves if isinstance(leaf, cls))
    if len(tracers) > 1:
        raise RuntimeError(
            f"Found multiple different tracers {list(tracers.keys())} while trying to trace operations {function}"
        )
    return next(iter(tracers))


@functools.cache
def _tensor_methods() -> frozenset[Callable[..., Any]]:
    """The methods of `Tensor`, and the getters of its properties, that torch passes to `__torch_function__`."""
    return frozenset(torch.overrides.get_overridable_functions()[torch.Tensor])


def _refuse_callables(
    tracer: TracerBase, operation: HigherOrderOperator, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Fail if a higher-order operator was given a function that no graph stands for."""
    arbitrary = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, functools.partial)
    found = next((leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, arbitrary)), None)
    if found is not None:
        error = RuntimeError(
            f"Unable to symbolically trace the HigherOrderOperator {operation._name} because it received an "
            f"arbitrary callable argument {found}. Use make_fx or dynamo tracing instead."
        )
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
    if current.get("autograd_backward", False):
        node.meta["autograd_backward"] = True


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

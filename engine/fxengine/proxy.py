"""Symbolic values, and the base of all tracers.

A `Proxy` stands for the value that a node will have when the graph runs. Whatever the user's code does with it, torch's
own functions included, becomes a node of the tracer's graph. What a proxy cannot answer (a truth value, a length, its
items) it asks its tracer, and the tracers here refuse: each refusal raises torch.fx's exception and is noted in
`refusals` together with its rule.

How calls become nodes is the business of `recording`; how a module is run, and which calls are leaves, of `tracer`.
"""

import collections
import copy
import functools
import logging
import operator
import sys
import types
from collections.abc import Callable, Iterator
from functools import partial  # Not by its module's name, which a tracer may have wrapped.
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

import torch
from torch._ops import HigherOrderOperator

from fxengine.bytecode import decides_assert, reads_attribute, unpack_count
from fxengine.errors import DynamicBool, DynamicIteration, TraceError
from fxengine.graph import Graph
from fxengine.immutable_collections import immutable_list
from fxengine.names import found_in
from fxengine.node import Argument, Node, Target
from fxengine.operator_schemas import check_for_mutable_operation
from fxengine.operators import magic_methods, reflectable_magic_methods
from fxengine.recording import (
    _COPY_META_FIELDS,
    PLAIN_TYPES,
    Recorder,
    Scope,
    ScopeContextManager,
    SymbolicValue,
    create_arg_dict,
)
from fxengine.source import moved
from fxengine.torch_calls import recorded_as, refuse_callables, tracer_of

__all__ = [
    "_COPY_META_FIELDS",
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

found_in(__name__, Scope, ScopeContextManager, TraceError)

log = logging.getLogger(__name__)

_WITH_NAMES: Final = frozenset({"call_method", "call_module", "get_attr"})
"""The opcodes of what the tracer records whose target is a name."""


class TracerBase(Recorder):
    """Records operations in a graph, and answers what symbolic values are asked; subclasses may know more than it does.

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

    record_stack_traces: bool = False
    check_mutable_operations: bool = False
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    traced_func_name: str = "forward"

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Return a new node at the end of the graph, with origin and scope. May be overridden to check or change it."""
        if self.check_mutable_operations and kind == "call_function":
            assert callable(target)
            check_for_mutable_operation(target, args, kwargs)
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        scope = self.scope
        self._describe(node, sys._getframe(1), (scope.module_path, scope.module_type), self._stack)
        return node

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
            callable(target) if kind == "call_function" else kind in _WITH_NAMES and type(target) is str
        ):
            node = self._record(kind, target, args, kwargs, name, type_expr)
            scope = self.scope
            self._describe(node, sys._getframe(1), (scope.module_path, scope.module_type), self._stack)
            return proxy_factory_fn(node) if proxy_factory_fn else Proxy(node, self)
        node_args = self.create_arg(args)
        node_kwargs = self.create_arg(kwargs)
        assert isinstance(node_args, tuple), f"Expected args_ to be tuple, got {type(node_args)}"
        assert isinstance(node_kwargs, dict), f"Expected kwargs_ to be dict, got {type(node_kwargs)}"
        node = self.create_node(kind, target, node_args, node_kwargs, name, type_expr)
        return proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)

    def _operation(
        self, kind: str, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None = None
    ) -> "Proxy":
        """What `create_proxy` returns, for a call of a function or method that one of our own functions stands for."""
        if not self._records_plainly:
            return self.create_proxy(kind, target, args, kwargs, name)
        node = self._record(kind, target, args, kwargs, name, None)
        scope = self.scope
        # The frames of this function and of the one that calls it are ours.
        self._describe(node, sys._getframe(2), (scope.module_path, scope.module_type), self._stack)
        return Proxy(node, self)

    def create_arg(self, a: Any) -> Argument:
        """Return what stands for `a` in a node's arguments: nodes for symbolic values, containers converted inside.

        Raises:
            NotImplementedError: The graph cannot hold such an object.
        """
        kind = type(a)
        if kind in PLAIN_TYPES:
            return a
        if isinstance(a, SymbolicValue):
            return a.node
        if kind is tuple:
            return tuple([self.create_arg(item) for item in a])
        if kind is list or kind is immutable_list:
            return [self.create_arg(item) for item in a]
        return create_arg_dict(self, a) if kind is dict else self._create_unusual_arg(a)

    def to_bool(self, obj: "Proxy") -> bool:
        """The truth value of `obj`. May be overridden by tracers that know more than this one.

        Raises:
            TraceError: Always, here.
        """
        error = TraceError("symbolically traced variables cannot be used as inputs to control flow")
        return self.refuse(DynamicBool, obj, error)

    def iter(self, obj: "Proxy") -> Iterator:  # pyright: ignore[reportMissingTypeArgument] - as torch.fx has it.
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
        return self.refuse(DynamicIteration, obj, error)

    def keys(self, obj: "Proxy") -> "Proxy":
        """What `obj.keys()` gives, which is also what `**obj` asks for: here a symbolic value."""
        return Attribute(obj, "keys")()


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


class _ItemMethod:
    """What `x[key] = value` and `del x[key]` do: they ask the tracer.

    Who reads the method by its name gets what any name gives: nothing from the class, and from a symbolic value an
    attribute whose call is recorded.
    """

    def __init__(self, asks: str) -> None:
        self._asks = asks

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._name = name

    def __get__(self, proxy: "Proxy | None", owner: type[Any] | None = None) -> Callable[..., None]:
        if proxy is None or reads_attribute(sys._getframe(1)):
            raise AttributeError(f"type object 'Proxy' has no attribute {self._name!r}")
        return partial(getattr(proxy.tracer, self._asks), proxy)


class Proxy(SymbolicValue):
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

    if TYPE_CHECKING:
        # As all operators it is made below.
        def __getitem__(self, item: Any) -> "Proxy": ...

    def __init__(self, node: Node, tracer: "TracerBase | None" = None) -> None:
        """Make the symbolic value of `node`; without a tracer, one whose operations go to the end of the graph."""
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
        """Record a call of the value itself."""
        return self.tracer._operation("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        count = unpack_count(sys._getframe(1))
        if count is not None:
            return iter([self[i] for i in range(count)])
        return self.tracer.iter(self)

    def __abs__(self) -> "Proxy":
        return self.tracer._operation("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and decides_assert(sys._getframe(1)):
            self.tracer._operation("call_function", assert_fn, (self,), {})
            return True
        return self.tracer.to_bool(self)

    def keys(self) -> "Proxy":
        """What the tracer answers to `keys()`, and to `**x`."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        return self.tracer.length(self)

    __setitem__ = _ItemMethod("set_item")
    __delitem__ = _ItemMethod("delete_item")

    @classmethod
    def __torch_function__(
        cls,
        orig_method: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> "Proxy":
        """Record a call of a torch function; torch calls this."""
        args = args or ()
        kwargs = kwargs or {}
        tracer = tracer_of(cls, orig_method, args, kwargs)
        if isinstance(orig_method, torch._C.ScriptMethod):
            args = (orig_method.owner, *args)  # type: ignore[attr-defined]
            return tracer._operation("call_method", orig_method.name, args, kwargs)
        if isinstance(orig_method, HigherOrderOperator):
            refuse_callables(tracer, orig_method, args, kwargs)
        kind, target, name = recorded_as(orig_method)
        return tracer._operation(kind, target, args, kwargs, name)


class MetaProxy(Proxy):
    """A proxy that computes, beside each node, an example value under a fake tensor mode (`meta["val"]`)."""

    def __init__(self, node: Node, tracer: "TracerBase | None" = None, fake_mode: Any = None) -> None:
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
        """Record a call of a torch function and compute its example value."""
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
        """Make the symbolic value of `root.attr`."""
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
            node = self.tracer._operation("call_function", getattr, (self.root, self.attr), {}).node
            if self._read_at is not None:
                node._mark = moved(node._mark, *self._read_at)
            self._node = node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        """Record a call of the method that the attribute is."""
        return self.tracer._operation("call_method", self.attr, (self.root, *args), kwargs)


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
        return self.tracer._operation("call_function", target, (self, *args), kwargs)

    impl.__name__ = impl.__qualname__ = name
    return impl


def _reflected_method(name: str) -> Callable[..., Any]:
    target = getattr(operator, name)

    def impl(self: Proxy, rhs: Any) -> Proxy:
        return self.tracer._operation("call_function", target, (rhs, self), {})

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

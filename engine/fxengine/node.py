"""``Node``, one operation of a graph, and the functions that walk a node's arguments.

A node knows its place in the list of its graph, its arguments, the nodes in them (``all_input_nodes``) and the nodes
that use it (``users``). The setters keep the last two right, which is why arguments are immutable. Nothing here makes
names or code.
"""

import copy
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional, Self, TypeAlias, TypeVar, Union

import torch
from torch._ops import OpOverload

from fxengine.effects import _side_effectful_functions, has_side_effect, is_impure_function
from fxengine.immutable_collections import immutable_dict, immutable_list
from fxengine.names import _find_module_of_method, _get_qualified_name, _type_repr, dtype_abbreviation
from fxengine.operator_schemas import ArgsKwargsPair, normalize_function, normalize_module
from fxengine.source import Origin, OriginRecord

if TYPE_CHECKING:
    from fxengine.graph import Graph

__all__ = [
    "Argument",
    "ArgumentT",
    "BaseArgumentTypes",
    "Node",
    "Target",
    "TensorFacts",
    "_find_module_of_method",
    "_get_qualified_name",
    "_side_effectful_functions",
    "_type_repr",
    "base_types",
    "has_side_effect",
    "map_aggregate",
    "map_arg",
]

BaseArgumentTypes = Union[  # noqa: UP007 - its members are read at run time.
    str,
    int,
    float,
    bool,
    complex,
    torch.dtype,
    torch.Tensor,
    torch.device,
    torch.memory_format,
    torch.layout,
    OpOverload,  # pyright: ignore[reportMissingTypeArgument] - not generic in older torch.
    torch.SymInt,
    torch.SymBool,
    torch.SymFloat,
]
base_types: tuple[type[Any], ...] = typing.get_args(BaseArgumentTypes)
"""The types that stand in a node's arguments as they are."""

Target: TypeAlias = Callable[..., Any] | str

Argument: TypeAlias = Optional[  # noqa: UP045 - a forward reference has no `|` at run time.
    Union[
        tuple["Argument", ...],
        Sequence["Argument"],
        Mapping[str, "Argument"],
        slice,
        range,
        "Node",
        BaseArgumentTypes,
    ]
]
ArgumentT = TypeVar("ArgumentT", bound=Argument)

_legal_ops = dict.fromkeys(
    (
        "placeholder",
        "call_method",
        "call_module",
        "call_function",
        "get_attr",
        "output",
        "root",
    )
)

_ATOMS: frozenset[type[Any]] = frozenset(
    {
        types.NoneType,
        types.EllipsisType,
        str,
        int,
        float,
        bool,
        complex,
        range,
        torch.dtype,
        torch.device,
        torch.memory_format,
        torch.layout,
    }
)
"""The types of what is in an argument most often and is neither a node nor contains one."""

_SYMBOLIC_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)


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


class Node:
    """One operation in a ``Graph``: mostly a call, else an input, an attribute, or the output.

    What ``target``, ``args`` and ``kwargs`` mean depends on ``op``:

    - ``placeholder``: an input of the function. ``target`` is the parameter's name (with its stars, if any), ``args``
      its default value if it has one.
    - ``get_attr``: a parameter, buffer or other attribute of the module hierarchy. ``target`` is its qualified name.
    - ``call_function``: a call of the function ``target``.
    - ``call_module``: a call of the submodule with the qualified name ``target``; ``args`` has no self.
    - ``call_method``: a call of the method named ``target`` of ``args[0]``.
    - ``output``: the return statement. ``args[0]`` is what is returned.

    Invariants:
        ``args`` and ``kwargs`` hold immutable containers. ``_inputs`` are the nodes in them in order of appearance,
        and each of these has this node among its ``users``. Nodes of one graph compare (``<``) by their place in it.

    Attributes:
        graph: The graph that the node belongs to.
        users: The nodes that use this one, each once, in the order in which they began to.
        type: The annotation of the value in generated code, or None.
        meta: Free for passes; kept when the node is copied.
        tensor: What is known about the value, if that is a tensor.
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_args",
        "_erased",
        "_inputs",
        "_kwargs",
        "_name",
        "_next",
        "_op",
        "_origin",
        "_prev",
        "_repr_fn",
        "_sort_key",
        "_target",
        "graph",
        "meta",
        "tensor",
        "type",
        "users",
    )

    _args: tuple[Argument, ...]
    _erased: bool
    _inputs: tuple["Node", ...]
    _kwargs: dict[str, Argument]
    _name: str
    _next: "Node"
    _op: str
    _origin: Origin | OriginRecord | None
    _prev: "Node"
    _repr_fn: Callable[["Node"], str] | None
    _sort_key: tuple[int, ...]
    _target: Target
    graph: "Graph"
    meta: dict[str, Any]
    tensor: TensorFacts | None
    type: Any | None
    users: dict["Node", None]

    def __init__(
        self,
        graph: "Graph",
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        return_type: Any | None = None,
    ) -> None:
        """Make a node that is in no list yet; what one wants is mostly ``Graph.create_node`` and its companions.

        Raises:
            ValueError: ``target`` is not callable although ``op`` is ``call_function``, or else no string.
            AssertionError: ``op`` is not an opcode.
        """
        _check_target(graph, name, op, target)
        inputs: dict[Node, None] = {}
        _fill(self, graph, name, op, target, _freeze(args, inputs), _freeze(kwargs, inputs), return_type, inputs)

    @property
    def op(self) -> str:
        """The opcode."""
        return self._op

    @op.setter
    def op(self, op: str) -> None:
        _set_indexed(self, "_op", op)

    @property
    def target(self) -> Target:
        """What is called or read; see the class."""
        return self._target

    @target.setter
    def target(self, target: Target) -> None:
        _set_indexed(self, "_target", target)

    @property
    def name(self) -> str:
        """The name of the value, unique in the graph; what is assigned to in generated code."""
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        hooks = _replace_hooks(self)
        for user in self.users if hooks else ():
            for hook in hooks:
                hook(old=self, new=name, user=user)
        self._name = name

    @property
    def next(self) -> "Node":
        """The node after this one; after the last comes the graph's root."""
        return self._next

    @property
    def prev(self) -> "Node":
        """The node before this one; before the first comes the graph's root."""
        return self._prev

    @property
    def args(self) -> tuple[Argument, ...]:
        """The positional arguments. Assigning to this keeps account of uses and users."""
        return self._args

    @args.setter
    def args(self, args: tuple[Argument, ...]) -> None:
        self._update_args_kwargs(args, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """The keyword arguments. Assigning to this keeps account of uses and users."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: dict[str, Argument]) -> None:
        self._update_args_kwargs(self._args, kwargs)

    @property
    def all_input_nodes(self) -> list["Node"]:
        """The nodes in ``args`` and ``kwargs``, each once, in order of appearance."""
        return list(self._inputs)

    @property
    def _input_nodes(self) -> dict["Node", None]:
        """The nodes in ``args`` and ``kwargs`` as keys: what torch.fx keeps of them."""
        return dict.fromkeys(self._inputs)

    @property
    def origin(self) -> Origin | None:
        """Where in the user's source the node comes from; None if no trace made it.

        A tracer may set ``_origin`` to a record, whose positions are looked up when somebody asks.
        """
        origin = self._origin
        return origin.resolve() if isinstance(origin, OriginRecord) else origin

    @origin.setter
    def origin(self, origin: Origin | None) -> None:
        self._origin = origin

    @property
    def stack_trace(self) -> str | None:
        """The Python stack at the time of tracing, innermost frame last, if the tracer recorded it."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def prepend(self, x: "Node") -> None:
        """Move ``x``, a node of the same graph, to the place before this one."""
        self._prepend(x)

    def append(self, x: "Node") -> None:
        """Move ``x``, a node of the same graph, to the place after this one."""
        self._next._prepend(x)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Replace the positional argument at ``idx``."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Insert a positional argument before the one at ``idx``."""
        assert 0 <= idx <= len(self._args), f"insert_args index must be between 0 and len(self.args), got {idx}"
        inputs = self._input_nodes
        self._args = (*self._args[:idx], _freeze(arg, inputs), *self._args[idx:])
        self._inputs = tuple(inputs)
        for node in inputs:
            node.users.setdefault(self)

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Replace, or add, the keyword argument ``key``."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: "Node", new_input: "Node") -> None:
        """Use ``new_input`` wherever ``old_input`` is used in the arguments."""
        for hook in _replace_hooks(self):
            hook(old=old_input, new=new_input._name, user=self)
        self._replace_input_with(old_input, new_input)

    def replace_all_uses_with(
        self,
        replace_with: "Node",
        delete_user_cb: Callable[["Node"], bool] | None = None,
        *,
        propagate_meta: bool = False,
    ) -> list["Node"]:
        """Use ``replace_with`` wherever this node is used, and return the users that were changed.

        Args:
            replace_with: The node that takes over.
            delete_user_cb: Says of a user whether it is to be changed; by default all are.
            propagate_meta: Copy ``meta`` too, for a replacement that has none yet.
        """
        if propagate_meta:
            assert not replace_with.meta, (
                "Called node.replace_all_uses_with(replace_with, propagate_meta=True), "
                "but replace_with already has .meta keys"
            )
            replace_with.meta.update(self.meta)
        hooks = _replace_hooks(self)
        changed: list[Node] = []
        for user in list(self.users):
            if delete_user_cb is not None and not delete_user_cb(user):
                continue
            changed.append(user)
            for hook in hooks:
                hook(old=self, new=replace_with._name, user=user)
            user._replace_input_with(self, replace_with)
        return changed

    def is_impure(self, impure_random: bool = True) -> bool:
        """Return whether the node must stay even if nobody uses its value.

        Args:
            impure_random: Whether drawing random numbers is a reason to stay.
        """
        match self._op:
            case "placeholder" | "output":
                return True
            case "call_module":
                owner = self.graph._owning_module
                assert owner is not None, "self.graph.owning_module not set for purity check"
                assert isinstance(self._target, str), f"Expected str target for call_module, got {type(self._target)}"
                return bool(getattr(owner.get_submodule(self._target), "_is_impure", False))
            case "call_function":
                assert not isinstance(self._target, str)
                return is_impure_function(self._target, self._args, self._kwargs, impure_random=impure_random)
            case _:
                return False

    def normalized_arguments(
        self,
        root: torch.nn.Module,
        arg_types: tuple[Any] | None = None,
        kwarg_types: dict[str, Any] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> ArgsKwargsPair | None:
        """Return the arguments as the signature of what is called names them, with default values.

        Args:
            root: Where called modules are found.
            arg_types: The types of the positional arguments, where these alone leave open which overload is called.
            kwarg_types: The types of the keyword arguments.
            normalize_to_only_use_kwargs: Pass everything by keyword.

        Returns:
            The arguments; None if the signature is not known, or the node is no call of a function or module.
        """
        target = self._target
        kwargs = dict(self._kwargs)
        if self._op == "call_module" and isinstance(target, str):
            args: Any = self._args
            return normalize_module(root, target, args, kwargs, normalize_to_only_use_kwargs)
        if self._op == "call_function" and not isinstance(target, str):
            return normalize_function(target, self._args, kwargs, arg_types, kwarg_types, normalize_to_only_use_kwargs)
        return None

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """Return the node on one line, as ``print(graph)`` shows it.

        Args:
            placeholder_names: If not empty, a placeholder is added to it and None returned.
            maybe_return_typename: If not empty, its element is set to an output node's annotation.
            include_tensor_metadata: Show dtype, shape, stride and device of the tensor in ``meta`` in place of the
                type.
        """
        annotation = f"{_type_repr(self.type)} " if self.type is not None else ""
        start = f"%{self._name} : {annotation}[num_users={len(self.users)}] = {self._op}"
        match self._op:
            case "placeholder":
                if placeholder_names:
                    placeholder_names.append(
                        f"{self._target}: {_type_repr(self.type)}" if self.type else str(self._target)
                    )
                    return None
                if not self.type:  # An empty tuple stands for none.
                    start = f"%{self._name} : [num_users={len(self.users)}] = {self._op}"
                default = f"(default={self._args[0]})" if self._args else ""
                return f"{start}[target={self._target}]{default}"
            case "get_attr":
                return f"{start}[target={self._pretty_print_target(self._target)}]"
            case "output":
                if self.type and maybe_return_typename:
                    maybe_return_typename[0] = f" -> {_type_repr(self.type)}"
                return f"return {self._args[0]}"
            case _:
                if include_tensor_metadata and (metadata := _tensor_metadata(self)) is not None:
                    start = f"%{self._name} : {metadata}[num_users={len(self.users)}] = {self._op}"
                return (
                    f"{start}[target={self._pretty_print_target(self._target)}]"
                    f"(args = {_format_arg(self._args)}, kwargs = {_format_arg(self._kwargs)})"
                )

    def __repr__(self) -> str:
        return self._name if self._repr_fn is None else self._repr_fn(self)

    def __lt__(self, other: object) -> bool:
        return self._sort_key < other._sort_key if isinstance(other, Node) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return self._sort_key > other._sort_key if isinstance(other, Node) else NotImplemented

    def __le__(self, other: object) -> bool:
        return self is other or (self._sort_key <= other._sort_key if isinstance(other, Node) else NotImplemented)

    def __ge__(self, other: object) -> bool:
        return self is other or (self._sort_key >= other._sort_key if isinstance(other, Node) else NotImplemented)

    def __getstate__(self) -> dict[str, Any]:
        return {
            **self.__dict__,
            **{name: getattr(self, name) for name in _STATE},
            "_input_nodes": self._input_nodes,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        inputs = state.pop("_input_nodes")
        for name, value in state.items():
            object.__setattr__(self, _FIELDS.get(name, name), value)
        self._inputs = tuple(inputs)

    def __copy__(self) -> "Node":
        copied = Node.__new__(Node)
        copied.__setstate__(self.__getstate__())
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> "Node":
        """Return the counterpart of this node in a copy of its graph."""
        graph = copy.deepcopy(self.graph, memo)
        if self is self.graph._root:
            return graph._root
        assert id(self) in memo, f"Node '{self}' is not in its graph and cannot be copied with it"
        return memo[id(self)]

    def __reduce__(self) -> tuple[Any, ...]:
        """Save the node as a place in its graph, which is saved as a whole and without recursion."""
        if self is self.graph._root:
            return _node_at, (self.graph, -1)
        place = next((index for index, node in enumerate(self.graph.nodes) if node is self), None)
        if place is None:
            return _detached, (), self.__getstate__()
        return _node_at, (self.graph, place)

    @staticmethod
    def _pretty_print_target(target: object) -> str:
        """Return the target for people: ``operator.add``, ``builtins.getattr``, ``torch.relu``."""
        if isinstance(target, str):
            return target
        name: str | None = getattr(target, "__name__", None)
        module: str | None = getattr(target, "__module__", None)
        if name is not None and module in {"builtins", "_operator"}:
            return f"{module.lstrip('_')}.{name}"
        assert callable(target)
        return _get_qualified_name(target)

    def _prepend(self, x: "Node") -> None:
        """Unlink ``x`` and link it in before this node; its sort key is one between its neighbours'."""
        assert self.graph is x.graph, "Attempting to move a Node into a different Graph"
        if self is x:
            return
        x._prev._next, x._next._prev = x._next, x._prev
        before = self._prev
        before._next = self._prev = x
        x._prev, x._next = before, self
        x._sort_key = _sort_key_between(before._sort_key, self._sort_key)

    def _remove_from_list(self) -> None:
        """Unlink the node. It keeps its own links, so that an iteration that stands on it can go on."""
        self._prev._next, self._next._prev = self._next, self._prev

    def _update_args_kwargs(self, args: Any, kwargs: Any) -> None:
        """Set the arguments, frozen, and bring inputs and users up to date."""
        for node in self._inputs:
            node.users.pop(self, None)
        inputs: dict[Node, None] = {}
        self._args = _freeze(args, inputs)
        self._kwargs = _freeze(kwargs, inputs)
        self._inputs = tuple(inputs)
        for node in inputs:
            node.users[self] = None

    def _release_inputs(self) -> None:
        """Stop using other nodes: None takes their place in the arguments."""
        for node in self._inputs:
            node.users.pop(self, None)
        self._inputs = ()
        self._args = _map_nodes(self._args, _nothing)
        self._kwargs = _map_nodes(self._kwargs, _nothing) if self._kwargs else self._kwargs

    def _replace_input_with(self, old: "Node", new: "Node") -> None:
        def replaced(node: Node) -> Node:
            return new if node is old else node

        self._update_args_kwargs(map_arg(self._args, replaced), map_arg(self._kwargs, replaced))

    def _rename(self, candidate: str) -> None:
        """Give the node a name like ``candidate`` that is unused."""
        if candidate != self._name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)


_FIELDS = {"name": "_name", "op": "_op", "target": "_target"}
"""What stands behind the properties of a node."""

_STATE = (
    "graph", "name", "op", "target", "type", "_sort_key", "_args", "_kwargs", "_erased", "_prev", "_next", "users",
    "_repr_fn", "meta", "_origin", "tensor",
)  # fmt: skip


def _node_at(graph: "Graph", place: int) -> Node:
    """Return the node at a place in the list of ``graph``, the root for -1."""
    node = graph._root
    for _ in range(place + 1):
        node = node._next
    return node


def _detached() -> Node:
    return Node.__new__(Node)


def map_arg(a: ArgumentT, fn: Callable[[Node], Argument]) -> ArgumentT:
    """Return ``a`` with every node in it replaced by ``fn(node)``; lists and dicts come back immutable."""
    assert callable(fn), "torch.fx.map_arg(a, fn): fn must be a callable"
    return _map_nodes(a, fn)


def map_aggregate(a: ArgumentT, fn: Callable[[Argument], Argument]) -> ArgumentT:
    """Return ``a`` with everything in it that is not a container replaced by ``fn`` of it.

    Containers are tuples, named tuples, lists, dicts and slices; lists and dicts come back immutable.
    """
    return _map_leaves(a, fn)


def _map_leaves(value: Any, fn: Callable[[Any], Any]) -> Any:
    match value:
        case tuple():
            items = [_map_leaves(item, fn) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        case list():
            return immutable_list([_map_leaves(item, fn) for item in value])
        case dict():
            return immutable_dict([(key, _map_leaves(item, fn)) for key, item in value.items()])
        case slice():
            return slice(_map_leaves(value.start, fn), _map_leaves(value.stop, fn), _map_leaves(value.step, fn))
        case _:
            return fn(value)


def _map_nodes(value: Any, fn: Callable[[Node], Any]) -> Any:
    """Do what ``map_arg`` does; the kinds that are most frequent come first."""
    kind = type(value)
    if kind is Node:
        return fn(value)
    if kind in _ATOMS:
        return value
    if kind is tuple:
        return tuple([_map_nodes(item, fn) for item in value])
    return _map_leaves(value, lambda leaf: fn(leaf) if isinstance(leaf, Node) else leaf)


def _nothing(_: Node) -> None:
    """What takes the place of a node in the arguments of one that is erased."""


def _copy_argument(value: Any, copies: Mapping[Node, Any], inputs: dict[Node, None]) -> Any:
    """Return a frozen argument with each node replaced by its copy; the copies are added to ``inputs``."""
    kind = type(value)
    if kind is Node:
        value = copies[value]
        if type(value) is Node:
            inputs[value] = None
            return value
        return _freeze(value, inputs)
    if kind in _ATOMS:
        return value
    if kind is tuple:
        return tuple([_copy_argument(item, copies, inputs) for item in value])
    if kind is immutable_list:
        return immutable_list([_copy_argument(item, copies, inputs) for item in value])
    if kind is immutable_dict:
        return immutable_dict([(key, _copy_argument(item, copies, inputs)) for key, item in value.items()])
    return _freeze(_map_nodes(value, copies.__getitem__), inputs)


def _freeze(value: Any, inputs: dict[Node, None]) -> Any:
    """Return ``value`` with immutable containers; the nodes in it are added to ``inputs`` in order of appearance."""
    kind = type(value)
    if kind is Node:
        inputs[value] = None
        return value
    if kind in _ATOMS:
        return value
    if kind is tuple:
        return tuple([_freeze(item, inputs) for item in value])
    if kind is list or kind is immutable_list:
        return immutable_list([_freeze(item, inputs) for item in value])
    if kind is dict or kind is immutable_dict:
        return immutable_dict([(key, _freeze(item, inputs)) for key, item in value.items()])

    def note(leaf: Any) -> Any:
        if isinstance(leaf, Node):
            inputs[leaf] = None
        return leaf

    return _map_leaves(value, note)


def _fill(  # noqa: PLR0917 - called for each node there is; keywords cost time.
    node: Node,
    graph: "Graph",
    name: str,
    op: str,
    target: Target,
    args: tuple[Argument, ...],
    kwargs: dict[str, Argument],
    type_expr: Any | None,
    inputs: dict[Node, None],
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
    node.meta = {}
    node._origin = None
    node.tensor = None
    node._prev = node._next = node
    node._sort_key = ()
    node._erased = False
    node._repr_fn = None
    for used in inputs:
        used.users[node] = None


def _check_target(graph: "Graph", name: str, op: str, target: object) -> None:
    if op == "call_function":
        if callable(target):
            return
        expected = "Callable"
    else:
        assert op in _legal_ops, f"op '{op}' is not in _legal_ops"
        if isinstance(target, str):
            return
        expected = "str"
    raise ValueError(
        f"Node [graph = {graph}, name = '{name}'] target {target} has type {torch.typename(target)} "
        f"but a {expected} is expected"
    )


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


def _set_indexed(node: Node, field: str, value: object) -> None:
    """Set a field that the graph's table of nodes is sorted by."""
    table = node.graph._lookup_table
    listed = table is not None and node in table
    if table is not None and listed:
        table.remove(node)
    setattr(node, field, value)
    if table is not None and listed:
        table.insert(node)


def _replace_hooks(node: Node) -> Sequence[Callable[..., object]]:
    return getattr(node.graph._owning_module, "_replace_hooks", None) or ()


def _tensor_metadata(node: Node) -> str | None:
    """Return dtype, shape, stride and device of the example value in ``meta``, if that is a strided tensor."""
    meta = node.meta
    value = meta.get("val", meta.get("tensor_meta", meta.get("example_value")))
    if not isinstance(value, torch.Tensor) or value.layout in {torch.sparse_csc, torch.sparse_csr}:
        return None
    shape = ", ".join(str(size) for size in value.shape)
    stride = ", ".join(str(step) for step in value.stride())
    return f'Tensor "{dtype_abbreviation(value.dtype)}[{shape}][{stride}]{value.device}"'


def _format_arg(arg: object, max_list_len: float = float("inf")) -> str:
    """Return an argument as ``format_node`` shows it: nodes with a percent sign, lists cut after some items."""
    custom: Callable[[], str] | None = getattr(arg, "_custom_fx_repr_fn", None)
    if custom is not None:
        return custom()
    match arg:
        case list() | tuple():
            shown = [_format_arg(item) for index, item in enumerate(arg) if index < max_list_len]
            cut = "" if len(arg) < max_list_len + 1 else f", ...[total_len={len(arg)}]"
            if isinstance(arg, list):
                return f"[{', '.join(shown)}{cut}]"
            comma = "," if len(arg) == 1 else ""
            return f"({', '.join(shown)}{comma}{cut})"
        case dict():
            return "{" + ", ".join(f"{key}: {_format_arg(item)}" for key, item in arg.items()) + "}"
        case Node():
            return f"%{arg}"
        case _:
            return str(arg)

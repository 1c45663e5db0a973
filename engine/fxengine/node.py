"""``Node``, one operation of a graph.

A node knows its place in the list of its graph, its arguments, the nodes in them (``all_input_nodes``) and the nodes
that use it (``users``). The setters keep the last two right, which is why arguments are immutable. Nothing here makes
names or code.
"""

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from fxengine.arguments import (
    Argument,
    ArgumentT,
    BaseArgumentTypes,
    base_types,
    freeze,
    map_leaves,
    map_nodes,
)
from fxengine.arguments import freeze as _freeze
from fxengine.effects import (
    _side_effectful_functions,
    _side_effectful_need_to_be_preserved_pre_dispatch,
    has_side_effect,
    is_impure_function,
)
from fxengine.names import _find_module_of_method, _get_qualified_name, _type_repr, found_in
from fxengine.node_fields import Target, TensorFacts, _NodeBase, fill, replace_hooks
from fxengine.node_text import _format_arg, format_node, pretty_target
from fxengine.operator_schemas import ArgsKwargsPair, normalize_function, normalize_module

if TYPE_CHECKING:
    from fxengine.graph import Graph

__all__ = [
    "Argument",
    "ArgumentT",
    "BaseArgumentTypes",
    "Node",
    "Target",
    "TensorFacts",
    "_check_target",
    "_find_module_of_method",
    "_format_arg",
    "_freeze",
    "_get_qualified_name",
    "_side_effectful_functions",
    "_side_effectful_need_to_be_preserved_pre_dispatch",
    "_type_repr",
    "base_types",
    "has_side_effect",
    "map_aggregate",
    "map_arg",
]

found_in(__name__, has_side_effect)

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


class Node(_NodeBase):
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

    __slots__ = ()

    def __init__(
        self,
        graph: "Graph",
        name: str,
        op: str,
        target: "Target",
        args: tuple["Argument", ...],
        kwargs: dict[str, "Argument"],
        return_type: Any | None = None,
    ) -> None:
        """Make a node that is in no list yet; what one wants is mostly ``Graph.create_node`` and its companions.

        Raises:
            ValueError: ``target`` is not callable although ``op`` is ``call_function``, or else no string.
            AssertionError: ``op`` is not an opcode.
        """
        _check_target(graph, name, op, target)
        inputs: dict[Node, None] = {}
        fill(self, graph, name, op, target, freeze(args, inputs), freeze(kwargs, inputs), return_type, inputs)

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
        self._args = (*self._args[:idx], freeze(arg, inputs), *self._args[idx:])
        self._inputs = tuple(inputs)
        for node in inputs:
            node.users.setdefault(self)

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Replace, or add, the keyword argument ``key``."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: "Node", new_input: "Node") -> None:
        """Use ``new_input`` wherever ``old_input`` is used in the arguments."""
        for hook in replace_hooks(self):
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
        hooks = replace_hooks(self)
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
        return format_node(
            self, placeholder_names, maybe_return_typename, include_tensor_metadata=include_tensor_metadata
        )

    def __repr__(self) -> str:
        return self._name if self._repr_fn is None else self._repr_fn(self)

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

    _pretty_print_target = staticmethod(pretty_target)

    def _update_args_kwargs(self, args: Any, kwargs: Any) -> None:
        """Set the arguments, frozen, and bring inputs and users up to date."""
        for node in self._inputs:
            node.users.pop(self, None)
        inputs: dict[Node, None] = {}
        self._args = freeze(args, inputs)
        self._kwargs = freeze(kwargs, inputs)
        self._inputs = tuple(inputs)
        for node in inputs:
            node.users[self] = None

    def _release_inputs(self) -> None:
        """Stop using other nodes: None takes their place in the arguments."""
        for node in self._inputs:
            node.users.pop(self, None)
        self._inputs = ()
        self._args = map_nodes(self._args, _nothing)
        self._kwargs = map_nodes(self._kwargs, _nothing) if self._kwargs else self._kwargs

    def _replace_input_with(self, old: "Node", new: "Node") -> None:
        def replaced(node: Node) -> Node:
            return new if node is old else node

        self._update_args_kwargs(map_arg(self._args, replaced), map_arg(self._kwargs, replaced))

    def _rename(self, candidate: str) -> None:
        """Give the node a name like ``candidate`` that is unused."""
        if candidate != self._name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)


def map_arg(a: ArgumentT, fn: Callable[[Node], Argument]) -> ArgumentT:
    """Return ``a`` with every node in it replaced by ``fn(node)``; lists and dicts come back immutable."""
    assert callable(fn), "torch.fx.map_arg(a, fn): fn must be a callable"
    return map_nodes(a, fn)


def map_aggregate(a: ArgumentT, fn: Callable[[Argument], Argument]) -> ArgumentT:
    """Return ``a`` with everything in it that is not a container replaced by ``fn`` of it.

    Containers are tuples, named tuples, lists, dicts and slices; lists and dicts come back immutable.
    """
    return map_leaves(a, fn)


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


def _nothing(_: Node) -> None:
    """What takes the place of a node in the arguments of one that is erased."""


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

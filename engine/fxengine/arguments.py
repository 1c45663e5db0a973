"""What may be an argument of a node, and the functions that walk arguments.

Containers in arguments are tuples, named tuples, slices, and lists and dicts that cannot be changed; ``freeze`` makes
them so and notes the nodes it meets. Everything else is a leaf.
"""

import types
import typing
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, TypeAlias, TypeVar, Union

import torch
from torch._ops import OpOverload

from fxengine.immutable_collections import immutable_dict, immutable_list
from fxengine.node_fields import _NodeBase

if TYPE_CHECKING:
    from fxengine.node import Node
else:
    Node = _NodeBase  # Every node is one; which class that is does not matter here.

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

SYMBOLIC_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)

ATOMS: frozenset[type[Any]] = frozenset(
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


def map_leaves(value: Any, fn: Callable[[Any], Any]) -> Any:
    """Return ``value`` with everything in it that is not a container replaced by ``fn`` of it."""
    match value:
        case tuple():
            items = [map_leaves(item, fn) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        case list():
            return immutable_list([map_leaves(item, fn) for item in value])
        case dict():
            return immutable_dict([(key, map_leaves(item, fn)) for key, item in value.items()])
        case slice():
            return slice(map_leaves(value.start, fn), map_leaves(value.stop, fn), map_leaves(value.step, fn))
        case _:
            return fn(value)


def map_nodes(value: Any, fn: Callable[["Node"], Any]) -> Any:
    """Return ``value`` with every node in it replaced by ``fn`` of it; the kinds that are most frequent come first."""
    kind = type(value)
    if isinstance(value, Node):
        return fn(value)
    if kind in ATOMS:
        return value
    if kind is tuple:
        return tuple([map_nodes(item, fn) for item in value])
    return map_leaves(value, lambda leaf: fn(leaf) if isinstance(leaf, Node) else leaf)


def copy_argument(value: Any, copies: Mapping["Node", Any], inputs: dict["Node", None]) -> Any:
    """Return a frozen argument with each node replaced by its copy; the copies are added to ``inputs``."""
    kind = type(value)
    if isinstance(value, Node):
        value = copies[value]
        if isinstance(value, Node):
            inputs[value] = None
            return value
        return freeze(value, inputs)
    if kind in ATOMS:
        return value
    if kind is tuple:
        return tuple([copy_argument(item, copies, inputs) for item in value])
    if kind is immutable_list:
        return immutable_list([copy_argument(item, copies, inputs) for item in value])
    if kind is immutable_dict:
        return immutable_dict([(key, copy_argument(item, copies, inputs)) for key, item in value.items()])
    return freeze(map_nodes(value, copies.__getitem__), inputs)


def freeze(value: Any, inputs: dict["Node", None]) -> Any:
    """Return ``value`` with immutable containers; the nodes in it are added to ``inputs`` in order of appearance."""
    kind = type(value)
    if isinstance(value, Node):
        inputs[value] = None
        return value
    if kind in ATOMS:
        return value
    if kind is tuple:
        return tuple([freeze(item, inputs) for item in value])
    if kind is list or kind is immutable_list:
        return immutable_list([freeze(item, inputs) for item in value])
    if kind is dict or kind is immutable_dict:
        return immutable_dict([(key, freeze(item, inputs)) for key, item in value.items()])

    def note(leaf: Any) -> Any:
        if isinstance(leaf, Node):
            inputs[leaf] = None
        return leaf

    return map_leaves(value, note)


def first_symbolic_number(value: Any) -> Any:
    """Return the first symbolic number in an argument: a number that depends on the sizes of inputs; None without."""
    if isinstance(value, (list, tuple)):
        found = (first_symbolic_number(item) for item in value)
        return next((number for number in found if number is not None), None)
    if isinstance(value, dict):
        return first_symbolic_number(tuple(value.values()))
    return value if isinstance(value, SYMBOLIC_NUMBERS) else None


def warn_of_symbolic_numbers(
    op: str, target: object, args: tuple[Argument, ...] | None, kwargs: dict[str, Argument] | None
) -> None:
    """Warn if an argument of a new node is a symbolic number, which is no part of the graph."""
    number = first_symbolic_number((args, kwargs))
    if number is not None:
        warnings.warn(
            f"Raw {type(number).__name__} value ({number}) passed as argument to "
            f"Graph.create_node(op='{op}', target={target}). "
            f"Use create_*_node() helpers for tensor metadata queries "
            f"or materialize_symints() for general symbolic expressions.",
            stacklevel=3,
        )

"""What a symbolic value is for some inputs: the recorded operations are run on tensors without data."""

import inspect
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.fx
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.node import map_aggregate, map_arg
from torch.utils import _pytree as pytree

_CHANGES = (operator.setitem, operator.delitem)
_CONCRETE = (
    *(type(None), bool, int, float, complex, str, torch.Size),
    *(torch.dtype, torch.device, torch.finfo, torch.iinfo),
)
"""The types of what stands for itself in what a call gives."""

UNKNOWN = object()
"""Stands for a value that cannot be had."""


class Feed:
    """The inputs of a model as fake tensors on the CPU, and its parameters likewise.

    Args:
        root: The model.
        inputs: Its positional arguments, or its arguments by name; None if there are none.
    """

    def __init__(self, root: Any, inputs: tuple[Any, ...] | Mapping[str, Any] | None) -> None:
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        self._fakes: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.arguments: dict[str, Any] | None = None
        if inputs is not None:
            function = type(root).forward if isinstance(root, nn.Module) else root
            signature = inspect.signature(function)
            given = (root, *(inputs if isinstance(inputs, tuple) else ()))
            bound = signature.bind(
                *(given if isinstance(root, nn.Module) else given[1:]),
                **({} if isinstance(inputs, tuple) else inputs),
            )
            bound.apply_defaults()
            self.arguments = {name: self.fake(value) for name, value in bound.arguments.items()}

    def fake(self, value: Any) -> Any:
        """Return a value with all tensors in it replaced by fake ones."""
        return pytree.tree_map_only(torch.Tensor, self._fake_tensor, value)

    def call(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        """Call a module with fake parameters."""
        state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        fakes = {name: self._fake_tensor(tensor) for name, tensor in state.items()}
        return torch.func.functional_call(module, fakes, args, kwargs)

    def argument(self, target: str) -> Any:
        """The value of a placeholder."""
        if self.arguments is None:
            return UNKNOWN
        return self.arguments.get(target.lstrip("*"), UNKNOWN)

    def _fake_tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        known = self._fakes.get(id(tensor))
        if known is None:
            with self.mode, torch.no_grad():
                made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
            known = self._fakes[id(tensor)] = (tensor, made)
        return known[1]


class Values:
    """The values of a graph's nodes, each computed when it is first asked for."""

    def __init__(self, feed: Feed, root: nn.Module, opaque: Any, order: Mapping[torch.fx.Node, int]) -> None:
        """Take the feed, the graph's module, the target whose calls have no value, and the order of the nodes."""
        self._feed = feed
        self._root = root
        self._opaque = opaque
        self._order = order
        self._known: dict[torch.fx.Node, Any] = {}

    def of(self, node: torch.fx.Node) -> Any:
        """The value of a node, or `UNKNOWN`."""
        for each in sorted(_ancestors(node, self._known), key=self._order.__getitem__):
            self._known[each] = self._value(each)
        return self._known[node]

    def _value(self, node: torch.fx.Node) -> Any:
        if node.op == "placeholder":
            return self._feed.argument(str(node.target))
        if any(self._known[used] is UNKNOWN for used in node.all_input_nodes) or node.target is self._opaque:
            return UNKNOWN
        args = map_arg(node.args, self._known.__getitem__)
        kwargs = map_arg(node.kwargs, self._known.__getitem__)
        try:
            return self._computed(node, args, kwargs)
        except Exception:  # noqa: BLE001 - whatever an operation raises, its value cannot be had.
            return UNKNOWN

    def _computed(self, node: torch.fx.Node, args: Any, kwargs: Any) -> Any:
        args = map_aggregate(args, lambda leaf: self._feed.fake(leaf) if isinstance(leaf, torch.Tensor) else leaf)
        with self._feed.mode, torch.no_grad():
            match node.op:
                case "get_attr":
                    found: Any = self._root
                    for name in str(node.target).split("."):
                        found = getattr(found, name)
                    return self._feed.fake(found)
                case "call_module":
                    return self._feed.call(self._root.get_submodule(str(node.target)), args, kwargs)
                case "call_method":
                    owner, *rest = args
                    return getattr(owner, str(node.target))(*rest, **kwargs)
                case _:
                    assert callable(node.target)
                    return node.target(*args, **kwargs)


def spread(known: Any, value: torch.fx.Proxy, obscure: Callable[[torch.fx.Node], None]) -> Any:
    """A symbolic value in the structure that it is known to have; `obscure` is told what has none that helps."""
    match known:
        case torch.Tensor():
            return value
        case _ if isinstance(known, _CONCRETE):
            return known
        case tuple() if hasattr(known, "_fields"):
            return type(known)(*(spread(item, value[index], obscure) for index, item in enumerate(known)))
        case tuple() | list() if type(known) in (tuple, list):
            return type(known)(spread(item, value[index], obscure) for index, item in enumerate(known))
        case dict() if type(known) is dict:
            return {key: spread(item, value[key], obscure) for key, item in known.items()}
        case _:
            obscure(value.node)
            return value


def _ancestors(node: torch.fx.Node, known: Mapping[torch.fx.Node, Any]) -> Iterator[torch.fx.Node]:
    seen, pending = {node}, [node]
    while pending:
        current = pending.pop()
        if current in known:
            continue
        yield current
        changes = (user for user in current.users if _is_change(user) and user.args[0] is current)
        fresh = [other for other in (*current.all_input_nodes, *changes) if other not in seen]
        seen.update(fresh)
        pending.extend(fresh)


def _is_change(node: torch.fx.Node) -> bool:
    """Whether an operation changes its first argument in place."""
    is_method = node.op == "call_method" and re.fullmatch(r".*[^_]_", str(node.target)) is not None
    return bool(node.args) and (is_method or node.target in _CHANGES)

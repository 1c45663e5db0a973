"""Nodes that stand for calls which could not be traced, and leaf functions that nobody has registered.

What such a call gives may be anything, a tuple or a number as well as a tensor. Where the inputs tell what it is, its
structure is made of symbolic parts; where they do not, the node is *blind*: what the code does with it says nothing.
"""

import functools
import operator
import sys
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, ValuesView
from dataclasses import dataclass, field
from types import BuiltinFunctionType
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from fxengine.classification import node_of
from fxengine.diagnosis import ForeignFunction
from fxengine.exploration.values import UNKNOWN, Values
from fxengine.node import Node
from fxengine.patching import Patches
from fxengine.proxy import Attribute, Proxy
from fxengine.tracer import Tracer
from fxengine.wrapping import find_proxy

_CONCRETE: Final = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    torch.dtype,
    torch.device,
    torch.Size,
    torch.finfo,
    torch.iinfo,
)
"""The types of what stands for itself."""


class Outside:
    """Stands in a graph for a module that is not part of the root; calls it."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.__name__ = type(module).__name__
        self.__module__ = type(module).__module__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module."""
        return self.module(*args, **kwargs)


@dataclass(slots=True)
class Leaves:
    """Functions that cannot take symbolic values, and are recorded instead of called. Mutable; one for all runs."""

    functions: dict[tuple[int, str], tuple[dict[str, Any], str]] = field(
        default_factory=dict[tuple[int, str], tuple[dict[str, Any], str]]
    )

    @classmethod
    def named(cls, names: Iterable[ForeignFunction]) -> "Leaves":
        """Return the leaves that were found before, those of them that there still are."""
        leaves = cls()
        for module, name in names:
            namespace = vars(sys.modules[module]) if module in sys.modules else {}
            if callable(namespace.get(name)):
                leaves.add(namespace, name)
        return leaves

    @property
    def names(self) -> tuple[ForeignFunction, ...]:
        """Those that can be found again."""
        found = ((str(namespace.get("__name__")), namespace, name) for namespace, name in self.functions.values())
        return tuple(
            (module, name)
            for module, namespace, name in found
            if module in sys.modules and vars(sys.modules[module]) is namespace
        )

    def add(self, namespace: dict[str, Any], name: str) -> bool:
        """Let a global function be a leaf; whether it was none."""
        key = id(namespace), name
        if key in self.functions:
            return False
        self.functions[key] = namespace, name
        return True

    def patch(self, patches: Patches, record: Callable[[Callable[..., Any], Any, Any], Any]) -> None:
        """Have calls of the functions recorded by `record`, as long as the patches are held."""
        for namespace, name in self.functions.values():
            original = namespace[name]

            @functools.wraps(original)
            def stand_in(*args: Any, _original: Any = original, **kwargs: Any) -> Any:
                if find_proxy((args, kwargs)) is None:
                    return _original(*args, **kwargs)
                return record(_original, args, kwargs)

            patches.item(namespace, name, original, lambda _, made=stand_in: made)


class StandIns:
    """The stand-ins of one run. Mutable.

    Attributes:
        nodes: The nodes that stand for calls.
        blind: Those of them whose values may be anything.
    """

    def __init__(self, tracer: Tracer, values: Values) -> None:
        self.nodes: set[Node] = set()
        self.blind: set[Node] = set()
        self._tracer = tracer
        self._values = values

    def for_module(self, module: nn.Module, path: str | None, args: Any, kwargs: Any) -> Any:
        """What a call of a module gives that was not traced; `path` is None if the module is not part of the root.

        Raises:
            Exception: The graph cannot hold any of its arguments.
        """
        if path:
            return self._recorded("call_module", path, args, kwargs)
        return self._recorded("call_function", Outside(module), args, kwargs)

    def for_function(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """What a call of a leaf function gives."""
        is_torchs = isinstance(function, BuiltinFunctionType) and (function.__module__ or "torch").startswith("torch")
        return self._recorded("call_function", function, args, kwargs, gives_tensor=is_torchs)

    def is_unknown(self, subject: Any) -> bool:
        """Whether a value, or what it is a part of, may be anything."""
        if not self.blind:
            return False
        while isinstance(subject, Attribute) and subject._node is None:
            subject = subject.root
        node = node_of(subject) if isinstance(subject, Proxy | Node) else None
        while node is not None and node not in self.blind:
            part = node.target in (getattr, operator.getitem)
            node = node.args[0] if part and isinstance(node.args[0], Node) else None
        return node is not None

    def _recorded(self, kind: str, target: Any, args: Any, kwargs: Any, *, gives_tensor: bool = False) -> Any:
        """The value of a new node, with the arguments of the call, or with those that the graph can hold."""
        try:
            value = self._tracer.create_proxy(kind, target, args, kwargs)
        except Exception:  # noqa: BLE001 - what the graph cannot hold may raise anything.
            leaves = pytree.tree_leaves((args, kwargs))
            value = self._tracer.create_proxy(
                kind, target, tuple(each for each in leaves if isinstance(each, Proxy)), {}
            )
        self.nodes.add(value.node)
        known = self._values.of(value)
        if known is UNKNOWN:
            if not gives_tensor:
                self.blind.add(value.node)
            return value
        return self._spread(known, value)

    def _spread(self, known: Any, value: Proxy) -> Any:
        """A symbolic value in the structure that it is known to have."""
        if isinstance(known, Tensor):
            return value
        if isinstance(known, _CONCRETE):
            return known
        if type(known) in {tuple, list}:
            return type(known)(self._spread(item, value[index]) for index, item in enumerate(known))
        if type(known) is dict:
            return {key: self._spread(item, value[key]) for key, item in known.items()}
        if isinstance(known, tuple) and hasattr(known, "_fields"):
            return type(known)(*(self._spread(item, value[index]) for index, item in enumerate(known)))
        self.blind.add(value.node)
        return value


def items_of(value: Proxy, known: Any) -> Iterator[Any] | None:
    """The items of a symbolic value that is known to be of some structure; None where that is no help."""
    if isinstance(known, Tensor):
        known = range(known.shape[0]) if known.dim() else ()
        return iter([value[index] for index in known])
    if isinstance(known, tuple | list):
        return iter([value[index] for index in range(len(known))])
    node = node_of(value)
    if isinstance(known, KeysView | dict | range | str | set | frozenset):
        return iter(list(known))
    if isinstance(known, ValuesView | ItemsView) and node is not None and isinstance(node.args[0], Node):
        mapping = value.tracer.proxy(node.args[0])
        pairs = [(key, mapping[key]) for key in getattr(known, "mapping", ())]
        return iter(pairs if isinstance(known, ItemsView) else [item for _, item in pairs])
    return None

"""Sizes and numbers that only data can tell, and that decide nothing: they are values of the graph.

How many items a mask selects is not known without data. What is computed from such a selection goes on all the same,
as long as no code decides anything by its size: its shape has a symbol in that place, of torch's shape environment,
and a size that code reads is a number with a symbol in it, which becomes nodes where it is used. What torch assumed of
such numbers, for instance that two of them are equal, the graph asserts.

None of this costs anything where there are no such numbers: torch's fake tensors, which can compute with symbols, are
loaded with the first, and only what has symbols in it is given to them.
"""

import functools
import importlib
import operator
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

import torch
from torch import Tensor
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
)
from torch.utils import _pytree as pytree

from fxengine.capturing.held import Place
from fxengine.capturing.objects import with_tensors
from fxengine.errors import TraceError
from fxengine.node import Node
from fxengine.node_list import NO_KWARGS
from fxengine.symbolic_sizes import SymbolMaterializer

if TYPE_CHECKING:
    from fxengine.graph import Graph

__all__ = ["NUMBERS", "SELECTING", "DataDependent", "Unknown", "asks_for_a_number", "is_loaded"]

NUMBERS: Final = frozenset({torch.SymInt, torch.SymFloat, torch.SymBool})
"""The types of numbers with symbols in them."""

_OF_TRUTHS: Final = re.compile(r"for -: '(?:(?:Une|E)quality|(?:Strict)?(?:Less|Greater)Than|And|Or|Not)' and ")
"""What torch says where it compares one truth that only data can tell with another, as if they were numbers."""

SELECTING: Final = frozenset({
    *(getattr(torch, name) for name in ("nonzero", "argwhere", "masked_select", "unique", "unique_consecutive")),
    *(getattr(Tensor, name) for name in ("nonzero", "argwhere", "masked_select", "unique", "unique_consecutive")),
    Tensor.item,
    Tensor.tolist,
})  # fmt: skip
"""Questions about data whose answers may be values of the graph."""

_ENVIRONMENT: Final = "torch.fx.experimental.symbolic_shapes"
"""Where torch has its algebra of sizes, which loads its compiler: that takes two seconds."""

_ALGEBRA: Final = ("torch.utils._sympy.interp", "torch.utils._sympy.reference")
"""What carries out expressions of sizes."""


class DataDependent(TraceError):  # noqa: N818 - named as the rules are.
    """Code asked for something that only data can tell, and the data depend on the inputs.

    Attributes:
        sources: The inputs that a number depends on which was asked for, as bits; 0 where it was no number.
    """

    sources = 0


class Append(Protocol):
    """What makes a node at the end of the graph."""

    def __call__(
        self,
        opcode: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        label: str,
        used: Iterable[Node],
    ) -> Node: ...


def is_loaded() -> bool:
    """Whether this process has loaded already what such numbers need."""
    return _ENVIRONMENT in sys.modules and "torch._dynamo" in sys.modules


def asks_for_a_number(error: BaseException) -> bool:
    """Whether an error says that code wanted to see a number that only data can tell."""
    return (
        isinstance(error, DataDependentOutputException | DynamicOutputShapeException | UnsupportedFakeTensorException)
        or type(error).__name__ == "GuardOnDataDependentSymNode"
        or (isinstance(error, TypeError | IndexError) and any(kind.__name__ in str(error) for kind in NUMBERS))
        or (isinstance(error, TypeError) and _OF_TRUTHS.search(str(error)) is not None)
    )


class Unknown:
    """The symbols of one capture, and where the graph has their values. Mutable."""

    def __init__(self, graph: "Graph", device: torch.device, append: Append, node_at: Callable[[Place], Node]) -> None:
        """Make nodes in `graph` with `append`; `node_at` returns the node of a place, `device` is where tensors lie."""
        self._graph = graph
        self._device = device
        self._append = append
        self._node_at = node_at
        self._fakes: dict[int, tuple[Tensor, FakeTensor]] = {}
        self._originals: dict[int, Tensor] = {}
        self._found: dict[Any, tuple[Place, int | None]] = {}
        self._sources: dict[Any, int] = {}
        environment = importlib.import_module(_ENVIRONMENT).ShapeEnv()
        self._environment = environment
        self._mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=environment)
        for name in _ALGEBRA:
            importlib.import_module(name)
        self._materializer = SymbolMaterializer(graph)

    def concerns(self, values: Iterable[Any]) -> bool:
        """Whether there are symbols in values, or in shapes of tensors among them."""
        for leaf in pytree.tree_leaves(list(values)):
            if isinstance(leaf, Tensor):
                if _has_symbols(leaf):
                    return True
            elif type(leaf) in NUMBERS or (type(leaf) is slice and self.concerns((leaf.start, leaf.stop, leaf.step))):
                return True
        return False

    def evaluate(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return what a function returns for arguments without data: tensors without, whose shapes have symbols.

        Raises:
            Exception: Whatever the function raises, also because it wants to decide something by a symbol.
        """
        if kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": self._device}
        if function is Tensor.tolist:
            function = FakeTensor.tolist
        args = tuple(map(_with_numbers, args))
        given, named = with_tensors(self._faked, (tuple(args), dict(kwargs)))
        with enable_python_dispatcher(), self._mode:
            result = function(*given, **named)
        return with_tensors(self._plain, result)

    def forget(self) -> None:
        """Take nothing for the same as before: a tensor was changed in place."""
        self._fakes.clear()
        self._originals.clear()

    def note(self, result: Any, place: Place, sources: int) -> None:
        """Note at which place of the graph the symbols in a result are found."""
        if type(result) in NUMBERS:
            self._found.setdefault(result.node.expr, (place, None))
            self._sources.setdefault(result.node.expr, sources)
        elif isinstance(result, Tensor):
            if place.node is not None and _has_symbols(result):
                place.node.tensor = None  # What is known of tensors are numbers.
            for dim, size in enumerate(_sizes(result)):
                if type(size) is torch.SymInt:
                    self._found.setdefault(size.node.expr, (place, dim))
                    for symbol in size.node.expr.free_symbols:
                        self._sources[symbol] = self._sources.get(symbol, 0) | sources
        elif isinstance(result, list | tuple):
            for index, item in enumerate(result):
                self.note(item, Place(None, place, index), sources)

    def node_of(self, number: Any) -> Any:
        """Return the node that computes a number; the number itself if it has no symbols after all.

        Raises:
            DataDependent: The graph does not tell it.
        """
        return self._node_of(number.node.expr)

    def sources_of(self, number: Any) -> int:
        """Return the inputs that a number depends on, as bits."""
        sources = 0
        for symbol in number.node.expr.free_symbols:
            sources |= self._sources.get(symbol, 0)
        return sources

    @property
    def sources(self) -> int:
        """The inputs that any of the numbers depends on, as bits."""
        return functools.reduce(operator.or_, self._sources.values(), 0)

    def assertions(self) -> list[tuple[Node, str]]:
        """Return nodes that tell whether what was assumed of the numbers holds, each with a message."""
        found: dict[Any, Any] = {}
        for assumed in list(self._environment.deferred_runtime_asserts.values()):
            for each in assumed:
                if all(symbol in self._found for symbol in each.expr.free_symbols):
                    found[each.expr] = self._node_of(each.expr)
        return [
            (node, f"the model was captured for {expression}")
            for expression, node in found.items()
            if isinstance(node, Node)
        ]

    def _node_of(self, expression: Any) -> Any:
        materializer = self._materializer
        # The size of a tensor is what it is, however it came about.
        needed = (expression,) if expression in self._found else expression.free_symbols
        for each in needed:
            if each not in materializer.terms:
                found = self._found.get(each)
                if found is None:
                    raise DataDependent(f"what `{each}` stands for, a size that data tell, is not known in the graph")
                materializer.define(each, self._number_at(*found))
        return materializer.evaluate(expression)

    def _number_at(self, place: Place, dim: int | None) -> Node:
        """The node of the number at a place, or of a size of the tensor there."""
        node = self._node_at(place)
        return node if dim is None else self._append("call_method", "size", (node, dim), NO_KWARGS, "size", (node,))

    def _faked(self, tensor: Tensor) -> Tensor:
        if not tensor.is_meta:
            return tensor
        known = self._fakes.get(id(tensor))
        if known is None:
            # The same for each use, so that a mask selects as many items each time.
            known = (tensor, FakeTensor(self._mode, tensor.detach(), self._device))
            self._pair(*known)
        return known[1]

    def _plain(self, tensor: Tensor) -> Tensor:
        if not isinstance(tensor, FakeTensor):
            return tensor
        original = self._originals.get(id(tensor))
        if original is None:
            original = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
            self._pair(original, tensor)
        return original

    def _pair(self, tensor: Tensor, fake: FakeTensor) -> None:
        self._fakes[id(tensor)] = (tensor, fake)
        self._originals[id(fake)] = tensor


def _with_numbers(value: Any) -> Any:
    """An index with the numbers in place of constants at which slices in it begin and end."""
    if type(value) is tuple:
        return tuple(map(_with_numbers, value))
    if type(value) is slice:
        parts = (value.start, value.stop, value.step)
        return slice(*(int(each) if isinstance(each, Tensor) and not each.is_meta else each for each in parts))
    return value


def _has_symbols(tensor: Tensor) -> bool:
    return any(type(size) is torch.SymInt for size in _sizes(tensor))


def _sizes(tensor: Tensor) -> tuple[Any, ...]:
    """The shape, whose sizes need not be the numbers that torch's types say."""
    return tuple(tensor.shape)

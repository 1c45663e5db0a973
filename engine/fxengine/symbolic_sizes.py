"""Sizes as nodes: of tensors in a graph, and of symbolic numbers, computed out of the inputs that they depend on.

A symbolic number belongs to torch's shape environment; its expression is evaluated here on ``_Term`` s, each operation
on which becomes a node. sympy is loaded wherever there are such numbers, and nowhere else.
"""

import math
import operator
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import torch

from fxengine.node import Node
from fxengine.operators import magic_methods, reflectable_magic_methods

if TYPE_CHECKING:
    from fxengine.graph import Graph

__all__ = ["SymbolMaterializer", "measure", "resolve_binding", "tensor_in_meta"]


def tensor_in_meta(node: Node) -> tuple[Any, str]:
    """Return the example of a node's value in ``meta`` and the key it is found under; None and ``val`` without."""
    for key in ("val", "example_value"):
        if key in node.meta:
            return node.meta[key], key
    return None, "val"


def measure(graph: "Graph", function: Callable[..., Any], tensor_node: Node, method: str, *dims: int) -> Node:
    """Add ``function(tensor_node, *dims)`` and return its node, with the number in ``meta`` if that is known.

    Args:
        graph: The graph.
        function: The operator.
        tensor_node: The tensor that is measured.
        method: The method of a tensor that does what the operator does.
        *dims: Which dimension, if it takes one.
    """
    node = graph.call_function(function, (tensor_node, *dims))
    value, key = tensor_in_meta(tensor_node)
    if value is not None:
        node.meta[key] = getattr(value, method)(*dims)
    return node


def resolve_binding(
    graph: "Graph", producer: Node, keypath: tuple[Any, ...], lower_symint: Callable[[torch.SymInt], Any]
) -> Node:
    """Add what leads from a node's value to the number that it brought into the world, and return its node.

    Args:
        graph: The graph.
        producer: The node.
        keypath: The way, as torch notes it in ``meta["unbacked_bindings"]``.
        lower_symint: Returns the node, or number, of a symbolic divisor.
    """
    node = producer
    keys = list(keypath)
    while keys:
        key = keys.pop(0)
        match type(key).__name__:
            case "CallMethodKey" if keys and type(keys[0]).__name__ == "SequenceKey":
                node = _call_with_index(graph, node, key.name, keys.pop(0).idx)
            case "CallMethodKey" if key.name == "storage_offset":
                node = graph.create_storage_offset_node(node)
            case "CallMethodKey":
                node = graph.call_method(key.name, (node,))
            case "SequenceKey":
                node = graph.call_function(operator.getitem, (node, key.idx))
            case "ConvertIntKey":
                node = graph.call_function(torch.sym_ite, (node, 1, 0))
            case "DivideByKey":
                divisor = lower_symint(key.divisor) if isinstance(key.divisor, torch.SymInt) else key.divisor
                node = graph.call_function(operator.floordiv, (node, divisor))
            case "InnerTensorKey":
                node = graph.call_function(getattr, (node, key.inner_name))
            case _:
                raise AssertionError(f"unrecognized keypath component {key}")
    return node


def _call_with_index(graph: "Graph", node: Node, method: str, index: int) -> Node:
    match method:
        case "size":
            return graph.create_size_node(node, index)
        case "stride":
            return graph.create_stride_node(node, index)
        case _:
            return graph.call_method(method, (node, index))


class _Term:
    """The value of a node in an expression: what is done with it becomes a node."""

    def __init__(self, node: Node) -> None:
        self.node = node

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], kinds: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> "_Term":
        del kinds, kwargs
        return _record(function, *args)

    def __floor__(self) -> "_Term":
        return _record(math.floor, self)

    def __ceil__(self) -> "_Term":
        return _record(math.ceil, self)

    def __round__(self, ndigits: int | None = None) -> "_Term":
        return _record(round, self) if ndigits is None else _record(round, self, ndigits)


def _record(function: Callable[..., Any], *operands: Any) -> _Term:
    graph = next(operand.node.graph for operand in operands if isinstance(operand, _Term))
    args = tuple(operand.node if isinstance(operand, _Term) else operand for operand in operands)
    return _Term(graph.call_function(function, args))


def _define_operator(name: str) -> None:
    function: Callable[..., Any] | None = getattr(operator, name, None)
    if function is None:
        return
    plain = name.rstrip("_")
    setattr(_Term, f"__{plain}__", lambda self, *others: _record(function, self, *others))
    if name in reflectable_magic_methods and name != "getitem":
        setattr(_Term, f"__r{plain}__", lambda self, other: _record(function, other, self))


for _name in magic_methods:
    _define_operator(_name)


class SymbolMaterializer:
    """Turns symbolic numbers into nodes of one graph; common parts of their expressions become one node.

    A symbol is found in an input that is one itself, in a size of an input (which may be a multiple of it), or, if it
    has no value before the program runs, at the node that brought it into the world.
    """

    def __init__(self, graph: "Graph") -> None:
        self.graph = graph
        self.terms: dict[Any, _Term] = {}
        self.sizes: dict[Any, tuple[Node, int, int]] = {}
        self.bindings: dict[Any, tuple[Node, tuple[Any, ...]]] = {}
        self.sympy: Any = sys.modules.get("sympy")
        self.interp: Any = sys.modules.get("torch.utils._sympy.interp")
        self.reference: Any = sys.modules.get("torch.utils._sympy.reference")

    def discover(self) -> Self:
        """Look for the symbols' sources in the graph, and return the materializer."""
        for node in self.graph.nodes:
            if node._op != "placeholder":
                for symbol, keypath in (node.meta.get("unbacked_bindings") or {}).items():
                    self.bindings.setdefault(symbol, (node, tuple(keypath)))
                continue
            value = _known_value(node)
            if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                expression = value.node.expr
                if isinstance(expression, self.sympy.Symbol):
                    self.terms.setdefault(expression, _Term(node))
            elif isinstance(value, torch.Tensor):
                for dim, size in enumerate(value.shape):
                    if isinstance(size, torch.SymInt):
                        self._note_size(size.node.expr, node, dim)
        return self

    def materialize(self, number: Any) -> Node | int:
        """Return the node of a symbolic number, made now if there is none; a number that is none stays one."""
        if not isinstance(number, torch.SymInt):
            if isinstance(number, int):
                return number
            raise TypeError(f"materialize_symints: expected SymInt or int, got {type(number).__name__} ({number!r})")
        expression = number.node.expr
        if expression.is_number:
            return int(number)
        for symbol in expression.free_symbols:
            self._ensure_produced(symbol)
        result = self._term(expression)
        if not isinstance(result, _Term):
            return int(result)
        _note_value(result.node, number)
        return result.node

    def define(self, expression: Any, node: Node) -> None:
        """Let a node be the value of a symbol, or of an expression."""
        self.terms[expression] = _Term(node)

    def evaluate(self, expression: Any) -> Any:
        """Return the node of an expression of defined symbols; a number if it has none."""
        result = self._term(expression)
        return result.node if isinstance(result, _Term) else result

    def _note_size(self, expression: Any, node: Node, dim: int) -> None:
        if isinstance(expression, self.sympy.Symbol):
            self.sizes.setdefault(expression, (node, dim, 1))
        elif isinstance(expression, self.sympy.Mul) and len(expression.args) == 2:
            factor, symbol = sorted(expression.args, key=lambda part: isinstance(part, self.sympy.Symbol))
            if isinstance(symbol, self.sympy.Symbol) and isinstance(factor, self.sympy.Integer) and int(factor) > 0:
                self.sizes.setdefault(symbol, (node, dim, int(factor)))

    def _ensure_produced(self, symbol: Any) -> None:
        if symbol in self.terms:
            return
        if symbol in self.sizes:
            self.terms[symbol] = _Term(self._size(*self.sizes[symbol]))
            return
        if symbol not in self.bindings:
            raise AssertionError(f"materialize_symints: no producer for {symbol}")
        producer, keypath = self.bindings[symbol]
        for key in keypath:
            if isinstance(getattr(key, "divisor", None), torch.SymInt):
                for other in key.divisor.node.expr.free_symbols:
                    self._ensure_produced(other)
        self.terms[symbol] = _Term(resolve_binding(self.graph, producer, keypath, self._divisor))

    def _size(self, tensor: Node, dim: int, factor: int) -> Node:
        """Return the node of a symbol that is the ``factor``-th part of a tensor's size."""
        node = self.graph.call_function(torch.ops.aten.sym_size.int, (tensor, dim))
        value = _known_value(tensor)
        if isinstance(value, torch.Tensor):
            _note_value(node, value.shape[dim])
        if factor == 1:
            return node
        part = self.graph.call_function(operator.floordiv, (node, factor))
        if isinstance(value, torch.Tensor):
            _note_value(part, value.shape[dim] // factor)
        return part

    def _divisor(self, number: torch.SymInt) -> Any:
        return self.evaluate(number.node.expr)

    def _term(self, expression: Any) -> Any:
        """Return the value of an expression: a term, or a number."""
        if expression in self.terms:
            return self.terms[expression]
        analysis = self.reference.PythonReferenceAnalysis
        if not expression.args:
            return self.interp.sympy_interp(analysis, self.terms, expression)
        result = self.interp._run_sympy_handler(analysis, [self._term(part) for part in expression.args], expression)
        if isinstance(result, _Term):
            self.terms[expression] = result
            _evaluate(result.node)
        return result


def _known_value(node: Node) -> Any:
    value = node.meta.get("val")
    return node.meta.get("example_value") if value is None else value


def _note_value(node: Node, value: Any) -> None:
    """Note a node's value under the key, or keys, that its inputs have theirs under."""
    node.meta["val"] = value
    if any(isinstance(arg, Node) and "example_value" in arg.meta for arg in node._args):
        node.meta["example_value"] = value


def _evaluate(node: Node) -> None:
    """Note the value of a node that computes with symbolic numbers, if its inputs' values allow that."""
    target: Any = node._target
    args = [_known_value(arg) if isinstance(arg, Node) else arg for arg in node._args]
    if None in args:
        return
    try:
        value = target(*args)
    except (TypeError, ValueError, AttributeError):
        return
    _note_value(node, value)

"""What a shape environment has to have checked when the graph runs becomes nodes of the graph.

While a graph with symbolic sizes is captured, torch assumes things about numbers that are known only when it runs, and
keeps the assumptions in the shape environment. Here they become calls of ``aten._assert_scalar``, each where what it is
about has come to be. Along the way equal symbolic numbers become one node, and sizes of intermediate tensors are
computed out of sizes of inputs, so that the tensors themselves may be dead.

Symbolic numbers and their environment are torch's; what this module has to know about them it asks where the
environment comes from.
"""

import contextlib
import dis
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Final

import sympy
import torch
from sympy.logic.boolalg import BooleanAtom
from torch._subclasses.meta_utils import is_sparse_any
from torch.utils import _pytree as pytree
from torch.utils._sympy.interp import _run_sympy_handler, sympy_interp
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.reference import OptimizedPythonReferenceAnalysis, PythonReferenceAnalysis
from torch.utils._sympy.value_ranges import ValueRanges

from fxengine.arguments import SYMBOLIC_NUMBERS
from fxengine.graph_module import GraphModule
from fxengine.module_state import _get_attr
from fxengine.node import Node
from fxengine.proxy import GraphAppendingTracer, Proxy

__all__ = ["insert_deferred_runtime_asserts"]

_ASSERT: Final = torch.ops.aten._assert_scalar.default
_USERS_ASSERTS: Final = (torch._check, torch._assert_scalar)  # pyright: ignore[reportPrivateImportUsage]
_RANGES: Final = (torch.ops.aten.sym_constrain_range.default, torch.ops.aten.sym_constrain_range_for_size.default)
_BY_THE_USER: Final = "_fx_runtime_assert_preserve"
"""The entry of ``meta`` that marks an assertion which somebody wrote down: it stays even if it says nothing new."""
_NO_EFFECT: Final = frozenset({"CACHE", "COPY_FREE_VARS", "EXTENDED_ARG", "NOP", "RESUME"})


def insert_deferred_runtime_asserts(gm: GraphModule, shape_env: Any, name: str, export: bool = False) -> None:
    """Let ``gm``'s graph check, when it runs, what was assumed about symbolic numbers while it was captured.

    Checks that are in the graph already are not repeated, bounds of a number are checked once, and what is always true
    is not checked at all. Checks that the user wrote, by ``torch._check``, stay.

    Args:
        gm: The module; its graph is changed in place. Example values are in its nodes' ``meta``.
        shape_env: The environment of the symbolic numbers among them.
        name: What the graph is called in messages; not used here.
        export: Compute with functions that export takes, where compilers have faster ones.
    """
    del name
    inserter = _Inserter(gm, shape_env, PythonReferenceAnalysis if export else OptimizedPythonReferenceAnalysis)
    nodes = list(gm.graph.nodes)
    inputs = len(gm.graph.find_nodes(op="placeholder"))
    for index, node in enumerate(nodes[:-1]):
        # The sizes of inputs are read behind all of them.
        with gm.graph.inserting_before(nodes[max(index + 1, inputs)]):
            inserter.visit(node, is_first=index == inputs)
    inserter.erase_unused_symbols()


class _Inserter:
    """The state of the pass: which expressions have nodes, which assertions are waiting, and which were made."""

    def __init__(self, module: GraphModule, env: Any, analysis: type[Any]) -> None:
        self.module = module
        self.graph = module.graph
        self.env = env
        self._analysis = analysis
        self._shapes: Any = sys.modules[type(env).__module__]
        self._tracer = GraphAppendingTracer(self.graph)
        self._key = next(
            (key for node in self.graph.nodes for key in ("example_value", "val") if key in node.meta), "val"
        )
        self._values: dict[Any, Proxy] = {}
        self._waiting: dict[Any, list[Any]] = {
            symbol: [*asked] for symbol, asked in env.deferred_runtime_asserts.items()
        }
        self._added: set[Any] = set()
        self._bounded: set[Any] = set()
        conditions = [_condition(node) for node in self.graph.nodes if _is_by_the_user(node)]
        self._by_users = {_get_sym_val(each) for each in conditions if isinstance(each, Node)} - {None}

    def visit(self, node: Node, *, is_first: bool) -> None:
        """Do what is to be done at a node; new nodes go to the insertion point."""
        if node.op == "placeholder":
            self._read_symbols(node)
        if is_first:
            self._assert_all(self._waiting.pop(None, []), node)
        if node.target in (*_USERS_ASSERTS, _ASSERT):
            self._visit_assert(node)
        expression = _get_sym_val(node)
        if node.op != "placeholder" and expression is not None:
            self._share(node, expression)
        if node.target in _RANGES:
            self.graph.erase_node(node)
        self._visit_new_symbols(node)

    def erase_unused_symbols(self) -> None:
        """Erase what was added for symbols that nothing needs."""
        for expression, value in self._values.items():
            node = value.node
            if isinstance(expression, sympy.Symbol) and node.op != "placeholder" and not node.users:
                self.graph.erase_node(node)

    def _read_symbols(self, node: Node) -> None:
        """Find the symbols that an input is, or that it has as sizes, and compute each once."""
        value = _get_example_value(node)
        self._read_symbol(node, value, lambda: node)
        if not isinstance(value, torch.Tensor):
            return
        for dim, size in enumerate(value.size()):
            self._read_symbol(node, size, lambda dim=dim: self.graph.create_size_node(node, dim))
        if not is_sparse_any(value):
            for dim, stride in enumerate(value.stride()):
                self._read_symbol(node, stride, lambda dim=dim: self.graph.create_stride_node(node, dim))
            self._read_symbol(node, value.storage_offset(), lambda: self.graph.create_storage_offset_node(node))

    def _read_symbol(self, origin: Node, number: Any, read: Callable[[], Node]) -> None:
        if not isinstance(number, torch.SymInt) or not hasattr(number.node, "expr"):
            return
        expression_of = getattr(self._shapes, "_get_placeholder_expr", lambda symbolic: symbolic.expr)
        symbol = expression_of(number.node)
        if isinstance(symbol, sympy.Symbol) and symbol not in self._values:
            with self._described_like(origin):
                self._values[symbol] = Proxy(read(), self._tracer)

    def _visit_assert(self, node: Node) -> None:
        """Erase an assertion that says nothing, or nothing new; give one of the user's the form that stays."""
        condition = _condition(node)
        expression = _get_sym_val(condition) if isinstance(condition, Node) else None
        known = expression is not None and expression in self._values and expression in self._added
        by_the_user = _is_by_the_user(node)
        if condition == True or (known and not by_the_user):  # noqa: E712 - a symbolic truth is equal, not identical.
            self.graph.erase_node(node)
            if isinstance(condition, Node) and not condition.users:
                self.graph.erase_node(condition)
            return
        if by_the_user and node.target is not _ASSERT:
            self._replace_by_assert(node, condition, expression)
        if expression is not None:
            self._added.add(expression)

    def _replace_by_assert(self, node: Node, condition: Any, expression: Any) -> None:
        with self.graph.inserting_before(node):
            replacement = self.graph.call_function(_ASSERT, (condition, self._message(node, condition, expression)))
        replacement.meta.update(node.meta)
        replacement.meta[_BY_THE_USER] = True
        node.replace_all_uses_with(replacement)
        self.graph.erase_node(node)

    def _message(self, node: Node, condition: Any, expression: Any) -> str:
        """Return what an assertion of the user's says, as far as that is known without running user code."""
        keyword = "message" if node.target is torch._check else "assert_msg"
        message: Any = node.args[1] if len(node.args) > 1 else node.kwargs.get(keyword)
        if isinstance(message, Node) and message.op == "get_attr":
            message = _get_attr(self.module, str(message.target))
            message = _constant_result(message) if callable(message) else message
        return message if isinstance(message, str) else _failed(expression, condition)

    def _share(self, node: Node, expression: Any) -> None:
        """Use one node for equal numbers; compute a size of an intermediate tensor out of sizes of inputs."""
        bindings = self._shapes.resolve_unbacked_bindings(self.env, node.meta.get("unbacked_bindings", {}))
        brings_new = any(symbol not in self._values for symbol in bindings)
        measures = self._measures_intermediate(node, expression)
        computable = measures and all(symbol in self._values for symbol in expression.free_symbols)
        if (expression in self._values or computable) and not brings_new:
            if measures:
                with self._described_like(node):
                    self._values[expression] = self._value_of(expression)
            node.replace_all_uses_with(self._values[expression].node)
            self.graph.erase_node(node)
        elif expression not in self._values and not isinstance(expression, (sympy.Number, BooleanAtom)):
            self._values[expression] = Proxy(node, self._tracer)

    def _measures_intermediate(self, node: Node, expression: Any) -> bool:
        if isinstance(expression, sympy.Number) or self._shapes._has_uninterpretable_sympy_function(expression):
            return False
        return any(
            isinstance(arg, Node)
            and arg.op != "placeholder"
            and isinstance(_get_example_value(arg), (torch.Tensor, torch.Size))
            for arg in node.args
        )

    def _visit_new_symbols(self, node: Node) -> None:
        """Get hold of the numbers that a node brings into the world, and assert what is to hold of them."""
        found = self._shapes.resolve_unbacked_bindings(self.env, node.meta.get("unbacked_bindings")) or {}
        for symbol, keypath in found.items():
            if symbol not in self._values:
                with self._described_like(node):
                    number = self.graph._resolve_unbacked_binding(node, tuple(keypath), lower_symint=self._divisor)
                    self._values[symbol] = Proxy(number, self._tracer)
        for symbol in found:
            waiting = self._waiting.pop(symbol, [])
            # Bounds first: whoever captures the graph anew has to know them when it meets the assertions.
            if symbol not in self._bounded:
                self._assert_bounds(symbol, node)
                self._bounded.add(symbol)
                self._assert_all(waiting, node)

    def _divisor(self, number: torch.SymInt) -> Any:
        value = self._value_of(number.node.expr)
        return value.node if isinstance(value, Proxy) else value

    def _assert_bounds(self, symbol: Any, node: Node) -> None:
        bounds = self.env.var_to_range[symbol]
        if bounds.is_int and bounds.upper == sys.maxsize - 1:  # No bound, written as one.
            bounds = ValueRanges(bounds.lower, int_oo)
        if self.env._default_unspecified_value_range().issubset(bounds):
            return
        lower, upper = _number(bounds.lower, bounds), _number(bounds.upper, bounds)
        relations = [symbol >= lower] if lower is not None else []
        relations += [symbol <= upper] if upper is not None else []
        with self._described_like(node):
            for relation in relations:
                if relation not in self._by_users:
                    self._assert(relation)
                self._added.add(relation)

    def _assert_all(self, assertions: Iterable[Any], node: Node) -> None:
        """Add assertions; those that need a symbol which is still to come wait for it."""
        for assertion in assertions:
            expression = assertion.expr
            if expression in self._by_users:
                self._added.add(expression)
            elif not self._is_superfluous(expression):
                missing = self._shapes.free_symbols(expression) - self._values.keys()
                if missing:
                    self._waiting.setdefault(min(missing, key=str), []).append(assertion)
                    continue
                with self._described_like(node):
                    self._assert(expression)
                self._added.add(expression)

    def _is_superfluous(self, expression: Any) -> bool:
        """Whether an expression was asserted, is a bound of a number whose bounds were, or cannot be computed."""
        if expression in self._added or self._shapes._has_uninterpretable_sympy_function(expression):
            return True
        symbols = expression.free_symbols
        return len(symbols) == 1 and symbols <= self._bounded and _is_bound(expression)

    def _assert(self, expression: Any) -> None:
        condition = self._value_of(expression).node
        self.graph.call_function(_ASSERT, (condition, _failed(expression, condition)))

    def _value_of(self, expression: Any) -> Any:
        """Return the value of an expression, computed at the insertion point: a symbolic value, or a number."""
        if expression in self._values:
            return self._values[expression]
        if isinstance(expression, (sympy.Number, sympy.Symbol, BooleanAtom)):
            return sympy_interp(self._analysis, self._values, expression)
        parts = [self._value_of(part) for part in expression.args]
        value = self._values[expression] = _run_sympy_handler(self._analysis, parts, expression)
        return value

    @contextlib.contextmanager
    def _described_like(self, origin: Node) -> Generator[None]:
        """Give nodes that are created within the ``with`` statement an example value, and the origin of another."""

        def describe(node: Node) -> None:
            with contextlib.suppress(NotImplementedError):  # Not all operators take sizes alone.
                node.meta[self._key] = _computed(node)
            for key in ("stack_trace", "nn_module_stack", "custom"):
                if origin.meta.get(key) is not None:
                    node.meta[key] = origin.meta[key]
            node._origin = origin._origin

        self.module._register_create_node_hook(describe)
        try:
            yield
        finally:
            self.module._unregister_create_node_hook(describe)


def _get_example_value(node: Node) -> Any:
    """Return the example of a node's value; dynamo and export keep it under different keys."""
    return node.meta["example_value"] if "example_value" in node.meta else node.meta.get("val")


def _get_sym_val(node: Node) -> Any:
    """Return the expression of a node's value, if that is a symbolic number."""
    value = _get_example_value(node)
    return value.node.expr if isinstance(value, SYMBOLIC_NUMBERS) else None


def _computed(node: Node) -> Any:
    """Return the example value of a node out of those of its arguments."""
    args: Sequence[Any] = pytree.tree_map(
        lambda arg: _get_example_value(arg) if isinstance(arg, Node) else arg, node.args
    )
    target: Any = node.target
    if node.op == "call_method":
        target, args = getattr(args[0], str(node.target)), args[1:]
    return target(*args)


def _condition(node: Node) -> Any:
    return node.args[0] if node.args else node.kwargs.get("cond", node.kwargs.get("self"))


def _is_by_the_user(node: Node) -> bool:
    return node.target in _USERS_ASSERTS or (node.target is _ASSERT and node.meta.get(_BY_THE_USER) is True)


def _failed(expression: Any, condition: Any) -> str:
    return f"Runtime assertion failed for expression {expression} on node '{condition}'"


def _is_bound(expression: Any) -> bool:
    """Whether an expression compares a symbol with a number."""
    if expression.func not in {sympy.LessThan, sympy.GreaterThan} or len(expression.args) != 2:
        return False
    kinds = {sympy.Symbol: 0, sympy.Number: 0}
    for part in expression.args:
        for kind in kinds:
            kinds[kind] += isinstance(part, kind)
    return all(count == 1 for count in kinds.values())


def _number(bound: Any, bounds: Any) -> int | float | None:
    """Return a bound as a number of Python; None for the infinite ones."""
    if bound in {sympy.oo, -sympy.oo, int_oo, -int_oo}:
        return None
    with contextlib.suppress(TypeError, OverflowError):
        if bounds.is_int:
            return int(bound)
        if bounds.is_float:
            return float(bound)
    return None


def _constant_result(function: Callable[..., Any]) -> str | None:
    """Return the text that a function without parameters always returns, which is told from its code; else None."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_argcount or code.co_kwonlyargcount:
        return None
    steps = [step for step in dis.get_instructions(code) if step.opname not in _NO_EFFECT]
    match [step.opname for step in steps]:
        case ["RETURN_CONST"] | ["LOAD_CONST", "RETURN_VALUE"] if isinstance(steps[0].argval, str):
            return steps[0].argval
        case _:
            return None

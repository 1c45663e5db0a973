"""``Graph``: a function as a list of nodes, and the operations that build and edit it.

Code generation (``codegen``) and the rules of well-formedness (``verify``) are the matter of other modules; the graph
offers them as methods because that is where users of torch.fx look for them.
"""

from __future__ import annotations

import contextlib
import inspect
import operator
import warnings
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from fxengine import verify
from fxengine.arguments import ATOMS, freeze, warn_of_symbolic_numbers
from fxengine.codegen import (
    CodeGen,
    PythonCode,
    TransformCodeFunc,
    _BoxedCodeGen,
    _ExportCodeGen,
    _override_sym_repr,
    _PyTreeCodeGen,
    _PyTreeInfo,
)
from fxengine.codegen.commentary import _color_codes, _color_fns, _parse_stack_trace, _ParsedStackTrace
from fxengine.codegen.expressions import _format_target
from fxengine.copying import copy_into, deep_copy, with_facts_of
from fxengine.dead_code import eliminate_dead_code
from fxengine.graph_state import blank_graph, restore_state, saved_state
from fxengine.module_state import attribute_exists
from fxengine.names import (
    _custom_builtins,
    _CustomBuiltin,
    _illegal_names,
    _is_from_torch,
    _is_magic,
    _Namespace,
    _register_custom_builtin,
    _snake_case,
    _target_to_str,
    dtype_abbrs,
    found_in,
)
from fxengine.node import (
    Argument,
    Node,
    Target,
    _check_target,
    _get_qualified_name,
    _legal_ops,
    _type_repr,
    map_arg,
)
from fxengine.node_list import NO_KWARGS, NodeSequence, _FindNodesLookupTable, _InsertPoint, _node_list
from fxengine.operators import inplace_methods, magic_methods, reflectable_magic_methods
from fxengine.symbolic_sizes import SymbolMaterializer, measure, resolve_binding, tensor_in_meta

if TYPE_CHECKING:
    from fxengine.graph_module import GraphModule
    from fxengine.tracer import Tracer

__all__ = [
    "CodeGen",
    "Graph",
    "PythonCode",
    "TransformCodeFunc",
    "_BoxedCodeGen",
    "_CustomBuiltin",
    "_ExportCodeGen",
    "_FindNodesLookupTable",
    "_InsertPoint",
    "_Namespace",
    "_ParsedStackTrace",
    "_PyTreeCodeGen",
    "_PyTreeInfo",
    "_color_codes",
    "_color_fns",
    "_custom_builtins",
    "_format_target",
    "_get_qualified_name",
    "_illegal_names",
    "_is_from_torch",
    "_is_magic",
    "_legal_ops",
    "_node_list",
    "_override_sym_repr",
    "_parse_stack_trace",
    "_register_custom_builtin",
    "_snake_case",
    "_type_repr",
    "dtype_abbrs",
    "inplace_methods",
    "magic_methods",
    "own_graph",
    "py_sym_types",
    "reflectable_magic_methods",
]

py_sym_types = (torch.SymInt, torch.SymFloat, torch.SymBool)
"""The types of symbolic numbers."""

found_in(__name__, CodeGen, PythonCode, _BoxedCodeGen, _ExportCodeGen, _PyTreeCodeGen, _PyTreeInfo)
found_in(__name__, _FindNodesLookupTable, _InsertPoint, _Namespace, _node_list)

_CALLS = frozenset({"call_function", "call_method", "call_module"})


class Graph(NodeSequence):
    """A list of ``Node`` s that together constitute a Python function.

    ``print(graph)`` shows the nodes; ``python_code`` turns them into source::

        graph():
            %x : [num_users=2] = placeholder[target=x]
            %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})
            %add : [num_users=1] = call_function[target=operator.add](args = (%relu, %x), kwargs = {})
            return add

    What the nodes mean is said at :class:`Node`.

    Invariants:
        See ``verify.RULES``. The list is circular: the root, which is in no iteration, stands before the first and
        after the last.
    """

    __slots__ = ("_co_fields", "_codegen", "_tracer_cls", "_tracer_extras")

    def __init__(
        self,
        owning_module: GraphModule | None = None,
        tracer_cls: type[Tracer] | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        """Make an empty graph.

        Args:
            owning_module: The module that the graph's targets refer to.
            tracer_cls: The tracer that makes the graph; it is used again to restore the graph from generated code.
            tracer_extras: What that tracer's ``trace`` is called with beside the module.
        """
        super().__init__(owning_module)
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen = CodeGen()
        self._co_fields: dict[str, Any] = {}

    @property
    def owning_module(self) -> GraphModule | None:
        """The module that the graph's targets refer to."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod: GraphModule | None) -> None:
        self._owning_module = mod

    @property
    def nodes(self) -> _node_list:
        """The nodes in order; ``reversed`` gives them last first. The graph may be edited while one iterates."""
        return _node_list(self)

    def output_node(self) -> Node:
        """Return the output node, which must be the last.

        Raises:
            StopIteration: The graph is empty.
            AssertionError: The last node is another.
        """
        last = next(reversed(self.nodes))
        assert last._op == "output", f"Expected output node, got op={last._op}"
        return last

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Any]:
        """Return the nodes with this opcode and target, without looking at the others.

        Args:
            op: The opcode.
            target: The target; required for ``call_function``, else optional.
            sort: Return them in the order of the graph.
        """
        nodes = self._find_nodes_lookup_table.find_nodes(op=op, target=target)
        return sorted(nodes, key=operator.attrgetter("_sort_key")) if sort else nodes

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Create a node, add it at the insertion point and return it.

        Args:
            op: The opcode.
            target: What is called or read; see :class:`Node`.
            args: The positional arguments.
            kwargs: The keyword arguments.
            name: What the value should be called; made unique. By default it is named after the target.
            type_expr: The annotation of the value.
        """
        assert not args or isinstance(args, tuple), f"args must be a tuple, got {type(args)}"
        assert not kwargs or isinstance(kwargs, dict), f"kwargs must be a dict, got {type(kwargs)}"
        inputs: dict[Node, None] = {}
        frozen: tuple[Any, ...] = ()
        nested = bool(kwargs)
        if args:
            items: list[Any] = []
            for arg in args:
                kind = type(arg)
                if kind is Node:
                    inputs[arg] = None  # type: ignore[index] - `kind` says it is a Node.
                elif kind not in ATOMS:
                    nested = True
                    arg = freeze(arg, inputs)  # noqa: PLW2901 - faster than a second name.
                items.append(arg)
            frozen = tuple(items)
        if nested and op in _CALLS:
            warn_of_symbolic_numbers(op, target, args, kwargs)
        if name is None:
            name = _target_to_str(target)
        if op != "call_function" or not callable(target):
            _check_target(self, name, op, target)
        return self._append(
            op, target, frozen, freeze(kwargs, inputs) if kwargs else NO_KWARGS, name, type_expr, inputs
        )

    def placeholder(
        self,
        name: str,
        type_expr: Any | None = None,
        default_value: Any = inspect.Signature.empty,
    ) -> Node:
        """Add an input of the function and return its node.

        Args:
            name: The name of the parameter, with its stars if it has any.
            type_expr: The annotation of the parameter.
            default_value: The parameter's default value, if it has one.
        """
        args = () if default_value is inspect.Signature.empty else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any | None = None) -> Node:
        """Add a read of a parameter, buffer or submodule and return its node; warns if the module has no such thing."""
        owner = self._owning_module
        if owner is not None and not attribute_exists(owner, qualified_name):
            warnings.warn(
                "Attempted to insert a get_attr Node with no underlying reference in the owning GraphModule! Call "
                "GraphModule.add_submodule to add the necessary submodule, GraphModule.add_parameter to add the "
                "necessary Parameter, or nn.Module.register_buffer to add the necessary buffer",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Add a call of the submodule with this qualified name and return its node.

        Raises:
            AttributeError: The graph has a module, and that has no such submodule.
        """
        if self._owning_module is not None:
            self._owning_module.get_submodule(module_name)
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Add a call of a method of ``args[0]`` and return its node."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
        name: str | None = None,
    ) -> Node:
        """Add a call of a function and return its node."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def create_size_node(self, tensor_node: Node, dim: int) -> Node:
        """Add the size of a tensor in one dimension and return its node, with the number in ``meta`` if it is known."""
        return measure(self, torch.ops.aten.sym_size.int, tensor_node, "size", dim)

    def create_stride_node(self, tensor_node: Node, dim: int) -> Node:
        """Add the stride of a tensor in one dimension and return its node."""
        return measure(self, torch.ops.aten.sym_stride.int, tensor_node, "stride", dim)

    def create_storage_offset_node(self, tensor_node: Node) -> Node:
        """Add the offset of a tensor in its storage and return its node."""
        return measure(self, torch.ops.aten.sym_storage_offset.default, tensor_node, "storage_offset")

    def materialize_symints(self, values: Sequence[torch.SymInt | int]) -> list[Node | int]:
        """Return the nodes of symbolic numbers, which are computed at the insertion point out of the graph's inputs.

        Unlike ``create_stride_node`` and its like, this says what a number was when the graph was made: it stays that
        even if a tensor is laid out differently later. One call for many numbers shares what they have in common.

        Args:
            values: The numbers; those that are not symbolic are returned as they are.

        Raises:
            AssertionError: A number depends on something that no node of the graph tells.
        """
        materializer = SymbolMaterializer(self).discover()
        return [materializer.materialize(value) for value in values]

    def materialize_symint(self, value: torch.SymInt | int) -> Node | int:
        """Return the node of one symbolic number; see ``materialize_symints``."""
        return self.materialize_symints([value])[0]

    def _resolve_unbacked_binding(
        self,
        producer: Node,
        keypath: tuple[object, ...],
        lower_symint: Callable[[torch.SymInt], Node | int],
    ) -> Node:
        return resolve_binding(self, producer, keypath, lower_symint)

    _get_tensor_meta_val = staticmethod(tensor_in_meta)

    def output(self, result: Argument, type_expr: Any | None = None):  # noqa: ANN201 - as torch.fx has it.
        """Add the return of ``result`` and return its node."""
        return self.create_node("output", "output", args=(result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x) -> Node:
        """Copy a node of another graph to the insertion point and return the copy.

        Args:
            node: The node that is copied.
            arg_transform: Returns for a node in its arguments what stands for it in this graph::

                value_remap = {}
                for node in g.nodes:
                    value_remap[node] = new_graph.node_copy(node, lambda n: value_remap[n])
        """
        args = map_arg(node._args, arg_transform)
        kwargs = map_arg(node._kwargs, arg_transform)
        assert isinstance(args, tuple), f"Expected args to be tuple, got {type(args)}"
        assert isinstance(kwargs, dict), f"Expected kwargs to be dict, got {type(kwargs)}"
        return with_facts_of(node, self.create_node(node._op, node._target, args, kwargs, node._name, node.type))

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Argument | None:
        """Copy the nodes of ``g`` to the insertion point and return what ``g`` returns, as a value of this graph.

        Args:
            g: The graph whose nodes are copied, all but its output node.
            val_map: Filled with each node's copy. Nodes that are in it before are not copied but stand for its value.
            return_output_node: Return a pair with the output node of ``g``.
        """
        return copy_into(self, own_graph(g), val_map, return_output_node=return_output_node)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        """Return a copy, made without recursion, whose nodes share what is in ``meta``; it has no module yet."""
        return deep_copy(self, Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras), memo)

    def __reduce__(self) -> tuple[Any, ...]:
        return blank_graph, (type(self), self._len), saved_state(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        restore_state(self, state)

    def erase_node(self, to_erase: Node) -> None:
        """Remove a node that nobody uses.

        Raises:
            RuntimeError: It has users, or belongs to another graph.
        """
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} "
                f"users in the graph: {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        if self._owning_module is not None:
            for hook in getattr(self._owning_module, "_erase_node_hooks", None) or ():
                hook(to_erase)
        if self._lookup_table is not None:
            self._lookup_table.remove(to_erase)
        to_erase._remove_from_list()
        to_erase._erased = True
        self._len -= 1
        if to_erase._inputs:
            to_erase._release_inputs()

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """Make new nodes go in before ``n``, or at the very beginning; in a ``with`` statement until its end."""
        if n is None:
            return self.inserting_after(self._root)
        assert n.graph is self, "Node to insert before is not in graph."
        return _InsertPoint(self, self._at_end if n is self._root else n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """Make new nodes go in after ``n``, or at the very end; in a ``with`` statement until its end."""
        if n is None:
            return self.inserting_before(self._root)
        assert n.graph is self, "Node to insert after is not in graph."
        return _InsertPoint(self, n.append)

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Remove what nobody uses and has no effect.

        The graphs of those submodules that the graph reads as attributes are treated likewise.

        What has an effect is a matter of heuristics (``Node.is_impure``), good for graphs of functional operations.

        Args:
            is_impure_node: Says of a node that nobody uses whether it must stay; by default ``Node.is_impure``.

        Returns:
            Whether anything was removed.
        """
        return eliminate_dead_code(self, is_impure_node)

    def lint(self) -> None:
        """Check that the graph is well formed; ``fxengine.verify.verify`` says everything that is wrong.

        Raises:
            RuntimeError: A node belongs elsewhere, is used before it is defined, has another's name, or names nothing.
            ValueError: The type of a target does not fit its node's opcode.
        """
        verify.lint(self)

    def python_code(
        self,
        root_module: str,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        expanded_def: bool = False,
        record_func: bool = False,
        additional_meta: list[str] | None = None,
    ) -> PythonCode:
        """Return the graph as Python code.

        Local names are the nodes' names, unless a global of the code needs that name; then the local one is another.

        Args:
            root_module: The expression of the module that targets are looked up on, mostly ``self``.
            verbose: Say in comments where nodes come from, and annotate values with their shapes.
            include_stride: Say strides too.
            include_device: Say devices too.
            colored: Colour for a terminal.
            expanded_def: Put each parameter on a line of its own.
            record_func: Let the profiler see each call.
            additional_meta: Entries of ``meta`` to say beside a node's origin.
        """
        return self._python_code(
            root_module,
            _Namespace(),
            verbose=verbose,
            include_stride=include_stride,
            include_device=include_device,
            colored=colored,
            expanded_def=expanded_def,
            record_func=record_func,
            additional_meta=additional_meta,
        )

    def _python_code(self, root_module: str, namespace: _Namespace, **options: Any) -> PythonCode:
        return self._codegen._gen_python_code(self.nodes, root_module, namespace, **options)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Generate code with ``codegen`` from now on."""
        self._codegen = codegen

    def on_generate_code(
        self, make_transformer: Callable[[TransformCodeFunc | None], TransformCodeFunc]
    ) -> contextlib.AbstractContextManager[None]:
        r"""Register a function that rewrites the body whenever code is generated.

        Args:
            make_transformer: Returns the function; gets the one that is registered now, or None, to chain the two::

                gm.graph.on_generate_code(lambda current: lambda body: ["import pdb; pdb.set_trace()\n", *body])
                gm.recompile()

        Returns:
            A context manager that registers the former function again on exit.
        """
        former = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(former)

        @contextlib.contextmanager
        def restoring() -> Generator[None]:
            try:
                yield
            finally:
                self._codegen._body_transformer = former

        return restoring()

    def process_inputs(self, *args: Any) -> Any:
        """Return the values of the placeholders, given what a caller of the generated function passes."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """Return what the generated function returns, given the value of the output node."""
        return self._codegen.process_outputs(out)

    def print_tabular(self) -> None:
        """Print the graph as a table; needs the package ``tabulate``."""
        try:
            from tabulate import tabulate  # noqa: PLC0415 - an optional package.
        except ImportError:
            print(  # noqa: T201 - as torch.fx does.
                "`print_tabular` relies on the library `tabulate`, which could not be found on this machine. "
                "Run `pip install tabulate` to install the library."
            )
            raise
        rows = [[node.op, node.name, node.target, node.args, node.kwargs] for node in self.nodes]
        print(tabulate(rows, headers=["opcode", "name", "target", "args", "kwargs"]))  # noqa: T201

    def __str__(self) -> str:
        placeholder_names: list[str] = []
        return_annotation = [""]
        lines = [node.format_node(placeholder_names) for node in self.nodes]
        head = f"graph({', '.join(placeholder_names)}){return_annotation[0]}:"
        return "\n    ".join([head, *filter(None, lines)])

    def _target_to_str(self, target: Target) -> str:
        return _target_to_str(target)

    def _clear_nodes(self) -> None:
        for node in reversed(self.nodes):
            node.meta.clear()
            self.erase_node(node)


def own_graph(graph: Any) -> Graph:
    """Return ``graph``, which must be one of this engine.

    Raises:
        AssertionError: It is not, but for instance one of torch.fx.
    """
    theirs = type(graph).__module__.startswith("torch.fx.")
    advice = "; fxengine.interop.from_torch_fx makes a module of torch.fx one of this engine" if theirs else ""
    assert isinstance(graph, Graph), f"Expected a Graph instance, but got {type(graph)}{advice}"
    return graph

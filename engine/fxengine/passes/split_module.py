"""A graph module becomes a module of submodules: a function says for each node which part it goes to.

Values that cross from one part to another become inputs and outputs of the submodules; parameters are passed in, as
a submodule does not own what another may use too. What switches a global state (gradients, autocast) is repeated in
each part that it holds for.
"""

import inspect
from collections.abc import Callable, Iterable
from operator import getitem
from typing import Any

import sympy
import torch
from torch import nn
from torch.utils import _pytree as pytree

from fxengine._lazy_graph_module import _make_graph_module
from fxengine.graph import Graph, own_graph
from fxengine.graph_module import GraphModule
from fxengine.node import Node, map_arg

__all__ = ["Partition", "split_module", "split_module_simple"]

_STATE_SWITCHES = (
    torch.amp.autocast_mode._enter_autocast,
    torch.amp.autocast_mode._exit_autocast,
    torch._C._set_grad_enabled,
)


class Partition:
    """A part of a graph that becomes a submodule. Mutable while it is put together.

    Attributes:
        name: What the callback returned for its nodes, as a string.
        submod_name: The submodule's name.
        node_names: The original nodes in it.
        inputs: The original nodes whose values it needs, by name, in order.
        outputs: Its original nodes that others need, likewise.
        dependencies: The parts whose outputs it needs.
        dependents: The parts that need its outputs.
        graph: Its graph.
        environment: Its node for each original node.
        targets: The attributes and submodules that its graph names.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.submod_name = f"submod_{name}"
        self.node_names: list[str] = []
        self.inputs: dict[str, None] = {}
        self.outputs: dict[str, None] = {}
        self.dependencies: dict[str, None] = {}
        self.dependents: dict[str, None] = {}
        self.graph = Graph()
        self.environment: dict[Node, Node] = {}
        self.targets: dict[str, Any] = {}

    def __repr__(self) -> str:
        return (
            f"name: {self.name},\n"
            f" nodes: {self.node_names},\n"
            f" inputs: {self.inputs},\n"
            f" outputs: {self.outputs},\n"
            f" partitions depended on: {self.dependencies},\n"
            f" partition dependents: {self.dependents}"
        )


def split_module(
    m: GraphModule,
    root_m: nn.Module,  # noqa: ARG001 - torch.fx's signature.
    split_callback: Callable[[Node], int],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False,
    keep_original_input_name: bool = True,
    *,
    partition_affix: str | None = None,
    tuple_return: bool = False,
) -> GraphModule:
    """Return a module that calls submodules ``submod_0``, ``submod_1``, ... and computes what ``m`` computes.

    Example:
        >>> split = split_module(traced, module, lambda node: 0 if node.name in first_half else 1)
        >>> split.submod_0.code

    Args:
        m: The module to split; not changed.
        root_m: Not used.
        split_callback: Returns the number of the part that a node belongs to; asked for calls only.
        qualname_map: Filled with the old name for each new name of a submodule or attribute.
        keep_original_order: Call the parts in the order in which they first occur, rather than in one that their
            dependencies
            allow.
        keep_original_node_name: Give nodes the names that they had.
        keep_original_input_name: Name the inputs of the parts like the nodes that they come from, rather than
            ``arg_0``, ...
        partition_affix: Part of the submodules' names: ``submod_<affix>_0``.
        tuple_return: Let a part with one output return a tuple too.

    Raises:
        RuntimeError: Two parts need each other.
        AssertionError: A part with a lower number comes after one with a higher, and there are switches of global
            state.
    """
    splitter = _Splitter(m, split_callback, partition_affix)
    splitter.assign()
    splitter.connect()
    order = splitter.sorted_partitions()
    splitter.enter_regions()
    for name in order:
        splitter.add_inputs(splitter.partitions[name], keep_names=keep_original_input_name)
    splitter.copy_nodes(qualname_map, keep_names=bool(keep_original_node_name))
    splitter.exit_regions()
    for partition in splitter.partitions.values():
        results = tuple(partition.environment[splitter.nodes[name]] for name in partition.outputs)
        partition.graph.output(results[0] if len(results) == 1 and not tuple_return else results)
    base = _Base(splitter, keep_names=bool(keep_original_node_name), tuple_return=tuple_return)
    return base.build(list(splitter.partitions) if keep_original_order else order, bool(keep_original_order))


def split_module_simple(
    m: GraphModule, node_to_partition: dict[Node, int], *, partition_affix: str | None = None
) -> GraphModule:
    """Return ``m`` split as ``node_to_partition`` says, its parts called in the order in which they first occur."""
    return split_module(m, m, node_to_partition.__getitem__, keep_original_order=True, partition_affix=partition_affix)


class _Splitter:
    """Divides a graph: which node goes where, what crosses, in which order."""

    def __init__(self, module: GraphModule, split_callback: Callable[[Node], int], affix: str | None) -> None:
        self.module = module
        self.nodes = {node.name: node for node in own_graph(module.graph).nodes}
        self.partitions: dict[str, Partition] = {}
        self.partition_of: dict[Node, str] = {}
        self._number_of = split_callback
        self._prefix = "" if affix is None else f"{affix}_"
        self._numbers: dict[Node, int] = {}
        self._regions: dict[Node, list[int]] = {}
        """For each switch of a global state the parts that it holds for."""
        self._exits: dict[Node, Node] = {}
        self._symbols: dict[sympy.Symbol, Node] = {}

    def assign(self) -> None:
        """Ask for each call which part it belongs to, and follow the switches of global state."""
        grad: Node | None = None
        autocasts: dict[Node, None] = {}
        regions: dict[Node, set[int]] = {}
        for node in self.module.graph.nodes:
            self._note_symbol(node)
            if node.op in {"placeholder", "get_attr", "output"}:
                continue
            number = self._numbers[node] = self._number_of(node)
            name = f"{self._prefix}{number}"
            self.partition_of[node] = name
            self.partitions.setdefault(name, Partition(name)).node_names.append(node.name)
            if node.target is torch._C._set_grad_enabled:
                grad = node
                regions[node] = set()
            elif node.target is torch.amp.autocast_mode._enter_autocast:
                autocasts[node] = None
                regions[node] = set()
            elif node.target is torch.amp.autocast_mode._exit_autocast:
                (entered,) = node.args
                assert isinstance(entered, Node)
                regions[entered].add(number)
                del autocasts[entered]
                self._exits[entered] = node
            for switch in (*autocasts, *([grad] if grad is not None else ())):
                regions[switch].add(number)
        assert not autocasts, "autocast must exit"
        self._regions = {switch: sorted(numbers) for switch, numbers in regions.items()}
        numbers = list(self._numbers.values())
        assert not regions or numbers == sorted(numbers), (
            "autocast or set_grad_enabled require monotonically increasing partitions"
        )

    def connect(self) -> None:
        """Note which values cross from one part to another."""
        for node in self.module.graph.nodes:
            if node.op == "output":
                for used in node.all_input_nodes:
                    self._cross(used, None)
            elif node in self.partition_of and node.target not in _STATE_SWITCHES:
                for used in node.all_input_nodes:
                    self._cross(used, node)

    def _cross(self, definition: Node, use: Node | None) -> None:
        source = self.partition_of.get(definition)
        target = self.partition_of.get(use) if use is not None else None
        if source == target:
            return
        if source is not None:
            self.partitions[source].outputs.setdefault(definition.name)
            if target is not None:
                self.partitions[source].dependents.setdefault(target)
                self.partitions[target].dependencies.setdefault(source)
        if target is not None:
            self.partitions[target].inputs.setdefault(definition.name)
            self._pass_symbols(definition, target)

    def _pass_symbols(self, definition: Node, target: str) -> None:
        """Make the symbols in the sizes of a value that a part gets inputs of the part too."""
        for symbol in sorted(_free_symbols(definition.meta.get("example_value")), key=str):
            node = self._symbols[symbol]
            self.partitions[target].inputs.setdefault(node.name)
            source = self.partition_of.get(node)
            if source is not None:
                self.partitions[source].outputs.setdefault(node.name)
                self.partitions[source].dependents.setdefault(target)
                self.partitions[target].dependencies.setdefault(source)

    def _note_symbol(self, node: Node) -> None:
        value = node.meta.get("example_value")
        if isinstance(value, torch.SymInt | torch.SymFloat) and isinstance(value.node.expr, sympy.Symbol):
            self._symbols.setdefault(value.node.expr, node)

    def sorted_partitions(self) -> list[str]:
        """Return the names of the parts, each after those it needs.

        Raises:
            RuntimeError: Two parts need each other.
        """
        waiting = {name: set(partition.dependencies) for name, partition in self.partitions.items()}
        ready = [name for name, needed in waiting.items() if not needed]
        order: list[str] = []
        while ready:
            name = ready.pop()
            order.append(name)
            for dependent in self.partitions[name].dependents:
                waiting[dependent].discard(name)
                if not waiting[dependent]:
                    ready.append(dependent)
        if len(order) != len(self.partitions):
            raise RuntimeError("cycle exists between partitions!")
        return order

    def enter_regions(self) -> None:
        """Repeat each switch at the beginning of the later parts that it holds for."""
        switches = sorted(self._regions, key=lambda switch: switch.target is torch._C._set_grad_enabled)
        for switch in switches:
            first, *later = self._regions[switch]
            self._partition(first).environment[switch] = switch
            for number in later:
                partition = self._partition(number)
                partition.environment[switch] = _repeated(partition, switch, tuple(switch.args))

    def exit_regions(self) -> None:
        """Repeat each end of an autocast at the end of the earlier parts that it holds for."""
        for switch, end in reversed(self._exits.items()):
            for number in self._regions[switch][:-1]:
                partition = self._partition(number)
                _repeated(partition, end, (partition.environment[switch],))

    def _partition(self, number: int) -> Partition:
        return self.partitions[f"{self._prefix}{number}"]

    def add_inputs(self, partition: Partition, *, keep_names: bool) -> None:
        """Make the values that a part needs its placeholders; modules it refers to become its own."""
        modules = [name for name in partition.inputs if self._module_at(self.nodes[name]) is not None]
        values = [name for name in partition.inputs if name not in modules]
        for place, name in enumerate(values):
            node = self.nodes[name]
            placeholder = partition.graph.placeholder(name if keep_names else f"arg_{place}", type_expr=node.type)
            self._adopt(partition, node, placeholder)
        for name in modules:
            node = self.nodes[name]
            target = str(node.target)
            partition.targets[target] = self._module_at(node)
            self._adopt(partition, node, partition.graph.get_attr(target))
        partition.inputs = dict.fromkeys(values)

    def _module_at(self, node: Node) -> nn.Module | None:
        """Return the module that a ``get_attr`` node refers to, if it does refer to one."""
        if node.op != "get_attr":
            return None
        value = _attribute(self.module, str(node.target))
        return value if isinstance(value, nn.Module) else None

    def copy_nodes(self, qualname_map: dict[str, str] | None, *, keep_names: bool) -> None:
        """Copy each call into its part; note in ``qualname_map`` what modules are called there."""
        for node, name in self.partition_of.items():
            partition = self.partitions[name]
            target: Any = node.target
            if node.op == "call_module":
                target = str(node.target).replace(".", "_")
                partition.targets[target] = _attribute(self.module, str(node.target))
                if qualname_map is not None:
                    qualname_map[f"{partition.submod_name}.{target}"] = str(node.target)
            args: Any = map_arg(node.args, partition.environment.__getitem__)
            kwargs: Any = map_arg(node.kwargs, partition.environment.__getitem__)
            copied = partition.graph.create_node(
                node.op, target, args, kwargs, node.name if keep_names else None, node.type
            )
            self._adopt(partition, node, copied)

    @staticmethod
    def _adopt(partition: Partition, node: Node, copied: Node) -> None:
        _inherit(node, copied)
        partition.environment[node] = copied


class _Base:
    """Builds the module that calls the parts."""

    def __init__(self, splitter: _Splitter, *, keep_names: bool, tuple_return: bool) -> None:
        self.splitter = splitter
        self.keep_names = keep_names
        self.tuple_return = tuple_return
        self.graph = Graph()
        self.environment: dict[str, Node] = {}
        self.attributes: dict[str, Any] = {}

    def build(self, order: list[str], attributes_where_needed: bool) -> GraphModule:
        """Return the module that calls the parts in ``order``.

        Args:
            order: The parts' names.
            attributes_where_needed: Fetch an attribute right before the first part that needs it, rather than at
                the beginning.
        """
        originals = self.splitter.module.graph.nodes
        first = {"placeholder"} if attributes_where_needed and order else {"placeholder", "get_attr"}
        for node in originals:
            if node.op in first:
                self._add(node)
        for name in order:
            partition = self.splitter.partitions[name]
            for needed in partition.inputs:
                if needed not in self.environment:
                    self._add(self.splitter.nodes[needed])
            self._call(partition)
        for node in originals:
            if node.op == "output":
                self._return(node)
        module = _make_graph_module(self.attributes, self.graph)
        module.meta["partition_names"] = {partition.submod_name for partition in self.splitter.partitions.values()}
        return module

    def _return(self, output: Node) -> None:
        for needed in output.all_input_nodes:
            if needed.name not in self.environment:
                self._add(needed)
        self.graph.output(map_arg(output.args[0], lambda node: self.environment[node.name]))

    def _add(self, node: Node) -> None:
        """Copy a placeholder or the fetching of an attribute; what a later part gives is not to be had."""
        if node.op not in {"placeholder", "get_attr"}:
            return
        if node.op == "get_attr":
            target = str(node.target)
            self.attributes[target] = _attribute(self.splitter.module, target)
            copied = self.graph.get_attr(target)
        elif self.keep_names:
            copied = self.graph.create_node("placeholder", node.name, node.args, type_expr=node.type)
        else:
            default = node.args[0] if node.args else inspect.Signature.empty
            copied = self.graph.placeholder(str(node.target), type_expr=node.type, default_value=default)
        _inherit(node, copied)
        self.environment[node.name] = copied

    def _call(self, partition: Partition) -> None:
        """Call a part and take its results apart."""
        self.attributes[partition.submod_name] = _make_graph_module(partition.targets, partition.graph)
        arguments = tuple(self.environment[name] for name in partition.inputs)
        call = self.graph.call_module(partition.submod_name, arguments)
        outputs = list(partition.outputs)
        if len(outputs) == 1 and not self.tuple_return:
            self.environment[outputs[0]] = call
            return
        for place, name in enumerate(outputs):
            self.environment[name] = self.graph.call_function(getitem, (call, place))


def _repeated(partition: Partition, switch: Node, args: tuple[Any, ...]) -> Node:
    """Add a copy of a switch of global state to a part."""
    copied = partition.graph.create_node(switch.op, switch.target, args, {}, type_expr=switch.type)
    _inherit(switch, copied)
    return copied


def _inherit(node: Node, copied: Node) -> None:
    """Let a copy know what the original knew."""
    copied.meta = node.meta.copy()
    copied._origin = node._origin
    copied.tensor = node.tensor


def _attribute(root: Any, qualified_name: str) -> Any:
    """Return the attribute with a dotted name.

    Raises:
        AttributeError: There is none.
    """
    for atom in qualified_name.split("."):
        if not hasattr(root, atom):
            raise AttributeError(f"Node target {qualified_name} not found!")
        root = getattr(root, atom)
    return root


def _free_symbols(value: Any) -> set[sympy.Symbol]:
    """Return the symbols in the sizes and strides of the tensors in ``value``, and in its symbolic numbers."""
    found: set[sympy.Symbol] = set()
    for leaf in pytree.tree_leaves(value):
        numbers: Iterable[Any] = (leaf,)
        if isinstance(leaf, torch.Tensor):
            numbers = (*leaf.shape, *(leaf.stride() if leaf.layout is torch.strided else ()))
        for number in numbers:
            if isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool):
                found |= {symbol for symbol in number.node.expr.free_symbols if isinstance(symbol, sympy.Symbol)}
    return found

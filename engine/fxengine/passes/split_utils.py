"""Splitting by tags: each node carries the name of the submodule it goes to."""

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import getitem
from typing import Any, Protocol

from torch import nn

from fxengine.graph import Graph
from fxengine.graph_module import GraphModule
from fxengine.node import Node, map_arg
from fxengine.passes.tools_common import CALLABLE_NODE_OPS, is_node_output_tensor
from fxengine.passes.utils.common import HolderModule, lift_subgraph_as_module

__all__ = [
    "Component",
    "getattr_recursive",
    "move_non_tensor_nodes_on_boundary",
    "setattr_recursive",
    "split_by_tags",
]


class Subgraph(Protocol):
    """What ``move_non_tensor_nodes_on_boundary`` needs to know of a part."""

    is_acc: bool
    nodes: list[Node]


def getattr_recursive(obj: object, name: str) -> Any:
    """Return the attribute of ``obj`` with the dotted name, or None if there is none."""
    found: Any = obj
    for layer in name.split("."):
        found = found._modules.get(layer) if isinstance(found, nn.ModuleList) else getattr(found, layer, None)
        if found is None:
            return None
    return found


def setattr_recursive(obj: object, attr: str, value: object) -> None:
    """Set the attribute of ``obj`` with the dotted name.

    Raises:
        AttributeError: Something on the way does not exist.
    """
    *path, name = attr.split(".")
    for layer in path:
        obj = getattr(obj, layer)
    setattr(obj, name, value)


@dataclass
class Component:
    """A submodule that is being put together. Mutable.

    Attributes:
        graph: Its graph.
        order: Its place among the components.
        name: Its tag.
        input_placeholders: The placeholders of its graph.
        orig_inputs: The nodes of the original graph that these stand for.
        orig_outputs: The nodes of the original graph that it returns.
        getattr_maps: Its ``get_attr`` node for each of the original graph that it uses.
        constructor_args: Free for users.
        gm: Its module, once it is made.
    """

    graph: Graph
    order: int
    name: str
    input_placeholders: list[Node] = field(default_factory=list[Node])
    orig_inputs: list[Node] = field(default_factory=list[Node])
    orig_outputs: list[Node] = field(default_factory=list[Node])
    getattr_maps: dict[Node, Node] = field(default_factory=dict[Node, Node])
    constructor_args: list[str] = field(default_factory=list[str])
    gm: GraphModule | None = None


def split_by_tags(
    gm: GraphModule,
    tags: list[str],
    return_fqn_mapping: bool = False,
    return_tuple: bool = False,
    GraphModuleCls: type[GraphModule] = GraphModule,  # noqa: N803 - torch.fx's name.
) -> GraphModule | tuple[GraphModule, dict[str, str]]:
    """Return a module with one submodule for each of ``tags``, called in their order.

    Each call in ``gm``'s graph has an attribute ``tag``, one of ``tags``. Attributes are fetched inside the
    submodules that use them.

    Args:
        gm: The module to split; not changed.
        tags: The names of the submodules, so that each comes after those it needs.
        return_fqn_mapping: Return also the new name of each attribute and submodule by its old one.
        return_tuple: Let submodules with one result return a tuple too.
        GraphModuleCls: The class of the module that is returned.

    Raises:
        AssertionError: A node has no tag, or needs what a later component computes.
        RuntimeError: The graph returns nothing.
    """
    splitter = _TagSplitter(gm, tags)
    splitter.distribute()
    result, renamed = splitter.build(return_tuple, GraphModuleCls)
    return (result, renamed) if return_fqn_mapping else result


class _TagSplitter:
    def __init__(self, gm: GraphModule, tags: Iterable[str]) -> None:
        self.gm = gm
        self.main = Graph()
        self.components = {tag: Component(Graph(), order, tag) for order, tag in enumerate(tags)}
        self.component_of: dict[Node, Component] = {}
        self.copies: dict[Node, Node] = {}
        self.in_main: dict[Node, Node] = {}
        self.crossing: dict[Node, None] = {}
        """Nodes whose values leave the component that computes them, or are inputs of one."""

    def distribute(self) -> None:
        """Copy each node to where it belongs, and note what crosses."""
        for node in self.gm.graph.nodes:
            if node.op == "placeholder":
                placeholder = self.main.placeholder(node.name, type_expr=node.type)
                _inherit(node, placeholder)
                self.in_main[node] = placeholder
            elif node.op in CALLABLE_NODE_OPS:
                self._place(node)
        if not self.gm.graph.find_nodes(op="output"):
            raise RuntimeError("Graph had no output node!")
        for node in self.gm.graph.output_node().all_input_nodes:
            if node.op == "get_attr":
                self.in_main[node] = self.main.get_attr(node.name, type_expr=node.type)
            else:
                self.crossing[node] = None

    def _place(self, node: Node) -> None:
        """Copy a call into the component of its tag."""
        tag: str | None = getattr(node, "tag", None)
        assert tag is not None, f"Node does not have tag: {node.format_node()}"
        component = self.components[tag]
        needed = (self.component_of[source].order for source in node.all_input_nodes if source in self.component_of)
        highest = max(needed, default=0)
        assert component.order >= highest, (
            f"Component {component.name} order must be >= max of its upstream components, "
            f"order={component.order} and max={highest}"
        )
        self.component_of[node] = component
        copied = component.graph.node_copy(node, lambda source: self._inside(source, component))
        setattr(copied, "tag", tag)  # noqa: B010 - an attribute of the user's, not of Node.
        self.copies[node] = copied

    def _inside(self, node: Node, component: Component) -> Node:
        """Return what stands for ``node`` inside a component."""
        if node.op == "get_attr":
            if node not in component.getattr_maps:
                fetched = component.graph.get_attr(str(node.target), type_expr=node.type)
                _inherit(node, fetched)
                component.getattr_maps[node] = fetched
            return component.getattr_maps[node]
        if self.component_of.get(node) is component:
            return self.copies[node]
        if node not in component.orig_inputs:
            component.orig_inputs.append(node)
            placeholder = component.graph.placeholder(node.name, type_expr=node.type)
            _inherit(node, placeholder)
            component.input_placeholders.append(placeholder)
            self.crossing[node] = None
        return component.input_placeholders[component.orig_inputs.index(node)]

    def build(self, return_tuple: bool, module_class: type[GraphModule]) -> tuple[GraphModule, dict[str, str]]:
        """Make the submodules and the module that calls them; return it with the new names of attributes."""
        for node in self.crossing:
            if node.op != "placeholder":
                self.component_of[node].orig_outputs.append(node)
        renamed: dict[str, str] = {}
        for component in self.components.values():
            results = tuple(self.copies[node] for node in component.orig_outputs)
            single = len(results) == 1 and not return_tuple
            component.graph.output(results[0] if single else results)
            component.gm, names = lift_subgraph_as_module(self.gm, component.graph, component.name)
            renamed.update(names)
            call = self.main.call_module(component.name, tuple(self.in_main[node] for node in component.orig_inputs))
            for place, node in enumerate(component.orig_outputs):
                self.in_main[node] = call if single else self.main.call_function(getitem, (call, place))
        output = self.gm.graph.output_node()
        self.main.output(map_arg(output.args[0], self.in_main.__getitem__))
        self.main._codegen = self.gm.graph._codegen
        root = HolderModule({name: component.gm for name, component in self.components.items()})
        for node in output.all_input_nodes:
            if node.op == "get_attr":
                setattr(root, node.name, getattr_recursive(self.gm, str(node.target)))
        return module_class(root, self.main), renamed


def _inherit(node: Node, copied: Node) -> None:
    copied.meta = copy.copy(node.meta)
    copied._origin = node._origin
    copied.tensor = node.tensor


def move_non_tensor_nodes_on_boundary(subgraphs: list[Subgraph]) -> None:
    """Move nodes that make no tensor, and that another part uses, out of the accelerated parts into that other part.

    A node moves together with all that depends on it in its part, and only if everything goes to one other part.
    What it needs is then looked at in turn.
    """
    for index, subgraph in enumerate(subgraphs):
        if subgraph.is_acc:
            _Boundary(subgraphs, index).clear()


class _Boundary:
    """The nodes of one part that others use."""

    def __init__(self, subgraphs: list[Subgraph], index: int) -> None:
        self.subgraphs = subgraphs
        self.index = index
        self.part_of = {node: place for place, subgraph in enumerate(subgraphs) for node in subgraph.nodes}

    def clear(self) -> None:
        """Move every node that can be moved."""
        pending = [node for node in self.subgraphs[self.index].nodes if self._should_move(node)]
        done: set[Node] = set()
        while pending:
            node = pending.pop(0)
            if node in done or self.part_of.get(node) != self.index:
                continue
            done.add(node)
            others = {self.part_of[user] for user in self._users(node)} - {self.index}
            if len(others) != 1:
                continue
            moving = self._together(node, others.pop())
            if moving is not None:
                pending += [
                    source for source in self._sources(node) if source not in done and self._should_move(source)
                ]

    def _should_move(self, node: Node) -> bool:
        elsewhere = any(self.part_of[user] != self.index for user in self._users(node))
        return self.part_of[node] == self.index and not is_node_output_tensor(node) and elsewhere

    def _together(self, node: Node, target: int) -> set[Node] | None:
        """Move ``node`` and all that depends on it to the part ``target``, and return them; None if that cannot be."""
        moving: dict[Node, None] = {}
        pending = [node]
        while pending:
            current = pending.pop()
            part = self.part_of[current]
            if current in moving or part == target:
                continue
            if part != self.index:
                return None
            moving[current] = None
            pending += self._users(current)
        for moved in moving:
            self.subgraphs[self.index].nodes.remove(moved)
            self.subgraphs[target].nodes.append(moved)
            self.part_of[moved] = target
        return set(moving)

    def _users(self, node: Node) -> list[Node]:
        return [user for user in node.users if user.op in CALLABLE_NODE_OPS and user in self.part_of]

    def _sources(self, node: Node) -> list[Node]:
        return [source for source in node.all_input_nodes if source.op in CALLABLE_NODE_OPS and source in self.part_of]

"""Graphs as pictures, in Graphviz' DOT language, written without Graphviz.

A ``FxGraphDrawer`` describes a graph module and each graph module inside it; ``DotGraph.to_string`` gives the text,
which any Graphviz renders. Layout is not done here.
"""

import hashlib
import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fxengine.graph_module import GraphModule
from fxengine.names import _get_qualified_name
from fxengine.node import Node, Target, _format_arg
from fxengine.operator_schemas import normalize_function
from fxengine.passes.shape_prop import TensorMetadata

__all__ = ["DotEdge", "DotGraph", "DotNode", "FxGraphDrawer"]

HAS_PYDOT = importlib.util.find_spec("pydot") is not None
"""Whether the package is there that torch.fx draws with; nothing here needs it."""

_COLOR_MAP = {
    "placeholder": "AliceBlue",
    "call_module": "LemonChiffon1",
    "get_param": "Yellow2",
    "get_attr": "LightGrey",
    "output": "PowderBlue",
}
_HASH_COLOR_MAP = (
    "CadetBlue1", "Coral", "DarkOliveGreen1", "DarkSeaGreen1", "GhostWhite", "Khaki1", "LavenderBlush1", "LightSkyBlue",
    "MistyRose1", "MistyRose2", "PaleTurquoise2", "PeachPuff1", "Salmon", "Thistle1", "Thistle3", "Wheat1",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DotNode:
    """A box: its identifier, its text, and Graphviz attributes."""

    name: str
    label: str
    attributes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DotEdge:
    """An arrow from one box to another."""

    source: str
    target: str


@dataclass(slots=True)
class DotGraph:
    """A drawing. Mutable while it is put together."""

    name: str
    nodes: list[DotNode] = field(default_factory=list[DotNode])
    edges: list[DotEdge] = field(default_factory=list[DotEdge])

    def to_string(self) -> str:
        """Return the drawing in the DOT language, from top to bottom."""
        return "\n".join([f"digraph {_quoted(self.name)} {{", *self._lines(), "}"]) + "\n"

    def write(self, path: str | Path) -> None:
        """Write the drawing in the DOT language to a file."""
        Path(path).write_text(self.to_string(), encoding="utf-8")

    def _lines(self) -> Iterator[str]:
        yield "rankdir=TB;"
        for node in self.nodes:
            attributes = {"label": node.label, **node.attributes}
            yield f"{_quoted(node.name)} [{', '.join(f'{key}={_quoted(value)}' for key, value in attributes.items())}];"
        for edge in self.edges:
            yield f"{_quoted(edge.source)} -> {_quoted(edge.target)};"


class FxGraphDrawer:
    """Describes a graph module, and each graph module that it calls, as drawings.

    Example:
        >>> FxGraphDrawer(symbolic_trace(module), "net").get_dot_graph().write("net.dot")
    """

    def __init__(
        self,
        graph_module: GraphModule,
        name: str,
        ignore_getattr: bool = False,
        ignore_parameters_and_buffers: bool = False,
        skip_node_names_in_args: bool = True,
        parse_stack_trace: bool = False,
        dot_graph_shape: str | None = None,
        normalize_args: bool = False,
    ) -> None:
        """Draw ``graph_module`` under the name ``name``.

        Args:
            graph_module: What to draw.
            name: The name of its drawing; those of inner graph modules append their path.
            ignore_getattr: Leave out ``get_attr`` nodes.
            ignore_parameters_and_buffers: Leave out the parameters and buffers of leaf modules.
            skip_node_names_in_args: Show only those arguments that are no nodes; the arrows show the others.
            parse_stack_trace: Show where in the source a node comes from.
            dot_graph_shape: Graphviz' shape of the boxes, ``record`` by default.
            normalize_args: Show all arguments of functions by name, where their signature is known.
        """
        self._name = name
        self.dot_graph_shape = dot_graph_shape if dot_graph_shape is not None else "record"
        self.normalize_args = normalize_args
        self._ignore_getattr = ignore_getattr
        self._ignore_state = ignore_parameters_and_buffers
        self._skip_node_names = skip_node_names_in_args
        self._show_source = parse_stack_trace
        self._dot_graphs = {name: self._to_dot(graph_module, name)}
        for node in graph_module.graph.nodes:
            if node.op == "call_module":
                leaf = self._get_leaf_node(graph_module, node)
                if isinstance(leaf, GraphModule):
                    inner = f"{name}_{node.target}"
                    self._dot_graphs[inner] = self._to_dot(leaf, inner)

    def get_dot_graph(self, submod_name: str | None = None) -> DotGraph:
        """Return the drawing of the whole, or of the graph module at the path ``submod_name``."""
        return self.get_main_dot_graph() if submod_name is None else self.get_submod_dot_graph(submod_name)

    def get_main_dot_graph(self) -> DotGraph:
        """Return the drawing of the whole."""
        return self._dot_graphs[self._name]

    def get_submod_dot_graph(self, submod_name: str) -> DotGraph:
        """Return the drawing of the graph module at the path ``submod_name``."""
        return self._dot_graphs[f"{self._name}_{submod_name}"]

    def get_all_dot_graphs(self) -> dict[str, DotGraph]:
        """Return all drawings by name."""
        return self._dot_graphs

    def _to_dot(self, graph_module: GraphModule, name: str) -> DotGraph:
        drawing = DotGraph(name)
        shown = [node for node in graph_module.graph.nodes if not (self._ignore_getattr and node.op == "get_attr")]
        for node in shown:
            drawing.nodes.append(
                DotNode(node.name, self._get_node_label(graph_module, node), self._get_node_style(node))
            )
            if node.op == "call_module" and not self._ignore_state:
                self._draw_state(drawing, node, self._get_leaf_node(graph_module, node))
        drawing.edges += [DotEdge(node.name, user.name) for node in shown for user in node.users]
        return drawing

    def _draw_state(self, drawing: DotGraph, node: Node, leaf: Any) -> None:
        """Draw the parameters and buffers of a leaf module as boxes with arrows to its call."""
        if isinstance(leaf, GraphModule) or not isinstance(leaf, nn.Module):
            return
        style = {
            "shape": self.dot_graph_shape,
            "fillcolor": "Salmon",
            "style": "filled,rounded",
            "fontcolor": "#000000",
        }
        for path, tensor in chain(leaf.named_parameters(), leaf.named_buffers()):
            name = f"{node.name}.{path}"
            kind = "get_parameter" if isinstance(tensor, nn.Parameter) else "get_buffer"
            label = rf"{{{name}|op_code={kind}\l{self._get_tensor_label(tensor)}}}"
            drawing.nodes.append(DotNode(name, label, style))
            drawing.edges.append(DotEdge(name, node.name))

    def _get_node_style(self, node: Node) -> dict[str, str]:
        """Return the Graphviz attributes of a box: a colour for each opcode, and for each function."""
        color = _COLOR_MAP.get(node.op)
        if color is None:
            name = node._pretty_print_target(node.target)
            digest = hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()
            color = _HASH_COLOR_MAP[int(digest[:8], 16) % len(_HASH_COLOR_MAP)]
        return {"shape": self.dot_graph_shape, "fillcolor": color, "style": "filled,rounded", "fontcolor": "#000000"}

    def _get_leaf_node(self, module: nn.Module, node: Node) -> Any:
        """Return the module that ``node`` calls."""
        found: Any = module
        for atom in str(node.target).split("."):
            if not hasattr(found, atom):
                raise RuntimeError(f"{found} does not have attribute {atom}!")
            found = getattr(found, atom)
        return found

    def _typename(self, target: Target | nn.Module) -> str:
        """Return the name of a module's type, of a function, or of a method."""
        if isinstance(target, nn.Module):
            return _escaped(torch.typename(target))
        return _escaped(target if isinstance(target, str) else _get_qualified_name(target))

    def _get_node_label(self, module: GraphModule, node: Node) -> str:
        """Return the text of a box: name and opcode, what is called with what, its users, its tensor, its source."""
        parts = [f"name=%{node.name}", f"op_code={node.op}\n"]
        if node.op == "call_module":
            leaf = self._get_leaf_node(module, node)
            constants = [f"{name}: {getattr(leaf, name)}" for name in getattr(leaf, "__constants__", ())]
            parts += [rf"\n{self._typename(leaf)}\n", r"\n".join(map(_escaped, constants)) + r"\n"]
        else:
            parts += [rf"target={self._typename(node.target)}\n", *self._argument_fields(node)]
            parts.append(rf"num_users={len(node.users)}\n")
        parts += self._tensor_meta_to_label(node.meta.get("tensor_meta"))
        if self._show_source and node.origin is not None and node.origin.frames:
            frame = node.origin.frames[-1]
            path = "/".join(Path(frame.path).parts[-2:])
            parts.append(rf"file={path}:{frame.line} {_escaped(' '.join(frame.text.split()))}\n")
        return "{" + "|".join(parts) + "}"

    def _argument_fields(self, node: Node) -> Iterator[str]:
        args, kwargs = node.args, node.kwargs
        if self.normalize_args and callable(node.target):
            try:
                normalized = normalize_function(node.target, args, kwargs, normalize_to_only_use_kwargs=True)  # pyright: ignore[reportArgumentType] - arguments of nodes are what it takes.
            except RuntimeError:  # Several overloads fit.
                normalized = None
            if normalized is not None:
                args, kwargs = normalized
        shown = self._without_nodes(_format_arg(value, max_list_len=8) for value in args)
        if shown:
            yield "args=(" + _listed(shown) + ")"
        named = ((key, _format_arg(value, max_list_len=8)) for key, value in kwargs.items())
        shown = self._without_nodes(f"{key}: {value}" for key, value in named)
        if shown:
            yield r"kwargs=\{" + _listed(shown) + r"\}"

    def _without_nodes(self, values: Iterator[str]) -> list[str]:
        return [value for value in values if not (self._skip_node_names and "%" in value)]

    def _tensor_meta_to_label(self, meta: Any) -> list[str]:
        """Return the fields for a value's tensors, however nested.

        Raises:
            RuntimeError: There is something else among them.
        """
        match meta:
            case None:
                return []
            case TensorMetadata():
                return list(self._tensor_fields(meta))
            case list() | tuple():
                return [label for item in meta for label in self._tensor_meta_to_label(item)]
            case dict():
                return [label for item in meta.values() for label in self._tensor_meta_to_label(item)]
            case _:
                raise RuntimeError(f"Unsupported tensor meta type {type(meta)}")

    def _tensor_fields(self, meta: TensorMetadata) -> Iterator[str]:
        yield rf"dtype={meta.dtype}\n"
        yield rf"shape={tuple(meta.shape)}\n"
        yield rf"requires_grad={meta.requires_grad}\n"
        yield rf"stride={meta.stride}\n"
        for key, value in meta.qparams.items() if meta.is_quantized else ():
            yield rf"{key if key == 'qscheme' else f'q_{key}'}={value}\n"

    def _get_tensor_label(self, tensor: torch.Tensor) -> str:
        return rf"{tensor.dtype}{list(tensor.shape)}\n"


def _listed(values: list[str]) -> str:
    """Return values one below the other, a single one on the same line."""
    if len(values) == 1:
        return _escaped(values[0]) + ","
    return r"\l" + r",\n".join(map(_escaped, values)) + r",\n"


def _escaped(text: str) -> str:
    """Return text that stands for itself in a record label."""
    for character in "{}<>|":
        text = text.replace(character, f"\\{character}")
    return text


def _quoted(text: str) -> str:
    """Return a DOT string; its backslashes are DOT's own."""
    escaped = text.replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'

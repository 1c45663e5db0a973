"""What a pass did to a graph: noted on the nodes, and drawn before and after if a folder is given.

Settings are those of torch's compiler, so that what switches its passes off or asks for drawings counts here too.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from torch._inductor import config as compiler_config

from fxengine import traceback
from fxengine.graph import Graph
from fxengine.graph_module import GraphModule
from fxengine.node import Node
from fxengine.passes.graph_drawer import DotGraph, FxGraphDrawer

try:
    from torch._inductor.compiler_bisector import CompilerBisector as _CompilerBisector
except ImportError:  # torch before 2.7 calls it otherwise.
    _CompilerBisector = None

__all__ = ["GraphTransformObserver"]

_Result = TypeVar("_Result")
_NodeSource: Any = getattr(traceback, "NodeSource", None)
"""What torch's traceback module says of a node's origin; torch before 2.7 has no such thing, and nothing is said."""


class GraphTransformObserver:
    """Watches a graph module while a pass runs.

    Each node that is created or takes the place of another gets a ``NodeSource`` in ``meta["from_node"]``. With a
    folder, drawings of the graph before and after are written to it, with what was erased and created in yellow.

    Example:
        ``GraphTransformObserver(module, "fuse").apply_graph_pass(fuse)``

    Attributes:
        gm: The graph module.
        passname: The name of the pass.
        subsystem: What the pass belongs to, for bisecting the compiler.
        log_url: The folder for drawings, or None.
        active: Whether anything is noted; if not, the pass just runs.
        created_nodes: The names of the nodes that the pass created.
        erased_nodes: The names of those that it erased.
        name_to_node: All nodes that are there, by name.
        copied_gms: The deep copies that were made of the graph module, which are watched as well.
    """

    _pass_count: ClassVar[int] = 0

    def __init__(
        self, gm: GraphModule, passname: str, subsystem: str | None = None, log_url: str | None = None
    ) -> None:
        """Prepare to watch ``gm``.

        Args:
            gm: The graph module that the pass will change.
            passname: The name of the pass.
            subsystem: What the pass belongs to.
            log_url: The folder for drawings; that of the compiler's settings if None.
        """
        self.gm = gm
        self.passname = passname
        self.subsystem = subsystem
        trace: Any = compiler_config.trace
        self.log_url: str | None = trace.log_url_for_graph_xform if log_url is None else log_url
        self.active = self.log_url is not None or getattr(trace, "provenance_tracking_level", 0) == 1
        self.erased_nodes: set[str] = set()
        self.created_nodes: set[str] = set()
        self.name_to_node: dict[str, Node] = {}
        self.copied_gms: list[GraphModule] = []
        # Functions and not methods: a deep copy of the graph module has them too, and must not copy this observer.
        self._node_creation_hook = self.get_node_creation_hook()
        self._node_erase_hook = self.get_node_erase_hook()
        self._node_replace_hook = self.get_node_replace_hook()
        self._deepcopy_hook = self.get_deepcopy_hook()
        if self.log_url is not None:
            GraphTransformObserver._pass_count += 1
            self.input_dot_graph = self._drawing()

    @classmethod
    def get_current_pass_count(cls) -> int:
        """Return the number of passes that were watched with drawings so far."""
        return cls._pass_count

    def apply_gm_pass(self, pass_fn: Callable[[GraphModule], _Result]) -> _Result | None:
        """Run a pass on the graph module and return its result; None if the pass is switched off."""
        with self:
            return None if self._check_disable_pass() else pass_fn(self.gm)

    def apply_graph_pass(self, pass_fn: Callable[[Graph], _Result]) -> _Result | None:
        """Run a pass on the graph and return its result; None if the pass is switched off."""
        with self:
            return None if self._check_disable_pass() else pass_fn(self.gm.graph)

    def _check_disable_pass(self) -> bool:
        """Whether the compiler's settings, or the search for a pass that is at fault, switch this one off."""
        if self.passname.upper() in str(getattr(compiler_config, "disabled_passes", "")).upper():
            return True
        if self.subsystem is None or _CompilerBisector is None:
            return False
        return _CompilerBisector.disable_subsystem("inductor", self.subsystem, lambda: self.passname)

    def __enter__(self) -> Self:
        if not self.active:
            return self
        self.gm._register_create_node_hook(self._node_creation_hook)
        self.gm._register_erase_node_hook(self._node_erase_hook)
        self.gm._register_replace_node_hook(self._node_replace_hook)
        self.gm._register_deepcopy_hook(self._deepcopy_hook)
        self.erased_nodes.clear()
        self.created_nodes.clear()
        self.copied_gms.clear()
        self.name_to_node.clear()
        self.name_to_node.update((node.name, node) for node in self.gm.graph.nodes)
        return self

    def __exit__(self, *_: object) -> None:
        if not self.active:
            return
        for module in (*self.copied_gms, self.gm):
            module._unregister_create_node_hook(self._node_creation_hook)
            module._unregister_erase_node_hook(self._node_erase_hook)
            module._unregister_replace_node_hook(self._node_replace_hook)
            module._unregister_deepcopy_hook(self._deepcopy_hook)
        if self.log_url is not None and (self.created_nodes or self.erased_nodes):
            self._write(self.input_dot_graph, self.erased_nodes, "input")
            self._write(self._drawing(), self.created_nodes, "output")

    def get_node_creation_hook(self) -> Callable[[Node], None]:
        """Return what is called with each new node."""

        def on_node_creation(node: Node) -> None:
            self.created_nodes.add(node.name)
            self.name_to_node[node.name] = node
            if _NodeSource is not None:
                source = _NodeSource(None, self.passname, traceback.NodeSourceAction.CREATE)
                node.meta.setdefault("from_node", []).append(source)

        return on_node_creation

    def get_node_erase_hook(self) -> Callable[[Node], None]:
        """Return what is called with each node that is about to be erased."""

        def on_node_erase(node: Node) -> None:
            self.erased_nodes.add(node.name)
            self.name_to_node.pop(node.name, None)

        return on_node_erase

    def get_node_replace_hook(self) -> Callable[[Node, str, Node], None]:
        """Return what is called for each user of a node that is replaced."""

        def on_node_replace(old: Node, new: str, user: Node) -> None:  # noqa: ARG001 - a hook's parameters.
            node = self.name_to_node.get(new)
            if node is None or _NodeSource is None:
                return
            sources: list[Any] = node.meta.get("from_node", [])
            if old.name in {source.name for source in sources}:
                return  # Said for another user of the same node.
            action = [traceback.NodeSourceAction.REPLACE]
            if node.name in self.created_nodes:
                action.append(traceback.NodeSourceAction.CREATE)
            # That it was created is part of what is said now.
            kept = [
                source
                for source in sources
                if source.pass_name != self.passname or source.action != [traceback.NodeSourceAction.CREATE]
            ]
            node.meta["from_node"] = [*kept, _NodeSource(old, self.passname, action)]

        return on_node_replace

    def get_deepcopy_hook(self) -> Callable[[GraphModule], None]:
        """Return what is called with each deep copy of the graph module."""

        def on_deepcopy(gm: GraphModule) -> None:
            self.copied_gms.append(gm)

        return on_deepcopy

    def _drawing(self) -> DotGraph:
        drawer = FxGraphDrawer(self.gm, self.passname, ignore_getattr=True, ignore_parameters_and_buffers=True)
        return drawer.get_dot_graph()

    def _write(self, drawing: DotGraph, marked: set[str], which: str) -> None:
        """Write a drawing with some nodes in yellow."""
        drawing.nodes = [
            dataclasses.replace(
                node, attributes={**node.attributes, "fillcolor": "yellow" if node.name in marked else "grey"}
            )
            for node in drawing.nodes
        ]
        name = f"pass_{GraphTransformObserver._pass_count}_{self.passname}_{which}_graph.dot"
        drawing.write(Path(str(self.log_url)) / name)

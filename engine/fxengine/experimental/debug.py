"""A breakpoint in generated code."""

from collections.abc import Callable

from fxengine.graph import TransformCodeFunc
from fxengine.graph_module import GraphModule

__all__ = ["set_trace"]


def set_trace(gm: GraphModule) -> GraphModule:
    """Return ``gm``, whose code from now on starts the debugger before anything else."""

    def with_breakpoint(present: TransformCodeFunc | None) -> Callable[[list[str]], list[str]]:
        def transform(body: list[str]) -> list[str]:
            return ["import pdb; pdb.set_trace()\n", *(present(body) if present is not None else body)]

        return transform

    with gm.graph.on_generate_code(with_breakpoint):
        gm.recompile()
    return gm

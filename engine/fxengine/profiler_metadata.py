"""What torch's profilers need to name the nodes behind generated code: markers in the code, and a record of the nodes.

Only done where torch's setting `enrich_profiler_metadata` asks for it. The record is torch's, for its profilers read
it: under the name of the generated file it holds the nodes with their stack traces.
"""

import base64
import hashlib
import json
import sys
from typing import Any

from fxengine.graph import Graph, PythonCode

__all__ = ["FX_GRAPH_MODULE_FILE_PREFIX", "_metadata_hash", "is_wanted", "register"]

FX_GRAPH_MODULE_FILE_PREFIX = "fx_generated_"
"""How torch's profilers recognise generated files."""
_PLACEHOLDER = "## ENTER_GRAPH_PLACEHOLDER_KEY ##"


def is_wanted() -> bool:
    """Whether torch is set to enrich what its profilers record."""
    settings = sys.modules.get("torch.fx.experimental._config")
    return bool(getattr(settings, "enrich_profiler_metadata", False))


def register(graph: Graph, code: PythonCode) -> tuple[str, dict[str, Any]]:
    """Record the nodes of a graph with torch.

    Args:
        graph: The graph.
        code: Its code, generated with `record_func`.

    Returns:
        The source with the file's name in its markers, and the file's name as fields of the code object. Equal code of
        equal nodes has the same name.
    """
    nodes = {
        place: {
            "name": node.name,
            "op": node.op,
            "target": str(node.target),
            "stack_trace": node.meta.get("stack_trace"),
        }
        for place, node in enumerate(graph.nodes)
    }
    name = f"{FX_GRAPH_MODULE_FILE_PREFIX}_{_metadata_hash(code.src, nodes)}.py"
    record = {"lineno_map": code._lineno_map, "prologue_start": code._prologue_start, "node_metadata": nodes}
    register_with_torch = getattr(sys.modules.get("torch.fx.traceback"), "_register_fx_metadata", None)
    if register_with_torch is not None:
        register_with_torch(name, record)
    return code.src.replace(_PLACEHOLDER, f"## {name} ##"), {"co_filename": name}


def _metadata_hash(code: str, node_metadata: dict[int, dict[str, Any]]) -> str:
    """Return what equal code of equal nodes has in common: 51 letters and digits."""
    described = json.dumps({"code": code, "node_metadata": node_metadata}).encode()
    return base64.b32encode(hashlib.sha256(described).digest()).decode().lower()[:51]

"""An independent implementation of torch.fx: symbolic tracing, graphs of what was traced, and code from graphs.

Whoever knows torch.fx knows this package: its public names mean the same here. Beyond it, every node knows where in the
user's source it comes from (`Node.origin`), and `diagnose` says what stops a trace, where and why, instead of raising.
"""

import importlib
from types import ModuleType

from fxengine import immutable_collections
from fxengine._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from fxengine.exploration import Diagnosis, Guard, TracingProblem, diagnose
from fxengine.graph import CodeGen, Graph
from fxengine.graph_module import GraphModule
from fxengine.interpreter import Interpreter, Transformer
from fxengine.node import Node, has_side_effect, map_arg
from fxengine.proxy import Proxy, TraceError
from fxengine.subgraph_rewriter import replace_pattern

__all__ = [
    "PH",
    "CodeGen",
    "Diagnosis",
    "Graph",
    "GraphModule",
    "Guard",
    "Interpreter",
    "Node",
    "Proxy",
    "ProxyableClassMeta",
    "TraceError",
    "Tracer",
    "TracingProblem",
    "Transformer",
    "diagnose",
    "has_side_effect",
    "immutable_collections",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]

_LATER = frozenset(
    {"_compatibility", "_lazy_graph_module", "annotate", "experimental", "passes", "tensor_type", "traceback"}
)


def __getattr__(name: str) -> ModuleType:
    """Return a submodule that nobody has imported yet: `import torch` loads torch.fx's, and people count on that."""
    if name in _LATER:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

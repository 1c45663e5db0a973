"""An independent implementation of torch.fx: symbolic tracing, graphs of what was traced, and code from graphs.

Whoever knows torch.fx knows this package: its public names mean the same here. Beyond it, every node knows where in the
user's source it comes from (`Node.origin`), and `diagnose` says what stops a trace, where and why, instead of raising.
"""

from fxengine import immutable_collections
from fxengine._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from fxengine.capturing import Capture, capture
from fxengine.exploration import Diagnosis, Guard, TracingProblem, diagnose
from fxengine.graph import CodeGen, Graph
from fxengine.graph_module import GraphModule
from fxengine.interpreter import Interpreter, Transformer
from fxengine.node import Node, has_side_effect, map_arg
from fxengine.on_demand import submodules_of
from fxengine.proxy import Proxy, TraceError
from fxengine.subgraph_rewriter import replace_pattern

__all__ = [
    "PH",
    "Capture",
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
    "capture",
    "diagnose",
    "has_side_effect",
    "immutable_collections",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]

__getattr__ = submodules_of(__name__)

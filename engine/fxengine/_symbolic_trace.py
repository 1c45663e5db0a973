"""The names of torch.fx's module of this name; their definitions are in modules with one purpose each.

What users may rely on calls itself after this module, where they find it: in tracebacks and in what they save.
"""

from fxengine.interception import _orig_module_call, _orig_module_getattr
from fxengine.placeholders import PH, PHBase, PHWithMeta
from fxengine.running import ProxyableClassMeta, is_fx_symbolic_tracing, is_fx_tracing
from fxengine.tracer import Tracer, _assert_is_none, symbolic_trace
from fxengine.wrapping import _wrapped_fns_to_patch, _wrapped_methods_to_patch, wrap

__all__ = [
    "PH",
    "PHBase",
    "PHWithMeta",
    "ProxyableClassMeta",
    "Tracer",
    "_assert_is_none",
    "_orig_module_call",
    "_orig_module_getattr",
    "_wrapped_fns_to_patch",
    "_wrapped_methods_to_patch",
    "is_fx_symbolic_tracing",
    "is_fx_tracing",
    "symbolic_trace",
    "wrap",
]

for _defined in (ProxyableClassMeta, Tracer, symbolic_trace, wrap):
    _defined.__module__ = __name__

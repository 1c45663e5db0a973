"""The names of torch.fx's module of this name; their definitions are in modules with one purpose each.

What users may rely on calls itself after this module, where they find it: in tracebacks and in what they save. What
torch.fx keeps in variables of its module, and the engine for each context, is looked up when somebody asks.
"""

import functools
import operator
from typing import TYPE_CHECKING, Any, Final

from fxengine.graph import Graph
from fxengine.graph_module import GraphModule
from fxengine.hierarchy import CONSTANT_TYPES
from fxengine.interception import _orig_module_call, _orig_module_getattr
from fxengine.names import found_in
from fxengine.node import base_types, map_aggregate
from fxengine.patcher import (
    _autowrap_check,
    _maybe_revert_all_patches,
    _new_patcher,
    _patch_wrapped_functions,
    _PatchedFn,
    _PatchedFnDel,
    _PatchedFnSetAttr,
    _PatchedFnSetItem,
    _Patcher,
    current_patcher,
)
from fxengine.placeholders import _HAS_VARIADIC as HAS_VARSTUFF
from fxengine.placeholders import PH, PHBase, PHWithMeta
from fxengine.placeholders import transfer_attributes as _transfer_attrs
from fxengine.placeholders import with_plain_parameters as _patch_function
from fxengine.proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase
from fxengine.running import ProxyableClassMeta, _proxyable_classes, is_fx_symbolic_tracing, is_fx_tracing
from fxengine.tracer import Tracer, _assert_is_none, symbolic_trace
from fxengine.wrapping import (
    _create_wrapped_func,
    _create_wrapped_method,
    _find_proxy,
    _wrapped_fns_to_patch,
    _wrapped_methods_to_patch,
    wrap,
)

if TYPE_CHECKING:
    CURRENT_PATCHER: _Patcher | None
    _is_fx_tracing_flag: bool

__all__ = [
    "CURRENT_PATCHER",
    "HAS_VARSTUFF",
    "PH",
    "Graph",
    "GraphModule",
    "PHBase",
    "PHWithMeta",
    "ParameterProxy",
    "Proxy",
    "ProxyableClassMeta",
    "Scope",
    "ScopeContextManager",
    "Tracer",
    "TracerBase",
    "_ConstantAttributeType",
    "_PatchedFn",
    "_PatchedFnDel",
    "_PatchedFnSetAttr",
    "_PatchedFnSetItem",
    "_Patcher",
    "_assert_is_none",
    "_autowrap_check",
    "_constant_attribute_types",
    "_create_wrapped_func",
    "_create_wrapped_method",
    "_find_proxy",
    "_is_fx_tracing_flag",
    "_maybe_revert_all_patches",
    "_new_patcher",
    "_orig_module_call",
    "_orig_module_getattr",
    "_patch_function",
    "_patch_wrapped_functions",
    "_proxyable_classes",
    "_transfer_attrs",
    "_wrapped_fns_to_patch",
    "_wrapped_methods_to_patch",
    "base_types",
    "is_fx_symbolic_tracing",
    "is_fx_tracing",
    "map_aggregate",
    "symbolic_trace",
    "wrap",
]

_constant_attribute_types: Final = CONSTANT_TYPES
_ConstantAttributeType: Final[Any] = functools.reduce(operator.or_, _constant_attribute_types)
"""The types of what a graph refers to as an attribute of the root."""

found_in(__name__, PHBase, PHWithMeta, ProxyableClassMeta, Tracer, symbolic_trace, wrap)


def __getattr__(name: str) -> Any:
    if name == "CURRENT_PATCHER":
        return current_patcher.get()
    if name == "_is_fx_tracing_flag":
        return is_fx_tracing()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

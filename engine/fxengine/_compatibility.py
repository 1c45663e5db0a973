"""What users may rely on: the names that torch.fx promises to keep, as they are found here.

``compatibility`` adds objects to the same lists, for modules outside of this package that use torch.fx's decorator.
"""

import pkgutil
import textwrap
from collections.abc import Callable
from typing import Any, Final, TypeVar

__all__ = ["compatibility"]

_T = TypeVar("_T")

_PROMISED: Final[dict[str, tuple[str, ...]]] = {
    "immutable_collections": ("immutable_list", "immutable_dict"),
    "node": (
        "Node",
        "Node.__init__",
        "Node.prepend",
        "Node.append",
        "Node.update_arg",
        "Node.insert_arg",
        "Node.update_kwarg",
        "Node.format_node",
        "Node.replace_all_uses_with",
        "Node.replace_input_with",
        "map_arg",
        "map_aggregate",
    ),
    "graph": (
        "PythonCode",
        "Graph",
        "Graph.__init__",
        "Graph.graph_copy",
        "Graph.create_node",
        "Graph.erase_node",
        "Graph.inserting_before",
        "Graph.inserting_after",
        "Graph.placeholder",
        "Graph.get_attr",
        "Graph.call_module",
        "Graph.call_method",
        "Graph.call_function",
        "Graph.node_copy",
        "Graph.output",
        "Graph.python_code",
        "Graph.print_tabular",
        "Graph.lint",
        "Graph.eliminate_dead_code",
    ),
    "graph_module": (
        "reduce_graph_module",
        "reduce_package_graph_module",
        "GraphModule",
        "GraphModule.__init__",
        "GraphModule.add_submodule",
        "GraphModule.delete_submodule",
        "GraphModule.delete_all_unused_submodules",
        "GraphModule.recompile",
    ),
    "proxy": (
        "TracerBase",
        "TracerBase.create_node",
        "TracerBase.proxy",
        "TracerBase.create_proxy",
        "TracerBase.create_arg",
        "TracerBase.to_bool",
        "TracerBase.iter",
        "TracerBase.keys",
        "GraphAppendingTracer",
        "TraceError",
        "Proxy",
        "Proxy.__init__",
        "Proxy.keys",
        "Attribute",
        "Attribute.__init__",
    ),
    "_symbolic_trace": (
        "ProxyableClassMeta",
        "Tracer",
        "Tracer.__init__",
        "Tracer.get_fresh_qualname",
        "Tracer.create_arg",
        "Tracer.is_leaf_module",
        "Tracer.path_of_module",
        "Tracer.call_module",
        "Tracer.trace",
        "wrap",
        "symbolic_trace",
    ),
    "interpreter": (
        "Interpreter",
        "Interpreter.__init__",
        "Interpreter.run",
        "Interpreter.boxed_run",
        "Interpreter.run_node",
        "Interpreter.placeholder",
        "Interpreter.get_attr",
        "Interpreter.call_function",
        "Interpreter.call_method",
        "Interpreter.call_module",
        "Interpreter.output",
        "Interpreter.fetch_attr",
        "Interpreter.fetch_args_kwargs_from_env",
        "Interpreter.map_nodes_to_values",
        "Transformer",
        "Transformer.__init__",
        "Transformer.placeholder",
        "Transformer.get_attr",
        "Transformer.call_module",
        "Transformer.call_function",
        "Transformer.transform",
    ),
    "subgraph_rewriter": ("Match", "replace_pattern"),
    "passes.reinplace": ("reinplace",),
    "passes.runtime_assert": ("insert_deferred_runtime_asserts",),
    "passes.shape_prop": ("TensorMetadata", "ShapeProp"),
    "passes.split_module": ("Partition", "split_module"),
}
"""torch.fx's list, by module."""


_IS_PROMISED: Final = """

.. note::
    Backwards-compatibility for this API is guaranteed.
"""
_IS_NOT_PROMISED: Final = """

.. warning::
    This API is experimental and is *NOT* backward-compatible.
"""


_CLASSIFIED_MODULES: Final = ("fxengine.", "torch.fx.traceback")


class _Classified(dict[Any, None]):
    """What is promised or was decorated. All else in this package is classified too: it is not promised."""

    def __contains__(self, obj: object) -> bool:
        # What `traceback` has is torch's own.
        return super().__contains__(obj) or str(getattr(obj, "__module__", "")).startswith(_CLASSIFIED_MODULES)


def compatibility(is_backward_compatible: bool) -> Callable[[_T], _T]:
    """Return a decorator that notes whether an object's name and signature are promised to stay, and documents it."""
    promise = _IS_PROMISED if is_backward_compatible else _IS_NOT_PROMISED

    def note(obj: _T) -> _T:
        if is_backward_compatible:
            _BACK_COMPAT_OBJECTS.setdefault(obj)
        _MARKED_WITH_COMPATIBILITY.setdefault(obj)
        obj.__doc__ = f"{textwrap.dedent(getattr(obj, '__doc__', None) or '')}{promise}"
        return obj

    return note


_BACK_COMPAT_OBJECTS: Final[dict[Any, None]] = {
    pkgutil.resolve_name(f"fxengine.{module}:{name}"): None for module, names in _PROMISED.items() for name in names
}
_MARKED_WITH_COMPATIBILITY: Final[dict[Any, None]] = _Classified(_BACK_COMPAT_OBJECTS)

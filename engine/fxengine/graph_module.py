"""``GraphModule``: a module whose ``forward`` is generated from a graph.

It holds what the graph refers to, compiles the graph's code into a class of its own, and is saved as that code: the
graph is traced anew when it is loaded. How code is made is the matter of ``codegen``.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import os
import pkgutil
from collections.abc import Callable, Generator
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import torch
from torch.nn.modules.module import _addindent
from torch.package.importer import sys_importer
from torch.package.package_exporter import PackageExporter
from torch.package.package_importer import PackageImporter

from fxengine import profiler_metadata
from fxengine.codegen import _BoxedCodeGen, _override_sym_repr, _PyTreeCodeGen
from fxengine.graph import Graph, PythonCode, _custom_builtins, _is_from_torch, own_graph
from fxengine.module_state import (
    _assign_attr,
    _copy_attr,
    _del_attr,
    _get_attr,
    _get_attr_via_attr_list,
    _has_attr,
    copy_attributes,
)
from fxengine.node import Node
from fxengine.packaging import _format_import_block, _format_import_statement, write_package
from fxengine.profiler_metadata import FX_GRAPH_MODULE_FILE_PREFIX, _metadata_hash
from fxengine.source_cache import (
    CompiledOnDemand,
    _EvalCacheLoader,
    _exec_with_source,
    _forward_from_src,
    _loader,
    _method_from_src,
)
from fxengine.wrapped_call import _WrappedCall, new_call_wrapped

if TYPE_CHECKING:
    from fxengine.tracer import Tracer

__all__ = [
    "FX_GRAPH_MODULE_FILE_PREFIX",
    "GraphModule",
    "_CodeOnlyModule",
    "_EvalCacheLoader",
    "_WrappedCall",
    "_assign_attr",
    "_copy_attr",
    "_custom_builtins",
    "_del_attr",
    "_exec_with_source",
    "_format_import_block",
    "_format_import_statement",
    "_forward_from_src",
    "_get_attr",
    "_get_attr_via_attr_list",
    "_has_attr",
    "_is_from_torch",
    "_loader",
    "_metadata_hash",
    "_method_from_src",
    "_print_readable",
    "reduce_graph_module",
    "reduce_package_graph_module",
]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
_DEFAULT_TRACER = "fxengine.tracer:Tracer"
"""Named, not imported: restoring a graph needs a tracer, which is built on graph modules."""
_PRESERVED_HOOKS = (
    "_state_dict_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
    "_replace_hooks",
    "_create_node_hooks",
    "_erase_node_hooks",
    "_deepcopy_hooks",
)
class_in_use: ContextVar[type[GraphModule] | None] = ContextVar("class_in_use", default=None)
"""The class of graph modules that are made and restored in this context, if not ``GraphModule`` itself."""
_ReplaceHook = Callable[[Node, str, Node], object]
_NodeHook = Callable[[Node], object]


class GraphModule(torch.nn.Module):
    """A module generated from a graph, with the attributes ``graph``, ``code`` and ``forward``.

    Assigning to ``graph`` generates the code anew. After editing the graph in place, call ``recompile``.

    Attributes:
        meta: Free for passes; kept by ``copy.deepcopy``.
    """

    # TorchScript cannot compile these properties and has no need of them.
    __jit_unused_properties__ = ["graph", "_boxed_call"]  # noqa: RUF012 - TorchScript's protocol.

    if TYPE_CHECKING:  # TorchScript would take annotations of the class for those of its own attributes.
        meta: dict[str, Any]
        shape_env: Any
        _graph: Graph
        _code: str
        _tracer_cls: type[Tracer] | None
        _tracer_extras: dict[str, Any]
        _replace_hooks: list[_ReplaceHook]
        _create_node_hooks: list[_NodeHook]
        _erase_node_hooks: list[_NodeHook]
        _deepcopy_hooks: list[Callable[[GraphModule], object]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Make an instance of a class of its own, on which its ``forward`` is put.

        That class derives from ``cls``, or from what ``cls`` was derived from in this way, as when a replica is made.
        """
        del args, kwargs
        original: Any = next(base for base in cls.__mro__ if base.__qualname__.rpartition(".")[2] != "GraphModuleImpl")

        class GraphModuleImpl(original):  # type: ignore[misc, valid-type] - a class for one instance.
            pass

        return super().__new__(GraphModuleImpl)

    def __init__(
        self,
        root: torch.nn.Module | dict[str, Any],
        graph: Graph,
        class_name: str = "GraphModule",
    ) -> None:
        """Make a module with ``graph``'s code and whatever that refers to.

        Args:
            root: Where the targets of the graph's nodes are found: a module, or a dict of attributes by qualified name.
            graph: The graph; the new module becomes its owner.
            class_name: What the module calls itself.

        Raises:
            RuntimeError: ``root`` is a dict without one of the targets, or neither module nor dict.
        """
        super().__init__()
        self.__class__.__name__ = class_name
        targets = [
            cast("str", node._target) for node in own_graph(graph).nodes if node._op in {"get_attr", "call_module"}
        ]
        if isinstance(root, torch.nn.Module):
            if hasattr(root, "training"):
                self.training = root.training
            self._adopt(root, targets)
        elif isinstance(root, dict):  # pyright: ignore[reportUnnecessaryIsInstance] - callers pass anything.
            _check_provided(root, graph)
            # An attribute must not be overwritten by a module that contains it, so those less deep come first.
            for target in sorted(targets, key=lambda target: target.count(".")):
                _assign_attr(root[target], self, target)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")  # noqa: TRY004 - as torch.fx.
        self.graph = graph
        tracer_cls = graph._tracer_cls
        # A tracer that is local to a function cannot be found again when the module is loaded.
        local = tracer_cls is not None and "<locals>" in tracer_cls.__qualname__
        # Into the dict, because a module looks at each attribute that is set on it.
        self.__dict__.update(
            _tracer_cls=None if local else tracer_cls,
            _tracer_extras=graph._tracer_extras or {},
            meta={},
            _replace_hooks=[],
            _create_node_hooks=[],
            _erase_node_hooks=[],
            _deepcopy_hooks=[],
            shape_env=None,
        )

    def _adopt(self, root: torch.nn.Module, targets: list[str]) -> None:
        """Copy what the targets refer to from ``root``; everything, if that is a module being restored or copied."""
        if isinstance(root, _CodeOnlyModule):
            named = itertools.chain(root.named_children(), root.named_buffers(), root.named_parameters())
            targets = [*(name for name, _ in named), *targets]
        copy_attributes(root, self, dict.fromkeys(targets))

    @property
    def _boxed_call(self) -> bool:
        return isinstance(self._graph._codegen, _BoxedCodeGen)

    @property
    def graph(self) -> Graph:
        """The graph that the code is generated from. Assigning to it generates the code anew."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        self._graph = own_graph(g)
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The source of ``forward``."""
        if not hasattr(self, "_code"):
            raise RuntimeError("Code has not been generated!")
        return self._code

    def recompile(self) -> PythonCode:
        """Generate ``code`` and ``forward`` from the graph as it is now, and return the code."""
        codegen = self._graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            self._in_spec = codegen.pytree_info.in_spec
            self._out_spec = codegen.pytree_info.out_spec
        enriched = profiler_metadata.is_wanted()
        python_code = self._graph.python_code(root_module="self", record_func=enriched)
        source, co_fields = python_code.src, self._graph._co_fields
        if enriched:
            source, co_fields = profiler_metadata.register(self._graph, python_code)
        self.__dict__.update(
            _code=source,
            _lineno_map=python_code._lineno_map,
            _prologue_start=python_code._prologue_start,
        )
        cls: Any = type(self)
        CompiledOnDemand(cls, source, python_code.globals, co_fields, python_code._head)
        if "_wrapped_call" not in vars(cls):
            # A class that defines its call keeps it; else it is looked up at each call, because tracers patch it.
            cls._wrapped_call = _WrappedCall(cls, vars(cls).get("__call__"))
        self._recompile_submodules()
        cls.__call__ = new_call_wrapped()
        return python_code

    def _up_to_date_code(self) -> PythonCode:
        """Return the code of the graph as it is now, which is also made the module's."""
        return self.recompile()

    def _recompile_submodules(self) -> list[tuple[str, PythonCode]]:
        """Recompile the children that are graph modules, and return their code by name."""
        return [(name, child.recompile()) for name, child in self.named_children() if isinstance(child, GraphModule)]

    def to_folder(self, folder: str | os.PathLike[str], module_name: str = "FxModule") -> None:
        """Write the module as a package: afterwards ``from <folder> import <module_name>`` works.

        Args:
            folder: Where the package goes.
            module_name: The name of the module's class in the package.
        """
        write_package(self, self.code, Path(folder), module_name)

    def add_submodule(self, target: str, m: torch.nn.Module) -> bool:
        """Add ``m`` under a qualified name, with empty modules where there are none on the way.

        Returns:
            Whether that was possible: not if something that is no module stands on the way.
        """
        *prefix, field = target.split(".")
        owner: torch.nn.Module = self
        for name in prefix:
            child = getattr(owner, name, None)
            if child is None:
                child = torch.nn.Module()
                setattr(owner, name, child)
            if not isinstance(child, torch.nn.Module):
                return False
            owner = child
        owner.add_module(field, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Delete the submodule with this qualified name, and return whether there was one."""
        *prefix, field = target.split(".")
        owner: Any = self
        for name in prefix:
            owner = getattr(owner, name, None)
            if not isinstance(owner, torch.nn.Module):
                return False
        if not isinstance(getattr(owner, field, None), torch.nn.Module):
            return False
        delattr(owner, field)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Delete the submodules that the graph does not need.

        It needs those that it calls, with everything in them, and those that contain what it reads or calls.
        """
        used: set[str] = set()
        for node in self.graph.nodes:
            if node._op not in {"call_module", "get_attr"} or not isinstance(node._target, str):
                continue
            used.update(itertools.accumulate(node._target.split("."), "{}.{}".format))
            if node._op == "call_module" and _has_attr(self, node._target):
                called = self.get_submodule(node._target)
                used.update(f"{node._target}.{name}" for name, _ in called.named_modules() if name)
        for name in [name for name, _ in self.named_modules() if name not in used]:
            self.delete_submodule(name)

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        *,
        fast_sympy_print: bool = False,
        expanded_def: bool = False,
        additional_meta: list[str] | None = None,
    ) -> str:
        """Return the code of this module and of the graph modules in it, with comments for people.

        Args:
            print_output: Print it too.
            include_stride: Say tensors' strides.
            include_device: Say tensors' devices.
            colored: Colour for a terminal.
            fast_sympy_print: Write symbolic numbers by a faster and less readable printer.
            expanded_def: Put each parameter on a line of its own.
            additional_meta: Entries of nodes' ``meta`` to say.
        """
        with _override_sym_repr(_stored_expression) if fast_sympy_print else contextlib.nullcontext():
            return _print_readable(
                self,
                self._get_name(),
                print_output,
                include_stride,
                include_device,
                colored,
                expanded_def,
                additional_meta,
            )

    def __str__(self) -> str:
        reminder = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__str__(), self._code, reminder])

    def __reduce__(self) -> tuple[Any, ...]:
        """Save the module as its code: Python is understood by later versions, the layout of a graph need not be."""
        import_block = _format_import_block(self._up_to_date_code().globals, sys_importer)
        state = self.__dict__.copy()
        del state["_graph"]
        return reduce_graph_module, (state, import_block)

    def __reduce_package__(self, exporter: PackageExporter) -> tuple[Any, ...]:
        """Save the module into a package: its code becomes a module there."""
        python_code = self._up_to_date_code()
        state = self.__dict__.copy()
        state["_graphmodule_cls_name"] = self.__class__.__name__
        state["_graphmodule_graph_node_meta_stack_trace"] = {
            node._name: node.meta["stack_trace"] for node in self.graph.nodes if "stack_trace" in node.meta
        }
        del state["_graph"]
        generated_module_name = f"fx-generated._{exporter.get_unique_id()}"
        import_block = _format_import_block(python_code.globals, exporter.importer)
        exporter.save_source_string(generated_module_name, import_block + self.code)
        return reduce_package_graph_module, (state, generated_module_name)

    def _deepcopy_init(self) -> Callable[..., None]:
        return GraphModule.__init__

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        """Return a copy with a copy of the graph, without the detour over generated code that saving takes."""
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        root = _CodeOnlyModule(copy.deepcopy(self.__dict__, memo))
        self._deepcopy_init()(copied, root, root.__dict__["_graph"])
        for name in _PRESERVED_HOOKS:
            if name in self.__dict__:
                setattr(copied, name, copy.deepcopy(self.__dict__[name], memo))
        copied.meta = copy.deepcopy(getattr(self, "meta", {}), memo)
        for name, value in copied.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}).items():
            setattr(copied, name, value)
        for hook in getattr(self, "_deepcopy_hooks", ()):
            hook(copied)
        return copied

    def __copy__(self) -> GraphModule:
        """Return a module with the same graph, attributes and ``meta``; it becomes the graph's owner."""
        copied = GraphModule(self, self.graph)
        copied.meta = getattr(self, "meta", {})
        return copied

    def _replicate_for_data_parallel(self) -> GraphModule:
        replica = self.__copy__()
        object.__setattr__(replica, "_is_replica", True)
        return replica

    @contextlib.contextmanager
    def _set_replace_hook(self, f: _ReplaceHook) -> Generator[None]:
        """Call ``f(old=, new=, user=)`` for each replacement or renaming of a node within the ``with`` statement."""
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)

    def _register_replace_node_hook(self, f: _ReplaceHook) -> None:
        """Call ``f(old=, new=, user=)`` when a user of ``old`` comes to use the node with the name ``new``."""
        self._replace_hooks.append(_checked(f, "Replace"))

    def _unregister_replace_node_hook(self, f: _ReplaceHook) -> None:
        self._replace_hooks.remove(_checked(f, "Replace"))

    def _register_create_node_hook(self, f: _NodeHook) -> None:
        """Call ``f`` with each new node of the graph."""
        self._create_node_hooks.append(_checked(f, "create_node"))

    def _unregister_create_node_hook(self, f: _NodeHook) -> None:
        self._create_node_hooks.remove(_checked(f, "create_node"))

    def _register_erase_node_hook(self, f: _NodeHook) -> None:
        """Call ``f`` with each node that is about to be erased."""
        self._erase_node_hooks.append(_checked(f, "erase_node"))

    def _unregister_erase_node_hook(self, f: _NodeHook) -> None:
        self._erase_node_hooks.remove(_checked(f, "erase_node"))

    def _register_deepcopy_hook(self, f: Callable[[GraphModule], object]) -> None:
        """Call ``f`` with each deep copy that is made of the module."""
        self._deepcopy_hooks.append(_checked(f, "deepcopy"))

    def _unregister_deepcopy_hook(self, f: Callable[[GraphModule], object]) -> None:
        self._deepcopy_hooks.remove(_checked(f, "deepcopy"))


class _CodeOnlyModule(torch.nn.Module):
    """What is left of a graph module when it is saved: its attributes, and ``forward`` on a subclass."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body


def reduce_graph_module(body: dict[str, Any], import_block: str) -> torch.nn.Module:
    """Return the graph module that was saved as ``body``, by tracing its code."""
    source = body.get("_code") or body["code"]
    return _deserialize_graph_module(_forward_from_src(import_block + source, {}), body)


def reduce_package_graph_module(
    importer: PackageImporter, body: dict[str, Any], generated_module_name: str
) -> torch.nn.Module:
    """Return the graph module that was saved into a package, by tracing the code in there."""
    generated: Any = importer.import_module(generated_module_name)
    return _deserialize_graph_module(generated.forward, body)


def _deserialize_graph_module(
    forward: Callable[..., Any],
    body: dict[str, Any],
    graph_module_cls: type[GraphModule] | None = None,
) -> torch.nn.Module:
    """Return a graph module with the attributes in ``body`` and the graph that tracing ``forward`` gives."""
    tracer_cls: Any = body.get("_tracer_cls") or pkgutil.resolve_name(_DEFAULT_TRACER)

    class KeepModules(tracer_cls):
        """Does not look into submodules: when the graph was made, those that it calls were leaves."""

        def is_leaf_module(self, _: torch.nn.Module, __: str) -> bool:
            return True

    # A tracer takes the function from the class.
    restored_cls: Any = type("_CodeOnlyModule", (_CodeOnlyModule,), {"forward": forward})
    root = restored_cls(body)
    graph: Graph = KeepModules().trace(root, **body.get("_tracer_extras", {}))
    stack_traces: dict[str, str] = body.pop("_graphmodule_graph_node_meta_stack_trace", None) or {}
    for node in graph.nodes:
        if stack_traces.get(node._name) is not None:
            node.meta["stack_trace"] = stack_traces[node._name]
    graph._tracer_cls = tracer_cls
    restored = (graph_module_cls or class_in_use.get() or GraphModule)(
        root, graph, body.get("_graphmodule_cls_name", "GraphModule")
    )
    # The constructor keeps what the graph refers to; the module had more than that.
    for name, value in body.items():
        if not hasattr(restored, name):
            setattr(restored, name, value)
    return restored


def _check_provided(root: dict[str, Any], graph: Graph) -> None:
    for node in graph.nodes:
        if node._op in {"get_attr", "call_module"} and node._target not in root:
            raise RuntimeError(
                f"Node {node} referenced target {node._target} but that target was not provided in ``root``!"
            )


def _checked(hook: Any, kind: str) -> Any:
    assert callable(hook), f"{kind} hook must be a callable."
    return hook


def _readable(module: GraphModule, name: str, *, expanded_def: bool = False, **options: Any) -> str:
    """Return the code of ``module`` as a class, with the classes of the graph modules in it."""
    code = module.graph.python_code(root_module="self", verbose=True, expanded_def=expanded_def, **options)
    own_text = _addindent(f"class {name}(torch.nn.Module):\n" + code.src.lstrip("\n"), 4)
    children = [
        _readable(child, child_name, **options)
        for child_name, child in module.named_children()
        if isinstance(child, GraphModule)
    ]
    return own_text + _addindent("\n".join(["", *children]), 4)


def _print_readable(
    module: GraphModule,
    module_name: str,
    print_output: bool = True,
    include_stride: bool = False,
    include_device: bool = False,
    colored: bool = False,
    expanded_def: bool = False,
    additional_meta: list[str] | None = None,
) -> str:
    """Return the code of ``module``, which needs only a ``graph``, as a class with a name of the caller's choice."""
    assert isinstance(module.graph, Graph), "print_readable must be used on a module with a graph"
    text = _readable(
        module,
        module_name,
        expanded_def=expanded_def,
        include_stride=include_stride,
        include_device=include_device,
        colored=colored,
        additional_meta=additional_meta,
    )
    if print_output:
        print(text)  # noqa: T201 - as it says.
    return text


def _stored_expression(number: Any) -> str:
    """Return a symbolic number's expression as it is stored, which spares simplification."""
    return str(number.node.expr)

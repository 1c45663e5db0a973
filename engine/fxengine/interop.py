"""The bridge to torch.fx: graphs, modules, code and meta there and back, so that its consumers take ours.

Quantization, export and compiler back ends check for `torch.fx.GraphModule`, and torch.fx's nodes live in C++, so
neither engine can use the other's graphs. This module rebuilds them, node by node, and gives classes that were written
for torch.fx the engine as their base. It is the only module of the engine that imports torch.fx, and of the rest of it
only those modules of `experimental` need it that are torch's own: who does not need the bridge does not load torch.fx.
"""

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import CellType, FunctionType, GetSetDescriptorType, MemberDescriptorType, MethodType
from typing import Any, Final, TypeAlias, TypeVar

import torch.fx
import torch.fx.graph
import torch.fx.node
from torch import nn
from torch.fx.passes.shape_prop import TensorMetadata as TorchTensorMetadata
from torch.utils import _pytree as pytree

from fxengine._symbolic_trace import Tracer
from fxengine.codegen import CodeGen, _BoxedCodeGen, _ExportCodeGen, _PyTreeCodeGen, _PyTreeInfo
from fxengine.graph import Graph
from fxengine.graph_module import GraphModule
from fxengine.interpreter import Interpreter, Transformer
from fxengine.node import Node, map_arg
from fxengine.passes.shape_prop import TensorMetadata

__all__ = ["adopt", "from_torch_fx", "graph_from_torch_fx", "graph_to_torch_fx", "share", "to_torch_fx"]

_Class = TypeVar("_Class", bound=type[Any])
_Copies: TypeAlias = dict[Any, Any]

_ORIGIN: Final = "fxengine_origin"
"""The key of `meta` under which a node of torch.fx carries the origin that ours has as a field."""

_HOOKS: Final = (
    "_backward_hooks",
    "_backward_pre_hooks",
    "_forward_hooks",
    "_forward_hooks_always_called",
    "_forward_hooks_with_kwargs",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_load_state_dict_post_hooks",
    "_load_state_dict_pre_hooks",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
)
"""What `nn.Module` calls on its way; hooks for the changes of a graph take nodes of one engine and stay with it."""


def to_torch_fx(module: GraphModule) -> torch.fx.GraphModule:
    """Return a `torch.fx.GraphModule` that computes the same, with the same node names, code and meta.

    Parameters, submodules, hooks and further attributes are shared with `module`; submodules that are graph modules are
    themselves rebuilt. `meta` of module and nodes is copied, shape facts as torch.fx's `TensorMetadata`.

    Args:
        module: The graph module to rebuild.

    Raises:
        TypeError: The graph has a code generator of the user's own, which only its own engine can run.
    """
    return _TO_TORCH.module(module, {})


def from_torch_fx(module: torch.fx.GraphModule) -> GraphModule:
    """Return a `GraphModule` that computes the same as one of torch.fx's; the counterpart of `to_torch_fx`.

    Args:
        module: The graph module to rebuild.

    Raises:
        TypeError: The graph has a code generator of the user's own, which only its own engine can run.
    """
    return _FROM_TORCH.module(module, {})


def graph_to_torch_fx(graph: Graph) -> torch.fx.Graph:
    """Return a graph of torch.fx with the same nodes.

    Raises:
        TypeError: The graph has a code generator of the user's own.
    """
    return _TO_TORCH.graph(graph, {})


def graph_from_torch_fx(graph: torch.fx.Graph) -> Graph:
    """Return a graph of ours with the same nodes.

    Raises:
        TypeError: The graph has a code generator of the user's own.
    """
    return _FROM_TORCH.graph(graph, {})


def adopt(cls: _Class) -> _Class:
    """Return the class that `cls`, written for torch.fx, would be if torch.fx were this engine.

    `torch.fx.Tracer`, `Interpreter` and `Transformer` among its bases are replaced by the engine's, bases that derive
    from these are adopted too, and `super()` in its methods means the new class. A tracer with leaf rules of its own
    thus applies them here.

    Example:
        Trace with the rules of a tracer that was written for torch.fx::

            graph = adopt(TheirTracer)().trace(model)

    Args:
        cls: A class that derives from one of torch.fx's.
    """
    if cls in _COUNTERPARTS or not any(base in _COUNTERPARTS for base in cls.__mro__):
        return _COUNTERPARTS.get(cls, cls)
    cell = CellType()
    namespace = {
        name: _rebound(value, cell)
        for name, value in vars(cls).items()
        if not isinstance(value, MemberDescriptorType | GetSetDescriptorType)
    }
    metaclass: Any = type(cls)
    adopted = metaclass(cls.__name__, tuple(adopt(base) for base in cls.__bases__), namespace)
    cell.cell_contents = adopted
    return adopted


def share(name: str) -> None:
    """Let a module of the engine, while it is being imported, be torch.fx's module of the same name.

    That is for what there must be one of in a process: torch's dispatcher reads and writes symbolic sizes and settings,
    and a second set would be asked by nobody. None of these modules makes or takes graphs.

    Args:
        name: The module's `__name__`.

    Raises:
        ModuleNotFoundError: The torch that is installed has no such module.
    """
    sys.modules[name] = importlib.import_module(f"torch.fx{name.removeprefix('fxengine')}")


_COUNTERPARTS: Final[dict[type[Any], Any]] = {
    torch.fx.Tracer: Tracer,
    torch.fx.Interpreter: Interpreter,
    torch.fx.Transformer: Transformer,
}


def _rebound(member: Any, own_class: CellType) -> Any:
    """Return a member of a class as one of another class, which `super()` in it finds in a cell."""
    match member:
        case FunctionType() if "__class__" in member.__code__.co_freevars:
            names, cells = member.__code__.co_freevars, member.__closure__ or ()
            closure = tuple(own_class if name == "__class__" else cell for name, cell in zip(names, cells, strict=True))
            function = FunctionType(member.__code__, member.__globals__, member.__name__, member.__defaults__, closure)
            function.__kwdefaults__ = member.__kwdefaults__
            function.__dict__.update(member.__dict__)
            function.__annotations__, function.__doc__ = member.__annotations__, member.__doc__
            function.__qualname__, function.__module__ = member.__qualname__, member.__module__
            return function
        case classmethod() | staticmethod():
            return type(member)(_rebound(member.__func__, own_class))
        case property():
            return property(*(_rebound(part, own_class) for part in (member.fget, member.fset, member.fdel)))
        case _:
            return member


@dataclass(frozen=True, slots=True)
class _Direction:
    """One way over the bridge.

    Attributes:
        source: The class of the graph modules to rebuild.
        target: The class that they get.
        new_graph: Makes an empty graph.
        new_info: Makes the description of a signature with structure.
        map_nodes: Replaces the nodes of the source's engine within an argument.
        node: The class of these nodes.
        codegens: The code generators that both engines have, from the source's to the target's.
        tracers: The tracers that both engines have.
        facts: What describes tensors, in the source's engine and in the target's.
    """

    source: type[Any]
    target: type[Any]
    new_graph: type[Any]
    new_info: Callable[..., Any]
    map_nodes: Callable[[Any, Callable[[Any], Any]], Any]
    node: type[Any]
    codegens: dict[type[Any], Callable[..., Any]]
    tracers: dict[type[Any], type[Any]]
    facts: tuple[type[Any], type[Any]]

    def module(self, module: Any, known: _Copies) -> Any:
        """Return a graph module rebuilt; `known` has those that were, so that one in two places stays one."""
        if id(module) not in known:
            converted = self.target(module, self.graph(module.graph, known), type(module).__name__)
            known[id(module)] = converted
            converted.meta = dict(module.meta)
            converted.shape_env = getattr(module, "shape_env", None)
            self._share(module, converted, known)
            _share_attributes(module, converted)
        return known[id(module)]

    def graph(self, graph: Any, known: _Copies) -> Any:
        """Return a graph rebuilt: nodes first, then what refers to nodes that may come later."""
        converted = self.new_graph(tracer_cls=self.tracers.get(graph._tracer_cls), tracer_extras=graph._tracer_extras)
        converted._co_fields = dict(getattr(graph, "_co_fields", {}))
        copies: _Copies = {}
        for node in graph.nodes:
            copied = copies[node] = converted.create_node(
                node.op,
                node.target,
                self.map_nodes(node.args, copies.__getitem__),
                self.map_nodes(node.kwargs, copies.__getitem__),
                name=node.name,
                type_expr=node.type,
            )
            copied.name = node.name
        for node, copied in copies.items():
            # What passes have set on the node; older versions of torch.fx keep its fields there too.
            copied.__dict__.update({name: value for name, value in vars(node).items() if not hasattr(copied, name)})
            copied.meta = {key: self._meta(key, value, copies) for key, value in node.meta.items()}
            _cross_origin(node, copied)
        converted.set_codegen(self._codegen(graph._codegen, known))
        return converted

    def _meta(self, key: str, value: Any, copies: _Copies) -> Any:
        """Return an entry of `meta`, with the copies of nodes in it, and shape facts of the other engine's type."""
        if key == "tensor_meta":
            source, target = self.facts

            def is_facts(part: Any) -> bool:
                return isinstance(part, source)

            return pytree.tree_map(lambda part: target(*part) if is_facts(part) else part, value, is_leaf=is_facts)
        return self._with_copies(value, copies)

    def _with_copies(self, value: Any, copies: _Copies) -> Any:
        """Return a value with the copies of nodes in it; itself, if there are none."""
        kind = type(value)
        if isinstance(value, self.node):
            return copies.get(value, value)
        if kind in {list, tuple, set}:
            items = [self._with_copies(item, copies) for item in value]
            return value if all(map(_is, items, value)) else kind(items)
        if kind is dict:
            pairs = [(self._with_copies(key, copies), self._with_copies(item, copies)) for key, item in value.items()]
            same = all(key is old and item is value[old] for (key, item), old in zip(pairs, value, strict=True))
            return value if same else dict(pairs)
        return value

    def _codegen(self, codegen: Any, known: _Copies) -> Any:
        """Return the code generator of the other engine that generates the same code."""
        make = self.codegens.get(type(codegen))
        if make is None:
            raise TypeError(
                f"{type(codegen).__qualname__} generates code for one engine alone; "
                "set a CodeGen of the other engine on the graph after the conversion, and a plain one before it"
            )
        arguments: list[Any] = []
        if hasattr(codegen, "pytree_info"):
            arguments.append(self.new_info(*codegen.pytree_info))
        if hasattr(codegen, "in_shuffle_graph"):
            arguments += [self.module(codegen.in_shuffle_graph, known), self.module(codegen.out_shuffle_graph, known)]
            arguments += [codegen.tree_leaf_names, codegen.root]
        converted = make(*arguments)
        converted._body_transformer = codegen._body_transformer
        converted._func_name = codegen._func_name
        return converted

    def _share(self, source: nn.Module, target: nn.Module, known: _Copies) -> None:
        """Give `target` the mode and all state of `source`, in its order; graph modules among it are rebuilt.

        The modules between a graph module and what it refers to are its own: they are gone through, and are not those
        of `source`. What is below a submodule that is shared as a whole belongs to both, and is left as it is.
        """
        target.training = source.training
        target._parameters = {**source._parameters}
        target._buffers = {**source._buffers, **target._buffers}
        target._non_persistent_buffers_set = {*source._non_persistent_buffers_set}
        made = target._modules
        target._modules = {}
        for name, child in source._modules.items():
            container = made.get(name)
            if isinstance(child, self.source):
                target._modules[name] = self.module(child, known)
            else:
                target._modules[name] = child if container is None else container
                if child is not None and container is not None and container is not child:
                    self._share(child, container, known)


def _share_attributes(module: nn.Module, converted: nn.Module) -> None:
    """Give `converted` the hooks of `module`, and what else was set on it."""
    for name in _HOOKS:
        converted.__dict__[name] = vars(module)[name].copy()
    for name, value in vars(module).items():
        if name not in vars(converted):
            bound = isinstance(value, MethodType) and value.__self__ is module
            converted.__dict__[name] = MethodType(value.__func__, converted) if bound else value


def _cross_origin(node: Any, copied: Any) -> None:
    """Carry the origin, which is a field of our nodes and an entry of `meta` in torch.fx's."""
    if isinstance(copied, Node):
        copied.origin = copied.meta.pop(_ORIGIN, None)
    elif node.origin is not None:
        copied.meta[_ORIGIN] = node.origin


def _is(one: object, other: object) -> bool:
    return one is other


_CODEGENS: Final[dict[type[Any], Any]] = {
    CodeGen: torch.fx.graph.CodeGen,
    _BoxedCodeGen: getattr(torch.fx.graph, "_BoxedCodeGen", torch.fx.graph.CodeGen),
    _ExportCodeGen: getattr(torch.fx.graph, "_ExportCodeGen", torch.fx.graph.CodeGen),
    _PyTreeCodeGen: torch.fx.graph._PyTreeCodeGen,
}
_TO_TORCH: Final = _Direction(
    source=GraphModule,
    target=torch.fx.GraphModule,
    new_graph=torch.fx.Graph,
    new_info=torch.fx.graph._PyTreeInfo,
    map_nodes=map_arg,
    node=Node,
    codegens=_CODEGENS,
    tracers={Tracer: torch.fx.Tracer},
    facts=(TensorMetadata, TorchTensorMetadata),
)
_FROM_TORCH: Final = _Direction(
    source=torch.fx.GraphModule,
    target=GraphModule,
    new_graph=Graph,
    new_info=_PyTreeInfo,
    map_nodes=torch.fx.node.map_arg,
    node=torch.fx.Node,
    codegens={theirs: ours for ours, theirs in reversed(_CODEGENS.items())},
    tracers={torch.fx.Tracer: Tracer},
    facts=(TorchTensorMetadata, TensorMetadata),
)

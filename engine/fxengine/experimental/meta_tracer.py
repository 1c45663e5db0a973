"""A tracer that knows the shape and dtype of values, by computing everything on the meta device beside recording it.

Control flow that depends on shapes can thus be traced, for the shapes of the inputs given. What cannot be computed
without data leaves its value unknown, with a warning. The engine's own tracing with shapes (``exploration``) reports
what it specialised on; this one, as torch.fx's, does not.
"""

import builtins
import functools
import operator
import warnings
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, cast

import torch
from torch import nn

from fxengine._symbolic_trace import Tracer, _find_proxy, _maybe_revert_all_patches
from fxengine.graph import Graph
from fxengine.graph_module import GraphModule
from fxengine.node import Node, Target, map_aggregate
from fxengine.patching import Patches
from fxengine.proxy import Proxy

__all__ = [
    "MetaAttribute",
    "MetaDeviceAttribute",
    "MetaProxy",
    "MetaTracer",
    "embedding_override",
    "functional_relu_override",
    "gen_constructor_wrapper",
    "manual_meta_overrides",
    "nn_layernorm_override",
    "proxys_to_metas",
    "symbolic_trace",
    "torch_abs_override",
    "torch_nn_relu_override",
    "torch_relu_override",
    "torch_where_override",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def embedding_override(self: nn.Embedding, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - torch's name.
    """Return what the layer does, without looking up anything."""
    return torch.empty(*input.shape, self.weight.shape[-1], device="meta")


def nn_layernorm_override(self: nn.LayerNorm, input: torch.Tensor) -> torch.Tensor:  # noqa: A002, ARG001 - likewise.
    """Return the input, whose shape the layer keeps."""
    return input


def torch_relu_override(x: torch.Tensor) -> torch.Tensor:
    """Return the input, whose shape the function keeps."""
    return x


def torch_nn_relu_override(self: nn.ReLU, x: torch.Tensor) -> torch.Tensor:  # noqa: ARG001 - called as the layer is.
    """Return the input, whose shape the layer keeps."""
    return x


def functional_relu_override(x: torch.Tensor, inplace: bool = False) -> torch.Tensor:
    """Return the input, whose shape the function keeps."""
    assert not inplace, "don't support inplace functional.relu for metatensor analysis"
    return x


def torch_where_override(condition: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return a tensor of the shape to which all three are broadcast, and the dtype of the choices."""
    return condition.to(device="meta") + x.to(device="meta") + y.to(device="meta")


def torch_abs_override(input: torch.Tensor, *, out: torch.Tensor | None = None) -> torch.Tensor:  # noqa: A002
    """Return the input, whose shape the function keeps."""
    assert out is None, "Don't support in-place abs for MetaTensor analysis"
    return input


manual_meta_overrides: dict[Callable[..., Any], Callable[..., Any]] = {
    nn.Embedding: embedding_override,
    nn.LayerNorm: nn_layernorm_override,
    torch.relu: torch_relu_override,
    nn.functional.relu: functional_relu_override,
    nn.ReLU: torch_nn_relu_override,
    torch.where: torch_where_override,
    torch.abs: torch_abs_override,
}
"""What is computed in place of a function, or of modules of a type; users add theirs."""


def gen_constructor_wrapper(target: _Function) -> tuple[Callable[..., Any], _Function]:
    """Return a function that records a call of ``target`` if an argument is symbolic and else calls it; and ``target``.

    It is for functions that make tensors out of numbers, and so never ask a symbolic value.
    """

    @functools.wraps(target)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return target(*args, **kwargs)
        return proxy.tracer.create_proxy("call_function", target, args, kwargs)

    return wrapper, target


class MetaProxy(Proxy):
    """A symbolic value with a tensor on the meta device that has its shape and dtype, if these could be computed."""

    _tensor_meta: Any = None

    def install_tensor_meta(self, tensor_meta: Any) -> None:
        """Set what was computed beside recording."""
        self._tensor_meta = tensor_meta

    def size(self, dim: int | None = None) -> Any:
        """Return the size, in one dimension or all: a fact if it is known, else a symbolic value."""
        chosen = (dim,) if dim else ()
        if self._tensor_meta is not None:
            return self._tensor_meta.size(*chosen)
        return self.tracer.create_proxy("call_method", "size", (self, *chosen), {})

    def dim(self) -> Any:
        """Return the number of dimensions, likewise."""
        if self._tensor_meta is not None:
            return self._tensor_meta.dim()
        return self.tracer.create_proxy("call_method", "dim", (self,), {})

    @property
    def shape(self) -> Any:
        """The shape, likewise."""
        return self._fact("shape")

    @property
    def dtype(self) -> Any:
        """The dtype, likewise."""
        return self._fact("dtype")

    @property
    def device(self) -> "MetaDeviceAttribute":
        """The device: a symbolic value, in whose place the meta device is computed with."""
        return MetaDeviceAttribute(self, "device")

    def __getattr__(self, k: str) -> "MetaAttribute":  # pyright: ignore[reportIncompatibleMethodOverride]
        return MetaAttribute(self, k)

    def _fact(self, name: str) -> Any:
        if self._tensor_meta is not None:
            return getattr(self._tensor_meta, name)
        return self.tracer.create_proxy("call_function", builtins.getattr, (self, name), {})


class MetaAttribute(MetaProxy):
    """An attribute of a symbolic value. It becomes a node only when its value is used; called, it is a method call."""

    def __init__(self, root: MetaProxy, attr: str) -> None:
        """Make the symbolic value of ``root.attr``."""
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # pyright: ignore[reportIncompatibleVariableOverride] - made at first use.
        """The node that reads the attribute."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Record a call of the method that the attribute is."""
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class MetaDeviceAttribute(MetaAttribute):
    """The device of a symbolic value."""


def proxys_to_metas(v: Any) -> Any:
    """Return what is computed with in place of ``v``: the meta tensor of a symbolic value, else ``v``."""
    if isinstance(v, MetaDeviceAttribute):
        return "meta"
    if not isinstance(v, Proxy):
        return v
    assert isinstance(v, MetaProxy), f"Expected MetaProxy but got {type(v)}"
    assert "_tensor_meta" in vars(v), "MetaProxy does not have an associated meta"
    return v._tensor_meta


class MetaTracer(Tracer):
    """Traces with the shapes of inputs known.

    Attributes:
        allow_insert_stateless_mods: Modules without parameters and buffers that are not part of the root become so.
        meta_args: For each parameter that has one, a tensor on the meta device.
        orig_fns: The functions that make tensors, which are recorded when they are given symbolic values.
    """

    allow_insert_stateless_mods: bool = True

    _TORCH_METHODS_TO_PATCH: ClassVar[list[str]] = ["arange", "zeros", "ones", "full_like", "eye"]
    """Functions of torch that make tensors and take ``device`` by keyword alone."""

    meta_args: dict[str, torch.Tensor]
    orig_fns: set[Any]

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any | None = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Any:
        """Record an operation and compute it on the meta device; return the symbolic value, which knows its shape."""
        value = super().create_proxy(kind, target, args, kwargs, name, type_expr, proxy_factory_fn)
        if kind == "placeholder" and target in self.meta_args:
            value.install_tensor_meta(self.meta_args[str(target)])
            return value
        if kind in {"placeholder", "output"}:
            return value
        if target in self.orig_fns and "device" in kwargs:
            kwargs["device"] = "meta"
        try:
            with _maybe_revert_all_patches():
                value.install_tensor_meta(self._computed(kind, target, args, kwargs))
        except Exception as error:  # noqa: BLE001 - operators and overrides raise whatever they like.
            warnings.warn(f"Could not compute metadata for {kind} target {target}: {error}", stacklevel=2)
        return value

    def _computed(self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the operation gives on the meta device."""
        given: Any = map_aggregate(args, proxys_to_metas)
        named: Any = map_aggregate(kwargs, proxys_to_metas)
        match kind:
            case "call_function":
                return (manual_meta_overrides.get(target) or target)(*given, **named)
            case "call_method":
                return getattr(given[0], target)(*given[1:], **named)
            case "call_module":
                module = self.root.get_submodule(target)
                override = manual_meta_overrides.get(type(module))
                return module(*given, **named) if override is None else override(module, *given, **named)
            case _:
                value = operator.attrgetter(target)(self.root)
                assert isinstance(value, torch.Tensor), f"Expected Tensor, got {type(value)}"
                return value.to(device="meta")

    def path_of_module(self, mod: nn.Module) -> str:
        """Return the qualified name of a module in the root, of which a module without state becomes a part.

        Raises:
            NameError: The root has no such submodule, and it has parameters or buffers.
        """
        try:
            return super().path_of_module(mod)
        except NameError:
            stateless = next(mod.parameters(), None) is None and next(mod.buffers(), None) is None
            if not (self.allow_insert_stateless_mods and stateless):
                raise
            return self._insert_module_as_submodule(mod)

    def _insert_module_as_submodule(self, mod: nn.Module) -> str:
        """Make a module part of the root, and return its name."""
        stem = type(mod).__name__.lower()
        number = 0
        while hasattr(self.root, f"{stem}_{number}"):
            number += 1
        self.root.add_module(f"{stem}_{number}", mod)
        return f"{stem}_{number}"

    def proxy(self, node: Node) -> MetaProxy:
        """Return the symbolic value of ``node``."""
        return MetaProxy(node, self)

    def trace(  # pyright: ignore[reportIncompatibleMethodOverride] - as torch.fx has it.
        self,
        root: nn.Module | Callable[..., Any],
        meta_args: dict[str, torch.Tensor],
        concrete_args: dict[str, Any] | None = None,
    ) -> Graph:
        """Return the graph of what ``root`` does with inputs like ``meta_args``.

        Args:
            root: A module, whose parameters should be on the meta device, or a function.
            meta_args: Tensors on the meta device, by parameter.
            concrete_args: Values of parameters that are not to be symbolic.
        """
        assert isinstance(meta_args, dict), f"Expected dict for meta_args, got {type(meta_args)}"
        self.meta_args = meta_args
        constructors = {name: getattr(torch, name) for name in self._TORCH_METHODS_TO_PATCH}
        # Another trace may have replaced them already.
        self.orig_fns = {getattr(function, "__wrapped__", function) for function in constructors.values()}
        with Patches() as patches:
            for name in constructors:
                patches.attribute(torch, name, lambda function: gen_constructor_wrapper(function)[0])
            graph = super().trace(root, concrete_args)
        graph._tracer_extras = {"meta_args": meta_args}
        return graph


def symbolic_trace(
    root: nn.Module | Callable[..., Any],
    meta_args: dict[str, torch.Tensor] | None = None,
    concrete_args: dict[str, Any] | None = None,
) -> GraphModule:
    """Return a module that does what ``root`` does with inputs like ``meta_args``, as a graph.

    Args:
        root: A module, whose parameters should be on the meta device, or a function.
        meta_args: Tensors on the meta device, by parameter. They must be given.
        concrete_args: Values of parameters that are not to be symbolic.
    """
    tracer = MetaTracer()
    graph = tracer.trace(root, cast("dict[str, torch.Tensor]", meta_args), concrete_args)
    name = type(root).__name__ if isinstance(root, nn.Module) else root.__name__
    return GraphModule(tracer.root, graph, name)

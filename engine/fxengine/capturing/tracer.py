"""The tracer of a capture: names what belongs to the model, and decides which calls of modules are leaves."""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn
from torch._ops import HigherOrderOperator, OpOverload
from torch.nn.modules.lazy import LazyModuleMixin
from torch.utils import _pytree as pytree

from fxengine.capturing.held import storage_of
from fxengine.capturing.objects import argument_of, is_record
from fxengine.capturing.recording import Recording
from fxengine.capturing.unknown import NUMBERS
from fxengine.graph_module import GraphModule
from fxengine.hierarchy import Hierarchy
from fxengine.immutable_collections import immutable_dict, immutable_list
from fxengine.interception import call_as_torch_does
from fxengine.node import Node
from fxengine.proxy import Proxy
from fxengine.recording import PLAIN_TYPES
from fxengine.shims import loaded_shims
from fxengine.tracer import Tracer

__all__ = ["CaptureTracer", "Finished", "has_own_hooks", "part_at"]

_CONTAINERS: Final = frozenset({tuple, list, dict, slice, range, immutable_list, immutable_dict})


_TAKEN: Final = frozenset(dir(GraphModule)) - frozenset(dir(nn.Module))
"""What a graph module has beside what each module has: nothing in a model can keep such a name."""


class Finished(NamedTuple):
    """A call of a module that has returned.

    Attributes:
        path: The module's path.
        result: What it returned.
        given: Its arguments.
        began: How many tensors had been changed in place when it was called.
        ended: How many when it returned.
        inner: The calls in it, the outermost ones.
    """

    path: str
    result: Any
    given: Any
    began: int
    ended: int
    inner: "tuple[Finished, ...]"


class CaptureTracer(Tracer):
    """Traces with real shapes, types and devices: what it runs are tensors, not symbolic values. Mutable.

    Attributes:
        recording: What watches the tensors.
        finished: The calls of modules that have returned, the outermost ones, in order.
        adopted: The modules that are not the model's own, by the paths that the graph has for them. They are plain
            attributes of the root while it runs: code that goes through its modules meets none of them.
    """

    recording: Recording

    def __init__(self) -> None:
        super().__init__()
        self._kept_objects: dict[int, tuple[Any, Node]] = {}
        self.finished: list[Finished] = []
        self.adopted: dict[str, Hierarchy] = {}
        self._other_paths: dict[nn.Module, str] = {}
        self._state: dict[str, Tensor] = {}
        self._made_constants: dict[str, Tensor] = {}
        self._other_names: dict[str, str] = {}
        self._attributes: dict[int, str] = {}

    def _enter_root(self, root: nn.Module | Callable[..., Any]) -> Any:
        function = super()._enter_root(root)
        self._attributes = {id(each): name for each, name in self.tensor_attrs.items() if isinstance(each, Tensor)}
        return function

    def _name_of(self, root: nn.Module) -> str:
        # What the class itself says may be wrong, which is no matter of what its forward does.
        return type(root).__name__

    def know(self, tensors: Mapping[int, tuple[Tensor, str]]) -> None:
        """Take tensors for the model's own that lie outside of its modules; by identity, with their names."""
        for identity, (_, name) in tensors.items():
            self._attributes.setdefault(identity, name)

    def create_arg(self, a: Any) -> Any:
        """Return what stands for a value in a node's arguments; for a tensor, the node that computes it."""
        if isinstance(a, Tensor):
            return self.recording.values.node_of(a)
        kind = type(a)
        if kind in PLAIN_TYPES or kind in _CONTAINERS or is_record(a):
            return super().create_arg(a)
        if isinstance(a, Node):
            return a
        if kind in NUMBERS:
            return self.recording.values.number(a)
        if isinstance(a, tuple | list):
            return self.create_arg(tuple(a) if isinstance(a, tuple) else list(a))
        if isinstance(a, Enum | OpOverload | HigherOrderOperator | pytree.TreeSpec):
            return super().create_arg(a)
        return argument_of(a, self.create_arg, self.create_node, self.kept_object)

    def kept_object(self, value: Any) -> Node:
        """Return a node that reads an object, which becomes an attribute of the root."""
        known = self._kept_objects.get(id(value))
        if known is None:
            name = self.get_fresh_qualname("_object_constant")
            object.__setattr__(self.root, name, value)
            known = self._kept_objects[id(value)] = (value, self.create_node("get_attr", name, (), {}))
        return known[1]

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:  # noqa: ARG002
        """Return the attribute itself: parameters are tensors as all others."""
        return attr_val

    def path_of_module(self, mod: nn.Module) -> str:
        """Return the path of a module in the root; one that is not part of it becomes one while the trace runs."""
        path = (self.submodule_paths or {}).get(mod) or self._other_paths.get(mod)
        if path is None:
            path = self._name(lambda each: each.module_name(mod))
            if path is None:
                path = self.get_fresh_qualname("_module")
                object.__setattr__(self.root, path, mod)
                self.adopted[path] = Hierarchy(mod)
            self._other_paths[mod] = path
        return path

    def _name(self, named: Callable[[Hierarchy], str | None]) -> str | None:
        """The name of something in the root or in what it has adopted, None if it is in neither."""
        name = named(self._hierarchy)
        if name is None:
            for path, hierarchy in self.adopted.items():
                inner = named(hierarchy)
                if inner is not None:
                    return f"{path}.{inner}" if inner else path
        return name

    def kept_name(self, tensor: Tensor) -> str | None:
        """Return the qualified name of a buffer, or of an attribute that a module had before; None for others."""
        return self._name(lambda each: each.buffer_name(tensor)) or self._attributes.get(id(tensor))

    def name_in_root(self, tensor: Tensor) -> str | None:
        """Return the qualified name of a parameter or buffer, None for other tensors."""
        name = self._name(lambda each: each.parameter_name(tensor) or each.buffer_name(tensor))  # type: ignore[arg-type]
        if name is None:
            return None
        name = self.own_name(name)
        self._state[name] = tensor
        return name

    def own_name(self, path: str) -> str:
        """Return the path of something in the root, another one if a graph module has an attribute of that name."""
        first, _, rest = path.partition(".")
        if first not in _TAKEN:
            return path
        if first not in self._other_names:
            self._other_names[first] = self.get_fresh_qualname(f"_{first}_")
            setattr(self.root, self._other_names[first], getattr(self.root, first))
        return ".".join(filter(None, (self._other_names[first], rest)))

    @property
    def own_names(self) -> Iterable[str]:
        """The attributes of the root that stand for others whose names a graph module needs for itself."""
        return self._other_names.values()

    def restore_state(self) -> None:
        """Give the names that the graph uses the tensors again that they stood for."""
        for name, tensor in self._state.items():
            path, _, attribute = name.rpartition(".")
            attributes = vars(part_at(self.root, path))
            for kept in (attributes["_parameters"], attributes["_buffers"], attributes):
                if attribute in kept:
                    kept[attribute] = tensor

    def constant(self, tensor: Tensor) -> str:
        """Return the attribute of the root that holds a constant; it is put there if there is none yet."""
        name = self.tensor_attrs.get(tensor)
        if name is not None:
            self._state[name] = tensor
        else:
            name = self.get_fresh_qualname("_tensor_constant")
            self.tensor_attrs[tensor] = name
            # Data that changes afterwards belongs to the caller.
            kept = tensor.detach() if tensor.requires_grad and not isinstance(tensor, nn.Parameter) else tensor
            object.__setattr__(self.root, name, kept)
            self._made_constants[name] = tensor
        return name

    def keep_data(self, tensor: Tensor) -> None:
        """Give the graph copies of the constants that lie where a tensor does, whose data are about to be changed."""
        memory = storage_of(tensor)
        lying_there = [(name, each) for name, each in self._made_constants.items() if storage_of(each) == memory]
        for name, each in lying_there if memory is not None else ():
            copy = each.detach().clone()
            object.__setattr__(self.root, name, copy)
            del self.tensor_attrs[each]
            self.tensor_attrs[copy] = self.tensor_attrs.get(copy, name)
            del self._made_constants[name]

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Whether a call of a module becomes a node: torch's own do, and those whose code is not Python."""
        if isinstance(m, torch.jit.ScriptModule) or super().is_leaf_module(m, module_qualified_name):
            return True
        return any(type(m).__module__.startswith(shim.modules) for shim in loaded_shims() if shim.modules)

    def _intercept_call(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Do what the tracer has to do at a call of a module."""
        if isinstance(module, LazyModuleMixin):
            self.recording.first_run(module, args, kwargs)
        if self.recording.quiet:
            return call_as_torch_does(module, *args, **kwargs)
        leaf = self._leaves.get(type(module))
        if leaf is None:
            leaf = self._leaves[type(module)] = self.is_leaf_module(module, "")
        path, began = self.path_of_module(module), len(self.recording.values.reworked)
        is_copy = path in self.adopted and self.recording.has_made(module)
        if not leaf or is_copy or self.recording.has_other_tensors(module) or has_own_hooks(module):
            outer = len(self.finished)
            result = self._call(module, None, args, kwargs, leaf=False)
            self._finish(path, result, (args, kwargs), began, outer)
            return result
        calls = self.num_calls.get(path, 0)
        self.num_calls[path] = calls + 1
        called = (path, type(module))
        stack, scope = self._stack, self.scope
        previous = scope.module_path, scope.module_type
        self._stack = (stack, f"{path}@{calls}" if calls else path, called)
        scope.module_path, scope.module_type = called
        try:
            result = self.recording.leaf(module, self.own_name(path), call_as_torch_does, args, kwargs)
        finally:
            self._stack = stack
            scope.module_path, scope.module_type = previous
        self._finish(path, result, (args, kwargs), began, len(self.finished))
        return result

    def _finish(self, path: str, result: Any, given: Any, began: int, outer: int) -> None:
        """Note that a call has returned, which began after so many changes and calls."""
        ended, inner = len(self.recording.values.reworked), tuple(self.finished[outer:])
        self.finished[outer:] = [Finished(path, result, given, began, ended, inner)]

    def capture(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], site: Any) -> Any:
        """Run the function that is captured, and return its result."""
        with self.recording:
            return self._run(site, function, args, kwargs)


def has_own_hooks(module: nn.Module) -> bool:
    """Whether a module has hooks that are not torch's, such as those of weight norm: they may do anything."""
    hooks = (*module._forward_hooks.values(), *module._forward_pre_hooks.values())
    return any((getattr(hook, "__module__", None) or "").partition(".")[0] != "torch" for hook in hooks)


def part_at(root: nn.Module, path: str) -> nn.Module:
    """Return the module at a path, also where the one around it gives something else for its name."""
    for name in filter(None, path.split(".")):
        part = vars(root)["_modules"].get(name)
        root = getattr(root, name) if part is None else part
    return root

"""Symbolic tracing: runs a module or function on symbolic values and returns the graph of what it did.

A `Tracer` decides what becomes a node: calls of leaf modules do, other modules are traced through. Calls and attributes
of modules reach it through `interception`, leaf functions through `wrapping`; both look up the tracer of their own
context, so that traces in other threads, and code that is not traced at all, are not affected.

What a tracer looks up again and again (the name of a parameter, the path of a module) costs the same however large the
model is: it is kept in tables made once for each trace (`hierarchy`).
"""

import collections
import copy
import functools
import inspect
import math
import sys
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial  # Not by its module's name, which a tracer may have wrapped.
from types import FunctionType, ModuleType
from typing import Any, Final, cast

import torch
from torch import nn
from torch._library.fake_class_registry import FakeScriptObject
from torch.utils import _pytree as pytree

from fxengine._lazy_graph_module import _LazyGraphModule, _make_graph_module
from fxengine.errors import ForeignModule
from fxengine.graph import Graph
from fxengine.graph_module import GraphModule
from fxengine.hierarchy import CONSTANT_TYPES, Hierarchy, Survey, survey
from fxengine.immutable_collections import immutable_dict, immutable_list
from fxengine.interception import intercept_modules, leave_out_backward_hooks
from fxengine.module_calls import ModuleCalls
from fxengine.node import Argument, Node, base_types
from fxengine.patching import Patches, meanings
from fxengine.placeholders import (
    PH,
    PHBase,
    PHWithMeta,
    flattened,
    takes_anything,
    transfer_attributes,
    with_plain_parameters,
)
from fxengine.proxy import ParameterProxy, Proxy, Scope
from fxengine.recording import PLAIN_TYPES, SymbolicValue
from fxengine.running import is_proxyable, running_tracer, thread_says
from fxengine.source import ModuleSite, OriginRecord, parameter_place
from fxengine.wrapping import patch_autowrapped, patch_wrapped_functions, wrap

try:
    from torch._library.opaque_object import is_opaque_reference_type, is_opaque_type
except ImportError:  # torch before 2.10 has no opaque objects.

    def is_opaque_reference_type(cls: Any) -> bool:  # noqa: ARG001
        """Whether values of this type have to be referred to."""
        return False

    is_opaque_type = is_opaque_reference_type


_NEVER_IN_ROOT: Final = PLAIN_TYPES | {tuple, list, dict, slice, immutable_list, immutable_dict}
"""Types whose values are not looked up in the root before anything else is tried."""

__all__ = ["PH", "PHBase", "PHWithMeta", "Tracer", "symbolic_trace"]


class Tracer(ModuleCalls):
    """Traces modules and functions; `symbolic_trace(m)` is `Tracer().trace(m)` made into a `GraphModule`.

    Subclasses change what is a leaf (`is_leaf_module`), what happens at a call of a module (`call_module`) or when one
    of its attributes is read (`getattr`), what may be an argument (`create_arg`), and what symbolic values answer
    (`to_bool`, `iter`, `keys`).

    Attributes:
        root: The module that is traced, or an empty one that takes the constants of a function.
        submodule_paths: The paths of all modules in the root while a trace runs.
    """

    root: nn.Module
    tensor_attrs: dict[Any, str]

    _reads_plainly: bool
    """Whether no subclass has a say in what attributes of modules are."""

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        """Make a tracer.

        Args:
            autowrap_modules: Modules whose functions are leaf functions wherever the traced code finds them.
            autowrap_functions: More leaf functions.
            param_shapes_constant: The shape of a parameter is a constant, not a symbolic value.
        """
        super().__init__()
        self._autowrap_function_ids = {
            id(value)
            for module in autowrap_modules
            for name, value in meanings(module.__dict__).items()
            if not name.startswith("_") and callable(value)
        }
        self._autowrap_function_ids.update(map(id, autowrap_functions))
        self._autowrap_search: list[ModuleType] = list(autowrap_modules)
        self._autowrapped: frozenset[int] = frozenset()
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[nn.Module, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope = {}
        self._qualname_counter: dict[str, int] = {}
        self._parameter_proxies: dict[str, Proxy] = {}
        self._patches: Patches | None = None
        self._reads_plainly = False
        self._leaves: dict[type, bool | None] = {}
        self._failure: tuple[BaseException, ModuleSite] | None = None

    @functools.cached_property
    def _hierarchy(self) -> Hierarchy:
        return Hierarchy(self.root)

    def get_fresh_qualname(self, prefix: str) -> str:
        """Return the prefix with the first number that gives no attribute of the root."""
        qualname = f"{prefix}0"
        if not hasattr(self.root, qualname):
            self._qualname_counter[prefix] = 0
            return qualname
        number = self._qualname_counter.get(prefix, 0)
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        self._qualname_counter[prefix] = number + 1
        return f"{prefix}{number}"

    def create_arg(self, a: Any) -> "Argument":
        """Return what stands for `a` in a node's arguments: for parts of the root and for constants, reads of them.

        A constant that the root does not have becomes an attribute of it.

        Raises:
            NameError: It is a parameter, and not one of the root's.
            NotImplementedError: The graph cannot hold such an object.
        """
        kind = type(a)
        if kind in _NEVER_IN_ROOT or issubclass(kind, SymbolicValue):
            return super().create_arg(a)
        name = None
        if isinstance(a, torch.Tensor | nn.Module):
            name = self._name_in_root(a)
        elif isinstance(a, tuple) and hasattr(a, "_fields"):
            items = tuple(self.create_arg(item) for item in a)
            return self.create_node("call_function", a.__class__, items, {})
        if name is None and (isinstance(a, CONSTANT_TYPES) or is_opaque_reference_type(kind)):
            name = self._constant_name(a)
        if name is None and is_proxyable(kind):
            name = self.get_fresh_qualname(f"_{a.__class__.__name__}_constant_")
            setattr(self.root, name, a)
        return super().create_arg(a) if name is None else self._read(name)

    def _read(self, name: str) -> Node:
        """Return a new node that reads an attribute of the root."""
        if not self._records_plainly:
            return self.create_node("get_attr", name, (), {})
        node = self._record("get_attr", name, (), {}, None, None)
        scope = self.scope
        # The frame of this function is ours.
        self._describe(node, sys._getframe(1), (scope.module_path, scope.module_type), self._stack)
        return node

    def _name_in_root(self, value: torch.Tensor | nn.Module) -> str | None:
        """The qualified name of a module, parameter or buffer; None if the root has none for it.

        Raises:
            NameError: It is a parameter, and not one of the root's.
        """
        if isinstance(value, nn.Module):
            return self._hierarchy.module_name(value)
        if not isinstance(value, nn.Parameter):
            return self._hierarchy.buffer_name(value)
        name = self._hierarchy.parameter_name(value)
        if name is None:
            self.refuse(ForeignModule, value, NameError("parameter is not a member of this module"))
        return name

    def _constant_name(self, value: Any) -> str:
        """The attribute of the root that holds a constant; it is put there if there is none yet."""
        qualname = self.tensor_attrs.get(value)
        if not qualname:
            match value:
                case torch.Tensor():
                    prefix = "_tensor_constant"
                case FakeScriptObject() | torch.ScriptObject():
                    prefix = "_torchbind_obj"
                case pytree.TreeSpec():
                    prefix = "_tree_spec_constant"
                case _:
                    assert is_opaque_type(type(value))
                    prefix = "_opaque_obj"
            qualname = self.get_fresh_qualname(prefix)
            self.tensor_attrs[value] = qualname
            setattr(self.root, qualname, value)
        return qualname

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:  # noqa: ARG002 - for overrides.
        """Whether a call of `m` becomes a node instead of being traced through.

        Here: whether it is one of torch's own modules, `Sequential` apart.
        """
        return m.__module__.startswith(("torch.nn", "torch.ao.nn")) and not isinstance(m, nn.Sequential)

    def path_of_module(self, mod: nn.Module) -> str:
        """Return the qualified name of a module in the root.

        Raises:
            NameError: The root has no such submodule.
        """
        paths = self.submodule_paths
        path = paths.get(mod) if paths else self._hierarchy.module_name(mod)
        if path is None:
            return self.refuse(ForeignModule, mod, NameError("module is not installed as a submodule"))
        return path

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Return the value of a call of a module: of a new node for a leaf module, of `forward` for any other.

        Args:
            m: The module that is called.
            forward: Runs the module as torch would, hooks included.
            args: The positional arguments of the call.
            kwargs: The keyword arguments of the call.
        """
        return self._call(m, forward, args, kwargs, None)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:  # noqa: ARG002
        """Return what reading an attribute of a module gives: a symbolic value for the root's parameters.

        Args:
            attr: The attribute's name.
            attr_val: Its value.
            parameter_proxy_cache: The symbolic values that were made already, by qualified name.
        """
        if not isinstance(attr_val, torch.Tensor):
            return attr_val
        name = None
        if isinstance(attr_val, nn.Parameter):
            name = self._hierarchy.parameter_name(attr_val)
        if name is None and self.proxy_buffer_attributes:
            name = self._hierarchy.buffer_name(attr_val)
        if name is None:
            return attr_val
        proxy = parameter_proxy_cache.get(name)
        if proxy is None:
            proxy = parameter_proxy_cache[name] = self._proxy_for_attribute(name, attr_val)
        return proxy

    def _proxy_for_attribute(self, name: str, value: torch.Tensor) -> Proxy:
        if not _takes_factory(getattr(self.create_proxy, "__func__", self.create_proxy)):
            return self.create_proxy("get_attr", name, (), {})
        factory = None
        if self.param_shapes_constant:
            factory = partial(ParameterProxy, self, name=name, param=cast("nn.Parameter", value))
        return self.create_proxy("get_attr", name, (), {}, proxy_factory_fn=factory)

    def create_args_for_root(
        self,
        root_fn: Callable[..., Any],
        is_module: bool,
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> tuple[Any, list[Any]]:
        """Make the placeholders for a function's parameters; return what to call, and with which arguments.

        Args:
            root_fn: The function to trace; its innermost original is analysed if it is a wrapper.
            is_module: Whether its first parameter is the root.
            concrete_args: Values, by parameter or in their order, that are not to be symbolic.

        Raises:
            RuntimeError: The function has no parameter for the root, or not as many as there are concrete arguments.
        """
        analysed: Any = inspect.unwrap(root_fn)
        code = analysed.__code__
        total = code.co_argcount + code.co_kwonlyargcount
        first = 1 if is_module else 0
        if is_module and total == 0:
            raise RuntimeError("``self`` argument cannot be part of *args expansion!")
        args: list[Any] = [self.root] if is_module else []
        defaults = _defaults(analysed)
        if isinstance(concrete_args, tuple):
            if concrete_args and takes_anything(analysed) and total == 1:
                # Flat inputs for a function of `*args`: each becomes an input of its own.
                return root_fn, args + [
                    self._flat_placeholder(f"input_{index}", value) for index, value in enumerate(concrete_args)
                ]
            names = code.co_varnames[first:total]
            if len(names) != len(concrete_args):
                raise RuntimeError(
                    f"Tracing expected {len(names)} arguments but got {len(concrete_args)} concrete arguments"
                )
            concrete_args = dict(zip(names, concrete_args, strict=True))
        names = list(code.co_varnames[first:total])
        variadic = iter(code.co_varnames[total:])
        if code.co_flags & inspect.CO_VARARGS:
            names.append(f"*{next(variadic)}")
        if code.co_flags & inspect.CO_VARKEYWORDS:
            names.append(f"**{next(variadic)}")
        args += [self._proxy_placeholder(name, concrete_args, defaults, analysed) for name in names]
        function: Any = root_fn
        if code.co_kwonlyargcount > 0 or takes_anything(analysed):
            function = with_plain_parameters(function, len(args))
        return flattened(self.graph, function, list(code.co_varnames[:total]), args)

    def trace(
        self,
        root: nn.Module | Callable[..., Any],
        concrete_args: dict[str, Any] | None = None,
    ) -> Graph:
        """Return the graph of what `root` does with symbolic inputs.

        For a function `self.root` is a new module afterwards, which holds the graph's constants.

        Args:
            root: A module, or a function.
            concrete_args: Values of parameters that are not to be symbolic, by name; a tuple of them is taken too.

        Raises:
            TraceError: The code wants to know something of a symbolic value that it cannot know.
            Exception: Whatever else the traced code raises.
        """
        token = running_tracer.set(self)
        try:
            with Patches() as self._patches, _known_to_torch(self._patches):
                self._trace(self._enter_root(root), isinstance(root, nn.Module), concrete_args)
            self.submodule_paths = None
        except RuntimeError as error:
            if error.args and isinstance(error.args[0], str) and "data-dependent" in error.args[0]:
                error.partial_fx_graph = self.graph.python_code("self", verbose=True).src  # type: ignore[attr-defined]
            raise
        finally:
            self._patches = None
            running_tracer.reset(token)
        return self.graph

    def _name_of(self, root: nn.Module) -> str:
        """Return what a root is called, which its class may say as it likes."""
        return root._get_name()

    def _enter_root(self, root: nn.Module | Callable[..., Any]) -> Any:
        """Make `root` the root, start an empty graph, and return the function to trace."""
        self.graph = Graph(tracer_cls=type(self))
        self.root = root if isinstance(root, nn.Module) else nn.Module()
        if isinstance(root, nn.Module):
            _recompile_lazy_module(root)
            assert hasattr(type(root), self.traced_func_name), _why_not_traced(root, self.traced_func_name)
            function: Any = getattr(type(root), self.traced_func_name)
            self.root_module_name = self._name_of(root)
            known = self._survey(root)
            self.submodule_paths, self.tensor_attrs = known.paths, known.constants
            self._hierarchy = Hierarchy(root, known)
        else:
            self.tensor_attrs = {}
            self._hierarchy = Hierarchy(self.root)
            function = root
        self._parameter_proxies = {}
        self._leaves = {}
        self._failure = None
        self._handed = []
        self._stack = None
        self._records_plainly = not self.check_mutable_operations and self._is_own(*_RECORDING)
        self._reads_plainly = self._is_own("getattr")
        code = getattr(function, "__code__", None)
        if code is not None:
            self.graph._co_fields = {
                "co_name": code.co_name,
                "co_filename": code.co_filename,
                "co_firstlineno": code.co_firstlineno,
            }
        return function

    def _survey(self, root: nn.Module) -> Survey:
        """What a walk through the root finds; `constants` is the tracer's to add to."""
        return survey(root)

    def _is_own(self, *methods: str) -> bool:
        """Whether nobody replaces these methods: no subclass, no attribute of this tracer, nor who assigns to ours."""
        return all(getattr(getattr(self, name), "__func__", None) is _METHODS[name] for name in methods)

    def _trace(self, function: Any, is_module: bool, concrete_args: Any) -> None:
        assert isinstance(function, FunctionType), f"Expected FunctionType, got {type(function)}"
        assert self._patches is not None
        namespace = function.__globals__
        site = ModuleSite("", type(self.root) if is_module else None, None, ())
        called, args = self.create_args_for_root(function, is_module, concrete_args)
        code = inspect.unwrap(function).__code__
        for node in self.graph.nodes:
            node._origin = OriginRecord((site, (code, parameter_place(code, str(node.target)))))
        intercept_modules(self._patches)
        leave_out_backward_hooks(self._patches, self.submodule_paths or ())
        patch_wrapped_functions(self._patches)
        self._autowrapped = frozenset(self._autowrap_function_ids)
        for searched in (namespace, *(module.__dict__ for module in self._autowrap_search)):
            patch_autowrapped(self._patches, searched, self._autowrapped)
        returned = inspect.get_annotations(inspect.unwrap(called)).get("return")
        output = self.create_arg(self._run(site, called, args, {}))
        self.create_node("output", "output", (output,), {}, type_expr=returned)

    def _flat_placeholder(self, name: str, concrete: Any) -> Proxy:
        proxy = self.create_proxy("placeholder", name, (), {})
        if isinstance(concrete, PHBase):
            transfer_attributes(concrete, proxy.node)
        return proxy

    def _proxy_placeholder(
        self,
        name: str,
        concrete_args: dict[str, Any] | None,
        defaults: dict[str, Any],
        fn_for_analysis: Callable[..., Any],
    ) -> Any:
        """The argument for one parameter: a symbolic value, or what `concrete_args` says, leaf by leaf."""
        default: tuple[Any, ...] = ()
        if not name.startswith("*") and defaults[name] is not inspect.Parameter.empty:
            default = (defaults[name],)
        if concrete_args is None or name not in concrete_args:
            annotation = fn_for_analysis.__annotations__.get(name, None)
            return self.create_proxy("placeholder", name, default, {}, type_expr=annotation)
        count = 0

        def input_or_constant(leaf: Any) -> Any:
            nonlocal count
            count += 1
            out = self.create_proxy("placeholder", f"{name}_{count}", default, {})
            if isinstance(leaf, PHBase):
                transfer_attributes(leaf, out.node)
                return out
            self._check_when_run(out, name, leaf)
            return leaf

        return pytree.tree_map(input_or_constant, concrete_args[name])

    def _check_when_run(self, value: Proxy, name: str, constant: Any) -> None:
        """Record that an input must have the value that the graph was specialised on."""
        kind = type(constant)
        if kind is bool or (kind in base_types and kind is not torch.Tensor):
            message = f"{name} has been specialized to have value {constant} but got another value"
            torch._assert(value == constant, message)
        elif constant is None:
            message = f"{name} has been specialized to have value None but got another value"
            self.create_proxy("call_function", _assert_is_none, (value, message), {})
        else:
            warnings.warn(
                f"Was not able to add assertion to guarantee correct input {name} to specialized function. It is up "
                "to the user to make sure that your inputs match the inputs you specialized the function with.",
                stacklevel=2,
            )

    def __deepcopy__(self, memo: dict[int, Any]) -> "Tracer":
        result = Tracer.__new__(Tracer)
        for name, value in self.__dict__.items():
            if name == "_known_frame":
                continue
            # Modules cannot be copied.
            copied = copy.copy(value) if name == "_autowrap_search" else copy.deepcopy(value, memo)
            result.__dict__[name] = copied
        return result


def symbolic_trace(root: nn.Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """Return a module that does what `root` does, as a graph.

    Args:
        root: A module, or a function.
        concrete_args: Values of parameters that are not to be symbolic, by name; a tuple of them is taken too. A value
            may be a pytree, in which `PH` marks the inputs that stay symbolic.

    Example:
        Fix a flag that decides a branch::

            def f(a, b):
                return a if b else a * 2


            traced = symbolic_trace(f, concrete_args={"b": False})

    Raises:
        TraceError: The code wants to know something of a symbolic value that it cannot know.
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = root.__class__.__name__ if isinstance(root, nn.Module) else root.__name__
    return _make_graph_module(tracer.root, graph, name)


_RECORDING: Final = ("create_arg", "create_node", "create_proxy", "proxy", "call_module", "path_of_module")
"""The methods that have a say in how a call is recorded."""

_METHODS: Final = {name: getattr(Tracer, name) for name in (*_RECORDING, "getattr", "is_leaf_module")}
"""Our own methods that others may replace, as they were defined."""


@contextmanager
def _known_to_torch(patches: Patches) -> Generator[None]:
    """Tell torch for a while that a trace runs, as its own tracer does: by a flag, from 2.14 on by one per thread."""
    theirs: Any = sys.modules.get("torch.fx._symbolic_trace")
    if not hasattr(theirs, "_set_is_fx_tracing"):
        if theirs is not None:
            patches.attribute(theirs, "_is_fx_tracing_flag", lambda _: True)
        yield
        return
    with thread_says(theirs, True):
        yield


@functools.lru_cache(maxsize=64)
def _takes_factory(create_proxy: Callable[..., Any]) -> bool:
    return "proxy_factory_fn" in inspect.signature(create_proxy).parameters


def _defaults(function: Any) -> dict[str, Any]:
    """The default values of a function's parameters, as its signature has them."""
    if type(function) is not FunctionType or vars(function):
        return {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}
    # Nothing makes the signature another one than the code's, and to read it there is much quicker.
    code = function.__code__
    defaults = dict.fromkeys(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount], inspect.Parameter.empty)
    given = function.__defaults__ or ()
    defaults.update(zip(code.co_varnames[code.co_argcount - len(given) : code.co_argcount], given, strict=True))
    return defaults | (function.__kwdefaults__ or {})


def _why_not_traced(root: nn.Module, name: str) -> str:
    """Return why a module has no method of a name that could be traced."""
    if isinstance(root, torch.jit.ScriptModule):
        return f"`{name}` of `{type(root).__name__}` is compiled by torch.jit, so there is no Python to trace"
    return f"traced_func_name={name} doesn't exist in {type(root).__name__}"


def _recompile_lazy_module(root: nn.Module) -> None:
    """Give a lazy graph module, ours or torch.fx's, its real forward."""
    _LazyGraphModule.force_recompile(cast("Any", root))
    theirs = sys.modules.get("torch.fx._lazy_graph_module")
    if theirs is not None:
        theirs._LazyGraphModule.force_recompile(root)


@wrap
def _assert_is_none(value: object, msg: str) -> None:
    """Fail if `value` is not None; recorded for inputs that `concrete_args` fixes to None."""
    if isinstance(value, Proxy):
        # Generated code that is traced again holds the function itself, for which no trace puts a stand-in.
        value.tracer.create_proxy("call_function", _ITSELF, (value, msg), {}).node.meta["is_wrapped"] = True
    elif value is not None:
        raise AssertionError(msg)


_ITSELF: Final = _assert_is_none
# Generated code refers to it under the name that torch.fx's module has.
_assert_is_none.__module__ = "fxengine._symbolic_trace"

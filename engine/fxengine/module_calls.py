"""What a tracer does at a call of a module: it records the call of a leaf, and runs any other module as torch would.

Either way it keeps account of the modules that are running, and of the place in the source at which each was called.
What is a leaf, and what else may happen at a call, the subclass says (`tracer`); how calls reach this module is the
business of `interception`.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from torch import nn

from fxengine.interception import call_as_torch_does
from fxengine.names import _named_after
from fxengine.node_list import NO_KWARGS
from fxengine.patching import Patches
from fxengine.proxy import Proxy, TracerBase
from fxengine.source import Handed, ModuleSite
from fxengine.wrapping import patch_autowrapped

_PROXIES: Final = frozenset({Proxy})
_CONTAINERS: Final = frozenset({tuple, list, dict})


class ModuleCalls(TracerBase):
    """The part of `Tracer` beneath the methods that its users call and override."""

    submodule_paths: dict[nn.Module, str] | None
    num_calls: dict[str, int]

    _patches: Patches | None
    _autowrapped: frozenset[int]
    _leaves: dict[type, bool | None]
    """Whether modules of a type are leaves; None if a subclass decides that at each call."""
    _failure: tuple[BaseException, ModuleSite] | None
    """What ended the trace, and the innermost call that it ended."""
    _handed: list[Handed]
    """What modules that were traced through have returned that is no single value."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Whether a call of `m` becomes a node instead of being traced through."""
        raise NotImplementedError

    def path_of_module(self, mod: nn.Module) -> str:
        """Return the qualified name of a module in the root."""
        raise NotImplementedError

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Return the value of a call of a module."""
        raise NotImplementedError

    def _is_own(self, *methods: str) -> bool:
        """Whether neither a subclass nor an attribute of this tracer replaces these methods."""
        raise NotImplementedError

    def _run(self, site: ModuleSite, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        """Call a forward; the frames of what it records end here, where those of the site begin."""
        outer = (self._site, self._known_frame, self._known_code)
        self._site = site
        self._known_frame = None
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            if self._failure is None or self._failure[0] is not error:
                self._failure = (error, site)
            raise
        finally:
            self._site, self._known_frame, self._known_code = outer
        if type(result) in _CONTAINERS:
            self._handed.append((site, result))
        return result

    def _intercept_call(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Do what the tracer has to do at a call of a module."""
        if type(module) not in self._leaves or "forward" in module.__dict__:
            self._meet(module)
        leaf = self._leaves[type(module)]
        # Other arguments may become nodes themselves, and those are made while the leaf is running.
        if leaf and not kwargs and _PROXIES.issuperset(map(type, args)):
            return self._record_leaf(module, args)
        if self._records_plainly:
            return self._enter(module, args, kwargs) if leaf is False else self._call(module, None, args, kwargs, leaf)

        def forward(*args: Any, **kwargs: Any) -> Any:
            return self._trace_through(module, self._path_or_nothing(module), args, kwargs, sys._getframe(1))

        return self.call_module(module, forward, args, kwargs)

    def _meet(self, module: nn.Module) -> None:
        """Note whether modules of a type are leaves, None if a subclass decides that.

        Autowrapped functions are found where the module's forward looks for its globals.
        """
        namespace = getattr(getattr(module, "forward", module), "__globals__", None)
        if namespace is not None and self._patches is not None:
            patch_autowrapped(self._patches, namespace, self._autowrapped)
        own_rule = self._records_plainly and self._is_own("is_leaf_module")
        self._leaves[type(module)] = self.is_leaf_module(module, "") if own_rule else None

    def _record_leaf(self, module: nn.Module, args: tuple[Any, ...]) -> Proxy:
        """Do what `_call` does for a leaf module, if nobody can see in between which modules are running."""
        paths = self.submodule_paths
        path = paths.get(module) if paths else None
        if path is None:
            path = self.path_of_module(module)
        counts = self.num_calls
        calls = counts.get(path, 0)
        counts[path] = calls + 1
        called = (path, type(module))
        nodes = tuple([value.node for value in args])
        inputs = nodes if len(nodes) == 1 else dict.fromkeys(nodes)
        node = self.graph._append("call_module", path, nodes, NO_KWARGS, _named_after(path), None, inputs)
        # The frames of this function and of the two that led to it are ours.
        stack = (self._stack, f"{path}@{calls}" if calls else path, called)
        self._describe(node, sys._getframe(3), called, stack)
        return Proxy(node, self)

    def _enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Do what `_call` does for a module that is no leaf, as is known before."""
        paths = self.submodule_paths
        path = paths.get(module) if paths else None
        if path is None:
            path = self.path_of_module(module)
        counts = self.num_calls
        calls = counts.get(path, 0)
        counts[path] = calls + 1
        key = f"{path}@{calls}" if calls else path
        called = (path, type(module))
        # The frames of this function and of the two that led to it are ours.
        site = ModuleSite(path, called[1], self._site, self._trail_from(sys._getframe(3)))
        scope, stack, running = self.scope, self._stack, self.module_stack
        previous = (scope.module_path, scope.module_type)
        scope.module_path, scope.module_type = called
        self._stack = (stack, key, called)
        running[key] = called
        try:
            result = self._run(site, call_as_torch_does, (module, *args), kwargs)
        finally:
            scope.module_path, scope.module_type = previous
        self._stack = stack
        del running[key]
        return result

    def _call(
        self,
        module: nn.Module,
        forward: Callable[..., Any] | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        leaf: bool | None,
    ) -> Any:
        """The value of a call of a module; `forward` and `leaf` are None for what the module and this tracer say."""
        path = self.path_of_module(module)
        scope = self.scope
        previous = (scope.module_path, scope.module_type)
        called = scope.module_path, scope.module_type = path, type(module)
        try:
            calls = self.num_calls.get(path, 0)
            self.num_calls[path] = calls + 1
            key = f"{path}@{calls}" if calls else path
            outer = self._stack
            self._stack = (outer, key, called)
            self.module_stack[key] = called
            if leaf is None:
                leaf = self.is_leaf_module(module, path)
            if leaf:
                result = self.create_proxy("call_module", path, args, kwargs)
            elif forward is None:
                site = ModuleSite(path, called[1], self._site, self._trail_from(sys._getframe(2)))
                result = self._run(site, call_as_torch_does, (module, *args), kwargs)
            else:
                result = forward(*args, **kwargs)
            self._stack = outer
            popped, _ = self.module_stack.popitem()
            assert popped == key, f"Unexpected key {popped}, expected {key}"
        finally:
            scope.module_path, scope.module_type = previous
        return result

    def _trace_through(
        self, module: nn.Module, path: str, args: tuple[Any, ...], kwargs: dict[str, Any], caller: FrameType
    ) -> Any:
        """Run a module as torch would, hooks included."""
        site = ModuleSite(path, type(module), self._site, self._trail_from(caller))
        return self._run(site, call_as_torch_does, (module, *args), kwargs)

    def _path_or_nothing(self, module: nn.Module) -> str:
        return self.submodule_paths.get(module, "") if self.submodule_paths else ""

    def _unwind(self, depth: int) -> None:
        """Forget the modules that were running when an exception ended them, but for the outermost so many."""
        while len(self.module_stack) > depth:
            self.module_stack.popitem()
            if self._stack is not None:
                self._stack = self._stack[0]


ModuleCalls._boundary = ModuleCalls._run.__code__

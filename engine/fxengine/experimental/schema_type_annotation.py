"""Annotations of values, taken from the signatures of what makes them."""

import inspect
from typing import Any

import torch
from torch import nn
from torch._jit_internal import boolean_dispatched

from fxengine.graph_module import GraphModule
from fxengine.interpreter import Transformer
from fxengine.node import Argument, Target
from fxengine.operator_schemas import _torchscript_type_to_python_type
from fxengine.proxy import Proxy

__all__ = ["AnnotateTypesWithSchema"]


class AnnotateTypesWithSchema(Transformer):
    """Gives nodes without an annotation that of what they call or read.

    Known are modules of ``torch.nn``, functions of ``torch.nn.functional``, and attributes.

    Example:
        ``AnnotateTypesWithSchema(symbolic_trace(model)).transform()``
    """

    def __init__(
        self,
        module: GraphModule,
        annotate_functionals: bool = True,
        annotate_modules: bool = True,
        annotate_get_attrs: bool = True,
    ) -> None:
        """Prepare to annotate a copy of ``module``.

        Args:
            module: The graph module.
            annotate_functionals: Annotate calls of functions.
            annotate_modules: Annotate calls of modules.
            annotate_get_attrs: Annotate attributes.
        """
        super().__init__(module)
        self.annotate_functionals = annotate_functionals
        self.annotate_modules = annotate_modules
        self.annotate_get_attrs = annotate_get_attrs

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """Record the call, with what the function says that it returns."""
        analysed = None
        if self.annotate_functionals and getattr(target, "__module__", None) == "torch.nn.functional":
            analysed = _one_of_two(target)
        returned = self._extract_python_return_type(analysed) if analysed is not None else None
        return _annotated(super().call_function(target, args, kwargs), returned)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """Record the call, with what the module's ``forward`` says that it returns."""
        assert isinstance(target, str), f"Expected str target, got {type(target)}"
        module: Any = self.fetch_attr(target)
        returned = None
        if self.annotate_modules and getattr(nn, type(module).__name__, None) is type(module):
            returned = self._extract_python_return_type(module.forward)
        return _annotated(super().call_module(target, args, kwargs), returned)

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """Record the read, with the type of what is there.

        Raises:
            RuntimeError: The module has no such attribute.
        """
        assert isinstance(target, str), f"Expected str target, got {type(target)}"
        proxy = super().get_attr(target, args, kwargs)
        if not self.annotate_get_attrs:
            return proxy
        value: Any = self.module
        names = target.split(".")
        for index, name in enumerate(names):
            if not hasattr(value, name):
                raise RuntimeError(f"Node referenced nonextent target {'.'.join(names[:index])}!")
            value = getattr(value, name)
        inferred = torch._C._jit_try_infer_type(value)
        return _annotated(proxy, _torchscript_type_to_python_type(inferred.type()) if inferred.success() else None)

    def _extract_python_return_type(self, target: Target) -> Any | None:
        """Return the annotation of what ``target`` returns, or None if it has none."""
        assert callable(target), f"Expected callable target, got {type(target)}"
        try:
            returned = inspect.signature(target).return_annotation
        except (ValueError, TypeError):
            return None
        return None if returned is inspect.Signature.empty else returned


def _one_of_two(function: Any) -> Any:
    """Return the function that stands for one that is two, such as ``max_pool2d(return_indices=...)``, if any does."""
    branches = boolean_dispatched.get(function)
    if branches is None:
        return function
    if_true, if_false = branches["if_true"], branches["if_false"]
    same = inspect.signature(if_true).return_annotation == inspect.signature(if_false).return_annotation
    return if_true if same else None


def _annotated(proxy: Proxy, annotation: Any) -> Proxy:
    """Return ``proxy``, whose node has the annotation if it had none."""
    proxy.node.type = proxy.node.type or annotation
    return proxy

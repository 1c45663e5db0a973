"""Which functions do more than return a value, so that a call of them stays even if nobody uses its result.

torch decides for torch's operators (mutable schema, random numbers, registered effects); what is registered with
torch.fx counts here as well, wherever torch.fx is loaded.
"""

import operator
import sys
import types
from collections.abc import Callable, Collection, Mapping
from typing import Any, ParamSpec, TypeVar

import torch
from torch._library import utils as _torch_library

_P = ParamSpec("_P")
_R = TypeVar("_R")

_side_effectful_need_to_be_preserved_pre_dispatch: list[Callable[..., Any]] = [
    torch._C._set_grad_enabled,
    torch.amp.autocast_mode._enter_autocast,
    torch.amp.autocast_mode._exit_autocast,
]
"""Functions that switch modes."""

_side_effectful_functions: set[Callable[..., Any]] = {
    operator.setitem,
    torch._assert,
    torch._assert_async,  # pyright: ignore[reportPrivateImportUsage] - no other name leads to it.
    *_side_effectful_need_to_be_preserved_pre_dispatch,
}
"""Registered here; torch.fx has a set of its own."""

_RANDOM_FUNCTIONS = frozenset(
    {
        torch.rand,
        torch.randn,
        torch.randint,
        torch.randperm,
        torch.rand_like,
        torch.randn_like,
        torch.randint_like,
        torch.normal,
        torch.poisson,
        torch.bernoulli,
        torch.multinomial,
    }
)

_PLAIN_FUNCTIONS = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)
"""Functions written in C, which can carry neither schema nor mark."""

_torch_decides: Callable[..., bool] | None = getattr(_torch_library, "is_impure", None)
"""Newer torch answers the question itself."""


def has_side_effect(fn: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return ``fn``, whose calls dead code elimination keeps from now on; usable as a decorator."""
    _side_effectful_functions.add(fn)
    return fn


def is_impure_function(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    impure_random: bool = True,
) -> bool:
    """Return whether a call of ``function`` has an effect beside its result.

    Args:
        function: The target of a ``call_function`` node.
        args: The arguments of the call.
        kwargs: The keyword arguments of the call.
        impure_random: Whether an operator that draws random numbers counts as impure.
    """
    if _is_registered(function):
        return True
    if function in _RANDOM_FUNCTIONS:
        return True
    if isinstance(function, _PLAIN_FUNCTIONS):
        return False
    if _torch_decides is not None:
        return _torch_decides(function, args=args, kwargs=kwargs, impure_random=impure_random)
    schema = getattr(function, "_schema", None)
    if schema is not None and schema.is_mutable:
        return True
    return impure_random and bool(getattr(function, "_nondeterministic_seeded", False))


def _is_registered(function: Callable[..., Any]) -> bool:
    if function in _side_effectful_functions:
        return True
    theirs = sys.modules.get("torch.fx.node")
    registered: Collection[object] = getattr(theirs, "_side_effectful_functions", ())
    return function in registered

"""How a call of a torch function is recorded, which torch hands to a symbolic value among the arguments.

Here is only what can be said without knowing what symbolic values are: which tracer records the call, and what the node
is to call.
"""

import functools
import types
from collections.abc import Callable
from typing import Any, Final

import torch
from torch._ops import HigherOrderOperator
from torch.utils import _pytree as pytree

from fxengine.errors import UnsupportedArgument
from fxengine.names import _target_to_str
from fxengine.node import Target
from fxengine.recording import PLAIN_TYPES, Recorder, SymbolicValue

__all__ = ["recorded_as", "refuse_callables", "tracer_of"]

_TRACERLESS: Final[frozenset[type[Any]]] = PLAIN_TYPES | {torch.Tensor, torch.nn.Parameter, slice}


def tracer_of(
    cls: type[SymbolicValue], function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Return the tracer of the symbolic values among the arguments; they must have the same one."""
    found: Recorder | None = None
    values = [*args, *kwargs.values()] if kwargs else list(args)
    for value in values:
        kind = type(value)
        if isinstance(value, cls):
            if found is not None and value.tracer is not found:
                break
            found = value.tracer
        elif kind is list or kind is tuple:
            values.extend(value)
        elif kind not in _TRACERLESS:
            break
    else:
        assert found is not None
        return found
    leaves = pytree.tree_leaves((args, kwargs))
    tracers = dict.fromkeys(leaf.tracer for leaf in leaves if isinstance(leaf, cls))
    if len(tracers) > 1:
        raise RuntimeError(
            f"Found multiple different tracers {list(tracers.keys())} while trying to trace operations {function}"
        )
    return next(iter(tracers))


@functools.cache
def _tensor_methods() -> frozenset[Callable[..., Any]]:
    """The methods of `Tensor`, and the getters of its properties, that torch passes to `__torch_function__`."""
    return frozenset(torch.overrides.get_overridable_functions()[torch.Tensor])


@functools.lru_cache(maxsize=2048)
def recorded_as(function: Callable[..., Any]) -> tuple[str, Target, str | None]:
    """The opcode, target and name that the node of a torch function gets."""
    name = function.__name__
    if function in _tensor_methods() or name == "__get__":
        return "call_method", name, None
    return "call_function", function, _target_to_str(name)


def refuse_callables(
    tracer: Recorder, operation: HigherOrderOperator, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Fail if a higher-order operator was given a function that no graph stands for."""
    arbitrary = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, functools.partial)
    found = next((leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, arbitrary)), None)
    if found is not None:
        error = RuntimeError(
            f"Unable to symbolically trace the HigherOrderOperator {operation._name} because it received an "
            f"arbitrary callable argument {found}. Use make_fx or dynamo tracing instead."
        )
        tracer.refuse(UnsupportedArgument, None, error)

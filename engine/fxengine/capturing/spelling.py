"""How a call of a torch function is written in a graph: opcode, target, and the order of the arguments.

Torch tells a mode which function was called and not how it was written, `x + 1` or `x.add(1)`. What can be an operator
is written as one, as torch.fx writes it.
"""

import functools
import operator
from collections.abc import Callable
from typing import Any, Final

from torch._ops import OpOverload, OpOverloadPacket

from fxengine.names import _target_to_str
from fxengine.node import Target
from fxengine.torch_calls import recorded_as

__all__ = ["spelled"]

_BINARY: Final[dict[str, Callable[..., Any]]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "true_divide": operator.truediv,
    "__truediv__": operator.truediv,
    "__floordiv__": operator.floordiv,
    "pow": operator.pow,
    "__pow__": operator.pow,
    "remainder": operator.mod,
    "__mod__": operator.mod,
    "matmul": operator.matmul,
    "__matmul__": operator.matmul,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "__eq__": operator.eq,
    "__ne__": operator.ne,
    "__and__": operator.and_,
    "__or__": operator.or_,
    "__xor__": operator.xor,
    "__lshift__": operator.lshift,
    "__rshift__": operator.rshift,
    "__getitem__": operator.getitem,
}
_REFLECTED: Final[dict[str, Callable[..., Any]]] = {
    "__rsub__": operator.sub,
    "__rdiv__": operator.truediv,
    "__rtruediv__": operator.truediv,
    "__rfloordiv__": operator.floordiv,
    "__rpow__": operator.pow,
    "__rmod__": operator.mod,
    "__rmatmul__": operator.matmul,
    "__rlshift__": operator.lshift,
    "__rrshift__": operator.rshift,
}
_UNARY: Final[dict[str, Callable[..., Any]]] = {"neg": operator.neg, "__invert__": operator.invert}


def spelled(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[str, Target, tuple[Any, ...], str]:
    """The opcode, the target, the arguments in their order, and what the value should be called.

    Args:
        function: What was called.
        args: The positional arguments of the node.
        kwargs: The keyword arguments of the node.
    """
    opcode, target, label, one, two, swapped = _forms(function)
    if not kwargs:
        if len(args) == 2 and two is not None:
            return "call_function", two, (args[1], args[0]) if swapped else args, two.__name__.strip("_")
        if len(args) == 1 and one is not None:
            return "call_function", one, args, one.__name__
    if target is getattr or target is setattr:
        return "call_function", target, (args[0], label, *args[1:]), label
    return opcode, target, args, label


@functools.lru_cache(maxsize=4096)
def _forms(function: Callable[..., Any]) -> tuple[str, Target, str, Any, Any, bool]:
    """Opcode, target and name of a function's calls; the operators for one and two arguments; whether they swap."""
    if isinstance(function, OpOverload | OpOverloadPacket):
        return "call_function", function, _target_to_str(function.__name__), None, None, False
    name = function.__name__
    owner: Any = getattr(function, "__self__", None)
    if name in {"__get__", "__set__"}:
        return "call_function", getattr if name == "__get__" else setattr, owner.__name__, None, None, False
    opcode, target, label = recorded_as(function)
    if opcode == "call_method":
        if name == "__setitem__":
            return "call_function", operator.setitem, "setitem", None, None, False
        swapped = name in _REFLECTED
        return (
            opcode,
            target,
            _target_to_str(name),
            _UNARY.get(name),
            (_REFLECTED if swapped else _BINARY).get(name),
            swapped,
        )
    return opcode, target, label or _target_to_str(name), None, None, False

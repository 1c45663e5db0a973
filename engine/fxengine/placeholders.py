"""The inputs of a traced function: which symbolic values stand for its parameters, and how it is called with them.

`concrete_args` fixes some parameters to values, or gives their structure as a pytree whose leaves are inputs (`PH`)
or constants; the graph then checks the constants when it runs.
"""

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from torch.utils import _pytree as pytree

from fxengine._pytree import _children
from fxengine.graph import _PyTreeCodeGen, _PyTreeInfo

if TYPE_CHECKING:
    from fxengine.graph import Graph

_HAS_VARIADIC: Final = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


class PHBase:
    """Stands in `concrete_args` for an input that stays symbolic."""

    def __repr__(self) -> str:
        return "PH"


PH: Final = PHBase()
"""An input that stays symbolic, within the structure that `concrete_args` gives."""


class PHWithMeta(PHBase):
    """An input that stays symbolic and whose attributes are copied to its node."""

    def __init__(self, ph_key: str | None = None) -> None:
        super().__init__()
        self.ph_key = ph_key


def transfer_attributes(placeholder: object, node: object) -> None:
    """Copy to `node` the attributes of a placeholder that the node lacks; of `PH` itself there are none."""
    if placeholder is PH:
        return
    for name in dir(placeholder):
        value = getattr(placeholder, name)
        if not callable(value) and not name.startswith("__") and not hasattr(node, name):
            setattr(node, name, value)


def takes_anything(function: Any) -> bool:
    """Whether the function has `*args` or `**kwargs`."""
    return bool(function.__code__.co_flags & _HAS_VARIADIC)


def with_plain_parameters(function: FunctionType, count: int) -> FunctionType:
    """Return `function` with its first `count` variables as ordinary parameters, `*args` and `**kwargs` among them.

    Each can then be given one symbolic value, which Python would otherwise try to unpack.

    Raises:
        ValueError: The function has fewer variables than that, as a wrapper around the one that was analysed may.
    """
    code = function.__code__.replace(
        co_argcount=count,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=function.__code__.co_flags & ~_HAS_VARIADIC,
    )
    return FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)


def flattened(
    graph: "Graph", function: Callable[..., Any], parameter_names: list[str], args: list[Any]
) -> tuple[Callable[..., Any], list[Any]]:
    """Return the function and its arguments, taken apart where an argument has structure.

    If one has, the graph's code will take its inputs apart in the same way and put its output together.
    """
    if not any(isinstance(arg, tuple) or type(arg) in pytree.SUPPORTED_NODES for arg in args):
        return function, args
    flat_args, in_spec = pytree.tree_flatten(tuple(args))
    if all(child.is_leaf() for child in _children(in_spec)):
        return function, args

    # Without annotations: those of the return value would appear in the graph's code.
    def flatten_fn(*args):  # type: ignore[no-untyped-def]  # noqa: ANN002, ANN202
        output = function(*pytree.tree_unflatten(list(args), in_spec))
        out_args, out_spec = pytree.tree_flatten(output)
        codegen = graph._codegen
        assert isinstance(codegen, _PyTreeCodeGen), f"Expected _codegen to be _PyTreeCodeGen, got {type(codegen)}"
        codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
        return out_args

    graph._codegen = _PyTreeCodeGen(_PyTreeInfo(parameter_names, in_spec, None))
    return flatten_fn, flat_args

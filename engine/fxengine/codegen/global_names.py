"""What generated code refers to beside its own values: functions, types and constants, each under a name of its own."""

import types
import typing
from collections.abc import Callable
from typing import Any, Final

import torch

from fxengine.names import _custom_builtins, _get_qualified_name, _is_from_torch, _Namespace, _type_repr

_TYPING_ORIGINS: Final[dict[Any, Any]] = {
    list: typing.List,  # noqa: UP006 - `typing.List[int]` is printed as it was written.
    dict: typing.Dict,  # noqa: UP006
    set: typing.Set,  # noqa: UP006
    frozenset: typing.FrozenSet,  # noqa: UP006
    tuple: typing.Tuple,  # noqa: UP006
}
_PRE_PEP585_ALIAS: Final = type(typing.List[int])  # noqa: UP006


class GlobalNames:
    """Collects the globals of one generated function.

    Attributes:
        namespace: The names that are taken, also by the function's local values.
        values: The globals so far, by name.
    """

    __slots__ = ("namespace", "values")

    def __init__(self, namespace: _Namespace) -> None:
        self.namespace = namespace
        builtins = {name: builtin.obj for name, builtin in _custom_builtins.items()}
        self.values: dict[str, Any] = namespace.name_all(builtins)

    def add(self, name_hint: str, obj: Any) -> str:
        """Return the name by which the code reaches ``obj``; what belongs to torch keeps its qualified name."""
        # What is no class and has no name of its own, as one of `torch.classes`, is reached as anything else is.
        if _in_torch(obj) and hasattr(obj, "__name__"):
            return _get_qualified_name(obj)
        return self._add(name_hint, obj)

    def _add(self, name_hint: str, obj: Any) -> str:
        name = self.namespace.create_name(name_hint, obj)
        if name not in self.values:
            self.values[name] = obj
        else:
            assert self.values[name] is obj or self.values[name] == obj, (
                f"Global name {name} already assigned to different object"
            )
        return name

    def add_function(self, function: Callable[..., Any]) -> str:
        """Return the name by which the code reaches ``function``."""
        name = _get_qualified_name(function)
        return name if _in_torch(function) else self._add(name, function)

    def add_type(self, annotation: Any) -> str:
        """Return how ``annotation`` is written in the code."""
        if isinstance(annotation, tuple) and not annotation:
            return "()"  # As in Tuple[()].
        if isinstance(annotation, list):  # As in Callable[[int], str].
            return f"[{','.join(self.add_type(each) for each in annotation)}]"
        text = _type_repr(annotation)
        if isinstance(annotation, types.UnionType) and "|" in text:
            return "|".join(self.add_type(member) for member in typing.get_args(annotation))
        origin: Any = getattr(annotation, "__origin__", None)
        if not origin:
            return self.add(text, annotation)
        if isinstance(annotation, _PRE_PEP585_ALIAS):
            origin = _TYPING_ORIGINS.get(origin, origin)
        name = self.add(_type_repr(origin), origin)
        # A TensorType is no typing construct; its dimensions stand in the brackets.
        arguments = getattr(annotation, "dims", None) or typing.get_args(annotation)
        return f"{name}[{','.join(self.add_type(argument) for argument in arguments)}]" if arguments else name


def _in_torch(obj: Any) -> bool:
    """Return whether the code reaches ``obj`` through ``torch``; ``device`` has a name of its own there."""
    return _is_from_torch(obj) and obj is not torch.device

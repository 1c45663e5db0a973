"""The parameters of a model's forward, and what a traced graph does first with each of them."""

import collections.abc
import contextlib
import inspect
import itertools
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from fxengine.graph import Graph
from fxengine.inputs.clues import Clues, LayerWish
from fxengine.inputs.reading import may_be_none
from fxengine.node import Node

__all__ = [
    "Parameter", "consumers", "is_tensor_type", "meant_by", "parameters_by", "parameters_of", "sibling_of",
    "takes_keys", "takes_names", "takes_none", "without_none",
]  # fmt: skip

_MAX_STEPS = 64
"""How many nodes are followed from a placeholder in search of a layer."""

_KEEPS_SHAPE = frozenset(
    {"contiguous", "float", "to", "type", "relu", "gelu", "clone", "detach", "clamp", "half", "cuda"}
)
"""Methods and functions behind which a tensor has the shape that it had before."""

_ONE_OF_SEVERAL = re.compile(r"(\w*[A-Za-z])_?(?:\d|(?<=_)[ijab]|(?<=^\w)[ijab])")
"""How one of several is called: `x1`, `z_i`, `zb`."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a forward method.

    Attributes:
        name: Its name.
        annotation: What it is annotated with, resolved where that is possible; None without.
        required: It has no default.
        keyword_only: It can only be passed by name.
        variadic: It takes any number of arguments.
        setting: It has a default that is a number, a flag or a text.
        nullable: It may be None, as its annotation or the source says.
    """

    name: str
    annotation: Any
    required: bool
    keyword_only: bool
    variadic: bool = False
    setting: bool = False
    nullable: bool = False


def parameters_of(root: nn.Module | Callable[..., Any]) -> list[Parameter]:
    """Return the parameters that can be passed to ``root``, decorated or not.

    ``*args`` has to be passed if nothing else can be passed by position; ``**kwargs`` is none of them.
    """
    function = root.forward if isinstance(root, nn.Module) else root
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # A builtin without a signature.
        return []
    hints = _hints(function)
    named = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    asked = may_be_none(root, signature.parameters)
    are_others = any(each.kind in named for each in signature.parameters.values())
    return [
        Parameter(
            parameter.name,
            meant_by(hints.get(parameter.name, _annotation(parameter))),
            parameter.default is inspect.Parameter.empty
            and not (are_others and parameter.kind is inspect.Parameter.VAR_POSITIONAL),
            parameter.kind is inspect.Parameter.KEYWORD_ONLY,
            parameter.kind is inspect.Parameter.VAR_POSITIONAL,
            isinstance(parameter.default, bool | int | float | str),
            takes_none(hints.get(parameter.name, parameter.annotation)) or parameter.name in asked,
        )
        for parameter in signature.parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]


def parameters_by(root: nn.Module | Callable[..., Any], taker: nn.Module | Callable[..., Any]) -> list[Parameter]:
    """Return the parameters that can be passed to ``root``, those of what takes its ``*args`` in place of these."""
    own = parameters_of(root)
    if taker is root:
        return own
    taken = [each for each in parameters_of(taker) if takes_names(root) or not each.keyword_only]
    names = {each.name for each in taken}
    return [*taken, *(each for each in own if not each.variadic and each.name not in names)]


def sibling_of(parameter: Parameter, others: Iterable[Parameter]) -> Parameter | None:
    """Return the first of other parameters before one that are called and annotated like it: `x1` of `x2`."""
    stem = _stem_of(parameter.name)
    before = itertools.takewhile(lambda each: each is not parameter, others if stem else ())
    alike = (each for each in before if _stem_of(each.name) == stem)
    return next((each for each in alike if each.annotation == parameter.annotation), None)


def _stem_of(name: str) -> str:
    found = _ONE_OF_SEVERAL.fullmatch(name)
    return found[1] if found is not None else ""


def takes_names(root: nn.Module | Callable[..., Any]) -> str:
    """Return how ``root`` calls the arguments that it takes by any name, "" where it takes none such."""
    try:
        parameters = inspect.signature(root.forward if isinstance(root, nn.Module) else root).parameters
    except (TypeError, ValueError):
        return ""
    return next((each.name for each in parameters.values() if each.kind is inspect.Parameter.VAR_KEYWORD), "")


def without_none(annotation: Any) -> Any:
    """Return ``T`` for ``Optional[T]``, and of any other union the tensor in it, or else its first member."""
    if typing.get_origin(annotation) in {typing.Union, types.UnionType}:
        members = [member for member in typing.get_args(annotation) if member is not types.NoneType]
        tensors = [member for member in members if is_tensor_type(member)]
        return next(iter([*tensors, *members]), None)
    return annotation


def meant_by(annotation: Any) -> Any:
    """Return the type that is meant by an annotation: `list[int]` by `[int]`, nothing by what is neither type nor text.

    What is written down is hashable then, as all types are.
    """
    try:
        hash(annotation)
    except Exception:  # noqa: BLE001 - it may be an object of the user's.
        match annotation:
            case [first, *others] if isinstance(first, type) and all(each is first for each in others):
                return list[first]
            case list():
                return list
            case dict() if len(annotation) == 1 and all(
                isinstance(each, type) for each in (*annotation, *annotation.values())
            ):
                ((key, value),) = annotation.items()
                return dict[key, value]
            case dict():
                return dict
            case _:
                return None
    return annotation


def takes_none(annotation: Any) -> bool:
    """Whether an annotation allows None."""
    return types.NoneType in typing.get_args(annotation)


def takes_keys(annotation: Any) -> bool:
    """Whether an annotation is a dictionary."""
    plain = without_none(annotation)
    return (typing.get_origin(plain) or plain) in {dict, collections.abc.Mapping}


def is_tensor_type(annotation: Any) -> bool:
    """Whether an annotation is a class of tensors, the old ones such as `torch.LongTensor` included."""
    if isinstance(annotation, type(torch.LongTensor)):
        return True
    return isinstance(annotation, type) and issubclass(annotation, torch.Tensor)


def consumers(graph: Graph, clues: Clues) -> dict[str, LayerWish]:
    """Return for each placeholder the wish of the first layer that takes it as it is."""
    found: dict[str, LayerWish] = {}
    for node in graph.nodes:
        if node.op == "placeholder":
            wish = _first_wish(node, clues)
            if wish is not None:
                found[str(node.target)] = wish
    return found


def _first_wish(placeholder: Node, clues: Clues) -> LayerWish | None:
    """Follow the uses of a value, in the graph's order, as long as its shape stays."""
    pending = list(placeholder.users)
    for _ in range(_MAX_STEPS):
        if not pending:
            return None
        node = pending.pop(0)
        wish = _wish_of(node, clues)
        if wish is not None:
            return wish
        if _keeps_shape(node, clues):
            pending.extend(node.users)
    return None


def _wish_of(node: Node, clues: Clues) -> LayerWish | None:
    if node.op == "call_module":
        return clues.wish(str(node.target))
    if node.op == "call_function" and getattr(node.target, "__name__", "") == "rearrange":
        pattern = node.args[1] if len(node.args) > 1 else node.kwargs.get("pattern")
        if isinstance(pattern, str):
            return clues.pattern_wish(pattern)
    return None


def _keeps_shape(node: Node, clues: Clues) -> bool:
    match node.op:
        case "call_module":
            return clues.is_transparent(str(node.target))
        case "call_method":
            return node.target in _KEEPS_SHAPE
        case "call_function":
            return getattr(node.target, "__name__", "") in {*_KEEPS_SHAPE, "add", "mul", "sub", "truediv", "dropout"}
        case _:
            return False


def _hints(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the resolved annotations, as far as they can be resolved: all, or one by one where one cannot be."""
    target = inspect.unwrap(function)
    try:
        return typing.get_type_hints(target, include_extras=True)
    except Exception:  # noqa: BLE001 - annotations are the user's code: evaluating them may raise anything.
        return {name: hint for name, hint in _each_hint(target) if not isinstance(hint, str)}


def _each_hint(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Yield each annotation, resolved if that is possible: one may name what is only imported for type checkers."""
    for name, hint in getattr(function, "__annotations__", {}).items():
        resolved = hint
        if isinstance(hint, str):
            with contextlib.suppress(Exception):
                resolved = eval(hint, getattr(function, "__globals__", {}))  # noqa: S307 - as `get_type_hints` does.
        yield name, resolved


def _annotation(parameter: inspect.Parameter) -> Any:
    """Return an annotation that could not be resolved: a string whose first word is mostly enough."""
    if parameter.annotation is inspect.Parameter.empty:
        return None
    if isinstance(parameter.annotation, str):
        return {"int": int, "float": float, "bool": bool, "str": str, "Tensor": torch.Tensor}.get(parameter.annotation)
    return parameter.annotation

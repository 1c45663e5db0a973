"""Annotations that tell the axes of a tensor, read as they are written: what defines them need not be installed.

``x: TensorType['b', 'n', int]`` is torchtyping's way, ``x: Int[Tensor, 'b n']`` jaxtyping's, which others shorten to
``Int['b n']``.
"""

import ast
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

from torch import nn

from fxengine.inputs.reading import definition_read

__all__ = ["axes_written", "kinds_written"]

_OF_TORCHTYPING: Final = "TensorType"
_OF_JAXTYPING: Final = re.compile(r"(Float|BFloat|Num|Shaped|Inexact|Real|Complex|Int|UInt|Integer|Bool)\d*")
_KINDS: Final = {
    "int": "LongTensor", "long": "LongTensor", "int64": "LongTensor", "int32": "IntTensor", "bool": "BoolTensor",
    "Int": "LongTensor", "UInt": "LongTensor", "Integer": "LongTensor", "Bool": "BoolTensor",
}  # fmt: skip
"""How torch calls the tensors that hold what an annotation says."""

_WHOLE: Final = re.compile(r"[\w ]+")


def axes_written(root: nn.Module | Callable[..., Any], names: Collection[str]) -> dict[str, str]:
    """Return the axes of parameters that their annotations tell, as a pattern: `b n`."""
    found = dict(_annotated(root, names))
    return {name: axes for name, node in found.items() if _WHOLE.fullmatch(axes := " ".join(_axes(node)))}


def kinds_written(root: nn.Module | Callable[..., Any], names: Collection[str]) -> dict[str, str]:
    """Return how torch calls the tensors that parameters are, where their annotations tell what these hold."""
    return {name: kind for name, node in _annotated(root, names) if (kind := _kind(node))}


def _annotated(root: nn.Module | Callable[..., Any], names: Collection[str]) -> Iterator[tuple[str, ast.Subscript]]:
    """Yield parameters with their annotations, where these are of a tensor with its axes, or may be."""
    definition = definition_read(root)
    arguments = definition.args if isinstance(definition, ast.FunctionDef) else None
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs] if arguments is not None else []
    for each in every:
        node = _inner(each.annotation)
        if each.arg in names and isinstance(node, ast.Subscript) and _is_of_axes(_called(node.value)):
            yield each.arg, node


def _inner(annotation: ast.expr | None) -> ast.expr | None:
    """Return what is annotated beside None."""
    match annotation:
        case ast.Subscript(value=value, slice=inner) if _called(value) == "Optional":
            return inner
        case ast.BinOp(left=left, op=ast.BitOr(), right=ast.Constant(value=None)):
            return left
        case _:
            return annotation


def _called(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_of_axes(name: str) -> bool:
    return name == _OF_TORCHTYPING or _OF_JAXTYPING.fullmatch(name) is not None


def _axes(node: ast.Subscript) -> Iterator[str]:
    for part in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
        match part:
            case ast.Constant(value=str(axes)):
                yield axes.strip()
            case ast.Constant(value=bool() | None):
                pass
            case ast.Constant(value=int(size)):
                yield str(size)
            case _:
                pass


def _kind(node: ast.Subscript) -> str:
    """Return how torch calls a tensor of what an annotation says that it holds, "" for numbers of any kind."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    own = (_called(node.value).rstrip("0123456789"),) if _called(node.value) != _OF_TORCHTYPING else ()
    names = (*own, *(_called(each) for each in parts))
    return next((_KINDS[each] for each in names if each in _KINDS), "")

"""Sizes that do not fit a layer, a product or a join: a dimension is moved, or the layer is built for what comes in."""

import ast
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeGuard

from fxls.discovery.syntax import dotted, span_of
from fxls.fixes.source import Proposal, Source
from fxworker.wire import Edit, Location, Problem, Size, Span

_SECOND: Final = ("num_channels", "out_features", "out_channels", "embedding_dim", "hidden_size")
"""The sizes that layers take as their second argument; all others are the first."""

_CONTAINERS: Final = frozenset({"ModuleDict", "ModuleList", "Sequential"})
_JOINS: Final = ("cat", "concat", "concatenate")
_PRODUCTS: Final = ("matmul", "mm", "bmm")
_OPERATIONS: Final[Mapping[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: int.__add__,
    ast.Sub: int.__sub__,
    ast.Mult: int.__mul__,
    ast.FloorDiv: int.__floordiv__,
}
_LAST_TWO: Final = ".transpose(-2, -1)"


def moving(source: Source, node: ast.expr, problem: Problem) -> Iterator[Proposal]:
    """Yield the call of a layer with the dimension that it wants in the place where it looks for that."""
    misfit = problem.misfit
    if misfit is None or not misfit.at_layer or not misfit.shapes:
        return
    shape, wanted = misfit.shapes[0], misfit.sizes[1]
    index = wanted.index or 0
    other = len(shape) - index  # The other end of all dimensions but the batch.
    if index == 0 or len(shape) < 3 or shape[other] != wanted.value:
        return
    match node:
        case ast.Call(args=[value, *_] as arguments):
            order = [*range(len(shape))]
            order.insert(index, order.pop(other))
            text = ".transpose(1, 2)" if len(order) == 3 else f".permute({', '.join(map(str, order))})"
            same = [each for each in arguments if source.written(each) == source.written(value)]
            edits = tuple(source.followed(each, text) for each in same)
            place = "behind the batch" if index == 1 else "to the end"
            yield Proposal(f"Bring dimension {other}, of {wanted.value}, {place}", edits)
        case _:
            pass


def rejoining(source: Source, node: ast.expr, problem: Problem) -> Iterator[Proposal]:
    """Yield the join of several values along the one dimension in which they differ, or a layer wants them all."""
    misfit, shapes = problem.misfit, _shapes(problem)
    if misfit is None or not shapes:
        return
    if _is_join(node):
        alike = len({*map(len, shapes)}) == 1
        differing = [index for index, sizes in enumerate(zip(*shapes, strict=False)) if len({*sizes}) > 1]
        index, calls = (differing[0] if alike and len(differing) == 1 else None), [node]
    else:
        wanted = misfit.sizes[1] if misfit.at_layer else None
        index = wanted.index if wanted is not None else None
        calls = _joined_in(source, node) if wanted is not None and _is_several(shapes[0], index, wanted.value) else []
    for call in calls:
        edit = _along(source, call, index) if index is not None else None
        if edit is not None:
            yield Proposal(f"Join along dimension {index}", (edit,))


def _is_several(shape: tuple[int, ...], index: int | None, wanted: int) -> bool:
    """Whether a layer wants several times as much of a dimension as it is given."""
    return index is not None and shape[index] > 0 and wanted > shape[index] and wanted % shape[index] == 0


def _is_join(node: ast.AST) -> TypeGuard[ast.Call]:
    """Whether an expression joins values: `torch.cat([x, y], dim=1)`."""
    return isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] in _JOINS and bool(node.args)


def _joined_in(source: Source, node: ast.expr) -> list[ast.Call]:
    """Return the joins that are handed to a call, in its own text or by a variable that got one last."""
    given = [*node.args, *(each.value for each in node.keywords)] if isinstance(node, ast.Call) else []
    found = [call for each in given for call in ast.walk(each) if _is_join(call)]
    function = source.function(node)
    nodes = list(ast.walk(function)) if function is not None else []
    for name in [each.id for each in given if isinstance(each, ast.Name)]:
        made = [
            each.value
            for each in nodes
            if isinstance(each, ast.Assign) and each.lineno < node.lineno
            if any(isinstance(target, ast.Name) and target.id == name for target in each.targets)
        ]
        found += [each for each in made[-1:] if _is_join(each)]
    return found


def _along(source: Source, call: ast.Call, index: int) -> Edit | None:
    """Return the edit by which values are joined along another dimension; None where it is not said by a number."""
    said = [*call.args[1:], *(each.value for each in call.keywords if each.arg in {"dim", "axis"})]
    if not said:
        span = span_of(call.args[0])
        end = Span(span.end_line, span.end_column, span.end_line, span.end_column)
        return Edit(Location(source.path, end), f", dim={index}")
    (dim, *_) = said
    number = dim.operand if isinstance(dim, ast.UnaryOp) else dim
    is_other = isinstance(number, ast.Constant) and source.written(dim) != str(index)
    return Edit(Location(source.path, span_of(dim)), str(index)) if is_other else None


def transposing(source: Source, node: ast.expr, problem: Problem) -> Iterator[Proposal]:
    """Yield a product of matrices with one of them transposed."""
    factors, shapes = _factors(node), _shapes(problem)
    if factors is None or not shapes:
        return
    one, other = shapes[0], shapes[min(len(shapes), 2) - 1]
    if len(one) < 2 or len(other) < 2:
        return
    first, second = factors
    if one[-1] == other[-1]:
        yield Proposal("Transpose the second factor", (source.followed(second, _LAST_TWO),))
    if one[-2] == other[-2]:
        yield Proposal("Transpose the first factor", (source.followed(first, _LAST_TWO),))


def resizing(source: Source, node: ast.expr, problem: Problem) -> Iterator[Proposal]:
    """Yield the constructor of a layer with the size that meets its own: as a number, or as the other layer says it.

    First comes the layer that takes what does not fit, then those that make it.
    """
    del node
    misfit = problem.misfit
    if misfit is None or len(misfit.sizes) != 2 or any(len(shape) < 2 for shape in misfit.shapes[:1]):
        return
    first, second = misfit.sizes
    for size, other in ((second, first), (first, second)):
        if size.built is None or size.built.path != source.path or size.flattened:
            continue
        line, comes_in = size.built.span.line, misfit.at_layer and size is second
        why = ", which is what comes in" if comes_in else f" in line {line}, to fit what it meets"
        for call in _layers_at(source, size.built.span):
            for given in _said(call, size.argument):
                is_number = _number(given) == size.value
                text = str(other.value) if is_number else _said_beside(source, call, other)
                if text not in {"", source.written(given)}:
                    edit = Edit(Location(source.path, span_of(given)), text)
                    yield Proposal(f"Make `{size.argument}` {text if is_number else f'`{text}`'}{why}", (edit,))


def reshaping(source: Source, node: ast.expr, problem: Problem) -> Iterator[Proposal]:
    """Yield a flattening in place of a view into rows of another length, with the layer that takes such rows."""
    shapes = _shapes(problem)
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr="view" | "reshape"), args=[_, length], keywords=[]):
            wanted, found = _number(length), math.prod(shapes[0][1:]) if shapes else 0
            layers = _layers_of(source, node, wanted) if wanted is not None and wanted > 0 else []
            if len(layers) == 1 and found not in {0, wanted}:
                flat = Edit(Location(source.path, span_of(node)), f"{source.operand(value)}.flatten(1)")
                edits = (Edit(Location(source.path, span_of(layers[0])), str(found)), flat)
                yield Proposal(f"Flatten all but the batch, and make `in_features` {found}", edits)
        case _:
            pass


def _layers_of(source: Source, node: ast.expr, size: int) -> list[ast.expr]:
    """Return where the linear layers that are built in the class around a node say that they take so many."""
    around = next((each for each in source.above(node) if isinstance(each, ast.ClassDef)), None)
    calls = [each for each in ast.walk(around) if isinstance(each, ast.Call)] if around is not None else []
    linear = [each for each in calls if dotted(each.func).endswith("Linear")]
    return [said for each in linear for said in _said(each, "in_features") if _number(said) == size]


def _layers_at(source: Source, span: Span) -> list[ast.Call]:
    """Return the call that stands at a span, else those on its line: none of them puts layers together."""
    calls = [each for each in source.calls_on(span.line) if dotted(each.func).rpartition(".")[2] not in _CONTAINERS]
    return [each for each in calls if span_of(each) == span] or calls


def _said(call: ast.Call, name: str) -> list[ast.expr]:
    """Return the argument by which a layer is told a size."""
    place = int(name in _SECOND)
    return [*call.args[place : place + 1], *(each.value for each in call.keywords if each.arg == name)][:1]


def _said_beside(source: Source, call: ast.Call, other: Size) -> str:
    """Return how another layer that the same constructor makes is told its size; "" if that is not known."""
    built = other.built
    if built is None or built.path != source.path or not other.argument or other.flattened:
        return ""
    beside = [each for each in _layers_at(source, built.span) if source.function(each) is source.function(call)]
    said = [given for each in beside for given in _said(each, other.argument)]
    return source.written(said[0]) if len(said) == 1 else ""


def _shapes(problem: Problem) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of what meets in a problem."""
    return () if problem.misfit is None else problem.misfit.shapes


def _factors(node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """Return the two factors of a product of matrices, None for anything else."""
    match node:
        case ast.BinOp(left=left, op=ast.MatMult(), right=right):
            return left, right
        case ast.Call(func=ast.Attribute(attr=name), args=[left, right], keywords=[]) if name in _PRODUCTS:
            return left, right
        case ast.Call(func=ast.Attribute(value=left, attr=name), args=[right], keywords=[]) if name in _PRODUCTS:
            return left, right
        case _:
            return None


def _number(node: ast.expr) -> int | None:
    """Return the whole number that an expression of numbers is: `16 * 5 * 5`; None for anything else."""
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _OPERATIONS:
            one, other = _number(left), _number(right)
            if one is None or other is None or (other == 0 and isinstance(operation, ast.FloorDiv)):
                return None
            return _OPERATIONS[type(operation)](one, other)
        case _:
            return None

"""Shapes that do not fit: a value that lies otherwise in memory is copied, one that is to be in rows is flattened."""

import ast
from collections.abc import Iterator
from typing import Final

from fxls.discovery.syntax import span_of
from fxls.fixes.source import Proposal, Source
from fxworker.wire import Edit, Location, Misfit, Problem, Span

_OF_LAYOUT: Final = "view size is not compatible"
_VIEW: Final = "view"
_COPYING: Final = ("reshape", "contiguous().view")


def layout(source: Source, node: ast.expr, problem: Problem) -> Iterator[Proposal]:
    """Yield the calls that do what a view would, of values that lie in memory in whatever order."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name) as function) if name == _VIEW and _OF_LAYOUT in problem.original:
            whole = span_of(function)
            at = Span(whole.end_line, whole.end_column - len(_VIEW), whole.end_line, whole.end_column)
            for text in _COPYING:
                yield Proposal(f"Write `.{text}(…)`, which copies", (Edit(Location(source.path, at), text),))
        case _:
            pass


def flattening(source: Source, node: ast.expr, problem: Problem) -> Iterator[Proposal]:
    """Yield the call of a layer with what it is given flattened, where it takes as many as there are then."""
    match node:
        case ast.Call(args=[value], keywords=[]) if _is_of_rows(problem.misfit):
            yield Proposal("Flatten what comes in, all but the batch", (source.followed(value, ".flatten(1)"),))
        case _:
            pass


def _is_of_rows(misfit: Misfit | None) -> bool:
    """Return whether a layer takes as many as there are when what comes in is flattened."""
    return misfit is not None and misfit.at_layer and misfit.sizes[1].flattened

"""Which changes are worth trying for a problem, the best first."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from fxls.fixes import expressions, kinds, misfits, shapes, silent, slips
from fxls.fixes.leaves import extraction
from fxls.fixes.registering import registered
from fxls.fixes.source import Proposal, Source
from fxworker.wire import Problem

_Proposer: TypeAlias = Callable[..., Iterator[Proposal]]

_PROPOSERS: Final[Mapping[str, _Proposer]] = {
    "FX001": expressions.truth,
    "FX002": expressions.length,
    "FX003": expressions.iteration,
    "FX004": expressions.number,
    "FX005": expressions.item,
    "FX006": expressions.call,
}
_SILENT: Final[Mapping[str, _Proposer]] = {
    "FX301": silent.mode,
    "FX302": silent.constructor,
    "FX303": silent.draw,
    "FX304": silent.wrapped,
    "FX305": silent.unused,
    "FX306": silent.question,
    "FX307": silent.change,
    "FX309": silent.swallowed,
}
_OF_SHAPES: Final[tuple[_Proposer, ...]] = (
    shapes.layout,
    shapes.flattening,
    misfits.moving,
    misfits.transposing,
    misfits.resizing,
    misfits.reshaping,
    kinds.choosing,
    kinds.calling,
    kinds.going_through,
)
_OF_SLIPS: Final[tuple[_Proposer, ...]] = (slips.initializing, slips.naming, slips.receiving, slips.containing)
UNREGISTERED: Final = "FX007"
"""The code of modules and parameters that the model does not see."""
UNFIT: Final = "FX201"
"""The code of shapes that do not fit."""
UNBUILT: Final = "FX102"
"""The code of models that cannot be built."""
RAISED: Final = "FX009"
"""The code of what code raises that is traced."""
CODES: Final = frozenset({*_PROPOSERS, *_SILENT, UNREGISTERED, UNFIT, UNBUILT, RAISED})
"""The codes that something is proposed for."""


def proposals(source: Source, problem: Problem) -> Iterator[Proposal]:
    """Yield changes that may mend a problem of the text, best first."""
    if problem.location.path != source.path:
        return
    node = source.expression(problem.location.span)
    if problem.code in _SILENT:
        yield from _SILENT[problem.code](source, problem)
    elif problem.code in {UNBUILT, RAISED}:
        for way in _OF_SLIPS:
            yield from way(source, problem)
        if node is not None:
            yield from kinds.calling(source, node, problem)
    elif node is not None and problem.code == UNREGISTERED:
        yield from registered(source, node, problem)
    elif node is not None and problem.code == UNFIT:
        for way in _OF_SHAPES:
            yield from way(source, node, problem)
    elif node is not None and problem.code in _PROPOSERS:
        yield from _PROPOSERS[problem.code](source, node, problem)
        # Whatever stops a trace may be done in a function that is not looked into.
        yield from extraction(source, node)

"""Which changes are worth trying for a problem, the best first."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from fxls.fixes import expressions, kinds, misfits, shapes, silent, slips
from fxls.fixes.leaves import extraction
from fxls.fixes.registering import registered
from fxls.fixes.source import Proposal, Source
from fxls.rules import UNFIT
from fxworker.wire import Problem

_Proposer: TypeAlias = Callable[..., Iterator[Proposal]]

UNREGISTERED: Final = "FX007"
"""The code of modules and parameters that the model does not see."""
UNBUILT: Final = "FX102"
"""The code of models that cannot be built."""
RAISED: Final = "FX009"
"""The code of what code raises that is traced."""

UNSUPPORTED: Final = "FX008"
"""The code of what a graph cannot hold, as a class that is called for a module."""

LOST: Final = "FX311"
"""The code of results that are lost."""

_OF_PROBLEMS: Final[Mapping[str, tuple[_Proposer, ...]]] = {
    **dict.fromkeys((RAISED, UNBUILT), (slips.initializing, slips.naming, slips.receiving, slips.containing)),
    "FX301": (silent.mode,),
    "FX302": (silent.constructor,),
    "FX303": (silent.draw,),
    "FX304": (silent.wrapped,),
    "FX305": (silent.unused,),
    "FX306": (silent.question,),
    "FX307": (silent.change,),
    "FX309": (silent.swallowed,),
}
"""What is proposed wherever a problem stands."""

_STOPPING: Final[Mapping[str, _Proposer]] = {
    "FX001": expressions.truth,
    "FX002": expressions.length,
    "FX003": expressions.iteration,
    "FX004": expressions.number,
    "FX005": expressions.item,
    "FX006": expressions.call,
}
"""What is proposed for an expression that stops a trace, and that a function may keep which is not looked into."""

_OF_EXPRESSIONS: Final[Mapping[str, tuple[_Proposer, ...]]] = {
    **{code: (kinds.making, way) for code, way in _STOPPING.items()},
    UNREGISTERED: (registered,),
    UNSUPPORTED: (kinds.making, expressions.argument),
    **dict.fromkeys((RAISED, UNBUILT), (kinds.calling, kinds.making, kinds.going_through)),
    LOST: (kinds.keeping,),
    UNFIT: (
        shapes.layout,
        shapes.flattening,
        misfits.moving,
        misfits.rejoining,
        misfits.transposing,
        misfits.resizing,
        misfits.reshaping,
        kinds.choosing,
        kinds.calling,
        kinds.going_through,
    ),
}
"""What is proposed for a problem of an expression."""

CODES: Final = frozenset({*_OF_PROBLEMS, *_OF_EXPRESSIONS})
"""The codes that something is proposed for."""


def proposals(source: Source, problem: Problem) -> Iterator[Proposal]:
    """Yield changes that may mend a problem of the text, best first."""
    if problem.location.path != source.path:
        return
    for way in _OF_PROBLEMS.get(problem.code, ()):
        yield from way(source, problem)
    node = source.expression(problem.location.span)
    if node is None:
        return
    for way in _OF_EXPRESSIONS.get(problem.code, ()):
        yield from way(source, node, problem)
    if problem.code in _STOPPING:
        yield from extraction(source, node)

"""Which changes are worth trying for a problem, the best first."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from fxls.fixes import expressions
from fxls.fixes.leaves import extraction
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
CODES: Final = frozenset(_PROPOSERS)
"""The codes that something is proposed for. All of them are of what a function that is not looked into may do."""


def proposals(source: Source, problem: Problem) -> Iterator[Proposal]:
    """Yield changes that may mend a problem of the text, best first."""
    node = source.expression(problem.location.span) if problem.location.path == source.path else None
    if node is not None and problem.code in CODES:
        yield from _PROPOSERS[problem.code](source, node, problem)
        yield from extraction(source, node)

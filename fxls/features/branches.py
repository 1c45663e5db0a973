"""Code that the graph has nothing of, because a condition led the trace another way.

A report names the code that nodes come from, and not the lines that ran. So a branch counts as left out only where no
node comes from it although nodes come from what runs instead, or from around it.
"""

from collections.abc import Iterable
from typing import Final

from fxls.discovery.index import Branch
from fxls.features import markdown as md
from fxls.features.places import Site, contains
from fxls.features.wording import shortened
from fxls.snapshot import Snapshot
from fxworker.wire import Span

_LONGEST_CONDITION: Final = 120


def left_out(snapshot: Snapshot, point: tuple[int, int], sites: Iterable[Site]) -> tuple[str, Span] | None:
    """Return why nothing in the graph comes from the branch around a point, and that branch; None where none is."""
    around = [each for each in snapshot.index.branches if any(contains(arm, point) for arm in _arms(each))]
    if not around:
        return None
    known = [site.innermost for site in sites]
    # Outer branches come first: one that is left out decides for those inside it.
    for branch in around:
        arm = next(each for each in _arms(branch) if contains(each, point))
        if any(_within(span, arm) for span in known):
            continue
        other = branch.body if arm is branch.otherwise else branch.otherwise
        instead = other is not None and any(_within(span, other) for span in known)
        if instead or any(_within(span, branch.block) for span in known):
            return _text(snapshot, branch, instead=instead), arm
    return None


def _arms(branch: Branch) -> list[Span]:
    return [branch.body] if branch.otherwise is None else [branch.body, branch.otherwise]


def _within(span: Span, outer: Span) -> bool:
    return (outer.line, outer.column) <= (span.line, span.column) and (span.end_line, span.end_column) <= (
        outer.end_line,
        outer.end_column,
    )


def _text(snapshot: Snapshot, branch: Branch, *, instead: bool) -> str:
    """Return what decided, what it is if that is known, and where the graph goes."""
    test = branch.test
    condition = md.code(_written(snapshot, test))
    line = md.link(f"line {test.line}", f"{snapshot.uri}#L{test.line}")
    ahead = "the graph takes the other branch" if instead else "no node of the graph comes from this branch"
    return f"{ahead}: {condition} ({line}) {_decided(snapshot, test)}"


def _decided(snapshot: Snapshot, test: Span) -> str:
    """Return how a condition was decided: by the inputs in use, against a symbolic value, or while tracing."""
    targets = snapshot.report.targets if snapshot.report is not None else ()
    asked = [
        (here, problem)
        for target in targets
        for problem in target.problems
        if problem.code == "FX001" and (here := snapshot.here(problem.location)) is not None and _within(here, test)
    ]
    for here, problem in asked:
        if problem.value:
            what = "is" if here == test else f"asks {md.code(_written(snapshot, here))}, which is"
            return f"{what} {md.code(problem.value)} for the inputs in use"
    if asked:
        return "cannot be asked of a symbolic value, so the likely answer was followed"
    for target in targets:
        for guard in target.guards:
            here = snapshot.here(guard.location) if guard.location is not None else None
            if here is not None and _within(here, test):
                return (
                    f"was decided by the inputs in use, for which {md.code(guard.expression)} is {md.code(guard.value)}"
                )
    return "was decided while tracing, once and for all"


def _written(snapshot: Snapshot, span: Span) -> str:
    return shortened(" ".join(snapshot.mapper.source(span).split()), _LONGEST_CONDITION)

"""Trying fixes out: the changed text is traced. One holds if its problem is gone and no other came; others may stay.

What only shows now that the trace comes to its end was there before.

One that holds is then compared with the text in numbers, where that can be done, and does not hold if they differ.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from fxls.discovery.index import ModelIndex
from fxls.fixes.comparing import Comparison, Sampler, Verdict
from fxls.fixes.proposing import CODES, LOST, RAISED, UNBUILT, UNREGISTERED, UNSUPPORTED, proposals
from fxls.fixes.source import Proposal, Source
from fxls.rules import UNFIT, stops_torch_fx
from fxls.text.edits import Carry, Change
from fxls.text.mapper import Mapper
from fxworker.wire import Fix, Problem, Span, Status, TargetReport, TraceReport

_log = logging.getLogger(__name__)

_MOST_TRIALS: Final = 12
"""How many changes of one text are tried."""

_MOST_FIXES: Final = 2
"""How many fixes of one problem are wanted."""

_SILENT: Final = "FX3"
"""What codes begin with of what goes wrong without stopping a trace."""

_OF_INPUTS: Final = "FX2"
"""What codes begin with of what a model says of its inputs."""

_WITHOUT_NUMBERS: Final = {
    UNFIT: "traced once more: it fits",
    LOST: "traced once more: nothing is lost",
    UNSUPPORTED: "traced once more: a graph holds it",
    UNBUILT: "traced once more: it is built",
    RAISED: "traced once more: it does not raise",
}
"""What is proven of fixes for models that gave no numbers to compare with."""

_RANKS: Final[dict[Status, int]] = {"not traced": 0, "partial": 1, "complete": 2}

Trial: TypeAlias = Callable[[str], Awaitable[tuple[ModelIndex, TraceReport]]]
"""Traces a changed text."""


def is_worthwhile(report: TraceReport) -> bool:
    """Whether a report has problems that something could be proposed for."""
    return any(each.code in CODES for each in _sites(report))


async def with_fixes(report: TraceReport, text: str, trial: Trial, sampler: Sampler | None = None) -> TraceReport:
    """Return a report whose problems have the fixes that hold. Takes one trace for each change that is tried.

    With a sampler those that hold are compared in numbers: it runs the models of each once, and those of the text.
    What is looked for in the text is looked for in another thread: the caller's has to answer a person.
    """
    source = await asyncio.to_thread(Source.of, report.path, text)
    if source is None:
        return report
    comparison = Comparison(source, report, sampler) if sampler is not None else None
    waiting = {_key(each): (each, proposals(source, each)) for each in _sites(report)}
    found: dict[tuple[str, Span], list[Fix]] = {}
    left = _MOST_TRIALS
    while waiting and left > 0:
        # Each problem has its turn before one has a second one.
        for key, (problem, ways) in list(waiting.items()):
            proposal = await asyncio.to_thread(next, ways, None)
            if proposal is None or left == 0 or len(found.get(key, ())) == _MOST_FIXES:
                del waiting[key]
                continue
            left -= 1
            fix = await _tried(report, problem, proposal, source, trial, comparison)
            if fix is not None:
                found.setdefault(key, []).append(fix)
    return replace(report, targets=tuple(_fixed(each, found) for each in report.targets))


def changed(mapper: Mapper, proposal: Proposal) -> tuple[str, Carry]:
    """Return a text with a proposal's edits, and the way of its places there."""
    edits = sorted(proposal.edits, key=lambda each: (each.location.span.line, each.location.span.column), reverse=True)
    text, carry = mapper.text, Carry.identity()
    for edit in edits:
        span = edit.location.span
        start, end = mapper.offset(span.line, span.column), mapper.offset(span.end_line, span.end_column)
        written = mapper.fitting(edit.text)
        text = text[:start] + written + text[end:]
        carry = carry.then([Change(span, written)])
    return text, carry


async def _tried(
    report: TraceReport,
    problem: Problem,
    proposal: Proposal,
    source: Source,
    trial: Trial,
    comparison: Comparison | None,
) -> Fix | None:
    """Return the fix that a proposal is, None where it does not hold."""
    text, carry = changed(source.mapper, proposal)
    index, after = await trial(text)
    if stops_torch_fx(problem.code) or problem.code == UNBUILT:
        after = _without_revealed(after, text, frozenset(source.mapper.text.splitlines()), problem)
    if not _holds(report, problem, proposal, index, after, carry):
        return None
    if problem.code == UNREGISTERED:  # What the model sees anew is given other weights.
        return Fix(proposal.title, proposal.edits, verified=True, proof="traces; numbers are not compared: new weights")
    if problem.code in _WITHOUT_NUMBERS:
        return Fix(proposal.title, proposal.edits, verified=True, proof=_WITHOUT_NUMBERS[problem.code])
    verdict = await comparison.verdict(problem, text) if comparison is not None else Verdict(True, "")
    if not verdict.holds:
        _log.info("a proposed fix changes what the model does: %s: %s", proposal.title, verdict.proof)
        return None
    return Fix(proposal.title, proposal.edits, verified=True, proof=verdict.proof)


def _without_revealed(after: TraceReport, text: str, kept: Collection[str], mended: Problem) -> TraceReport:
    """Return a report without what is wrong behind a problem, on lines that a change has left as they were.

    That is looked for where nothing stops a trace any more: mending what does so reveals it, and does not bring it.
    """
    lines = text.splitlines()

    def is_revealed(problem: Problem) -> bool:
        line = problem.location.span.line
        is_old = problem.location.path != after.path or (0 < line <= len(lines) and lines[line - 1] in kept)
        return is_old and _may_hide(mended, problem)

    targets = tuple(
        replace(each, problems=tuple(one for one in each.problems if not is_revealed(one))) for each in after.targets
    )
    return replace(after, targets=targets)


def _may_hide(mended: Problem, problem: Problem) -> bool:
    """Whether one problem may have kept another from being seen: what is built is traced, what is traced looked at."""
    if problem.code.startswith(_SILENT):
        return True
    if mended.code == RAISED:
        return problem.code.startswith(_OF_INPUTS)
    is_same = (problem.code, problem.target, problem.original) == (mended.code, mended.target, mended.original)
    return mended.code == UNBUILT and not is_same


def _holds(
    report: TraceReport, problem: Problem, proposal: Proposal, index: ModelIndex, after: TraceReport, carry: Carry
) -> bool:
    """Whether a change mends a problem and brings no other."""
    if not index.parsed:
        _log.warning("a proposed fix does not parse: %s", proposal.title)
        return False
    before = {each.qualname: each for each in report.targets}
    if any(_RANKS[each.status] < _rank(before.get(each.qualname)) for each in after.targets):
        return False
    old = {
        (each.code, carry.span(each.location.span)) for each in _problems(report) if each.location.path == report.path
    }
    old.discard((problem.code, carry.span(problem.location.span)))
    elsewhere = {(each.code, each.location) for each in _problems(report)}
    return all(
        (each.code, each.location.span) in old
        if each.location.path == after.path
        else (each.code, each.location) in elsewhere
        for each in _problems(after)
    )


def _rank(report: TargetReport | None) -> int:
    return 0 if report is None else _RANKS[report.status]


def _problems(report: TraceReport) -> list[Problem]:
    return [*report.problems, *(problem for target in report.targets for problem in target.problems)]


def _sites(report: TraceReport) -> Sequence[Problem]:
    """Return the problems of a report's own text, each site once."""
    found: dict[tuple[str, Span], Problem] = {}
    for target in report.targets:
        for problem in target.problems:
            if problem.location.path == report.path:
                found.setdefault(_key(problem), problem)
    return tuple(found.values())


def _key(problem: Problem) -> tuple[str, Span]:
    return problem.code, problem.location.span


def _fixed(target: TargetReport, fixes: dict[tuple[str, Span], list[Fix]]) -> TargetReport:
    return replace(
        target,
        problems=tuple(replace(each, fixes=(*fixes.get(_key(each), ()), *each.fixes)) for each in target.problems),
    )

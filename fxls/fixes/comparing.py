"""Comparing a model before and after a change in numbers: both are run on the same inputs, with the same parameters.

The inputs are those in use and variants of them, which lead a model through its branches in more than one way. What was
found out becomes the proof that is shown with a fix; a change after which a model gives something else is no fix.
"""

import ast
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from fxls.fixes.source import Source
from fxworker.wire import MET, Digest, Problem, Sample, Span, TargetReport, TraceReport, TraceTarget

_MOST_PARAMETERS: Final = 30_000_000
_MOST_FLOPS: Final = 3_000_000_000
_MOST_TARGETS: Final = 2
"""How many of the models that a change is about are run."""

_TRAINING: Final = "training"
_AGAIN: Final = "another seed"
_GIVEN: Final = "given"
_HALF: Final = ("torch.float16", "torch.bfloat16")
_LONGEST_COMPLAINT: Final = 80

Sampler: TypeAlias = Callable[[str, tuple[TraceTarget, ...]], Awaitable[TraceReport]]
"""Runs models of a text on variants of their inputs."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a comparison says: whether the change may be offered, and what it proves, in words."""

    holds: bool
    proof: str


class Comparison:
    """Compares changes of one text with it. Mutable: what the text itself gives is found out once for each model."""

    def __init__(self, source: Source, report: TraceReport, sampler: Sampler) -> None:
        """Prepare to compare changes of the text that a report is of."""
        self._source = source
        self._report = report
        self._sampler = sampler
        self._before: dict[str, tuple[Sample, ...]] = {}
        self._sites = list(_conditions(source, report))

    async def verdict(self, problem: Problem, text: str) -> Verdict:
        """Return what a changed text does to the models that a problem was met in."""
        met_in = [each for each in self._report.targets if any(_same_site(problem, its) for its in each.problems)]
        fed = [each for each in met_in if each.inputs is not None]
        if not fed:
            return Verdict(True, "traces; numbers are not compared: no inputs are known")
        small = [each for each in fed if _is_small(each)][:_MOST_TARGETS]
        if not small:
            return Verdict(True, "traces; numbers are not compared: the model is too large for that")
        targets = tuple(map(_target, small))
        unknown = tuple(each for each in targets if each.qualname not in self._before)
        if unknown:
            self._before |= _samples(await self._sampler(self._instrumented(), unknown))
        after = _samples(await self._sampler(text, targets))
        verdicts = [self._compared(problem, each.qualname, after) for each in targets]
        return next((each for each in verdicts if not each.holds), verdicts[0])

    def _compared(self, problem: Problem, name: str, after: Mapping[str, Sequence[Sample]]) -> Verdict:
        site = next((number for number, span in enumerate(self._sites) if span == problem.location.span), None)
        return compared(self._before.get(name, ()), after.get(name, ()), site)

    def _instrumented(self) -> str:
        """Return the text with its conditions handed to `MET`, so that their outcomes are known."""
        mapper = self._source.mapper
        inserted: list[tuple[int, int, str]] = []
        for number, span in enumerate(self._sites):
            start, end = mapper.offset(span.line, span.column), mapper.offset(span.end_line, span.end_column)
            # Of those that begin or end together the longer one is outside.
            inserted += [(start, start - end, f"{MET}({number}, "), (end, -start, ")")]
        text = mapper.text
        for offset, _, piece in sorted(inserted, reverse=True):
            text = text[:offset] + piece + text[offset:]
        return text


def compared(before: Sequence[Sample], after: Sequence[Sample], site: int | None = None) -> Verdict:
    """Return what two series of samples say; `site` is the number of the condition that the change is about."""
    others = {each.variant: each for each in after}
    ran = [each for each in before if not each.error and each.variant in others]
    pairs = [(each, others[each.variant]) for each in ran if each.variant != _AGAIN]
    if not pairs:
        return Verdict(True, f"traces; numbers are not compared: {_why_not(before)}")
    broken = next((other.error for _, other in pairs if other.error), "")
    if broken:
        return Verdict(False, f"the changed model raises {broken}")
    if not all(_equal(one.outputs, other.outputs) for one, other in pairs):
        if _is_random(before):
            return Verdict(True, "traces; numbers are not compared: they are random")
        return Verdict(False, "the changed model gives other outputs")
    evaluated = sum(one.variant != _TRAINING for one, _ in pairs)
    inputs = f"on {evaluated} input{'s' if evaluated != 1 else ''}" if evaluated else "in training"
    facts = [f"same outputs {inputs}"]
    facts += _outcomes(site, [one for one, _ in pairs])
    changed = dict.fromkeys(name for one, other in pairs for name in _changed(one.left, other.left))
    if changed:
        facts.append(f"but {' and '.join(changed)} is left with other values")
    return Verdict(True, f"traces; {', '.join(facts)}")


def _conditions(source: Source, report: TraceReport) -> Iterator[Span]:
    """Yield the places of the conditions in a text that symbolic values were asked for."""
    problems = (problem for target in report.targets for problem in target.problems)
    spans = {each.location.span for each in problems if each.code == "FX001" and each.location.path == source.path}
    for span in sorted(spans, key=lambda each: (each.line, each.column)):
        node = source.expression(span)
        around = source.parent(node) if node is not None else None
        if isinstance(around, ast.If | ast.IfExp | ast.Assert | ast.While | ast.BoolOp | ast.UnaryOp):
            yield span


def _outcomes(site: int | None, samples: Iterable[Sample]) -> Iterator[str]:
    """Yield how a condition came out in the samples."""
    met = {each.partition(" ")[2] for sample in samples for each in sample.met if each.startswith(f"{site} ")}
    if len(met) == 2:
        yield "both outcomes met"
    elif met:
        yield f"only {met.pop()} met"


def _samples(report: TraceReport) -> dict[str, tuple[Sample, ...]]:
    return {each.qualname: each.samples for each in report.targets}


def _is_small(target: TargetReport) -> bool:
    facts = target.facts
    return facts is None or (facts.parameters <= _MOST_PARAMETERS and (facts.flops or 0) <= _MOST_FLOPS)


def _target(report: TargetReport) -> TraceTarget:
    """Return a target that is built and fed in the one way that worked."""
    ways = () if report.construct is None else (report.construct,)
    inputs = () if report.inputs is None else (report.inputs,)
    return TraceTarget(report.qualname, report.kind, report.name, ways, inputs)


def _same_site(one: Problem, other: Problem) -> bool:
    return (one.code, one.location) == (other.code, other.location)


def _why_not(before: Sequence[Sample]) -> str:
    """Return why a model gave nothing to compare with."""
    error = next((each.error for each in before if each.error), "")
    shown = error if len(error) <= _LONGEST_COMPLAINT else error[:_LONGEST_COMPLAINT].rstrip() + "…"
    return f"the model itself raises {shown}" if error else "the model could not be run in time"


def _is_random(before: Sequence[Sample]) -> bool:
    """Whether a model gives something else when it is called once more."""
    by_variant = {each.variant: each for each in before}
    given, again = by_variant.get(_GIVEN), by_variant.get(_AGAIN)
    return given is not None and again is not None and not _equal(given.outputs, again.outputs)


def _equal(one: Sequence[Digest], other: Sequence[Digest]) -> bool:
    return len(one) == len(other) and all(
        mine.name == theirs.name and _agree(mine, theirs) for mine, theirs in zip(one, other, strict=True)
    )


def _changed(one: Sequence[Digest], other: Sequence[Digest]) -> Iterator[str]:
    """Yield the names of what both have and that does not agree."""
    values = {each.name: each for each in other}
    for each in one:
        if each.name in values and not _agree(each, values[each.name]):
            yield f"`{each.name.removeprefix('buffer ')}`" if each.name.startswith("buffer ") else "an argument"


def _agree(one: Digest, other: Digest) -> bool:
    """Whether two values are equal but for rounding."""
    if one.form != other.form or len(one.numbers) != len(other.numbers):
        return False
    if not one.numbers:
        return True
    tolerance = 2e-2 if one.form.startswith(_HALF) else 1e-4
    size = one.numbers[2] if len(one.numbers) > 2 else 0.0
    return all(
        math.isclose(mine, theirs, rel_tol=tolerance, abs_tol=tolerance * size)
        for mine, theirs in zip(one.numbers, other.numbers, strict=True)
    )

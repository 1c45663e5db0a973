"""The targets of one request: each is built, traced and fed, and what is known of it is reported.

What is found for one is remembered for the next trace. What is told of a traced model is made elsewhere (`findings`).
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeAlias

from torch import nn

from fxengine.codegen import node_lines
from fxengine.exploration import Diagnosis, diagnose_in_steps
from fxengine.inputs import infer_inputs
from fxengine.shapes_only import needs_data
from fxworker import sandbox
from fxworker.building import EXPLICIT, Built, Unbuilt, build, class_of, here, in_wholes, with_values
from fxworker.capturing import captured_with
from fxworker.compiling import eagerly
from fxworker.containment import outermost_first, parts_of
from fxworker.dependence import Dependence
from fxworker.distinct import with_distinct_sizes
from fxworker.feeding import Fed, Feeder
from fxworker.finder import Finder, Sources, Unknown
from fxworker.findings import Findings
from fxworker.former import Former, former
from fxworker.heirs import shown_by_heir
from fxworker.inner import mentions_of
from fxworker.loading import Hint, Loaded
from fxworker.lost import told_once
from fxworker.own_values import has_own_values
from fxworker.patience import patience
from fxworker.prepared import Prepared
from fxworker.readying import made_ready, ready_as_before
from fxworker.reporting import Reporter
from fxworker.subjects import Subject
from fxworker.sums import Clock, overall, total
from fxworker.texts import digest
from fxworker.wholes import wholes_in
from fxworker.wire import (
    Construct,
    Enclosed,
    Known,
    Problem,
    TargetReport,
    Timings,
    TraceReport,
    TraceRequest,
    TraceTarget,
    Whole,
)

OnTarget: TypeAlias = Callable[[int, str | None], None]
"""Is told the index of the target whose turn it is, and, if what follows is only a guess about it, the arguments that
were inferred before and build it, "" for none."""

_MOST_VALUES: Final = 1 << 25
"""The most parameters of a model that is built with values where its trace asks for some."""

_APART: Final = 3.0
_APART_EACH: Final = 1.0
"""Seconds for telling apart the sizes that were made up: of all models of a request, and of one."""

_FITTING: Final = 4.0
_FITTING_EACH: Final = 1.5
"""Seconds for finding arguments such that there are inputs: of all models of a request, and of one."""


@dataclass(frozen=True, slots=True)
class _Enclosed:
    """Where in a traced model the instances of a class are."""

    by: str
    module_path: str


@dataclass(frozen=True, slots=True)
class Traced:
    """A model that was traced, and what its description is made of.

    Attributes:
        silent: Yields the diagnosis once more, with what the trace gets wrong without stopping.
        feed: Makes what feeds the model.
        report: What is known of it so far: no nodes, no code, no shapes.
    """

    target: TraceTarget
    built: Built
    silent: Iterator[Diagnosis]
    feed: Callable[[Diagnosis], Feeder]
    report: TargetReport


@dataclass
class Targets:
    """The targets of one request, one after the other: all are traced, then all are described. Mutable.

    Models that were built with made-up arguments which no inputs fit may be found others for. Then all is done once
    more with these, as it will be at the next request: what such a model contains may have changed too.

    Attributes:
        until: When guessing ends; the next request goes on with it.
        late: The targets for which something would have been guessed after that.
        no_models: Those that looked like models and are none, about which nothing is said.
    """

    request: TraceRequest
    loaded: Loaded
    reporter: Reporter
    hints: Mapping[str, Hint]
    on_target: OnTarget
    problems: tuple[Problem, ...] = ()
    load_ms: float = 0.0
    prepared: Prepared | None = None
    dependence: Dependence | None = None
    enclosed: dict[type, _Enclosed] = field(default_factory=dict[type, _Enclosed])
    reports: dict[str, TargetReport] = field(default_factory=dict[str, TargetReport])
    found: dict[str, Hint] = field(default_factory=dict[str, Hint])
    traces: list[Traced] = field(default_factory=list[Traced])
    fitted: dict[str, Hint] = field(default_factory=dict[str, Hint])
    formers: dict[str, Former] = field(default_factory=dict[str, Former])
    fitting_s: float = 0.0
    apart_s: float = _APART
    until: float = math.inf
    late: set[str] = field(default_factory=set[str])
    no_models: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self.findings = Findings(self.reporter, self.loaded)

    def report(self) -> TraceReport:
        """Return what is known by now."""
        request, reports = self.request, self.reports
        models = (each for each in request.targets if each.qualname not in self.no_models)
        targets = tuple(reports.get(each.qualname) or self.reporter.untraced(each) for each in models)
        return TraceReport(
            request.id,
            request.path,
            digest(request.text),
            overall([each.status for each in targets], self.problems),
            targets,
            self.problems,
            timings=total(self.load_ms, [each.timings for each in targets]),
            denied=sandbox.denied(),
        )

    def left_alone(self) -> tuple[Problem, ...]:
        """Return what is told of traced models for which there was no time to look for inputs."""
        left = [each.target for each in self.traces if each.target.qualname in self.late]
        if not left:
            return ()
        names = ", ".join(f"`{each.qualname}`" for each in left)
        return (self.reporter.out_of_time(left[0], f"{names}: {self._no_time('inputs')}"),)

    def read(self) -> set[str]:
        """Return the files with the models of which those that were traced are parts."""
        return {whole.path for each in self.traces for whole in _wholes_of(each.target, each.built.construct)}

    def _is_over(self) -> bool:
        """Whether the time for guessing has passed."""
        return time.monotonic() > self.until

    def _no_time(self, what: str) -> str:
        seconds = self.request.limits.seconds
        return f"no time was left to look for {what}, as a trace may take {seconds:g} s; the next one goes on with it"

    @here()
    def diagnose_all(self) -> None:
        """Trace every target and report its problems. Those that contain others come first."""
        mentions = {**self.loaded.mentions, **mentions_of(self.request.targets, self.loaded)}
        for target in outermost_first(self.request.targets, mentions):
            self.on_target(self.request.targets.index(target), None)
            self.reports[target.qualname] = self._report(target)

    @here()
    def describe_all(self) -> None:
        """Complete the reports of the targets that were traced."""
        self.fitting_s = _FITTING
        self._describe_all()
        if self.fitted and self._is_over():
            self.found |= self.fitted
        elif self.fitted:
            self.hints, self.fitting_s = {**self.hints, **self.found, **self.fitted}, 0.0
            for kept in (self.enclosed, self.reports, self.found, self.traces, self.formers):
                kept.clear()
            self.diagnose_all()
            self._describe_all()

    def _describe_all(self) -> None:
        for traced in self.traces:
            self.on_target(self.request.targets.index(traced.target), None)
            self.reports[traced.target.qualname] = self.described(traced)

    def traced(self, target: TraceTarget, subject: Subject, build_ms: float) -> Traced:
        """Trace a target that could be built."""
        clock = Clock()
        built = subject.built
        sources = self._sources(target, built)
        finder = Finder(sources, lambda: self.on_target(self.request.targets.index(target), None))
        steps = diagnose_in_steps(
            built.root,
            inputs=finder.find,
            user_paths=(self.reporter.path,),
            foreign=self._hint(target).functions,
            snapshot=subject.snapshot,
            memory=subject.memory,
        )
        diagnosis = next(steps)
        other = self._with_values(target, subject, diagnosis) or self._otherwise(target, subject, diagnosis)
        if other is not None:
            return self.traced(target, other, build_ms)
        if isinstance(built.root, nn.Module):
            self._note_enclosed(target, built.root, diagnosis)
        report = TargetReport(
            target.qualname,
            target.kind,
            target.name,
            "complete" if diagnosis.complete else "partial",
            built.construct,
            facts=subject.facts,
            problems=self.findings.of_trace(target, built, diagnosis, finder.guess),
            guards=self.reporter.guards(diagnosis.guards),
            cut=diagnosis.cut,
            reached_end=diagnosis.reached_end,
            timings=Timings(0.0, build_ms, clock.lap()),
        )
        return Traced(target, built, steps, partial(Feeder, sources, finder), report)

    def _with_values(self, target: TraceTarget, subject: Subject, diagnosis: Diagnosis) -> Subject | None:
        """Return a model with the values of its tensors, where the trace of one without has asked for such."""
        if all(each.exception is None or not needs_data(each.exception) for each in diagnosis.problems):
            return None
        if subject.facts is None or subject.facts.parameters > _MOST_VALUES or not subject.is_without_values:
            return None
        built = with_values(subject.built, target, self.loaded)
        return Subject.of(built) if built is not None else None

    def _otherwise(self, target: TraceTarget, subject: Subject, diagnosis: Diagnosis) -> Subject | None:
        """Return a subclass that has what a class lacks, or the model after a method that sets it; None for none."""
        built = subject.built
        if built.construct is None or built.construct.source in EXPLICIT:
            return None
        errors = [each.exception for each in diagnosis.problems]
        may_guess = partial(self._may_guess, target)
        found = None
        if built.construct.source != "call":
            found = shown_by_heir(target, self.loaded, built.root, errors, may_guess)
        if found is None and not self._is_in_vain(target):
            found = made_ready(target, self.loaded, built, errors, may_guess)
        return Subject.of(found) if found is not None else None

    def _is_in_vain(self, target: TraceTarget) -> bool:
        """Whether inputs were searched for in vain since something changed that a target depends on."""
        hint = self._hint(target)
        return bool(hint.unfed) and hint.unfed == self.loaded.dependence(target.qualname)

    def described(self, traced: Traced) -> TargetReport:
        """Return the whole report of a target that was traced: with its graph, and the shapes if it can be fed."""
        clock = Clock()
        report = traced.report
        diagnosis = next(traced.silent)
        feeder = traced.feed(diagnosis)
        guess = feeder.finder.guess
        graph, problems = diagnosis.graph, self.findings.of_trace(traced.target, traced.built, diagnosis, guess)
        trace_ms = report.timings.trace + clock.lap()
        fed = self._fed(traced.target, traced.built, feeder, diagnosis)
        self._fit(traced, feeder, fed)
        captured = None
        if fed.inputs is not None and not diagnosis.complete:
            captured = captured_with(feeder.sources.root, partial(feeder.sources.arguments, fed.inputs.expression))
            # One of a part only says nothing of the model.
            captured = captured if captured is not None and not captured.problems else None
        shapes_ms = clock.lap()
        complaint = fed.unknown.complaint if fed.unknown is not None else ""
        once = told_once(problems, diagnosis, fed.failures, complaint)
        problems = once or (*problems, *self.findings.of_run(traced.target, traced.built, diagnosis, fed))
        former = self.findings.of_former(traced.target, traced.built, self.formers.get(traced.target.qualname))
        if former is not None and all(each.code != former.code for each in problems):
            problems = (*problems, former)
        code = graph.python_code("self")
        key = self._key(traced, diagnosis)
        return replace(
            report,
            inputs=fed.inputs,
            facts=replace(report.facts, flops=fed.flops) if report.facts is not None else None,
            nodes=self.reporter.nodes(graph, node_lines(code)),
            returned=tuple(self.reporter.returned(diagnosis.handed)),
            code=code.src,
            problems=problems,
            guards=self.findings.guards(report, captured),
            captured=captured is not None,
            cut=diagnosis.cut,
            key=key,
            encloses=self._enclosed_in(traced.built.root, diagnosis) if key else (),
            timings=replace(report.timings, trace=trace_ms, shapes=shapes_ms, report=clock.lap()),
        )

    def _report(self, target: TraceTarget) -> TargetReport:
        if target.qualname.partition(".")[0] in self.loaded.broken:
            return self.reporter.untraced(target)
        inside = self._inside(target)
        if inside is not None:
            status = self.reports[inside.by].status
            return replace(
                self.reporter.untraced(target), status=status, enclosed_by=inside.by, module_path=inside.module_path
            )
        known = self._known(target)
        if known is not None:
            return self._unchanged(target, known)
        clock = Clock()
        ahead = self.prepared.model(target) if self.prepared is not None else None
        subject = self._as_before(target) or ahead or self._built(target)
        self.on_target(self.request.targets.index(target), None)
        if isinstance(subject, Unbuilt):
            if subject.other:
                self.no_models.add(target.qualname)
            return replace(self.reporter.untraced(target, self._unbuilt(target, subject)), construct=subject.construct)
        traced = self.traced(target, subject, clock.lap())
        self.traces.append(traced)
        return traced.report

    def _as_before(self, target: TraceTarget) -> Subject | None:
        """Return a model as it was built and fed before an edit, if it runs so again; else note where it fails."""
        hint = self._hint(target)
        if not hint.former or not self._may_guess(target, Construct(hint.construct, "inferred")):
            return None
        found = former(target, self.loaded, hint)
        self.on_target(self.request.targets.index(target), None)
        if found is None:
            return None
        if found.failure is None:
            return Subject.of(found.built)
        self.formers[target.qualname] = found
        return None

    def _built(self, target: TraceTarget) -> Subject | Unbuilt:
        hint = self._hint(target).construct
        built = build(target, self.loaded, hint, lambda: self._may_search(target))
        if isinstance(built, Unbuilt):
            return built
        is_new = _made_up(built.construct) not in {"", hint}
        may_guess = is_new and self._may_guess(target, built.construct)
        other = self._told_apart(target, built) if may_guess else None
        return Subject.of(other or ready_as_before(target, self.loaded, built, hint) or built)

    def _told_apart(self, target: TraceTarget, built: Built) -> Built | None:
        """Return a model with sizes that are told apart where those that were made up are the same, if it runs so."""
        if self.apart_s <= 0:
            return None
        clock = Clock()
        try:
            with eagerly(), patience(_APART_EACH):
                return with_distinct_sizes(built, target, self.loaded)
        except BaseException:  # noqa: BLE001 — User code runs here; what it raises tells nothing.
            return None
        finally:
            self.apart_s -= clock.lap() / 1000

    def _unbuilt(self, target: TraceTarget, unbuilt: Unbuilt) -> tuple[Problem, ...]:
        """Return what is told of a target that could not be built, and note what need not be tried again."""
        if unbuilt.other or self.findings.is_told(unbuilt.error):
            return ()
        if not unbuilt.missing and self.loaded.guesses(target.qualname):
            # What was assumed need not be what it is meant for, and is told already.
            return ()
        problem = self.reporter.not_built(target, unbuilt)
        if target.qualname in self.late:
            return (replace(problem, explanation=self._no_time("arguments")),)
        if unbuilt.unknown:
            hint = self._hint(target)
            definition = self.loaded.definition(target.qualname)
            if definition in {hint.unbuilt, hint.feared}:
                fixes = self.reporter.construction(target, hint.offered)
                problem = replace(problem, explanation=hint.tried, fixes=fixes)
            offered = unbuilt.tried or hint.offered
            self.found[target.qualname] = replace(hint, tried=problem.explanation, offered=offered, unbuilt=definition)
        return (problem,)

    def _sources(self, target: TraceTarget, built: Built) -> Sources:
        """Return where inputs of a model may come from."""
        hint = self._hint(target)
        search = not self._is_in_vain(target)
        doubtful = tuple(filter(None, hint.doubtful.split(",")))
        is_told = not search and (doubtful or hint.guess or hint.complaint)
        known = Unknown(doubtful, hint.guess, hint.complaint, hint.never) if is_told else None
        made_up = built.construct if built.is_made_up else None
        made_up = None if made_up is not None and has_own_values(made_up, self.loaded) else made_up
        # Inputs that were found for a model with other arguments need not fit this one.
        inputs = built.inputs or (hint.inputs if _made_up(built.construct) == hint.construct else "")
        may_guess = partial(self._may_guess, target, built.construct)
        return Sources(target, built.root, self.loaded, inputs, may_guess, search, known, made_up, built.construct)

    def _fed(self, target: TraceTarget, built: Built, feeder: Feeder, diagnosis: Diagnosis) -> Fed:
        """Feed a traced model, and note what the next trace may begin with."""
        definition = self.loaded.definition(target.qualname)
        fed = feeder.feed()
        if target.qualname in self.late:
            self.found[target.qualname] = self._hint(target)
            return replace(fed, unknown=None)  # That there was no time is told of all such models together.
        construct, inputs = built.construct, fed.inputs
        unknown = fed.unknown or Unknown((), "", "")
        before = _as_outgrown(self._hint(target), construct, fed)
        if fed.outgrown is not None and target.qualname not in self.formers:
            self.formers[target.qualname] = Former(replace(built, inputs=fed.ran_on), fed.outgrown)
        self.found[target.qualname] = Hint(
            _made_up(construct),
            inputs.expression if inputs is not None and inputs.source == "inferred" else fed.ran_on,
            unfed=self.loaded.dependence(target.qualname) if fed.searched else "",
            feared=definition if fed.feared else "",
            doubtful=",".join(unknown.parameters),
            guess=unknown.guess,
            complaint=unknown.complaint,
            never=unknown.never,
            foreign=",".join(":".join(each) for each in diagnosis.foreign),
            former=before.former,
            ran_on=before.ran_on,
        )
        return fed

    def _fit(self, traced: Traced, feeder: Feeder, fed: Fed) -> None:
        """Look for another way to feed a model: as other files do, or with other arguments where they were made up."""
        target = traced.target
        if not fed.wants_other_arguments or any(_wholes_of(target, traced.built.construct)):
            return
        if self.fitting_s <= 0 or self._is_over():
            # There is no time left for it; it is looked at again the next time.
            self.found[target.qualname] = replace(self.found[target.qualname], unfed="")
            return
        clock = Clock()
        way = self._other_way(traced, feeder, fed)
        self.fitting_s -= clock.lap() / 1000
        if way is not None:
            construct, inputs = way
            hint = _with_former(self._hint(target), traced.built)
            self.fitted[target.qualname] = replace(hint, construct=construct, inputs=inputs, unfed="")
        self.on_target(self.request.targets.index(target), None)

    def _other_way(self, traced: Traced, feeder: Feeder, fed: Fed) -> tuple[str, str] | None:
        """Return another way to build a model, with inputs for it: as a part of another file's model, or fitted.

        One that is not made up stays as it is built, and is given what such a part is given.
        """
        target, built = traced.target, traced.built
        part = in_wholes(target, self.loaded) if target.wholes and self._may_guess(target, built.construct) else None
        if part is not None and part.inputs:
            return (_made_up(part.construct) if built.is_made_up else ""), part.inputs
        stopped = fed.in_vain.stopped if fed.in_vain is not None else None
        may_guess = partial(self._may_guess, target, built.construct)
        ready = made_ready(target, self.loaded, built, [stopped.error] if stopped is not None else (), may_guess)
        if ready is not None:
            found = infer_inputs(ready.root, budget_s=self.fitting_s)
            return (_made_up(ready.construct), found.expression) if found.complete else None
        fitted, inputs = feeder.fit(built, fed, min(self.fitting_s, _FITTING_EACH))
        return (fitted.expression, inputs) if fitted is not None else None

    def _may_guess(self, target: TraceTarget, construct: Construct | None = None) -> bool:
        """Say that what follows is a guess; False where one went badly before and the definition is the same.

        Args:
            target: What it is about.
            construct: How that was built, if it was.
        """
        hint = self._hint(target)
        definition = self.loaded.definition(target.qualname)
        if definition and definition == hint.feared:
            return False
        if self._is_over():
            self.late.add(target.qualname)
            return False
        self.on_target(self.request.targets.index(target), _made_up(construct))
        return True

    def _may_search(self, target: TraceTarget) -> bool:
        """Say that arguments are searched for; False where that was in vain and the definition is the same."""
        unbuilt = self._hint(target).unbuilt
        return not (unbuilt and unbuilt == self.loaded.definition(target.qualname)) and self._may_guess(target)

    def _hint(self, target: TraceTarget) -> Hint:
        return self.hints.get(target.qualname, Hint())

    def _inside(self, target: TraceTarget) -> _Enclosed | None:
        """Return where the target's class was traced already, unless the person asked for it by itself."""
        if target.kind != "class" or any(each.source in EXPLICIT for each in target.constructs):
            return None
        found = class_of(target, self.loaded) if self.enclosed else None
        return self.enclosed.get(found) if found is not None else None

    def _note_enclosed(self, target: TraceTarget, root: nn.Module, diagnosis: Diagnosis) -> None:
        """Note the classes whose instances were traced as a part of this model."""
        for cls, path in parts_of(root, diagnosis).items():
            self.enclosed.setdefault(cls, _Enclosed(target.qualname, path))

    def _enclosed_in(self, root: Any, diagnosis: Diagnosis) -> tuple[Enclosed, ...]:
        """Return the targets whose instances were traced as a part of a model."""
        parts = parts_of(root, diagnosis) if isinstance(root, nn.Module) else {}
        classes = ((each, class_of(each, self.loaded)) for each in self.request.targets if each.kind == "class")
        return tuple(Enclosed(each.qualname, parts[found]) for each, found in classes if found in parts)

    def _known(self, target: TraceTarget) -> Known | None:
        """Return the report that whoever asks has of a target, if all that it follows from is as it was."""
        known = next((each for each in self.request.known if each.qualname == target.qualname), None)
        if known is None or self.dependence is None or not self.dependence.is_key(target, known.key):
            return None
        return known

    def _unchanged(self, target: TraceTarget, known: Known) -> TargetReport:
        """Return the report of a target that need not be traced, and note what it says of the others."""
        paths = {each.qualname: each.module_path for each in known.encloses}
        for each in self.request.targets:
            found = class_of(each, self.loaded) if each.qualname in paths else None
            if found is not None:
                self.enclosed.setdefault(found, _Enclosed(target.qualname, paths[each.qualname]))
        if target.qualname in self.hints:
            self.found[target.qualname] = self.hints[target.qualname]
        return replace(
            self.reporter.untraced(target), status=known.status, key=known.key, encloses=known.encloses, unchanged=True
        )

    def _key(self, traced: Traced, diagnosis: Diagnosis) -> str:
        """Return what names all that a report follows from; none for one that time has cut short."""
        dependence, target = self.dependence, traced.target
        if dependence is None or diagnosis.cut or not dependence.covers(target, traced.built.root, diagnosis.graph):
            return ""
        if any(_wholes_of(target, traced.built.construct)):
            return ""
        return dependence.key(target)


def _wholes_of(target: TraceTarget, construct: Construct | None) -> Iterator[Whole]:
    """Return the models of other files of which a target was built as a part."""
    return wholes_in(construct.expression if construct is not None else "", target)


def _with_former(hint: Hint, built: Built) -> Hint:
    """Return a hint with how a model was built, if it has run so before; the first of several such ways counts."""
    construct = built.construct
    if construct is None or not built.is_made_up or hint.former or hint.construct != _made_up(construct):
        return hint
    return replace(hint, former=construct.expression, ran_on=hint.inputs) if hint.inputs else hint


def _as_outgrown(hint: Hint, construct: Construct | None, fed: Fed) -> Hint:
    """Return a hint with how a model ran before, if it does not run so any more, and without if it does so again."""
    expression = construct.expression if construct is not None else ""
    if fed.inputs is not None and (hint.former, hint.ran_on) == (expression, fed.inputs.expression):
        return replace(hint, former="", ran_on="")
    is_new = fed.outgrown is not None and expression and not hint.former
    return replace(hint, former=expression, ran_on=fed.ran_on) if is_new else hint


def _made_up(construct: Construct | None) -> str:
    """Return the expression that was inferred to build a model, "" where somebody wrote it or nothing builds it."""
    return construct.expression if construct is not None and construct.source == "inferred" else ""

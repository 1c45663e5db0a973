"""One request's work: load the file, build its targets, trace them, find their shapes, report.

Whatever the user's code raises is a problem in the report. The process is thrown away after the answer, so nothing that
user code left behind (patches, threads, children) has to be cleaned up here.
"""

import ast
import inspect
import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeAlias

import torch
from torch import nn

from fxengine.capturing import Capture
from fxengine.codegen import node_lines
from fxengine.errors import DynamicBool, DynamicLength, DynamicNumber, kept_in
from fxengine.exploration import Diagnosis, Memory, diagnose_in_steps
from fxengine.shapes_only import needs_data
from fxworker import sample, sandbox
from fxworker.absent import lacks_base, speaks_of_stand_in
from fxworker.blackbox import passing
from fxworker.building import (
    EXPLICIT,
    Built,
    Unbuilt,
    attempt,
    build,
    by_heir,
    class_of,
    in_wholes,
    misbuilt,
    with_values,
)
from fxworker.capturing import captured_with
from fxworker.children import disarm_timers
from fxworker.compiling import eagerly, leave_compiler_alone
from fxworker.containment import outermost_first, parts_of
from fxworker.dependence import Dependence
from fxworker.distinct import with_distinct_sizes
from fxworker.doubts import doubted, is_answer, is_of_stand_in, is_used
from fxworker.encoding import decode, encode
from fxworker.executing import Failure, Missing
from fxworker.feeding import SAID, Fed, Feeder, Finder, Sources, Unknown
from fxworker.folding import merged
from fxworker.inner import mentions_of
from fxworker.loading import Document, Hint, Loaded, load
from fxworker.lost import told_once
from fxworker.meta import idle_initialisation
from fxworker.offline import go_offline
from fxworker.patience import patience
from fxworker.prepared import Prepared
from fxworker.printing import described
from fxworker.reporting import Reporter, user_frames
from fxworker.subjects import Subject
from fxworker.sums import Clock, overall, total
from fxworker.texts import digest
from fxworker.wholes import wholes_in
from fxworker.wire import (
    Construct,
    EarlyReport,
    Enclosed,
    Guard,
    Inputs,
    Known,
    Problem,
    Span,
    TargetReport,
    Timings,
    TraceReport,
    TraceRequest,
    TraceTarget,
    Whole,
)

OnTarget: TypeAlias = Callable[[int, bool], None]
"""Is told the index of the target whose turn it is, and whether what follows is only a guess about it."""

OnTraced: TypeAlias = Callable[[TraceReport, frozenset[str]], None]
"""Is told when every model was traced, before shapes are looked for and graphs are printed, what is known by then, and
the names of the targets for which models were built."""


def trace(
    request: TraceRequest,
    document: Document,
    on_target: OnTarget,
    on_traced: OnTraced | None = None,
    *,
    prepared: Prepared | None = None,
    loaded: Loaded | None = None,
) -> TraceReport:
    """Return the report of a file's targets, and leave in `document` what the next trace need not find out again.

    Args:
        request: What to trace.
        document: The file's surroundings.
        on_target: Is told what is worked on.
        on_traced: Is told what is known before it is all known.
        prepared: Models that were built ahead.
        loaded: The file's module with the text of the request, if it was executed ahead.
    """
    clock = Clock()
    loaded = loaded or load(request, document)
    # A timer that the file has set would end what is not the file's.
    disarm_timers()
    load_ms = clock.lap()
    reporter = Reporter(document.path, request.text)
    problems: list[Problem] = []
    for failure, *others in _alike(loaded.failures):
        # What an exception says of itself may be the user's code, too.
        passing(failure.statement.node.lineno if failure.statement is not None else 1)
        problems.append(reporter.import_failed(failure, others))
    at_once: dict[tuple[ast.stmt, bool], list[Missing]] = {}
    for missing in loaded.missing:
        at_once.setdefault((missing.node, missing.needed), []).append(missing)
    problems += [reporter.not_installed(missing, others) for missing, *others in at_once.values()]
    session = _Session(
        request,
        loaded,
        reporter,
        document.hints,
        on_target,
        tuple(problems),
        load_ms,
        prepared,
        Dependence(request, loaded, document),
        until=time.monotonic() + _GUESSING * request.limits.seconds - load_ms / 1000,
    )
    if loaded.tree is not None:
        session.diagnose_all()
        if on_traced is not None:
            on_traced(session.report(), frozenset(each.target.qualname for each in session.traces))
        session.describe_all()
    document.hints = session.found
    read = {each.path for traced in session.traces for each in _wholes_of(traced.target, traced.built.construct)}
    return replace(
        session.report(),
        problems=(*problems, *session.left_alone()),
        dependencies=tuple(sorted(read.union(document.dependencies(loaded.failures)))),
        unfinished=bool(session.late),
    )


def _is_without_values(subject: Subject) -> bool:
    """Whether a model has tensors without values."""
    root = subject.built.root
    return isinstance(root, nn.Module) and any(each.is_meta for each in (*root.parameters(), *root.buffers()))


def _alike(failures: Iterable[Failure]) -> list[list[Failure]]:
    """Return failures, together those of imports that fail for one reason in another file, or for want of one name."""
    found: dict[object, list[Failure]] = {}
    for failure in failures:
        of_import = failure.statement is not None and isinstance(failure.statement.node, ast.Import | ast.ImportFrom)
        frames = user_frames(failure.error) if of_import else []
        unknown = kept_in(failure.error, NameError, "name") if type(failure.error) is NameError else None
        key = (described(failure.error), frames[-1]) if len(frames) > 1 else unknown or id(failure)
        found.setdefault(key, []).append(failure)
    return list(found.values())


def _wholes_of(target: TraceTarget, construct: Construct | None) -> Iterator[Whole]:
    """Return the models of other files of which a target was built as a part."""
    return wholes_in(construct.expression if construct is not None else "", target)


def _made_up(construct: Construct | None) -> str:
    """Return the expression that was inferred to build a model, "" where somebody wrote it or nothing builds it."""
    return construct.expression if construct is not None and construct.source == "inferred" else ""


def rehearse(request: TraceRequest, document: Document, prepared: Prepared) -> None:
    """Trace the models that were built ahead, as far as an early answer goes, and say nothing of it.

    The values that are found for them are remembered as far as the file's own code has nothing to do with them.
    """
    memories = {name: Memory({document.path}) for name in prepared.built}
    for name, (target, subject) in prepared.built.items():
        prepared.built[name] = target, replace(subject, memory=memories[name])
    targets = tuple(each for each in request.targets if each.qualname in prepared.built)
    request = replace(request, targets=targets, known=())
    session = _Session(
        request,
        prepared.loaded,
        Reporter(document.path, request.text),
        document.hints,
        lambda _index, _guess: None,
        prepared=replace(prepared, built=dict(prepared.built)),
        dependence=Dependence(request, prepared.loaded, document),
    )
    session.diagnose_all()
    encode(EarlyReport(request.id, session.report()))
    for memory in memories.values():
        memory.settle()


def warm_up() -> None:
    """Do everything once for a model of our own, so that no trace has to do it for the first time."""
    idle_initialisation()
    go_offline()
    leave_compiler_alone()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        root = attempt(lambda: sample.Sample(8))
        path = sample.__file__
        request = TraceRequest(0, path, "", (TraceTarget("Sample", "class", Span(1, 0, 1, 0)),))
        session = _Session(request, Loaded(sample, None), Reporter(path, ""), {}, lambda _index, _guess: None)
        report = session.described(session.traced(request.targets[0], Subject.of(Built(root, None)), 0.0))
        decode(encode(TraceReport(0, "", "", "complete", (report,))))


def warm_up_more() -> None:
    """Do what takes long and is not needed for what is shown first.

    Torch loads its package for algebra with the first operation without data whose shape no rule of ours tells.
    """
    torch.randn(1, device="meta")


_GUESSING: Final = 0.75
"""The part of the time for a request after which nothing is guessed any more: what is known by then is to be told."""

_ASK_SHAPES: Final = (DynamicBool, DynamicLength, DynamicNumber)
"""Questions that stop a trace and not the model."""

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
class _Traced:
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
class _Session:
    """The targets of one request, one after the other: all are traced, then all are described. Mutable.

    Models that were built with made-up arguments which no inputs fit may be found others for. Then all is done once
    more with these, as it will be at the next request: what such a model contains may have changed too.

    Attributes:
        until: When guessing ends; the next request goes on with it.
        late: The targets for which something would have been guessed after that.
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
    traces: list[_Traced] = field(default_factory=list[_Traced])
    fitted: dict[str, Hint] = field(default_factory=dict[str, Hint])
    fitting_s: float = 0.0
    apart_s: float = _APART
    until: float = math.inf
    late: set[str] = field(default_factory=set[str])

    def report(self) -> TraceReport:
        """Return what is known by now."""
        request, reports = self.request, self.reports
        targets = tuple(reports.get(each.qualname) or self.reporter.untraced(each) for each in request.targets)
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

    def _is_over(self) -> bool:
        """Whether the time for guessing has passed."""
        return time.monotonic() > self.until

    def _no_time(self, what: str) -> str:
        seconds = self.request.limits.seconds
        return f"no time was left to look for {what}, as a trace may take {seconds:g} s; the next one goes on with it"

    def diagnose_all(self) -> None:
        """Trace every target and report its problems. Those that contain others come first."""
        mentions = {**self.loaded.mentions, **mentions_of(self.request.targets, self.loaded)}
        for target in outermost_first(self.request.targets, mentions):
            self.on_target(self.request.targets.index(target), False)
            self.reports[target.qualname] = self._report(target)

    def describe_all(self) -> None:
        """Complete the reports of the targets that were traced."""
        self.fitting_s = _FITTING
        self._describe_all()
        if self.fitted and self._is_over():
            self.found |= self.fitted
        elif self.fitted:
            self.hints, self.fitting_s = {**self.hints, **self.found, **self.fitted}, 0.0
            for kept in (self.enclosed, self.reports, self.found, self.traces):
                kept.clear()
            self.diagnose_all()
            self._describe_all()

    def _describe_all(self) -> None:
        for traced in self.traces:
            self.on_target(self.request.targets.index(traced.target), False)
            self.reports[traced.target.qualname] = self.described(traced)

    def traced(self, target: TraceTarget, subject: Subject, build_ms: float) -> _Traced:
        """Trace a target that could be built."""
        clock = Clock()
        built = subject.built
        sources = self._sources(target, built)
        finder = Finder(sources, lambda: self.on_target(self.request.targets.index(target), False))
        steps = diagnose_in_steps(
            built.root,
            inputs=finder.find,
            user_paths=(self.reporter.path,),
            foreign=self._hint(target).functions,
            snapshot=subject.snapshot,
            memory=subject.memory,
        )
        diagnosis = next(steps)
        other = self._with_values(target, subject, diagnosis) or self._by_heir(target, subject, diagnosis)
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
            problems=self._problems(target, built, diagnosis, finder.guess),
            guards=self.reporter.guards(diagnosis.guards),
            cut=diagnosis.cut,
            reached_end=diagnosis.reached_end,
            timings=Timings(0.0, build_ms, clock.lap()),
        )
        return _Traced(target, built, steps, partial(Feeder, sources, finder), report)

    def _with_values(self, target: TraceTarget, subject: Subject, diagnosis: Diagnosis) -> Subject | None:
        """Return a model with the values of its tensors, where the trace of one without has asked for such."""
        if all(each.exception is None or not needs_data(each.exception) for each in diagnosis.problems):
            return None
        if subject.facts is None or subject.facts.parameters > _MOST_VALUES or not _is_without_values(subject):
            return None
        built = with_values(subject.built, target, self.loaded)
        return Subject.of(built) if built is not None else None

    def _by_heir(self, target: TraceTarget, subject: Subject, diagnosis: Diagnosis) -> Subject | None:
        """Return an instance of a subclass that has what the forward asks of a class, which has not; None for none."""
        built, root = subject.built, subject.built.root
        errors = (each.exception for each in diagnosis.problems if isinstance(each.exception, AttributeError))
        lacking = [str(each.name) for each in errors if kept_in(each, AttributeError, "obj") is root]
        is_of_ours = built.construct is not None and built.construct.source not in {*EXPLICIT, "call"}
        if not lacking or not is_of_ours or type(root) is not class_of(target, self.loaded):
            return None
        heir = by_heir(target, self.loaded) if self._may_guess(target) else None
        return Subject.of(heir) if heir is not None and all(hasattr(heir.root, each) for each in lacking) else None

    def described(self, traced: _Traced) -> TargetReport:
        """Return the whole report of a target that was traced: with its graph, and the shapes if it can be fed."""
        clock = Clock()
        report = traced.report
        diagnosis = next(traced.silent)
        feeder = traced.feed(diagnosis)
        guess = feeder.finder.guess
        graph, problems = diagnosis.graph, self._problems(traced.target, traced.built, diagnosis, guess)
        trace_ms = report.timings.trace + clock.lap()
        fed = self._fed(traced.target, traced.built, feeder, diagnosis)
        self._fit(traced, feeder, fed)
        captured = None
        if fed.inputs is not None and not diagnosis.complete:
            captured = captured_with(feeder.sources, fed.inputs)
        shapes_ms = clock.lap()
        complaint = fed.unknown.complaint if fed.unknown is not None else ""
        once = told_once(problems, diagnosis, fed.failures, complaint)
        problems = once or (*problems, *self._misfits(traced, diagnosis, fed))
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
            guards=self._guards(report, captured),
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
        subject = ahead or self._built(target)
        self.on_target(self.request.targets.index(target), False)
        if isinstance(subject, Unbuilt):
            return replace(self.reporter.untraced(target, self._unbuilt(target, subject)), construct=subject.construct)
        traced = self.traced(target, subject, clock.lap())
        self.traces.append(traced)
        return traced.report

    def _built(self, target: TraceTarget) -> Subject | Unbuilt:
        hint = self._hint(target).construct
        built = build(target, self.loaded, hint, lambda: self._may_search(target))
        if isinstance(built, Unbuilt):
            return built
        is_new = _made_up(built.construct) not in {"", hint}
        other = self._told_apart(target, built) if is_new and self._may_guess(target) else None
        return Subject.of(other or built)

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
        if unbuilt.other or self._is_told(unbuilt.error):
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
        search = not hint.unfed or hint.unfed != self.loaded.dependence(target.qualname)
        doubtful = tuple(filter(None, hint.doubtful.split(",")))
        known = None if search else Unknown(doubtful, hint.guess, hint.complaint, hint.never)
        made_up = built.construct if built.is_made_up else None
        # Inputs that were found for a model with other arguments need not fit this one.
        inputs = built.inputs or (hint.inputs if _made_up(built.construct) == hint.construct else "")
        may_guess = partial(self._may_guess, target)
        return Sources(target, built.root, self.loaded, inputs, may_guess, search, known, made_up, built.construct)

    def _fed(self, target: TraceTarget, built: Built, feeder: Feeder, diagnosis: Diagnosis) -> Fed:
        """Feed a traced model, and note what the next trace may begin with."""
        definition = self.loaded.definition(target.qualname)
        fed = feeder.feed()
        if target.qualname in self.late:
            self.found[target.qualname] = self._hint(target)
            return fed
        construct, inputs = built.construct, fed.inputs
        unknown = fed.unknown or Unknown((), "", "")
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
        )
        return fed

    def _fit(self, traced: _Traced, feeder: Feeder, fed: Fed) -> None:
        """Look for another way to feed a model: as other files do, or with other arguments where they were made up."""
        target = traced.target
        may_have_others = traced.built.is_made_up or target.wholes
        if not (fed.wants_other_arguments and may_have_others) or any(_wholes_of(target, traced.built.construct)):
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
            self.fitted[target.qualname] = replace(self._hint(target), construct=construct, inputs=inputs, unfed="")
        self.on_target(self.request.targets.index(target), False)

    def _other_way(self, traced: _Traced, feeder: Feeder, fed: Fed) -> tuple[str, str] | None:
        """Return another way to build a model, with inputs for it: as a part of another file's model, or fitted.

        One that is not made up stays as it is built, and is given what such a part is given.
        """
        target, built = traced.target, traced.built
        part = in_wholes(target, self.loaded) if target.wholes and self._may_guess(target) else None
        if part is not None and part.inputs:
            return (_made_up(part.construct) if built.is_made_up else ""), part.inputs
        fitted, inputs = feeder.fit(built, fed, min(self.fitting_s, _FITTING_EACH))
        return (fitted.expression, inputs) if fitted is not None else None

    def _may_guess(self, target: TraceTarget) -> bool:
        """Say that what follows is a guess; False where one went badly before and the definition is the same."""
        hint = self._hint(target)
        definition = self.loaded.definition(target.qualname)
        if definition and definition == hint.feared:
            return False
        if self._is_over():
            self.late.add(target.qualname)
            return False
        self.on_target(self.request.targets.index(target), True)
        return True

    def _may_search(self, target: TraceTarget) -> bool:
        """Say that arguments are searched for; False where that was in vain and the definition is the same."""
        unbuilt = self._hint(target).unbuilt
        return not (unbuilt and unbuilt == self.loaded.definition(target.qualname)) and self._may_guess(target)

    def _hint(self, target: TraceTarget) -> Hint:
        return self.hints.get(target.qualname, Hint())

    def _problems(self, target: TraceTarget, built: Built, diagnosis: Diagnosis, fed: str) -> tuple[Problem, ...]:
        found: list[Problem] = []
        guesses = self.loaded.guesses(target.qualname)
        for each in (*diagnosis.problems, *diagnosis.silent):
            if self._is_told(each.exception) or is_answer(each, diagnosis.problems):
                continue
            if is_used(each, built) or is_of_stand_in(each, built):
                continue
            unbuilt = misbuilt(built, each.exception)
            found.append(
                self.reporter.not_built(target, unbuilt)
                if unbuilt is not None
                else doubted(self.reporter.tracing_problem(each, target), each.exception, built, guesses, fed)
            )
        # What is on a class may be made when it is asked for, as that of a `ScriptModule` is, and not for the class.
        forward = inspect.getattr_static(type(built.root), "forward", None)
        if found and isinstance(built.root, nn.Module) and forward is nn.Module.forward:
            return (self.reporter.without_forward(found[0], type(built.root)),)
        if found and isinstance(forward, staticmethod):
            return (self.reporter.of_static(found[0]),)
        return merged(found)

    def _misfits(self, traced: _Traced, diagnosis: Diagnosis, fed: Fed) -> tuple[Problem, ...]:
        target, root = traced.target, diagnosis.root
        # What may stop the model, too, is told: no inputs would help.
        asks = all(issubclass(each.rule, _ASK_SHAPES) for each in diagnosis.problems)
        if fed.inputs is None and not asks:
            return ()
        if fed.inputs is None and fed.failures and fed.unknown is not None:
            guess = Inputs(fed.unknown.guess, "inferred")
            found = [self.reporter.shape_problem(each, guess, target.qualname, root) for each in fed.failures]
            made_up = traced.built.construct if traced.built.is_made_up else None
            said = f"built as `{made_up.expression}`, with arguments that were inferred" if made_up is not None else ""
            ran = f"it ran on `{fed.ran_on}` before, and now no inputs are found" if fed.ran_on else ""
            explained = (
                replace(each, explanation="\n".join(filter(None, (each.explanation, ran, said)))) for each in found
            )
            return tuple(replace(each, severity="warning") for each in explained)
        if fed.inputs is None:
            return self._unfed(target, traced.built.root, fed.unknown)
        inputs = fed.inputs
        failures = (each for each in fed.failures if not self._is_told(each.error))
        return merged([self.reporter.shape_problem(each, inputs, target.qualname, root) for each in failures])

    def _guards(self, report: TargetReport, captured: Capture | None) -> tuple[Guard, ...]:
        """Return what a graph holds for: what was decided on the way, and then what was asked of the inputs."""
        known = {each.expression for each in report.guards}
        more = self.reporter.guards(captured.guards) if captured is not None else ()
        return (*report.guards, *(each for each in more if each.expression not in known))

    def _unfed(self, target: TraceTarget, root: Any, unknown: Unknown | None) -> tuple[Problem, ...]:
        """Return what is told of a model that nothing was found for to feed it with."""
        if unknown is None or any(inputs.source in SAID for inputs in target.inputs):
            return ()
        return (self.reporter.unfed(target, root, unknown.parameters, unknown.guess, unknown.complaint),)

    def _is_told(self, error: BaseException | None) -> bool:
        """Whether an error only says that a name or a package is missing, and the import of it is a problem already."""
        if isinstance(error, AttributeError) and lacks_base(kept_in(error, AttributeError, "obj")):
            return True
        if isinstance(error, NotImplementedError) and speaks_of_stand_in(error):
            return any(each.needed for each in self.loaded.missing)
        if isinstance(error, ModuleNotFoundError):
            name = kept_in(error, ImportError, "name")
            return any(each.needed and each.name == name for each in self.loaded.missing)
        return isinstance(error, NameError) and kept_in(error, NameError, "name") in self.loaded.broken

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

    def _key(self, traced: _Traced, diagnosis: Diagnosis) -> str:
        """Return what names all that a report follows from; none for one that time has cut short."""
        dependence, target = self.dependence, traced.target
        if dependence is None or diagnosis.cut or not dependence.covers(target, traced.built.root, diagnosis.graph):
            return ""
        if any(_wholes_of(target, traced.built.construct)):
            return ""
        return dependence.key(target)

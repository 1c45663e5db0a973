"""What a child does with its one request: load, build, trace, infer shapes, report; or measure.

Every step takes the user's code as it is: whatever it raises is a problem in the report. The process is thrown away
after the answer, so nothing that user code left behind (patches, threads, children) has to be cleaned up here.
"""

import contextlib
import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import torch
from torch import nn

from fxengine.exploration import Diagnosis, diagnose
from fxengine.graph_module import GraphModule
from fxengine.inputs import infer_inputs
from fxengine.passes.shape_prop import ShapeProp
from fxengine.profiling import (
    ProfileOptions,
    ProfileResult,
    model_cost,
    profile,
    result_from_dict,
    result_to_dict,
    to_markdown,
    to_trace,
)
from fxengine.profiling.measuring import bind_placeholders
from fxworker.building import EXPLICIT, Built, Unbuilt, attempt, build, scope_of
from fxworker.channel import Frame, Kind
from fxworker.children import Ends, bound_memory
from fxworker.loading import Document, Hint, Loaded, load, modules_since, newest_module
from fxworker.meta import idle_initialisation
from fxworker.reporting import Reporter
from fxworker.rules import WorkerDied
from fxworker.wire import (
    EnvironmentReport,
    Inputs,
    Location,
    ModuleFacts,
    Problem,
    ProfileReport,
    ProfileRequest,
    Progress,
    Span,
    TargetReport,
    Timings,
    TraceReport,
    TraceRequest,
    TraceTarget,
    decode,
    digest,
    encode,
)


class _Sample(nn.Module):
    """A model of the usual parts, which warms up what tracing and shape propagation import and remember."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3), nn.BatchNorm2d(width), nn.ReLU(), nn.Flatten(2))
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.scale = nn.Parameter(torch.zeros(1, 1, width))
        self.drop = nn.Dropout(0.1)
        self.head = nn.Embedding(10, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.stem(x).transpose(1, 2)) * self.scale
        for layer in self.layers:
            x = x + self.drop(nn.functional.gelu(layer(x)))
        batch, _, width = x.shape
        x = torch.cat([x.reshape(batch, -1, width).softmax(-1), x @ x.mT @ x], dim=1)
        return x.mean(1)[:, None] + self.head.weight


OnPhase = Callable[[int], None]

_INFERENCE_SECONDS: Final = 0.5
_LATE_SECONDS: Final = 0.01
"""Imports that a trace had to do itself are worth repeating in the template if loading took longer than this."""


def serve_trace(ends: Ends, document: Document) -> None:
    """Take one request, answer it, and say what saves the next one work."""
    # This process was forked ahead of need: it touches now the memory that a trace will touch.
    warm_up()
    frame = ends.receive()
    if frame is None:
        return
    request = decode(frame.payload)
    assert isinstance(request, TraceRequest)
    mine = os.getpid()
    ends.box.arm(request.limits.seconds)
    bound_memory(request.limits.memory)
    if not document.is_fresh(request):
        ends.send(Frame(Kind.STALE))
        return
    newest = newest_module()
    report = _trace_safely(request, document, lambda index: ends.send(Frame(Kind.PHASE, b"%d" % index)))
    if os.getpid() != mine:
        os._exit(0)  # User code forked, and its child came back here as well.
    ends.send(Frame(Kind.HINTS, _hints(report)))
    ends.send(Frame(Kind.ANSWER, encode(report)))
    late = [name for name in modules_since(newest) if name != document.name]
    if late and report.timings.load > 1000 * _LATE_SECONDS:
        ends.send(Frame(Kind.LATE, "\n".join(late).encode()))


def _hints(report: TraceReport) -> bytes:
    hints = {
        each.qualname: (
            each.construct.expression if each.construct is not None and each.construct.source == "inferred" else "",
            each.inputs.expression if each.inputs is not None and each.inputs.source == "inferred" else "",
        )
        for each in report.targets
    }
    return json.dumps({name: found for name, found in hints.items() if any(found)}).encode()


def serve_profile(ends: Ends, report: EnvironmentReport) -> None:
    """Say what this process runs on, take one request to measure, tell how far it is, and answer it."""
    ends.send(Frame(Kind.READY, encode(report)))
    frame = ends.receive()
    if frame is None:
        return
    request = decode(frame.payload)
    assert isinstance(request, ProfileRequest)
    ends.send(Frame(Kind.STARTED))
    ends.box.arm(request.limits.seconds)
    bound_memory(request.limits.memory)

    def progressed(fraction: float, message: str) -> None:
        line = encode(Progress(request.id, message, round(100 * fraction)))
        ends.send(Frame(Kind.PROGRESS, line))

    try:
        answer = measure(request, progressed)
    except Exception as error:  # noqa: BLE001 — The request loop of a worker: a fault of ours is told like any other.
        answer = replace(_no_profile(request), problems=(_own_fault(request.path, error),))
    ends.send(Frame(Kind.ANSWER, encode(answer)))
    sys.stdout.flush()
    os._exit(0)


def warm_up() -> None:
    """Do everything once for a model of our own, so that no child has to do it for the first time."""
    idle_initialisation()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        root = attempt(lambda: _Sample(8))
        request = TraceRequest(0, __file__, "", (TraceTarget("_Sample", "class", Span(1, 0, 1, 0)),))
        loaded = Loaded(sys.modules[__name__], None)
        reporter = Reporter(__file__, "")
        report = _Session(request, loaded, reporter, {})._traced(request.targets[0], Built(root, None), 0.0)
        decode(encode(TraceReport(0, "", "", "complete", (report,))))


def _trace_safely(request: TraceRequest, document: Document, on_target: OnPhase) -> TraceReport:
    try:
        return trace(request, document, on_target)
    except BaseException as error:  # noqa: BLE001 — The request loop of a worker: a fault of ours is told like any other.
        text = digest(request.text)
        return TraceReport(request.id, request.path, text, "not traced", problems=(_own_fault(request.path, error),))


def _own_fault(path: str, error: BaseException) -> Problem:
    traceback.print_exception(error)
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    return Problem(
        WorkerDied.code,
        "error",
        f"fxls failed on this file: {type(error).__name__}: {error}{where}",
        Location(path, Span(1, 0, 1, 0)),
        hint="this is a fault of fxls; the log of the server holds the traceback",
    )


def trace(request: TraceRequest, document: Document, on_target: OnPhase) -> TraceReport:
    """Return the report of a file's targets; `on_target` is told the index of each when its turn comes."""
    started = time.perf_counter()
    idle_initialisation()
    loaded = load(request, document)
    loaded_at = time.perf_counter()
    reporter = Reporter(request.path, request.text)
    problems = [reporter.import_failed(failure) for failure in loaded.failures]
    problems += [reporter.not_installed(missing) for missing in loaded.missing]
    session = _Session(request, loaded, reporter, document.hints)
    reports = session.run(on_target) if loaded.tree is not None else {}
    targets = tuple(reports.get(each.qualname) or reporter.untraced(each) for each in request.targets)
    load_ms = 1000 * (loaded_at - started)
    return TraceReport(
        request.id,
        request.path,
        digest(request.text),
        _overall([each.status for each in targets], problems),
        targets,
        tuple(problems),
        document.dependencies(),
        Timings(load=load_ms, report=1000 * (time.perf_counter() - started) - load_ms),
    )


def _overall(statuses: list[Any], problems: list[Problem]) -> Any:
    if all(each == "complete" for each in statuses) and not any(each.severity == "error" for each in problems):
        return "complete"
    return "partial" if any(each != "not traced" for each in statuses) else "not traced"


@dataclass
class _Enclosed:
    """Where in a traced model the instances of a class are."""

    by: str
    module_path: str


@dataclass
class _Session:
    """The targets of one request, one after the other. Mutable."""

    request: TraceRequest
    loaded: Loaded
    reporter: Reporter
    hints: Mapping[str, Hint]
    enclosed: dict[type, _Enclosed] = field(default_factory=dict)
    reports: dict[str, TargetReport] = field(default_factory=dict)

    def run(self, on_target: OnPhase) -> dict[str, TargetReport]:
        """Return the reports of all targets by name. Those that contain others come first."""
        index = {target.qualname: number for number, target in enumerate(self.request.targets)}
        for target in outermost_first(self.request.targets, self.loaded.mentions):
            on_target(index[target.qualname])
            self.reports[target.qualname] = self._report(target)
        return self.reports

    def _report(self, target: TraceTarget) -> TargetReport:
        if target.qualname.partition(".")[0] in self.loaded.broken:
            return self.reporter.untraced(target)
        inside = self._inside(target)
        if inside is not None:
            status = self.reports[inside.by].status
            return replace(
                self.reporter.untraced(target), status=status, enclosed_by=inside.by, module_path=inside.module_path
            )
        started = time.perf_counter()
        built = build(target, self.loaded, self._hint(target).construct)
        milliseconds = 1000 * (time.perf_counter() - started)
        if isinstance(built, Unbuilt):
            told = self._is_told(built.error)
            problems = () if told else (self.reporter.not_built(target, built),)
            return replace(self.reporter.untraced(target, problems), construct=built.construct)
        return self._traced(target, built, milliseconds)

    def _is_told(self, error: BaseException | None) -> bool:
        """Whether an error only says that a name is missing, whose own statement failed and is a problem already."""
        return isinstance(error, NameError) and error.name in self.loaded.broken

    def _hint(self, target: TraceTarget) -> Hint:
        return self.hints.get(target.qualname, Hint())

    def _inside(self, target: TraceTarget) -> _Enclosed | None:
        """Return where the target's class was traced already, unless the person asked for it by itself."""
        if target.kind != "class" or any(each.source in EXPLICIT for each in target.constructs):
            return None
        found: Any = self.loaded.namespace
        for name in target.qualname.split("."):
            found = found.get(name) if isinstance(found, dict) else getattr(found, name, None)
        return self.enclosed.get(found) if isinstance(found, type) else None

    def _traced(self, target: TraceTarget, built: Built, build_ms: float) -> TargetReport:
        started = time.perf_counter()
        # The tracer may put constants into the root; what the model is, is known only before.
        facts = _facts(built.root)
        diagnosis = diagnose(built.root, user_paths=(self.request.path,))
        trace_ms = 1000 * (time.perf_counter() - started)
        started = time.perf_counter()
        feeding = _Feeding(target, built.root, diagnosis, self.loaded, self._hint(target).inputs)
        with contextlib.suppress(BaseException):  # User code on inputs that need not fit: then nothing is known.
            feeding.run()
        shapes_ms = 1000 * (time.perf_counter() - started)
        started = time.perf_counter()
        if isinstance(built.root, nn.Module):
            self._note_enclosed(target, built.root, diagnosis)
        code = diagnosis.graph.python_code("self")
        problems = tuple(
            self.reporter.tracing_problem(each, target.qualname)
            for each in diagnosis.problems
            if not self._is_told(each.exception)
        )
        report = TargetReport(
            target.qualname,
            target.kind,
            target.name,
            "complete" if diagnosis.complete else "partial",
            built.construct,
            feeding.applied,
            replace(facts, flops=feeding.flops) if facts is not None else None,
            self.reporter.nodes(diagnosis.graph, code.node_lines),
            code.src,
            problems,
        )
        report_ms = 1000 * (time.perf_counter() - started)
        return replace(report, timings=Timings(0.0, build_ms, trace_ms, shapes_ms, report_ms))

    def _note_enclosed(self, target: TraceTarget, root: nn.Module, diagnosis: Diagnosis) -> None:
        """Note the classes whose instances were traced as a part of this model."""
        reached = set[str]()
        if not diagnosis.complete:
            for node in diagnosis.graph.nodes:
                if node.origin is not None:
                    reached.add(node.origin.module_path)
            reached.update(problem.module_path for problem in diagnosis.problems)
        for path, module in root.named_modules():
            if path and (diagnosis.complete or path in reached):
                self.enclosed.setdefault(type(module), _Enclosed(target.qualname, path))


@dataclass
class _Feeding:
    """Example inputs for one target, and what they tell: shapes and operations. Mutable."""

    target: TraceTarget
    root: Any
    diagnosis: Diagnosis
    loaded: Loaded
    hint: str
    applied: Inputs | None = None
    flops: int | None = None

    def run(self) -> None:
        """Find inputs, note the shapes on the graph's nodes, count operations. Finds nothing where nothing fits."""
        for inputs, args, kwargs in self._candidates():
            try:
                module = GraphModule(self.diagnosis.root, self.diagnosis.graph)
                values = bind_placeholders(module, args, kwargs)
            except TypeError:
                continue
            found = ShapeProp(module).propagate_partial(*values)
            if inputs.expression == self.hint and not found.complete and inputs not in self.target.inputs:
                continue
            self.applied = inputs
            self.flops = model_cost(self.root, args, kwargs).flops
            return

    def _candidates(self) -> Iterator[tuple[Inputs, tuple[Any, ...], dict[str, Any]]]:
        scope = scope_of(self.loaded)
        hinted = (Inputs(self.hint, "inferred"),) if self.hint else ()
        for inputs in (*self.target.inputs, *hinted):
            try:
                args, kwargs = arguments_of(inputs.expression, scope)
            except BaseException:  # noqa: BLE001 — User code; the next way to feed the model is tried.
                continue
            yield inputs, args, kwargs
        inferred = infer_inputs(self.root, self.diagnosis.graph, budget_s=_INFERENCE_SECONDS)
        if inferred.complete or inferred.needs_data:
            yield Inputs(inferred.expression, "inferred"), inferred.args, inferred.kwargs


def arguments_of(
    expression: str, scope: dict[str, Any], *, real: bool = False
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments that an argument list makes, with tensors on meta unless they are to be real.

    Raises:
        BaseException: Whatever the expression raises.
    """
    code = compile(f"__fxls_call__({expression})", "<inputs>", "eval")
    scope = {**scope, "__fxls_call__": lambda *args, **kwargs: (args, kwargs)}
    if real:
        return eval(code, scope)  # noqa: S307 — The person's own expression.
    return attempt(lambda: eval(code, scope))  # noqa: S307 — As above.


def outermost_first(targets: tuple[TraceTarget, ...], mentions: Mapping[str, frozenset[str]]) -> list[TraceTarget]:
    """Return the targets so that a class comes before those that its definition mentions."""
    asked = [each for each in targets if any(way.source in EXPLICIT for way in each.constructs)]
    order: list[TraceTarget] = []
    names = {each.qualname: each for each in targets}
    done = set[str]()

    def visit(target: TraceTarget) -> None:
        # Depth first, each after what it mentions; the reverse of that has containers first.
        done.add(target.qualname)
        for name in sorted(mentions.get(target.qualname.partition(".")[0], ())):
            inner = names.get(name)
            if inner is not None and name not in done:
                visit(inner)
        order.append(target)

    for target in targets:
        if target.qualname not in done:
            visit(target)
    order.reverse()
    return [*asked, *(each for each in order if each not in asked)]


def _facts(root: Any) -> ModuleFacts | None:
    if not isinstance(root, nn.Module):
        return None
    parameters = list(root.parameters())
    count = sum(each.numel() for each in parameters)
    size = sum(each.numel() * each.element_size() for each in parameters)
    return ModuleFacts(type(root).__qualname__, count, size, None)


def measure(request: ProfileRequest, progressed: Callable[[float, str], None]) -> ProfileReport:
    """Return the profile of a target: built for real, with random weights, on the device that is asked for."""
    progressed(0.0, "loading")
    document = Document.of(request)
    document.enter(request)
    loaded = load(request, document)
    reporter = Reporter(request.path, request.text)
    problems = [reporter.import_failed(failure) for failure in loaded.failures]
    if loaded.tree is None or request.target.qualname.partition(".")[0] in loaded.broken:
        return replace(_no_profile(request), problems=tuple(problems))
    progressed(0.02, "building")
    built = build(request.target, loaded, real=True)
    if isinstance(built, Unbuilt):
        return replace(_no_profile(request), problems=(reporter.not_built(request.target, built),))
    progressed(0.05, "tracing")
    diagnosis = diagnose(built.root, user_paths=(request.path,))
    if not diagnosis.complete:
        found = tuple(reporter.tracing_problem(each, request.target.qualname) for each in diagnosis.problems)
        return replace(_no_profile(request), problems=found)
    result = _profiled(request, built.root, diagnosis, loaded, progressed)
    return ProfileReport(
        request.id,
        request.path,
        digest(request.text),
        request.target.qualname,
        request.device,
        "complete",
        reporter.profile_rows(result),
        (),
        to_markdown(result),
        json.dumps(result_to_dict(result)),
        json.dumps(to_trace(result)),
    )


def _profiled(
    request: ProfileRequest,
    root: Any,
    diagnosis: Diagnosis,
    loaded: Loaded,
    progressed: Callable[[float, str], None],
) -> ProfileResult:
    module = GraphModule(diagnosis.root, diagnosis.graph)
    previous = result_from_dict(json.loads(request.previous)) if request.previous else None
    options = ProfileOptions(threads=os.cpu_count())

    def on_progress(fraction: float, message: str) -> None:
        progressed(0.1 + 0.9 * fraction, message)

    scope = scope_of(loaded)
    for inputs in request.target.inputs:
        try:
            args, kwargs = arguments_of(inputs.expression, scope, real=True)
        except Exception:  # noqa: BLE001 — User code; the next way to feed the model is tried.
            continue
        return profile(
            module,
            root,
            args,
            kwargs=kwargs,
            device=request.device,
            options=options,
            progress=on_progress,
            previous=previous,
        )
    inferred = infer_inputs(root, diagnosis.graph)
    return profile(
        module, root, inferred, device=request.device, options=options, progress=on_progress, previous=previous
    )


def _no_profile(request: ProfileRequest) -> ProfileReport:
    return ProfileReport(
        request.id, request.path, digest(request.text), request.target.qualname, request.device, "failed"
    )

"""One request's work: load the file, build its targets, trace them, find their shapes, report.

Whatever the user's code raises is a problem in the report. The process is thrown away after the answer, so nothing that
user code left behind (patches, threads, children) has to be cleaned up here.
"""

import ast
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, TypeAlias

import torch

from fxengine.errors import kept_in
from fxengine.exploration import Memory
from fxworker import sample
from fxworker.blackbox import passing
from fxworker.building import (
    Built,
    attempt,
)
from fxworker.children import disarm_timers
from fxworker.compiling import leave_compiler_alone
from fxworker.dependence import Dependence
from fxworker.encoding import decode, encode
from fxworker.executing import Failure, Missing
from fxworker.loading import Document, Loaded, load
from fxworker.meta import idle_initialisation
from fxworker.offline import go_offline
from fxworker.prepared import Prepared
from fxworker.printing import described
from fxworker.reporting import Reporter, user_frames
from fxworker.subjects import Subject
from fxworker.sums import Clock
from fxworker.targets import OnTarget, Targets
from fxworker.wire import (
    EarlyReport,
    Problem,
    Span,
    TraceReport,
    TraceRequest,
    TraceTarget,
)

OnTraced: TypeAlias = Callable[[TraceReport, frozenset[str]], None]
"""Is told when every model was traced, before shapes are looked for and graphs are printed, what is known by then, and
the names of the targets for which models were built."""

_GUESSING: Final = 0.75
"""The part of the time for a request after which nothing is guessed any more: what is known by then is to be told."""


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
    at_once: dict[tuple[ast.stmt, bool, bool], list[Missing]] = {}
    for missing in loaded.missing:
        at_once.setdefault((missing.node, missing.needed, missing.is_caught), []).append(missing)
    problems += [reporter.not_installed(missing, others) for missing, *others in at_once.values()]
    targets = Targets(
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
        targets.diagnose_all()
        if on_traced is not None:
            on_traced(targets.report(), frozenset(each.target.qualname for each in targets.traces))
        targets.describe_all()
    document.hints = targets.found
    return replace(
        targets.report(),
        problems=(*problems, *targets.left_alone()),
        dependencies=tuple(sorted(targets.read().union(document.dependencies(loaded.failures)))),
        unfinished=bool(targets.late),
    )


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


def rehearse(request: TraceRequest, document: Document, prepared: Prepared) -> None:
    """Trace the models that were built ahead, as far as an early answer goes, and say nothing of it.

    The values that are found for them are remembered as far as the file's own code has nothing to do with them.
    """
    memories = {name: Memory({document.path}) for name in prepared.built}
    for name, (target, subject) in prepared.built.items():
        prepared.built[name] = target, replace(subject, memory=memories[name])
    wanted = tuple(each for each in request.targets if each.qualname in prepared.built)
    request = replace(request, targets=wanted, known=())
    targets = Targets(
        request,
        prepared.loaded,
        Reporter(document.path, request.text),
        document.hints,
        lambda _index, _guess: None,
        prepared=replace(prepared, built=dict(prepared.built)),
        dependence=Dependence(request, prepared.loaded, document),
    )
    targets.diagnose_all()
    encode(EarlyReport(request.id, targets.report()))
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
        targets = Targets(request, Loaded(sample, None), Reporter(path, ""), {}, lambda _index, _guess: None)
        report = targets.described(targets.traced(request.targets[0], Subject.of(Built(root, None)), 0.0))
        decode(encode(TraceReport(0, "", "", "complete", (report,))))


def warm_up_more() -> None:
    """Do what takes long and is not needed for what is shown first.

    Torch loads its package for algebra with the first operation without data whose shape no rule of ours tells.
    """
    torch.randn(1, device="meta")

"""What commands and requests of ours answer: views of a document's models, reports, profiles and the files they leave.

A command names a document and a model in it. What it cannot do is said in one sentence that the client shows.
"""

import hashlib
from pathlib import Path
from typing import Final

from fxls.cache import cache_folder
from fxls.features.graph_view import to_dot, to_svg
from fxls.features.listing import listing
from fxls.lsp_ext import (
    CodeView,
    CommandArguments,
    EnvironmentParams,
    EnvironmentResult,
    GraphView,
    ProfileView,
    ReportParams,
    ReportResult,
    TargetSummary,
)
from fxls.session import Session
from fxls.snapshot import Snapshot
from fxls.workers.client import OnProgress
from fxworker.wire import ProfileReport, TargetReport, TraceTarget

_KEPT: Final = 50
"""Profiles whose files are kept; older ones are removed when a new one is written."""


class CommandError(Exception):
    """A command cannot be done; the message is for the person."""


async def show_code(session: Session, arguments: CommandArguments) -> CodeView:
    """Return the generated code of a model, once the text as it is now was traced.

    Raises:
        CommandError: there is none.
    """
    snapshot, report = await _captured(session, arguments)
    if not report.code:
        raise CommandError(f"{report.qualname} has no generated code: {_reason(report)}")
    code = listing(report, line_of=snapshot.line_of)
    return CodeView("python", "\n".join(code) + "\n", f"{report.qualname}: generated code")


async def show_graph(session: Session, arguments: CommandArguments) -> GraphView:
    """Return the graph of a model as it is now, drawn and as Graphviz source.

    Raises:
        CommandError: there is none.
    """
    _, report = await _captured(session, arguments)
    if not report.nodes:
        raise CommandError(f"{report.qualname} has no graph: {_reason(report)}")
    return GraphView(to_svg(report), to_dot(report), f"{report.qualname}: graph")


async def profile(session: Session, arguments: CommandArguments, progress: OnProgress) -> ProfileView:
    """Measure a model, write its files to the user's cache, and return what to show.

    Raises:
        CommandError: it could not be measured.
    """
    snapshot = await _answered(session, arguments.uri)
    if not session.trusted:
        raise CommandError("the workspace is not trusted, so nothing in it is executed")
    target = _target(snapshot, arguments)
    device = arguments.device or snapshot.settings.profile_device
    if snapshot.environment is not None and (lack := snapshot.environment.lacks(device)):
        raise CommandError(lack)
    report = await session.profile(arguments.uri, target, device, progress)
    if report is None or report.status == "failed":
        problems = report.problems if report is not None else ()
        raise CommandError(problems[0].message if problems else f"{target.qualname} could not be measured")
    try:
        data, trace = _written(report)
    except OSError as error:
        raise CommandError(f"the profile cannot be written to {cache_folder()}: {error.strerror}") from error
    return ProfileView(report.markdown, str(data), str(trace), f"{target.qualname} on {device}")


async def retrace(session: Session, arguments: CommandArguments) -> None:
    """Trace a document again; returns when its diagnostics are published."""
    _snapshot(session, arguments.uri)
    await session.retrace(arguments.uri)


def report(session: Session, params: ReportParams) -> ReportResult | None:
    """Return what is known of a document, None when it is not open."""
    snapshot = session.snapshot(params.uri)
    if snapshot is None:
        return None
    found = snapshot.report
    return ReportResult(
        uri=snapshot.uri,
        version=snapshot.version,
        fresh=snapshot.fresh,
        status=found.status if found is not None else "not traced",
        milliseconds=found.timings.total if found is not None else 0.0,
        targets=tuple(map(_summary, found.targets)) if found is not None else (),
        dependencies=found.dependencies if found is not None else (),
        output=found.output if found is not None else "",
    )


def environment(session: Session, params: EnvironmentParams) -> EnvironmentResult | None:
    """Return what is known of the Python that a document is traced with, None when it is not open."""
    snapshot, env = session.snapshot(params.uri), session.python(params.uri)
    if snapshot is None or env is None:
        return None
    found = snapshot.environment
    return EnvironmentResult(
        command=env.command,
        found=env.found,
        python=found.python if found is not None else "",
        torch=found.torch if found is not None else "",
        devices=found.devices if found is not None else (),
        problem=found.problem if found is not None else env.problem,
        sandbox=found.sandbox if found is not None and snapshot.sandboxed else (),
    )


def _summary(report: TargetReport) -> TargetSummary:
    return TargetSummary(
        qualname=report.qualname,
        status=report.status,
        nodes=len(report.nodes),
        problems=len(report.problems),
        construct=report.construct.expression if report.construct is not None else "",
        construct_from=report.construct.source if report.construct is not None else "",
        inputs=report.inputs.expression if report.inputs is not None else "",
        inputs_from=report.inputs.source if report.inputs is not None else "",
        enclosed_by=report.enclosed_by,
        milliseconds=report.timings.total,
    )


def _snapshot(session: Session, uri: str) -> Snapshot:
    snapshot = session.snapshot(uri)
    if snapshot is None:
        raise CommandError("the file is not open")
    return snapshot


async def _answered(session: Session, uri: str) -> Snapshot:
    """Return a document once its text as it is now was traced: which model a command is about follows from that."""
    await session.settled(uri)
    return _snapshot(session, uri)


def _target(snapshot: Snapshot, arguments: CommandArguments) -> TraceTarget:
    """Return the model that a command names; without a name that around its line, or else the largest captured one.

    A class that was traced as a part of another model has no arguments of its own: that model stands for it.
    """
    around = snapshot.index.class_at(arguments.line + 1)
    name = arguments.target or (around.qualname if around is not None else "")
    found = snapshot.index.target(name)
    if arguments.target and found is None:
        raise CommandError(f"there is no model {arguments.target} in this file")
    reports = {each.qualname: each for each in snapshot.report.targets} if snapshot.report is not None else {}
    if found is None:
        captured = [reports[each.qualname] for each in snapshot.index.targets if each.qualname in reports]
        largest = max(captured, key=lambda each: len(each.nodes), default=None)
        found = snapshot.index.target(largest.qualname) if largest is not None else None
    if found is None and snapshot.index.targets:
        found = snapshot.index.targets[0]
    if found is None:
        raise CommandError("there is no model in this file")
    report = reports.get(found.qualname)
    enclosing = snapshot.index.target(report.enclosed_by) if report is not None and not report.nodes else None
    return enclosing or found


async def _captured(session: Session, arguments: CommandArguments) -> tuple[Snapshot, TargetReport]:
    """Return a document, and the report of the model in it that a command names."""
    snapshot = await _answered(session, arguments.uri)
    target = _target(snapshot, arguments)
    if not snapshot.trusted:
        raise CommandError("the workspace is not trusted, so nothing in it is executed")
    reports = snapshot.report.targets if snapshot.report is not None else ()
    report = next((each for each in reports if each.qualname == target.qualname), None)
    if report is None:
        raise CommandError(f"{target.qualname} has not been traced yet")
    return snapshot, report


def _reason(report: TargetReport) -> str:
    if report.problems:
        return report.problems[0].message
    return "it was not traced"


def _written(report: ProfileReport) -> tuple[Path, Path]:
    """Write a profile's data and trace; return their paths."""
    folder = cache_folder() / "profiles"
    folder.mkdir(parents=True, exist_ok=True)
    place = hashlib.blake2b(f"{report.path}\0{report.device}".encode(), digest_size=4).hexdigest()
    name = f"{Path(report.path).stem}.{report.target}.{report.device.replace(':', '')}.{place}"
    data, trace = folder / f"{name}.json", folder / f"{name}.trace.json"
    data.write_text(report.data, "utf-8")
    trace.write_text(report.trace, "utf-8")
    files = sorted(folder.iterdir(), key=lambda each: each.stat().st_mtime, reverse=True)
    for old in files[2 * _KEPT :]:
        old.unlink(missing_ok=True)
    return data, trace

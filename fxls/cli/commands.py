"""The sub-commands and their exit codes: 0 clean, 1 problems, 2 it could not do its work."""

import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import TextIOWrapper
from typing import Final, TextIO

from fxls.cli.arguments import Options, parse
from fxls.cli.files import BadPathError, SourceFile, find_files, shown
from fxls.cli.findings import FileFindings, Sources, counts, findings_of
from fxls.cli.machine_formats import to_github, to_json, to_sarif
from fxls.cli.plain_markdown import plain
from fxls.cli.terminal import Paint, Progress
from fxls.cli.text_format import cuts, render, summary
from fxls.cli.tracing import CannotTraceError, Traced, Tracing
from fxls.features import graph_view
from fxls.features.listing import listing
from fxls.features.status import confinement
from fxls.features.wording import plural
from fxls.settings import Settings
from fxls.workers.pool import WorkerPool
from fxworker.wire import EnvironmentReport, TargetReport, TraceTarget
from fxworker.wire import Progress as ProgressReport

CLEAN: Final = 0
PROBLEMS: Final = 1
FAILED: Final = 2
_INTERRUPTED: Final = 130


@dataclass(frozen=True, slots=True)
class _Terminal:
    """Where a command writes: results to `out`, everything else to `err`."""

    out: TextIO
    err: TextIO
    paint: Paint
    progress: Progress

    def complain(self, message: str) -> None:
        """Say why something cannot be done."""
        self.progress.clear()
        self.err.write(f"fxls: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one sub-command; return its exit code."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    options = parse(sys.argv[1:] if arguments is None else arguments, cores)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # What code says of itself need not be text; as an escape it is, also within JSON.
            stream.reconfigure(errors="backslashreplace")
    terminal = _Terminal(sys.stdout, sys.stderr, Paint.for_stream(sys.stdout, options.color), Progress(sys.stderr))
    try:
        return asyncio.run(_run(options, terminal))
    except (BadPathError, CannotTraceError) as error:
        terminal.complain(_explained(error))
        return FAILED
    except KeyboardInterrupt:
        terminal.progress.clear()
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough. What is still buffered has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLEAN


async def _run(options: Options, terminal: _Terminal) -> int:
    settings = replace(
        Settings(),
        strict=options.strict,
        ignore=options.ignore,
        trace_timeout=options.timeout,
        profile_timeout=options.timeout,
        sandbox=options.sandbox,
        worker_documents=options.jobs,
    )
    pool = WorkerPool()
    tracing = Tracing(pool, settings, options.python, fixes=options.fixes, run=not options.no_run)
    try:
        if options.command == "check":
            return await _check(options, tracing, terminal)
        return await _view(options, tracing, terminal)
    finally:
        terminal.progress.clear()
        await pool.close()


def _explained(error: BadPathError | CannotTraceError) -> str:
    if isinstance(error, CannotTraceError):
        return f"cannot trace: {error}\nChoose another interpreter with --python, or install torch there."
    return str(error)


async def _check(options: Options, tracing: Tracing, terminal: _Terminal) -> int:
    files = find_files(options.paths)
    sources = Sources()
    found: list[FileFindings] = []
    described: set[EnvironmentReport] = set()
    failed = False
    begun = 0

    def begin(file: SourceFile) -> None:
        nonlocal begun
        begun += 1
        terminal.progress.say(f"tracing {begun}/{len(files)} {file.shown}")

    async for result in tracing.trace_all(files, options.jobs, begin):
        if isinstance(result, BadPathError):
            terminal.complain(str(result))
            failed = True
            continue
        if not _concerns_us(result):
            continue
        if options.verbose:
            _describe(result, described, terminal)
        findings = findings_of(result, sources)
        found.append(findings)
        if options.format == "text":
            terminal.progress.clear()
            for finding in findings.findings:
                terminal.out.write(render(finding, sources, terminal.paint) + "\n\n")
            terminal.out.flush()
    terminal.progress.clear()
    terminal.out.write(_written(options.format, found, sources, terminal.paint))
    terminal.out.flush()
    if failed:
        return FAILED
    return PROBLEMS if counts(found)["error"] else CLEAN


def _describe(traced: Traced, described: set[EnvironmentReport], terminal: _Terminal) -> None:
    """Say what a file runs on, once for all files that run on the same."""
    found = traced.snapshot.environment
    if found is not None and found not in described:
        described.add(found)
        where = confinement(found, sandboxed=traced.snapshot.sandboxed)
        terminal.complain(f"torch {found.torch}, Python {found.python}, {found.executable}; {where}")


def _concerns_us(traced: Traced) -> bool:
    """Whether a file is one of models: it has some, or it was named and does not parse, or speaks of torch."""
    if traced.index.targets or traced.file.named:
        return True
    return not traced.index.parsed and "torch" in traced.snapshot.text


def _written(format_: str, found: list[FileFindings], sources: Sources, paint: Paint) -> str:
    match format_:
        case "json":
            return to_json(found, sources)
        case "sarif":
            return to_sarif(found, sources)
        case "github":
            return to_github(found)
        case _:
            return "\n".join([*cuts(found), summary(found, paint), ""])


async def _view(options: Options, tracing: Tracing, terminal: _Terminal) -> int:
    """Show one model: its code, its graph or its profile."""
    path, _, name = options.paths[0].partition("::")
    (file,) = _one_file(path)
    terminal.progress.say(f"tracing {file.shown}")
    traced = await tracing.trace(file, name)
    terminal.progress.clear()
    if not traced.index.parsed:
        return _complain_about(traced, None, terminal)
    target = _chosen(traced, name, terminal)
    report = next((each for each in _reports(traced) if each.qualname == target.qualname), None)
    if report is None:
        return _complain_about(traced, None, terminal)
    if options.command == "profile":
        return await _profile(options, tracing, traced, target, terminal)
    if not (report.nodes if options.command == "graph" else report.code.strip()):
        return _complain_about(traced, report, terminal)
    terminal.out.write(_shown_model(options, report))
    if report.status != "complete":
        _complain_about(traced, report, terminal)
    return CLEAN if report.status == "complete" else PROBLEMS


def _one_file(path: str) -> list[SourceFile]:
    files = find_files([path])
    if len(files) != 1 or not files[0].named:
        raise BadPathError(f"{path}: name one file, and the model after ::")
    return files


def _reports(traced: Traced) -> Sequence[TargetReport]:
    return traced.report.targets if traced.report is not None else ()


def _parameters(report: TargetReport) -> int:
    return report.facts.parameters if report.facts else 0


def _chosen(traced: Traced, name: str, terminal: _Terminal) -> TraceTarget:
    """Return the model that was named, else the largest of those that stand for themselves and were captured best.

    Raises:
        BadPathError: there is none, or none of that name.
    """
    targets = traced.index.targets
    if not targets:
        raise BadPathError(f"{traced.file.shown}: there is no model in this file")
    if name:
        target = traced.index.target(name)
        if target is None:
            known = ", ".join(each.qualname for each in targets)
            raise BadPathError(f"{traced.file.shown}: there is no model {name}; there are {known}")
        return target
    ranks = {"complete": 0, "partial": 1, "not traced": 2}
    own = [each for each in _reports(traced) if not each.enclosed_by]
    best = min(own, key=lambda each: (ranks[each.status], -_parameters(each), -len(each.nodes)), default=None)
    others = [each.qualname for each in own if each is not best and each.nodes]
    if best is None:
        return targets[0]
    if others:
        terminal.err.write(
            f"fxls: this is {best.qualname}; also in the file: {', '.join(others)} (name one after ::)\n"
        )
    return traced.index.target(best.qualname) or targets[0]


def _shown_model(options: Options, report: TargetReport) -> str:
    match options.command, options.format:
        case "code", "plain":
            return report.code
        case "code", _:
            return "\n".join(listing(report)) + "\n"
        case _, "json":
            return graph_view.to_json(report)
        case _, "dot":
            return graph_view.to_dot(report)
        case _, "svg":
            return graph_view.to_svg(report)
        case _:
            return graph_view.to_text(report)


async def _profile(options: Options, tracing: Tracing, traced: Traced, target: TraceTarget, terminal: _Terminal) -> int:
    def tell(progress: ProgressReport) -> None:
        terminal.progress.say(f"{progress.percentage:3d}% {progress.message}")

    report = await tracing.profile(traced, target, options.device, tell)
    terminal.progress.clear()
    if report.status == "failed":
        for problem in report.problems:
            terminal.complain(f"{target.qualname} cannot be measured: {problem.message}")
        return PROBLEMS
    match options.format:
        case "json":
            text = report.data
        case "trace":
            text = report.trace
        case _:
            text = plain(report.markdown)
    terminal.out.write(text if text.endswith("\n") else text + "\n")
    return CLEAN


def _complain_about(traced: Traced, report: TargetReport | None, terminal: _Terminal) -> int:
    """Show the problems of a model, or of the whole file, on the error stream."""
    sources = Sources()
    findings = findings_of(traced, sources).findings
    wanted = [each for each in findings if report is None or report.qualname in each.targets or not each.targets]
    paint = Paint.for_stream(terminal.err, "auto")
    for finding in wanted:
        terminal.err.write(render(finding, sources, paint) + "\n\n")
    if report is not None and not wanted:
        where = f" as a part of {report.enclosed_by}" if report.enclosed_by else ""
        terminal.complain(f"{report.qualname} was traced{where}; there is nothing of its own to show")
    elif report is None:
        terminal.complain(f"{shown(traced.file.path)} could not be traced ({plural(len(wanted), 'problem')})")
    return PROBLEMS

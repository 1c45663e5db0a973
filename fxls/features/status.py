"""What the status bar says: how things are with the document that the person is at."""

from collections.abc import Sequence
from typing import Final

from fxls.features import markdown as md
from fxls.features.problems import problems
from fxls.features.wording import plural
from fxls.lsp_ext import State, Status
from fxls.snapshot import Snapshot
from fxworker.wire import EnvironmentReport, Severity, TargetReport

_RESTRICTED: Final = (
    "The workspace is not trusted, so its models are not run and not traced. "
    "Hints say what is likely to be wrong by the syntax alone."
)
_KEPT: Final = {"network": "no network", "files": "writes to temporary folders only"}
_MISSING: Final = {"network": "this system cannot close the network", "files": "this system cannot close its files"}
_COUNTED: Final[frozenset[Severity]] = frozenset({"error", "warning"})


def status(snapshot: Snapshot | None, *, tracing: bool = False) -> Status:
    """Return the state to show. Without a document there is nothing to say yet."""
    if snapshot is None:
        return Status("starting", "fx …", "fxls is starting")
    found = sum(each.problem.severity in _COUNTED for each in problems(snapshot))
    environment = snapshot.environment
    state, text, tooltip = _verdict(snapshot, found, tracing=tracing)
    return Status(
        state,
        text,
        tooltip,
        python=environment.python if environment is not None else None,
        torch=environment.torch if environment is not None else None,
        milliseconds=_milliseconds(snapshot),
        problems=found,
        devices=environment.devices if environment is not None else None,
    )


def captured(reports: Sequence[TargetReport]) -> int:
    """Return how many models of a file were captured: traced to their ends, or with their inputs, or inside of such."""
    whole = {each.qualname for each in reports if each.status == "complete" or each.captured}
    return sum(each.qualname in whole or each.enclosed_by in whole for each in reports)


def confinement(environment: EnvironmentReport, *, sandboxed: bool) -> str:
    """Return what keeps a file from harm to the rest of the system where it runs, for people."""
    if not environment.sandbox:
        return "no sandbox: this system offers none"
    if not sandboxed:
        return "runs outside of the sandbox"
    kept = ", ".join(words for what, words in _KEPT.items() if what in environment.sandbox)
    missing = "".join(f" ({words})" for what, words in _MISSING.items() if what not in environment.sandbox)
    return f"sandbox: {kept}{missing}"


def _verdict(snapshot: Snapshot, found: int, *, tracing: bool) -> tuple[State, str, str]:
    environment = snapshot.environment
    if not snapshot.trusted:
        return (
            "restricted",
            "fx ⏸ restricted",
            _RESTRICTED,
        )
    if environment is not None and environment.problem:
        return "error", f"fx ! {_short(environment.problem)}", _no_environment(environment.problem)
    if tracing:
        return "tracing", "fx ⟳ tracing", _tooltip(snapshot, found)
    if found:
        return "problems", f"fx ✗ {found}", _tooltip(snapshot, found)
    return "ok", "fx ✓", _tooltip(snapshot, found)


def _milliseconds(snapshot: Snapshot) -> float | None:
    """Return how long the last trace of the document took in the worker."""
    return None if snapshot.report is None else snapshot.report.timings.total


def _short(problem: str) -> str:
    return "no torch" if "no torch" in problem or "No module named 'torch'" in problem else "cannot trace"


def _no_environment(problem: str) -> str:
    return (
        f"**fxls cannot trace:** {md.prose(problem)}\n\n"
        "Choose another interpreter, or install torch there. Until then only the syntactic checks run."
    )


def _tooltip(snapshot: Snapshot, found: int) -> str:
    """Return which Python and torch answer, what they found, and how long it took."""
    lines: list[str] = []
    if snapshot.report is not None:
        models = plural(len(snapshot.report.targets), "model")
        lines.append(f"{models}, {captured(snapshot.report.targets)} captured · {plural(found, 'problem')}")
        lines.extend(
            f"{md.escaped(each.qualname)}: {md.prose(each.cut)}" for each in snapshot.report.targets if each.cut
        )
    elif not snapshot.index.targets:
        lines.append("no model in this file")
    if snapshot.environment is not None:
        python = snapshot.environment
        lines.append(
            f"torch {md.escaped(python.torch)} · Python {md.escaped(python.python)} · {md.code(python.executable)}"
        )
        lines.append(confinement(python, sandboxed=snapshot.sandboxed))
    took = _milliseconds(snapshot)
    if took:
        lines.append(f"last trace {took:.0f} ms")
    return "  \n".join(lines)

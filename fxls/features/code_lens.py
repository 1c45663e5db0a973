"""The line above each model: what was captured, and what can be done with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lsprotocol import types as lsp

from fxls.features.places import PlacedProblem, target_reports
from fxls.features.problems import Tally, problems_by_model
from fxls.features.wording import count, operations, plural, shortened, signature
from fxls.lsp_ext import PROFILE, SHOW_CODE, SHOW_GRAPH
from fxls.snapshot import Snapshot
from fxworker.wire import TargetReport, TraceTarget

_LONGEST: Final = 90


@dataclass(frozen=True, slots=True)
class _Action:
    """A title that runs a command; one without a command is only read.

    `target` is the model that the command is about where that is not the one that the lens stands above.
    """

    title: str
    command: str = ""
    device: str = ""
    target: str = ""


def code_lenses(snapshot: Snapshot) -> list[lsp.CodeLens]:
    """Return the lenses of a document: none where nothing may run, or nothing was answered yet."""
    if not snapshot.settings.code_lens or not snapshot.trusted or snapshot.report is None:
        return []
    reports, found = target_reports(snapshot), problems_by_model(snapshot)
    lenses: list[lsp.CodeLens] = []
    for target in snapshot.index.targets:
        report = reports.get(target.qualname)
        if report is None:
            continue
        place = snapshot.mapper.range(target.name)
        lenses.extend(
            lsp.CodeLens(place, _command(snapshot, target, action))
            for action in _actions(snapshot, target, report, reports.get(report.enclosed_by), found[target.qualname])
        )
    return lenses


def devices(snapshot: Snapshot) -> list[str]:
    """Return the devices that a profile can be made on, the one of the settings first."""
    seen = snapshot.environment.devices if snapshot.environment is not None else ()
    preferred = snapshot.settings.profile_device
    found = list(dict.fromkeys(seen or ("cpu",)))
    return sorted(found, key=lambda device: device != preferred)


def _actions(
    snapshot: Snapshot,
    target: TraceTarget,
    report: TargetReport,
    around: TargetReport | None,
    found: Sequence[PlacedProblem],
) -> list[_Action]:
    """Return the lenses of a model; one that was traced only within another leads to that one's graph and code."""
    actions = [_Action(_title(snapshot, target, report, found))]
    shown = around if around is not None and not report.nodes else report
    if shown.nodes:
        actions.append(_Action("Graph", SHOW_GRAPH, target=shown.qualname))
    if shown.code:
        actions.append(_Action("Code", SHOW_CODE, target=shown.qualname))
    if report.construct is not None and report.facts is not None:
        actions.extend(_Action(f"Profile on {device}", PROFILE, device) for device in devices(snapshot))
    return actions


def _title(snapshot: Snapshot, target: TraceTarget, report: TargetReport, found: Sequence[PlacedProblem]) -> str:
    """Return the verdict on a model in one line."""
    mark = "" if snapshot.fresh else "⟳ "
    if any(each.problem.code == "FX103" for each in found):
        return f"{mark}? no arguments known for {_constructor(snapshot, target)}: give an example…"
    wrong = Tally.of(found, report)
    if report.enclosed_by and not report.nodes:
        where = f" ({report.module_path})" if report.module_path else ""
        verdict = [f"within {report.enclosed_by}{where}", *wrong.facts]
    elif report.status == "not traced":
        verdict = [*(wrong.facts or ["1 problem"]), "not traced"]
    elif wrong.errors:
        verdict = [*wrong.facts, f"{plural(len(report.nodes), 'node')}{'' if report.reached_end else ' so far'}"]
    else:
        verdict = [*_captured(report), *wrong.facts]
    if report.captured and report.guards:
        verdict.append(f"captured with {plural(len(report.guards), 'guard')}")
    good = not wrong.errors and report.status != "not traced" and report.reached_end
    return f"{mark}{'✓' if good else '✗'} {' · '.join(verdict)}"


def _captured(report: TargetReport) -> list[str]:
    """Return the facts about a captured graph: its size, its cost, what it was fed."""
    facts = [plural(len(report.nodes), "node")]
    if report.facts is not None:
        facts.append(count(report.facts.parameters))
        if report.facts.flops:
            facts.append(operations(report.facts.flops))
    fed = signature(report, spaced=False)
    if fed:
        facts.append(shortened(fed, _LONGEST))
    return facts


def _constructor(snapshot: Snapshot, target: TraceTarget) -> str:
    found = snapshot.index.model_class(target.qualname)
    return f"{target.qualname}({', '.join(found.required)})" if found is not None else target.qualname


def _command(snapshot: Snapshot, target: TraceTarget, action: _Action) -> lsp.Command:
    if not action.command:
        return lsp.Command(action.title, "")
    argument = {"uri": snapshot.uri, "target": action.target or target.qualname}
    if action.device:
        argument["device"] = action.device
    return lsp.Command(action.title, action.command, arguments=[argument])

"""Shapes at the ends of assignments, and the times of the last profile at the ends of lines."""

import re
from collections.abc import Iterable
from typing import Final

from lsprotocol import types as lsp

from fxls.discovery.assignments import Assignment
from fxls.features.values import values
from fxls.features.wording import duration, plural, shortened, tensor
from fxls.snapshot import Snapshot
from fxworker.wire import NodeInfo, ProfileReport, Span, TensorInfo

_HOLDS_TENSORS: Final = re.compile(r"\b[a-z]+\d+\[|\bbool\[")
_LONGEST: Final = 60


def inlay_hints(snapshot: Snapshot, range_: lsp.Range) -> list[lsp.InlayHint]:
    """Return the hints of a part of a document, in the order of its text."""
    if not snapshot.settings.inlay_hints or not snapshot.trusted:
        return []
    wanted = snapshot.mapper.span(range_)
    shapes = _shape_hints(snapshot, wanted) if snapshot.report is not None else []
    return sorted([*shapes, *_time_hints(snapshot, wanted)], key=lambda hint: hint.position)


def _shape_hints(snapshot: Snapshot, wanted: Span) -> list[lsp.InlayHint]:
    assignments = {each.value: each for each in snapshot.index.assignments.in_lines(wanted.line, wanted.end_line)}
    if not assignments:
        return []
    returned = _returned(snapshot)
    found = values(snapshot, assignments)
    return [
        hint
        for span in {**found, **returned}
        if span in assignments
        and (hint := _shape_hint(snapshot, assignments[span], found.get(span, []), returned.get(span))) is not None
    ]


def _returned(snapshot: Snapshot) -> dict[Span, set[str]]:
    """Return what calls of submodules gave that is no single tensor, by their places."""
    found: dict[Span, set[str]] = {}
    for target in snapshot.report.targets if snapshot.report is not None else ():
        for each in target.returned:
            span = snapshot.here(each.location)
            if span is not None:
                found.setdefault(span, set()).add(each.value)
    return found


def _shape_hint(
    snapshot: Snapshot, assignment: Assignment, nodes: list[NodeInfo], returned: set[str] | None
) -> lsp.InlayHint | None:
    tensors = [node.tensor for node in nodes if node.tensor is not None]
    if tensors and len(tensors) == len(nodes) and returned is None:
        label = _common(tensors)
        different = list(dict.fromkeys(tensor(each) for each in tensors))
        tooltip = ", ".join(different[:8]) if len(different) > 1 else None
    else:
        whole = _container(returned or {node.value for node in nodes})
        label = shortened(whole, _LONGEST)
        tooltip = whole if label != whole else None
    if not label:
        return None
    position = snapshot.mapper.position(assignment.span.end_line, assignment.span.end_column)
    return lsp.InlayHint(
        position,
        f"‹{label}›",
        kind=lsp.InlayHintKind.Type,
        tooltip=tooltip,
        padding_left=True,
    )


def _common(tensors: list[TensorInfo]) -> str:
    """Return one notation for the shapes of all instances, `*` where they differ; "" where their ranks do."""
    if len({(each.dtype, len(each.shape)) for each in tensors}) > 1:
        return ""
    sizes = [
        str(column[0]) if len(set(column)) == 1 else "*" for column in zip(*(t.shape for t in tensors), strict=True)
    ]
    return f"{tensors[0].dtype}[{', '.join(sizes)}]"


def _container(found: set[str]) -> str:
    """Return the tensors that are in what all instances yield, as they are unpacked; "" where they differ."""
    value = next(iter(found)) if len(found) == 1 else ""
    return value.removeprefix("(").removesuffix(")") if _HOLDS_TENSORS.search(value) else ""


def _time_hints(snapshot: Snapshot, wanted: Span) -> list[lsp.InlayHint]:
    """Return the time that each line took in the last profiles, summed over the nodes that come from it."""
    hints: list[lsp.InlayHint] = []
    for profile in _latest(snapshot.profiles):
        lines: dict[int, list[tuple[float, float, float]]] = {}
        for row in profile.rows:
            if row.location is None or row.location.path != snapshot.path:
                continue
            line = row.location.span.line
            if wanted.line <= line <= wanted.end_line:
                lines.setdefault(line, []).append((row.seconds, row.spread, row.share))
        for line, rows in lines.items():
            seconds = sum(each[0] for each in rows)
            spread = sum(each[1] ** 2 for each in rows) ** 0.5
            share = sum(each[2] for each in rows)
            times = f"{duration(seconds)} ± {duration(spread)}" if spread > 0 else duration(seconds)
            hints.append(
                lsp.InlayHint(
                    snapshot.mapper.end_of_line(line),
                    f"‹{times} · {share:.0%}›",
                    tooltip=f"{profile.target} on {profile.device}, last profile, {plural(len(rows), 'node')}",
                    padding_left=True,
                )
            )
    return hints


def _latest(profiles: Iterable[ProfileReport]) -> list[ProfileReport]:
    """Return the last profile of each model, whatever its device."""
    return list({profile.target: profile for profile in profiles}.values())

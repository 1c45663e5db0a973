"""This profile against an earlier one: only what is larger than chance explains.

A difference counts if it exceeds three standard errors of both measurements together, and two hundredths of the
line's time, and one thousandth of the model's. The last two keep out what is certain but does not matter.
"""

from dataclasses import replace

from fxengine.profiling.folding import Fold, fold_by_line
from fxengine.profiling.results import Change, Place, ProfileResult, Timing

__all__ = ["compare"]

_ERRORS = 3.0
_SMALLEST_RATIO = 0.02
_SMALLEST_SHARE = 0.001


def compare(result: ProfileResult, previous: ProfileResult) -> ProfileResult:
    """Return ``result`` with what changed since ``previous``; the same if that was another model or another device."""
    if (previous.model, previous.environment.device) != (result.model, result.environment.device):
        return result
    earlier = {_stable_key(fold): fold for fold in fold_by_line(previous.nodes)}
    smallest = _SMALLEST_SHARE * previous.graph.seconds
    changes = [_change("the whole model", None, previous.graph, result.graph, smallest)]
    for fold in fold_by_line(result.nodes):
        before = earlier.get(_stable_key(fold))
        if before is not None:
            label = f"line {fold.place.line}" if fold.place is not None else fold.module_path or fold.operations[0]
            changes.append(_change(label, fold.place, before.timing, fold.timing, smallest))
    found = sorted(
        (change for change in changes if change is not None), key=lambda change: -abs(change.after - change.before)
    )
    return replace(result, changes=tuple(found), compared_with=previous.environment.started)


def _stable_key(fold: Fold) -> str:
    """Return what identifies a fold even if lines above it were added: its text rather than its number."""
    text = fold.place.text if fold.place is not None else ""
    return f"{fold.module_path}|{text}|{','.join(fold.operations)}"


def _change(label: str, place: Place | None, before: Timing, after: Timing, smallest: float) -> Change | None:
    difference = abs(after.seconds - before.seconds)
    error = (before.error**2 + after.error**2) ** 0.5
    if difference <= max(_ERRORS * error, _SMALLEST_RATIO * before.seconds, smallest):
        return None
    return Change(label, place, before.seconds, after.seconds, error / before.seconds if before.seconds else 0.0)

"""A model captured with its inputs, although something stops a trace: what its graph would hold for."""

from typing import Final

from fxengine.capturing import Capture, capture
from fxworker.finder import Sources
from fxworker.patience import OutOfPatience, patience
from fxworker.wire import Inputs

__all__ = ["captured_with"]

_PATIENCE: Final = 2.0
"""Seconds after which a capture is given up where it is."""


def captured_with(sources: Sources, inputs: Inputs) -> Capture | None:
    """Return the capture of a model with inputs; None where there is none, or only one of a part. Never raises."""
    try:
        with patience(_PATIENCE):
            # What torch would have to load takes longer than anybody waits.
            captured = capture(sources.root, sources.arguments(inputs.expression), may_load=False)
    except (Exception, OutOfPatience):  # noqa: BLE001 — User code makes the inputs; then nothing is known.
        return None
    return captured if not captured.problems else None

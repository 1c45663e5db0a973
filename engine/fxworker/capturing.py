"""A model captured with its inputs, although something stops a trace: what its graph would hold for."""

from collections.abc import Callable
from typing import Any, Final

from fxengine.capturing import Capture, capture
from fxworker.argument_lists import Arguments
from fxworker.patience import OutOfPatience, patience

__all__ = ["captured_with"]

_PATIENCE: Final = 2.0
"""Seconds after which a capture is given up where it is."""


def captured_with(root: Any, arguments: Callable[[], Arguments]) -> Capture | None:
    """Return the capture of a model with inputs, however far it came; None where there is none. Never raises.

    Args:
        root: The model, or a function.
        arguments: Makes the inputs.
    """
    try:
        with patience(_PATIENCE):
            # What torch would have to load takes longer than anybody waits.
            return capture(root, arguments(), may_load=False)
    except (Exception, OutOfPatience):  # noqa: BLE001 — User code makes the inputs; then nothing is known.
        return None

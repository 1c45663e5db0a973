"""Capturing a model with inputs: one run on tensors without data, which gives the graph and what it holds for.

Whatever follows from the inputs' shapes, types and devices is decided; each such decision is a guard.
"""

from fxengine.capturing.capture import Capture, capture
from fxengine.capturing.guards import InputGuard
from fxengine.capturing.unknown import DataDependent

__all__ = ["Capture", "DataDependent", "InputGuard", "capture"]

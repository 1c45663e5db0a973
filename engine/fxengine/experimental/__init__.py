"""Passes that torch.fx keeps under this name, and that people import from there."""

from fxengine.on_demand import submodules_of

__getattr__ = submodules_of(__name__)

"""Passes for graphs of any operators."""

from fxengine.on_demand import submodules_of

__getattr__ = submodules_of(__name__)

"""Passes by the kind of operators that they are for."""

from fxengine.on_demand import submodules_of

__getattr__ = submodules_of(__name__)

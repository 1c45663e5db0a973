"""Passes that prepare graphs for one backend each."""

from fxengine.on_demand import submodules_of

__getattr__ = submodules_of(__name__)

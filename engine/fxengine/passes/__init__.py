"""Analyses and transformations of graphs, each in a module of its own, named as in torch.fx where torch.fx has one."""

from fxengine.on_demand import submodules_of

__getattr__ = submodules_of(__name__)

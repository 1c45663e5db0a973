"""Tools that passes are made of: parts of graphs as modules, matching, order."""

from fxengine.on_demand import submodules_of
from fxengine.passes.utils.common import HolderModule, compare_graphs, lift_subgraph_as_module

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]

__getattr__ = submodules_of(__name__)

"""Profiling a captured model on the device that a person chooses: node by node, line by line, honestly.

``profile`` measures, ``ProfileResult`` holds what it found, ``to_markdown``, ``to_table``, ``to_trace`` and
``result_to_dict`` write it down. ``model_cost`` and ``graph_costs`` say what a model costs before anything runs.
"""

from fxengine.passes.cost import Cost, graph_costs, model_cost, shapes_and_costs
from fxengine.profiling.devices import available_devices, calibrate, describe_device
from fxengine.profiling.measuring import ProfileCancelled, ProfileOptions, Progress, profile
from fxengine.profiling.reports import to_markdown, to_table, to_trace
from fxengine.profiling.results import NodeProfile, ProfileResult, Timing, result_from_dict, result_to_dict

__all__ = [
    "Cost",
    "NodeProfile",
    "ProfileCancelled",
    "ProfileOptions",
    "ProfileResult",
    "Progress",
    "Timing",
    "available_devices",
    "calibrate",
    "describe_device",
    "graph_costs",
    "model_cost",
    "profile",
    "result_from_dict",
    "result_to_dict",
    "shapes_and_costs",
    "to_markdown",
    "to_table",
    "to_trace",
]

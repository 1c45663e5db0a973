"""Models that are really run on the inputs that were inferred for them."""

import torch

from fxengine.inputs import infer_inputs, materialize


def fed(root, graph=None, budget_s=60.0):
    """The inferred inputs, after eager really ran on them."""
    inferred = infer_inputs(root, graph, budget_s=budget_s)
    assert inferred.complete, inferred.failures
    args, kwargs = materialize(inferred)
    with torch.no_grad():
        root(*args, **kwargs)
    return inferred

"""Inputs that were found before: what the model itself takes fits, whatever stops its graph."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from fxengine.graph import Graph
from fxworker.feeding import Feeder


class Net(nn.Module):
    def forward(self, x, mask=None):
        return x if mask is None else x + mask


def fed(hint, *operands):
    """Return what a search that is not to be made again leaves of inputs, for a graph that multiplies two values."""
    graph, net = Graph(), Net().to("meta")
    values = {"x": graph.placeholder("x"), "mask": graph.placeholder("mask", default_value=None)}
    graph.output(graph.call_function(torch.matmul, tuple(values[each] for each in operands)))
    diagnosis = SimpleNamespace(root=net, graph=graph, complete=False, stand_ins=frozenset())

    def arguments(expression):
        return eval(f"(lambda *args, **kwargs: (args, kwargs))({expression})", {"torch": torch})

    sources = SimpleNamespace(
        target=SimpleNamespace(inputs=()), root=net, hint=hint, search=False, unknown=None, arguments=arguments,
        on_guess=lambda: True,
    )  # fmt: skip
    return Feeder(sources, SimpleNamespace(found=None, in_vain=False), diagnosis).feed().inputs


@pytest.mark.parametrize(
    ("hint", "operands", "fits"),
    [
        ("torch.randn(2, 4)", ("x", "x"), True),
        ("torch.randn(2, 4), torch.randn(3, 3)", ("x", "x"), False),
        ("torch.randn(2, 4)", ("x", "mask"), False),
    ],
)
def test_inputs_that_stop_the_graph_and_not_the_model_are_taken(hint, operands, fits):
    """The second are none that the model takes, and with the third the graph wants what is left out."""
    found = fed(hint, *operands)
    assert (found is not None and found.expression == hint) == fits


ASKING = """import torch
from torch import nn
from torch.fx._symbolic_trace import is_fx_tracing


def gated(x, y):
    # As what torch compiles does.
    if is_fx_tracing():
        raise RuntimeError("this is not supported")
    return x * y


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 16)

    def forward(self, x):
        return gated(*self.fc(x).chunk(2, dim=-1))
"""


def test_what_asks_torch_whether_it_is_traced_is_not_where_inputs_are_looked_for(worker, model):
    (target,) = worker.trace(model(ASKING)).targets
    assert target.inputs.expression == "torch.randn(2, 8)"
    assert "FX202" not in [each.code for each in target.problems]

"""What models need, from shapes alone."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody's name for it.
from torch import nn

from fxengine._symbolic_trace import symbolic_trace
from fxengine.passes.cost import Cost
from fxengine.passes.cost_analysis import analyse_costs
from tests.support import corpus


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 32)
        self.down = nn.Linear(32, 8, bias=False)
        self.register_buffer("shift", torch.ones(8))

    def forward(self, x):
        return (self.down(F.relu(self.up(x), inplace=True)) + self.shift).view(-1) + x.view(-1)


def costs_by_name(analysis):
    return {each.node.name: each for each in analysis.nodes}


def test_operations_traffic_and_parameters_of_each_call():
    analysis = analyse_costs(Net(), torch.empty(4, 8, device="meta"))
    up, down = (costs_by_name(analysis)[name] for name in ("up", "down"))
    assert up.cost == Cost(flops=4 * 32 * (2 * 8 + 1), bytes=4 * (4 * 8 + 32 * 8 + 32 + 4 * 32), macs=4 * 32 * 8)
    assert down.cost.flops == 2 * down.cost.macs == 2 * 4 * 8 * 32
    assert (up.parameters, down.parameters) == (32 * 8 + 32, 32 * 8)
    assert up.intensity == up.cost.flops / up.cost.bytes
    assert analysis.parameters == 32 * 8 * 2 + 32
    assert analysis.parameter_bytes == 4 * (analysis.parameters + 8)
    assert analysis.total.macs == 2 * 4 * 8 * 32
    assert analysis.shapes.complete


def test_memory_is_freed_after_the_last_use_and_shared_by_views_and_changes_in_place():
    analysis = analyse_costs(Net(), torch.empty(4, 8, device="meta"))
    of = costs_by_name(analysis)
    small, large = 4 * 4 * 8, 4 * 4 * 32
    assert of["up"].live_bytes == small + large
    assert of["relu"].result_bytes == 0
    assert of["relu"].live_bytes == small + large
    assert of["down"].live_bytes == 2 * small + large
    assert of["view"].result_bytes == 0
    assert (analysis.peak_bytes, analysis.peak_node.name) == (2 * small + large, "down")


def test_a_model_without_memory_is_analysed():
    with torch.device("meta"):
        huge = nn.Sequential(nn.Linear(100_000, 100_000), nn.Linear(100_000, 100_000))
    analysis = analyse_costs(huge, torch.empty(1, 100_000, device="meta"))
    assert analysis.parameters == 2 * (10**10 + 10**5)
    assert analysis.total.macs == 2 * 10**10


def test_the_roofline_is_the_slower_of_arithmetic_and_memory():
    analysis = analyse_costs(nn.Linear(8, 4, bias=False), torch.empty(2, 8, device="meta"))
    flops, moved = 2 * 2 * 8 * 4, 4 * (16 + 32 + 8)
    fast = analysis.roofline(flops=1e12, bandwidth=1e3)
    assert (fast.seconds, fast.memory_bound) == (moved / 1e3, 1.0)
    slow = analysis.roofline(flops=1e3, bandwidth=1e12)
    assert (slow.seconds, slow.memory_bound) == (flops / 1e3, 0.0)
    assert sum(slow.by_node.values()) == slow.seconds
    with pytest.raises(ValueError, match="positive"):
        analysis.roofline(flops=0, bandwidth=1)


def test_what_cannot_be_run_on_shapes_is_said():
    def forward(x):
        return torch.relu(x) + x.nonzero().sum()

    analysis = analyse_costs(symbolic_trace(forward), torch.empty(3))
    assert not analysis.shapes.complete
    assert [each.node.name for each in analysis.nodes] == ["relu"]


def test_the_table_has_a_line_for_each_call_and_one_for_all():
    lines = analyse_costs(Net(), torch.empty(4, 8)).table(limit=2).splitlines()
    assert [line.split()[0] for line in lines] == ["node", "up", "down", "all"]


KNOWN = {
    "resnet50": (4.09e9, 25.557e6, 224),
    "resnet18": (1.814e9, 11.690e6, 224),
    "vit_b_16": (17.564e9, 86.568e6, 224),
    "mobilenet_v2": (0.301e9, 3.505e6, 224),
    "vgg16": (15.47e9, 138.358e6, 224),
    "convnext_tiny": (4.456e9, 28.589e6, 224),
    "densenet121": (2.834e9, 7.979e6, 224),
    "swin_t": (4.491e9, 28.288e6, 224),
    "inception_v3": (5.713e9, 27.161e6, 299),
}
"""What torchvision's pages give: multiplications with an addition, parameters, and the side of the image."""


@pytest.mark.corpus
@pytest.mark.parametrize("name", KNOWN)
def test_real_models_cost_what_is_known_of_them(name):
    corpus.prepare()
    import torchvision

    macs, parameters, side = KNOWN[name]
    with torch.device("meta"):
        model = (
            torchvision.models.get_model(name, init_weights=False)
            if name == "inception_v3"
            else torchvision.models.get_model(name)
        )
    analysis = analyse_costs(model.eval(), torch.empty(1, 3, side, side, device="meta"))
    assert analysis.shapes.complete
    assert analysis.total.macs == pytest.approx(macs, rel=0.01)
    assert sum(each.numel() for each in model.parameters()) == pytest.approx(parameters, rel=1e-3)

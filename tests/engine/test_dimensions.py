"""Where the sizes come from that do not fit: the layer, the input or the operation that decided each."""

import pytest
import torch
from torch import nn

import fxengine
from fxengine.capturing.dimensions import misfit, of_other_layers
from fxengine.passes.shape_prop import PartialShapeProp


class Net(nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.mode = mode
        self.conv = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(16 * 8 * 8, 10)
        self.fc1 = nn.Sequential(nn.Linear(32, 64), nn.GELU())
        self.fc2 = nn.Linear(128, 4)
        self.pos = nn.Parameter(torch.zeros(1, 9, 64))
        self.gate: nn.Module = nn.GRU(48, 24, batch_first=True)

    def forward(self, x):
        return getattr(self, f"do_{self.mode}")(x)

    def do_flat(self, x):
        return self.head(self.conv(x).relu().flatten(1))

    def do_norm(self, x):
        return self.norm(torch.sigmoid(self.conv(x)) * 2)

    def do_channels(self, x):
        return self.conv(x.permute(0, 3, 1, 2))

    def do_linear(self, x):
        return self.fc2(self.fc1(x).transpose(1, 2).transpose(1, 2))

    def do_add(self, x):
        return self.fc1(x) + self.pos

    def do_matmul(self, x):
        return self.fc1(x) @ x

    def do_cat(self, x):
        y = self.fc1(x)
        return torch.cat([y, x], dim=1)

    def do_gru(self, x):
        return self.gate(x)

    def do_functional(self, x):
        return nn.functional.linear(x, self.fc1[0].weight.t())

    def do_rows(self, x):
        return self.conv(x).view(-1, 16 * 8 * 8)


class Appended(nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = []
        for size in (16, 32):
            self.scales.append(nn.Sequential(nn.Conv2d(3, size, 1), nn.GroupNorm(4, 8)))
        self.scales = nn.ModuleList(self.scales)

    def forward(self, x):
        return self.scales[0](x)


class Gated(nn.Module):
    def __init__(self, kind):
        super().__init__()
        if kind == "flat":
            self.body = nn.Sequential(nn.Conv1d(4, 8, 1), nn.BatchNorm1d(4))
        else:
            self.body = nn.Sequential(nn.Conv2d(4, 8, 1), nn.BatchNorm2d(4))
        self.inner = nn.Linear(4, 16)
        self.outer = nn.Linear(16, 4)
        self.kind = kind

    def forward(self, x):
        if self.kind != "gated":
            return self.body(x)
        x, gates = self.inner(x).chunk(2, dim=-1)
        return self.outer(x * gates.sigmoid())


FC1 = "`nn.Linear(32, 64)` (line 19)"


@pytest.mark.parametrize(
    ("mode", "shape", "found"),
    [
        (
            "flat",
            (2, 3, 32, 32),
            (
                "4096 is what `self.conv(x).relu().flatten(1)` makes of 16 × 16 × 16 (line 28)",
                "1024 is in_features of `self.head = nn.Linear(16 * 8 * 8, 10)` (line 18)",
            ),
        ),
        (
            "norm",
            (2, 3, 8, 8),
            (
                "16 is the output of `self.conv = nn.Conv2d(3, 16, 3, stride=2, padding=1)` (line 16)",
                "8 is num_features of `self.norm = nn.BatchNorm2d(8)` (line 17)",
            ),
        ),
        (
            "channels",
            (2, 8, 8, 5),
            (
                "5 is dimension 3 of the input `x` (line 24)",
                "3 is in_channels of `self.conv = nn.Conv2d(3, 16, 3, stride=2, padding=1)` (line 16)",
            ),
        ),
        (
            "linear",
            (2, 7, 32),
            (f"64 is the output of {FC1}", "128 is in_features of `self.fc2 = nn.Linear(128, 4)` (line 20)"),
        ),
        (
            "add",
            (2, 7, 32),
            ("7 is dimension 1 of the input `x` (line 24)", "9 is dimension 1 of `self.pos` (line 21)"),
        ),
        ("matmul", (2, 7, 32), (f"64 is the output of {FC1}", "7 is dimension 1 of the input `x` (line 24)")),
        (
            "cat",
            (2, 7, 32),
            (f"64 is the output of {FC1}", f"32 is dimension 2 of the input `x`, in_features of {FC1}"),
        ),
        (
            "gru",
            (2, 7, 32),
            (
                "32 is dimension 2 of the input `x` (line 24)",
                "48 is input_size of `self.gate: nn.Module = nn.GRU(48, 24, batch_first=True)` (line 22)",
            ),
        ),
        (
            "functional",
            (2, 32, 5),
            ("5 is dimension 2 of the input `x` (line 24)", "64 is dimension 0 of `self.fc1.0.weight` (line 19)"),
        ),
        (
            "rows",
            (2, 3, 20, 20),
            (
                "1600 is what each of the batch has, 16 × 10 × 10 (line 56)",
                "1024 is what is asked for (line 56)",
            ),
        ),
    ],
)
def test_sizes_are_followed_to_where_they_were_decided(mode, shape, found):
    net = Net(mode)
    traced = fxengine.symbolic_trace(net)
    report = PartialShapeProp(traced).propagate_partial(torch.empty(shape, device="meta"))

    sizes = [str(each) for each in misfit(report.failures[0].node, net)]

    assert sizes == list(found)


def test_nothing_is_said_where_it_is_not_known_which_sizes_do_not_fit():
    net = nn.Sequential(nn.Unflatten(1, (3, 5)))
    traced = fxengine.symbolic_trace(net)
    report = PartialShapeProp(traced).propagate_partial(torch.empty(2, 16, device="meta"))

    assert misfit(report.failures[0].node, net) == ()


def test_a_norm_of_groups_that_is_given_no_batch_is_not_at_odds_with_what_comes_in():
    net = nn.Sequential(nn.Conv2d(3, 8, 1), nn.AdaptiveAvgPool2d(1), nn.GroupNorm(4, 8))
    report = PartialShapeProp(fxengine.symbolic_trace(net)).propagate_partial(torch.empty(3, 8, 8, device="meta"))

    assert misfit(report.failures[0].node, net) == ()


def test_a_layer_in_a_list_that_is_filled_later_is_where_it_is_put_into_that():
    net = Appended()
    traced = fxengine.symbolic_trace(net)
    report = PartialShapeProp(traced).propagate_partial(torch.empty(2, 3, 8, 8, device="meta"))

    put = "`self.scales.append(nn.Sequential(nn.Conv2d(3, size, 1), nn.GroupNorm(4, 8)))` (line 64)"
    assert [str(each) for each in misfit(report.failures[0].node, net)] == [
        f"16 is the output of {put}",
        f"8 is num_channels of {put}",
    ]


def test_of_several_branches_that_is_shown_which_makes_such_a_layer():
    net = Gated("square")
    report = PartialShapeProp(fxengine.symbolic_trace(net)).propagate_partial(torch.empty(2, 4, 8, 8, device="meta"))

    assert [str(each) for each in misfit(report.failures[0].node, net)] == [
        "8 is the output of `nn.Conv2d(4, 8, 1)` (line 77)",
        "4 is num_features of `nn.BatchNorm2d(4)` (line 77)",
    ]


def test_equal_parts_of_what_a_layer_makes_are_its_own():
    net = Gated("gated")
    report = PartialShapeProp(fxengine.symbolic_trace(net)).propagate_partial(torch.empty(2, 3, 4, device="meta"))

    sizes = misfit(report.failures[0].node, net)

    assert [str(each) for each in sizes] == [
        "8 is one of 2 parts of 16, the output of `self.inner = nn.Linear(4, 16)` (line 78)",
        "16 is in_features of `self.outer = nn.Linear(16, 4)` (line 79)",
    ]
    assert all(each.of_layer for each in sizes)
    assert of_other_layers(sizes, net) == (8, 16)


class Skipped(nn.Module):
    def forward(self, x, kept):
        return torch.cat([x, kept[1][0]], dim=1)


def test_an_item_of_an_input_has_its_size_from_that():
    x, other = torch.empty(2, 3, 8, device="meta"), torch.empty(2, 3, 9, device="meta")
    report = PartialShapeProp(fxengine.symbolic_trace(Skipped())).propagate_partial(x, (x, (other, x)))

    sizes = misfit(report.failures[0].node, Skipped())

    assert [each.meaning for each in sizes] == [
        "dimension 2 of the input `x`",
        "dimension 2 of an item of the input `kept`",
    ]

"""What a report says of several problems: places, what inputs decide, who meets them, the way into other files."""

from collections.abc import Callable
from pathlib import Path

from tests.worker.harness import Worker, marked, of

HELPERS = """\
def inner(x):
    if x.sum() > 0:
        return x
    return -x


def outer(x):
    return inner(x) + 1
"""
NET = """\
import torch
from torch import nn
from helpers_of_net import outer


class Block(nn.Module):
    def forward(self, x):
        if x.shape[0] > 4:
            x = x + 1
        if x.max() > 1:
            x = x / 2
        return outer(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


Net()(torch.randn(2, 8))
"""


def test_several_problems_are_reported_each_with_what_is_known_of_it(
    worker: Worker, model: Callable[..., Path]
) -> None:
    model(HELPERS, "helpers_of_net.py")
    net = of(worker.trace(model(NET)), "Net")
    static, branch, inside = net.problems
    assert [marked(NET, each.location) for each in net.problems] == ["x.shape[0] > 4", "x.max() > 1", "outer(x)"]
    assert all(each.instances == ("layers.0", "layers.1", "layers.2") for each in net.problems)
    assert (static.severity, static.kind, static.value) == ("warning", "metadata", "False")
    assert (branch.severity, branch.kind, branch.value) == ("error", "data-dependent", "")
    assert (net.status, net.reached_end, net.cut) == ("partial", True, "")
    assert ("x.shape[0] > 4", "False") in [(each.expression, each.value) for each in net.guards]
    # The last step of the way is the expression itself, which the message names: it is not said twice.
    assert [each.message for each in branch.related][-1] == "x.max()"
    assert branch.explanation.endswith("→ x.max()")
    assert inside.message.endswith("in `inner` (helpers_of_net.py:2)")
    assert [(each.location.path.rpartition("/")[2], each.message) for each in inside.related][-2:] == [
        ("helpers_of_net.py", "called here, in `outer`"),
        ("helpers_of_net.py", "it happens here, in `inner`"),
    ]


MANY = """\
def limited(x, low, high):
    if low:
        x = x.clamp_min(0)
    if high:
        x = x.clamp_max(1)
    return x


def scaled(x, low):
    return x * 2 if low else x
"""
CALLS = """\
from torch import nn
from many_questions import limited, scaled


class Net(nn.Module):
    def forward(self, x, low=False):
        return limited(scaled(x, low), low, low)
"""


def test_what_one_call_meets_in_one_function_is_one_problem(worker: Worker, model: Callable[..., Path]) -> None:
    model(MANY, "many_questions.py")
    first, second = of(worker.trace(model(CALLS)), "Net").problems
    assert [marked(CALLS, each.location) for each in (first, second)] == [
        "scaled(x, low)",
        "limited(scaled(x, low), low, low)",
    ]
    assert first.message.endswith("in `scaled` (many_questions.py:10)")
    assert second.message.endswith("in `limited` (many_questions.py:2, 4)")
    assert [each.location.span.line for each in second.related if each.message.startswith("it happens")] == [2, 4]


def test_a_way_through_many_blocks_names_each_place_once(worker: Worker, model: Callable[..., Path]) -> None:
    steps = "\n".join(f"        x = x.add({number})" for number in range(20))
    text = f"""from torch import nn


class Block(nn.Module):
    def forward(self, x):
        x = x.relu()
        return x.sigmoid()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(20)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        if x.max() > 1:
            return x
{steps}
        return x + 1 if x.min() > 1 else x
"""
    first, second = of(worker.trace(model(text)), "Net").problems
    assert [each.message for each in first.related] == ["x", "x.relu()", "x.sigmoid()", "x.max()"]
    said = [each.message for each in second.related]
    assert (len(said), said[0], said[-1]) == (12, "x", "x.min()")

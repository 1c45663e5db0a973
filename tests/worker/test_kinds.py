"""What is taken for one value and is none is told where it is taken, with any inputs and arguments."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from fxengine import symbolic_trace
from fxengine.passes.shape_prop import ShapeFailure
from fxworker.kinds import mistaken
from fxworker.wire import MADE_HERE
from tests.worker.harness import Worker, marked, of

TEXT = """import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self{}):
        super().__init__()
        self.lstm = nn.LSTM({}, 16, batch_first=True)
        self.gru = nn.GRU({}, 16, batch_first=True)
        self.cell = nn.LSTMCell({}, 16)
        self.attend = nn.MultiheadAttention({}, 2, batch_first=True)
        self.pool = nn.MaxPool1d(2, return_indices=True)
        self.parts = nn.ModuleList([nn.Linear({}, 16)])
        self.fc = nn.Linear(16, 4)

    def forward(self, x):
        {}
"""
WAYS = ["", ", dim, classes"]


@pytest.mark.parametrize("way", WAYS, ids=["no arguments", "inferred arguments"])
@pytest.mark.parametrize(
    ("body", "place", "said"),
    [
        (
            "y = self.lstm(x)\n        return self.fc(y)",
            "self.fc(y)",
            "the states `(h, c)`, and `self.fc(y)` takes them for one value: say which, as `self.lstm(x)[0]`",
        ),
        ("return self.fc(self.gru(x))", "self.fc(self.gru(x))", "`self.gru(x)` returns the output and the last state"),
        ("y = self.gru(x)\n        return self.fc(y[:, -1])", "y[:, -1]", "takes them for one value"),
        ("y = self.lstm(x)\n        return y.contiguous()", "y.contiguous()", "takes them for one value"),
        (
            "y = self.attend(x, x, x)\n        return x + y",
            "x + y",
            "`self.attend(x, x, x)` returns the output and the w",
        ),
        ("y, h, c = self.lstm(x)\n        return self.fc(y)", "y, h, c", "and is taken apart into more values"),
        (
            "y = x.max(dim=1)\n        return F.relu(y)",
            "F.relu(y)",
            "`x.max(dim=1)` returns values and indices, and `F.relu(y)` takes them for one value",
        ),
        (
            "y = [each(x).max(dim=1) for each in self.parts]\n        return torch.cat(y, dim=1)",
            "torch.cat(y, dim=1)",
            "returns values and indices, and `torch.cat(y, dim=1)` takes them for one value",
        ),
        (
            "y = self.lstm(x)[0]\n        return self.fc(y.contiguous)",
            "self.fc(y.contiguous)",
            "`self.fc(y.contiguous)` is given the method `y.contiguous` itself: call it, `y.contiguous(…)`",
        ),
        (
            "x = self.lstm(x)[0]\n        return F.relu(torch.tanh(self.fc(x)) + self.fc)",
            "torch.tanh(self.fc(x)) + self.fc",
            "is given the part `self.fc` itself, and not what it makes of a value: call it",
        ),
        (
            "return self.parts(x)",
            "self.parts(x)",
            "`self.parts` is an `nn.ModuleList`, which computes nothing itself: call its parts",
        ),
        (
            "x = self.lstm(x)[0]\n        return x + self.fc()",
            "self.fc()",
            "`self.fc()` is called otherwise than it can be: missing 1 required positional argument: 'input'",
        ),
    ],
)
def test_what_is_no_single_value_is_told_each_time(
    body: str, place: str, said: str, way: str, worker: Worker, model: Callable[..., Path]
) -> None:
    text = TEXT.format(way, *["dim" if way else "8"] * 5, body)
    path = model(text)
    for _ in range(2):
        (problem,) = of(worker.trace(path), "Net").problems
        assert (problem.code, problem.severity) == ("FX201", "warning")
        assert marked(text, problem.location) == place
        assert said in problem.message


STAND_IN = """from torch import nn


class Net(nn.Module):
    def __init__(self, sensitivity_model, cascades):
        super().__init__()
        self.sensitivity_model = sensitivity_model
        self.cascades = nn.ModuleList(cascades)

    def forward(self, kspace, mask):
        maps = self.sensitivity_model(kspace, mask)
        for cascade in self.cascades:
            kspace = cascade(kspace, maps)
        return kspace
"""


def test_a_part_that_is_handed_in_may_be_called_with_anything(worker: Worker, model: Callable[..., Path]) -> None:
    assert not [each for each in of(worker.trace(model(STAND_IN)), "Net").problems if each.code == "FX201"]


def test_a_state_that_only_another_layer_has_is_told(worker: Worker, model: Callable[..., Path]) -> None:
    text = TEXT.format("", *["8"] * 5, "y, (h, c) = self.gru(x)\n        return self.fc(y)")
    (problem,) = of(worker.trace(model(text)), "Net").problems
    assert marked(text, problem.location) == "(h, c)"
    assert problem.message.endswith("the output and the last state: an `nn.GRU` has no states `(h, c)`")


@pytest.mark.parametrize(
    "body",
    [
        "y, (h, c) = self.lstm(x)\n        return self.fc(y)",
        "y = self.lstm(x)\n        return self.fc(y[0])",
        "return self.fc(self.gru(x)[0]), self.parts",
        "return x.max(dim=1).values.relu()",
        "return self.parts[0](x)",
    ],
)
@pytest.mark.parametrize("way", WAYS, ids=["no arguments", "inferred arguments"])
def test_what_says_which_value_it_means_is_not(way: str, body: str, worker: Worker, model: Callable[..., Path]) -> None:
    text = TEXT.format(way, *["dim" if way else "8"] * 5, body)
    assert all(each.code != "FX201" for each in of(worker.trace(model(text)), "Net").problems)


PARTS = """import torch
import torch.nn.functional as F
from torch import nn


class Down(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        y = self.fc(x)
        return y.relu(), y


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = Down()
        self.fc = nn.Linear(8, 4)
        self.parts = [nn.Linear(8, 8), nn.ReLU()]

    def forward(self, x):
        BODY
"""


@pytest.mark.parametrize(
    ("body", "code", "place", "said"),
    [
        (
            "return F.relu(self.fc)",
            "FX009",
            "F.relu(self.fc)",
            "`F.relu(self.fc)` is given the part `self.fc` itself, and not what it makes of a value: call it",
        ),
        (
            "y = self.down(x)\n        return torch.cat([x, y], dim=1)",
            "FX009",
            "torch.cat([x, y], dim=1)",
            "`y` is a tuple of 2, and `torch.cat([x, y], dim=1)` takes it for one value: say which of its values",
        ),
        (
            "return self.fc(self.parts(x))",
            "FX009",
            "self.parts(x)",
            "`self.parts` is a list of modules, which computes nothing itself",
        ),
        ("y = self.down(x)\n        return 0.5 * y", "FX009", "0.5 * y", "`y` is a tuple of 2, and `0.5 * y` takes it"),
        (
            "y = self.down(x)\n        return self.fc(y)",
            "FX201",
            "self.fc(y)",
            "`self.fc(y)` is given 2 values and takes one: say which of them",
        ),
    ],
)
def test_what_the_code_itself_makes_of_several_values_is_told_where_one_is_wanted(
    body: str, code: str, place: str, said: str, worker: Worker, model: Callable[..., Path]
) -> None:
    text = PARTS.replace("BODY", body)
    (problem,) = of(worker.trace(model(text)), "Net").problems
    assert (problem.code, marked(text, problem.location)) == (code, place)
    assert problem.message.startswith(said)
    made = [marked(text, each.location) for each in problem.related if each.message == MADE_HERE]
    assert made == (["self.down(x)"] if code == "FX009" and "tuple" in said else [])


class Taking(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: list[torch.Tensor], y: torch.Tensor) -> torch.Tensor:
        return self.fc(x[0]) + self.fc(y.max(1))  # pyright: ignore[reportArgumentType] - it is none, which is to be told.


def test_what_is_a_part_of_an_input_may_be_of_another_kind() -> None:
    root = Taking()
    module = symbolic_trace(root)
    taken, found = (each for each in module.graph.nodes if each.op == "call_module")
    for node in (taken, found):
        node.all_input_nodes[0].meta["type"] = tuple
    error = TypeError("linear(): argument 'input' (position 1) must be Tensor, not tuple")
    told = [mistaken(ShapeFailure(each, error, (), needs_data=False), root) for each in (taken, found)]
    assert [each is not None for each in told] == [False, True]

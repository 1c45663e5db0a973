"""One mistake is told once, where it is, whatever hides it; what only follows from how a model was built is not."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.worker.harness import Worker, marked, of

ATTENTION = """from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 64)
        self.query = nn.Linear(64, 64)
        self.key = nn.Linear(64, 64)
        self.head = nn.Linear(64, 4)

    def forward(self, tokens, mask=None):
        x = self.embed(tokens)
        b, t, c = x.shape
        q = self.query(x).view(b, t, 4, 16).transpose(1, 2)
        k = self.key(x).view(b, t, 4, 16).transpose(1, 2)
        scores = q @ k.transpose(-2, -1)
        if mask is not None:
            scores = scores.masked_fill(mask[:, None, None, :] == 0, -1e9)
        x = (scores.softmax(-1) @ k).transpose(1, 2).contiguous().view(b, t, c)
        return self.head(x)
"""

SCORES = """from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 32), nn.ReLU())
        self.value = nn.Linear(32, 1)
        self.advantage = nn.Linear(32, 6)

    def forward(self, state):
        x = self.body(state)
        advantage = self.advantage(x)
        return self.value(x) + advantage - advantage.mean(dim=1, keepdim=True)
"""

PICTURES = """from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(4))
        self.head = nn.Linear(8 * 4 * 4, 10)

    def forward(self, picture):
        x = self.conv(picture)
        return self.head(x.view(x.size(0), -1))
"""

SERIES = """import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, dilation):
        super().__init__()
        self.first = nn.Conv1d(16, 16, 3, padding=dilation, dilation=dilation)
        self.second = nn.Conv1d(16, 16, 3, padding=dilation, dilation=dilation)
        self.norm = nn.BatchNorm1d(16)

    def forward(self, x):
        return torch.relu(self.norm(self.second(self.first(x))) + x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = nn.Conv1d(5, 16, 1)
        self.blocks = nn.Sequential(Block(1), Block(2), Block(4))

    def forward(self, x):
        return self.blocks(self.enter(x.transpose(1, 2))).mean(2)
"""

CELLS = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 24)
        self.context = nn.Linear(24, 40)
        self.rnn = nn.GRU(24 + 40, 32, batch_first=True)

    def forward(self, tokens):
        x = self.embed(tokens)
        return self.rnn(torch.cat((x, self.context(x)), dim=2))[0]
"""

MISTAKES = [
    (ATTENTION, "q @ k.transpose(-2, -1)", "q @ k", "q @ k"),
    (ATTENTION, "k.transpose(-2, -1)", "k.transpose(1, 2)", "q @ k.transpose(1, 2)"),
    (ATTENTION, ".contiguous()", "", "(scores.softmax(-1) @ k).transpose(1, 2).view(b, t, c)"),
    (SCORES, ", keepdim=True", "", "self.value(x) + advantage - advantage.mean(dim=1)"),
    (PICTURES, "x.view(x.size(0), -1)", "x.view(-1)", "self.head(x.view(-1))"),
    (SERIES, "self.second = nn.Conv1d(16, 16, 3, padding=dilation,", "self.second = nn.Conv1d(16, 16, 3,",
     "self.norm(self.second(self.first(x))) + x"),
    (SERIES, "BatchNorm1d", "BatchNorm2d", "self.norm(self.second(self.first(x)))"),
    (CELLS, "24 + 40", "24", "self.rnn(torch.cat((x, self.context(x)), dim=2))"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "right", "wrong", "place"), MISTAKES)
def test_a_mistake_is_told_once_where_it_is(
    text: str, right: str, wrong: str, place: str, worker: Worker, model: Callable[..., Path]
) -> None:
    mistaken = text.replace(right, wrong)
    path = model(mistaken)
    for _ in range(2):
        (problem,) = [each for target in worker.trace(path).targets for each in target.problems]
        assert (problem.code, problem.severity) == ("FX201", "warning")
        assert marked(mistaken, problem.location) == place


@pytest.mark.parametrize("text", [ATTENTION, SCORES, PICTURES, SERIES, CELLS])
def test_nothing_is_told_of_what_is_right(text: str, worker: Worker, model: Callable[..., Path]) -> None:
    target = of(worker.trace(model(text)), "Net")
    assert not target.problems
    assert target.inputs is not None


LOST = """from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Linear(12, 4)
        self.up = nn.Linear(4, 12)

    def shrunk(self, x):
        h = self.down(x)
        h = h.relu()

    def forward(self, x):
        return self.up(self.shrunk(x))
"""


def test_a_return_that_is_missing_is_told_and_not_what_fails_for_want_of_it(
    worker: Worker, model: Callable[..., Path]
) -> None:
    path = model(LOST)
    for _ in range(2):
        (problem,) = of(worker.trace(path), "Net").problems
        assert (problem.code, problem.severity, marked(LOST, problem.location)) == ("FX305", "warning", "h = h.relu()")


def test_a_device_that_is_not_there_says_nothing_of_inputs(worker: Worker, model: Callable[..., Path]) -> None:
    text = ATTENTION.replace("from torch", "import torch\nfrom torch", 1).replace(
        "self.embed(tokens)", 'self.embed(tokens) + self.embed(torch.arange(tokens.size(1), device="cuda"))'
    )
    assert all(each.code != "FX202" for each in of(worker.trace(model(text)), "Net").problems)


PARTS = """from torch import nn


class Decoder(nn.Module):
    def __init__(self, attention, dim):
        super().__init__()
        self.attention = attention
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, memory, mask=None, step=0, unused=None):
        return self.norm(x + self.attention(x, memory, memory, mask)[0])
"""


def test_what_is_handed_to_a_part_that_was_made_up_is_used(worker: Worker, model: Callable[..., Path]) -> None:
    unused = [each.message for each in of(worker.trace(model(PARTS)), "Decoder").problems if each.code == "FX305"]
    assert all("`memory`" not in each and "`mask`" not in each for each in unused)


CHOSEN = """from torch import nn


class Net(nn.Module):
    def __init__(self, scale=3):
        super().__init__()
        self.scale = scale
        self.fc = nn.Linear(8, 8)

    def forward(self, x, scale=None):
        if scale is not None and scale != self.scale:
            raise ValueError(f"built for {self.scale}, not for {scale}")
        return self.fc(x)
"""


def test_nothing_is_concluded_from_an_input_that_is_left_out_where_only_one_that_is_given_is_asked(
    worker: Worker, model: Callable[..., Path]
) -> None:
    (problem,) = of(worker.trace(model(CHOSEN)), "Net").problems
    assert (problem.code, problem.value) == ("FX001", "")


INSIDE = """from torch import nn


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc = nn.Linear(dim, dim)

    def forward(self, x):
        y = self.fc(x)


class Net(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.layers = nn.ModuleList([Layer(dim) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return self.norm(x)
"""


def test_so_is_a_missing_return_of_a_part_of_what_was_built_with_made_up_arguments(
    worker: Worker, model: Callable[..., Path]
) -> None:
    (problem,) = of(worker.trace(model(INSIDE)), "Net").problems
    assert (problem.code, problem.severity, marked(INSIDE, problem.location)) == ("FX305", "warning", "y = self.fc(x)")
    assert "return y" in problem.hint


FOCAL = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, criterion):
        super().__init__()
        self.criterion = criterion
        self.reduction = criterion.reduction

    def forward(self, prediction, target):
        loss = self.criterion(prediction, target)
        loss *= torch.sigmoid(prediction)
        return loss.mean()
"""


def test_what_stands_in_for_a_part_returns_no_input_that_is_changed(worker: Worker, model: Callable[..., Path]) -> None:
    report = of(worker.trace(model(FOCAL)), "Net")
    assert report.construct is not None
    assert all(each.code != "FX307" for each in report.problems)


@pytest.mark.parametrize(
    ("line", "code"),
    [("del x[0]", "FX005"), ("x = x.mul(object())", "FX008")],
)
def test_what_stops_the_model_where_it_stops_its_trace_is_told_once_each_time(
    line: str, code: str, worker: Worker, model: Callable[..., Path]
) -> None:
    path = model(
        f"from torch import nn\n\nclass Net(nn.Module):\n    def forward(self, x):\n        {line}\n        return x\n"
    )
    for _ in range(3):
        assert [each.code for each in of(worker.trace(path), "Net").problems] == [code]


LOOKED_UP = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width, dataset):
        super().__init__()
        self.table = nn.Embedding(dataset.n_users, width)
        self.graph = dataset.graph()

    def forward(self, users):
        return torch.sparse.mm(self.graph, self.table.weight)[users]
"""


def test_what_stands_in_for_a_tensor_is_no_part_that_is_not_called(worker: Worker, model: Callable[..., Path]) -> None:
    report = of(worker.trace(model(LOOKED_UP)), "Net")
    assert [each.code for each in report.problems] == ["FX103"]


@pytest.mark.parametrize("kind", ["ModuleList", "ModuleDict"])
def test_what_a_container_raises_that_nothing_was_put_into_is_no_fault(
    kind: str, worker: Worker, model: Callable[..., Path]
) -> None:
    items = "self.values()" if kind == "ModuleDict" else "self"
    path = model(
        f"import torch\nfrom torch import nn\n\nclass Ensemble(nn.{kind}):\n"
        f"    def forward(self, x):\n        y = []\n        for each in {items}:\n            y.append(each(x))\n"
        "        y = torch.cat(y, 1)\n        return y\n"
    )
    (problem,) = of(worker.trace(path), "Ensemble").problems
    assert (problem.code, problem.severity) == ("FX009", "information")

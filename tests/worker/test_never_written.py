"""Mistakes that other numbers than those which somebody has written would only hide, and what is joined or viewed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.worker.harness import Worker, marked, of

CONFIGURED = """from dataclasses import dataclass
from torch import nn


@dataclass
class NetConfig:
    width: int = 32
    hidden: int = 96
    words: int = 1000


class Net(nn.Module):
    def __init__(self, config: NetConfig):
        super().__init__()
        self.token = nn.Embedding(config.words, config.width)
        self.first = nn.Linear(config.width, config.hidden)
        self.last = nn.Linear(config.hidden, config.width)

    def forward(self, tokens):
        x = self.token(tokens)
        return x + self.last(self.first(x))
"""

PLAIN = CONFIGURED.replace("from dataclasses import dataclass\n", "").replace("@dataclass\n", "").replace(": int", "")

BY_DEFAULT = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, actions, hidden=512, width=64):
        super().__init__()
        self.first = nn.Linear(width, hidden)
        self.last = nn.Linear(hidden, actions)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))
"""

RECURRENT = """from torch import nn


class Net(nn.Module):
    def __init__(self, classes, width=128, hidden=64):
        super().__init__()
        self.first = nn.Linear(20, width)
        self.rnn = nn.LSTM(width, hidden, batch_first=True)
        self.last = nn.Linear(hidden, classes)

    def forward(self, x):
        x, _ = self.rnn(self.first(x))
        return self.last(x[:, -1])
"""


@pytest.mark.parametrize(
    ("text", "right", "wrong", "place"),
    [
        (CONFIGURED, "Linear(config.hidden, config.width)", "Linear(config.width, config.hidden)", "self.last("),
        (PLAIN, "Linear(config.hidden, config.width)", "Linear(config.width, config.hidden)", "self.last("),
        (CONFIGURED, "Embedding(config.words, config.width)", "Embedding(config.width, config.words)", "self.first("),
        (BY_DEFAULT, "Linear(hidden, actions)", "Linear(actions, hidden)", "self.last("),
        (BY_DEFAULT, "Linear(hidden, actions)", "Linear(width, actions)", "self.last("),
        (RECURRENT, "LSTM(width, hidden", "LSTM(hidden, hidden", "self.rnn("),
    ],
    ids=["in a data class", "in a class", "two of a layer", "a made-up one", "another default", "two defaults"],
)
def test_what_somebody_has_written_is_not_changed_to_fit(
    text: str, right: str, wrong: str, place: str, worker: Worker, model: Callable[..., Path]
) -> None:
    path = model(text.replace(right, wrong))
    for _ in range(2):
        (problem,) = of(worker.trace(path), "Net").problems
        assert (problem.code, problem.severity) == ("FX201", "warning")
        assert marked(text.replace(right, wrong), problem.location).startswith(place)


@pytest.mark.parametrize(
    "text",
    [
        CONFIGURED,
        PLAIN,
        BY_DEFAULT,
        RECURRENT,
        # What nobody has written may have to be as long as several others are together.
        BY_DEFAULT.replace("width=64", "heads=8")
        .replace("width", "actions")
        .replace("hidden=512", "dim=64")
        .replace("(actions, hidden)", "(actions, heads * dim)")
        .replace("(hidden, actions)", "(actions, actions)"),
        # What a configuration leaves open is made up.
        CONFIGURED.replace("hidden: int = 96", "hidden: int = None").replace("width: int = 32", "width: int = None"),
    ],
)
def test_what_fits_is_fed(text: str, worker: Worker, model: Callable[..., Path]) -> None:
    target = of(worker.trace(model(text)), "Net")
    assert not target.problems
    assert target.inputs is not None


CHANNELS = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, planes=49, width=16):
        super().__init__()
        self.width = width
        self.first = nn.Conv2d(3, planes, 3, padding=1)
        self.second = nn.Conv2d(planes + 2, 2 * width, 3, padding=1)

    def forward(self, one, other):
        x = self.first(one) * self.first(other)
        flow = x.new_zeros(x.shape[0], 2, x.shape[2], x.shape[3])
        x = self.second(torch.cat([x, flow], dim=1))
        b, c, h, w = x.shape
        return x.reshape(b, 2, self.width, h * w)
"""


@pytest.mark.parametrize(
    ("right", "wrong", "place"),
    [
        ("planes + 2", "planes", "self.second(torch.cat([x, flow], dim=1))"),
        ("2 * width, 3", "3 * width, 3", "x.reshape(b, 2, self.width, h * w)"),
    ],
)
def test_sizes_that_do_not_fit_with_any_of_two_pictures_are_told(
    right: str, wrong: str, place: str, worker: Worker, model: Callable[..., Path]
) -> None:
    text = CHANNELS.replace(right, wrong)
    found = [each for each in of(worker.trace(model(text)), "Net").problems if each.code == "FX201"]
    assert [marked(text, each.location) for each in found] == [place]
    assert "FX201" not in {each.code for each in of(worker.trace(model(CHANNELS)), "Net").problems}


VECTORS = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, users, kinds=20, width=32):
        super().__init__()
        self.user = nn.Embedding(users, width)
        self.kind = nn.Embedding(kinds, width // 2)
        self.last = nn.Linear(width + width // 2 + 6, 8)

    def forward(self, user_id, kind_id, user_feats):
        return self.last(torch.cat([self.user(user_id), self.kind(kind_id), user_feats], dim=1))
"""


@pytest.mark.parametrize("text", [VECTORS, VECTORS.replace("users, kinds", "users=100, kinds")])
def test_what_is_joined_of_vectors_is_no_mistake_of_sequences(
    text: str, worker: Worker, model: Callable[..., Path]
) -> None:
    target = of(worker.trace(model(text)), "Net")
    assert not target.problems
    assert target.inputs is not None


SKIPPING = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = nn.MaxPool2d(2)
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 16, 3, padding=1)
        self.third = nn.Conv2d(16, 32, 3, padding=1)
        self.fourth = nn.Conv2d(32, 64, 3, padding=1)
        self.up = nn.ConvTranspose2d(64, 32, 2, 2)
        self.up_again = nn.ConvTranspose2d(64, 16, 2, 2)

    def forward(self, x):
        one = self.first(x)
        two = self.second(self.pool(one))
        three = self.third(self.pool(two))
        x = torch.cat([self.up(self.fourth(self.pool(three))), three], dim=1)
        return torch.cat([self.up_again(x), two], dim=1)
"""


def test_a_skip_of_another_side_is_told_behind_one_that_wants_even_sides(
    worker: Worker, model: Callable[..., Path]
) -> None:
    text = SKIPPING.replace("two], dim", "one], dim")
    (problem,) = of(worker.trace(model(text)), "Net").problems
    assert marked(text, problem.location) == "torch.cat([self.up_again(x), one], dim=1)"
    assert not of(worker.trace(model(SKIPPING)), "Net").problems


TOKENS = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, *, image_size, patch_size, dim, depth, heads, mlp_dim, classes):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, patch_size, patch_size)
        self.place = nn.Parameter(torch.zeros(1, (image_size // patch_size) ** 2 + 1, dim))
        self.token = nn.Parameter(torch.zeros(1, 1, dim))
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(dim, heads, mlp_dim) for _ in range(depth)])
        self.head = nn.Linear(dim, classes)

    def forward(self, picture):
        x = self.patch(picture).flatten(2).transpose(1, 2)
        token = self.token.repeat(x.shape[0], 1, 1)
        x = torch.cat([token, x], dim=1)
        x = x + self.place[:, : x.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.head(x[:, 0])
"""


def test_what_is_asked_of_a_parameter_of_other_dimensions_is_told(worker: Worker, model: Callable[..., Path]) -> None:
    wrong = "self.token.repeat(x.shape[0], 1)"
    text = TOKENS.replace("self.token.repeat(x.shape[0], 1, 1)", wrong)
    found = [each for each in of(worker.trace(model(text)), "Net").problems if each.code == "FX201"]
    assert [marked(text, each.location) for each in found] == [wrong]
    right = of(worker.trace(model(TOKENS)), "Net")
    assert right.inputs is not None
    assert "FX201" not in {each.code for each in right.problems}


HALVED = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, bands, words, width=144):
        super().__init__()
        self.first = nn.Linear(bands, width)
        self.wide = nn.Conv1d(width, 2 * width, 1)
        self.gate = nn.GLU(dim=1)
        self.deep = nn.Conv1d(width, width, 3, padding=1, groups=width)
        self.last = nn.Linear(2 * width, words)

    def forward(self, x):
        x = self.first(x)
        y = self.deep(self.gate(self.wide(x.transpose(1, 2))))
        return self.last(torch.cat([x, y.transpose(1, 2)], dim=-1))
"""


@pytest.mark.parametrize(
    ("right", "wrong", "place"),
    [
        ("nn.Conv1d(width, 2 * width, 1)", "nn.Conv1d(width, width, 1)", "self.deep(self.gate("),
        ("padding=1, groups", "padding=2, groups", "torch.cat([x, "),
    ],
)
def test_what_follows_from_no_made_up_number_is_told_behind_what_does(
    right: str, wrong: str, place: str, worker: Worker, model: Callable[..., Path]
) -> None:
    text = HALVED.replace(right, wrong)
    (problem,) = of(worker.trace(model(text)), "Net").problems
    assert (problem.code, problem.severity) == ("FX201", "warning")
    assert marked(text, problem.location).startswith(place)
    assert not of(worker.trace(model(HALVED)), "Net").problems


REPEATED = """import torch
from einops import repeat
from torch import nn


class Net(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.first = nn.Linear(8, width)
        self.token = nn.Parameter(torch.randn(1, 1, width))

    def forward(self, x):
        token = repeat(self.token, "1 1 d -> b 1 d", b=x.shape[0])
        return torch.cat((token, self.first(x)), dim=1)
"""


@pytest.mark.corpus
def test_what_never_fits_is_told_beside_what_stops_the_trace_there(
    library_worker: Worker, model: Callable[..., Path]
) -> None:
    text = REPEATED.replace("randn(1, 1, width)", "randn(1, width)")
    problems = of(library_worker.trace(model(text)), "Net").problems
    assert sorted(each.code for each in problems) == ["FX006", "FX201"]
    assert all(marked(text, each.location).startswith("repeat(self.token") for each in problems)
    assert [each.code for each in of(library_worker.trace(model(REPEATED)), "Net").problems] == ["FX006"]

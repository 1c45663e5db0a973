"""Values that lie otherwise than an operation takes them are told there, though odd inputs would fit by chance."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.worker.harness import Worker, marked, of

HEAD = """import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
"""

SQUEEZED = (
    HEAD
    + """        self.conv = nn.Conv2d(3, 48, 3, padding=1)
        self.fc = nn.Linear(48, 48)

    def forward(self, x):
        x = self.conv(x)
        return {call}
"""
)

ATTENDED = (
    HEAD
    + """        self.embed = nn.Embedding(100, 32)
        self.rnn = nn.GRU(32, 24, batch_first=True)
        self.last = nn.Linear(24, 24)

    def forward(self, tokens):
        outputs, _ = self.rnn(self.embed(tokens))
        return {call}
"""
)

TOWERS = (
    HEAD
    + """        self.image = nn.Linear(12, 64)
        self.embed = nn.Embedding(100, 64)

    def forward(self, image, text):
        image, text = F.normalize(self.image(image), dim=-1), F.normalize(self.embed(text).mean(1), dim=-1)
        return {call}
"""
)

EXPERTS = (
    HEAD
    + """        self.embed = nn.Embedding(100, 32)
        self.gate = nn.Linear(32, 5)
        self.experts = nn.ModuleList(nn.Linear(32, 32) for _ in range(5))

    def forward(self, tokens):
        rows, length = tokens.shape
        x = self.embed(tokens).view(rows, length, 32)
        outputs = torch.stack([each(x) for each in self.experts], dim={dim})
        weights = self.gate(x).softmax(-1)[..., None]
        return ({call}).sum(2)
"""
)

TOKENS = (
    HEAD
    + """        self.patches = nn.Conv2d(3, 32, 8, 8)
        self.token = nn.Parameter(torch.zeros(1, 1, 32))

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        token = self.token.expand(x.size(0), -1, -1)
        return {call}
"""
)


@pytest.mark.parametrize(
    ("text", "wrong", "right"),
    [
        (SQUEEZED, "x * self.fc(x.mean((2, 3)))", "x * self.fc(x.mean((2, 3)))[:, :, None, None]"),
        (ATTENDED, "outputs + self.last(outputs.mean(1))", "outputs + self.last(outputs.mean(1)).unsqueeze(1)"),
        (TOWERS, "image @ text", "image @ text.t()"),
        (EXPERTS.replace("{dim}", "1"), "weights * outputs", "weights * outputs.transpose(1, 2)"),
        (TOKENS, "torch.cat([token, x], dim=-1)", "torch.cat([token, x], dim=1)"),
    ],
    ids=["a gate", "a summary", "rows", "crosswise", "a token"],
)
def test_what_lies_otherwise_is_told_where_it_meets_the_other_value(
    text: str, wrong: str, right: str, worker: Worker, model: Callable[..., Path]
) -> None:
    for call in (wrong, right):
        source = text.replace("{call}", call)
        problems = of(worker.trace(model(source)), "Net").problems
        assert len(problems) == (call == wrong)
        for problem in problems:
            assert (problem.code, problem.severity) == ("FX201", "warning")
            assert marked(source, problem.location) == wrong


PLACES = (
    HEAD
    + """        self.patches = nn.Conv2d(3, 32, 8, 8)
        self.token = nn.Parameter(torch.zeros(1, 1, 32))
        self.places = nn.Parameter(torch.zeros(1, {places}, 32))

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.size(0), -1, -1), x], dim=1)
        return x + self.places
"""
)


def test_a_table_without_a_place_for_the_token_is_told(worker: Worker, model: Callable[..., Path]) -> None:
    text = PLACES.replace("{places}", "8 * 8")
    (problem,) = of(worker.trace(model(text)), "Net").problems
    assert (problem.code, problem.severity, marked(text, problem.location)) == ("FX201", "warning", "x + self.places")
    assert "65 is 1 + 64" in problem.explanation
    assert not of(worker.trace(model(text.replace("8 * 8", "8 * 8 + 1"))), "Net").problems


KEPT = (
    HEAD
    + """        self.conv = nn.Conv1d(3, 16, 1)

    def forward(self, points):
        x = self.conv(points)
        return {call}
"""
)


@pytest.mark.parametrize(
    "call", ["x.amax(2{}).expand(-1, -1, points.shape[2])", "x.amax(2{}).permute(0, 2, 1)"], ids=["kept", "moved"]
)
def test_a_dimension_that_is_to_be_kept_and_is_not_there_is_told(
    call: str, worker: Worker, model: Callable[..., Path]
) -> None:
    text = KEPT.replace("{call}", call.format(""))
    (problem,) = of(worker.trace(model(text)), "Net").problems
    assert (problem.code, problem.severity, marked(text, problem.location)) == ("FX201", "warning", call.format(""))
    assert not of(worker.trace(model(KEPT.replace("{call}", call.format(", keepdim=True")))), "Net").problems


RIGHT = [
    # No batch: what is subtracted has one dimension less then, too.
    """        self.fc = nn.Linear(16, 16)

    def forward(self, x):
        rows, width = x.shape
        return self.fc(x) - self.fc(x).mean(0)
""",
    # Each node of a graph meets each other one.
    """        self.fc = nn.Linear(16, 16)

    def forward(self, x, adj):
        h = self.fc(x)
        return (adj @ h) * (h @ h.t()).sum(1)[:, None]
""",
    # A matrix is made symmetric.
    """        self.fc = nn.Linear(1, 8)

    def forward(self, distances):
        x = self.fc((distances + distances.t()).unsqueeze(-1))
        return x + x.sum(0)
""",
]


@pytest.mark.parametrize("body", RIGHT)
def test_what_lies_right_without_a_batch_is_not(body: str, worker: Worker, model: Callable[..., Path]) -> None:
    assert all(each.code != "FX201" for each in of(worker.trace(model(HEAD + body)), "Net").problems)

"""Layers that do not go together whatever the inputs, and whatever numbers the model is built with."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from torch import nn

from fxengine.capturing.dimensions import Dimension, LayerSize, of_other_layers
from tests.worker.harness import Worker, marked, of

TEXT = """from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(32, 128)
        self.second = nn.Linear(256, 4)

    def forward(self, x):
        return self.second(self.first(x))
"""


OF_WIDTH = "import torch\n" + TEXT.replace("__init__(self)", "__init__(self, width)", 1).replace("128", "width")
JOINED = OF_WIDTH.replace("self.first(x)", "torch.cat([self.first(x), self.first(x)], -1)")
IN_PARTS = TEXT.replace("self.first(x)", "self.first(x).chunk(2, dim=-1)[0]")


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        TEXT.replace("__init__(self)", "__init__(self, size)", 1).replace("32", "size"),
        OF_WIDTH.replace("256", "2 * width"),
        TEXT.replace("self.first(x)", "self.first(x).view(-1, 64)"),
        JOINED.replace("256", "3 * width"),
        IN_PARTS,
    ],
    ids=["literals", "beside a number", "of a number", "as the code asks for it", "joined", "in parts"],
)
def test_what_never_fits_is_told_where_it_is_each_time(text: str, worker: Worker, model: Callable[..., Path]) -> None:
    path = model(text)
    for _ in range(2):
        (problem,) = of(worker.trace(path), "Net").problems
        assert (problem.code, problem.severity) == ("FX201", "warning")
        assert marked(text, problem.location).startswith("self.second(")


@pytest.mark.parametrize("size", ["size", "size + 64", "size // 2"])
def test_what_fits_with_another_number_is_not(size: str, worker: Worker, model: Callable[..., Path]) -> None:
    text = TEXT.replace("__init__(self)", "__init__(self, size)", 1).replace("128", size)
    assert all(each.code != "FX201" for each in of(worker.trace(model(text)), "Net").problems)


@pytest.mark.parametrize("text", [JOINED.replace("256", "2 * width"), IN_PARTS.replace("256", "64")])
def test_what_fits_as_it_is_joined_or_taken_apart_is_not(text: str, worker: Worker, model: Callable[..., Path]) -> None:
    assert not of(worker.trace(model(text)), "Net").problems


ATTENTION = """from torch import nn


class Net(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(100, dim)
        self.qkv = nn.Linear(dim, 3 * dim)

    def forward(self, tokens):
        x = self.embed(tokens)
        b, t, d = x.shape
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k = q.view(b, t, self.heads, -1).transpose(1, 2), k.view(b, t, self.heads, -1).permute(0, 2, 3, 1)
        y = (q @ k).softmax(-1) @ v.view(b, t, self.heads, -1).transpose(1, 2)
        return y.transpose(1, 2).view(b, t, d)
"""


@pytest.mark.parametrize("text", [ATTENTION, ATTENTION.replace(", dim, heads)", ", dim=32, heads=4)")])
def test_what_cannot_be_viewed_is_told_though_sequences_of_one_step_can(
    text: str, worker: Worker, model: Callable[..., Path]
) -> None:
    path = model(text)
    for _ in range(2):
        (problem,) = of(worker.trace(path), "Net").problems
        assert (problem.code, problem.severity) == ("FX201", "warning")
        assert marked(text, problem.location) == "y.transpose(1, 2).view(b, t, d)"


@pytest.mark.parametrize("mended", ["contiguous().view", "reshape"])
def test_what_is_laid_out_anew_can_be_viewed(mended: str, worker: Worker, model: Callable[..., Path]) -> None:
    text = ATTENTION.replace("y.transpose(1, 2).view", f"y.transpose(1, 2).{mended}")
    assert not of(worker.trace(model(text)), "Net").problems


def test_states_of_one_layer_can_be_viewed(worker: Worker, model: Callable[..., Path]) -> None:
    text = """from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(8, 16, batch_first=True)

    def forward(self, x):
        _, states = self.gru(x)
        return states.transpose(0, 1).view(x.shape[0], -1)
"""
    assert not of(worker.trace(model(text)), "Net").problems


def test_sizes_of_another_model_are_those_of_the_same_layers() -> None:
    other = nn.Sequential(nn.Linear(6, 10), nn.Linear(20, 4))
    made = Dimension(5, "the output", None, of_layer=True, built=LayerSize("0", "out_features"))
    wanted = Dimension(10, "what is wanted", None, of_layer=True, built=LayerSize("1", "in_features", 1))
    written = Dimension(784, "what the code asks for", None, of_layer=True)
    assert of_other_layers((made, wanted), other) == (10, 20)
    assert of_other_layers((written, wanted), other) == (784, 20)
    assert of_other_layers((replace(wanted, built=LayerSize("0", "in_features", 1)), wanted), other) == (6, 20)
    assert of_other_layers((made, Dimension(10, "", None, of_layer=True, built=LayerSize("2.x", ""))), other) == ()


TAKEN = """from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.fc = nn.Linear({wanted}, 64)

    def forward(self, x):
        x = x.relu()
        return x + self.fc(self.norm(x) * 2)
"""


def test_what_one_layer_takes_of_an_input_another_cannot_take_otherwise(
    worker: Worker, model: Callable[..., Path]
) -> None:
    (problem,) = of(worker.trace(model(TAKEN.format(wanted=48))), "Net").problems
    assert problem.code == "FX201"
    assert (
        "64 is dimension 2 of the input `x`, normalized_shape of `self.norm = nn.LayerNorm(64)`" in problem.explanation
    )
    assert not of(worker.trace(model(TAKEN.format(wanted=64))), "Net").problems


OF_PARTS = """from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 32)
        {layer}

    def forward(self, tokens):
        x = self.embed(tokens)
        return {call}
"""


@pytest.mark.parametrize(
    ("layer", "call", "meaning"),
    [
        ("self.attend = nn.MultiheadAttention(64, 4)", "self.attend(x, x, x)[0]", "embed_dim of"),
        ("self.gru = nn.GRU(64, 16)", "self.gru(x)[0]", "input_size of"),
        ("self.cell = nn.GRUCell(64, 16)", "self.cell(x[:, 0], x.new_zeros(x.shape[0], 16))", "input_size of"),
        ("self.layer = nn.TransformerEncoderLayer(64, 4)", "self.layer(x)", "d_model of"),
        (
            "self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4), 2)",
            "self.layers(x).mean(1)",
            "d_model of",
        ),
    ],
)
def test_a_part_that_takes_another_size_is_told_with_both(
    layer: str, call: str, meaning: str, worker: Worker, model: Callable[..., Path]
) -> None:
    text = OF_PARTS.format(layer=layer, call=call)
    path = model(text)
    for _ in range(2):
        (problem,) = of(worker.trace(path), "Net").problems
        assert (problem.code, problem.severity) == ("FX201", "warning")
        assert marked(text, problem.location) in call
        assert "32 is the output of `self.embed" in problem.explanation
        assert f"64 is {meaning}" in problem.explanation


@pytest.mark.parametrize(
    ("layer", "call", "at"),
    [
        ("", "x.reshape(tokens.shape[0], -1, 8).softmax(dim=3)", "x.reshape(tokens.shape[0], -1, 8).softmax(dim=3)"),
        ("self.conv = nn.Conv1d(32, 8, 3)", "self.conv(x.transpose(1, 2)).mean(-4)", ".mean(-4)"),
    ],
)
def test_a_dimension_that_no_inputs_have_is_told(
    layer: str, call: str, at: str, worker: Worker, model: Callable[..., Path]
) -> None:
    text = OF_PARTS.format(layer=layer, call=call)
    path = model(text)
    for _ in range(2):
        (problem,) = of(worker.trace(path), "Net").problems
        assert (problem.code, problem.severity) == ("FX201", "warning")
        assert marked(text, problem.location).endswith(at)


BEHIND = """import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self, body, count=100):
        super().__init__()
        self.body = body
        self.head = nn.Linear(64, count)

    def forward(self, tokens):
        batch, length = tokens.shape
        masked = tokens.masked_fill(tokens == 0, 1)
        logits = self.head(self.body(masked))[:, 1:]
        return F.cross_entropy(logits.transpose(1, 2), tokens)
"""


@pytest.mark.parametrize(
    "text",
    [
        OF_PARTS.format(layer="", call="x.softmax(dim=3)"),
        OF_PARTS.format(layer="", call="x.reshape(tokens.shape[0], -1, 8).softmax(dim=self.dim)")
        .replace("__init__(self)", "__init__(self, dim)", 1)
        .replace("super().__init__()", "super().__init__()\n        self.dim = dim"),
        BEHIND,
    ],
    ids=["more dimensions", "a number that was made up", "what a part may give"],
)
def test_a_dimension_that_others_may_have_is_not(text: str, worker: Worker, model: Callable[..., Path]) -> None:
    assert all(each.code != "FX201" for each in of(worker.trace(model(text)), "Net").problems)


PATCHES = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, side=32, width=64, heads=8):
        super().__init__()
        self.heads = heads
        self.patch = nn.Conv2d(3, width, 8, 8)
        self.place = nn.Parameter(torch.zeros(1, (side // 8) ** 2, width))
        self.qk = nn.Linear(width, 2 * width)

    def forward(self, picture):
        x = self.patch(picture).flatten(2).transpose(1, 2) + self.place
        b, n, c = x.shape
        q, k = self.qk(x).reshape(b, n, 2, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        return (q @ k).softmax(-1)
"""

JOINED = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.last = nn.Conv2d(8, 4, 1)

    def forward(self, picture):
        x = self.norm(self.first(picture))
        return self.last(torch.cat([x, self.second(x)], dim=1))
"""


@pytest.mark.parametrize(
    ("text", "place"), [(PATCHES, "q @ k"), (JOINED, "self.last(torch.cat([x, self.second(x)], dim=1))")]
)
def test_what_no_size_of_an_input_changes_is_told(
    text: str, place: str, worker: Worker, model: Callable[..., Path]
) -> None:
    path = model(text)
    for _ in range(2):
        (problem,) = of(worker.trace(path), "Net").problems
        assert (problem.code, problem.severity) == ("FX201", "warning")
        assert marked(text, problem.location) == place


@pytest.mark.parametrize(
    "text",
    [
        PATCHES.replace("side=32, width=64, heads=8", "side, width, heads"),
        PATCHES.replace("q @ k", "q @ k.mT"),
    ],
    ids=["other arguments may", "it is right"],
)
def test_what_another_size_may_change_is_not(text: str, worker: Worker, model: Callable[..., Path]) -> None:
    assert all(each.code != "FX201" for each in of(worker.trace(model(text)), "Net").problems)


FUSED = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, wide=192, narrow=64):
        super().__init__()
        self.attend = nn.Sequential(nn.Conv3d(wide, narrow, 1), nn.GroupNorm(32, narrow))
        self.refine = nn.Conv3d(wide, narrow, 1)

    def forward(self, one, other):
        attention = self.attend(torch.cat((one, other), 1))
        return self.refine(torch.cat((one, attention * other), 1)), attention
"""


@pytest.mark.parametrize("text", [FUSED, FUSED.replace("Conv3d", "Conv2d"), FUSED.replace("Conv3d", "Conv1d")])
def test_what_two_inputs_have_together_each_may_have_another_part_of(
    text: str, worker: Worker, model: Callable[..., Path]
) -> None:
    assert all(each.code != "FX201" for each in of(worker.trace(model(text)), "Net").problems)


BOTH_WAYS = """from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 32)
        self.lstm = nn.LSTM(32, 64, batch_first=True, bidirectional=True)
        self.head = nn.Linear(64, 2)

    def forward(self, tokens):
        out, _ = self.lstm(self.embed(tokens))
        return self.head(out[:, -1])
"""


def test_a_single_sequence_that_is_as_long_as_a_layer_is_wide_hides_nothing(
    worker: Worker, model: Callable[..., Path]
) -> None:
    path = model(BOTH_WAYS)
    for _ in range(2):
        (problem,) = of(worker.trace(path), "Net").problems
        assert (problem.code, marked(BOTH_WAYS, problem.location)) == ("FX201", "self.head(out[:, -1])")
        assert "128 is the output of `self.lstm" in problem.explanation
    assert not of(worker.trace(model(BOTH_WAYS.replace("Linear(64, 2)", "Linear(128, 2)"))), "Net").problems


def test_what_fails_in_a_part_that_is_not_traced_through_is_told_in_there(
    worker: Worker, model: Callable[..., Path]
) -> None:
    text = f"""import torch
{ATTENTION.replace("class Net", "class Part")}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Part(32, 4)

    def forward(self, tokens):
        return self.part(tokens)
""".replace(
        "self.heads = heads", 'self.heads = heads\n        self.register_buffer("mask", torch.ones(64, 64).tril())'
    ).replace("(q @ k).softmax", "(q @ k).masked_fill(self.mask[:t, :t] == 0, -1e9).softmax")
    problems = of(worker.trace(model(text)), "Net").problems
    assert [marked(text, each.location) for each in problems if each.code == "FX201"] == [
        "y.transpose(1, 2).view(b, t, d)"
    ]


def test_what_a_part_gives_that_something_stands_in_for_may_lie_otherwise(
    worker: Worker, model: Callable[..., Path]
) -> None:
    text = """from torch import nn


class Net(nn.Module):
    def __init__(self, dim, transformer):
        super().__init__()
        self.transformer = transformer
        self.up = nn.Conv2d(dim, dim, 1)

    def forward(self, image, tokens):
        b, c, h, w = image.shape
        hidden, image = self.transformer(image, tokens)
        return self.up(image.transpose(1, 2).view(b, c, h, w)), hidden
"""
    assert all(each.code != "FX201" for each in of(worker.trace(model(text)), "Net").problems)


GATED = """from torch import nn


class Net(nn.Module):
    def __init__(self, dim, hidden, activation: nn.Module):
        super().__init__()
        self.first = nn.Linear(dim, hidden)
        self.activation = activation
        self.drop = nn.Dropout()
        self.second = nn.Linear(hidden // 2, dim)

    def forward(self, x):
        return self.second(self.drop(self.activation(self.first(x))))
"""


def test_what_something_stands_in_for_may_be_a_gate(worker: Worker, model: Callable[..., Path]) -> None:
    target = of(worker.trace(model(GATED)), "Net")
    assert "activation=torch.nn.GLU()" in target.construct.expression
    assert (target.inputs is not None, target.problems) == (True, ())


def test_what_a_gate_would_not_mend_is_told(worker: Worker, model: Callable[..., Path]) -> None:
    problems = of(worker.trace(model(GATED.replace("hidden // 2", "dim"))), "Net").problems
    assert [each.code for each in problems] == ["FX201"]


OF_PARAMETERS = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width{default}):
        super().__init__()
        self.embed = nn.Embedding(100, width)
        self.weight = nn.Parameter(torch.zeros({shape}))
        self.bias = nn.Parameter(torch.zeros({bias}))

    def forward(self, tokens):
        return torch.matmul(self.embed(tokens), self.weight) + self.bias
"""


@pytest.mark.parametrize(
    ("default", "shape", "bias", "at"),
    [
        ("", "2 * width, width", "width", "torch.matmul(self.embed(tokens), self.weight)"),
        ("=32", "2 * width, width", "width", "torch.matmul(self.embed(tokens), self.weight)"),
        ("=32", "width, width", "3 * width", "torch.matmul(self.embed(tokens), self.weight) + self.bias"),
    ],
)
def test_a_parameter_of_another_size_than_a_layer_makes_is_told(
    default: str, shape: str, bias: str, at: str, worker: Worker, model: Callable[..., Path]
) -> None:
    text = OF_PARAMETERS.format(default=default, shape=shape, bias=bias)
    (problem,) = of(worker.trace(model(text)), "Net").problems
    assert (problem.code, problem.severity) == ("FX201", "warning")
    assert marked(text, problem.location) == at
    assert not of(worker.trace(model(text.replace(shape, "width, width").replace(bias, "width"))), "Net").problems


GRAPHS = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, features=16, width=32):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width, features))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x, adj):
        return adj @ (x @ self.weight) + self.bias
"""


def test_vectors_that_a_matrix_takes_by_chance_hide_no_layer(worker: Worker, model: Callable[..., Path]) -> None:
    (problem,) = of(worker.trace(model(GRAPHS)), "Net").problems
    assert marked(GRAPHS, problem.location) == "adj @ (x @ self.weight) + self.bias"
    assert not of(worker.trace(model(GRAPHS.replace("width, features", "features, width"))), "Net").problems


WITH_NUMBERS = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, items, numbers, width=32):
        super().__init__()
        self.items = nn.Embedding(items, width)
        self.norm = nn.BatchNorm1d(numbers)
        self.out = nn.Linear({wanted}, 8)

    def forward(self, item, x):
        rows, _ = x.shape
        return self.out(torch.cat([self.items(item).view(rows, -1), self.norm(x)], dim=1))
"""


@pytest.mark.parametrize("wanted", ["width", "numbers"])
def test_a_part_that_a_layer_does_not_count_is_told(wanted: str, worker: Worker, model: Callable[..., Path]) -> None:
    text = WITH_NUMBERS.format(wanted=wanted)
    (problem,) = of(worker.trace(model(text)), "Net").problems
    assert (problem.code, marked(text, problem.location).partition("(")[0]) == ("FX201", "self.out")
    assert not of(worker.trace(model(WITH_NUMBERS.format(wanted="width + numbers"))), "Net").problems


NOISE = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, noise=100):
        super().__init__()
        self.label = nn.Embedding(10, noise)
        self.out = nn.ConvTranspose2d({wanted}, 8, 4)

    def forward(self, z, labels):
        x = torch.cat([z, self.label(labels)], dim=1)
        return self.out(x.view(x.size(0), -1, 1, 1))
"""


def test_what_is_joined_to_all_that_a_layer_takes_is_told(worker: Worker, model: Callable[..., Path]) -> None:
    (problem,) = of(worker.trace(model(NOISE.format(wanted="noise"))), "Net").problems
    assert (problem.code, problem.severity) == ("FX201", "warning")
    assert not of(worker.trace(model(NOISE.format(wanted="2 * noise"))), "Net").problems


BEHIND = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(100, 32)
        self.register_buffer("table", torch.zeros(64, 32))
        self.first = nn.Linear(32, 128)
        self.second = nn.Linear(256, 4)

    def forward(self, tokens):
        b, t = tokens.shape
        x = self.token(tokens) + self.table[:t]
        return self.second(self.first(x))
"""
LAST = "self.second(self.first(x))"


@pytest.mark.parametrize("last", [LAST, "torch.tanh(x) @ x"])
def test_what_does_not_fit_behind_a_size_that_stops_torch_fx_is_told(
    last: str, worker: Worker, model: Callable[..., Path]
) -> None:
    text = BEHIND.replace(LAST, last)
    found = [each for each in of(worker.trace(model(text)), "Net").problems if each.code == "FX201"]
    assert [marked(text, each.location) for each in found] == [last]


@pytest.mark.parametrize("last", ["self.first(x)", "torch.tanh(x) @ x.transpose(1, 2)", "(x @ x.transpose(1, 2)) @ x"])
def test_what_fits_behind_a_size_that_stops_torch_fx_is_not(
    last: str, worker: Worker, model: Callable[..., Path]
) -> None:
    text = BEHIND.replace(LAST, last)
    assert [each.code for each in of(worker.trace(model(text)), "Net").problems] == ["FX004"]


STEPS = """from torch import nn


class Net(nn.Module):
    def __init__(self, dim, side=16):
        super().__init__()
        self.side = side
        self.embed = nn.Linear(3 * side**2 + 1, dim)

    def forward(self, x):
        b, c, h, w = *x.shape,
        s = self.side
        x = x.reshape(b, c, h // s, s, w // s, s).permute(0, 2, 4, 3, 5, 1)
        return self.embed(x.reshape(b, -1, s * s * c))
"""

PAIRS = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.embed = nn.Linear(65, dim)

    def forward(self, x):
        return self.embed(torch.cat([x.sin(), x.cos()], dim=-1))
"""

BESIDE = """

class Beside(nn.Module):
    def __init__(self, size, wide):
        super().__init__()
        self.first = nn.Linear(8, size)
        self.second = nn.Linear(wide, 8)

    def forward(self, x):
        b, *_ = *x.shape,
        return self.second(self.first(x)[:b])
"""
"""A model that fits with other arguments than come first, so that its file is traced once more."""


@pytest.mark.parametrize("text", [STEPS, STEPS + BESIDE])
def test_what_grows_in_steps_over_what_is_wanted_is_told_behind_what_stops_a_trace(
    text: str, worker: Worker, model: Callable[..., Path]
) -> None:
    path = model(text)
    for _ in range(2):
        problems = of(worker.trace(path), "Net").problems
        assert [(each.code, each.severity) for each in problems] == [("FX003", "error"), ("FX201", "warning")]
        assert marked(text, problems[1].location) == "self.embed(x.reshape(b, -1, s * s * c))"


@pytest.mark.parametrize(
    "text",
    [
        STEPS.replace("3 * side**2 + 1", "3 * side**2"),
        STEPS.replace("3 * side**2 + 1", "4 * side**2"),
        STEPS.replace("dim, side=16", "dim, size, side=16").replace("3 * side**2 + 1", "size"),
    ],
    ids=["three channels", "four channels", "as many as are asked for"],
)
def test_what_comes_in_as_many_steps_as_are_wanted_is_not(
    text: str, worker: Worker, model: Callable[..., Path]
) -> None:
    report = of(worker.trace(model(text)), "Net")
    assert [each.code for each in report.problems] == ["FX003"]
    assert report.inputs is not None


def test_numbers_that_were_made_up_do_not_hide_what_follows_from_none_of_them(
    worker: Worker, model: Callable[..., Path]
) -> None:
    (problem,) = of(worker.trace(model(PAIRS)), "Net").problems
    assert (problem.code, problem.severity) == ("FX201", "warning")
    assert marked(PAIRS, problem.location) == "self.embed(torch.cat([x.sin(), x.cos()], dim=-1))"
    assert "built as `Net(dim=64)`, with arguments that were inferred" in problem.explanation


def test_what_stops_the_model_itself_asks_for_no_inputs(worker: Worker, model: Callable[..., Path]) -> None:
    text = STEPS.replace("s = self.side", "s = self.sides")
    assert {each.code for each in of(worker.trace(model(text)), "Net").problems} == {"FX003", "FX009"}

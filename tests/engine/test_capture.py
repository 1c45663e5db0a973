"""Capturing with inputs: one run without data gives eager's outputs on fresh inputs of the same shapes."""

import copy
import dataclasses
import functools
import itertools
import math
import sys
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.utils import parametrizations
from torch.utils import checkpoint

import fxengine
from tests.support.capturing import captured, plain, targets

X = torch.randn(2, 4)


def test_metadata_are_known_and_become_guards():
    def f(x, mask=None, *, scale: float = 2.0):
        assert isinstance(x, torch.Tensor)
        assert type(x) is torch.Tensor
        assert torch.is_tensor(x)
        assert str(x.device) == "cpu"
        assert not x.is_cuda
        assert not x.is_meta
        if x.dtype is torch.float32 and x.ndim == 2 and x.shape[0] < 3 and x.size(-1) == 4 and len(x) == 2:
            x = x.reshape(x.shape[0], -1) / f"{x.shape[1]}".count("4")
        rows, columns = x.shape
        positions = torch.arange(columns, device=x.device).float()
        for row in x:
            positions = positions + row
        return positions * rows * scale + (0 if mask is None else mask)

    found = captured(f, X)

    guards = {guard.expression: guard.value for guard in found.guards}
    assert guards == {"x.shape": (2, 4), "x.dtype": torch.float32, "x.device": torch.device("cpu")}
    first = next(guard for guard in found.guards if guard.expression == "x.dtype")
    assert first.frame.text == "x.dtype"


def test_a_keyword_that_has_to_be_given_may_stand_behind_one_that_need_not():
    def f(x, *, mask=None, context, scale=2.0):
        return (x + context) * scale

    found = captured(f, X, context=X)

    torch.testing.assert_close(found.graph_module(X, context=X + 1), (X + X + 1) * 2)


def test_a_model_that_asks_nothing_has_no_guards():
    found = captured(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), X)

    assert found.guards == ()
    assert found.graph_module(torch.randn(7, 4)).shape == (7, 2)


def test_guards_tell_what_other_inputs_violate():
    def f(x, flag, items):
        return x.reshape(x.shape[0] * 2, -1) if flag else items[0]

    found = captured(f, X, True, [X, 3])

    assert found.check_guards((X + 1, True, [X, 3])) == []
    violated = found.check_guards((torch.ones(3, 4), False, [X]))
    assert [(guard.expression, reason) for guard, reason in violated] == [
        ("x.shape[0]", "x.shape[0] is 3; the graph was made for 2"),
        ("flag", "flag is False; the graph was made for True"),
        ("items[1]", "items[1] is not given; the graph was made for 3"),
    ]


def _rows(x):
    return sum(row for row in x)


def _in_place(x):
    x = x.unsqueeze_(0)
    return x * x.shape[0]


@pytest.mark.parametrize(
    ("function", "guards"),
    [
        (lambda x: x * x.shape[1], {"x.shape[1]": 4}),
        (lambda x: x * x.shape[-1], {"x.shape[1]": 4}),
        (lambda x: x * x.size(0), {"x.shape[0]": 2}),
        (lambda x: x * x.size(dim=0), {"x.shape": (2, 4)}),
        (lambda x: x * len(x), {"x.shape[0]": 2}),
        (lambda x: x if x.ndim == 2 and x.dim() == 2 else -x, {"x.ndim": 2}),
        (lambda x: x if x.ndim == 2 and x.shape[1] == 4 else -x, {"x.ndim": 2, "x.shape[1]": 4}),
        (lambda x: x if x.ndim == 2 and x.shape == (2, 4) else -x, {"x.shape": (2, 4)}),
        (lambda x: x * math.prod(x.shape[1:]), {"x.shape": (2, 4)}),
        (lambda x: (x + 1) * (x + 1).shape[0], {"x.shape": (2, 4)}),
        (lambda x: x.unbind(-1)[0], {"x.shape[1]": 4}),
        (lambda x: x.split(1)[0] + torch.split(x, 2, dim=1)[0], {"x.shape[0]": 2, "x.shape[1]": 4}),
        (_rows, {"x.ndim": 2, "x.shape[0]": 2}),
        (_in_place, {"x.shape": (2, 4)}),
    ],
)
def test_a_guard_is_about_the_size_that_was_asked_for(function, guards):
    found = fxengine.capture(function, torch.ones(2, 4))

    assert {guard.expression: guard.value for guard in found.guards} == guards
    assert found.check_guards(torch.ones(2, 4)) == []
    if "x.shape[1]" not in guards and "x.shape" not in guards:
        assert found.check_guards(torch.ones(2, 5)) == []
    assert {guard.expression for guard, _ in found.check_guards(torch.ones(3, 5, 1))} == set(guards)


def test_operators_are_written_as_operators():
    def f(x):
        return (1 - x) * 2 / 3 + x**2 - x // 2 + x % 3 + (-x) @ x.T + (x > 0) * (~(x < 1) | (x != 2)) + 2 / x

    found = captured(f, torch.randn(4, 4))

    assert "call_method" not in {node.op for node in found.graph.nodes if node.target != "T"}
    assert "getattr" in targets(found)


def test_attributes_of_tensors_and_changes_in_place_are_repeated():
    def f(x):
        x += 1
        x[0, :2] = x.T[0, 0]
        table = torch.zeros(3, 4)
        row = table[1]
        row += x[0]
        table[2, x[0] > 0] = 7
        y = x.clone()
        y.masked_fill_(y > 0.5, -1).relu_()
        return table, y, x.data

    captured(f, X)


def test_constants_are_computed_and_random_numbers_are_drawn_in_each_run():
    def f(x):
        lengths = torch.tensor([2, 1, 1])
        if lengths.max().item() > 1 and bool((lengths > 0).all()):
            x = x.repeat_interleave(lengths, 1)[:, : int(lengths.sum())] if len(lengths) > 3 else x
        return x + torch.rand(4) + torch.rand_like(x) * F.dropout(x) + torch.linspace(0, 1, 4) + lengths[0]

    found = captured(f, X)

    assert {"rand", "rand_like", "dropout", "linspace"} <= set(targets(found))


@pytest.mark.parametrize(
    ("ask", "word"),
    [
        (lambda x: x if x.sum() > 0 else -x, "bool"),
        (lambda x: x * float(x.sum()), "float"),
        (lambda x: x if x.equal(x.round()) else -x, "equal"),
        (lambda x: x if torch.allclose(x, x.round()) else -x, "allclose"),
        (lambda x: torch.zeros(int(x[0, 0].exp())), "int"),
        (lambda x: x.numpy(), "numpy"),
        (lambda x: 3 in x, "contains"),
    ],
)
def test_what_only_data_can_tell_is_a_problem(ask, word):
    found = fxengine.capture(lambda x: ask(x + 1), X)

    (problem,) = found.problems
    assert isinstance(problem.exception, fxengine.capturing.DataDependent)
    assert f"`{word}`" in problem.message
    assert problem.site.path == __file__
    assert found.rest is not None
    found.graph.lint()
    assert repr(found.graph_module(X)) == repr(ask(X + 1))


class Detector(nn.Module):
    """A backbone, boxes from its features, and those that pass a threshold."""

    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
        self.head = Boxes()
        self.changes = False

    def forward(self, images):
        if self.changes:
            images += 1
        x = self.backbone(torch.stack([image * 2 for image in images]) if isinstance(images, list) else images)
        return self.head(x, self.backbone(x[:, :3]))


class Boxes(nn.Module):
    def __init__(self):
        super().__init__()
        self.scores = nn.Conv2d(4, 1, 1)

    def forward(self, x, y):
        scores = self.scores(x).flatten()
        kept = scores[scores > 0.1]
        return {"kept": kept if len(kept) else scores, "y": y}


def test_what_depends_on_data_is_one_call_at_the_end():
    detector, images = Detector(), [torch.randn(3, 8, 8), torch.randn(3, 8, 8)]

    found = fxengine.capture(detector, (images,))

    assert [node.target for node in found.graph.nodes if node.op == "call_module"] == [
        "backbone.0",
        "backbone.1",
        "backbone.0",
        "backbone.1",
        "head.scores",
        "_rest0",
    ]
    assert found.graph_module.get_submodule("_rest0").paths == ("backbone", "backbone", "head.scores")
    torch.testing.assert_close(found.graph_module(images), detector(images))
    assert "forward" not in vars(detector.backbone)
    assert not hasattr(detector, "_rest0")
    assert found.rest.origin.frames == found.problems[0].frames
    assert found.rest.origin.frames[-1].text == "len(kept)"


def test_what_was_changed_in_place_is_not_changed_twice():
    detector, images = Detector(), torch.randn(2, 3, 8, 8)
    detector.changes = True

    found = fxengine.capture(detector, images)

    assert [node.op for node in found.graph.nodes] == ["placeholder", "call_module", "output"]
    torch.testing.assert_close(found.graph_module(images.clone()), detector(images.clone()))


class Reworking(nn.Module):
    """Changes in place what its layers have returned, and then decides by data."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.third = nn.Linear(4, 4)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.first(x)
        y += 1
        z = self.second(y)
        kept = z * 3 + self.third(y)
        self.act(z)
        return kept + y if z.sum() > 0 else z


def test_results_of_layers_that_were_changed_in_place_are_computed_again():
    net = Reworking()

    found = fxengine.capture(net, X)

    assert found.graph_module.get_submodule("_rest0").paths == ("third",)
    for x in (X, -X, X * 9):
        torch.testing.assert_close(found.graph_module(x), net(x))


class Record(NamedTuple):
    a: torch.Tensor
    b: int


@dataclasses.dataclass
class Box:
    value: torch.Tensor
    more: dict


class Cache:
    def __init__(self, tensor):
        self.layers = [Box(tensor, {"n": tensor * 2})]
        self.seen = 3
        self.name = object


def test_inputs_and_outputs_may_be_any_structure():
    def f(record, *rest, box, **named):
        total = record.a * record.b + rest[1]["k"][0] + box.value + box.more["z"] + named["extra"]
        return {"record": Record(total, 2), "list": [total, (1, "a", None)], "box": Box(total, {"n": -total})}

    box = Box(X, {"z": X + 1})
    found = fxengine.capture(f, ((Record(X, 3), 1, {"k": [X]}), {"box": box, "extra": X}))

    assert not found.problems
    given = (Record(X + 1, 3), 1, {"k": [X * 3]})
    wanted = f(*given, box=Box(X, {"z": X}), extra=X)
    result = found.graph_module(*given, box=Box(X, {"z": X}), extra=X)
    torch.testing.assert_close(plain(result), plain(wanted))
    assert isinstance(result["record"], Record)
    assert isinstance(result["box"], Box)


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    value: torch.Tensor


class Shared:
    value = torch.ones(4)


@pytest.mark.parametrize("kind", ["slots", "class"])
def test_tensors_of_objects_are_inputs_wherever_they_are_kept(kind):
    def given(tensor):
        return Slotted(tensor) if kind == "slots" else type("Given", (Shared,), {"value": tensor})()

    found = fxengine.capture(lambda box: box.value * 2, (given(X),))

    assert not found.problems
    assert torch.equal(found.graph_module(given(X + 1)), (X + 1) * 2)
    assert torch.equal(Shared.value, torch.ones(4))


def test_objects_that_only_their_code_can_make_come_out_rebuilt():
    captured(lambda x: Cache(x + 1), X)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = parametrizations.weight_norm(nn.Linear(4, 4))
        self.scale = nn.Parameter(torch.ones(4))
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("mean", torch.zeros(4))
        self.seen = 0
        self.last = None

    def forward(self, x):
        self.seen += 1
        self.last = x
        self.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        with torch.no_grad():
            offset = x.mean()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.linear(x)
        assert y.dtype is torch.bfloat16
        return self.norm(y.float()) * self.scale + self.mean - offset


def test_the_model_is_left_alone_and_its_buffers_are_updated_by_the_graph():
    block = Block().train()
    before = copy.deepcopy(block.state_dict())

    found = captured(block, X)

    assert block.seen == 0
    assert block.last is None
    for name, value in block.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert {"_set_grad_enabled", "_enter_autocast", "_exit_autocast", "mean", "scale"} <= set(targets(found))
    assert [name for name, _ in found.graph_module.named_parameters()].count("scale") == 1
    assert not [name for name in vars(block) if name.startswith("_tensor_constant")]
    loss = found.graph_module(X).sum()
    loss.backward()
    assert block.scale.grad is not None


def test_a_failure_leaves_no_trace_in_the_model():
    class Failing(nn.Module):
        def __init__(self):
            super().__init__()
            self.kept = []

        def forward(self, x):
            self.kept.append(x)
            self.other = x
            raise ValueError("enough")

    failing = Failing()
    found = fxengine.capture(failing, X)

    assert found.problems[0].message == "enough"
    assert failing.kept == []
    assert not hasattr(failing, "other")


@torch.jit.script
def scripted(x, n: int):
    return x.relu() + n


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def test_what_raised_is_the_last_node_of_a_capture_that_it_stopped():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(4, 8), nn.Linear(9, 4)

        def forward(self, x, tries):
            x = self.first(x)
            for _ in range(tries):
                try:
                    x = x @ x
                except RuntimeError:
                    x = x + 1
            return self.last(x)

    found = fxengine.capture(Net(), (torch.ones(2, 4), 2))
    assert [node.name for node in found.graph.nodes if node.op == "call_function"] == ["add", "add_1"]
    assert (found.failed.target, found.failed.origin.frames[-1].text) == ("last", "self.last(x)")
    assert found.failed.all_input_nodes[0].tensor.shape == (2, 8)
    whole = Net()
    whole.last = nn.Linear(8, 4)
    assert captured(whole, torch.ones(2, 4), 1).failed is None


def test_the_ways_round_modes_are_watched():
    def f(x):
        y = scripted(x, 2) + Doubled.apply(x)
        z = torch.vmap(lambda row: row * y[0] + row.sum())(x)
        w = checkpoint.checkpoint(torch.sin, z, use_reentrant=False)
        return w + torch.ops.aten.relu(x) + torch.ops.aten.mul.Tensor(x, x) + nn.Parameter(x)

    captured(f, X)


def test_leaves_are_torchs_own_modules_and_compiled_ones():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(4, 4, batch_first=True)
            self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
            self.compiled = torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
            self.convolutions = nn.Sequential(nn.Conv1d(5, 6, 3, padding="same"), nn.ConvTranspose1d(6, 5, 2))

        def forward(self, x):
            y, (h, _) = self.lstm(x)
            z, _ = self.attention(y, y, y)
            return self.convolutions(self.compiled(z)), h

    found = captured(Net().eval(), torch.randn(2, 5, 4))

    modules = [node.target for node in found.graph.nodes if node.op == "call_module"]
    assert modules == ["lstm", "attention", "compiled", "convolutions.0", "convolutions.1"]


@fxengine.wrap
def _helper(x, times):
    for _ in range(times):
        x = x + 1
    return x


@fxengine.wrap
def _choosing(x):
    return x * 2 if x.sum() > 0 else x


def test_wrapped_functions_are_leaves_where_their_results_are_known():
    found = captured(lambda x: _helper(x, 3) * _helper(torch.ones(4), 2), X)

    assert targets(found) == ["x", "_helper", "_tensor_constant0", "mul", "output"]

    refused = fxengine.capture(lambda x: _choosing(x) + 1, X)
    assert len(refused.problems) == 1
    assert torch.equal(refused.graph_module(X), _choosing(X) + 1)


def _variables_around():
    frame, found = sys._getframe(1), 0
    while frame is not None:
        found, frame = found + len(frame.f_locals), frame.f_back
    return found


class _Looking(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        assert _variables_around()
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def test_code_in_a_leaf_may_look_at_the_variables_of_all_frames():
    assert "apply" in targets(captured(lambda x: _Looking.apply(x) + 1, X))


def test_what_is_compiled_is_looked_into():
    net = nn.Sequential(nn.Linear(4, 4))
    net.add_module("compiled", torch.compile(nn.Sequential(nn.Linear(4, 4), nn.ReLU())))

    found = fxengine.capture(net, X)

    assert found.problems == ()
    assert [node.target for node in found.graph.nodes if node.op == "call_module"] == [
        "0",
        "compiled._orig_mod.0",
        "compiled._orig_mod.1",
    ]


class _Packing(nn.Module):
    """How long the result is follows from the lengths, which are data."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.rnn = nn.GRU(4, 3, batch_first=True)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(self.first(x), lengths, batch_first=True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0]


def test_sequences_that_are_packed_by_their_lengths_are_captured_for_these():
    net, lengths = _Packing(), torch.tensor([3, 4])

    found = fxengine.capture(net, (torch.randn(2, 5, 4), lengths))

    assert found.problems == ()
    assert {"first", "rnn"} < set(targets(found))
    assert ("lengths.tolist()", [3, 4]) in [(guard.expression, guard.value) for guard in found.guards]
    x = torch.randn(2, 5, 4)
    torch.testing.assert_close(found.graph_module(x, lengths), net(x, lengths))
    with pytest.raises(AssertionError):
        found.graph_module(x, lengths + 1)


@pytest.mark.parametrize("kind", [nn.GRU, nn.RNN, functools.partial(nn.LSTM, proj_size=2)])
def test_sequences_that_are_packed_by_known_lengths_are_as_any_others(kind):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = kind(4, 3, num_layers=2, bidirectional=True, batch_first=True)

        def forward(self, x):
            packed = nn.utils.rnn.pack_padded_sequence(x, [5, 3], batch_first=True)
            output, state = self.rnn(packed)
            padded, lengths = nn.utils.rnn.pad_packed_sequence(output, batch_first=True, total_length=6)
            return padded.sum(1) / lengths[:, None], state, output.data

    captured(Net(), torch.randn(2, 5, 4))


class _Counting(_Packing):
    def forward(self, x):
        return super().forward(x, (x.sum(-1) > -99).sum(1))


def test_sequences_that_are_packed_by_what_data_tell_are_the_rest_of_the_run():
    net, x = _Counting(), torch.randn(2, 5, 4)

    found = fxengine.capture(net, x)

    assert len(found.problems) == 1
    assert "`pack_padded_sequence`" in found.problems[0].message
    assert found.rest is not None
    assert torch.equal(found.graph_module(x), net(x))


def test_helpers_that_remember_tensors_do_not_confuse_it():
    @functools.lru_cache
    def table(size, device):
        return torch.arange(size, device=device)

    def f(x):
        return x + table(x.shape[1], x.device)

    captured(f, X)
    captured(f, X)


def test_modules_and_parameters_from_outside_come_along():
    outside = nn.Linear(4, 4)
    weight = nn.Parameter(torch.ones(4))

    found = captured(lambda x: outside(x) * weight, X)

    assert found.graph_module.state_dict().keys() >= {"_module0.weight"}


def test_modules_made_on_the_way_are_none_that_a_model_goes_through():
    class Net(nn.Sequential):
        def forward(self, x):
            for layer in self:
                x = nn.Softmax(-1)(layer(x))
            return x * len(self) + sum(layer(x) for layer in self)

    net = Net(nn.Linear(4, 4), nn.Linear(4, 4))

    found = captured(net, X)

    assert [node.target for node in found.graph.nodes if node.op == "call_module"] == [
        *["0", "_module0", "1", "_module1"],
        *["0", "1"],
    ]
    assert not vars(net).keys() - vars(nn.Module()).keys()
    assert [*net._modules] == ["0", "1"]


def test_what_modules_from_outside_hold_has_names():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)
            self.register_buffer("scale", torch.full((4,), 3.0))

        def forward(self, x):
            return nn.functional.linear(x, self.inner.weight) * self.scale + self.inner(x)

    outside = Scaled()

    found = captured(lambda x: outside(x) + 1, X)

    assert found.graph_module.state_dict().keys() == {
        *["_module0.inner.weight", "_module0.inner.bias", "_module0.scale"],
    }
    assert {node.target for node in found.graph.nodes if node.op == "call_module"} == {"_module0.inner"}


def test_inputs_may_be_without_data():
    found = fxengine.capture(nn.Linear(4, 2, device="meta"), torch.empty(3, 4, device="meta"))

    assert next(node for node in found.graph.nodes if node.op == "output").args[0].tensor.shape == (3, 2)


def test_constants_as_large_as_a_machine_are_not_made():
    found = fxengine.capture(lambda x: x + torch.zeros(1 << 20, 1 << 20, device=x.device)[0, : x.shape[1]], X)

    assert not found.problems
    assert targets(found) == ["x", "zeros", "getitem", "add", "output"]


@pytest.mark.parametrize(
    "inputs",
    [X, (X,), [X], {"x": X}, ((X,), {}), ([], {"x": X})],
    ids=["tensor", "tuple", "list", "dict", "tuple and dict", "list and dict"],
)
def test_inputs_are_given_in_any_of_these_ways(inputs):
    assert fxengine.capture(lambda x: x + 1, inputs).graph_module(X).shape == X.shape


def test_nodes_know_their_source_and_their_shapes():
    def f(x):
        y = x.sum(1)
        return torch.stack([y, y])

    found = captured(f, X)

    stack = next(node for node in found.graph.nodes if node.name == "stack")
    assert stack.origin.frames[-1].text == "torch.stack([y, y])"
    assert stack.tensor.shape == (2, 2)


MODULES = [
    (nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2), (2, 4, 9)),
    (nn.Conv2d(4, 6, (3, 1), padding="same", padding_mode="circular"), (2, 4, 5, 6)),
    (nn.Conv2d(4, 6, 3, padding="valid"), (4, 5, 6)),
    (nn.Conv3d(4, 4, 2, groups=2, stride=(1, 2, 1)), (1, 4, 4, 5, 6)),
    (nn.Conv3d(4, 4, 3, stride=[2], padding=[1]), (1, 4, 4, 5, 6)),
    (nn.Linear(4, 3), (4,)),
    (nn.LayerNorm((3, 4)), (2, 3, 4)),
    (nn.LayerNorm(4, elementwise_affine=False), (2, 4)),
    (nn.BatchNorm2d(4), (2, 4, 3, 3)),
    (nn.BatchNorm3d(4, affine=False), (2, 4, 3, 3, 1)),
    (nn.Flatten(), (2, 3, 4)),
    (nn.Softmax(-1), (2, 3)),
    (nn.GELU("tanh"), (2, 3)),
    (nn.ReLU(inplace=True), (2, 3)),
    (nn.Dropout(0.2), (2, 3)),
    (nn.Dropout2d(0.2, inplace=True), (2, 3, 3, 3)),
    (nn.Identity(4, "anything"), (2, 3)),
]


@pytest.mark.parametrize(
    ("module", "shape", "training"),
    [(*case, training) for case, training in itertools.product(MODULES, (False, True))],
    ids=str,
)
def test_rules_of_modules_say_what_torch_does(module, shape, training):
    module.train(training)
    found = captured(nn.Sequential(copy.deepcopy(module)), torch.randn(shape))

    node = next(node for node in found.graph.nodes if node.op == "call_module")
    result = module(torch.randn(shape))
    assert node.tensor.shape == tuple(result.shape)
    assert node.tensor.dtype is result.dtype


def test_embeddings_take_integers():
    captured(nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 2)), torch.randint(0, 9, (2, 3)))


@pytest.mark.parametrize(
    "module",
    [nn.Conv2d(3, 4, 3), nn.Linear(5, 4), nn.LayerNorm(7), nn.BatchNorm2d(3), nn.Embedding(4, 4)],
    ids=lambda module: type(module).__name__,
)
def test_rules_of_modules_leave_errors_to_torch(module):
    found = fxengine.capture(module, torch.randn(2, 4, 2, 2))

    with pytest.raises((RuntimeError, ValueError)) as error:
        module(torch.randn(2, 4, 2, 2))
    assert type(found.problems[0].exception) is error.type


def test_vmap_over_constants_alone_is_not_recorded():
    def f(x):
        rows = torch.arange(x.shape[0])
        mask = torch.vmap(lambda i: torch.vmap(lambda j: i >= j)(rows))(rows)
        padding = torch.vmap(lambda i: torch.vmap(lambda j: x[i, j] > 0)(rows))(rows)
        return x.masked_fill(mask & padding, 0)

    found = captured(f, torch.randn(3, 3))

    assert targets(found).count("_vmap_increment_nesting") == 2
    assert "_tensor_constant0" in targets(found)


def test_an_object_of_a_class_without_a_name_is_made_anew():
    record = type("Inputs", (), {})

    def changed(batch):
        batch.x = batch.x * 2
        return batch

    def made():
        batch = record()
        batch.x = torch.ones(3)
        return batch

    found = fxengine.capture(changed, (made(),))

    assert found.problems == ()
    assert found.graph_module(made()).x.tolist() == [2, 2, 2]


def test_code_that_fails_where_it_is_told_that_it_is_compiled_is_told_that_it_is_not():
    def f(x, mask=None):
        if mask is None and not torch.compiler.is_compiling():
            mask = x > 0
        return x * mask.to(x.dtype)

    captured(f, X)


def test_what_fails_by_itself_is_told_as_it_fails_first():
    def f(x):
        if torch.compiler.is_compiling():
            raise ValueError("this way")
        raise ValueError("that way")

    assert "this way" in fxengine.capture(f, X).problems[0].message


def test_any_tensor_is_one_of_the_default_type():
    captured(lambda x: (x < 0).type(torch.Tensor) * x, X)


def test_a_parameter_may_have_the_name_of_the_class_of_devices():
    def schedule(steps, device):
        return torch.linspace(0.0, 1.0, steps, device=device) * 2

    captured(schedule, 4, torch.device("cpu"))


class Named(nn.Module):
    """Has a method of its own by a name of torch's."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def _get_name(self, metric):
        return f"named {metric}"

    def forward(self, x):
        return self.fc(x)


def test_what_a_class_is_called_by_is_no_matter_of_its_forward():
    assert targets(captured(Named(), X)) == ["x", "fc", "output"]

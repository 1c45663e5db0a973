"""Profiles: what is measured, what is counted, and how it is told."""

import itertools
import json
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from fxengine._symbolic_trace import symbolic_trace
from fxengine.inputs import infer_inputs
from fxengine.profiling import (
    ProfileCancelled,
    ProfileOptions,
    available_devices,
    calibrate,
    describe_device,
    graph_costs,
    measuring,
    model_cost,
    profile,
    result_from_dict,
    result_to_dict,
    shapes_and_costs,
    to_markdown,
    to_table,
    to_trace,
)
from fxengine.profiling.comparison import compare
from fxengine.profiling.folding import fold_by_line, folded_path
from fxengine.profiling.measuring import bind_placeholders
from fxengine.profiling.results import Timing

QUICK = ProfileOptions(warmup_limit=2, repeats=3, repeat_limit=3, seconds=1.0, calibrate=False)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self, width=32, depth=3):
        super().__init__()
        self.stem = nn.Linear(8, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return x.mean(1)


@pytest.fixture(scope="module")
def profiled():
    module = Net()
    traced = symbolic_trace(module)
    return profile(traced, module, infer_inputs(module, traced.graph), options=QUICK)


def test_every_call_has_a_row(profiled):
    assert [node.name for node in profiled.nodes][:3] == ["stem", "blocks_0_norm", "blocks_0_up"]
    assert len(profiled.nodes) == 1 + 3 * 5 + 1
    assert all(node.timing.seconds > 0 and node.timing.runs == 3 for node in profiled.nodes)
    assert all(node.place is not None and node.place.path == __file__ for node in profiled.nodes)
    assert profiled.nodes[1].module_path == "blocks.0.norm"
    assert profiled.nodes[0].result == "f32[2, 16, 32]"


def test_shares_add_up_to_what_is_explained(profiled):
    assert sum(node.share for node in profiled.nodes) == pytest.approx(profiled.explained)


def test_the_nodes_explain_the_whole():
    # One thread and many rounds: threads that wait for one another on a busy machine would drown everything else.
    module = Net()
    traced = symbolic_trace(module)
    options = replace(QUICK, repeats=41, repeat_limit=41, threads=1)
    result = profile(traced, module, infer_inputs(module, traced.graph), options=options)
    assert 0.1 < result.explained < 2


class Ready(nn.Module):
    """Keeps what it adds ready while it is not trained."""

    def __init__(self):
        super().__init__()
        self.scores, self.biases = nn.Linear(8, 16), nn.Parameter(torch.zeros(16))

    def train(self, mode=True):
        super().train(mode)
        if not mode:
            self.register_buffer("ready", 2 * self.biases.detach(), persistent=False)
        elif hasattr(self, "ready"):
            del self.ready

    def forward(self, x):
        return self.scores(x) + (2 * self.biases if self.training else self.ready)


def test_a_model_has_made_ready_what_its_evaluation_needs():
    root = Ready()
    result = profile(symbolic_trace(root), root, (torch.randn(2, 8),), options=QUICK)
    assert result.nodes
    assert root.training
    assert not hasattr(root, "ready")


def test_the_environment_is_recorded(profiled):
    environment = profiled.environment
    assert (environment.device, environment.dtype, environment.training) == ("cpu", "f32", False)
    assert environment.torch == torch.__version__
    assert profiled.model == "Net"
    assert profiled.inputs == "x f32[2, 16, 8]"


def test_memory_is_that_of_values_alive_at_once(profiled):
    up = next(node for node in profiled.nodes if node.name == "blocks_0_up")
    tokens = 2 * 16 * 4
    assert up.memory == tokens * (8 + 32 + 32 + 128)  # The input, the residual, the norm's result and its own.
    assert profiled.peak_memory == max(node.memory for node in profiled.nodes)
    assert profiled.parameter_bytes == sum(value.numel() * 4 for value in Net().parameters())


def test_a_result_survives_json(profiled):
    assert result_from_dict(json.loads(json.dumps(result_to_dict(profiled)))) == profiled
    with pytest.raises(ValueError, match="version"):
        result_from_dict({"version": 0})


def test_equal_blocks_are_one_row(profiled):
    folds = {fold.module_path: fold for fold in fold_by_line(profiled.nodes)}
    block = folds["blocks.*"]
    assert block.count == 3
    assert block.operations == ("norm", "up", "gelu", "down", "add")
    assert block.timing.seconds == pytest.approx(
        sum(node.timing.seconds for node in profiled.nodes if node.module_path.startswith("blocks"))
    )
    assert folded_path("layers.0.attn.11.proj") == "layers.*.attn.*.proj"
    assert folded_path("layer4.0.conv1") == "layer4.*.conv1"


def test_reports_for_people(profiled):
    table, markdown = to_table(profiled), to_markdown(profiled)
    assert table.startswith("Net on cpu (")
    assert "blocks.*.norm, up, gelu, down, add (×3)" in table
    assert "return x + self.down(F.gelu(self.up(self.norm" in table
    assert markdown.startswith("# Net on cpu")
    assert f"test_profiling.py#L{Block.forward.__code__.co_firstlineno + 1}" in markdown


def test_the_trace_nests_nodes_in_their_modules(profiled):
    trace = json.loads(json.dumps(to_trace(profiled)))
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    node = next(event for event in events if event["name"] == "blocks_1_up")
    around = [
        event["name"]
        for event in events
        if event["cat"] == "module"
        and event["ts"] <= node["ts"]
        and node["ts"] + node["dur"] <= event["ts"] + event["dur"] + 0.01
    ]
    assert around == ["blocks", "blocks.1"]
    assert f"test_profiling.py:{Block.forward.__code__.co_firstlineno + 1}:" in node["args"]["source"]
    assert node["args"]["text"] == "self.up(self.norm(x))"
    assert node["args"]["result"] == "f32[2, 16, 128]"


def timed(result, error, first=1e-3):
    """The same profile with a millisecond for each node, and another time for the first."""
    nodes = [replace(node, timing=Timing(1e-3, error, 9)) for node in result.nodes]
    nodes[0] = replace(nodes[0], timing=Timing(first, error, 9))
    return replace(result, nodes=tuple(nodes), graph=Timing(len(nodes) * 1e-3, error, 9))


class SlowHost:
    """The clock of a device that does its work in no time, once it is told of it, on a host that is slow."""

    holds = True

    def __init__(self):
        self.now = 0.0
        self.marks = []
        self.held = []

    def hold(self, seconds):
        self.held.append(seconds)

    def mark(self):
        self.marks.append(self.now)
        self.now += 1e-3

    def read(self):
        spans = [after - before for before, after in itertools.pairwise(self.marks)]
        self.marks = []
        return spans


@pytest.fixture
def accelerated(monkeypatch):
    clock = SlowHost()
    monkeypatch.setattr(measuring, "clock_for", lambda _: clock)
    module = Net(depth=1)
    return profile(symbolic_trace(module), module, (torch.randn(2, 4, 8),), options=QUICK), clock


def test_a_device_is_kept_busy_while_its_host_fills_its_queue(accelerated):
    result, clock = accelerated
    calls, rounds = len(result.nodes), len(clock.held) // len(result.nodes)
    assert clock.held[:calls] == [0.0] * calls  # In the first round its host shows how long it needs.
    assert rounds >= 3
    assert all(seconds >= 3e-5 for seconds in clock.held[calls:])
    assert clock.held[calls : 2 * calls] == clock.held[2 * calls : 3 * calls]


def test_a_report_says_what_an_accelerator_and_its_host_need(accelerated):
    result, _ = accelerated
    assert all(node.host > 0 for node in result.nodes)
    assert result.apart
    result = replace(result, nodes=(replace(result.nodes[0], host=4e-5), *result.nodes[1:]), explained=0.25)
    table, markdown = to_table(result), to_markdown(result)
    assert "the device is busy for 25.0% of it and waits for its host" in table
    assert "waits" not in to_table(replace(result, explained=0.95))
    assert table.splitlines()[3].split() == ["time", "share", "host", "line", "source", "node", "GFLOP/s", "of", "peak"]
    assert "40.0 µs" in table
    assert "| time | ± | share | host | line |" in markdown
    event = next(each for each in to_trace(result)["traceEvents"] if each["name"] == "stem")
    assert event["args"]["host_us"] == 40.0
    assert result_from_dict(json.loads(json.dumps(result_to_dict(result)))) == result


def test_only_significant_changes_are_told(profiled):
    before = timed(profiled, 1e-5)
    assert compare(before, before).changes == ()
    assert "no significant change" in to_table(compare(before, before))
    (change,) = compare(timed(profiled, 1e-5, first=3e-3), before).changes
    assert change.ratio == pytest.approx(3.0)
    assert change.label == f"line {Net.forward.__code__.co_firstlineno + 1}"
    assert "+200.0% ± 1.4% on line" in to_table(compare(timed(profiled, 1e-5, first=3e-3), before))
    assert compare(timed(profiled, 1e-3, first=3e-3), timed(profiled, 1e-3)).changes == ()
    assert compare(before, replace(before, model="Other")).compared_with == ""


def test_progress_is_told_and_may_cancel():
    module = Net(depth=1)
    traced = symbolic_trace(module)
    told = []
    profile(
        traced,
        module,
        (torch.randn(2, 4, 8),),
        options=QUICK,
        progress=lambda fraction, message: told.append((fraction, message)),
    )
    assert [fraction for fraction, _ in told] == sorted(fraction for fraction, _ in told)
    assert told[-1][1].startswith("measuring")
    with pytest.raises(ProfileCancelled):
        profile(traced, module, (torch.randn(2, 4, 8),), options=QUICK, progress=lambda *_: False)


def test_modes_and_threads_are_put_back():
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout()).train()
    module[0].eval()
    threads = torch.get_num_threads()
    profile(symbolic_trace(module), module, (torch.randn(2, 4),), options=replace(QUICK, threads=1))
    assert (module.training, module[0].training, module[1].training) == (True, False, True)
    assert torch.get_num_threads() == threads


def test_a_model_without_data_is_refused():
    with torch.device("meta"):
        module = nn.Linear(3, 4)
    with pytest.raises(ValueError, match="built on meta"):
        profile(symbolic_trace(module), module, (torch.randn(2, 3),), options=QUICK)


def test_placeholders_are_bound_like_a_call():
    def forward(x, *, z, y=2):
        return x + y + z

    traced = symbolic_trace(forward)
    assert bind_placeholders(traced, (1,), {"z": 3}) == (1, 3, 2)
    with pytest.raises(TypeError, match="no value for the input `x`"):
        bind_placeholders(traced, (), {"z": 3})
    with pytest.raises(TypeError, match="too much"):
        bind_placeholders(traced, (1, 2, 3, 4), {})


def test_what_is_given_by_name_alone_takes_no_argument_by_position():
    def forward(x, *rest, context=None):
        return x + rest[0] if context is None else x + context

    traced = symbolic_trace(forward)
    names = [str(node.target) for node in traced.graph.nodes if node.op == "placeholder"]
    assert dict(zip(names, bind_placeholders(traced, (1, 2), {}, forward), strict=True)) == {
        "x": 1, "context": None, "*rest": 2,
    }  # fmt: skip


FLOPS = [
    (lambda: nn.Linear(8, 4), (3, 8), 3 * 4 * (2 * 8 + 1)),
    (lambda: nn.Linear(8, 4, bias=False), (3, 8), 3 * 4 * 2 * 8),
    (lambda: nn.Conv2d(3, 6, 3, bias=False), (2, 3, 8, 8), 2 * 6 * 36 * 2 * 27),
    (lambda: nn.Conv2d(4, 8, 3, groups=4, bias=False), (1, 4, 5, 5), 8 * 9 * 2 * 9),
    (lambda: nn.ConvTranspose2d(3, 6, 2, bias=False), (1, 3, 4, 4), 3 * 16 * 2 * 6 * 4),
    (nn.ReLU, (3, 8), 24),
    (lambda: nn.MaxPool2d(2), (1, 2, 4, 4), 2 * 4 * 4),
    (lambda: nn.Embedding(10, 4), None, 0),
]  # fmt: skip


@pytest.mark.parametrize(("make", "shape", "flops"), FLOPS)
def test_operations_are_counted(make, shape, flops):
    given = torch.zeros(2, 3, dtype=torch.int64) if shape is None else torch.zeros(shape)
    assert model_cost(make(), (given,)).flops == flops


@pytest.mark.parametrize(
    ("call", "flops"),
    [
        (lambda x: x @ x.transpose(1, 2), 2 * 2 * 3 * 3 * 4),
        (lambda x: torch.einsum("bij,bkj->bik", x, x), 2 * 2 * 3 * 3 * 4),
        (lambda x: torch.bmm(x, x.transpose(1, 2)), 2 * 2 * 3 * 3 * 4),
        (lambda x: F.scaled_dot_product_attention(*(x[:, None],) * 3), 2 * 3 * 3 * (2 * 8 + 5)),
        (lambda x: x.view(6, 4).t(), 0),
        (lambda x: x.softmax(-1), 5 * 24),
    ],
)
def test_functions_are_counted(call, flops):
    assert model_cost(call, (torch.zeros(2, 3, 4),)).flops == flops


def test_what_composite_layers_call_is_counted():
    layer = nn.MultiheadAttention(16, 4, batch_first=True)
    x = torch.zeros(2, 5, 16)
    projections = 4 * 2 * 5 * 16 * 2 * 16
    scores = 2 * 2 * 4 * 5 * 5 * 2 * 4
    counted = model_cost(layer, (x, x, x)).flops
    assert projections + scores <= counted <= 1.2 * (projections + scores)


def test_recurrent_layers_are_counted_step_by_step():
    short = model_cost(nn.LSTM(8, 16), (torch.zeros(5, 2, 8),)).flops
    assert model_cost(nn.LSTM(8, 16), (torch.zeros(10, 2, 8),)).flops == 2 * short
    assert short >= 5 * 2 * 2 * 4 * 16 * (8 + 16)


def test_costs_and_shapes_come_from_one_run():
    traced = symbolic_trace(Net())
    report, costs = shapes_and_costs(traced, (torch.empty(2, 16, 8, device="meta"),))
    assert report.complete
    up = next(node for node in traced.graph.nodes if node.name == "blocks_0_up")
    assert costs[up].flops == 32 * 128 * (2 * 32 + 1)
    assert costs[up].bytes == 4 * (32 * 32 + 32 * 128 + 128 * 32 + 128)
    assert up.tensor.shape == (2, 16, 128)
    assert graph_costs(traced, (torch.empty(2, 16, 8),)) == costs


def test_the_cpu_is_always_there():
    assert available_devices()[0] == "cpu"
    info = describe_device(torch.device("cpu"))
    assert info.threads == torch.get_num_threads()
    assert info.name
    peak = calibrate(torch.device("cpu"))
    assert peak.flops > 1e8
    assert peak.bandwidth > 1e7


def test_a_peak_is_that_of_the_numbers_which_the_model_has():
    module = nn.Sequential(nn.Linear(4, 4, dtype=torch.float64), nn.LayerNorm(4))
    result = profile(symbolic_trace(module[0]), module[0], (torch.randn(2, 4).double(),), options=QUICK)
    assert result.environment.dtype == "f64"
    assert measuring._data_type(module) is torch.float64
    assert measuring._data_type(nn.Embedding(3, 4).to(torch.complex64)) is torch.get_default_dtype()

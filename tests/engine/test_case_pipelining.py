"""Graphs are cut into stages that work at the same time."""

import threading

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody's name for it.
from torch import nn

from fxengine._symbolic_trace import Tracer, symbolic_trace
from fxengine.graph_module import GraphModule
from fxengine.passes.cost_analysis import analyse_costs
from fxengine.passes.pipelining import split_into_stages
from tests.support import corpus


class Skips(nn.Module):
    """Values cross several stages, parameters are used directly, there are several inputs and results."""

    def __init__(self, depth=6):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(16, 16) for _ in range(depth)])
        self.scale = nn.Parameter(torch.rand(16))

    def forward(self, x, y, factor=2.0):
        first = x
        for layer in self.layers:
            x = F.gelu(layer(x)) * self.scale + y * factor
        half, rest = x.chunk(2, -1)
        return {"sum": half + first[:, :8], "rest": [rest, x * self.scale]}


def weights_of(traced, *args):
    return analyse_costs(traced, *args).roofline(flops=1e10, bandwidth=1e10).by_node


@pytest.fixture
def skips():
    torch.manual_seed(0)
    return Skips().eval()


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_stages_compute_the_same(skips, count):
    traced = symbolic_trace(skips)
    x, y = torch.randn(20, 16), torch.randn(20, 16)
    pipeline = split_into_stages(traced, weights_of(traced, x, y, 2.0), count)
    assert len(pipeline.stages) == count
    calls = [node.name for node in traced.graph.nodes if node.op.startswith("call")]
    assert [name for stage in pipeline.stages for name in stage.nodes] == calls
    torch.testing.assert_close(pipeline.module(x, y), skips(x, y))
    torch.testing.assert_close(pipeline(x, y, 3.0, micro_batches=7), skips(x, y, 3.0))
    torch.testing.assert_close(pipeline(x, y), skips(x, y))


def test_more_micro_batches_than_rows_are_not_made(skips):
    traced = symbolic_trace(skips)
    x, y = torch.randn(2, 16), torch.randn(2, 16)
    pipeline = split_into_stages(traced, weights_of(traced, x, y, 2.0), 3)
    torch.testing.assert_close(pipeline(x, y, micro_batches=9), skips(x, y))


def test_the_largest_stage_is_as_small_as_can_be():
    traced = symbolic_trace(nn.Sequential(*[nn.Identity() for _ in range(7)]))
    calls = [node for node in traced.graph.nodes if node.op == "call_module"]
    weights = dict(zip(calls, [4, 1, 1, 2, 3, 1, 4], strict=True))
    pipeline = split_into_stages(traced, weights, 3)
    assert [stage.weight for stage in pipeline.stages] == [6, 6, 4]
    assert pipeline.balance == pytest.approx(16 / 3 / 6)
    assert pipeline.ideal_speedup == pytest.approx(16 / 6)
    heavy = split_into_stages(traced, {calls[3]: 1.0}, 3)
    assert max(stage.weight for stage in heavy.stages) == 1
    with pytest.raises(ValueError, match="0 stages"):
        split_into_stages(traced, weights, 0)


class Meeting(nn.Module):
    """Waits for the other stage in one of its calls: two that meet are at work at the same time."""

    def __init__(self, barrier, call):
        super().__init__()
        self.barrier, self.call = barrier, call
        self.threads = []

    def forward(self, x):
        self.threads.append(threading.get_ident())
        if len(self.threads) == self.call:
            self.barrier.wait(30)
        return x + 1


class Leaves(Tracer):
    def is_leaf_module(self, m, module_qualified_name):
        return isinstance(m, Meeting)


def test_stages_work_at_the_same_time():
    barrier = threading.Barrier(2)
    first, second = Meeting(barrier, 2), Meeting(barrier, 1)
    module = nn.Sequential(first, second)
    traced = GraphModule(module, Leaves().trace(module))
    pipeline = split_into_stages(traced, dict.fromkeys(traced.graph.find_nodes(op="call_module"), 1.0), 2)
    assert [float(result) for result in pipeline.stream([(torch.zeros(1),), (torch.ones(1),)])] == [2.0, 3.0]
    assert len(set(first.threads)) == len(set(second.threads)) == 1
    assert first.threads != second.threads


def test_an_error_is_raised_when_its_batch_comes():
    def forward(x):
        return (x.view(2, 2) + 1).relu()

    traced = symbolic_trace(forward)
    calls = [node for node in traced.graph.nodes if node.op.startswith("call")]
    pipeline = split_into_stages(traced, dict.fromkeys(calls, 1.0), 3)
    results = pipeline.stream([(torch.ones(4),), (torch.ones(3),), (torch.ones(4),)])
    assert next(results).sum() == 8
    with pytest.raises(RuntimeError, match="invalid for input of size 3"):
        next(results)


def test_a_stream_takes_no_more_than_it_needs_and_can_be_given_up(skips):
    traced = symbolic_trace(skips)
    x = torch.randn(4, 16)
    pipeline = split_into_stages(traced, weights_of(traced, x, x, 2.0), 2)
    taken = []

    def batches():
        for number in range(1000):
            taken.append(number)
            yield (x, x)

    results = pipeline.stream(batches())
    torch.testing.assert_close(next(results), skips(x, x))
    results.close()
    assert len(taken) < 10


def test_modes_of_the_caller_hold_in_the_stages(skips):
    traced = symbolic_trace(skips)
    x = torch.randn(4, 16)
    pipeline = split_into_stages(traced, weights_of(traced, x, x, 2.0), 2)
    assert pipeline(x, x)["sum"].requires_grad
    with torch.no_grad():
        assert not pipeline(x, x)["sum"].requires_grad
    with torch.inference_mode():
        assert pipeline(x, x)["sum"].is_inference()
    pipeline(x, x)["sum"].sum().backward()
    expected = Skips().eval()
    expected.load_state_dict(skips.state_dict())
    expected(x, x)["sum"].sum().backward()
    torch.testing.assert_close(skips.scale.grad, expected.scale.grad)


def test_any_number_of_arguments():
    def forward(*tensors):
        return torch.cat(tensors, 1).relu() + tensors[0].sum(1, keepdim=True)

    traced = GraphModule(nn.Module(), Tracer().trace(forward))
    pipeline = split_into_stages(traced, {}, 2)
    x, y = torch.randn(6, 2), torch.randn(6, 3)
    with pytest.raises(RuntimeError, match="Expected positional"):
        next(split_into_stages(symbolic_trace(lambda a, b: a + b), {}, 1).stream([(x,)]))
    assert len(pipeline.stages) == 1
    torch.testing.assert_close(pipeline(x, y, micro_batches=3), forward(x, y))


def test_what_cannot_be_cut_or_joined_is_told():
    traced = symbolic_trace(lambda x, y: (x + y).sum())
    calls = [node for node in traced.graph.nodes if node.op.startswith("call")]
    pipeline = split_into_stages(traced, dict.fromkeys(calls, 1.0), 2)
    with pytest.raises(ValueError, match="one size"):
        pipeline(torch.ones(4), torch.ones(3))
    with pytest.raises(ValueError, match="first dimension"):
        pipeline(torch.ones(4), torch.ones(4))


@pytest.mark.corpus
@pytest.mark.parametrize("name", ["torchvision:resnet18", "timm:vit_tiny_patch16_224", "torchvision:densenet121"])
def test_real_models(name):
    library, _, model_name = name.partition(":")
    corpus.prepare()
    torch.manual_seed(0)
    if library == "timm":
        import timm

        model = timm.create_model(model_name, img_size=64).eval()
    else:
        import torchvision

        model = torchvision.models.get_model(model_name).eval()
    traced = symbolic_trace(model)
    given = torch.randn(4, 3, 64, 64)
    pipeline = split_into_stages(traced, weights_of(traced, given), 4)
    assert pipeline.balance > 0.75
    with torch.no_grad():
        torch.testing.assert_close(pipeline(given, micro_batches=4), model(given), rtol=1e-4, atol=1e-4)

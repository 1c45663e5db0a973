"""Models that ask for an accelerator, or for other processes, where there are none."""

import copy

import pytest
import torch
from torch import distributed, nn

from fxworker.building import attempt


class Streams(nn.Module):
    def __init__(self):
        super().__init__()
        self.stream = torch.cuda.Stream(device=torch.cuda.current_device())
        self.event = torch.cuda.Event(enable_timing=True)
        self.stream.wait_stream(torch.cuda.current_stream())
        torch.cuda.synchronize()
        assert self.event.query()


class Moving(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("grid", torch.linspace(0, 1, 5).cuda())
        self.register_buffer("rest", torch.tensor([1.0, 2.0]).to("cuda:0", torch.float64, non_blocking=True))
        self.places = torch.arange(3).to(device=torch.device("cuda"))
        self.kept = self.grid.new_zeros(3, device="cuda").pin_memory()
        self.fc = nn.Linear(2, 3).cuda().to("cuda")
        self.weight = nn.Parameter(torch.cuda.FloatTensor(3))


class Demanding(nn.Module):
    def __init__(self):
        super().__init__()
        self.has_one = torch.cuda.is_available()
        if not torch.cuda.is_available():
            raise RuntimeError("There must be an accelerator")
        self.streams = [torch.cuda.Stream() for _ in range(2)]


class Processes(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        assert distributed.is_initialized()
        self.alone = not distributed.is_initialized()
        distributed.barrier()
        self.fc = nn.Linear(width // distributed.get_world_size(), distributed.get_rank() + 1)


def test_streams_have_nothing_to_wait_for():
    before = torch.cuda.Stream
    model = attempt(Streams, real=False)
    copy.deepcopy(model)
    assert torch.cuda.Stream is before


def test_tensors_stay_where_they_are():
    model = attempt(Moving, real=False)
    assert model.grid.tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert model.rest.dtype == torch.float64
    assert (model.places.tolist(), model.kept.shape, model.weight.shape) == ([0, 1, 2], (3,), (3,))


def test_the_process_is_the_only_one():
    model = attempt(Processes, real=False)
    assert model.alone
    assert (model.fc.in_features, model.fc.out_features) == (8, 1)
    with pytest.raises(ValueError, match="process group"):
        distributed.get_world_size()


def test_there_is_an_accelerator_for_those_that_raise_without_one():
    model = attempt(Demanding, real=False)
    assert (model.has_one, len(model.streams)) == (torch.cuda.is_available(), 2)


AWAY = """
import torch
from torch import nn
from torch.autograd import Variable

device = torch.device("cuda:1")


class Constants(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.scale = torch.ones(8).to(device)

    def forward(self, x):
        noise = torch.tensor([1.0] * 8, device=device) + torch.ones(8).cuda()
        return self.fc(x.cuda()) * noise * self.scale.to("cuda").to(x.device)


class States(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(8, 16, batch_first=True)

    def forward(self, x):
        h = Variable(torch.zeros(1, x.size(0), 16)).cuda()
        return self.gru(x, torch.cat([h, torch.zeros(1, x.size(0), 16, device="cuda")])[:1])[0]


class Types(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(8, 4, 3)

    def forward(self, x):
        torch.cuda.synchronize()
        pad = torch.cuda.FloatTensor(x.size(0), x.size(1), 2).fill_(0)
        steps = torch.arange(x.size(2)).to("cuda")
        return self.conv(torch.cat([pad, x], 2))[:, :, : int(steps[-1])]
"""


def test_nothing_of_a_trace_is_on_an_accelerator(worker, model):
    report = worker.trace(model(AWAY))
    assert {target.qualname: target.captured or target.status == "complete" for target in report.targets} == {
        "Constants": True,
        "States": True,
        "Types": True,
    }
    problems = [problem for target in report.targets for problem in target.problems]
    assert not [problem for problem in problems if problem.code in {"FX009", "FX201", "FX202"}], problems
    assert {target.inputs.expression for target in report.targets} == {
        "torch.randn(2, 8)",
        "torch.randn(2, 16, 8)",
        "torch.randn(2, 8, 64)",
    }


def test_what_is_symbolic_is_recorded_with_the_device_that_the_code_names(worker, model):
    text = AWAY.replace(
        "return self.fc(x.cuda()) * noise", "return self.fc(x.cuda()) + torch.zeros_like(x, device=device)"
    )
    target = next(each for each in worker.trace(model(text)).targets if each.qualname == "Constants")
    assert target.status == "complete"
    assert "torch.zeros_like(x, device = device(type='cuda', index=1))" in target.code.replace("torch.device", "device")
    assert ".cuda()" in target.code


@pytest.mark.parametrize("name", ["Constants", "States", "Types"])
def test_what_is_measured_on_the_processor_runs_there_whatever_it_names(worker, model, name):
    _, report = worker.profile(model(AWAY), name)
    assert report.status == "complete", report.problems
    assert report.rows

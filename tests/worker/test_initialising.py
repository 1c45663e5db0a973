"""Layers that are shared out among processes: there is one, and what a script would have made ready for it is."""

import pytest

from fxworker.initialising import with_groups
from tests.worker.harness import all_problems, of

GROUPS = """\
import torch

GROUP = None


def initialize_model_parallel(size):
    global GROUP
    assert torch.distributed.is_initialized()
    for start in range(torch.distributed.get_world_size() // size):
        group = torch.distributed.new_group([start])
        if start == torch.distributed.get_rank():
            GROUP = group


def get_group():
    assert GROUP is not None, "model parallel group is not initialized"
    return GROUP


def get_world_size():
    return torch.distributed.get_world_size(group=get_group())
"""

MODEL = """\
import torch
from torch import nn
from groups import get_group, get_world_size


class Shared(nn.Module):
    def __init__(self, width=8, out=4):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out // get_world_size(), width))

    def forward(self, x):
        y = x @ self.weight.t()
        torch.distributed.all_reduce(y, group=get_group())
        return y
"""


def test_a_group_of_processes_is_made_by_who_makes_it(worker, model):
    model(GROUPS, "groups.py")
    report = worker.trace(model(MODEL))
    shared = of(report, "Shared")
    assert not all_problems(report)
    assert shared.status == "complete"
    assert shared.inputs is not None


def test_where_nobody_makes_it_that_is_told(worker, model):
    model(GROUPS.replace("def initialize_model_parallel(size)", "def make(size)"), "groups.py")
    (problem,) = all_problems(worker.trace(model(MODEL)))
    assert problem.code == "FX103"
    assert "model parallel group is not initialized" in problem.explanation


READY = []


def initialize_table(size):
    READY.append(size)


def init_others():
    READY.append("others")


def initialise_this(first, second):
    READY.append((first, second))


def asked(text):
    if not READY:
        raise RuntimeError(text)
    return READY.copy()


def test_only_what_is_spoken_of_is_made_ready():
    READY.clear()
    with pytest.raises(RuntimeError):
        with_groups(lambda: asked("the table is wrong"))
    with pytest.raises(RuntimeError):
        with_groups(lambda: asked("the default device has not been initialized"))
    assert with_groups(lambda: asked("The table isn't yet initialised, call initialize_table")) == [1]

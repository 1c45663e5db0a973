"""A diagnosis ends in time: only the first run takes as long as the model does, and `cut` says what was left out."""

import time

import numpy as np
import torch
from torch import Tensor, nn

from fxengine import diagnose
from fxengine.exploration import Budget
from fxengine.exploration.deadlines import Deadline
from fxengine.graph import Graph


class FailsAndLoops(nn.Module):
    """Fails as a module, so it becomes a call whose value is computed by running it."""

    def __init__(self) -> None:
        super().__init__()
        self.part = Fails()

    def forward(self, x: Tensor) -> Tensor:
        y = self.part(x)
        return y + 1 if y.shape[0] > 2 else y


class Fails(nn.Module):
    """Cannot be traced, and never ends when it is run."""

    def forward(self, x: Tensor) -> Tensor:
        {torch.float32: 1}[x.dtype]
        while True:
            x = torch.add(x, 1)


class Asks(nn.Module):
    """Asks what inputs decide."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if x.shape[0] > 2 else x


class GoesOnForEver(nn.Module):
    """Does not end once it is not stopped any more."""

    def forward(self, x: Tensor) -> Tensor:
        np.zeros(x.shape)
        while True:
            x = torch.add(x, 1)


class Slow(nn.Module):
    """Takes a while for each run, and leads further in each of several runs."""

    count = 0

    def forward(self, x: Tensor) -> Tensor:
        time.sleep(0.2)
        type(self).count += 1
        y = np.zeros(x.shape)
        z = np.ones(x.shape)
        return y.sum() + z.sum()


def test_time_in_which_the_processor_does_something_else_counts_half() -> None:
    deadline = Deadline(0.1)
    time.sleep(0.12)
    assert not deadline.is_over()
    with deadline.paused():
        time.sleep(0.12)
    assert not deadline.is_over()
    time.sleep(0.12)
    assert deadline.is_over()


def test_time_of_the_processor_counts_whole() -> None:
    deadline = Deadline(0.05)
    begun = time.process_time()
    while time.process_time() - begun < 0.06:
        pass
    assert deadline.is_over()


def test_values_are_computed_only_as_long_as_there_is_time() -> None:
    begun = time.monotonic()
    diagnosis = diagnose(FailsAndLoops(), inputs=((torch.ones(3),), {}), budget=Budget(seconds=0.3))
    assert time.monotonic() - begun < 5
    assert "0.3 s" in diagnosis.cut


def test_what_is_changed_in_place_has_no_value_once_the_time_is_over() -> None:
    class Net(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = x + 1
            z = y * 2 if y.shape[0] > 1 else y
            while time.process_time() < ends:
                pass
            y.add_(1)
            return y + z if y.shape[0] > 2 else z

    ends = time.process_time() + 0.15
    diagnosis = diagnose(Net(), inputs=((torch.ones(3),), {}), budget=Budget(seconds=0.1))
    assert {each.code for each in diagnosis.problems} == {"FX001"}
    assert "0.1 s" in diagnosis.cut


def test_inputs_are_looked_for_in_time_of_their_own() -> None:
    def find(_: Graph) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
        time.sleep(0.7)
        return (torch.ones(3),), {}

    diagnosis = diagnose(Asks(), find, budget=Budget(seconds=0.3))
    assert not diagnosis.cut
    assert [each.value for each in diagnosis.problems] == ["True"]


def test_a_repeated_run_ends_in_time() -> None:
    begun = time.monotonic()
    diagnosis = diagnose(GoesOnForEver(), budget=Budget(seconds=0.3))
    assert time.monotonic() - begun < 5
    assert "0.3 s" in diagnosis.cut
    assert [each.code for each in diagnosis.problems] == ["FX006"]


def test_a_run_is_repeated_only_as_long_as_there_is_time() -> None:
    Slow.count = 0
    diagnosis = diagnose(Slow(), budget=Budget(seconds=0.1))
    assert Slow.count == 1
    assert "0.1 s" in diagnosis.cut
    assert diagnosis.problems


def test_silent_errors_are_looked_for_only_as_long_as_there_is_time() -> None:
    class Net(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            time.sleep(0.2)
            return torch.dropout(x, 0.5, self.training)

    assert [each.code for each in diagnose(Net()).silent] == ["FX301"]
    diagnosis = diagnose(Net(), budget=Budget(seconds=0.1))
    assert not diagnosis.silent
    assert "0.1 s" in diagnosis.cut

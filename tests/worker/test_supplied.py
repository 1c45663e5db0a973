"""Parts of models that get their arguments from weights which are not there."""

import pytest
from torch import nn

from fxworker.building import attempt
from fxworker.offline import AbsentWeights
from tests.worker.harness import of

TEXT = """
import torch
from torch import nn


class Teacher(nn.Module):
    def __init__(self, backend, width, depth, gain=1.0):
        super().__init__()
        assert backend in ("eager", "fused")
        self.layers = nn.Sequential(*[nn.Linear(width, width) for _ in range(depth)])
        self.gain = gain

    @classmethod
    def load(cls, path, backend="eager"):
        checkpoint = torch.load(path)
        model = cls(backend=backend, **checkpoint["hyper_parameters"])
        model.load_state_dict(checkpoint["state_dict"])
        return model

    def forward(self, x):
        return self.layers(x) * self.gain


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.teacher = Teacher.load("/no/such/teacher.ckpt", backend="fused")

    def forward(self, x):
        return self.teacher(x)
"""


def test_a_model_with_such_a_part_is_built(worker, model):
    student = of(worker.trace(model(TEXT)), "Student")
    assert student.status == "complete"
    assert student.construct is not None
    assert student.construct.expression == "Student()"
    assert not student.problems


CHECKPOINT = AbsentWeights("part.ckpt")


class Part(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, 2)


class Heir(Part):
    pass


class Whole(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.part = kind(**CHECKPOINT["config"])
        self.count = sum(each.numel() for each in self.part.parameters())


def test_nothing_but_that_call_gets_arguments():
    for kind in (Part, Heir):
        whole = attempt(lambda kind=kind: Whole(kind))
        assert (type(whole.part), whole.part.fc.in_features) == (kind, 64)
        with pytest.raises(TypeError, match="missing"):
            attempt(kind)
    assert "__init__" not in vars(Heir)

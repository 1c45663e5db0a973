"""What is told of a model that an edit has made run only if it is built otherwise, or on other inputs."""

from dataclasses import replace

import pytest

from fxworker.wire import Construct
from tests.worker.harness import marked, only_problem

PATCHES = """from torch import nn


class Patches(nn.Module):
    def __init__(self, patch, dim, classes):
        super().__init__()
        self.stem = nn.Conv2d(3, 3, 1)
        self.patch = nn.Unfold(patch, stride=patch)
        self.embed = nn.Linear(3 * patch * patch, dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, image):
        x = self.patch(self.stem(image)).transpose(1, 2)
        return self.head(self.embed(x).mean(1))
"""
WRONG = PATCHES.replace("3 * patch * patch", "classes")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "patches.py"


def shown(report):
    (target,) = report.targets
    return target.construct.expression, target.inputs.expression


def test_a_mistake_that_other_arguments_hide_is_told_where_the_former_ones_fail(own_worker, path):
    before = own_worker.edit(path, PATCHES)
    edited = own_worker.edit(path, WRONG)
    problem = only_problem(edited)
    construct, inputs = shown(before)
    assert (problem.code, problem.severity) == ("FX201", "information")
    assert problem.message.startswith("as built before: does not fit: ")
    assert marked(WRONG, problem.location) == "self.embed(x)"
    assert f"it ran on `{inputs}` before, built as `{construct}`" in problem.explanation
    assert shown(edited)[0] != construct
    assert edited.targets[0].nodes[0].tensor is not None


def test_it_is_told_until_the_former_arguments_fit_again(own_worker, path):
    before = own_worker.edit(path, PATCHES)
    for text, told in (
        (WRONG, ["FX201"]),
        (WRONG.replace("self.stem(", "self.stm("), ["FX009"]),
        (WRONG + "\n", ["FX201"]),
    ):
        assert [each.code for each in own_worker.edit(path, text).targets[0].problems] == told
    mended = own_worker.edit(path, PATCHES.replace("mean", "amax"))
    assert (shown(mended), mended.targets[0].problems) == (shown(before), ())


def test_inputs_that_change_with_the_layer_that_takes_them_are_no_mistake(own_worker, path):
    assert shown(own_worker.edit(path, PATCHES))[1] == "torch.randn(2, 3, 224, 224)"
    grey = own_worker.edit(path, PATCHES.replace("Conv2d(3", "Conv2d(1"))
    assert (shown(grey)[1], grey.targets[0].problems) == ("torch.randn(2, 1, 224, 224)", ())


FLAT = """from torch import nn


class Flat(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(784, 10)

    def forward(self, x):
        return self.layer(x.view(-1, 784))
"""
PLACED = """import torch
from torch import nn


class Placed(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 8)
        self.places = nn.Parameter(torch.zeros(1, 32, 8))

    def forward(self, ids):
        return self.embed(ids) + self.places
"""


@pytest.mark.parametrize(("text", "old", "new"), [(FLAT, "784", "3072"), (PLACED, "32", "64")])
def test_inputs_that_are_as_long_as_the_code_says_are_no_mistake(own_worker, path, text, old, new):
    before = shown(own_worker.edit(path, text))[1]
    edited = own_worker.edit(path, text.replace(old, new))
    assert (shown(edited)[1], edited.targets[0].problems) == (before.replace(old, new), ())


def test_what_an_earlier_session_inferred_gives_way_to_what_fits(own_worker, path):
    def edited(text):
        request = own_worker.request(path, text)
        known = Construct("Patches(patch=4, dim=64, classes=192)", "remembered")
        targets = tuple(replace(each, constructs=(known,)) for each in request.targets)
        own_worker.send(replace(request, targets=targets))
        return own_worker.receive()

    assert shown(edited(PATCHES))[0] == "Patches(patch=4, dim=64, classes=192)"
    for text in (WRONG, WRONG.replace("mean", "amax")):
        report = edited(text)
        assert only_problem(report).severity == "information"
        assert report.targets[0].construct.source == "inferred"
    assert shown(edited(PATCHES))[0] == "Patches(patch=4, dim=64, classes=192)"


JOINED = """import torch
from torch import nn


class Up(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(8, 6, 3, padding=1)
        self.second = nn.Conv2d(12, 6, 3, padding=1)

    def forward(self, x, skipped):
        return self.second(torch.cat([self.first(x), skipped], dim=1))
"""
ALONG = JOINED.replace("12, 6", "6, 6").replace("dim=1", "dim=2")


def test_a_mistake_that_other_inputs_hide_is_told_where_the_former_ones_fail(own_worker, path):
    inputs = shown(own_worker.edit(path, JOINED.replace("12, 6", "14, 6")))[1]
    assert inputs == "torch.randn(2, 8, 224, 224), torch.randn(2, 8, 224, 224)"
    edited = own_worker.edit(path, ALONG)
    problem = only_problem(edited)
    assert (problem.code, problem.severity) == ("FX201", "information")
    assert problem.message.startswith("as fed before: does not fit: ")
    assert marked(ALONG, problem.location) == "torch.cat([self.first(x), skipped], dim=2)"
    assert f"it ran on `{inputs}` before; now it only runs on others" in problem.explanation
    assert shown(edited)[1] != inputs
    mended = own_worker.edit(path, JOINED.replace("12, 6", "14, 6"))
    assert (shown(mended)[1], mended.targets[0].problems) == (inputs, ())


TRAINED = """from torch import nn


class Trained(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.aside = nn.Conv2d(8, 4, 300)
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        x = self.conv(x)
        if self.training:
            self.aside(x)
        return self.head(x.mean((2, 3)))
"""


def test_what_only_training_does_is_no_matter_of_inputs_that_nobody_wrote(own_worker, path):
    before = shown(own_worker.edit(path, TRAINED))
    wrong = TRAINED.replace("Linear(8", "Linear(9")
    (problem,) = (each for each in own_worker.edit(path, wrong).targets[0].problems if each.code == "FX201")
    assert marked(wrong, problem.location) == "self.head(x.mean((2, 3)))"
    mended = own_worker.edit(path, TRAINED)
    assert shown(mended) == before
    assert all(each.code != "FX201" for each in mended.targets[0].problems)

"""What is told of a model that an edit has made run only if it is built otherwise."""

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

"""A search goes on from what led behind the place where something was refused, however much had to be mended so far."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from fxworker.arguments import Search
from fxworker.building import attempt
from fxworker.tracebacks import is_further, places_of


def chosen(kind, options):
    if kind not in options:
        raise ValueError(f"Unknown kind {kind}, choose from {', '.join(options)}")
    return kind


def made_of(config):
    """Refuse one entry of a table after another, all in one line of the constructor."""
    basis = chosen(config["basis"], ("gauss", "expnorm"))
    gate = chosen(config["gate"], ("ssp", "swish"))
    pooling = chosen(config["pooling"], ("most", "least"))
    group = chosen(config["group"], ("O(3)", "SO(3)"))
    head = chosen(config["head"], ("scalar", "dipole"))
    prior = chosen(config["prior"], ("atomref", "zbl"))
    del basis, gate, pooling, group, head, prior
    return nn.Linear(config["width"], config["neighbors"])


class Created(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.net = made_of(config)


def test_what_is_refused_one_by_one_in_one_line_is_found_one_by_one():
    scope = {"Created": Created, "torch": torch, "SimpleNamespace": SimpleNamespace}
    search = Search("Created", Created, scope, partial(attempt, real=False))
    assert search.run() is not None, (search.tried, search.error)
    assert search.trials <= 12


def raised(number):
    def inner():
        if number == 2:
            raise ValueError(number)
        if number == 3:
            raise ValueError(number)

    if number == 1:
        raise ValueError(number)
    inner()
    raise ValueError(number)


@pytest.mark.parametrize(("one", "other", "is_later"), [(1, 2, False), (2, 1, True), (3, 2, True), (4, 3, True)])
def test_later_is_what_fails_at_a_later_line_of_the_same_function(one, other, is_later):
    def places(number):
        with pytest.raises(ValueError, match=str(number)) as found:
            raised(number)
        return places_of(found.value)[1:]

    assert is_further(places(one), places(other)) is is_later
    assert not is_further(places(one), places(one))


class Basic(nn.Module):
    expansion = 1

    def __init__(self, inplanes: int, planes: int, stride: int = 1, first_dilation: int | None = None):
        super().__init__()
        self.conv = nn.Conv2d(inplanes, planes * self.expansion, 3, stride)

    def forward(self, x):
        return self.conv(x)


class Wide(Basic):
    expansion = 2


class Residual(nn.Module):
    """Its annotation names classes of which it makes instances."""

    def __init__(self, block: Wide | Basic, layers: tuple[int, ...] = (1, 1)):
        super().__init__()
        make = partial(block, stride=2, first_dilation=1)
        self.stages = nn.ModuleList([make(64, 64 // block.expansion) for _ in layers])

    def forward(self, x):
        for stage in self.stages:
            x = stage(x)
        return x


def test_a_module_that_is_called_as_its_class_is_gives_way_to_the_class():
    scope = {"Residual": Residual, "Basic": Basic, "Wide": Wide, "torch": torch}
    found = Search("Residual", Residual, scope, partial(attempt, real=False)).run()
    assert found is not None
    assert found[0] in {"Residual(block=Wide)", "Residual(block=Basic)"}


class Edges(nn.Module):
    """It takes the numbers out of an array, as those of sparse matrices are."""

    def __init__(self, dataset):
        super().__init__()
        matrix = dataset.matrix(form="coo").astype("float32")
        rows = [each + 1 for each in matrix.row.tolist()]
        self.weights = nn.Parameter(torch.ones(len(rows)) + matrix.col.reshape(-1)[0])


class Tower(nn.Module):
    def __init__(self, width, depth=2):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))


class Tasks(nn.Module):
    def __init__(self, kinds, towers):
        super().__init__()
        self.towers = nn.ModuleList(Tower(64, **towers[at]) for at, _ in enumerate(kinds))


@pytest.mark.parametrize(("cls", "said"), [(Edges, "row=torch.ones(64)"), (Tasks, "towers=[{}, {}]")])
def test_it_is_built(cls, said):
    scope = {cls.__name__: cls, "torch": torch, "SimpleNamespace": SimpleNamespace}
    search = Search(cls.__name__, cls, scope, partial(attempt, real=False))
    found = search.run()
    assert found is not None, (search.tried, search.error)
    assert said in found[0]
    assert search.trials == 1


class Joined(nn.Module):
    """It asks its parts for what they have, and takes apart what one of them gives."""

    def __init__(self, trunk: nn.Module, neck: nn.Module):
        super().__init__()
        self.trunk, self.neck = trunk, neck
        assert self.trunk.channel_list == self.neck.backbone_channel_list

    def forward(self, x):
        features, places = self.neck(self.trunk(x))
        return features + places


def test_a_module_that_gives_several_has_what_it_is_asked_for():
    search = Search("Joined", Joined, globals(), partial(attempt, real=False))
    found = search.run()
    assert found is not None, (search.tried, search.error)
    assert found[1].neck.backbone_channel_list == found[1].trunk.channel_list
    assert len(found[1].neck(torch.ones(2))) == 2

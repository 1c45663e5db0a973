"""Inputs of forwards that take any arguments, and hand them on to what says which."""

import torch
from torch import Tensor, nn

from fxengine.inputs import infer_inputs
from tests.support.feeding import fed


class Unit(nn.Module):
    """Leaves what is computed to its subclasses."""

    def forward(self, *args, **kwargs):
        return 2 * self.output(*args, **kwargs)

    def output(self, *args, **kwargs):
        raise NotImplementedError


class Gated(Unit):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 3)
        self.fc = nn.Linear(7, 3)

    def output(self, tokens, features, *, mask=None):
        found = self.embed(tokens) + self.fc(features)
        return found if mask is None else found * mask


class Noise(Unit):
    def output(self):
        return torch.ones(3)


class Sum(Unit):
    def output(self, *signals: Tensor):
        one, other = signals
        return one + other


def bare(function):
    def wrapper(self, *args, **kwargs):
        return function(self, *args, **kwargs)

    return wrapper


def barer(function):
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


class Decorated(Gated):
    @bare
    def forward(self, tokens, features):
        return self.output(tokens, features)


class Covered(Gated):
    @barer
    def forward(self, tokens, features):
        return self.output(tokens, features)


class Inheriting(Covered):
    def forward(self, *args, **kwargs):
        with torch.no_grad():
            return super().forward(*args, **kwargs)


def mixed(tokens, features):
    return features + tokens[..., None]


class Calling(nn.Module):
    def forward(self, *args):
        return mixed(*args)


class OfSeveral(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleDict({"left": Decorated(), "right": Decorated()})

    def forward(self, *args, scale=1.0):
        return sum(scale * self.parts[name](*args) for name in ("left", "right"))


class Changing(nn.Module):
    """Hands on something else than what it is given."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(7, 3)

    def forward(self, *args):
        args = [torch.cat(args, -1)]
        return self.both(*args)

    def both(self, features):
        return self.fc(features)


def test_what_any_arguments_are_handed_on_to_says_which():
    for root in (Gated(), Decorated(), Covered(), Inheriting(), OfSeveral()):
        found = fed(root)
        assert [each.dtype for each in found.args] == [torch.int64, torch.float32]
        assert (found.args[1].shape[-1], found.failures) == (7, ())
    assert "mask" not in fed(Gated()).recipes
    assert [each.dtype for each in fed(Calling()).args] == [torch.int64, torch.float32]
    assert fed(Noise()).args == ()
    assert len(fed(Sum()).args) == 2


def test_one_that_is_asked_for_is_passed_where_it_can_be():
    assert "mask" in infer_inputs(Gated(), wanted=["mask"]).kwargs
    assert infer_inputs(OfSeveral(), wanted=["mask"]).kwargs == {}


def test_what_is_changed_before_it_is_handed_on_is_not_what_was_given():
    assert len(fed(Changing()).args) == 1

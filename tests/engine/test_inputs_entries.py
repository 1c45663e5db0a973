"""Inputs that a search finds by what code looks up: keys of dictionaries, of those in lists, and numbers of axes."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from tests.support.feeding import fed


class Listed(nn.Module):
    """Says at once which keys are missing, after it has looked for others."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)

    def forward(self, fields: dict[str, Tensor]):
        wanted = ["pressure", "velocity", "distance"]
        lacking = [key for key in wanted if key not in fields]
        if lacking:
            raise ValueError(f"Missing required keys in fields: {lacking}")
        return sum(self.first(fields[key]) for key in wanted)


def test_all_keys_that_a_complaint_lists_are_given_at_once():
    inferred = fed(Listed())
    assert set(inferred.args[0]) == {"pressure", "velocity", "distance"}
    assert len(inferred.failures) < 3


class Columns(nn.Module):
    """As losses of pairs of texts, whose model returns a dictionary."""

    def __init__(self):
        super().__init__()
        self.model = nn.Identity()
        self.head = nn.Linear(8, 1)

    def forward(self, features: Iterable[dict[str, Tensor]], labels: Tensor):
        first, second = (self.model(each)["sentence_embedding"] for each in features)
        return (self.head(first * second).squeeze(-1) - labels).square().mean()


def test_dictionaries_in_a_list_get_the_keys_that_are_looked_up_in_what_a_model_makes_of_them():
    inferred = fed(Columns())
    assert [set(each) for each in inferred.args[0]] == [{"sentence_embedding"}] * 2


class Reassigned(nn.Module):
    """Counts the axes of a tensor before it gives it more."""

    def __init__(self):
        super().__init__()
        self.axes = 3

    def forward(self, x: Tensor):
        if x.shape[1] != 1:
            raise ValueError("only one channel is supported")
        rank = len(x.shape)
        axes = rank - 2
        while x.dim() < 5:
            x = x.unsqueeze(-1)
        if self.axes != axes:
            raise ValueError("other axes than those of the constructor")
        return nn.functional.avg_pool3d(x, 2)


def test_axes_that_were_counted_before_others_were_added_are_followed_to_the_input():
    inferred = fed(Reassigned())
    assert len(inferred.args[0].shape) == 5
    assert len(inferred.failures) < 5


class Skipping(nn.Module):
    """Joins what comes from below with what was kept, and normalises both together."""

    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(4, 16)
        self.convolution = nn.Conv2d(16, 8, 3, padding=1)

    def forward(self, hidden_states: Tensor, kept: list[Tensor]):
        for each in reversed(kept):
            hidden_states = self.convolution(self.norm(torch.cat([hidden_states, each], dim=1)))
        return hidden_states


def test_what_a_norm_takes_of_joined_tensors_is_shared_among_them():
    inferred = fed(Skipping())
    hidden, kept = inferred.args
    assert len(inferred.failures) < 5
    assert hidden.shape[1] == 8
    assert {each.shape[1] for each in kept} == {8}


class Outputs(nn.Module):
    """Looks for a name in what a model has returned, and then for another one, which has to be there."""

    def forward(self, output: Tensor, target: Tensor):
        loss = (output["restored"] - target["clean"]).square().mean() if self._is_rated(output) else 0.0
        return loss + output["restored"].abs().mean()

    def _is_rated(self, output: Tensor) -> bool:
        return "rate" in output


def test_what_a_name_is_looked_for_in_is_a_dictionary():
    output, *_ = fed(Outputs()).args
    assert "restored" in output


class Covariates(nn.Module):
    """Has no weights for what none of its examples has."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.weights = None

    def forward(self, batch: dict[str, Tensor]):
        x, static = self.first(batch["past"]), batch["static"]
        return x if static is None else x + torch.mul(static, self.weights)


def test_an_entry_that_goes_to_a_part_which_the_model_has_not_is_none():
    inferred = fed(Covariates())
    assert inferred.args[0]["static"] is None
    assert inferred.args[0]["past"].shape[-1] == 8
    assert len(inferred.failures) < 4


class OfPoints(nn.Module):
    """Says what has to be there of points that may be called otherwise."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(10, 8)

    def forward(self, data):
        features = getattr(data, "features", getattr(data, "colors", None))
        if features is None:
            raise AttributeError("Points need `features` or `colors`.")
        return self.layer(features) + data.weights.sum()


def test_an_object_has_what_a_message_says_that_it_lacks():
    inferred = fed(OfPoints())
    assert inferred.expression.startswith("SimpleNamespace(")
    assert "features=" in inferred.expression

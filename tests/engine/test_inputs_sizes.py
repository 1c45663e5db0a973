"""Inputs of the sizes that a model keeps under the names which its code gives to their axes."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - torch's own name for it.

from fxengine.inputs import infer_inputs, materialize, search
from fxengine.inputs.probe import Outcome
from tests.support.feeding import fed


class Sensors(nn.Module):
    """Keeps how many sensors there are, and says it in the shape of its input alone."""

    def __init__(self, num_sensors: int = 7, window: int = 12):
        super().__init__()
        self.num_sensors = num_sensors
        self.window = window
        self.mix = nn.Parameter(torch.ones(num_sensors, num_sensors))

    def forward(self, x: Tensor) -> Tensor:  # (batch, window, sensors)
        return torch.tanh(x) if x.shape[1:] == (self.window, self.num_sensors) else x.new_zeros(0)


def test_axes_are_as_long_as_what_the_model_keeps_under_their_names():
    assert fed(Sensors()).args[0].shape == (2, 12, 7)


class Forecast(nn.Module):
    """Takes sequences of any length, and says how long its own are."""

    def __init__(self, seq_len: int = 48):
        super().__init__()
        self.seq_len = seq_len
        self.rnn = nn.GRU(5, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.rnn(x)[0][:, -1]


def test_sequences_of_vectors_are_as_long_as_the_model_says():
    assert fed(Forecast()).args[0].shape == (2, 48, 5)


class Language(nn.Module):
    """Says how many tokens it takes at the most."""

    def __init__(self, seq_len: int = 512):
        super().__init__()
        self.seq_len = seq_len
        self.embed = nn.Embedding(50, 8)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.embed(tokens)


def test_sequences_of_tokens_are_short():
    assert fed(Language()).args[0].shape == (2, 16)


class Pooled(nn.Module):
    """Takes the mean over more than most inputs have."""

    def forward(self, x: Tensor) -> Tensor:
        _, bands, _height, _width = x.shape
        return torch.nn.functional.avg_pool3d(x.unsqueeze(1), (max(32, bands // 2), 1, 1))


def test_what_is_smaller_than_a_kernel_grows_where_it_is():
    assert fed(Pooled()).args[0].shape[1] >= 32


class Heavy(nn.Module):
    """Sums so many products on a usual picture that a run would not end in time."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Conv2d(64, 64, 129, padding=64, groups=64)

    def forward(self, x: Tensor) -> Tensor:
        if x.mean() > 100:
            return x
        return self.mix(x)


def test_what_would_take_too_long_is_not_run_on_data(monkeypatch: pytest.MonkeyPatch):
    run: list[int] = []

    def run_for_values(_root: Any, _recipes: Any, _positional: int, outcome: Outcome, **_named: Any) -> None:
        run.append(outcome.products)

    monkeypatch.setattr(search, "run_for_values", run_for_values)
    assert infer_inputs(Heavy(), budget_s=60.0).complete
    assert all(products < 1 << 36 for products in run)


class Listed(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(8, 4)

    def forward(self, volumes: list[Tensor], frame_indexes: list[Tensor]) -> Tensor:
        found = []
        for volume, index in zip(volumes, frame_indexes, strict=True):
            _, frames, _, _ = volume.shape
            found.append(self.mix(volume.permute(1, 2, 3, 0))[index % frames].sum())
        return torch.stack(found)


def test_items_of_a_list_change_together():
    volumes, indexes = fed(Listed()).args
    assert len({each.shape for each in volumes}) == 1
    assert volumes[0].dim() == 4
    assert all(not each.is_floating_point() for each in indexes)


class Late(nn.Module):
    """Has far more weights than anybody would make, and asks for data before it shows what it wants."""

    def __init__(self):
        super().__init__()
        with torch.device("meta"):
            self.large = nn.Linear(1 << 16, 1 << 16)
            self.head = nn.Linear(24, 8)

    def forward(self, x: Tensor, context: Tensor, mask: Tensor) -> Tensor:
        y = self.large(x)
        if mask.any():
            return y.mean() + self.get_submodule("head")(context)
        return y


def test_what_a_large_model_wants_is_seen_behind_a_question_for_data():
    inferred = infer_inputs(Late(), budget_s=60.0)
    assert inferred.complete
    assert inferred.args[1].shape[-1] == 24


class Boxes(nn.Module):
    """As what is done behind a detector: the best of all classes of all places."""

    def __init__(self):
        super().__init__()
        self.first = nn.LayerNorm(4)

    def forward(self, scores: Tensor):
        chances = self.first(scores).sigmoid()
        best, places = chances.view(chances.shape[0], -1).topk(100, dim=1)
        return best, places // scores.shape[2]


def test_there_are_as_many_as_the_best_of_them():
    inferred = fed(Boxes())
    assert inferred.args[0][0].numel() >= 100
    assert len(inferred.failures) == 1


def multiplied(rule, *tensors):
    """Multiply along named axes, and say in equations what does not fit, as einx does."""
    terms = rule.split(", ")
    told = "\n".join(
        f"    {term} = {' '.join(map(str, tensor.shape))}" for term, tensor in zip(terms, tensors, strict=True)
    )
    sizes: dict[str, int] = {}
    for term, tensor in zip(terms, tensors, strict=True):
        if tensor.dim() != len(term.split()):
            raise ValueError(f"The number of dimensions and axes does not match. The equation(s) are:\n{told}")
        for axis, size in zip(term.split(), tensor.shape, strict=True):
            if sizes.setdefault(axis, size) != size:
                raise ValueError(f"Failed to determine the size of all axes. The equation(s) are:\n{told}")
    return tensors[0]


class Shifted(nn.Module):
    """Adds a vector for each example to each place of a table of pairs."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(24)
        self.shifts = nn.Embedding(5, 24)

    def forward(self, pairs, kind_index):
        shift = self.shifts(kind_index)
        return multiplied("b i j d, b d", self.norm(pairs), shift)


def test_equations_of_named_axes_tell_sizes_and_ranks():
    inferred = infer_inputs(Shifted())
    pairs, kinds = inferred.args
    assert inferred.complete
    assert (pairs.dim(), pairs.shape[-1], kinds.shape) == (4, 24, pairs.shape[:1])


class Windowed(nn.Module):
    def forward(self, x):
        if x.dim() != 3 or x.shape[1] % 11 or x.shape[1] == 11:
            sizes = " ".join(map(str, x.shape))
            raise ValueError(
                f"the expression resulted in the following equation(s):\n    b (n w) d = {sizes}\n    w = 11"
            )
        return x.sum()


def test_equations_of_axes_in_one_dimension_tell_multiples():
    inferred = infer_inputs(Windowed())
    assert inferred.complete
    assert inferred.args[0].shape[1] % 11 == 0


class Readout(nn.Module):
    """Weighs channels by numbers of its own, of which it has as many as it was made for."""

    def __init__(self):
        super().__init__()
        self.weights = nn.Parameter(torch.rand(10))

    def forward(self, x):
        channels = x.shape[1]
        return (x.mean((2, 3))[..., None] * self.weights.view(1, channels, 2)).sum(1)


def test_what_the_model_keeps_is_viewed_by_a_size_that_it_has():
    assert fed(Readout()).args[0].shape[1] == 5


class OfNoPatches(nn.Module):
    """Wants no patch at all, which nothing is."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 8, 8)

    def forward(self, x):
        patches = self.patches(x)
        return patches.reshape(patches.shape[0], 0, 8, 8)


def test_what_no_picture_has_is_looked_for_in_vain():
    assert not infer_inputs(OfNoPatches()).usable


class Valid(nn.Module):
    """Takes pictures of one size alone, that no usual one is, and joins them with others of a size of its own."""

    def __init__(self):
        super().__init__()
        self.enter = nn.Sequential(nn.Conv2d(3, 4, 5), nn.Conv2d(4, 4, 3), nn.MaxPool2d(2))
        self.beside = nn.Conv2d(3, 4, 5)

    def forward(self, x):
        shrunk = self.beside(F.interpolate(x, size=(128, 128)))
        return torch.cat([self.enter(x), shrunk], 1)


class Stepwise(nn.Module):
    """Takes signals of one length alone: so many steps as it has positions for."""

    def __init__(self):
        super().__init__()
        self.enter = nn.Sequential(nn.Conv1d(1, 8, 10, stride=5), nn.Conv1d(8, 8, 3, stride=2))
        self.positions = nn.Parameter(torch.zeros(1, 8, 121))

    def forward(self, x):
        return self.enter(x) + self.positions


def test_a_size_follows_from_two_others():
    assert fed(Valid()).args[0].shape[2:] == (254, 254)
    assert fed(Stepwise()).args[0].shape[-1] in range(1220, 1230)


class AsLargeAs(nn.Module):
    """Makes a picture as large as another one, of any number of sides."""

    def forward(self, features, x):
        return nn.functional.interpolate(x, size=features.size()[2:], mode="nearest")


def test_what_is_made_as_large_as_another_has_as_many_sides():
    found = infer_inputs(AsLargeAs())
    assert found.usable, found.failures
    features, x = found.recipes.values()
    assert len(features.shape) == len(x.shape) > 2


class Mapped(nn.Module):
    """Puts scores at the places of their classes, which data alone would refuse for pictures."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 3)

    def forward(self, x):
        scores = self.fc(x)
        mapped = torch.full((len(scores), 5), -1000.0)
        mapped[:, [0, 2, 4]] = scores
        mapped[scores[:, 0] > 0, 1] = 0.0
        mapped[[True] * len(scores)] = mapped.clone()
        return mapped


def test_there_are_as_many_numbers_as_the_places_that_they_are_put_at():
    found = infer_inputs(Mapped())
    assert found.usable, found.failures
    assert Mapped()(*materialize(found)[0]).shape == (2, 5)

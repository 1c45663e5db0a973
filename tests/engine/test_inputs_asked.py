"""What code further in asks for is given: arguments behind `*` and `**`, values in a range, as many patches as fit."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fxengine.inputs import infer_inputs
from tests.support.feeding import fed


class Spread(nn.Module):
    """The second input is the first of any number of others."""

    def __init__(self):
        super().__init__()
        self.state, self.action = nn.Linear(6, 8), nn.Linear(3, 8)

    def forward(self, x: Tensor, *args: Tensor):
        action = args[0]
        return self.state(x) + self.action(action)


def test_an_argument_that_is_looked_for_among_any_number_is_passed():
    inferred = fed(Spread())
    assert [each.shape[-1] for each in inferred.args] == [6, 3]


class Beside(nn.Module):
    """Any number of others, of which none is used."""

    def forward(self, x: Tensor, *others: Tensor, **options: Tensor):
        return x * (1 + len(others) + len(options))


def test_arguments_that_nobody_looks_for_are_not_passed():
    assert len(fed(Beside()).args) == 1


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(5, 8), nn.Linear(7, 8)

    def forward(self, x: Tensor, context: Tensor):
        return self.first(x) + self.second(context)


class Wrapper(nn.Module):
    """Passes on whatever it is given by name."""

    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x: Tensor, **kwargs: Tensor):
        return x + self.inner(x, **kwargs).mean()


def test_what_a_module_further_in_was_not_given_is_passed_by_name():
    inferred = fed(Wrapper())
    assert inferred.kwargs["context"].shape[-1] == 7


class LooksUp(nn.Module):
    """An entry of what is given by name."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 8)

    def forward(self, x: Tensor, **kwargs: Tensor):
        return self.layer(x) * kwargs["scale"]


def test_what_is_looked_up_among_named_arguments_is_passed():
    assert set(fed(LooksUp()).kwargs) == {"scale"}


class HandsOn(nn.Module):
    """What is given by name is handed on as a whole, to what looks for its entries."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 8)

    def _prepared(self, batch: dict[str, Tensor]):
        assert "scale" in batch
        return {"x": batch["features"], "scale": batch["scale"]}

    def forward(self, **batch: Tensor):
        batch = self._prepared(batch)
        return self.layer(batch["x"]) * batch["scale"].mean()


def test_what_is_looked_up_where_all_named_arguments_are_handed_on_is_passed():
    assert set(fed(HandsOn()).kwargs) == {"features", "scale"}


class OfTwo(nn.Module):
    """Both pictures may be missing, but what is joined is assigned where they are there."""

    def __init__(self):
        super().__init__()
        self.kinds = ("one", "other")
        self.one, self.other = nn.Conv2d(2, 8, 3), nn.Conv2d(4, 8, 3)

    def forward(self, x_one: Tensor | None = None, x_other: Tensor | None = None):
        if "one" in self.kinds and x_one is not None:
            first = self.one(x_one)
        if "other" in self.kinds and x_other is not None:
            second = self.other(x_other)
        return first + second  # pyright: ignore[reportPossiblyUnboundVariable, reportOperatorIssue] — unassigned where a picture is missing, which is what is tested.


def test_what_lets_a_variable_be_assigned_is_given():
    inferred = fed(OfTwo())
    assert [each.shape[1] for each in inferred.args] == [2, 4]


class Ranged(nn.Module):
    """Takes wavelengths of a range only."""

    low, high = 100, 1e9

    def forward(self, x: Tensor):
        if not torch.all((x >= self.low) & (x <= self.high)):
            raise ValueError(f"The input is not within the range `[{self.low}, {self.high}]`.")
        return x.log()


def test_numbers_are_in_the_range_that_a_complaint_tells():
    assert "torch.full" in fed(Ranged()).expression


class Cubes(nn.Module):
    """Cuts cubes into as many patches as it has places for."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv3d(1, 8, 4, stride=4)
        self.places = nn.Parameter(torch.zeros(1, 216, 8))

    def forward(self, x: Tensor):
        return self.patches(x).flatten(2).transpose(1, 2) + self.places


def test_a_cube_has_as_many_patches_as_there_are_places():
    (cube,) = fed(Cubes()).args
    assert cube.shape == (2, 1, 24, 24, 24)


class Doubled(nn.Module):
    """Two pictures one above the other, and twice a mask, are of the size that the model is for."""

    image_size = (96, 48)

    def __init__(self):
        super().__init__()
        self.embed = nn.Conv2d(3, 8, 8, stride=8)

    def embedded(self, x: Tensor) -> Tensor:
        height, width = x.shape[2:]
        if height != self.image_size[0] or width != self.image_size[1]:
            raise ValueError(f"Input image size ({height}*{width}) doesn't match model (96*48).")
        return self.embed(x)

    def forward(self, pixel_values: Tensor, prompt_pixel_values: Tensor, prompt_masks: Tensor, mode: str = ""):
        both = torch.cat((prompt_pixel_values, pixel_values), dim=2)
        masks = torch.cat((prompt_masks, prompt_masks), dim=2)
        return self.embedded(both) + self.embedded(masks)


def test_a_change_of_all_pictures_is_not_lost_behind_changes_of_single_ones():
    assert {each.shape for each in fed(Doubled()).args} == {(2, 3, 48, 48)}


class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 8)

    def forward(self, x, cached=False, rounds=2, extra=None):
        held = {"extra": extra}
        found = self.table(x) + torch.cat([held["extra"], held["extra"]], 1)[:, : x.shape[1]]
        return found if cached is False else found[..., rounds]


def test_what_is_none_is_no_setting():
    found = infer_inputs(Cached())
    assert found.complete
    assert found.recipes.keys() == {"x", "extra"}
    assert not any("cached" in each.expression or "rounds" in each.expression for each in found.failures)


class HandedOn(nn.Module):
    """Hands on whatever it is given beside the first input, as what wraps a function of its own does."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 4)

    def forward(self, x: Tensor, *args: Tensor):
        return self.weighed(x, *args)

    def weighed(self, x: Tensor, mask: Tensor, labels: Tensor):
        assert labels.dim() == 1, "a class for each example"
        assert not labels.is_floating_point()
        return self.layer(x)[mask].sum() + labels.sum()


def test_what_is_handed_on_one_by_one_is_what_the_function_calls_it():
    inferred = fed(HandedOn())
    assert [each.dtype for each in inferred.args[1:]] == [torch.bool, torch.int64]


class Scaled(nn.Module):
    """A size is multiplied with numbers of another library."""

    def __init__(self):
        super().__init__()
        self.weights = np.ones(3)

    def forward(self, x: Tensor):
        return x * float((self.weights * x.shape[1]).sum())


class Only(nn.Module):
    """Takes a single number, as a tensor without dimensions."""

    def forward(self, x: Tensor):
        return x.view(())


class Asked(nn.Module):
    """Lists of texts, of which as many are wanted as there is something else beside them."""

    def forward(self, texts: list[list[str]], labels: list[Tensor]):
        if sum(map(len, texts)) != 4 or [len(each) for each in labels] != [5, 5]:
            raise ValueError(f"expected 5 labels of each, got {[len(each) for each in labels]}")
        return labels[0] + labels[1]


@pytest.mark.parametrize("root", [Scaled(), Only(), Asked()], ids=lambda each: type(each).__name__)
def test_a_search_comes_to_its_end_whatever_the_code_has_to_do_with(root):
    assert infer_inputs(root, hopeless=12).recipes


def exists(value):
    return value is not None


class Either(nn.Module):
    """Asserts that it is given one of two, and again one of two others."""

    def __init__(self):
        super().__init__()
        self.table, self.fc = nn.Embedding(50, 8), nn.Linear(6, 8)
        self.encoder = None

    def forward(self, text_embeds=None, text_mask=None, images=None, image_token_ids=None, text=None):
        assert exists(text) ^ exists(text_embeds)
        assert exists(images) ^ exists(image_token_ids)
        if not exists(image_token_ids):
            assert exists(self.encoder), "an encoder is needed for images"
            image_token_ids = self.encoder(images)
        return self.table(image_token_ids) + self.fc(text_embeds)


def test_one_of_what_is_asserted_to_be_there_is_passed():
    assert set(fed(Either()).recipes) == {"text_embeds", "image_token_ids"}


class Conditioned(nn.Module):
    """Adds what it is given beside its input, and asserts that there is such."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 6)

    def forward(self, x, condition=None):
        assert exists(condition)
        return self.fc(x) + condition


class InParts(nn.Module):
    """Asks for a number that it needs only as it has several parts, and for what it would make of a time."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([Conditioned(), Conditioned()])
        self.condition = nn.Sequential(nn.Unflatten(0, (-1, 1)), nn.Linear(1, 6))

    def forward(self, x, when=None, which=None):
        assert not (len(self.parts) > 1 and not exists(which)), (
            f"you must say which part is meant, from 1 to {len(self.parts)}, where there are several of them"
        )
        condition = None
        if exists(when):
            condition = self.condition(when)
        for part in self.parts:
            x = part(x, condition=condition)
        return x


def test_what_a_long_assertion_asks_for_is_passed_and_what_something_else_is_made_of():
    assert set(fed(InParts()).recipes) == {"x", "when", "which"}


class Scaled(nn.Module):
    """Has an array of nothing among its variables where it fails."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x, scale=None):
        nothing = np.zeros(0)
        return self.fc(x) * scale + nothing.sum()


class Moody:
    """Raises when it is looked at."""

    def __eq__(self, other):
        raise RuntimeError("not now")

    def __bool__(self):
        raise RuntimeError("not now")

    __hash__ = None


class Moodily(Scaled):
    def forward(self, x, scale=None):
        moody = Moody()  # noqa: F841 — It stands in the frame.
        return self.fc(x) * scale


@pytest.mark.parametrize("cls", [Scaled, Moodily])
def test_what_the_code_has_at_hand_may_not_like_to_be_looked_at(cls):
    found = infer_inputs(cls())
    assert found.usable, found.failures
    assert set(found.recipes) == {"x", "scale"}

"""Example inputs that nobody gave: what is proposed, what is learned from failures, how it is written."""

import enum
from dataclasses import dataclass
from typing import Optional

import pytest
import torch
from torch import Tensor, nn

from fxengine._symbolic_trace import symbolic_trace
from fxengine.inputs import infer_inputs, materialize
from tests.support.feeding import fed


class Classifier(nn.Module):
    """Channels from the convolution, the image's side from what the last layer takes."""

    def __init__(self, side=28, channels=1):
        super().__init__()
        self.conv = nn.Conv2d(channels, 8, 3, padding=1)
        self.head = nn.Linear(8 * (side // 2) ** 2, 10)

    def forward(self, x):
        return self.head(nn.functional.max_pool2d(self.conv(x).relu(), 2).flatten(1))


@pytest.mark.parametrize("side", [28, 32, 40, 64, 96])
def test_the_side_of_images_follows_from_the_last_layer(side):
    inferred = fed(Classifier(side))
    assert inferred.args[0].shape == (2, 1, side, side) or inferred.args[0].shape == (2, 1, side + 1, side + 1)


class Language(nn.Module):
    def __init__(self, vocabulary=50, context=12, width=16):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.head = nn.Linear(width, vocabulary)
        self.context = context

    def forward(self, idx, targets=None):
        batch, length = idx.shape
        assert length <= self.context, f"a sequence of {length} tokens, but the context holds {self.context}"
        hidden = self.tokens(idx) + self.positions(torch.arange(length, device=idx.device))
        logits = self.head(hidden)
        if targets is not None:
            return nn.functional.cross_entropy(logits.view(batch * length, -1), targets.view(-1))
        return logits


def test_tokens_are_integers_below_the_vocabulary():
    inferred = fed(Language())
    (recipe,) = inferred.recipes.values()
    assert (recipe.fill, recipe.high, recipe.dtype) == ("integers", 50, torch.int64)
    assert inferred.args[0].shape[1] <= 12
    assert inferred.kwargs == {}


def test_a_layer_of_the_graph_decides_what_a_name_would_get_wrong():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.other = nn.Conv2d(3, 4, 3)
            self.first = nn.Linear(7, 5)

        def forward(self, image):
            return self.first(image)

    module = Named()
    inferred = fed(module, symbolic_trace(module).graph)
    assert inferred.args[0].shape[-1] == 7
    assert "first (Linear(7, …))" in inferred.reason
    assert inferred.failures == ()


def test_without_a_graph_the_failing_layer_says_what_it_wants():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(7, 5)
            self.b = nn.Linear(11, 5)

        def forward(self, x, y):
            return self.a(x) * self.b(y)

    inferred = fed(Two())
    assert [value.shape[-1] for value in inferred.args] == [7, 11]


class Vision(nn.Module):
    def __init__(self, image_size=48, patch=8, width=24, channels=5):
        super().__init__()
        self.image_size = image_size
        self.project = nn.Conv2d(channels, width, patch, patch)
        self.position = nn.Parameter(torch.zeros(1, (image_size // patch) ** 2 + 1, width))
        self.token = nn.Parameter(torch.zeros(1, 1, width))

    def forward(self, img):
        x = self.project(img).flatten(2).transpose(1, 2)
        return torch.cat([self.token.expand(img.shape[0], -1, -1), x], dim=1) + self.position


def test_the_size_that_the_model_names():
    assert fed(Vision()).args[0].shape == (2, 5, 48, 48)


class Documented(Vision):
    def forward(self, pictures):
        """Run.

        Args:
            pictures (torch.FloatTensor of shape `(batch_size, num_channels, image_size, image_size)`): The pictures.
        """
        x = pictures.reshape(pictures.shape)
        return super().forward(x)


def test_a_documented_image_size_is_the_models():
    found = fed(Documented())
    assert found.args[0].shape == (2, 5, 48, 48)
    assert found.failures == ()


def test_a_size_that_only_the_position_embedding_tells():
    module = Vision(image_size=80)
    del module.image_size
    assert fed(module).args[0].shape == (2, 5, 80, 80)


@pytest.mark.parametrize(
    ("make", "rank"),
    [
        (lambda: nn.Conv1d(4, 2, 3), 3),
        (lambda: nn.Conv3d(3, 2, 3), 5),
        (lambda: nn.BatchNorm1d(6), 2),
        (lambda: nn.LSTM(5, 7, batch_first=True), 3),
        (lambda: nn.GRUCell(5, 7), 2),
        (lambda: nn.TransformerEncoderLayer(16, 4), 3),
        (lambda: nn.ConvTranspose2d(4, 2, 2), 4),
        (lambda: nn.GroupNorm(2, 6), 4),
    ],
)
def test_layers_of_torch(make, rank):
    assert len(fed(nn.Sequential(make())).args[0].shape) == rank


def test_the_rank_that_unpacking_wants():
    class Unpacks(nn.Module):
        def forward(self, x):
            batch, channels, frames, height, width = x.shape
            return x.reshape(batch, channels * frames, height * width)

    assert len(fed(Unpacks()).args[0].shape) == 5


def test_annotations_of_numbers_and_lists():
    class Annotated(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)

        def forward(self, images: list[Tensor], scale: float, flag: bool, count: int, extra: Optional[Tensor] = None):  # noqa: UP045
            assert isinstance(images, list)
            return [self.conv(image[None]) * scale * count for image in images], flag, extra

    inferred = fed(Annotated())
    assert inferred.expression.startswith("[torch.randn(3,")
    assert inferred.expression.endswith(", 1.0, False, 1")


def test_a_list_or_a_dictionary_of_types_is_an_annotation_of_such():
    class Displayed(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)

        def forward(self, images: [Tensor], others: {str: Tensor}, mode: {1, 2} = None):
            assert isinstance(images, list)
            assert isinstance(others, dict)
            return [self.conv(image[None]) for image in images], others.values(), mode

    assert fed(Displayed()).expression.startswith("[torch.randn(3,")


def test_keyword_only_parameters_are_named():
    class Keywords(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x, *, mask):
            return self.fc(x) * mask[..., None]

    inferred = fed(Keywords())
    assert ", mask=torch.ones(" in inferred.expression


def test_an_optional_parameter_that_is_needed_after_all():
    class Either(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(20, 8)

        def forward(self, flag=None, input_ids=None, inputs_embeds=None):
            if (input_ids is None) == (inputs_embeds is None):
                raise ValueError("You must specify exactly one of input_ids or inputs_embeds")
            return self.embed(input_ids) if inputs_embeds is None else inputs_embeds

    assert set(fed(Either()).recipes) == {"input_ids"}


def test_a_decorated_forward():
    class Decorated(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(6, 2)

        @torch.no_grad()
        def forward(self, features):
            return self.fc(features)

    assert fed(Decorated()).args[0].shape[-1] == 6


def test_configurations_are_read():
    class Mode(enum.Enum):
        A = 1

    @dataclass
    class ModelConfig:
        vocab_size: int = 33
        max_position_embeddings: int = 9
        mode: Mode = Mode.A

    class Configured(nn.Module):
        def __init__(self):
            super().__init__()
            self.config = ModelConfig()
            self.weight = nn.Parameter(torch.zeros(33, 4))
            self.position = nn.Parameter(torch.zeros(9, 4))

        def forward(self, input_ids):
            return nn.functional.embedding(input_ids, self.weight) + self.position[: input_ids.shape[1]]

    inferred = fed(Configured())
    assert inferred.args[0].shape == (2, 9)
    assert inferred.expression == "torch.randint(0, 33, (2, 9))"


def test_a_model_that_reads_data_is_fed_as_far_as_can_be_known():
    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            return x if self.fc(x).sum().item() > 0 else -x

    inferred = infer_inputs(Reads())
    assert inferred.complete
    assert inferred.needs_data


def test_what_cannot_be_fed_says_what_was_tried():
    class Refuses(nn.Module):
        def forward(self, x):
            raise ValueError("never")

    inferred = infer_inputs(Refuses(), budget_s=0.2)
    assert not inferred.complete
    assert inferred.failures
    assert inferred.failures[0].error == "ValueError: never"
    assert inferred.expression


def test_the_module_is_left_as_it_was():
    class Remembers(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)
            self.cache = {}
            self.seen = []
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.cache["x"] = x
            self.seen.append(x)
            self.last = x
            self.count += 1
            self.count = self.count + 1
            return self.fc(x)

    module = Remembers().train()
    infer_inputs(module)
    assert (module.cache, module.seen, hasattr(module, "last")) == ({}, [], False)
    assert (module.count.item(), module.training, module.fc.training) == (0, True, True)


def test_materialized_inputs_are_the_same_for_the_same_seed():
    inferred = fed(Language())
    first, _ = materialize(inferred, "cpu", seed=1)
    second, _ = materialize(inferred, "cpu", seed=1)
    other, _ = materialize(inferred, "cpu", seed=2)
    assert torch.equal(first[0], second[0])
    assert not torch.equal(first[0], other[0])
    assert torch.equal(eval(inferred.expression).new_zeros(1), torch.zeros(1, dtype=torch.int64))


def test_the_expression_makes_what_the_recipe_makes():
    module = Vision()
    inferred = fed(module)
    made = eval(inferred.expression, {"torch": torch})
    assert made.shape == inferred.args[0].shape
    assert inferred.args[0].is_meta


def test_a_function_is_fed_too():
    def attend(query: Tensor, key: Tensor, value: Tensor):
        return torch.softmax(query @ key.transpose(-2, -1), -1) @ value

    assert len(fed(attend).args) == 3


def test_an_einops_pattern_tells_the_rank():
    pattern = infer_inputs(Patterned())
    assert pattern.args[0].shape == (2, 3, 64, 64)


class Rearrange(nn.Module):
    """As einops' layer: a pattern, and an error that names ranks."""

    def __init__(self, pattern):
        super().__init__()
        self.pattern = pattern

    def forward(self, x):
        batch, channels, height, width = x.shape
        return (
            x.reshape(batch, channels, height // 8, 8, width // 8, 8).permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)
        )


class Patterned(nn.Module):
    def __init__(self):
        super().__init__()
        self.image_size = (64, 64)
        self.patches = nn.Sequential(Rearrange("b c (h p1) (w p2) -> b (h w) (p1 p2 c)"), nn.Linear(192, 10))

    def forward(self, img):
        return self.patches(img)

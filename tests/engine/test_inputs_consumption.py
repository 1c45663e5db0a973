"""What the source says about who takes a parameter, and which optional parameters are needed after all."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fxengine.inputs import infer_inputs, materialize
from fxengine.inputs.clues import Clues
from fxengine.inputs.consumption import consumption
from fxengine.inputs.signature import parameters_of


def read(module):
    parameters = parameters_of(module)
    required = [parameter.name for parameter in parameters if parameter.required]
    found = consumption(module, [parameter.name for parameter in parameters], required, Clues(module))
    return {name: wish.path for name, wish in found.wishes.items()}, found.needed


class Attention(nn.Module):
    def __init__(self, width, context):
        super().__init__()
        self.to_q = nn.Linear(width, width)
        self.to_k = nn.Linear(context, width)
        self.processor = Processor()

    def forward(self, hidden, context=None):
        return self.processor(self, hidden, context)


class Processor:
    def __call__(self, attention, hidden, context=None):
        context = hidden if context is None else context
        return attention.to_q(hidden) @ attention.to_k(context).mT


class Block(nn.Module):
    def __init__(self, width, context):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = Attention(width, context)

    def forward(self, hidden, context):
        return self.attention(self.norm(hidden), context=context)


class Conditional(nn.Module):
    """A parameter goes through modules, loops and objects that are none; settings decide what is needed."""

    def __init__(self, guided=False):
        super().__init__()
        self.guided = guided
        self.stem = nn.Sequential(nn.Dropout(0.1), nn.Conv2d(5, 8, 1))
        self.guidance = nn.Linear(3, 8)
        self.pooled = nn.Linear(9, 8)
        self.blocks = nn.ModuleList([Block(8, 12) for _ in range(2)])

    def forward(self, sample, states=None, pooled=None, guidance=None, mask=None):
        x = self.stem(sample.float()).flatten(2).mT
        if self.guided:
            x = x + self.guidance(guidance)[:, None]
        if mask is not None:
            x = x * mask
        x = x + self.pooled(pooled)[:, None]
        for index, block in enumerate(self.blocks):
            x = block(x, states.to(x.dtype)) if index < 5 else x
        return x


@pytest.mark.parametrize("guided", [False, True])
def test_a_parameter_is_followed_to_the_layer_that_takes_it(guided):
    wishes, needed = read(Conditional(guided))

    assert wishes == {
        "sample": "stem.1",
        "pooled": "pooled",
        "states": "blocks.0.attention.to_k",
        **({"guidance": "guidance"} if guided else {}),
    }
    assert needed == (("guidance",) if guided else ()) + ("pooled", "states")


def test_what_is_read_is_the_first_idea():
    root = Conditional()
    found = infer_inputs(root, budget_s=60.0)
    args, kwargs = materialize(found)

    assert found.complete
    assert {name: recipe.shape[-1] for name, recipe in found.recipes.items() if name != "sample"} == {
        "states": 12,
        "pooled": 9,
    }
    assert len(found.failures) <= 2
    root(*args, **kwargs)


class Undecided(nn.Module):
    """What only data decide is read both ways, and nothing is needed for it."""

    def __init__(self):
        super().__init__()
        self.one = nn.Linear(3, 4)
        self.other = nn.Linear(5, 4)

    def forward(self, x, y=None, z=None):
        if x.sum() > 0:
            return self.one(y)
        assert z is None or x.shape == z.shape
        return self.other(x) if y is None else [self.one(part) for part in (x, y)]


def test_what_is_undecided_is_not_needed():
    wishes, needed = read(Undecided())

    assert wishes == {"y": "one", "x": "other"}
    assert needed == ()


class Changed(nn.Module):
    """A name that stands for something else says nothing any more."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(7, 4)

    def forward(self, x, y):
        x = torch.cat([x, y], dim=-1)
        y = y * 2
        return self.second(x) + self.first(y)


def test_a_name_that_was_bound_anew_is_another_value():
    assert read(Changed()) == ({"y": "first"}, ())


def test_a_function_has_no_layers():
    def f(x: Tensor, scale=None):
        return x * scale

    names = ["x", "scale"]
    found = consumption(f, names, ["x"], Clues(nn.Module()))
    assert (dict(found.wishes), found.needed) == ({}, ("scale",))
    assert set(infer_inputs(f, budget_s=60.0).recipes) == {"x", "scale"}


class Either(nn.Module):
    """All parameters are optional: one of them is the model's main input."""

    main_input_name = "input_ids"

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 8)

    def forward(self, input_ids=None, inputs_embeds=None):
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("exactly one of both")
        if inputs_embeds is None:
            inputs_embeds = self.words(input_ids)
        return inputs_embeds.sum(-1)


def test_what_is_made_of_the_main_input_is_not_needed():
    found = infer_inputs(Either(), budget_s=60.0)

    assert found.complete
    assert set(found.recipes) == {"input_ids"}
    assert found.failures == ()


class Scale:
    def __mul__(self, other):
        if other is not None:
            raise ValueError("no scale but one is known")
        return 1.0


class Misread(nn.Module):
    """It looks as if `scale` were needed, and is worse with it."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.unit = Scale()

    def forward(self, x, scale=None, other=None):
        try:
            other.shape  # noqa: B018
        except AttributeError:
            other = 1.0
        return self.fc(x) * (self.unit * scale) * other


def test_what_was_misread_is_tried_without():
    assert read(Misread())[1] == ("scale",)

    found = infer_inputs(Misread(), budget_s=60.0)
    assert found.complete
    assert set(found.recipes) == {"x"}
    assert len(found.failures) == 1


class Endless(nn.Module):
    def forward(self, x, again=None):
        return self(x, again)


def test_recursion_and_code_without_source_end():
    assert read(Endless()) == ({}, ())
    scope = {"nn": nn}
    exec("class Made(nn.Module):\n    def forward(self, x, y=None):\n        return x + y", scope)
    assert read(scope["Made"]()) == ({}, ())


class Heavy(nn.Module):
    """Runs on pictures of any size, and does much with each."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 256, 1)

    def forward(self, image):
        tokens = self.conv(image).flatten(2).mT
        return nn.functional.scaled_dot_product_attention(tokens, tokens, tokens)


def test_pictures_are_small_where_large_ones_are_too_much():
    found = infer_inputs(Heavy(), budget_s=60.0)

    assert found.complete
    assert found.args[0].shape == (2, 3, 56, 56)


class OfNamedLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList()
        self.layers.add_module("first", nn.Linear(12, 8))
        self.layers.add_module("second", nn.Linear(12, 8))

    def forward(self, inputs):
        return sum(layer(each) for layer, each in zip(self.layers, inputs, strict=True))


def test_layers_of_a_list_may_have_names():
    inferred = infer_inputs(OfNamedLayers(), budget_s=10.0)
    assert inferred.complete
    assert len(inferred.args[0]) == 2


class Positions(nn.Module):
    """Keeps a table, and makes a longer one where more of it is asked for."""

    def __init__(self):
        super().__init__()
        self.most = 32
        self.table = torch.randn(32, 8)

    def forward(self, x, seq_len=None):
        if seq_len > self.most:
            self.most = seq_len
            self.table = torch.randn(seq_len, 8)
        return self.table[:seq_len].to(x.dtype)


class Beginnings(nn.Module):
    def forward(self, x, count, steps):
        return [x[:, step] for step in range(steps)], x[:, :count]


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x, drop_prob):
        return nn.functional.dropout(self.fc(x), drop_prob) if drop_prob > 0 else self.fc(x)


class Padded(nn.Module):
    def forward(self, x, H, W):
        rows, columns = int(np.ceil(H / 7)) * 7, round(W) + 1
        return x + torch.zeros((1, rows, columns, 1)).sum()


@pytest.mark.parametrize(
    ("cls", "names"), [(Positions, ["seq_len"]), (Beginnings, ["count", "steps"]), (Padded, ["H", "W"])]
)
def test_what_sizes_and_bounds_are_made_of_is_a_number(cls, names):
    found = infer_inputs(cls())
    assert found.complete
    values = {**dict(zip(found.recipes, found.args, strict=False)), **found.kwargs}
    assert all(type(values[name]) is int for name in names)


def test_what_is_compared_with_a_number_is_the_share_that_its_name_tells():
    found = infer_inputs(Gated())
    assert found.args[1] == pytest.approx(0.5)


class Enhancer(nn.Module):
    def __init__(self):
        super().__init__()
        self.decode = nn.LSTM(12, 12, batch_first=True)

    def forward(self, mixture, enc_states, image_sizes):
        return mixture.abs(), self.decode(enc_states), [size.tolist() for size in image_sizes]


def test_names_of_speech_and_of_sizes():
    mixture, states, sizes = infer_inputs(Enhancer()).args
    assert mixture.shape == (2, 16000)
    assert states.shape == (2, 16, 12)
    assert (sizes.shape, sizes.dtype) == ((2, 2), torch.int64)


class WithoutActivation(nn.Module):
    """One of the layers in a row was not given."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 8))
        self.layers.append(None)

    def forward(self, x: Tensor):
        return self.layers(x)


def test_a_row_of_layers_that_lacks_one_ends_no_search():
    inferred = infer_inputs(WithoutActivation())
    assert not inferred.complete
    assert inferred.args[0].shape[-1] == 8
    assert "NoneType" in inferred.failures[0].error


class Prompted(nn.Module):
    """Asks mappings for what they may have."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, images, prompts, options):
        found = [self.conv(image[None]) for image in images]
        for index, prompt in enumerate(prompts):
            hint = prompt.get("hint")
            found[index] = found[index] if hint is None else found[index] + hint(index)
        return found, options.get("scale", 1.0)


def test_what_is_asked_as_mappings_are_is_one():
    found = infer_inputs(Prompted())
    assert found.complete
    _, prompts, options = found.args
    assert prompts == [{}, {}]
    assert options == {}


class Masked(nn.Module):
    """What the table takes is made of flags, which it does not take itself."""

    def __init__(self):
        super().__init__()
        self.table, self.fc = nn.Embedding(40, 8), nn.Linear(8, 8)

    def forward(self, x, padding_mask):
        return self.fc(x) + self.table(padding_mask * 1 + ~padding_mask * 32)


def test_flags_that_are_turned_into_tokens_stay_flags():
    assert read(Masked())[0] == {"x": "fc"}
    inputs = infer_inputs(Masked())
    assert inputs.complete
    assert inputs.recipes["padding_mask"].dtype is torch.bool


class Offsets(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(10, 4)

    def forward(self, offset, mask):
        places = torch.clip(offset + 4, 0, 8) * mask + (1 - mask) * 9
        return self.fc(torch.nn.functional.one_hot(places, 10).float())


def test_a_mask_that_has_to_be_one_of_integers_has_zeros_and_ones():
    inputs = infer_inputs(Offsets())
    assert inputs.complete, inputs.failures
    assert (inputs.recipes["mask"].fill, inputs.recipes["mask"].dtype) == ("ones", torch.int64)
    assert Offsets()(*materialize(inputs)[0]).shape[-1] == 4


class Moded(nn.Module):
    """What `mode` is compared with says what it is; where it is nothing of that, a variable is not set."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)

    def forward(self, x, mode, kind):
        if mode == "test":
            y = self.fc(x)
        elif mode == "train":
            y = self.fc(x) * 2
        return y if kind in ("plain", "other") else None


def test_what_is_compared_with_texts_is_one_of_them():
    inputs = infer_inputs(Moded())
    assert inputs.complete, inputs.failures
    assert inputs.expression == "torch.randn(2, 8), 'test', 'plain'"

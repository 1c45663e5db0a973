"""Inputs whose values matter: what goes wrong on real data is mended as what goes wrong without."""

import time
import warnings
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - torch's own name for it.

from fxengine.inputs import TensorRecipe, infer_inputs, materialize
from fxengine.inputs.probe import OutOfTime, probe
from tests.support.feeding import fed


class ByClass(nn.Module):
    """As losses that go over the classes that occur."""

    def forward(self, picture: Tensor, labels: Tensor):
        chances = picture.softmax(1)[:, 0].flatten()
        losses = [((labels == each).flatten().float() - chances).abs().mean() for each in labels.unique()]
        return torch.stack(losses).mean()


def test_what_does_not_fit_behind_values_is_mended():
    inferred = fed(ByClass())
    picture, labels = inferred.args
    assert labels.numel() == picture.numel() // picture.shape[1]


class Pixels(nn.Module):
    """As models of pictures whose values are the classes to be told."""

    def __init__(self):
        super().__init__()
        self.head = nn.Conv2d(1, 20, 1)

    def forward(self, image: Tensor):
        return F.cross_entropy(self.head(image), image[:, 0].long())


def test_numbers_that_are_taken_for_classes_are_not_negative():
    assert fed(Pixels()).recipes["image"].fill == "uniform"


class Either(nn.Module):
    """Fails with half of all numbers."""

    def __init__(self, sign):
        super().__init__()
        self.sign = sign

    def forward(self, pixel_values: Tensor):
        if self.sign * float(pixel_values.flatten()[0]) > 0:
            return pixel_values
        raise ValueError("cannot go on")


def test_what_reads_values_is_run_with_several():
    for sign in (1, -1):
        found = infer_inputs(Either(sign), budget_s=0.2)
        assert any("cannot go on" in each.error for each in found.failures)


class OfColumns(nn.Module):
    """A table of numbers whose first columns are codes that a table of vectors has."""

    def __init__(self):
        super().__init__()
        self.codes = nn.ModuleList(nn.Embedding(rows, 4) for rows in (30, 7))
        self.out = nn.Linear(11, 1)

    def forward(self, features: Tensor):
        vectors = [table(features[:, index].long()) for index, table in enumerate(self.codes)]
        numbers = features[:, 2:]
        return self.out(torch.cat([*vectors, numbers], 1))


def test_numbers_that_are_codes_of_a_table_are_whole_and_below_its_size():
    inferred = fed(OfColumns())
    recipe = inferred.recipes["features"]
    assert recipe.dtype is torch.float32
    assert recipe.expression == "torch.randint(0, 7, (2, 5), dtype=torch.float32)"


class Normalized(nn.Module):
    """As measures of pictures, and networks that were trained on such: the numbers are between zero and one."""

    def __init__(self, width=8):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, stride=4)
        self.head = nn.Linear(width, width)

    def forward(self, image: Tensor, other: Tensor):
        lowest, highest = 0.0, 1.0
        for each in (image, other):
            larger = F.interpolate(each, size=(230, 230), mode="bilinear")
            assert larger.min() >= lowest, "not normalized"
            assert larger.max() <= highest, "not normalized"
        if (other < 0).any():
            raise ValueError("no negative numbers")
        return self.head(self.stem(image - other).mean((2, 3)))


def test_numbers_have_the_range_that_is_checked():
    assert [each.fill for each in fed(Normalized()).recipes.values()] == ["uniform", "uniform"]


def test_the_range_of_numbers_is_checked_where_a_model_is_too_large_to_be_run():
    with torch.device("meta"):
        root = Normalized(1 << 13)
    inferred = infer_inputs(root, budget_s=10.0)
    assert inferred.complete
    assert [each.fill for each in inferred.recipes.values()] == ["uniform", "uniform"]


class Drawing(nn.Module):
    def forward(self, chances: Tensor):
        return torch.distributions.Bernoulli(probs=chances).log_prob(torch.ones(()))


def test_numbers_have_the_range_that_a_distribution_asks_for(monkeypatch: pytest.MonkeyPatch):
    # Torch's compiler, once some test has loaded it, lets distributions ask for nothing.
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)
    assert fed(Drawing()).recipes["chances"].fill == "uniform"


class Chances(nn.Module):
    def forward(self, chances: Tensor, wanted: Tensor):
        return F.binary_cross_entropy(chances, wanted)


def test_chances_are_between_zero_and_one():
    assert [each.fill for each in fed(Chances()).recipes.values()] == ["uniform", "uniform"]


class Energy(nn.Module):
    """As models of forces: what comes out is how something changes with the inputs."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        self.head = nn.Linear(4, 2)

    def forward(self, positions):
        with torch.enable_grad():
            positions = positions.requires_grad_()
            energy = self.layers(positions).sum()
            (force,) = torch.autograd.grad(outputs=energy, inputs=positions, create_graph=True)
        return self.head(force)


def test_a_model_that_takes_derivatives_is_fed():
    with torch.device("meta"):
        root = Energy()
    inferred = infer_inputs(root)
    assert inferred.complete
    assert not inferred.failures
    assert fed(Energy()).args[0].shape[-1] == 4


class AtOdds(nn.Module):
    """Its settings contradict each other, behind a look at values."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 8)
        self.head = nn.Linear(6, 2)

    def forward(self, tokens: Tensor, scores: Tensor):
        kept = scores.flatten()[scores.flatten() > 0]
        if kept.numel() and kept.max() > 1e6:
            return scores
        return self.head(self.table(tokens))


def test_a_model_whose_sizes_disagree_behind_values_is_not_fed():
    inferred = infer_inputs(AtOdds(), budget_s=0.5)
    assert not inferred.complete
    assert any("cannot be multiplied" in each.error or "reduction dim" in each.error for each in inferred.failures)


class HeldUpOnce(AtOdds):
    """Takes its time at its first run on data, as one does that torch loads something for."""

    held_up: ClassVar[list[bool]] = []

    def forward(self, tokens: Tensor, scores: Tensor):
        if float(scores.sum()) == 0.0 or self.held_up:  # Behind a look at values: only a run on data comes here.
            return super().forward(tokens, scores)
        self.held_up.append(True)
        end = time.process_time() + 0.6
        while time.process_time() < end:
            scores = scores + 0
        return super().forward(tokens, scores)


def test_a_run_on_values_that_was_held_up_is_repeated():
    assert not infer_inputs(HeldUpOnce(), budget_s=2.0).complete
    assert HeldUpOnce.held_up


class LooksFirst(nn.Module):
    """Looks at values before anything else, and has much to say of sizes then."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(12, 6), nn.Linear(20, 6)
        self.third = nn.Linear(28, 6)

    def forward(self, data):
        a, b, c = data["a"], data["b"], data["c"]
        if torch.isnan(a).any():
            return a
        batch, steps, _ = a.shape
        return self.first(a).view(batch, steps, 6) + self.second(b) * self.third(c)


def test_how_far_a_run_on_values_came_counts():
    with torch.device("meta"):
        root = LooksFirst()
    inferred = infer_inputs(root, budget_s=10.0)
    assert inferred.complete, inferred.failures
    assert [each.shape[-1] for each in inferred.args[0].values()] == [12, 20, 28]
    assert inferred.failures[0].calls > 4


class Embedded(nn.Module):
    """Makes a vector of the step of each example, without making a number of it."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(1, 8)

    def forward(self, x: Tensor, timestep: Tensor):
        return x.mean() + self.embed(timestep[:, None])


def test_a_step_that_is_no_whole_number_is_as_large_as_one():
    recipe = fed(Embedded()).recipes["timestep"]
    assert recipe.expression == "torch.randint(0, 1000, (2,), dtype=torch.float32)"


class Accuracy(nn.Module):
    def forward(self, preds, labels):
        return (preds.argmax(-1) == labels).float().mean()


def test_predictions_are_a_number_for_each_class():
    assert fed(Accuracy()).args[0].shape == (2, 10)


class Table(nn.Module):
    """Columns of numbers, the last of which are places in a table."""

    def __init__(self):
        super().__init__()
        self.codes, self.numbers = nn.Embedding(1000, 4), nn.Linear(15, 4)

    def forward(self, X):
        return self.codes(X[:, -1].long()) + self.numbers(X[:, :-1])


def test_codes_among_numbers_fit_whatever_is_drawn():
    inferred = fed(Table())
    for seed in range(20):
        args, _ = materialize(inferred, seed=seed)
        Table()(*args)


class Placed(nn.Module):
    """As decoders that add positions from a table which is no buffer, behind code that reads how long examples are."""

    def __init__(self):
        super().__init__()
        self.words, self.inner = nn.Linear(5, 5), nn.Linear(8, 8)
        self.table = torch.zeros(1, 64, 1)

    def forward(self, x: Tensor, lengths: Tensor):
        longest = max(lengths.tolist())
        _, inner = self.children()
        return inner(x[:, :longest] + self.table[:, :longest])


def test_tensors_that_a_model_keeps_as_they_are_do_not_stop_a_run_for_values():
    with torch.device("meta"):
        model = Placed()
    inferred = infer_inputs(model, budget_s=60.0)
    assert inferred.complete
    assert inferred.args[0].shape[-1] == 8
    assert model.table.is_meta


class NeverFitting(nn.Module):
    """Fails with all inputs, behind a look at their values, of which there are too many where they are pictures."""

    def __init__(self):
        super().__init__()
        self.see = nn.Conv2d(64, 8, 1)
        self.table = nn.Linear(3000, 3000)

    def forward(self, x):  # x: (B, L, 64)
        if torch.isnan(x).any():
            raise ValueError("numbers are missing")
        return x.new_zeros(7) + x.new_zeros(5)


def test_what_is_too_large_to_be_looked_at_fits_no_better_than_what_was_looked_at():
    assert not infer_inputs(NeverFitting().to("meta"), budget_s=5.0).complete


class Columns(nn.Module):
    """As models of tables with columns of codes, each of which begins elsewhere in one table."""

    def __init__(self):
        super().__init__()
        self.codes = nn.Embedding(12, 8)
        self.register_buffer("starts", torch.tensor([0, 3, 7]))

    def forward(self, x: Tensor):
        return self.codes(x + self.starts[None])


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_codes_that_are_counted_from_somewhere_else_are_small(device: str):
    with torch.device(device):
        model = Columns()
    inferred = infer_inputs(model, budget_s=60.0)
    for seed in range(20):
        args, _ = materialize(inferred, seed=seed)
        Columns()(*args)


class Ranked(nn.Module):
    """As what looks up the last of the numbers that are large enough, of which there is one unless none is a number."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x: Tensor):
        ordered = self.norm(x).sort(-1, descending=True).values
        count = (ordered >= ordered[..., :1]).sum(-1, keepdim=True)
        return ordered.gather(-1, count - 1)


def test_what_a_norm_has_seen_is_never_negative():
    with torch.device("meta"):
        model = Ranked()
    assert infer_inputs(model, budget_s=60.0).complete


class Joint(nn.Module):
    """Goes on only where something is left to attend to."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, batch_first=True), 1)

    def forward(self, x: Tensor, src_key_padding_mask: Tensor):
        return self.layer(x, src_key_padding_mask=src_key_padding_mask)


def test_keys_that_would_be_left_out_are_there():
    assert fed(Joint()).recipes["src_key_padding_mask"].fill == "zeros"


class Posterior(nn.Module):
    def forward(self, x_t: Tensor, t: Tensor):
        return x_t.flatten(1) * t[:, None].cos()


def test_what_is_there_at_a_time_is_no_time():
    recipes = fed(Posterior()).recipes
    assert recipes["x_t"].fill == "normal"
    assert recipes["t"].fill == "integers"


class Caching(nn.Module):
    """As losses that move what they are given to the device of the model, which they have asked for before."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.place = self.inner.weight.device

    def forward(self, x: Tensor, lengths: Tensor):
        longest = max(lengths.to(self.place).tolist())
        _, inner = self.children(), self.inner
        return inner(x[:, :longest, 2:].to(self.place))


def test_a_device_that_a_model_keeps_is_that_of_the_data_in_a_run_for_values():
    with torch.device("meta"):
        model = Caching()
    inferred = infer_inputs(model, budget_s=20.0)
    assert inferred.complete
    assert inferred.args[0].shape[-1] == 10
    assert model.place == torch.device("meta")


class Forces(nn.Module):
    """As models of energies that give forces, behind code that reads values."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 1)

    def forward(self, x: Tensor, kinds: Tensor):
        if kinds.max() > 9:
            raise ValueError("there are no such kinds")
        x = x.detach().requires_grad_()
        (forces,) = torch.autograd.grad(self.inner(x).sum(), x, create_graph=True)
        return -forces


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_what_asks_for_gradients_is_run_for_values_with_such(device: str):
    inferred = infer_inputs(Forces().to(device), budget_s=20.0)
    assert inferred.complete
    Forces()(*materialize(inferred)[0])


class Routed(nn.Module):
    """As mixtures of experts that take the numbers of the chosen ones for those of the examples."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.gate = nn.Linear(8, 4)
        self.experts = nn.ModuleList(nn.Conv2d(8, 8, 1) for _ in range(4))

    def forward(self, x: Tensor):
        x = self.stem(x)
        weights, chosen = self.gate(x.mean((2, 3))).topk(1)
        out = torch.zeros_like(x)
        for index, expert in enumerate([self.experts[each] for each in chosen.squeeze(0)]):
            out += expert(x) * weights[:, index : index + 1, None, None]
        return out


def test_what_looks_at_data_as_if_there_were_one_example_is_given_one():
    inferred = infer_inputs(Routed().to("meta"), budget_s=5.0)
    assert inferred.complete
    assert inferred.args[0].shape[0] == 1
    Routed()(*materialize(inferred)[0])


def test_what_takes_too_long_on_data_is_run_on_smaller_pictures(monkeypatch: pytest.MonkeyPatch):
    model, sides = Routed().to("meta"), list[int]()

    def slow(_module: nn.Module, args: tuple[Tensor, ...]) -> None:
        if not args[0].is_meta:
            sides.append(args[0].shape[-1])
            if args[0].shape[-1] > 100:
                raise OutOfTime

    model.stem.register_forward_pre_hook(slow)
    inferred = infer_inputs(model, budget_s=5.0)
    assert inferred.complete
    assert inferred.args[0].shape[0] == 1
    assert {each < 100 for each in sides} == {False, True}


class Shifted(nn.Module):
    """Has one entry more for what fills up, and too many to be run on real data."""

    def __init__(self, width=4):
        super().__init__()
        self.table = nn.Embedding(4097, width)

    def forward(self, text: Tensor):
        text = F.pad(text + 1, (0, 2))
        return self.table(text[:, :8])


class ShiftedInPart(nn.Module):
    """Looks up what only data tell."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(12, 4)

    def forward(self, text: Tensor):
        return self.table(torch.where(text > 2, text + 2, text))


@pytest.mark.parametrize(("model", "high"), [(Shifted(4096), 4096), (Shifted(), 4096), (ShiftedInPart(), 10)])
def test_what_is_added_to_integers_before_they_are_looked_up_is_left_over(model, high):
    recipe = infer_inputs(model).recipes["text"]
    assert recipe.high <= high
    assert int(materialize(infer_inputs(model))[0][0].max()) == recipe.high - 1


class Masked(nn.Module):
    """Is as long as a mask says, and pads to a length that is given."""

    def forward(self, x: Tensor, max_seq_len, mask: Tensor):
        rows = [row[: int(kept.sum())] for row, kept in zip(x, mask, strict=True)]
        longest = torch.stack(rows)
        return F.pad(longest, (0, 0, 0, max_seq_len - longest.shape[1]))


def test_a_size_that_is_several_numbers_is_none_on_real_data_either():
    found = infer_inputs(Masked())
    args, kwargs = materialize(found)
    assert found.complete
    assert Masked()(*args, **kwargs).isfinite().all()


class Bag(nn.Module):
    """Weighs a row of its table by each number of an input."""

    def __init__(self):
        super().__init__()
        self.rows = nn.EmbeddingBag(3, 8, mode="sum")

    def forward(self, shares: Tensor):
        places = torch.arange(shares.shape[1], device=shares.device).expand_as(shares)
        return self.rows(places, per_sample_weights=shares)


def test_a_bag_takes_no_more_numbers_than_it_has_rows():
    assert fed(Bag()).args[0].shape[1] <= 3


class Enlarged(nn.Module):
    """Makes something as large as it is told to."""

    def forward(self, x: Tensor, shape):
        return x.mean() + torch.zeros(len(x), *shape)


def test_several_numbers_that_are_no_whole_ones_are_no_size_of_what_is_made():
    x = TensorRecipe((2, 8))
    assert probe(Enlarged(), {"x": x, "shape": TensorRecipe((2,), "full", torch.int64, 3)}, 2).accepted
    assert not probe(Enlarged(), {"x": x, "shape": TensorRecipe((1, 64))}, 2).accepted


class Teacher(nn.Module):
    """Reads texts that are as long as is said, and what is to come out, and is too large to be run on data."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(1 << 18, 64)
        self.encoder = nn.LSTM(64, 32, batch_first=True)
        self.decoder = nn.Linear(12, 32)

    def forward(self, text, text_lengths, targets):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.table(text), text_lengths.cpu().numpy(), batch_first=True, enforce_sorted=False
        )
        read, _ = nn.utils.rnn.pad_packed_sequence(self.encoder(packed)[0], batch_first=True)
        return read.mean(1, keepdim=True) + self.decoder(targets.transpose(1, 2))


def test_a_large_model_is_run_beyond_where_it_reads_how_long_its_inputs_are():
    with torch.device("meta"):
        root = Teacher()
    inferred = infer_inputs(root, budget_s=60.0)
    assert inferred.complete
    assert inferred.args[2].shape[1:] == (12, 16)


class Coded(nn.Module):
    """Is given codes as numbers of any kind, with a speaker for each, and is too large to be run on data."""

    def __init__(self):
        super().__init__()
        self.codes = nn.Embedding(1 << 18, 64)
        self.speakers = nn.Embedding(9, 64)

    def forward(self, x: Tensor):
        """Look up both.

        Args:
            x (Tensor): The codes (B, 2, T).
        """
        codes, speakers = x.long().split(1, dim=1)
        return self.codes(codes.squeeze(1)) + self.speakers(speakers[:, 0, :1])


def test_what_is_rounded_before_it_is_looked_up_is_whole_and_not_too_large():
    with torch.device("meta"):
        root = Coded()
    recipe = infer_inputs(root, budget_s=60.0).recipes["x"]
    assert (recipe.fill, recipe.high) == ("integers", 9)


class HarmonisedLoss(nn.Module):
    """Weighs examples by how many are as far off: by places in a table that follow from shares."""

    def forward(self, x: Tensor, target: Tensor):
        places = torch.floor(9.999 * (x.sigmoid() - target).abs()).long()
        weights = torch.bincount(places.flatten(), minlength=10).float()[:10][places]
        return F.binary_cross_entropy_with_logits(x, target, weight=1 / weights)


def test_places_that_follow_from_shares_are_those_of_a_table():
    target = fed(HarmonisedLoss()).recipes["target"]
    assert (target.fill, target.dtype) == ("uniform", torch.float32)


class Biased(nn.Module):
    """Keeps what it adds ready while it is not trained, as LeViT does."""

    def __init__(self):
        super().__init__()
        self.scores, self.biases = nn.Linear(8, 16), nn.Parameter(torch.zeros(16))
        self.register_buffer("places", torch.arange(16).flip(0), persistent=False)

    def train(self, mode=True):
        super().train(mode)
        if mode and hasattr(self, "ready"):
            del self.ready
        elif not mode:
            self.register_buffer("ready", self.biases[self.places].detach(), persistent=False)

    def forward(self, x):
        return self.scores(x) + (self.biases[self.places] if self.training else self.ready)


def test_what_a_model_makes_ready_for_its_evaluation_is_there_meanwhile():
    root = Biased()
    assert fed(root).args[0].shape == (2, 8)
    assert not hasattr(root, "ready")
    assert root.training


class Stepped(nn.Module):
    """Picks a row for each step, of a model that is too large to be run on data."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4096, 4096), nn.Linear(4096, 4096)
        self.register_buffer("rows", torch.zeros(50, 4096))

    def forward(self, x, diffusion_step):
        return self.second(self.first(x) + self.rows[diffusion_step])


def test_rows_are_picked_that_a_table_has():
    with torch.device("meta"):
        root = Stepped()
    found = infer_inputs(root)
    assert found.usable, found.failures
    assert found.recipes["diffusion_step"].high <= 50


def inferred_without_values(cls):
    """Return the inputs that are inferred for a model without values."""
    with torch.device("meta"):
        model = cls()
    return infer_inputs(model)


class Checked(nn.Module):
    """Looks at what it is given, and is too large to be run on real data."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.fc = nn.Linear(1 << 14, 1 << 14)

    def forward(self, x):
        x = x.repeat(1, 3, 2, 2)
        if x.min() < -1024 or x.max() > 1024:
            warnings.warn(f"these are no densities: {x.min():.1f}", stacklevel=2)
        return self.fc(self.conv(x).mean((2, 3)).repeat(1, 1 << 11))


def test_what_is_refused_whatever_data_say_is_mended():
    inferred = inferred_without_values(Checked)
    assert inferred.complete
    assert inferred.args[0].shape[1] == 1


class Refusing(Checked):
    """Refuses by itself what only data can tell."""

    def forward(self, x):
        if not (x > -1024).all():
            raise ValueError("these are no densities")
        return self.fc(self.conv(x).mean((2, 3)).repeat(1, 1 << 11))


def test_what_code_refuses_by_what_data_say_is_not():
    inferred = inferred_without_values(Refusing)
    assert inferred.complete
    assert not inferred.failures


class Hidden(nn.Module):
    """Has a part that nobody gets at, as its class has something else by that name."""

    bias: nn.Embedding | None = None

    def __init__(self):
        super().__init__()
        self.bias = nn.Embedding(7, 1)
        self.users = nn.Embedding(7, 4)

    def forward(self, user, item):
        score = (self.users(user) * self.users(item)).sum(-1)
        return score if self.bias is None else score + self.bias(user)


def test_a_part_that_a_class_hides_is_no_part_of_a_run():
    inferred = inferred_without_values(Hidden)
    assert inferred.complete
    assert not inferred.failures

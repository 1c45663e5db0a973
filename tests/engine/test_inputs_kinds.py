"""Inputs of other kinds than tensors of numbers: texts, packed sequences, dictionaries, lengths, complex numbers."""

import time
from types import SimpleNamespace
from typing import Any, TypedDict

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - torch's own name for it.
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from fxengine.inputs import infer_inputs, materialize
from tests.support.feeding import fed


class Tokenizing(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(256, 8)

    def forward(self, sentences):
        rows = [torch.tensor([len(word) for word in each.lower().split()]) for each in sentences]
        return torch.stack([self.table(row).mean(0) for row in rows])


class Typed(Tokenizing):
    def forward(self, texts: list[str], mode: str = "mean"):
        return super().forward(texts)


class Spelled(Tokenizing):
    def forward(self, names):
        return self.table(torch.tensor([ord(letter) % 256 for letter in names[0]]))


def test_what_is_taken_for_texts_is_given_as_texts():
    for root in (Tokenizing(), Typed(), Spelled()):
        assert all(isinstance(text, str) and text for text in fed(root).args[0])


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 8)

    def forward(self, x: PackedSequence):
        return pad_packed_sequence(self.lstm(x)[0])[0]


class Unpacking(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(6, 8)

    def forward(self, sequence):
        return self.head(pad_packed_sequence(sequence, batch_first=True)[0])


def test_packed_sequences_are_given_where_such_are_taken():
    for root in (Packed(), Unpacking()):
        inferred = fed(root)
        assert isinstance(inferred.args[0], PackedSequence)
        assert "torch.nn.utils.rnn.PackedSequence(data=torch.randn(32, 6)" in inferred.expression


class Observation(TypedDict):
    pixels: Tensor
    state: Tensor


class Seeing(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, seen: Observation):
        return sum(self.scale * each.mean() for each in seen.values())


def test_a_typed_dictionary_has_all_its_keys():
    assert fed(Seeing()).args[0].keys() == {"pixels", "state"}


class Modal(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoders = nn.ModuleDict({"rgb": nn.Conv2d(3, 8, 3), "depth": nn.Conv2d(1, 8, 3)})

    def forward(self, x: dict[str, Tensor]):
        return sum(self.encoders[key](each).mean((2, 3)) for key, each in x.items())


def test_a_dictionary_that_is_gone_over_has_a_key_for_each_part_of_the_model():
    assert fed(Modal()).args[0].keys() == {"rgb", "depth"}


class Conditioned(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(6, 8)

    def forward(self, x: Tensor, conditions: dict[str, Tensor]):
        if "mask" not in conditions:
            raise KeyError("no conditions")
        scale = conditions.get("scale")
        if scale is None:
            raise ValueError("something is not there")
        return self.head(x) * scale.mean() * conditions["mask"].float().mean()


def test_keys_that_code_checks_for_are_given():
    assert fed(Conditioned()).args[1].keys() == {"mask", "scale"}


class Popping(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(6, 8)

    def forward(self, **batch):
        return self.head(batch.pop("features"))


def test_what_is_taken_out_of_arguments_by_name_is_passed():
    assert fed(Popping()).kwargs["features"].shape[-1] == 6


class Resampling(nn.Module):
    def __init__(self):
        super().__init__()
        self.sample_rate = 24000
        self.encoder = nn.Conv1d(1, 4, 7, stride=5)

    def forward(self, audio, sample_rate):
        if sample_rate != self.sample_rate:
            raise ValueError("another rate")
        return self.encoder(audio)


def test_sound_has_the_rate_that_the_model_names():
    assert fed(Resampling()).args[1] == 24000


class Spectral(nn.Module):
    def __init__(self):
        super().__init__()
        self.mask = nn.Linear(9, 9)

    def forward(self, x: Tensor):
        magnitudes = abs(x)
        assert torch.is_complex(x)
        return self.mask(magnitudes) * x


def test_what_is_asserted_to_be_complex_is():
    assert fed(Spectral()).args[0].dtype is torch.complex64


class Scored(nn.Module):
    """Compares a noisy spectrum with another, which it calls as others call their classes."""

    def __init__(self):
        super().__init__()
        self.net = nn.Conv2d(4, 2, 3)

    def forward(self, x, y):
        return self.net(torch.cat([x.real, x.imag, y.real, y.imag], dim=1))


def test_what_was_taken_for_classes_may_be_complex_like_what_is_beside_it():
    inferred = fed(Scored())
    assert [(each.shape[1], each.dtype) for each in inferred.args] == [(1, torch.complex64)] * 2


class Precise(nn.Module):
    """All of it is as precise as the constructor says."""

    def __init__(self, dtype: torch.dtype):
        super().__init__()
        self.encoder = nn.Conv2d(3, 8, 3, dtype=dtype)
        self.head = nn.Linear(8, 2, dtype=dtype)

    def forward(self, image):
        return self.head(self.encoder(image).mean((2, 3)))


class Mixed(nn.Module):
    """A part of it is more precise than the other."""

    def __init__(self):
        super().__init__()
        self.recurrent = nn.LSTM(5, 6).double()
        self.head = nn.Linear(7, 1)

    def forward(self, signal, features):
        return self.head(features) + self.recurrent(signal)[0].float().mean()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_numbers_are_as_precise_as_the_models(dtype):
    assert fed(Precise(dtype)).args[0].dtype is dtype


def test_numbers_are_as_precise_as_what_consumes_them():
    assert [each.dtype for each in fed(Mixed()).args] == [torch.float64, torch.float32]


class Masked(nn.Module):
    """How long each example is becomes a list at once."""

    def __init__(self):
        super().__init__()
        self.head = nn.GRU(10, 8, batch_first=True)

    def forward(self, x: Tensor, counts):
        known = counts.tolist()
        longest = int(max(known))
        mask = torch.arange(longest)[None] >= torch.tensor([int(each) for each in known])[:, None]
        return self.head(x)[0].masked_fill(mask[..., None], 0.0)


def test_how_long_each_example_is_is_a_number_of_each():
    assert fed(Masked()).args[1].shape == (2,)


class Classes(nn.Module):
    def forward(self, label: Tensor):
        return F.one_hot(label, 3).float()


def test_numbers_that_become_classes_are_not_more_than_there_are():
    assert fed(Classes()).expression.startswith("torch.randint(0, 3,")


class Turning(nn.Module):
    def forward(self, q: Tensor, v: Tensor):
        w, *axis = q.unbind(-1)
        real, i, j, k = q.unbind(-1)
        return v * real.mean() * (i + j + k + w).mean() + len(axis)


def test_as_many_parts_as_something_is_taken_apart_into_are_there():
    assert fed(Turning()).args[0].shape[-1] == 4


class Holding(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 16, 16)

    def forward(self, pixels: Tensor, seq_len: int):
        x = self.patches(pixels).flatten(2)
        if x.shape[-1] != seq_len:
            raise ValueError(f"each sample must hold exactly `seq_len` ({seq_len}) tokens, got {[*x.shape[2:]]}")
        return x


def test_a_number_that_a_message_names_becomes_the_other():
    assert fed(Holding()).args[1] == 196


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = [1.0, 0.5, 0.25]

    def forward(self, predictions, target):
        assert len(predictions) == len(self.weights), "as many as there are weights"
        return sum(w * (p - target).abs().mean() for w, p in zip(self.weights, predictions, strict=True))


def test_what_must_have_so_many_parts_is_a_list():
    assert len(fed(Heads()).args[0]) == 3


class Noised(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x: Tensor, noise_ratio):
        scaled = noise_ratio * 1000
        return self.head(x) * torch.exp(scaled.to(x.device))[:, None, None, None]


def test_a_number_that_is_taken_for_a_tensor_is_one_of_each_example():
    assert fed(Noised()).args[1].shape == (2,)


class Contradicting(nn.Module):
    """Fails with all inputs, but only where there are data."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(6, 8)

    def forward(self, x: Tensor):
        if float(self.head(x).sum()) > -1e9:
            raise RuntimeError("sections sum to 32, and not to 64")
        return x


def test_what_fails_on_data_is_not_called_fitting():
    assert not infer_inputs(Contradicting(), budget_s=0.2).complete


class Squeezed(nn.Module):
    """Nothing is left of the last dimension, which is no size that anything has."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 4)

    def forward(self, x: Tensor, y: Tensor):
        return self.head(x[..., :0]) + torch.cat([y[..., :0], y[..., :0]], -1)


def test_sizes_of_nothing_end_no_search():
    assert not infer_inputs(Squeezed(), budget_s=0.2).complete


class Careless(nn.Module):
    """The norm was given a shape where it takes a number, and never runs."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8, affine=False, track_running_stats=False)
        self.norm.num_features = (8, 8)

    def forward(self, x: Tensor):
        return self.norm(x)


def test_a_layer_that_states_a_shape_ends_no_search():
    assert infer_inputs(Careless(), budget_s=0.2).expression


class Compared(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, scores: Tensor, **kwargs: Tensor):
        assert "target" in kwargs
        return F.cross_entropy(self.scale * scores, kwargs["target"])


def test_what_is_asserted_to_be_passed_by_name_is():
    assert "target" in fed(Compared()).kwargs


class Heard(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Conv1d(1, 8, 10, 5)

    def forward(self, speech: Tensor, speech_lengths: Tensor):
        mask = torch.arange(speech.shape[1])[None] < speech_lengths[:, None]
        return self.encoder((speech * mask)[:, None])


def test_lengths_are_those_of_whole_examples():
    inferred = fed(Heard())
    assert inferred.recipes["speech_lengths"].expression == f"torch.full((2,), {inferred.args[0].shape[1]})"


class Relative(nn.Module):
    """Is told how long each example is as a part of the longest."""

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(8, 8, batch_first=True)

    def forward(self, frames: Tensor, frame_lens: Tensor):
        return self._packed(frames, frame_lens)[1]

    def _packed(self, frames: Tensor, lens: Tensor):
        _, steps, _ = frames.shape
        lengths = (lens * steps).round().long()
        return self.gru(nn.utils.rnn.pack_padded_sequence(frames, lengths, batch_first=True))


def test_lengths_that_sizes_are_multiplied_with_are_shares():
    assert fed(Relative()).recipes["frame_lens"].expression == "torch.ones(2)"


class Pathways(nn.Module):
    def __init__(self):
        super().__init__()
        self.slow, self.fast = nn.Conv3d(3, 8, (1, 7, 7)), nn.Conv3d(3, 8, (5, 7, 7))

    def forward(self, x):
        assert len(x) == 2
        return self.slow(x[0]).mean((2, 3, 4)) + self.fast(x[1]).mean((2, 3, 4))


def test_items_that_go_to_layers_of_their_own_are_a_list():
    assert [len(each.shape) for each in fed(Pathways()).args[0]] == [5, 5]


class Crowd(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(7, 8)

    def forward(self, x: Tensor, present: Tensor):
        steps = torch.arange(x.shape[1])
        mask = steps[None] < present[:, None]
        return (self.embed(x) * mask[..., None]).sum(1) / present[:, None]


def test_what_steps_are_compared_with_says_how_long_each_example_is():
    assert fed(Crowd()).recipes["present"].expression == "torch.full((2,), 16)"


class Diffused(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(7, 8)

    def forward(self, x: Tensor, timestep: torch.FloatTensor):
        return self.embed(x) * timestep.mean()


def test_a_step_that_is_a_fraction_is_none_below_zero():
    assert fed(Diffused()).recipes["timestep"].expression == "torch.rand(2)"


class Described(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Conv2d(3, 4, 3)

    def forward(self, img: Tensor, img_metas):
        height, width = img_metas[0]["img_shape"][:2]
        return self.encoder(img)[..., :height, :width]


def test_what_is_written_beside_pictures_is_given():
    assert fed(Described()).args[1][0]["img_shape"] == (224, 224, 3)


class Merged(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(6, 8)

    def forward(self, x: Tensor, conditions: dict[str, Tensor]):
        known = {"x": x, **conditions}
        scale = known.get("scale")
        if scale is None:
            raise ValueError("something is not there")
        return self.head(x) * scale.mean()


def test_keys_that_are_looked_for_in_what_was_made_of_a_dictionary_are_given():
    assert fed(Merged()).args[1].keys() == {"scale"}


class Periods(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Conv2d(1, 8, (5, 1), (3, 1))

    def forward(self, x: Tensor):
        b, c, t = x.shape
        return self.encoder(F.pad(x, (0, -t % 3)).view(b, c, -1, 3))


def test_sound_by_its_axes_is_no_shorter_than_sound_by_its_layers():
    assert fed(Periods()).args[0].shape == (2, 1, 1024)


class Molecule(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("masses", torch.linspace(1, 250, 100))

    def forward(self, pos: Tensor, atomic_numbers: Tensor):
        return (pos * self.masses[atomic_numbers][:, None]).sum(0)


def test_atoms_are_told_by_numbers():
    assert fed(Molecule()).expression == "torch.randn(16, 3), torch.randint(0, 100, (16,))"


class Totals(nn.Module):
    """Adds up what the atoms of each molecule weigh."""

    def __init__(self):
        super().__init__()
        self.register_buffer("masses", torch.linspace(1, 250, 100))

    def forward(self, atom_types: Tensor, n_node: Tensor):
        graphs = torch.arange(len(n_node), device=n_node.device).repeat_interleave(n_node)
        return torch.zeros(len(n_node)).index_add(0, graphs, self.masses[atom_types])


def test_how_many_nodes_graphs_have_are_as_many_as_there_are():
    assert fed(Totals()).expression == "torch.randint(0, 100, (16,)), torch.full((2,), 8)"


def test_a_picture_begins_with_a_point():
    model = nn.Sequential(nn.ConvTranspose2d(100, 32, 4, 1, 0), nn.BatchNorm2d(32), nn.ConvTranspose2d(32, 3, 4, 2, 1))
    assert fed(model).args[0].shape == (2, 100, 1, 1)


class Along(nn.Module):
    """Adds up along a dimension that is said when it is called."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)

    def forward(self, x, dim):
        axes = [each if each >= 0 else x.ndim + each for each in [dim]]
        return self.first(x).cumsum(axes[0])


def test_along_which_dimension_is_a_number():
    assert fed(Along()).args[1] == 1


class Chosen(nn.Module):
    """Takes a mask that has no such name where it is used."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)

    def forward(self, x, keep_bias):
        return torch.where(keep_bias, self.first(x), -1e9)


def test_what_chooses_between_two_is_true_or_false():
    assert fed(Chosen()).args[1].dtype is torch.bool


class SmoothedEntropy(nn.Module):
    """Compares scores with classes."""

    def __init__(self):
        super().__init__()
        self.scores = nn.LogSoftmax(dim=1)

    def forward(self, inputs, targets):
        chosen = torch.zeros_like(self.scores(inputs)).scatter_(1, targets.unsqueeze(1), 1)
        return -(0.9 * chosen * self.scores(inputs)).mean(0).sum()


def test_the_dimension_that_something_is_along_is_no_size():
    assert fed(SmoothedEntropy()).expression == "torch.randn(2, 64), torch.randint(0, 10, (2,))"


class OfGraph(nn.Module):
    """Reads what it is given by attributes and by keys."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)

    def forward(self, data):
        return self.first(data.x) + self.weights(data).unsqueeze(-1)

    def weights(self, data):
        return data["weight"][data.batch] if "weight" in data else data["energy"].mean(-1)


class OfKeys(OfGraph):
    """Reads by keys first."""

    def forward(self, batch):
        return self.first(batch["pixels"]) * batch.scale


def test_what_is_read_in_both_ways_has_both():
    for root in (OfGraph(), OfKeys()):
        found = infer_inputs(root)
        assert found.usable, found.failures
        assert found.expression.startswith("type('Keyed', (SimpleNamespace,), {'__getitem__': ")
        made = eval(found.expression, {"torch": torch, "SimpleNamespace": SimpleNamespace})
        assert root(made).shape[-1] == 8


class TakenApart(nn.Module):
    """Takes apart what nothing tells of: as long as it is a tensor, into as many parts as that has rows."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(24, 2)

    def forward(self, features, shapes):
        (low, high), (rows, columns) = features, shapes["grid"]
        low = low.view(low.shape[0], rows, columns, 24)
        return self.out(low).sum() + high.view(high.shape[0], 3, rows * columns).sum()


def test_a_tensor_of_any_number_of_rows_is_taken_apart_in_time():
    start = time.process_time()
    infer_inputs(TakenApart())
    assert time.process_time() - start < 10


class Boxed(nn.Module):
    """Says that its boxes are a dictionary, and takes them for a tensor."""

    def __init__(self):
        super().__init__()
        self.places = nn.Linear(4, 8)

    def forward(self, x: torch.Tensor, bbox: dict[str, Any] | None = None):
        if bbox is None:
            raise ValueError("bbox is required")
        return x + self.places(torch.clip(bbox, 0.0, 1.0))


class Sliced(Boxed):
    def forward(self, x: torch.Tensor, bbox: dict[str, Any]):
        return x + self.places(torch.cat([bbox[:, :, :2], bbox[:, :, 2:]], -1))


@pytest.mark.parametrize("cls", [Boxed, Sliced])
def test_what_is_taken_for_a_tensor_is_one_whatever_its_annotation_says(cls):
    found = infer_inputs(cls())
    assert found.usable, found.failures
    args, kwargs = materialize(found)
    assert cls()(*args, **kwargs).shape[-1] == 8
    assert isinstance([*args, *kwargs.values()][1], torch.Tensor)

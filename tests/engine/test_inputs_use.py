"""Inputs that are more than one tensor, by what is done with them: lists of pictures, states of recurrent layers."""

from collections import namedtuple
from dataclasses import dataclass
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - torch's own name for it.

from fxengine.inputs import infer_inputs
from tests.support.feeding import fed


class Pyramid(nn.Module):
    def __init__(self):
        super().__init__()
        self.lateral = nn.ModuleList(nn.Conv2d(width, 8, 1) for width in (4, 6, 10))

    def forward(self, levels):
        laterals = [layer(level) for layer, level in zip(self.lateral, levels, strict=True)]
        return laterals[0] + F.interpolate(laterals[-1], size=laterals[0].shape[-2:])


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Conv2d(6, 2, 3, padding=1)

    def forward(self, levels):
        return torch.cat([self.score(level).flatten(2) for level in levels], -1)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.high = nn.Conv2d(8, 4, 1)
        self.low = nn.Conv2d(4, 4, 1)

    def forward(self, levels):
        low, high = levels
        return self.low(low) + F.interpolate(self.high(high), size=low.shape[-2:])


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, seen, memory):
        out, memory = self.lstm(seen, memory)
        return self.head(out), memory


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(6, 8)

    def forward(self, seen, before):
        return self.cell(seen, before)


class Compared(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, image_embeds, text_embeds):
        return self.scale * image_embeds @ text_embeds.T


class Rendered(nn.Module):
    def forward(self, rays_o, rays_d, near: float, far: float):
        steps = torch.linspace(near, far, 4)
        return rays_o[:, None] + steps[:, None] * torch.linalg.cross(rays_d, rays_d)[:, None]


@pytest.mark.parametrize(
    ("root", "expression"),
    [
        (Pyramid(), "[torch.randn(2, 4, 64, 64), torch.randn(2, 6, 32, 32), torch.randn(2, 10, 16, 16)]"),
        (Head(), "[torch.randn(2, 6, 64, 64), torch.randn(2, 6, 32, 32), torch.randn(2, 6, 16, 16)]"),
        (Decoder(), "[torch.randn(2, 4, 64, 64), torch.randn(2, 8, 32, 32)]"),
        (Policy(), "torch.randn(2, 16, 6), (torch.randn(1, 16, 8), torch.randn(1, 16, 8))"),
        (Actor(), "torch.randn(2, 6), (torch.randn(2, 8), torch.randn(2, 8))"),
        (Compared(), "torch.randn(2, 64), torch.randn(2, 64)"),
        (Rendered(), "torch.randn(16, 3), torch.randn(16, 3), 1.0, 1.0"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, nn.Module) else "",
)
def test_what_is_done_with_inputs_says_what_they_are(root, expression):
    assert fed(root).expression == expression


class Own(nn.Module):
    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, x):
        return self.call(x.new_zeros(2, 6, 8) + 0 * x.sum())


@pytest.mark.parametrize(
    "call",
    [
        lambda x: F.conv1d(x, torch.zeros(4, 6, 3, 3)),
        lambda x: F.conv_transpose1d(x, torch.zeros(4, 5, 3)),
        lambda x: F.conv_transpose1d(x, torch.zeros(6, 5, 3), stride=2, output_padding=2),
    ],
)
def test_what_a_convolution_refuses_on_data_it_refuses_without(call):
    assert not infer_inputs(Own(call), budget_s=0.3).complete


class Wrapper(nn.Module):
    """Passes on what it is given."""

    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Conv2d(5, 2, 3), nn.ReLU())

    def forward(self, *args, is_training=False, **kwargs):
        return {"features": self.model(*args, **kwargs)}["features"]


class Stitcher(nn.Module):
    def forward(self, *pictures: torch.Tensor):
        return torch.cat([pictures[0], pictures[1]], -1)


class SkipDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Conv2d(width, 8, 1) for width in (4, 6))

    def forward(self, *features):
        return [block(feature) for block, feature in zip(self.blocks, features, strict=True)]


class Mixer(nn.Module):
    def forward(self, *args):
        one, other, third = args
        return one + other * third


class OfAxes(nn.Module):
    """Makes something of each place in as many dimensions as its layer takes."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 8)

    def forward(self, *dimensions):
        axes = [torch.arange(-each + 1, each) for each in dimensions]
        return self.fc(torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).float())


def test_there_are_as_many_arguments_as_a_layer_takes():
    assert len(fed(OfAxes()).args) == 4


def test_what_takes_any_number_of_arguments_is_given_some():
    assert fed(Wrapper()).args[0].shape[:2] == (2, 5)
    assert "is_training" not in fed(Wrapper()).recipes
    assert len(fed(Stitcher()).args) == 2
    assert [each.shape[1] for each in fed(SkipDecoder()).args] == [4, 6]
    mixed = fed(Mixer())
    assert len(mixed.args) == 3
    assert mixed.expression.count("torch.randn") == 3


class Batched(nn.Module):
    """Takes a batch as a loader makes it."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(20, 8)
        self.lstm = nn.LSTM(8, 8, batch_first=True)

    def forward(self, batch):
        tokens, token_lengths, speaker_mask = batch
        packed = nn.utils.rnn.pack_padded_sequence(self.tokens(tokens), token_lengths, batch_first=True)
        return self.lstm(packed)[0].data.sum() * speaker_mask.to(torch.float32)


def test_what_is_unpacked_is_given_what_the_names_tell():
    inferred = fed(Batched())
    tokens, lengths, mask = inferred.args[0]
    assert not tokens.is_floating_point()
    assert lengths.shape == (2,)
    assert mask.dtype is torch.bool
    assert not inferred.failures


class Rebound(nn.Module):
    def forward(self, inputs, other):
        inputs, mask = inputs
        inputs = mask * inputs[..., 0]
        return inputs.sum() + other.sum()


def test_what_is_unpacked_into_its_own_name_is_given_something():
    assert len(fed(Rebound()).args[0]) == 2


class WithLengths(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 8, batch_first=True)

    def forward(self, x, count):
        packed = nn.utils.rnn.pack_padded_sequence(x, count.long().clamp(1, 1), batch_first=True)
        return self.lstm(packed)[0].data


def test_lengths_of_too_many_dimensions_get_one():
    inferred = fed(WithLengths())
    assert len(inferred.args[1].shape) == 1
    assert len(inferred.failures) <= 2


class Prompts(nn.Module):
    """As encoders of prompts, of which each kind may be missing."""

    def __init__(self):
        super().__init__()
        self.place = nn.Linear(3, 8)

    def forward(self, points: tuple[torch.Tensor, torch.Tensor] | None, boxes: torch.Tensor | None):
        coords, labels = points
        if boxes is not None:
            raise NotImplementedError("boxes of " + str(boxes.shape))
        return self.place(coords) * labels[:, None, None]


def test_the_items_of_a_tuple_are_what_they_are_unpacked_into():
    inferred = fed(Prompts())
    coords, labels = inferred.args[0]
    assert coords.shape[-1] == 3
    assert labels.shape == (2,)


def test_what_may_be_none_is_none_where_something_does_not_work():
    assert fed(Prompts()).args[1] is None


class Ranges(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(32, 4)

    def forward(self, n: int, device):
        return self.table(torch.arange(n, device=device))


class Grid(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = nn.Parameter(torch.zeros(4, 8))

    def forward(self, *, flatten=True):
        return self.rows.flatten() if flatten else self.rows


def test_devices_are_devices_and_settings_are_left_alone():
    assert fed(Ranges()).args[1] == torch.device("cpu")
    assert fed(Grid()).recipes == {}


class OfGraphs(nn.Module):
    """Layers that take the nodes alone or a graph, whose nodes they change."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(12, 8)

    def forward(self, batch):
        nodes = self.first(batch) if isinstance(batch, Tensor) else self.first(batch.x)
        batch = nodes if isinstance(batch, Tensor) else batch
        batch.x = nodes
        return batch.x[batch.edge_index[0]]


def test_what_a_layer_leaves_in_an_object_asks_for_one():
    inferred = fed(OfGraphs())
    assert isinstance(inferred.args[0], SimpleNamespace)
    assert inferred.expression.startswith("SimpleNamespace(")


class OfEdges(nn.Module):
    """Rows of nodes and of edges, chosen by lists of them."""

    def __init__(self):
        super().__init__()
        self.of_nodes = nn.Linear(8, 4)
        self.of_edges = nn.Linear(6, 4)

    def forward(self, nodes, edges, i, j, k):
        joined = self.of_nodes(nodes[i] * nodes[j])
        return joined + self.of_edges(edges[k])


def test_what_chooses_rows_is_a_list_of_whole_numbers():
    inferred = fed(OfEdges())
    assert all(len(inferred.recipes[name].shape) == 1 for name in "ijk")
    assert len({inferred.recipes[name].shape for name in "ijk"}) == 1


class WithAShare(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 4)

    def forward(self, x, dropout_prob):
        if dropout_prob > 0:
            x = nn.functional.dropout(x, dropout_prob, self.training)
        return self.first(x)


def test_a_share_is_a_number():
    assert fed(WithAShare()).args[1] == 0.5


class OfHyperedges(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 8))

    def forward(self, x, hyperedge_index):
        x = x @ self.weight
        count = int(hyperedge_index[1].max()) + 1
        return x.new_zeros(count, 8).index_add_(0, hyperedge_index[1], x[hyperedge_index[0]])


def test_what_says_how_nodes_are_joined_may_have_a_longer_name():
    assert len(fed(OfHyperedges()).args[0].shape) == 2


class OfWindows(nn.Module):
    """Takes several series, all as long as its window."""

    def __init__(self, input_chunk_length=48):
        super().__init__()
        self.input_chunk_length = input_chunk_length
        self.of_values = nn.Linear(5, 4)
        self.of_times = nn.Linear(3, 4)
        self.out = nn.Linear(48 * 8, 7)

    def forward(self, values, times):
        batch, _length, _width = values.shape
        _, _, _ = times.shape
        both = torch.cat([self.of_values(values), self.of_times(times)], 2)
        return self.out(both.view(batch, -1))


def test_series_are_as_long_together_as_the_model_says():
    inferred = fed(OfWindows())
    assert [each.shape[1] for each in inferred.args] == [48, 48]
    assert len(inferred.failures) < 4


class WithPlaces(nn.Module):
    """Joins where they are to the colours of pictures, channels last."""

    def __init__(self):
        super().__init__()
        self.first = nn.LayerNorm(7)

    def forward(self, data: Tensor):
        _, height, width, _ = data.shape
        rows, columns = torch.linspace(-1, 1, height), torch.linspace(-1, 1, width)
        places = torch.stack(torch.meshgrid(rows, columns, indexing="ij"), -1).repeat(1, 1, 2)
        return self.first(torch.cat([data, places.expand(len(data), -1, -1, -1)], -1).flatten(1, 2))


def test_what_others_are_joined_to_has_the_rest():
    inferred = fed(WithPlaces())
    assert inferred.args[0].shape[-1] == 3
    assert len(inferred.failures) < 5


class OfBlocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Conv2d(3, 4, 3)
        self.blocks = nn.ModuleList(nn.BatchNorm2d(4) for _ in range(2))

    def forward(self, x, block_index):
        return self.blocks[block_index](self.shared(x))


def test_a_place_in_a_list_is_a_number():
    assert fed(OfBlocks()).args[1] == 0


class OneOfTwo(nn.Module):
    """Takes a picture, which a part turns into features that it has not, or the features."""

    def __init__(self, encoder=None):
        super().__init__()
        self.encoder = encoder
        self.out = nn.Linear(8, 4)

    def forward(self, image=None, image_embed=None):
        assert (image is None) != (image_embed is None), "either image or image_embed must be given"
        if image is not None:
            image_embed = self.encoder.embed_image(image)
        return self.out(image_embed)


def test_of_inputs_that_exclude_each_other_one_is_given_up():
    assert list(fed(OneOfTwo()).recipes) == ["image_embed"]


class ToSize(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x, new_image_size):
        return nn.functional.interpolate(self.first(x), new_image_size)


def test_the_size_of_a_picture_is_no_picture():
    inferred = fed(ToSize())
    assert inferred.args[1] == (224, 224)
    assert not inferred.failures


class Penalty(nn.Module):
    def forward(self, model):
        return sum(each.square().sum() for each in model.parameters())


def test_what_is_looked_into_as_a_module_is_one():
    assert fed(Penalty()).expression == "torch.nn.Linear(8, 8)"


class Matching(nn.Module):
    """As losses of detectors: the targets are a dictionary for each picture."""

    def forward(self, outputs, targets):
        logits, boxes = outputs["pred_logits"], outputs["pred_boxes"]
        batch, queries = logits.shape[:2]
        labels = torch.cat([each["labels"] for each in targets])
        wanted = torch.cat([each["boxes"] for each in targets])
        cost = torch.cdist(boxes.flatten(0, 1), wanted, p=1) - logits.flatten(0, 1).softmax(-1)[:, labels]
        return cost.view(batch, queries, -1)


def test_items_that_are_looked_up_by_keys_are_dictionaries():
    _, targets = fed(Matching(), budget_s=2.0).args
    assert [sorted(each) for each in targets] == [["boxes", "labels"]] * 2
    assert targets[0]["boxes"].shape == (2, 4)


class Distilled(nn.Module):
    def forward(self, student_logits, teacher_logits, labels):
        hard = F.cross_entropy(student_logits, labels)
        return hard + F.kl_div(student_logits.log_softmax(1), teacher_logits.softmax(1), reduction="batchmean")


def test_logits_are_a_number_for_each_class():
    logits, _, labels = fed(Distilled()).args
    assert logits.shape == (2, 10)
    assert labels.shape == (2,)


@dataclass
class Sample:
    picture: Tensor
    tokens: Tensor
    weights: Tensor | None = None

    def weighted(self, table):
        found = table(self.tokens)
        return found if self.weights is None else found * self.weights[..., None]


class Graph(NamedTuple):
    nodes: Tensor
    senders: Tensor
    receivers: Tensor


class OfSamples(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 4)
        self.layer = nn.Conv2d(3, 4, 3)

    def forward(self, sample: Sample, graph: Graph):
        edges = graph.nodes[graph.senders] - graph.nodes[graph.receivers]
        found = self.layer(sample.picture).mean((2, 3)) + sample.weighted(self.table).mean(1)
        return found, graph._replace(nodes=graph.nodes.index_add(0, graph.receivers, edges))


def test_an_object_is_of_the_class_that_the_code_knows():
    sample, graph = fed(OfSamples(), budget_s=2.0).args
    assert isinstance(sample, Sample)
    assert sample.weights is None
    assert isinstance(graph, Graph)


EdgeInfo = namedtuple("EdgeInfo", ["tokens", "weights"])  # noqa: PYI024 — Its fields have no types.


class OfNamed(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 4)

    def forward(self, info: EdgeInfo):
        if not isinstance(info, EdgeInfo):
            raise TypeError("no edges")
        tokens, weights = info
        return self.table(tokens) * weights.mean()


def test_a_tuple_whose_fields_have_names_alone_is_of_its_class():
    (info,) = fed(OfNamed(), budget_s=2.0).args
    assert isinstance(info, EdgeInfo)


class Adversarial(nn.Module):
    """One of what is given says only which of two numbers is meant."""

    def forward(self, prediction, target_is_real, is_generator=False):
        label = 1.0 if target_is_real else 0.0
        loss = (prediction - label).square().mean()
        return loss if is_generator else 0.5 * loss


def test_what_is_only_asked_whether_it_is_true_is_a_flag():
    assert fed(Adversarial()).args[1] is False


class Kept(nn.Module):
    """What is asked whether it is there is a list of tensors."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x, states):
        return self.layer(x) + self.layer(states[0]) if states else self.layer(x)


def test_what_has_items_is_no_flag():
    assert not isinstance(fed(Kept()).args[1], bool)


class Several(Adversarial):
    """Hands what it is given on to what it inherits."""

    def forward(self, predictions, target_is_real, is_generator=False):
        total = super().forward(predictions, target_is_real, is_generator)
        for each in predictions:
            total = total + super().forward(each, target_is_real, is_generator)
        return total


def test_what_an_inherited_method_does_with_an_input_counts():
    inferred = fed(Several())
    assert inferred.args[1] is False
    assert not inferred.failures


class Resized(nn.Module):
    """Asks whether a picture is as large as it is to be."""

    def forward(self, picture: Tensor, target_image_size, original_size: Tensor):
        if picture.shape[-1] == target_image_size:
            return picture
        return F.interpolate(picture, target_image_size) * original_size.prod()


def test_what_is_called_the_size_of_a_picture_is_a_number_or_two():
    _, size, pairs = fed(Resized()).args
    assert type(size) in {int, tuple}
    assert pairs.shape == (2, 2)

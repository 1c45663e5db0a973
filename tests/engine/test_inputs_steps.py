"""Inputs of models that go over their steps one by one: states, tokens of one step, sequences that are long enough."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - torch's own name for it.

from fxengine.inputs.clues import Clues
from fxengine.inputs.probe import probe
from fxengine.inputs.recipes import TensorRecipe
from fxengine.inputs.tuning import Tuning
from tests.support.feeding import fed


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.energy = nn.Linear(24 + 16, 16)
        self.score = nn.Linear(16, 1, bias=False)

    def forward(self, hidden, encoder_outputs):
        hidden = hidden.unsqueeze(1).repeat(1, encoder_outputs.shape[0], 1)
        energy = torch.tanh(self.energy(torch.cat((hidden, encoder_outputs.permute(1, 0, 2)), dim=2)))
        return F.softmax(self.score(energy).squeeze(2), dim=1)


class Decoder(nn.Module):
    """One step of a decoder, as in many a tutorial: time comes first, the state has no dimension for layers."""

    def __init__(self):
        super().__init__()
        self.attention = Attention()
        self.embedding = nn.Embedding(50, 12)
        self.rnn = nn.GRU(24 + 12, 16)
        self.out = nn.Linear(24 + 16 + 12, 50)

    def forward(self, input, hidden, encoder_outputs):  # noqa: A002 - as people call it.
        embedded = self.embedding(input.unsqueeze(0))
        weights = self.attention(hidden, encoder_outputs).unsqueeze(1)
        weighted = torch.bmm(weights, encoder_outputs.permute(1, 0, 2)).permute(1, 0, 2)
        output, hidden = self.rnn(torch.cat((embedded, weighted), dim=2), hidden.unsqueeze(0))
        return self.out(torch.cat((output[0], weighted[0], embedded[0]), dim=1)), hidden.squeeze(0)


def test_a_state_that_gets_its_dimension_of_layers_in_the_model_has_none():
    inferred = fed(Decoder(), budget_s=5.0)
    tokens, hidden, outputs = inferred.args
    assert tokens.dim() == 1
    assert hidden.shape == (tokens.shape[0], 16)
    assert outputs.shape[-1] == 24
    assert len(inferred.failures) < 5


class Translator(nn.Module):
    """Makes a step for each token of the target but the last."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 12)
        self.encoder = nn.LSTM(12, 12, batch_first=True)
        self.cell = nn.LSTMCell(12, 12)
        self.out = nn.Linear(12, 50)

    def forward(self, source, target):
        _, (hidden, cell) = self.encoder(self.embedding(source))
        hidden, cell = hidden[0], cell[0]
        logits = []
        for step in range(target.size(1) - 1):
            hidden, cell = self.cell(self.embedding(target[:, step]), (hidden, cell))
            logits.append(self.out(hidden))
        return torch.stack(logits, 1)


def test_both_sequences_of_a_translator_have_several_steps():
    source, target = fed(Translator()).args
    assert source.shape[1] > 1
    assert target.shape[1] > 2


class Score(nn.Module):
    def forward(self, emissions, tags):
        if emissions.dim() != 3:
            raise ValueError(f"emissions must have dimension of 3, got {emissions.dim()}")
        if emissions.shape[:2] != tags.shape:
            raise ValueError(f"emissions and tags must match, got {tuple(emissions.shape[:2])}, {tuple(tags.shape)}")
        score = emissions[:, 0].gather(1, tags[:, :1])
        for step in range(1, tags.shape[1]):
            score = score + emissions[:, step].gather(1, tags[:, step : step + 1])
        return score.sum()


class Tagger(nn.Module):
    """What it checks of two shapes is about their ranks too."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 12)
        self.rnn = nn.LSTM(12, 8, batch_first=True)
        self.emissions = nn.Linear(8, 5)
        self.score = Score()

    def forward(self, sentence, tags):
        return self.score(self.emissions(self.rnn(self.embedding(sentence))[0]), tags)


def test_of_two_shapes_the_one_that_lacks_a_dimension_gets_it():
    sentence, tags = fed(Tagger()).args
    assert sentence.shape == tags.shape == (2, 16)


class Ended(nn.Module):
    """Runs with one token as with many, and does nothing then."""

    def __init__(self, length):
        super().__init__()
        self.embedding = nn.Embedding(50, 12)
        self.max_len = length

    def forward(self, tokens, words):
        if tokens.shape[1] > self.max_len:
            raise ValueError("too many steps")
        steps = [self.embedding(each) for each in tokens.unbind(1)[1:]]
        return sum(steps, start=self.embedding(words).mean(1))


def test_a_sequence_of_one_step_is_not_kept_where_a_longer_one_fits():
    for length, wanted in ((16, 16), (1, 1)):
        root = Ended(length)
        recipes = {name: TensorRecipe((2, 1), "integers", torch.int64, 50) for name in ("tokens", "words")}

        def tried(changed, root=root):
            outcome = probe(root, changed, 2)
            return outcome if outcome.accepted else None

        clues = Clues(Ended(16))
        found, _ = Tuning(root, clues, 2, tried).longer(recipes, probe(root, recipes, 2))
        assert found["tokens"].shape == (2, wanted)
        assert found["words"].shape == (2, 16)


class ConvolutionalCell(nn.Module):
    def __init__(self):
        super().__init__()
        self.gates = nn.Conv2d(3 + 6, 4 * 6, 3, padding=1)

    def forward(self, x, state):
        hidden, cell = state
        one, two, three, four = self.gates(torch.cat([x, hidden], 1)).chunk(4, 1)
        cell = torch.sigmoid(two) * cell + torch.sigmoid(one) * torch.tanh(four)
        return torch.sigmoid(three) * torch.tanh(cell), cell


class OverFrames(nn.Module):
    """Begins with a state of its own, whose channels are joined to those of each frame."""

    def __init__(self):
        super().__init__()
        self.cell = ConvolutionalCell()

    def forward(self, x):
        batch, frames, _, height, width = x.shape
        state = torch.zeros(batch, 6, height, width), torch.zeros(batch, 6, height, width)
        for frame in range(frames):
            state = self.cell(x[:, frame], state)
        return state[0]


def test_what_the_model_joins_to_an_input_counts():
    assert fed(OverFrames(), budget_s=1.0).args[0].shape[2] == 3


def test_a_state_that_is_unpacked_is_several_tensors():
    _, state = fed(ConvolutionalCell()).args
    assert isinstance(state, tuple)
    assert len(state) == 2


class OfSentence(nn.Module):
    """Has its words in rows of a batch whose size it keeps, as tutorials of one sentence do: the vectors are as long
    as that leaves them.
    """

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(40, 64)
        self.lstm = nn.LSTM(64, 16)
        self.state = torch.zeros(1, 2, 16), torch.zeros(1, 2, 16)

    def forward(self, sentence):
        words = self.words(sentence).view(len(sentence), 2, -1)
        out, self.state = self.lstm(words, self.state)
        return out[-1]


def test_what_is_left_for_each_step_is_what_the_layer_takes():
    assert fed(OfSentence()).args[0].shape[1] == 2

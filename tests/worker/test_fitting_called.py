"""What models hold that is called while they run, as only their running shows."""

import pytest

STEPPING = """
from torch import nn

class Greedy(nn.Module):
    def __init__(self, modules):
        super().__init__()
        self.net, self.other = modules

    def step(self, x):
        found, attention = self.net.decode(x, None)
        return self.other.blend(found, attention)

    def forward(self, x):
        return self.step(x)
"""

PREPARING = """
from torch import nn

class Vocoder(nn.Module):
    def __init__(self, settings=None):
        super().__init__()
        if settings is None or "generator" not in settings:
            raise ValueError("Need settings['generator']")
        self.kept = [settings["generator"]]
        self.is_new = True

    def forward(self, features):
        if self.is_new:
            self.kept[0].remove_weight_norm()
            self.is_new = False
        return features * 2
"""

PARTS = """
from torch import nn

class Reader(nn.Module):
    def __init__(self, parts=None, options=None):
        super().__init__()
        if options is None:
            raise ValueError("options are needed")
        if not isinstance(options, dict):
            raise TypeError("options must be a mapping")
        self.parts = nn.ModuleDict(parts)
        self.options = options

    def forward(self, waves, lengths):
        states = self.parts.encoder(waves, lengths)
        tokens, _, _, weights = self.parts.decoder(states, lengths)
        return tokens * weights
"""


@pytest.mark.parametrize("text", [STEPPING, PREPARING, PARTS], ids=["results", "nothing", "parts"])
def test_what_is_called_is_given_as_it_is_called(worker, model, text):
    (target,) = worker.trace(model(text)).targets
    assert target.inputs is not None
    assert "forward" in target.construct.expression or "lambda" in target.construct.expression
    assert not [each for each in target.problems if each.severity == "error"]


LIBRARY = """
from types import SimpleNamespace

import torch
from torch import nn

class BertConfig:
    def __init__(self, num_hidden_layers=12, hidden_size=32):
        self.num_hidden_layers = num_hidden_layers
        self.hidden_size = hidden_size
        self.vocab_size = 100

class PreTrainedModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        if not isinstance(config, BertConfig):
            raise TypeError("Parameter config should be an instance of class `BertConfig`")
        self.config = config

class BertModel(PreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embeddings = nn.Embedding(config.vocab_size, config.hidden_size)

    def forward(self, input_ids, attention_mask=None, return_dict=None):
        return SimpleNamespace(last_hidden_state=self.embeddings(input_ids))

class BertForMaskedLM(BertModel):
    def forward(self, input_ids, attention_mask=None, return_dict=None):
        return SimpleNamespace(logits=self.embeddings(input_ids) @ self.embeddings.weight.T)
"""

ENCODING = """
from torch import nn
from transformers import PreTrainedModel

class Encoding(nn.Module):
    def __init__(self, base_model):
        super().__init__()
        self.model = base_model

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, return_dict=True).last_hidden_state[:, 0]
"""

RANKING = """
from torch import nn
from transformers import PreTrainedModel

class Ranking(nn.Module):
    def __init__(self, model: PreTrainedModel):
        super().__init__()
        self.model = model
        self.width = model.config.hidden_size

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask).logits[:, -1]
"""


@pytest.mark.usefixtures("imports_undone")
@pytest.mark.parametrize(
    ("text", "made"), [(ENCODING, "transformers.BertModel"), (RANKING, "transformers.BertForMaskedLM")]
)
def test_what_is_called_as_a_model_of_language_is_one(worker, model, text, made):
    model(LIBRARY, "transformers.py")
    (target,) = worker.trace(model(text)).targets
    assert made in target.construct.expression
    assert target.inputs is not None


HOLDING = """
from torch import nn

class Holding(nn.Module):
    def __init__(self, modules):
        super().__init__()
        self.net, self.head = modules

    def forward(self, states):
        found = self.net.decode(states, None)
        return self.head(found) * 2
"""


def test_what_runs_is_not_said_to_be_unbuilt_since_what_was_made_up_is_in_no_module(worker, model):
    (target,) = worker.trace(model(HOLDING)).targets
    assert target.inputs is not None
    assert target.problems == ()

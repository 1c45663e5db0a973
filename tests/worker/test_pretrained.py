"""Models that a library would fetch by name are made from a configuration, with the real libraries."""

import pytest

from tests.worker.harness import of

pytestmark = pytest.mark.corpus

CLASSIFIERS = """
from torch import nn
from transformers import AutoModel, BertModel, CLIPVisionModel


class Classifier(nn.Module):
    def __init__(self, name="bert-base-uncased", classes=2):
        super().__init__()
        self.bert = AutoModel.from_pretrained(name)
        self.out = nn.Linear(self.bert.config.hidden_size, classes)

    def forward(self, input_ids, attention_mask):
        return self.out(self.bert(input_ids=input_ids, attention_mask=attention_mask).pooler_output)


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.bert = BertModel.from_pretrained("somebody/my-own", num_hidden_layers=3, add_pooling_layer=False)
        self.layers = len(self.bert.encoder.layer)

    def forward(self, x):
        return x * self.layers


class Seen(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower = CLIPVisionModel.from_pretrained("openai/clip-vit-base-patch32")

    def forward(self, x):
        return x * self.tower.config.hidden_size


class Unknown(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = AutoModel.from_pretrained("somebody/something")

    def forward(self, x):
        return self.model(x)
"""

PAINTER = """
from diffusers import AutoencoderKL
from torch import nn


class Painter(nn.Module):
    def __init__(self):
        super().__init__()
        self.vae = AutoencoderKL.from_pretrained("somebody/painter", subfolder="vae")

    def forward(self, x):
        return x * self.vae.config.latent_channels
"""


def test_transformers_are_made(library_worker, model):
    report = library_worker.trace(model(CLASSIFIERS))
    assert of(report, "Classifier").construct.expression == "Classifier()"
    assert "x * 3" in of(report, "Plain").code
    assert "768" in of(report, "Seen").code
    assert of(report, "Unknown").status == "not traced"
    assert "huggingface.co" in of(report, "Unknown").problems[0].message


def test_diffusers_are_made(library_worker, model):
    assert "4" in of(library_worker.trace(model(PAINTER)), "Painter").code


PREPARED = """
from torch import nn
from transformers import CLIPImageProcessor, CLIPVisionModel, Wav2Vec2FeatureExtractor


class Tower(nn.Module):
    def __init__(self, name="openai/clip-vit-base-patch32"):
        super().__init__()
        self.processor = CLIPImageProcessor.from_pretrained(name)
        self.sounds = Wav2Vec2FeatureExtractor.from_pretrained("somebody/wav2vec2")
        self.size = len(self.processor.image_mean)

    def forward(self, x):
        return x * self.size * self.sounds.feature_size
"""


def test_what_prepares_inputs_is_made(library_worker, model):
    assert "x * 3" in of(library_worker.trace(model(PREPARED)), "Tower").code

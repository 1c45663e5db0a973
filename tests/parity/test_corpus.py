"""The engine beside torch.fx on real models: same verdict, same nodes, same code, same failure at the same line."""

import importlib
from collections.abc import Callable

import pytest
import torch
from torch import nn

from tests.parity.corpus_models import models
from tests.support import corpus
from tests.support.parity import Case, differences

pytestmark = pytest.mark.corpus

MODELS = list(models())


@pytest.mark.parametrize(("name", "build"), MODELS, ids=[name for name, _ in MODELS])
def test_same_outcome(name: str, build: Callable[[], nn.Module]) -> None:
    assert differences(Case(name, build)) == []


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small", "shufflenet_v2_x0_5", "squeezenet1_1"])
def test_same_numbers(name: str) -> None:
    corpus.prepare()
    library = importlib.import_module("torchvision.models")

    def inputs() -> tuple[torch.Tensor]:
        return (torch.linspace(-1, 1, 3 * 64 * 64).reshape(1, 3, 64, 64),)

    assert differences(Case(name, lambda: library.get_model(name, weights=None).eval(), inputs)) == []

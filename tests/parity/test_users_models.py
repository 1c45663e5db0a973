"""What people do to real models with torch.fx: taking features out of them, quantizing them, on both engines."""

import copy
import importlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.ao.quantization.quantize_fx
from torch.ao import quantization

from tests.support import corpus
from tests.support.parity import attempt
from tests.support.transplant import Transplant

pytestmark = pytest.mark.corpus

USERS = (
    "timm.layers._fx",
    "timm.models._features_fx",
    "torch.ao.quantization.fx",
    "torch.ao.quantization.quantize_fx",
    "torchvision.models.feature_extraction",
)
NO_PRETRAINED_PARTS = {"googlenet": {"init_weights": False}, "deeplabv3_resnet50": {"weights_backbone": None}}


@pytest.fixture(scope="module")
def transplant() -> Iterator[Transplant]:
    corpus.prepare()
    transplant = Transplant(*USERS, keep=("torch.ao.quantization.fx._decomposed",))
    yield transplant
    transplant.forget()


def compare(case: Callable[..., Any], transplant: Transplant, *args: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = attempt(case, importlib.import_module, *args)
        actual = attempt(case, transplant.load, *args)
    assert not isinstance(expected, str), expected
    assert actual == expected
    assert not transplant.missing


def vision_model(name: str) -> Any:
    torch.manual_seed(0)
    options = NO_PRETRAINED_PARTS.get(name, {})
    return importlib.import_module("torchvision.models").get_model(name, weights=None, **options).eval()


def image(size: int = 64) -> torch.Tensor:
    return torch.linspace(-1, 1, 3 * size * size).reshape(1, 3, size, size)


def features(load: Callable[[str], Any], name: str) -> Any:
    module = load("torchvision.models.feature_extraction")
    model = vision_model(name)
    training, evaluation = module.get_graph_node_names(model)
    wanted = [evaluation[len(evaluation) // 2], evaluation[-1]]
    extractor = module.create_feature_extractor(copy.deepcopy(model), wanted)
    both = module.create_feature_extractor(model, train_return_nodes=training[-1:], eval_return_nodes=wanted)
    outputs = extractor(image())
    return training, evaluation, extractor, both.train(), both.eval(), copy.deepcopy(both), outputs


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small", "swin_t", "deeplabv3_resnet50"])
def test_features_of_torchvisions_models(name: str, transplant: Transplant) -> None:
    compare(features, transplant, name)


def features_by_timm(load: Callable[[str], Any], name: str) -> Any:
    module = load("timm.models._features_fx")
    torch.manual_seed(0)
    model = importlib.import_module("timm").create_model(name).eval()
    by_index = module.FeatureGraphNet(copy.deepcopy(model), out_indices=(1, 2))
    by_name = module.GraphExtractNet(model, [info["module"] for info in model.feature_info[:2]])
    return by_index.graph_module, by_index(image(224)), by_name.graph_module


@pytest.mark.parametrize("name", ["resnet10t", "mobilenetv3_small_050", "vit_tiny_patch16_224"])
def test_features_of_timms_models(name: str, transplant: Transplant) -> None:
    compare(features_by_timm, transplant, name)


def quantized(load: Callable[[str], Any], name: str) -> Any:
    module = load("torch.ao.quantization.quantize_fx")
    x = image(32)
    prepared = module.prepare_fx(vision_model(name), quantization.get_default_qconfig_mapping(), (x,))
    prepared(x)
    converted = module.convert_fx(copy.deepcopy(prepared))
    return prepared, converted, converted(x)


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "squeezenet1_1"])
def test_models_quantized_after_training(name: str, transplant: Transplant) -> None:
    compare(quantized, transplant, name)


def quantized_in_training(load: Callable[[str], Any], name: str) -> Any:
    module = load("torch.ao.quantization.quantize_fx")
    x = image(32).expand(2, -1, -1, -1)
    mapping = quantization.get_default_qat_qconfig_mapping()
    prepared = module.prepare_qat_fx(vision_model(name).train(), mapping, (x,))
    prepared(x).sum().backward()
    return prepared, module.convert_fx(copy.deepcopy(prepared).eval())


def test_a_model_quantized_in_training(transplant: Transplant) -> None:
    compare(quantized_in_training, transplant, "resnet18")

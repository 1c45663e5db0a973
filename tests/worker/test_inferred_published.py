"""Arguments of models as people publish them, with what their files have besides: values, texts, missing packages."""

import dataclasses
import enum
import importlib
from collections.abc import Mapping
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from fxworker.arguments import Search
from fxworker.building import attempt


class Streams(nn.Module):
    def __init__(self, width, kind=None):
        super().__init__()
        self.rates = [each.item() for each in torch.linspace(0, 0.1, 2)]
        self.alpha = nn.Parameter(torch.cat((torch.zeros(4, 1), torch.eye(4)), dim=1))
        self.fc = nn.Linear(width, width)
        if kind not in {"soft", "hard"}:
            raise ValueError("kind must be 'soft' or 'hard'")


class Valued(nn.Module):
    def __init__(self, width, kind=None):
        super().__init__()
        self.offset = int(torch.randint(4, (1,)).item())
        if kind not in {"soft", "hard"}:
            raise ValueError("kind must be 'soft' or 'hard'")
        self.fc = nn.Linear(width, width)


class Kernels(nn.Module):
    def __init__(self, args):
        super().__init__()
        sizes = list(map(int, args.kernel_sizes.split(",")))
        self.convs = nn.ModuleList(nn.Conv1d(args.width, args.width, size) for size in sizes)


class Fetched(nn.Module):
    def __init__(self, width: int = 4):
        super().__init__()
        raise ModuleNotFoundError("No module named 'package_of_nobody'", name="package_of_nobody")


class Own(nn.Module):
    def __init__(self, width: int = 4):
        super().__init__()
        self.fc = nn.Linear(width, 2)


class Probe(nn.Module):
    def __init__(self, backbone: Fetched | Own):
        super().__init__()
        self.backbone = backbone


class Sized(nn.Module):
    def __init__(self, input_size):
        super().__init__()
        self.input_size = input_size
        self.fc = nn.Linear(self.count(), 4)
        self.mask = torch.eye(input_size)

    def count(self):
        if isinstance(self.input_size, int):
            return self.input_size
        product = 1
        for each in self.input_size:
            product *= each
        return product


class Solid(nn.Module):
    def __init__(self, kernel_size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, kernel_size[0], kernel_size[1], kernel_size[2]))


class Factors(nn.Module):
    def __init__(self, n_factors: int):
        super().__init__()
        self.embedding = nn.Embedding(10, n_factors)


class Weighed(nn.Module):
    def __init__(self, criterion: nn.Module):
        super().__init__()
        self.criterion = criterion
        if self.criterion.weight is None:
            self.criterion.weight = torch.ones(4)

    def forward(self, x, target):
        return self.criterion.forward(x, target)


@dataclasses.dataclass
class Settings(Mapping):
    reduction: int
    kernel: int

    def __getitem__(self, key):
        return getattr(self, key)

    def __iter__(self):
        return iter(("reduction", "kernel"))

    def __len__(self):
        return 2


class Adapter(nn.Module):
    def __init__(self, config: Settings):
        super().__init__()
        self.fc = nn.Linear(4 * config["reduction"], config["kernel"])


KINDS = enum.Enum("Kind", ["SOFT", "HARD"])  # Nothing leads to it by the name that it has.


class Masked(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.chunked = cfg.mask_type == "chunk"
        self.fc = nn.Linear(cfg.feature_dim, 2)


class Words(nn.Module):
    def __init__(self, width: int, vocab_size: int = -1):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, width)


@pytest.mark.parametrize(
    ("cls", "expression"),
    [
        (Streams, "Streams(width=64, kind='soft')"),
        (Valued, "Valued(width=64, kind='soft')"),
        (Kernels, "Kernels(args=SimpleNamespace(kernel_sizes='4', width=64))"),
        (Words, "Words(width=64, vocab_size=1000)"),
        (Masked, "Masked(cfg=SimpleNamespace(mask_type='chunk', feature_dim=64))"),
        (Probe, "Probe(backbone=Own())"),
        (Sized, "Sized(input_size=32)"),
        (Solid, "Solid(kernel_size=(3, 3, 3))"),
        (Factors, "Factors(n_factors=64)"),
        (Weighed, "Weighed(criterion=type('Module', (torch.nn.Identity,), {'weight': None})())"),
        (Adapter, "Adapter(config=Settings(reduction=2, kernel=3))"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_they_are_found(cls, expression):
    search = Search(cls.__name__, cls, {**globals(), "SimpleNamespace": SimpleNamespace}, partial(attempt, real=False))
    result = search.run()
    assert result is not None, (search.tried, search.error)
    assert result[0] == expression


def test_what_is_computed_of_values_and_of_none_has_none():
    model = attempt(lambda: Streams(8, "soft"), real=False)
    assert (model.alpha.shape, model.alpha.is_meta) == ((4, 5), True)
    assert len(model.rates) == 2


def made_by_another(width):
    return nn.Linear(width, name_of_nobody)  # noqa: F821 — What is to be found out.


def test_a_function_that_lacks_a_name_is_called_once():
    scope = {**globals(), "SimpleNamespace": SimpleNamespace}
    search = Search("made_by_another", made_by_another, scope, partial(attempt, real=False))
    assert search.run() is None
    assert search.trials == 1


@pytest.mark.usefixtures("imports_undone")
def test_what_the_package_has_that_the_file_names_is_reached_through_it(tmp_path):
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").write_text("import shop.parts\n")
    (tmp_path / "shop" / "parts.py").write_text(
        "from torch import nn\n"
        "class Part(nn.Module):\n    pass\n"
        "class Wheel(Part):\n    def forward(self, x): return x\n"
    )
    text = (
        "import shop\nfrom torch import nn\n"
        "class Wrapper(nn.Module):\n"
        "    def __init__(self, part: nn.Module):\n        super().__init__()\n"
        "        if not isinstance(part, shop.parts.Part):\n            raise ValueError(part)\n"
        "        self.part = part\n"
    )
    (tmp_path / "assembling.py").write_text(text)
    scope = vars(importlib.import_module("assembling"))
    result = Search("Wrapper", scope["Wrapper"], scope, attempt).run()
    assert result is not None
    assert result[0] == "Wrapper(part=shop.parts.Wheel())"
    assert Search("Wrapper", scope["Wrapper"], {**scope, "shop": 3}, attempt).run() is None


@pytest.mark.usefixtures("imports_undone")
def test_what_is_annotated_with_a_class_of_modules_is_no_number(tmp_path):
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").write_text("from torch import nn\nclass Part(nn.Module):\n    pass\n")
    (tmp_path / "shop" / "parts.py").write_text(
        "from shop import Part\nclass Wheel(Part):\n    def forward(self, x): return x\n"
    )
    (tmp_path / "assembling.py").write_text(
        "import shop.parts as parts\nfrom shop import Part\nfrom torch import nn\n"
        "class Wrapper(nn.Module):\n"
        "    def __init__(self, transformer_layers: Part):\n        super().__init__()\n"
        "        self.layers = transformer_layers\n"
    )
    scope = vars(importlib.import_module("assembling"))
    result = Search("Wrapper", scope["Wrapper"], scope, attempt).run()
    assert result is not None
    assert result[0] == "Wrapper(transformer_layers=shop.parts.Wheel())"


@pytest.mark.usefixtures("imports_undone")
def test_another_model_of_a_package_is_taken_if_the_first_lacks_something(tmp_path):
    (tmp_path / "zoo").mkdir()
    cats = [f"cat{at}" for at in range(12)]
    (tmp_path / "zoo" / "__init__.py").write_text("from zoo.cats import *\nfrom zoo.dogs import *\n")
    for kind, layer, makers in (("Cat", "claws", cats), ("Dog", "nose", ["collie", "dog"])):
        (tmp_path / "zoo" / f"{kind.lower()}s.py").write_text(
            f"from torch import nn\nclass {kind}(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            f"        self.{layer} = nn.Linear(4, 4)\n"
            + "".join(f"def {each}() -> {kind}:\n    return {kind}()\n" for each in makers)
        )
    (tmp_path / "sniffing.py").write_text(
        "import zoo\nfrom torch import nn\n"
        "class Sniffing(nn.Module):\n"
        "    def __init__(self, pet):\n        super().__init__()\n"
        "        self.nose = zoo.__dict__[pet]().nose\n"
    )
    scope = vars(importlib.import_module("sniffing"))
    result = Search("Sniffing", scope["Sniffing"], scope, attempt).run()
    assert result is not None
    assert result[0] == "Sniffing(pet='collie')"

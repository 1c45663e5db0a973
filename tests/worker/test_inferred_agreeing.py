"""Arguments that have to agree with each other, or with what only the code around a class says."""

import abc
import importlib
import sys
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from fxworker.arguments import Search
from fxworker.building import attempt
from fxworker.importing import importing
from fxworker.usage import usage_of


class Stage(nn.Module):
    def __init__(self, dim, refines=False):
        super().__init__()
        self.refines = refines
        self.scale = dim / 2 - 1
        self.conv = nn.Conv2d(3, dim, 3)
        self.mix = nn.Linear(dim, dim)
        self.first = dim[0] if isinstance(dim, tuple) else dim

    def used_for(self, other):
        """Return a stage that is used as another one is."""
        return self if other is None else type(self)(**other)


class Cascade(nn.Module):
    def __init__(self, stages, sizes):
        super().__init__()
        self.stages = nn.ModuleList([])
        for each in stages:
            assert isinstance(each, Stage)
            self.stages.append(each.used_for(None))
        count = len(self.stages)
        if count != len(sizes):
            raise ValueError(f"there are {count} stages for {len(sizes)}")
        refining = tuple(each.refines for each in self.stages)
        assert refining == (False, *(True,) * (count - 1)), "the first makes what the others refine"
        self.sizes = sizes


class Coder(nn.Module):
    """What halves of a model have in common: nothing that runs."""

    def __init__(self, width=4):
        super().__init__()
        self.width = width


class Halving(Coder):
    def forward(self, x):
        return x[..., : self.width]


class Doubling(Coder):
    def forward(self, x):
        return x.repeat_interleave(2, -1)


class EncoderDecoder(nn.Module):
    def __init__(self, encoder: Coder, decoder: Coder):
        super().__init__()
        assert isinstance(encoder, Coder)
        assert isinstance(decoder, Coder)
        if encoder.width != decoder.width:
            raise ValueError("the halves do not fit")
        self.encoder, self.decoder = encoder, decoder

    def forward(self, x):
        return self.decoder(self.encoder(x))


class Trained(nn.Module):
    def __init__(self, model: EncoderDecoder, rate=0.1):
        super().__init__()
        self.model, self.rate = model, rate


class Historic(nn.Module):
    def __init__(self, dataset, device="cpu"):
        super().__init__()
        items, self.weights, self.lengths = dataset.history()
        self.items = items.to(device)
        self.weights = self.weights.to(device)


class Moved(nn.Module):
    def __init__(self, num_codes):
        super().__init__()
        self.codes = num_codes.to("cpu")


class Output:
    @property
    @abc.abstractmethod
    def sizes(self):
        """Of what it is made: nothing, but for the classes that inherit this."""
        return {}


class Gaussian(Output):
    @property
    def sizes(self):
        return {"mean": 1, "scale": 2}


class Projected(nn.Module):
    def __init__(self, output: Output, width: int):
        super().__init__()
        self.heads = nn.ModuleDict({key: nn.Linear(width, each * 2) for key, each in output.sizes.items()})


class Transitions(nn.Module):
    def __init__(self, vocabulary, num_tags):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(num_tags, num_tags))
        self.table.detach()[vocabulary.get_index_of("<s>"), :] = -1.0
        self.table.detach()[:, vocabulary.get_index_of("</s>")] = -1.0


def expression_for(cls, scope):
    scope = {**scope, "SimpleNamespace": SimpleNamespace}
    search = Search(cls.__name__, cls, scope, partial(attempt, real=False))
    found = search.run()
    assert found is not None, (search.tried, search.error)
    return found[0]


@pytest.mark.parametrize(
    ("cls", "expression"),
    [
        (Stage, "Stage(dim=64)"),
        (Moved, "Moved(num_codes=torch.ones(64))"),
        (
            Historic,
            "Historic(dataset=SimpleNamespace(history=lambda *_, **__: [torch.ones(64, 64), torch.ones(64, 64), 2]))",
        ),
        (Projected, "Projected(output=Gaussian(), width=64)"),
        (
            Transitions,
            "Transitions(vocabulary=SimpleNamespace(get_index_of=lambda *_, **__: 0), num_tags=2)",
        ),
        (Cascade, "Cascade(stages=[Stage(dim=64)], sizes=[64])"),
    ],
)
def test_they_are_found(cls, expression):
    assert expression_for(cls, globals()) == expression


@pytest.mark.usefixtures("imports_undone")
def test_a_space_of_a_package_that_is_not_installed_is_one_of_its_kind(tmp_path, monkeypatch):
    (tmp_path / "agents.py").write_text(
        "import gymnasium as gym\nfrom gymnasium.spaces import Box, Discrete, MultiBinary\nfrom torch import nn\n"
        "class Agent(nn.Module):\n"
        "    def __init__(self, action_space: gym.Space):\n"
        "        super().__init__()\n"
        "        if isinstance(action_space, Discrete | MultiBinary):\n"
        "            raise TypeError('actions are continuous')\n"
        "        if not isinstance(action_space, MultiBinary | Box):\n"
        "            raise TypeError(f'no space: {action_space}')\n"
        "        self.fc = nn.Linear(4, action_space.shape[0])\n"
        "class Chooser(nn.Module):\n"
        "    def __init__(self, choices: Discrete):\n"
        "        super().__init__()\n"
        "        self.first = int(choices.start)\n"
        "        self.fc = nn.Linear(4, choices.n)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    importing(lambda: importlib.import_module("agents"))
    module = sys.modules["agents"]
    agent = expression_for(module.Agent, vars(module))
    assert agent.startswith("Agent(action_space=type('Box', (SimpleNamespace,), {})(shape=(4,)")
    assert "(shape=(), n=4, start=0" in expression_for(module.Chooser, vars(module))


def test_what_layers_take_is_a_number_whatever_else_is_asked_of_it():
    assert usage_of(Stage)["dim"].kind == "number"


def test_nothing_is_a_part_of_its_own_kind_and_what_only_has_heirs_is_given_by_them():
    # The file names the whole and not the halves, and the whole is called as these are.
    scope = {"Trained": Trained, "EncoderDecoder": EncoderDecoder}
    halves = f"encoder={__name__}.Doubling(), decoder={__name__}.Doubling()"
    search = Search("Trained", Trained, {**scope, "SimpleNamespace": SimpleNamespace}, partial(attempt, real=False))
    assert search.run()[0] == f"Trained(model=EncoderDecoder({halves}))"
    assert search.trials < 9


class Narrowing(nn.Module):
    def __init__(self, channels, multipliers, factors, num_blocks):
        super().__init__()
        self.num_layers = len(multipliers) - 1
        assert (len(factors), len(num_blocks)) == (self.num_layers, self.num_layers)
        widths = [channels * each for each in multipliers]
        pairs = zip(widths, widths[1:], factors, strict=False)
        self.layers = nn.ModuleList([nn.Conv1d(inner, outer, factor, factor) for inner, outer, factor in pairs])


def test_between_layers_there_is_one_less_than_there_are_layers():
    built = eval(expression_for(Narrowing, globals()))
    assert len(built.layers) == built.num_layers == 2


class Learned(abc.ABC, nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    @abc.abstractmethod
    def score(self, x):
        """Return how good it is."""


class Ranked(nn.Module):
    def __init__(self, parts):
        super().__init__()
        self.model = parts["model"]
        self.width = self.model.config.width


def test_what_is_abstract_stands_for_no_part():
    assert "Learned" not in expression_for(Ranked, {"Learned": Learned, "Ranked": Ranked})

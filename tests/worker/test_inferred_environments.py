"""What models of agents take, and models that are made by a name: spaces, arrays, named configurations."""

import importlib
import sys
from functools import partial
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from fxworker.absences import ABSENCES
from fxworker.arguments import Search
from fxworker.building import attempt
from fxworker.choices import OPTIONS
from fxworker.importing import StandIns, importing


class Images(nn.Module):
    def __init__(self, observation_space, features=8):
        super().__init__()
        self.cnn = nn.Sequential(nn.Conv2d(observation_space.shape[0], features, 3, 2), nn.Flatten())
        with torch.no_grad():
            width = self.cnn(torch.as_tensor(observation_space.sample()[None]).float()).shape[1]
        self.fc = nn.Linear(width, features)


class Several(nn.Module):
    def __init__(self, observation_space):
        super().__init__()
        parts = {key: nn.Linear(int(np.prod(each.shape)), 4) for key, each in observation_space.spaces.items()}
        if not parts:
            raise ValueError("nothing is observed")
        self.parts = nn.ModuleDict(parts)


class OfFunctions(nn.Module):
    def __init__(self, input_space, output_space):
        super().__init__()
        self.fc = nn.Linear(input_space.dim, output_space.dim)


class Limited(nn.Module):
    def __init__(self, limits):
        super().__init__()
        self.first = float(limits[0])
        self.register_buffer("scale", (limits - 1) / 2)


class Expanded(nn.Module):
    def __init__(self, grid):
        super().__init__()
        self.register_buffer("grid", grid[None, :])


class Named:
    """What is made by a name, which it keeps."""

    widths: ClassVar[dict[str, int]] = {"bert-base-uncased": 8}

    def __init__(self, name):
        self.name = name
        if name in self.widths:
            self.hidden_units = self.widths[name]


class OfName(nn.Module):
    def __init__(self, model_name, width=4, depth=2, heads=2):
        super().__init__()
        settings = Named(model_name)
        self.fc = nn.Linear(settings.hidden_units, width * depth * heads)


def described(config):
    """Return what is told of a configuration, which may have a section of its own."""
    inner = getattr(config, INNER, None)
    if inner is not None and not isinstance(inner, Named):
        raise ValueError(f"Unrecognized configuration class {type(inner)} for this kind of model.")
    return getattr(config, "_private") or "none"  # noqa: B009 — Nobody reads it by its name alone.


class Weighted(nn.Module):
    def __init__(self, graph, sort):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(graph.edge_total(), sort))


class Tasked(nn.Module):
    def __init__(self, tasks: list[str], width=4):
        super().__init__()
        if "match" not in tasks and "caption" not in tasks:
            raise AssertionError("no task is known")
        self.heads = nn.ModuleDict({each: nn.Linear(width, 2) for each in tasks})


class MadeElsewhere:
    def __init__(self):
        raise OSError("It is made in other ways.")


class NetConfig(MadeElsewhere):
    pass


class Configured(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config


class Attributed(nn.Module):
    def __init__(self, config):
        super().__init__()
        section = config["section"]
        self.fc = nn.Linear(getattr(section, WIDTH), section["depth"])


WIDTH = "wid" + "th"
INNER = "inner_" + "config"


class Sectioned(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.fc = nn.Linear(config.width, 2)
        if config.inner_config is not None:
            self.size = config.inner_config.size
        self.told = described(config).upper()


@pytest.mark.parametrize(
    ("cls", "expression"),
    [
        (Limited, "Limited(limits=torch.ones(64))"),
        (Expanded, "Expanded(grid=torch.ones(64))"),
        (Weighted, "Weighted(graph=SimpleNamespace(edge_total=lambda *_, **__: 64), sort=64)"),
        (Tasked, "Tasked(tasks=['match', 'caption'])"),
        (Configured, "Configured(config=SimpleNamespace())"),
        (
            Attributed,
            f"Attributed(config={{'section': {OPTIONS}({{'depth': 2, 'width': 64}})}})",
        ),
        (OfName, "OfName(model_name='bert-base-uncased')"),
        (Sectioned, "Sectioned(config=SimpleNamespace(width=64, inner_config=None, _private=None))"),
    ],
)
def test_they_are_found(cls, expression):
    search = Search(cls.__name__, cls, {"SimpleNamespace": SimpleNamespace, **globals()}, partial(attempt, real=False))
    found = search.run()
    assert found is not None, (search.tried, search.error)
    assert found[0] == expression


def test_spaces_have_what_is_asked_of_them():
    for cls in (Images, Several):
        scope = {"SimpleNamespace": SimpleNamespace, **globals()}
        search = Search(cls.__name__, cls, scope, partial(attempt, real=False))
        assert search.run() is not None, (search.tried, search.error)


def test_what_an_absent_function_gives_is_computed_with(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(torch.jit, "script", torch.jit.script)
    (tmp_path / "agent_file.py").write_text(
        "import torch\nfrom no_such_thing import flattened, num_classes\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self, space=4):\n        super().__init__()\n"
        "        total = 0\n        total += flattened(space)\n"
        "        if flattened(space) > 3:\n            total = 2 * num_classes(space) + total // 2\n"
        "        self.fc = torch.nn.Linear(total, 2)\n        self.head = flattened(space)\n"
        "    def forward(self, x): return self.fc(x) + self.head\n"
    )
    importing(lambda: importlib.import_module("agent_file"))
    try:
        net = sys.modules["agent_file"].Net()
        assert net.fc.in_features == 52
        with pytest.raises(TypeError):
            net(torch.ones(1, 52))
    finally:
        ABSENCES.names.clear()
        sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, StandIns)]
        for name in ("agent_file", "no_such_thing"):
            sys.modules.pop(name, None)


def test_what_is_looked_up_in_an_absent_container_is_in_it(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(torch.jit, "script", torch.jit.script)
    (tmp_path / "observing_file.py").write_text(
        "import torch\nfrom no_such_dict import TensorDict\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self, obs: TensorDict, names: list[str]):\n        super().__init__()\n"
        "        self.fc = torch.nn.Linear(sum(obs[each].shape[-1] for each in names), 2)\n"
    )
    importing(lambda: importlib.import_module("observing_file"))
    try:
        module = sys.modules["observing_file"]
        search = Search("Net", module.Net, vars(module), partial(attempt, real=False))
        expression, _ = search.run()
        assert expression.startswith("Net(obs=TensorDict({'a': torch.ones(64, 64), 'b': torch.ones(64, 64)})")
    finally:
        ABSENCES.names.clear()
        sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, StandIns)]
        for name in ("observing_file", "no_such_dict"):
            sys.modules.pop(name, None)


def test_spaces_of_functions_are_none_of_environments():
    scope = {"OfFunctions": OfFunctions, "SimpleNamespace": SimpleNamespace}
    search = Search("OfFunctions", OfFunctions, scope, attempt)
    expression, root = search.run()
    assert (root.fc.in_features, root.fc.out_features) == (64, 64)
    assert "Box" not in expression


class OnDevices(nn.Module):
    def __init__(self, width, use_cuda, use_fp16_backbone, use_norm):
        super().__init__()
        self.fc = nn.Linear(width, width)
        self.table = torch.ones(width)
        self.table = self.table.cuda() if use_cuda else self.table
        self.kind = torch.float16 if use_fp16_backbone else torch.float32
        self.norm = nn.LayerNorm(width) if use_norm else nn.Identity()


def test_devices_and_small_numbers_are_asked_for_by_those_who_have_them():
    scope = {"OnDevices": OnDevices}
    expression, root = Search("OnDevices", OnDevices, scope, attempt).run()
    assert "use_cuda=False" in expression
    assert root.kind is torch.float32
    assert isinstance(root.norm, nn.LayerNorm)


class OverSteps(nn.Module):
    def __init__(self, width, rnn_class="lstm"):
        super().__init__()
        self.rnn = rnn_class(width, width, batch_first=True)

    def forward(self, x):
        found, _ = self.rnn(x)
        return found


def test_classes_of_recurrent_layers_are_such():
    _, root = Search("OverSteps", OverSteps, {"OverSteps": OverSteps}, attempt).run()
    assert isinstance(root.rnn, nn.LSTM)

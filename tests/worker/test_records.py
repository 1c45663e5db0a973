"""Configurations and records of packages that are not installed, which are data all the same."""

import importlib
import inspect
import sys
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from fxworker.absent import is_stand_in
from fxworker.arguments import Search
from fxworker.building import attempt
from fxworker.importing import importing

pytestmark = pytest.mark.usefixtures("imports_undone")


def imported(tmp_path, text):
    (tmp_path / "project_file.py").write_text(text)
    importing(lambda: importlib.import_module("project_file"))
    return sys.modules["project_file"]


def test_a_configuration_keeps_what_is_put_into_it(tmp_path):
    module = imported(
        tmp_path,
        "import no_such_thing\nfrom no_such_thing.config import CfgNode as CN\n"
        "def small():\n"
        "    config = no_such_thing.ConfigDict()\n    config.width = 8\n"
        "    config.inner = no_such_thing.ConfigDict({'depth': 2, 'sizes': {'patch': 4}})\n"
        "    config.inner.heads = 4\n    config.inner.sizes.window = 7\n    return config\n"
        "SMALL = small()\n"
        "_C = CN()\n_C.MODEL = CN()\n_C.MODEL.DIM = 3\n_C.freeze()\n"
        "def fresh():\n    found = _C.clone()\n    found.merge_from_file('x.yaml')\n    found.MODEL.DIM += 1\n"
        "    return found\n",
    )
    assert module.SMALL == {"width": 8, "inner": {"depth": 2, "sizes": {"patch": 4, "window": 7}, "heads": 4}}
    assert module.small().inner["heads"] == 4  # Also when nothing is imported any more.
    assert (module.fresh().MODEL.DIM, module._C.MODEL.DIM) == (4, 3)
    with pytest.raises(AttributeError, match="height"):
        _ = module.SMALL.height


def test_a_configuration_is_made_of_keys_with_their_values(tmp_path):
    module = imported(
        tmp_path,
        "from no_such_thing import PlainDict\n"
        "KEPT = PlainDict((each, len(each)) for each in ('a', 'bc'))\nKEPT['d'] = PlainDict([('e', 1)])\n",
    )
    assert module.KEPT == {"a": 1, "bc": 2, "d": {"e": 1}}


def test_what_is_given_to_a_configuration_comes_before_its_defaults(tmp_path):
    module = imported(
        tmp_path,
        "from no_such_thing import HParams, Tables\n"
        "DEFAULTS = {'width': 4, 'inner': {'depth': 2, 'heads': 1}}\n"
        "USUAL, WIDE = HParams(None, DEFAULTS), HParams({'width': 8, 'inner': {'heads': 3}}, DEFAULTS)\n"
        "OTHER = Tables({'width': 8}, DEFAULTS)\n",
    )
    assert (module.USUAL.width, module.USUAL.inner.depth) == (4, 2)
    assert module.WIDE.todict() == {"width": 8, "inner": {"depth": 2, "heads": 3}}
    assert type(module.WIDE.todict()) is dict
    assert is_stand_in(module.OTHER)


def test_configurations_are_merged(tmp_path):
    module = imported(
        tmp_path,
        "import torch\nfrom no_such_thing import merge_dict, Conf\n"
        "class Net(torch.nn.Module):\n"
        "    DEFAULTS = {'width': 4, 'inner': {'depth': 2, 'heads': 1}}\n"
        "    def __init__(self, options=None):\n        super().__init__()\n"
        "        options = merge_dict(self.DEFAULTS, options)\n        options['rate'] = 8\n"
        "        self.options = Conf.merge(options, {'inner': {'heads': 3}})\n"
        "    def forward(self, x): return x\n",
    )
    found = module.Net().options
    assert (found.width, found.rate, found.inner) == (4, 8, {"depth": 2, "heads": 3})
    assert module.Net.DEFAULTS["inner"]["heads"] == 1
    assert module.Net({"width": 5}).options.width == 5


def test_a_base_keeps_the_arguments_as_they_are_when_it_is_told(tmp_path):
    module = imported(
        tmp_path,
        "import no_such_thing as nt\n"
        "class Net(nt.LightningModule):\n"
        "    def __init__(self, inner=None, **rest):\n        super().__init__()\n"
        "        inner = inner or {'width': 3}\n        self.save_hyperparameters()\n"
        "        self.width = self.hparams.inner['width']\n"
        "    def forward(self, x): return x\n",
    )
    assert module.Net(other=1).width == 3


def test_what_is_taken_out_of_a_part_is_one(tmp_path):
    module = imported(
        tmp_path,
        "import torch\nfrom no_such_thing import build_backbone, Head\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self, names=('a', 'b')):\n        super().__init__()\n"
        "        self.backbone = build_backbone(names)\n"
        "        shapes = self.backbone.output_shape()\n"
        "        self.fc = torch.nn.ModuleList([torch.nn.Linear(shapes[each].channels, 2) for each in names])\n"
        "        self.out = torch.nn.Linear(shapes['hidden_dim'], 2)\n"
        "    def forward(self, x): return self.backbone[0](x)\n",
    )
    net = module.Net()
    assert [each.in_features for each in (*net.fc, net.out)] == [64, 64, 64]
    with pytest.raises(ModuleNotFoundError, match="no_such_thing"):
        net(1)


def test_a_class_of_annotated_fields_is_made_of_them(tmp_path):
    module = imported(
        tmp_path,
        "from typing import ClassVar\nimport torch\nfrom no_such_thing import BaseModel, Field, define\n"
        "class Config(BaseModel):\n"
        "    kind: ClassVar[str] = 'a'\n"
        "    base: int = Field(..., ge=1)\n    mults: tuple = (1, 2)\n"
        "    names: list = Field(default_factory=list)\n    depth: int = Field(3, le=9)\n"
        "@define\nclass Other:\n    width: int\n    heads: int = 2\n"
        "class Plain(BaseModel):\n    pass\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self, config: Config, other: Other):\n        super().__init__()\n"
        "        self.fc = torch.nn.Linear(config.base * config.depth, other.width)\n"
        "        assert isinstance(config, Config) and isinstance(other, Other)\n",
    )
    config = module.Config(base=4, depth=5)
    assert vars(config) == {"base": 4, "mults": (1, 2), "names": [], "depth": 5}
    assert config.names is not module.Config(base=4).names
    assert list(inspect.signature(module.Config).parameters) == ["base", "mults", "names", "depth"]
    with pytest.raises(TypeError, match="missing 1 required keyword-only arguments: 'base'"):
        module.Config()
    assert vars(module.Other(8)) == {"width": 8, "heads": 2}
    assert not is_stand_in(module.Config)
    with pytest.raises(ModuleNotFoundError, match="no_such_thing"):
        module.Plain()
    expression, _ = Search("Net", module.Net, vars(module), partial(attempt, real=False)).run()
    assert expression == "Net(config=Config(base=64), other=Other(width=64))"


def test_a_dataclass_with_an_absent_base_is_a_record(tmp_path):
    module = imported(
        tmp_path,
        "from dataclasses import dataclass\nfrom no_such_thing import Base, II\n"
        "@dataclass\nclass Config(Base):\n    rate: float = II('task.rate')\n    depth: int = 2\n",
    )
    assert module.Config(rate=1.0).depth == 2


def test_an_object_that_holds_data_is_made_a_mapping(tmp_path):
    module = imported(
        tmp_path,
        "import torch\nfrom no_such_thing import OmegaConf\n"
        "class Inner(torch.nn.Module):\n    def __init__(self, width, depth=1):\n        super().__init__()\n"
        "class Net(torch.nn.Module):\n    def __init__(self, config):\n        super().__init__()\n"
        "        self.inner = Inner(**OmegaConf.to_container(config.inner, resolve=True))\n",
    )
    assert isinstance(module.Net(SimpleNamespace(inner=SimpleNamespace(width=3))).inner, module.Inner)


def test_a_constructor_reads_the_usual_numbers_of_a_base(tmp_path):
    module = imported(
        tmp_path,
        "import torch\nfrom no_such_thing import Recommender\n"
        "class Net(Recommender):\n"
        "    def __init__(self, config):\n        super().__init__(config)\n"
        "        self.items = torch.nn.Embedding(self.n_items, 4)\n"
        "        if not hasattr(self, 'n_layers'):\n            self.made = True\n"
        "        if config:\n            self.hidden_size = 3\n        self.other = self.hidden_size\n"
        "    def forward(self, x): return self.items(x) + self.n_users\n",
    )
    net = module.Net(config=1)
    assert (net.items.num_embeddings, net.made, net.other) == (1000, True, 3)
    with pytest.raises(AttributeError, match="hidden_size"):
        module.Net(config=0)
    with pytest.raises(AttributeError, match="n_users"):
        net(torch.ones(1).long())


def test_what_stands_for_something_is_an_instance_of_it_by_its_name(tmp_path):
    module = imported(
        tmp_path,
        "import torch\nfrom no_such_thing import spaces, get_obs_dim, make_head\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self, observation_space, action_space):\n        super().__init__()\n"
        "        assert isinstance(observation_space, spaces.Box), observation_space\n"
        "        assert isinstance(action_space, (spaces.Box, spaces.Discrete))\n"
        "        assert not isinstance(action_space, spaces.Dict)\n"
        "        assert not isinstance(make_head(), spaces.Box)\n"
        "        self.fc = torch.nn.Linear(get_obs_dim(observation_space), 3)\n",
    )
    scope = {**vars(module), "SimpleNamespace": SimpleNamespace}
    search = Search("Net", module.Net, scope, partial(attempt, real=False))
    found = search.run()
    assert found is not None, (search.tried, search.error)
    _, net = found
    assert (net.fc.in_features, search.trials) == (64, 1)


def test_fields_that_are_set_inside_are_no_arguments_and_what_cannot_be_made_has_no_default(tmp_path):
    module = imported(
        tmp_path,
        "from dataclasses import field\nfrom no_such_thing import BaseModel, Field\n"
        "class Inner(BaseModel):\n    width: int\n"
        "class Outer(BaseModel):\n"
        "    name: str = field(init=False)\n    sizes: list = field(default_factory=lambda: [128])\n"
        "    depth: int = field(default=2)\n    inner: Inner = Field(default_factory=Inner)\n"
        "    def __post_init__(self):\n        self.name = type(self).__name__\n",
    )
    outer = module.Outer(inner=module.Inner(width=3))
    assert (outer.name, outer.sizes, outer.depth, outer.inner.width) == ("Outer", [128], 2, 3)
    assert list(inspect.signature(module.Outer).parameters) == ["sizes", "depth", "inner"]
    with pytest.raises(TypeError, match="1 required keyword-only arguments: 'inner'"):
        module.Outer()

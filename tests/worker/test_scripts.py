"""Scripts as people write them: notebooks, command lines, training loops, packages in folders of every kind."""

import textwrap

import pytest

from fxworker.texts import program_of
from fxworker.wire import Overlay
from tests.worker.harness import all_problems, of

HEAD = "import torch\nfrom torch import nn\n"

NET = """
class Net(nn.Module):
    def __init__(self, width=%s):
        super().__init__()
        self.fc = nn.Linear(width, 3)

    def forward(self, x):
        return self.fc(x)
"""

SCRIPTS = {
    "exported notebook": "get_ipython().system('pip install x')\nget_ipython().run_line_magic('matplotlib', 'inline')\n"
    "import pandas_of_nobody as pd\n# In[1]:\ntrain = pd.read_csv('../input/train.csv')\ntrain.head()\n"
    + NET % 4
    + "\n# In[2]:\nfor epoch in range(10**9):\n    pass\n",
    "cells": "%load_ext autoreload\n!pip install einops\n# %%\n" + NET % 4 + "\n%timeit Net()\n",
    "command line": "import argparse\np = argparse.ArgumentParser()\np.add_argument('data')\n"
    "p.add_argument('--out', required=True)\np.add_argument('--width', type=int, default=4)\nargs = p.parse_args()\n"
    + NET % "args.width"
    + "\nwhile True:\n    Net()(torch.load(args.data))\n",
    "downloads": "import urllib.request\nurllib.request.urlretrieve('http://example.org/x', 'x')\n"
    "data = open('/no/such/file').read()\n" + NET % 4,
    "configurator": "width = 4\nconfig_keys = [k for k, v in globals().items() if isinstance(v, int)]\n"
    "exec(open('configurator.py').read())\n" + NET % "width",
    "wrapped training": NET % 4 + "\nmodel = Net().cuda()\nopt = torch.optim.Adam(model.parameters())\n"
    "for x in range(3):\n    model(x).backward()\n",
    "runs": NET % 4 + "\nmodel = Net()\nif __name__ == '__main__':\n    for _ in range(3):\n"
    "        raise RuntimeError(model(torch.rand(2, 4)))\n",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_traced_and_not_run(worker, model, name):
    report = worker.trace(model(HEAD + SCRIPTS[name]))
    net = of(report, "Net")
    assert net.status == "complete"
    assert not [each for each in report.problems if "RuntimeError" in each.message]
    assert "fc" in net.code
    assert not (model("").parent / "x").exists()


def test_lines_of_a_notebook_are_comments_only_where_nothing_else_makes_sense():
    text = "x = (7\n  % 2)\ns = '''\n%magic\n'''\n"
    assert program_of(text) is text
    assert program_of("%magic\nx = 1\n") == "pass  # %magic\nx = 1\n"
    assert program_of("if 1:\n    !ls\n") == "if 1:\n    pass  # !ls\n"
    assert program_of("%magic\nx = (\n") == "%magic\nx = (\n"


CALLS = """
class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, 3)

    def forward(self, image, mask=None):
        return self.fc(image)

if __name__ == "__main__":
    net = Net(4)
    data = torch.utils.data.TensorDataset(torch.randn(64, 5, 4), torch.zeros(64))
    for step, (x, y) in enumerate(torch.utils.data.DataLoader(data, batch_size=6)):
        %s
        net(x).sum().backward()
"""


@pytest.mark.parametrize("call", ["pass", "net(**batch)", "net(*files)", "net(batch['image'])", "net({'a': x}['b'])"])
def test_calls_say_what_a_model_is_fed_as_far_as_they_are_known(worker, model, call):
    report = worker.trace(model(HEAD + CALLS % call))
    net = of(report, "Net")
    assert (net.construct.expression, net.inputs.source) == ("Net(4)", "call")
    assert net.nodes[-1].tensor.shape == (6, 5, 3)
    assert [each.code for each in all_problems(report)] == ["FX305"]


LAZY = """
import importlib
def __getattr__(name):
    return getattr(importlib.import_module("a.parts"), name)
"""

LAYOUTS = {
    "src": (
        {"src/pkg/__init__.py": "", "src/pkg/parts.py": "W = 5\n"},
        "src/pkg/net.py",
        "from .parts import W\n",
        "src",
    ),
    "absolute in src": (
        {"src/pkg/__init__.py": "", "src/pkg/parts.py": "W = 5\n"},
        "src/pkg/net.py",
        "from pkg.parts import W\n",
        "src",
    ),
    "namespace": ({"pkg/sub/parts.py": "W = 5\n"}, "pkg/sub/net.py", "from .parts import W\n", ""),
    "two up": (
        {"a/__init__.py": "", "a/b/__init__.py": "", "a/parts.py": "W = 5\n"},
        "a/b/net.py",
        "from ..parts import W\n",
        "",
    ),
    "two up from a folder that says nothing": (
        {"a/__init__.py": "", "a/parts.py": "W = 5\n"},
        "a/b/net.py",
        "from ..parts import W\n",
        "",
    ),
    "two up in folders that say nothing": ({"a/parts.py": "W = 5\n"}, "a/b/net.py", "from ..parts import W\n", "a"),
    "star": ({"parts.py": "__all__ = ['W']\nW = 5\n"}, "net.py", "from parts import *\n", ""),
    "circular": (
        {"a/__init__.py": "from .net import Net\n", "a/parts.py": "import a.net\nW = 5\n"},
        "a/net.py",
        "from . import parts\nW = parts.W\n",
        "",
    ),
    "lazy": (
        {
            "a/__init__.py": LAZY,
            "a/parts.py": "W = 5\n",
        },
        "net.py",
        "from a import W\n",
        "",
    ),
    "namespace, from the root": (
        {"pkg/sub/parts.py": "from pkg.other import W\n", "pkg/other.py": "W = 5\n"},
        "pkg/sub/net.py",
        "from pkg.sub.parts import W\n",
        "",
    ),
    "star through a package": (
        {"a/__init__.py": "from .parts import *\n", "a/parts.py": "_hidden = 1\nW = 5\n"},
        "a/net.py",
        "from a import *\n",
        "",
    ),
    "circular at the end": (
        {"one.py": "W = 5\nimport net\n", "two.py": "import one\nW = one.W\n"},
        "net.py",
        "from two import W\n",
        "",
    ),
    "by version": (
        {"old.py": "raise RuntimeError('never')\n", "new.py": "W = 5\n"},
        "net.py",
        "import sys\nif sys.version_info < (3,):\n    from old import W\nelse:\n    from new import W\n",
        "",
    ),
    "on demand": (
        {"parts.py": "W = 5\n"},
        "net.py",
        "import importlib\nparts = importlib.import_module('parts')\nW = parts.W\n",
        "",
    ),
    "in a function": (
        {"parts.py": "W = 5\n"},
        "net.py",
        "def width():\n    from parts import W\n    return W\nW = width()\n",
        "",
    ),
    "folder on the path": (
        {"lib/parts.py": "W = 5\n"},
        "net.py",
        "import os, sys\nLIB = os.path.dirname(__file__) + '/lib'\nsys.path.append(LIB)\nfrom parts import W\n",
        "",
    ),
    "type checking": (
        {"parts.py": "W = 5\n"},
        "net.py",
        (
            "from __future__ import annotations\nfrom typing import TYPE_CHECKING\n"
            "if TYPE_CHECKING:\n    import nobody\n"
            "try:\n    from nobody_else import W\nexcept ImportError:\n    from parts import W\n"
        ),
        "",
    ),
    "broken package": (
        {"a/__init__.py": "raise RuntimeError('needs a GPU')\n", "a/parts.py": "W = 5\n"},
        "a/net.py",
        "from .parts import W\n",
        "",
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_packages_of_every_layout(worker, tmp_path, name):
    files, path, imports, root = LAYOUTS[name]
    text = imports + HEAD + textwrap.dedent(NET % "W") if "__future__" in imports else HEAD + imports + NET % "W"
    for file, content in {**files, path: text}.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(content)
    net = of(worker.trace(tmp_path / path, roots=(tmp_path / root,)), "Net")
    assert net.status == "complete"
    assert net.facts is not None
    assert net.facts.parameters == 18


@pytest.mark.parametrize("name", ["src", "namespace", "star", "circular", "lazy"])
def test_unsaved_texts_of_other_files_are_what_is_imported(worker, tmp_path, name):
    files, path, imports, root = LAYOUTS[name]
    for file, content in {**files, path: HEAD + imports + NET % "W"}.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(content)
    parts = next(file for file in files if file.endswith("parts.py"))
    overlay = Overlay(str(tmp_path / parts), files[parts].replace("W = 5", "W = 6"))
    report = worker.trace(tmp_path / path, roots=(tmp_path / root,), overlays=(overlay,))
    assert of(report, "Net").facts.parameters == 21


BASES = """
import bases
from bases import *
from torch import nn

class One(Root):
    def __init__(self):
        super().__init__()
        self.inner = nn.ReLU()

    def forward(self, x):
        return super().forward(x)

class Two(bases.chosen(True)):
    def __init__(self):
        super().__init__()
        self.inner = nn.ReLU()

    def forward(self, x):
        return super().forward(x)

class NoModel(bases.Strategy):
    def __init__(self, rate):
        self.rate = rate

    def forward(self, x):
        return x
"""


def test_the_base_of_a_class_may_come_from_anywhere(worker, tmp_path):
    (tmp_path / "bases.py").write_text(
        "from torch import nn\nclass Root(nn.Module):\n    def forward(self, x):\n        return self.inner(x)\n"
        "def chosen(flag):\n    return Root if flag else nn.Module\nclass Strategy: pass\n"
    )
    (tmp_path / "net.py").write_text(BASES)
    report = worker.trace(tmp_path / "net.py")
    assert of(report, "One").status == "complete"
    assert of(report, "Two").status == "complete"
    assert "NoModel" not in [each.qualname for each in report.targets]
    assert all_problems(report) == []

"""The packages around a file: imported before it as Python does it, or not, where the file has nothing of them."""

import os

import pytest

from fxworker.outer_packages import may_import_from, only_defines
from tests.worker.harness import of

NET = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.fc = nn.Linear(dim, dim)

    def forward(self, x):
        return self.fc(x)
"""
EVERYTHING = "from pack.slow import Slow\nfrom .net import Net\n__version__ = '1'\n"


@pytest.fixture
def package(model, tmp_path):
    """A package that imports all that it has, a part of which leaves a mark, and the file of a model in it."""

    def write(init=EVERYTHING, net=NET):
        model(init, "pack/__init__.py")
        model(f"open({os.fspath(tmp_path / 'mark')!r}, 'a').write('.')\nclass Slow: ...\nWIDTH = 5\n", "pack/slow.py")
        return model(net, "pack/net.py")

    return write


def test_a_file_that_has_nothing_of_its_package_does_not_wait_for_it(worker, package, tmp_path):
    report = worker.trace(package(), roots=(tmp_path,))
    assert report.status == "complete"
    assert not (tmp_path / "mark").exists()
    assert report.dependencies == (str(tmp_path / "pack" / "__init__.py"),)


@pytest.mark.parametrize(
    "line", ["from .slow import WIDTH", "from pack.slow import WIDTH", "import pack", "import os, pack.slow"]
)
def test_one_that_may_have_is_executed_after_it(worker, package, tmp_path, line):
    path = package(net=NET.replace("import torch\n", f"{line}\nimport torch\n", 1))
    assert worker.trace(path, roots=(tmp_path,)).status == "complete"
    assert (tmp_path / "mark").exists()


def test_a_package_that_changes_something_is_imported(worker, package, tmp_path):
    path = package(f"import torch\n{EVERYTHING}torch.set_default_dtype(torch.float64)\n")
    report = worker.trace(path, roots=(tmp_path,))
    assert [each.tensor.dtype for each in of(report, "Net").nodes if each.name == "fc"] == ["f64"]


def test_what_asks_for_the_package_while_it_runs_gets_it(worker, package, tmp_path):
    call = "return self.fc(x) * __import__('importlib').import_module('pa' + 'ck.slow').WIDTH"
    report = worker.trace(package(net=NET.replace("return self.fc(x)", call)), roots=(tmp_path,))
    assert report.status == "complete"
    assert (tmp_path / "mark").exists()


def test_a_package_that_begins_to_change_something_is_imported_from_then_on(worker, package, tmp_path):
    path = package()
    assert worker.trace(path, roots=(tmp_path,)).status == "complete"
    package(f"{EVERYTHING}print('hello')\n")
    assert "hello" in worker.trace(path, roots=(tmp_path,)).output


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torch\n", False),
        ("from os import path  # pack\n", False),
        ("'''pack'''\n", False),
        ("def f():\n    from .. import a\n", True),
        ("try:\n    from pack import a\nexcept ImportError:\n    a = None\n", True),
        ("from packs import a\n", False),
    ],
)
def test_what_may_be_imported_is_seen_in_the_text(text, expected):
    assert may_import_from(text, "pack.inner") is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        (
            "'''About.'''\nimport a\nfrom . import b\n__all__ = ['a']\n__all__ += b.__all__\n__all__.extend(['c'])\n",
            True,
        ),
        ("try:\n    from .a import b\nexcept ImportError:\n    b = None\n", True),
        ("if True:\n    from .a import b\nelse:\n    raise ImportError\n", True),
        ("def f(): ...\nclass A: ...\n", True),
        ("import torch\ntorch.manual_seed(0)\n", False),
        ("import torch\ntorch.Tensor.mine = None\n", False),
        ("for each in (1, 2):\n    pass\n", False),
        ("if True:\n    print()\n", False),
        ("def", False),
    ],
)
def test_a_package_that_only_defines_changes_nothing(text, expected):
    assert only_defines(text) is expected


def test_a_file_that_is_called_like_its_folder_imports_from_that_and_not_from_itself(worker, model, tmp_path):
    text = NET.replace("import torch\n", "import net.layers\nfrom net.layers import WIDTH\n", 1).replace("=8", "=WIDTH")
    model("WIDTH = 8\n\ndef other():\n    from net.net import Net\n    return Net\n", "net/layers.py")
    path = model(text.replace("nn.Linear", "(net.layers.other() is Net) and nn.Linear"), "net/net.py")
    (target,) = worker.trace(path, roots=(tmp_path, tmp_path / "net")).targets
    assert (target.status, target.problems) == ("complete", ())
    assert target.inputs.expression == "torch.randn(2, 8)"

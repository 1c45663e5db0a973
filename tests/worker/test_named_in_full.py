"""Models that are built and fed with what only an example, or another place that calls them, imports."""

from fxworker.packages import reach
from tests.worker.harness import all_problems, of

NET = '''\
import torch
from torch import nn


class Net(nn.Module):
    """
    >>> from parts.layers import Mlp as Part
    >>> import parts.batches as shapes
    >>> net = Net(Part(6, 2))
    >>> net(shapes.batch(7))
    """

    def __init__(self, part: nn.Module):
        super().__init__()
        self.part = part

    def forward(self, x):
        return self.part(x).relu()
'''

LAYERS = """\
from torch import nn


class Mlp(nn.Sequential):
    def __init__(self, width, depth):
        super().__init__(*(nn.Linear(width, width) for _ in range(depth)))
"""

BATCHES = "import torch\n\n\ndef batch(count):\n    return torch.randn(count, 6)\n"


def written(folder, layers=LAYERS):
    (folder / "parts").mkdir()
    (folder / "parts" / "layers.py").write_text(layers)
    (folder / "parts" / "batches.py").write_text(BATCHES)


def test_what_an_example_imports_builds_and_feeds_a_model(worker, model, tmp_path):
    written(tmp_path)
    net = of(worker.trace(model(NET)), "Net")
    assert net.construct is not None
    assert (net.construct.expression, net.construct.source) == ("Net(parts.layers.Mlp(6, 2))", "call")
    assert net.inputs is not None
    assert net.inputs.expression == "parts.batches.batch(7)"
    assert [each.tensor.shape for each in net.nodes if each.tensor is not None] == [(7, 6)] * 5


def test_an_edit_of_what_is_imported_so_counts(worker, model, tmp_path):
    written(tmp_path)
    path = model(NET)
    assert len(of(worker.trace(path), "Net").nodes) == 5
    (tmp_path / "parts" / "layers.py").write_text(LAYERS.replace("range(depth)", "range(depth + 2)"))
    assert len(of(worker.trace(path), "Net").nodes) == 7


def test_what_is_not_there_is_no_fault_of_the_file(worker, model):
    report = worker.trace(model(NET))
    net = of(report, "Net")
    assert net.construct is not None
    assert net.construct.source == "inferred"
    assert not all_problems(report)


def test_what_is_no_longer_in_a_package_is_none_either(worker, model, tmp_path):
    written(tmp_path, layers="from torch import nn\n")
    report = worker.trace(model(NET))
    assert of(report, "Net").construct is not None
    assert not all_problems(report)


def test_a_directive_may_name_packages_that_its_file_does_not_import(worker, model, tmp_path):
    written(tmp_path)
    net = of(worker.trace(model(NET.replace("class Net", "# fx: Net(parts.layers.Mlp(6, 4))\nclass Net"))), "Net")
    assert net.construct is not None
    assert net.construct.source == "directive"
    assert len(net.nodes) == 7


def test_names_of_the_file_hide_packages(tmp_path, monkeypatch):
    written(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert not reach("parts.nothing.Mlp(3)", {})
    assert reach("parts.layers.Mlp(3)", {})
    assert reach("parts.nothing.Mlp(3)", {"parts": object()})
    assert reach("Mlp(3)", {})
    assert reach("no expression at all", {})


BASE = '''\
import torch
from torch import nn


class Searcher(nn.Module):
    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    def forward(self, x):
        for _ in range(self.steps):
            x = self.step(x)
        return x

    def step(self, x):
        raise NotImplementedError


class OfLayers(Searcher):
    """
    >>> from parts.layers import Mlp
    >>> searcher = OfLayers(Mlp(6, 2), steps=3)
    >>> searcher(torch.randn(5, 6))
    """

    def __init__(self, layers, **kwargs):
        super().__init__(**kwargs)
        self.layers = layers

    def step(self, x):
        return self.layers.forward(x.relu())
'''


def test_a_class_that_leaves_something_to_others_is_shown_by_one_that_somebody_builds(worker, model, tmp_path):
    written(tmp_path)
    base = of(worker.trace(model(BASE)), "Searcher")
    assert base.construct is not None
    assert base.construct.expression == "OfLayers(parts.layers.Mlp(6, 2), steps=3)"
    assert base.inputs is not None
    assert [each.op for each in base.nodes].count("call_module") == 6

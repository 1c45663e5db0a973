"""Models whose constructors open files: a configuration that lies elsewhere in the project, weights that are absent."""

from fxworker.nearby import files_called
from fxworker.wire import Span
from tests.worker.harness import of

CONFIGURED = """
import json
from torch import nn

class Net(nn.Module):
    def __init__(self, cfg="tiny.json", channels=3):
        super().__init__()
        if isinstance(cfg, dict):
            self.cfg = cfg
        else:
            with open(cfg) as file:
                self.cfg = json.load(file)
        self.conv = nn.Conv2d(channels, self.cfg["width"], 3)

    def forward(self, x):
        return self.conv(x)
"""

WEIGHTS = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, weights_path):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.load_state_dict(torch.load(weights_path)["model"])

    def forward(self, x):
        return self.fc(x)
"""

SECOND = """
import package.late
from torch import nn

class Second(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, 2)

    def forward(self, x):
        return self.fc(x)
"""

PACKAGE = """
from package.parts.second import Second
from torch import nn

class First(nn.Module):
    def __init__(self, second: Second):
        super().__init__()
        self.second = second

    def forward(self, x):
        return self.second(x)
"""


WINDOWS = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, size=8, window=3):
        super().__init__()
        mask = torch.zeros(1, size, size, 1).view(1, size // window, window, size // window, window, 1)
        self.register_buffer("mask", mask)

    def forward(self, x):
        return x + self.mask.sum()
"""

INHERITED = """
from torch import nn

TABLE = {}

class Encoder(nn.Module):
    def __init__(self, parts):
        super().__init__()
        self.parts = nn.ModuleList([TABLE[each][parts[each]] for each in sorted(parts)])
        self.first = TABLE["first"]

    def forward(self, x):
        return self.first(x)

class Small(Encoder):
    def __init__(self, width=4):
        nn.Module.__init__(self)
        self.first = nn.Linear(width, width)
"""

LEFT_OUT = """
import abc
from torch import nn

class Base(nn.Module, abc.ABC):
    @abc.abstractmethod
    def loss(self, x): ...
"""

UNFINISHED = """
from bases import Base
from torch import nn

class Middle(Base):
    def __init__(self, width=4):
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return self.fc(x)
"""

FINISHED = """
class Leaf(Middle):
    def loss(self, x):
        return self(x).sum()
"""

SCRIPTED = """
import torch
from torch import nn

class Scripted(torch.jit.ScriptModule):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, width)

    @torch.jit.script_method
    def forward(self, x):
        return self.fc(x)
"""

PARTLY_THERE = """
from math import no_such_name, sqrt, floor
from torch import nn

class Net(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.fc = nn.Linear(floor(sqrt(width)), 2)

    def forward(self, x):
        return self.fc(x)
"""

ASSEMBLED = """
from torch import nn

class Part(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, width)
        self.width = width

    def forward(self, x):
        return self.fc(x)

class Net(nn.Module):
    def __init__(self, backbone, transformer, classes):
        super().__init__()
        self.backbone = backbone
        self.transformer = transformer
        self.head = nn.Linear(transformer.width, classes)

    def forward(self, x):
        return self.head(self.transformer(self.backbone(x)))

SCALE = 2

def assembled(args):
    loss = nn.MSELoss()
    net = Net(Part(args.hidden_dim), Part(args.hidden_dim), SCALE * args.num_classes)
    return net.to(args.device), loss
"""

TABLE = """
import argparse
from torch import nn

class Net(nn.Module):
    def __init__(self, config, size=8):
        super().__init__()
        self.fc = nn.Linear(config.width, 64 // (size // config.skip))

    def forward(self, x):
        return self.fc(x)

CONFIGS = {
    "plain": argparse.Namespace(width=5),
    "hybrid": argparse.Namespace(width=5, skip=16),
}
"""


HANDING_ON = """
from torch import nn

class Base(nn.Module):
    def __init__(self, width=None):
        super().__init__()
        self.fc = nn.Linear(4 * width, 4)

class Net(Base):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)

    def forward(self, x):
        return self.fc(x)
"""


def built(worker, root, path, text):
    """Return what a trace tells of the first class of a file that is written."""
    path.write_text(text)
    return worker.trace(path, roots=(root,)).targets[0]


def test_a_file_that_is_named_is_looked_for_in_the_project(worker, tmp_path):
    folder = tmp_path / "package" / "configurations"
    folder.mkdir(parents=True)
    (tmp_path / "package" / "__init__.py").write_text("")
    (folder / "tiny.json").write_text('{"width": 5}')
    target = built(worker, tmp_path, tmp_path / "package" / "net.py", CONFIGURED)
    assert target.status == "complete"
    assert target.construct.expression == "Net(cfg='package/configurations/tiny.json')"


def test_a_configuration_without_a_name_is_one_of_the_project(worker, tmp_path):
    text = CONFIGURED.replace("isinstance(cfg, dict)", "False").replace('cfg="tiny.json"', "cfg")
    text = text.replace("cfg", "config_path")
    path = tmp_path / "net.py"
    assert built(worker, tmp_path, path, text).status == "not traced"
    (tmp_path / "setup.cfg").write_text("")
    (tmp_path / "configurations").mkdir()
    (tmp_path / "configurations" / "tiny.json").write_text('{"width": 5}')
    path = tmp_path / "other.py"
    target = built(worker, tmp_path, path, text)
    assert target.construct.expression == "Net(config_path='configurations/tiny.json')"


def test_a_file_that_is_nowhere_is_what_is_told(worker, tmp_path):
    target = built(worker, tmp_path, tmp_path / "net.py", CONFIGURED.replace("isinstance(cfg, dict)", "not cfg"))
    assert target.status == "not traced"
    assert "tiny.json" in "".join(each.message + each.explanation for each in target.problems)


def test_what_the_file_would_say_may_be_given_instead(worker, tmp_path):
    target = built(worker, tmp_path, tmp_path / "net.py", CONFIGURED)
    assert target.construct.expression == "Net(cfg={'width': 64})"


def test_defaults_that_do_not_go_together_are_replaced(worker, tmp_path):
    target = built(worker, tmp_path, tmp_path / "net.py", WINDOWS)
    assert (target.construct.source, target.status) == ("inferred", "complete")


def test_a_constructor_that_hands_on_its_keywords_is_searched_for_those_of_its_base(worker, tmp_path):
    target = built(worker, tmp_path, tmp_path / "net.py", HANDING_ON)
    assert target.construct.expression == "Net(width=64)"


def test_weights_that_are_not_there_change_nothing(worker, tmp_path):
    target = built(worker, tmp_path, tmp_path / "net.py", WEIGHTS)
    assert target.status == "complete"
    assert target.construct.expression == "Net(weights_path='weights.pt')"


def test_the_packages_around_a_package_are_imported_before_it(worker, tmp_path):
    inner = tmp_path / "package" / "parts"
    inner.mkdir(parents=True)
    (tmp_path / "package" / "__init__.py").write_text("import package.late\n")
    # Imported from the outer package all is there in time; from the inner one, `First` is asked for too early.
    (inner / "second.py").write_text(SECOND)
    (tmp_path / "package" / "late.py").write_text("from package.parts import First\n")
    target = built(worker, tmp_path, inner / "__init__.py", PACKAGE)
    assert target.status == "complete"
    assert target.construct.expression == "First(second=Second(width=64))"


def test_files_are_found_by_name_and_the_nearest_is_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("a", "a/b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.yaml").write_text("")
        (tmp_path / folder / "__init__.py").write_text("")
    assert files_called("/elsewhere/x.yaml", str(tmp_path / "a" / "b" / "net.py")) == ["a/b/x.yaml", "a/x.yaml"]
    assert files_called("x", str(tmp_path / "a" / "net.py")) == []


def test_a_subclass_shows_the_forward_that_it_inherits(worker, tmp_path):
    target = built(worker, tmp_path, tmp_path / "encoders.py", INHERITED)
    assert (target.qualname, target.construct.expression, target.construct.source) == ("Encoder", "Small()", "inferred")
    assert target.status == "complete"


def test_a_class_that_leaves_something_to_others_is_shown_by_one_of_these_or_not_at_all(worker, tmp_path):
    (tmp_path / "bases.py").write_text(LEFT_OUT)
    (tmp_path / "middle.py").write_text(UNFINISHED)
    alone = worker.trace(tmp_path / "middle.py", roots=(tmp_path,))
    assert (alone.targets, alone.problems) == ((), ())
    shown = built(worker, tmp_path, tmp_path / "leaves.py", UNFINISHED + FINISHED)
    assert (shown.qualname, shown.construct.expression, shown.status) == ("Middle", "Leaf()", "complete")


def test_what_is_compiled_as_it_is_made_is_told_where_it_is_defined(worker, tmp_path):
    target = built(worker, tmp_path, tmp_path / "scripted.py", SCRIPTED)
    assert target.construct.expression == "Scripted(width=64)"
    (problem,) = target.problems
    assert "compiled by torch.jit" in problem.message
    assert problem.location.span == Span(5, 6, 5, 14)


def test_what_a_module_has_is_there_beside_what_it_has_not(worker, tmp_path):
    path = tmp_path / "partly.py"
    path.write_text(PARTLY_THERE)
    report = worker.trace(path, roots=(tmp_path,))
    assert [each.code for each in report.problems] == ["FX101"]
    assert (report.targets[0].construct.expression, report.targets[0].status) == ("Net()", "complete")


def test_a_function_that_makes_the_parts_too_makes_the_model(worker, tmp_path):
    path = tmp_path / "assembled.py"
    path.write_text(ASSEMBLED)
    expression = "assembled(args=SimpleNamespace(hidden_dim=64, num_classes=10, device='cpu'))"
    for text in (ASSEMBLED, ASSEMBLED.replace("self.head(", "2 * self.head(")):
        target = of(worker.edit(path, text), "Net")
        assert (target.construct.expression, target.status) == (expression, "complete")


def test_a_configuration_may_be_one_of_a_table_that_no_model_mentions(worker, tmp_path):
    target = built(worker, tmp_path, tmp_path / "net.py", TABLE)
    # What is divided by is 0 with the size that is the default.
    assert (target.construct.expression, target.status) == ("Net(config=CONFIGS['hybrid'], size=512)", "complete")


def test_a_module_of_the_project_that_imports_when_it_is_asked_is_not_asked(worker, tmp_path):
    (tmp_path / "lazy.py").write_text(
        "import importlib\n"
        "import sys\n"
        "from types import ModuleType\n\n\n"
        "class Lazy(ModuleType):\n"
        "    def __getattr__(self, name):\n"
        "        try:\n"
        "            return getattr(importlib.import_module('a_package_that_nobody_has'), name)\n"
        "        except ImportError as error:\n"
        "            raise ImportError(f'lazy import of {name}') from error\n\n\n"
        "sys.modules['lazy.recipes'] = Lazy('lazy.recipes')\n"
        "WIDTH = 8\n"
    )
    path = tmp_path / "model.py"
    path.write_text(
        "from lazy import WIDTH\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.fc = nn.Linear(WIDTH, WIDTH)\n\n"
        "    def forward(self, x):\n        return self.fc(x)\n"
    )
    report = worker.trace(path)
    assert (report.status, report.problems) == ("complete", ())

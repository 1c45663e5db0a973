"""What a project says about the values that constructors read: command lines, configurations, their files."""

import ast
import textwrap

import pytest

from fxls.discovery import discover
from fxls.discovery.elsewhere import Calls
from fxls.discovery.options import settings_in
from fxls.text.edits import Carry, Change
from fxworker.wire import Span


def said(text):
    return {each.name: each.expression for each in settings_in("a.py", ast.parse(textwrap.dedent(text)))}


def test_options_of_a_command_line_have_their_defaults():
    assert said(
        """
        parser = argparse.ArgumentParser()
        parser.add_argument("--hidden-dim", "-d", type=int, default=2 * 64, help="wide")
        parser.add_argument("-l", "--layers", dest="depth", type=int, default="3")
        parser.add_argument("--no-bias", dest="bias", action="store_false")
        group = parser.add_argument_group("more")
        group.add_argument("--norm", choices=["layer", "batch"])
        group.add_argument("--unknown", type=int)
        group.add_argument("--computed", default=len(words))
        parser.set_defaults(heads=2)
        """
    ) == {"hidden_dim": "2 * 64", "depth": "3", "bias": "True", "norm": "'layer'", "heads": "2"}


def test_options_of_decorators_have_their_defaults():
    text = """
    @click.command()
    @click.option("--width", "-w", default=8)
    @click.option("--deep/--shallow", is_flag=True)
    def main(width, deep):
        pass
    """
    assert said(text) == {"width": "8", "deep": "False"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cfg = CN()\ncfg.MODEL = CN()\ncfg.MODEL.DIM = 32\ncfg['seed'] = 3", {"MODEL.DIM": "32", "seed": "3"}),
        ("_C = CfgNode()\n_C.NET.DEPTH = (2, 2)", {"NET.DEPTH": "(2, 2)"}),
        ("def get_config():\n  config = ConfigDict()\n  model = config.model = ConfigDict()\n  model.nf = 64",
         {"model.nf": "64"}),
        ("opt = dict(width=3, block=dict(kind='a'))", {"width": "3", "block.kind": "'a'"}),
        ("args = SimpleNamespace(width=3, rates=[0.1])", {"width": "3", "rates": "[0.1]"}),
        ("hparams = training.HParams(width=3, depth=len(names))", {"width": "3"}),
        ("TRAIN_CONFIG = {'width': 3, 'net': {'depth': 2}}", {"width": "3", "net.depth": "2"}),
        ("class Trainer:\n  def __init__(self):\n    self.config.width = 3\n    self.epochs = 4", {"width": "3"}),
        ("other = {'width': 3}\nwidth = 3", {}),
    ],
)  # fmt: skip
def test_assignments_to_configurations_are_values(text, expected):
    assert said(text) == expected


def test_classes_that_are_called_configurations_have_fields():
    text = """
    @dataclass
    class EncoderConfig:
        width: int = 16
        rates: list = field(default_factory=lambda: [0.1, 0.2])
        depth: int = field(default=3)
        name: str = MISSING

    class Config:
        heads = 2
        def __init__(self, dim=4, *, bias=False):
            self.dim = dim
            self.eps = 1e-6

    class Net:
        dim = 3
    """
    assert said(text) == {
        "EncoderConfig.width": "16", "EncoderConfig.rates": "[0.1, 0.2]", "EncoderConfig.depth": "3",
        "Config.heads": "2", "Config.dim": "4", "Config.bias": "False", "Config.eps": "1e-06",
    }  # fmt: skip


MODEL = """
from torch import nn

class Net(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.fc = nn.Linear(args.width, args.classes)

    def forward(self, x):
        return self.fc(x)
"""


@pytest.fixture
def project(tmp_path):
    def write(**files):
        for name, text in {"models__net": MODEL, **files}.items():
            path = tmp_path / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        path = str(tmp_path / "models/net.py")
        calls = Calls(str(tmp_path))
        calls.look()
        text = (tmp_path / "models/net.py").read_text()
        return calls.completed(discover(path, text), text).settings

    return write


def test_of_a_project_the_file_counts_first_that_knows_most_of_what_is_read(project):
    settings = project(
        train="p.add_argument('--width', default=3)\np.add_argument('--lr', default=0.1)\n",
        scripts__run="p.add_argument('--width', default=5)\np.add_argument('--classes', default=7)\n",
        scripts__other="p.add_argument('--size', default=5)\np.add_argument('--kind', default='a')\n",
    )
    assert [(each.name, each.expression) for each in settings] == [("width", "5"), ("classes", "7")]
    assert settings[0].location.path.endswith("scripts/run.py")
    assert settings[0].location.span.line == 1


def test_another_thread_may_look_through_the_folder_meanwhile(tmp_path, monkeypatch):
    (tmp_path / "net.py").write_text(MODEL)
    (tmp_path / "train.py").write_text("p.add_argument('--width', default=3)\np.add_argument('--classes', default=2)\n")
    calls, telling_of = Calls(str(tmp_path)), Calls._telling_of

    def overtaken(self, path):
        found = telling_of(self, path)
        self.look()
        return found

    monkeypatch.setattr(Calls, "_telling_of", overtaken)
    index = discover(str(tmp_path / "net.py"), MODEL)
    assert calls.completed(index, MODEL).settings == ()
    settings = calls.completed(index, MODEL).settings
    assert [(each.name, each.expression) for each in settings] == [("width", "3"), ("classes", "2")]


def test_of_a_file_that_has_its_own_command_line_this_counts_first(project):
    settings = project(
        models__net=f"{MODEL}\n\nparser.add_argument('--width', default=9)\n",
        train="p.add_argument('--width', default=3)\np.add_argument('--classes', default=2)\n",
    )
    assert [(each.name, each.expression) for each in settings] == [("width", "3"), ("classes", "2"), ("width", "9")]


def test_a_file_by_itself_says_what_its_command_line_says():
    text = f"{MODEL}\n\nparser.add_argument('--width', default=9)\n"
    index = Calls("").completed(discover("/a/net.py", text), text)
    assert [(each.name, each.expression) for each in index.settings] == [("width", "9")]


def test_what_is_said_moves_with_edits_and_is_read_again_when_one_touches_it_or_a_file_changes(tmp_path):
    text = f"{MODEL}\n\nparser.add_argument('--width', default=9)\n"
    (tmp_path / "run.py").write_text("p.add_argument('--width', default=3)\np.add_argument('--classes', default=2)\n")
    path, calls = str(tmp_path / "net.py"), Calls(str(tmp_path))
    calls.look()

    def told(index):
        return [(each.expression, each.location.span.line) for each in index.settings]

    def edited(index, old, new):
        start = index_of(text, old)
        span = Span(*start, start[0], start[1] + len(old))
        return index.carried(Carry.identity().then([Change(span, new)])), text.replace(old, new, 1)

    first = calls.completed(discover(path, text), text)
    line = text.count("\n")
    assert told(first) == [("3", 1), ("2", 2), ("9", line)]
    moved, longer = edited(first, "from torch import nn", "import math\nfrom torch import nn")
    assert told(moved) == [("3", 1), ("2", 2), ("9", line + 1)]
    again = calls.completed(discover(path, longer), longer, moved.settings)
    assert again.settings is moved.settings
    touched, other = edited(first, "default=9", "default=7")
    assert told(touched) == [("3", 1), ("2", 2)]
    assert told(calls.completed(discover(path, other), other, touched.settings))[-1] == ("7", line)
    (tmp_path / "run.py").write_text("p.add_argument('--width', default=4)\np.add_argument('--classes', default=2)\n")
    calls.look()
    assert told(calls.completed(discover(path, text), text, first.settings))[0] == ("4", 1)


def index_of(text, part):
    before = text[: text.index(part)]
    return before.count("\n") + 1, len(before.rpartition("\n")[2])

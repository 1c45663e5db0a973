"""Arguments that the project gives by its command lines, its configurations and its files of data."""

import linecache
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
from torch import nn

from fxls.discovery import discover
from fxls.discovery.elsewhere import Calls
from fxworker.arguments import Search
from fxworker.building import attempt
from fxworker.settings import Settings
from fxworker.wire import Location, Setting, Span

PLACE = Location("/p/train.py", Span(3, 0, 3, 9))


class Options(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.body = nn.Linear(args.width, args.hidden)
        self.heads = args.n_heads
        if args.mode == "deep":
            self.more = nn.Linear(args.hidden, args.hidden)


class Entries(nn.Module):
    def __init__(self, **kwargs):
        super().__init__()
        self.body = nn.LSTM(kwargs["input_size"], kwargs["hidden"])


class Sections(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.encoder = nn.Linear(cfg.encoder.width, 2)
        self.decoder = nn.Linear(cfg.decoder.width, 2)


class Decoder(nn.Module):
    def __init__(self, width, rates, kind: int):
        super().__init__()
        self.decoder = nn.Linear(width, kind)
        self.rates = [rate + 1 for rate in rates]


class Several(nn.Module):
    def __init__(self, width, heads, depth, classes):
        super().__init__()
        self.fc = nn.Linear(width // heads * heads, classes)
        self.depth = depth


def said(*pairs):
    return Settings([Setting(name, expression, PLACE) for name, expression in pairs], __file__)


def search(cls, settings):
    return Search(cls.__name__, cls, {**globals(), "SimpleNamespace": SimpleNamespace}, partial(attempt, real=False),
                  settings=settings).run()  # fmt: skip


@pytest.mark.parametrize(
    ("cls", "pairs", "expected"),
    [
        (Options, [("width", "17"), ("hidden", "34"), ("n_heads", "3"), ("mode", "'deep'")],
         "Options(args=SimpleNamespace(width=17, hidden=34, n_heads=3, mode='deep'))"),
        (Options, [("width", "17"), ("hidden", "'wide'"), ("mode", "'flat'")],
         "Options(args=SimpleNamespace(width=17, hidden=64, n_heads=4, mode='deep'))"),
        (Entries, [("input_size", "17"), ("model.hidden", "3")], "Entries(input_size=17, hidden=3)"),
        (Sections, [("encoder.width", "5"), ("decoder.width", "6"), ("width", "7")],
         "Sections(cfg=SimpleNamespace(encoder=SimpleNamespace(width=5), decoder=SimpleNamespace(width=6)))"),
        (Decoder, [("EncoderConfig.width", "5"), ("DecoderConfig.width", "6"), ("rates", "[0.5]"), ("kind", "0.5")],
         "Decoder(width=6, rates=[0.5], kind=64)"),
        (Several, [("heads", "3")], "Several(width=64, heads=4, depth=2, classes=64)"),
        (Several, [("heads", "3"), ("width", "9")], "Several(width=9, heads=3, depth=2, classes=64)"),
    ],
)  # fmt: skip
def test_what_the_project_says_comes_first_where_it_fits(cls, pairs, expected):
    assert search(cls, said(*pairs))[0] == expected


def test_what_holds_on_one_machine_alone_is_not_taken():
    settings = said(("device", "'cuda:3'"), ("data_dir", "'/a'"), ("pretrained", "True"), ("profile", "3"))
    assert [settings.of(each, "") for each in ("device", "data_dir", "pretrained", "profile")] == [[], [], [], ["3"]]


def test_where_a_value_comes_from_is_told():
    settings = said(("flag", "True"), ("width", "17"))
    assert settings.location_of("Net(args=SimpleNamespace(flag=True, width=17))") == PLACE
    assert settings.location_of("Net({'width': 17})") == PLACE
    assert settings.location_of("Net(args=SimpleNamespace(flag=True, width=18))") is None


def test_files_of_data_are_read(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    model = tmp_path / "models" / "net.py"
    model.parent.mkdir()
    model.write_text("dim, depth, rate = options['net']['dim'], options['depth'], options['rate']\n")
    (tmp_path / "package.json").write_text('{"dim": 1, "depth": 2}')
    (tmp_path / "less.json").write_text('{"dim": 4, "depth": 5}')
    (tmp_path / "broken.json").write_text('{"dim": 4, "depth": ')
    (tmp_path / "most.json").write_text(
        '{"net": {"dim": 6, "name": "a"},\n "depth": {"value": 7},\n "rate": {"values": [0.1, 0.2]}}'
    )
    linecache.checkcache()
    settings = Settings([Setting("depth", "9", PLACE)], str(model))
    assert settings.of("options.net.dim", "Net") == ["6", "4"]
    assert settings.of("options.depth", "Net") == ["7", "5", "9"]
    assert settings.of("options.rate", "Net") == ["0.1"]
    assert settings.location_of("Net({'depth': 7})") == Location(str(tmp_path / "most.json"), Span(2, 0, 2, 0))


MODEL = """
from torch import nn

class Net(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.fc = nn.Linear(args.width, args.classes)

    def forward(self, x):
        return self.fc(x)
"""


def test_the_report_says_which_script_a_model_is_built_after(worker, tmp_path):
    path, script = tmp_path / "net.py", tmp_path / "train.py"
    path.write_text(MODEL)
    script.write_text("p.add_argument('--width', default=21)\np.add_argument('--classes', default=7)\n")
    calls = Calls(str(tmp_path))
    calls.look()
    index = calls.completed(discover(str(path), MODEL), MODEL)
    for _ in range(2):
        # The second time what was inferred before is tried first.
        worker.send(replace(worker.request(path, targets=index.targets), settings=index.settings))
        (target,) = worker.receive().targets
        assert target.construct.expression == "Net(args=SimpleNamespace(width=21, classes=7))"
        assert (target.construct.location.path, target.construct.location.span.line) == (str(script), 1)
        assert [each.tensor.shape[-1] for each in target.nodes[:1]] == [21]

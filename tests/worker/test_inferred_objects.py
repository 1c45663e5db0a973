"""What models are handed besides sizes: vocabularies, data sets, environments, arrays, and objects with methods."""

import abc
import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from fxworker.arguments import Search
from fxworker.building import attempt
from fxworker.complaints import complaint_of
from fxworker.conventions import holds_configuration, is_configuration, usual_values
from fxworker.packages import with_packages
from fxworker.wording import quoted, told_missing


class Decoder(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.start = vocab.token_to_index("<s>")
        self.words = vocab.size()
        self.embedding = nn.Embedding(self.words, width)


class Recommender(nn.Module):
    def __init__(self, config, dataset):
        super().__init__()
        self.item = config["item"]
        self.count = dataset.num(self.item)
        self.longest = config["longest"]


class Ranker(Recommender):
    def __init__(self, config, dataset):
        super(Ranker, self).__init__(config, dataset)  # noqa: UP008 — As much code has it.
        self.items = nn.Embedding(self.count, config["width"])


class Plain(nn.Module):
    def __init__(self, cells):
        nn.Module.__init__(self)
        self.cells = cells


class Counting(Plain):
    def __init__(self, name, cells):
        Plain.__init__(self, cells)
        self.name = name.lower()
        self.parts = nn.ModuleList([nn.Linear(4, 4) for _ in range(self.cells["count"])])


class Layers(nn.Module):
    def __init__(self, factory):
        super().__init__()
        first, second = factory.make_widths()
        self.fc = nn.Linear(first, second)


class Copying(nn.Module):
    def __init__(self, head):
        super().__init__()
        options = dict(head)
        self.fc = nn.Linear(4, options.pop("num_classes"))


class Pretrained(nn.Module):
    def __init__(self, matrix):
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(torch.from_numpy(matrix).float())


class Kernels(nn.Module):
    def __init__(self, args):
        super().__init__()
        sizes = [int(each) for each in args.sizes.split("-")]
        self.convs = nn.ModuleList([nn.Conv1d(4, 4, each) for each in sizes])


class Evaluated(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.widths = [4, *eval(args.widths)]
        self.fc = nn.Linear(self.widths[0], self.widths[1])


class Tagger(nn.Module):
    def __init__(self, labels):
        super().__init__()
        self.ignored = labels.index("PAD")
        self.fc = nn.Linear(4, len(labels))


class Policy(nn.Module):
    def __init__(self, space):
        super().__init__()
        if space.__class__.__name__ == "Other":
            raise NotImplementedError
        self.fc = nn.Linear(4, space.n)


class Upsampling(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.up = nn.Upsample(scale_factor=2, mode=options["mode"])


class Zeroed(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block
        nn.init.zeros_(block.last.weight)


class Judging(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.device = next(model.parameters()).device
        self.width = model.width


class Held(nn.Module):
    def __init__(self, backbone: nn.Module):
        super().__init__()
        self.device = next(backbone.parameters()).device


class Channels(nn.Module):
    def __init__(self, channels=None, rate=None):
        super().__init__()
        self._channels, self._rate = channels, rate
        self.fc = nn.Linear(self.channels, 4)

    @property
    def channels(self):
        if self._channels is None:
            raise ValueError("channels could not be inferred. Either specify channels or the montage.")
        return self._channels


KNOWN = {f"network_of_size_{each}": nn.Linear for each in range(300)} | {"resnet18": nn.Linear}


def network(name):
    try:
        return dict(KNOWN)[name]
    except KeyError:
        raise ValueError(f"Unknown model {name}") from None


class Wrapped(nn.Module):
    def __init__(self, model: str):
        super().__init__()
        self.net = network(model)(4, 4)


class Registry:
    def __init__(self):
        self.known = {}

    def add(self, cls):
        self.known[cls.__name__] = cls
        return cls

    def build(self, options):
        options = options.copy()
        return self.known[options.pop("type")](**options)


NECKS = Registry()


@NECKS.add
class Neck(nn.Module):
    def __init__(self, num_outs, widths):
        super().__init__()
        assert isinstance(widths, list)
        self.fc = nn.Linear(widths[0], num_outs)


class Assembled(nn.Module):
    def __init__(self, neck):
        super().__init__()
        self.neck = NECKS.build(neck)


TABLES = SimpleNamespace(encoders={"narrow": Neck}, heads={})


class Looked(nn.Module):
    def __init__(self, encoder: str | None = None, encoder_conf: dict | None = None, width=4):
        super().__init__()
        encoder_class = TABLES.encoders.get(encoder)
        encoder = encoder_class(num_outs=width, **encoder_conf)
        self.width = encoder.fc.out_features
        self.encoder = encoder


class Streaming(Looked):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)


class Discrete(nn.Module):
    def __init__(self, space):
        super().__init__()
        if space.__class__.__name__ == "Finite":
            self.fc = nn.Linear(4, space.n)
        else:
            raise NotImplementedError


class Scoring(nn.Module):
    @abc.abstractmethod
    def score(self, x): ...


class AnyScoring(Scoring):
    def __init__(self, parts: list):
        super().__init__()
        if len(parts) < 9:
            raise ValueError

    def forward(self, x):
        return self.score(x)


class PlainScoring(Scoring):
    def forward(self, x):
        return self.score(x)


class Clamped(nn.Module):
    def __init__(self, base: Scoring):
        super().__init__()
        self.base = base


class Agent:
    def __init__(self, width: int):
        self.width = width


class Agents(nn.Module):
    def __init__(self, agents: dict[str | int, Agent]):
        super().__init__()
        first = next(iter(agents.values()))
        self.fc = nn.Linear(first.width, 4)


class Spherical(nn.Module):
    def __init__(self, lmax):
        super().__init__()
        if lmax > 10:
            raise MemoryError
        self.fc = nn.Linear((lmax + 1) ** 2, 4)


class Dropped(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.drops = nn.ModuleList([nn.Dropout(each) for each in eval(args.dropout)])


class Trained(nn.Module):
    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        scheduler: torch.optim.lr_scheduler._LRScheduler,
        kind: type[torch.optim.Optimizer],
        loss: Callable,
        metrics: list[Callable],
    ):
        super().__init__()
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(optimizer)
        self.optimizer, self.scheduler, self.loss, self.metrics = optimizer, scheduler, loss, metrics
        self.last = kind([nn.Parameter(torch.ones(1))], lr=0.1)


class Whitening(nn.Module):
    def __init__(self, batch_size: int, slice_size: int = 1000):
        super().__init__()
        self.slice_size = slice_size
        self.batch_size = batch_size
        assert self.slice_size <= self.batch_size
        self.fc = nn.Linear(8, 8)


class Planned(nn.Module):
    def __init__(self, width: int, plan: dict[str, Any]):
        super().__init__()
        self.fc = nn.Linear(width, 8)
        self.plan = plan


SCOPE = {**globals(), "SimpleNamespace": SimpleNamespace, "torch": torch}


@pytest.mark.parametrize(
    ("cls", "expression"),
    [
        (
            Decoder,
            ("Decoder(vocab=SimpleNamespace(token_to_index=torch.nn.Identity, size=lambda *_, **__: 64), width=64)"),
        ),
        (
            Ranker,
            (
                "Ranker(config={'item': 64, 'longest': 64, 'width': 64}, "
                "dataset=SimpleNamespace(num=lambda *_, **__: 1000))"
            ),
        ),
        (Counting, "Counting(name='default', cells={'count': 2})"),
        (Layers, "Layers(factory=SimpleNamespace(make_widths=lambda *_, **__: [64, 64]))"),
        (Copying, "Copying(head={'num_classes': 10})"),
        (Pretrained, "Pretrained(matrix=numpy.ones((64, 64), 'float32'))"),
        (Kernels, "Kernels(args=SimpleNamespace(sizes='3-3'))"),
        (Evaluated, "Evaluated(args=SimpleNamespace(widths='[64, 64]'))"),
        (Tagger, "Tagger(labels=['PAD', 'PAD'])"),
        (Policy, "Policy(space=SimpleNamespace(n=64))"),
        (Upsampling, "Upsampling(options={'mode': 'nearest'})"),
        (
            Zeroed,
            ("Zeroed(block=type('Module', (torch.nn.Identity,), {'last': SimpleNamespace(weight=torch.ones(64))})())"),
        ),
        (
            Judging,
            (
                "Judging(model=type('Module', (torch.nn.Linear,), "
                "{'width': 64, 'forward': torch.nn.Identity.forward})(1, 1))"
            ),
        ),
        (Held, "Held(backbone=torch.nn.Linear(64, 64))"),
        (Channels, "Channels(channels=64)"),
        (Wrapped, "Wrapped(model='resnet18')"),
        (Looked, "Looked(encoder='narrow', encoder_conf={'widths': [64, 64]})"),
        (Streaming, "Streaming(encoder='narrow', encoder_conf={'widths': [64, 64]})"),
        (Discrete, "Discrete(space=type('Finite', (SimpleNamespace,), {})(n=64))"),
        (Clamped, "Clamped(base=PlainScoring())"),
        (Planned, "Planned(width=64, plan={})"),
        (
            Trained,
            (
                "Trained(optimizer=torch.optim.Adam([torch.nn.Parameter(torch.ones(1))]), scheduler=torch.optim."
                "lr_scheduler.ConstantLR(torch.optim.Adam([torch.nn.Parameter(torch.ones(1))])), "
                "kind=torch.optim.Adam, loss=torch.nn.Identity(), metrics=[torch.nn.Identity(), torch.nn.Identity()])"
            ),
        ),
        (Agents, "Agents(agents={'a': Agent(width=64), 'b': Agent(width=64)})"),
        (Spherical, "Spherical(lmax=2)"),
        (Dropped, "Dropped(args=SimpleNamespace(dropout='[0.1, 0.1]'))"),
        (Assembled, "Assembled(neck={'type': 'Neck', 'num_outs': 2, 'widths': [64, 64]})"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_they_are_found(cls, expression):
    search = Search(cls.__name__, cls, SCOPE, attempt)
    result = search.run()
    assert result is not None, (search.tried, search.error)
    assert result[0] == expression


def test_of_numbers_that_are_compared_each_may_be_what_the_largest_is():
    with pytest.raises(AssertionError) as raised:
        Whitening(2)
    assert "1000" in complaint_of(raised.value).values


def test_a_member_of_an_enumeration_has_its_full_name_where_the_file_has_none_for_it(tmp_path, monkeypatch):
    (tmp_path / "kinds_of_fields.py").write_text(
        """
import enum
from torch import nn

class Kind(enum.Enum):
    TOKEN = 1

class Fields(nn.Module):
    def __init__(self, kind):
        super().__init__()
        if kind == Kind.TOKEN:
            self.part = nn.Embedding(4, 4)
        self.part.weight
"""
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    kinds = importlib.import_module("kinds_of_fields")
    for scope, found in (
        ({}, "Fields(kind=kinds_of_fields.Kind.TOKEN)"),
        ({"Sort": kinds.Kind}, "Fields(kind=Sort.TOKEN)"),
    ):
        assert Search("Fields", kinds.Fields, {"Fields": kinds.Fields, **scope}, attempt).run()[0] == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("n_outputs not specified.", ("n_outputs",)),
        ("width could not be inferred. Either specify width or depth.", ("width",)),
        ("You have to specify either depth or width", ("depth",)),
        ("the shape is not a given one", ()),
    ],
)
def test_arguments_that_a_message_misses_without_setting_them_apart(text, found):
    assert told_missing(text, {"n_outputs", "width", "depth"}) == found


def test_an_expression_may_use_a_package_in_a_function():
    code = compile("lambda: argparse.Namespace(width=1)", "<construct>", "eval")
    assert eval(code, with_packages(code, {}))().width == 1


def test_a_word_that_begins_like_a_preposition_lists_nothing():
    assert quoted("Either specify rate or input_seconds and times") == []


@pytest.mark.parametrize(
    "name",
    ["config", "cfg", "opt", "hparams", "model_args", "NetConfig", "MODEL_CONFIGS", "TrainingArguments"],
)
def test_what_configurations_are_called(name):
    assert is_configuration(name)


@pytest.mark.parametrize("name", ["kwargs", "depth", "optional", "adopt", "Confidence", "params_count"])
def test_what_configurations_are_not_called(name):
    assert not is_configuration(name)


def test_what_holds_the_path_of_a_configuration():
    assert [holds_configuration(each) for each in ("cfg_path", "yaml_file", "json", "weights", "confidence_file")] == [
        True, True, True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("user_id_field", "'a'"),
        ("use_bias", "True"),
        ("ch_mult", "2"),
        ("eos_token_id", "0"),
        ("num_special_tokens", "2"),
        ("mask_token", "64"),
        ("encoded_fmap_size", "8"),
        ("map_size", "64"),
        ("n_times", "512"),
        ("n_chans", "64"),
    ],
)
def test_usual_values(name, first):
    assert (usual_values(name) or ("64",))[0] == first

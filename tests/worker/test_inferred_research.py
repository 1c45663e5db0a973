"""What code of researchers takes: records, tables of classes, options with nested parts, classes by name, callables."""

import importlib
import operator
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from fxworker.arguments import Search
from fxworker.building import attempt
from fxworker.complaints import complaint_of
from fxworker.conventions import usual_values
from fxworker.patience import OutOfPatience
from fxworker.usage import usage_of
from fxworker.wording import missing_in, quoted
from tests.worker.harness import of


class Options(dict):
    """Gives its items as attributes too, as many libraries' own mappings do."""

    def __getattr__(self, name):
        try:
            found = self[name]
            return Options(found) if type(found) is dict else found
        except KeyError as error:
            raise AttributeError(f"'Options' object has no attribute '{name}'", name=name, obj=self) from error


class Zero(nn.Module):
    def __init__(self, stride):
        super().__init__()
        self.stride = stride


OPERATIONS = {"none": lambda width, stride: Zero(stride), "pool": lambda width, stride: nn.MaxPool2d(3, stride)}


class Cell(nn.Module):
    def __init__(self, genotype, width, reduction):
        super().__init__()
        if reduction:
            names, indices = zip(*genotype.reduce, strict=True)
            concat = genotype.reduce_concat
        else:
            names, indices = zip(*genotype.normal, strict=True)
            concat = genotype.normal_concat
        self.out = len(concat)
        self._compile(width, names, indices)

    def _compile(self, width, names, indices):
        self.parts = nn.ModuleList()
        for name, index in zip(names, indices, strict=True):
            self.parts += [OPERATIONS[name](width, 2 if index < 2 else 1)]


class Searched(nn.Module):
    def __init__(self, genotype, width):
        super().__init__()
        self.cells = nn.ModuleList([Cell(genotype, width, each == 1) for each in range(2)])


class Towers(nn.Module):
    def __init__(self, users: list[tuple[str, int]], items: list[tuple[str, int]], width: int):
        super().__init__()
        self.users = nn.ModuleDict({name: nn.Embedding(count, width) for name, count in users})
        self.items = nn.ModuleDict({name: nn.Embedding(count, width) for name, count in items})


class Named(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.columns = nn.ModuleDict({name.lower(): nn.Embedding(size, 4) for name, size in columns})


class One(nn.Module):
    def __init__(self, h, width, dilation):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv1d(width, width, 3, dilation=each) for each in dilation])


class Other(One):
    pass


class Vocoder(nn.Module):
    def __init__(self, h):
        super().__init__()
        block = One if h.block == "1" else Other
        self.blocks = nn.ModuleList([block(h, h.width, each) for each in h.dilations])


class Synthesizer(nn.Module):
    def __init__(self, width, block, dilations, **kwargs):
        super().__init__()
        h = SimpleNamespace(width=width, block=block, dilations=dilations)
        self.vocoder = Vocoder(h)


class Wave(nn.Module):
    def __init__(self, layer_size, width):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(layer_size)])
        self.table = list(range(width))


def made_from(config):
    module, name = config["target"].rsplit(".", 1)
    return getattr(importlib.import_module(module), name)(**config.get("params", {}))


class WithLoss(nn.Module):
    def __init__(self, loss_config):
        super().__init__()
        self.loss = made_from(loss_config)


class Old(nn.Module):
    def __init__(self, hparams):
        super().__init__()
        self.hparams = Options(hparams)
        self.fc = nn.Linear(self.hparams.in_dim, self.hparams.n_out)


class AnyHow(nn.Module):
    def __init__(self, **kwargs):
        super().__init__()
        self.hparams = Options(kwargs)
        self.fc = nn.Linear(self.hparams.in_dim, 2)


class Planned(nn.Module):
    def __init__(self, plans: dict, configuration: str):
        super().__init__()
        plan = plans["configurations"][configuration]
        kernels = plan["kernel_sizes"]
        conv = {2: nn.Conv2d, 3: nn.Conv3d}[len(kernels[0])]
        self.convs = nn.ModuleList([conv(4, 4, each, padding=[k // 2 for k in each]) for each in kernels])


class Words(nn.Module):
    def __init__(self, vocab, unknown="<unk>"):
        super().__init__()
        self.table = nn.Embedding(len(vocab), 8, padding_idx=vocab.stoi["<pad>"])
        self.unknown = vocab.stoi[unknown]


class Box:
    def __init__(self, low, high):
        self.shape = (low, high)


class Acting(nn.Module):
    def __init__(self, space):
        super().__init__()
        if isinstance(space, Box):
            self.fc = nn.Linear(space.shape[0], 2)
        else:
            raise NotImplementedError(type(space))


class Hyper(nn.Module):
    def __init__(self, target: nn.Module, width: int):
        super().__init__()
        self.heads = nn.ModuleList([nn.Linear(width, each.numel()) for each in target.parameters()])
        if not self.heads:
            raise ValueError("target has no parameters")


class Coupling(nn.Module):
    def __init__(self, factory: Callable[[int, int], nn.Module], context: int):
        super().__init__()
        self.scale = factory(context + 2, context)


class Prior(nn.Module):
    def __init__(self, prior: Distribution, base: Callable[[], Distribution]):
        super().__init__()
        self.mean = prior.mean + base().mean


class Losses(nn.Module):
    def __init__(self, losses: dict, weights: dict[str, float]):
        super().__init__()
        self.losses = nn.ModuleDict(losses)
        self.weights = weights


class Prompted(nn.Module):
    def __init__(self, clip, names):
        super().__init__()
        names = [each.replace("_", " ") for each in names]
        prefix = clip.token_embedding(torch.zeros(len(names), 7, dtype=torch.long))
        self.register_buffer("prefix", prefix[:, :1, :])


class Strict(nn.Module):
    def __init__(self, units, size=4):
        super().__init__()
        if size != units:
            raise Unheard("they differ")  # noqa: F821 — A fault of the code that is looked at.


BLOCKS = {}


class Detector(nn.Module):
    def __init__(self, cfg, kind="Wide"):
        super().__init__()
        self.part = BLOCKS[kind](cfg)


class Wide(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.fc = nn.Linear(cfg.MODEL.WIDTH, cfg.MODEL.NUM_CLASSES)


BLOCKS["Wide"] = Wide


class Grayscale(nn.Module):
    def __init__(self, n_channels, n_classes):
        super().__init__()
        self.first = nn.Conv2d(in_channels=n_channels, out_channels=8, kernel_size=3)
        self.last = nn.Linear(8, n_classes)


@dataclass
class Widths:
    width: int


class Wanting(nn.Module):
    def __init__(self, **options):
        super().__init__()
        if options.get("k") is None:
            raise ValueError("The required argument `k` is missing.")
        self.parts = nn.ModuleList([nn.Linear(2, 2) for _ in range(options["k"])])


class Choosing(nn.Module):
    def __init__(self, extractor):
        super().__init__()
        known = ("inception", "vgg16")
        if extractor not in known:
            raise ValueError(f"Extractor '{extractor}' is not on the list provided ({', '.join(known)})")


class Later(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.hparams = config
        self._build()

    def _build(self):
        sizes = [int(each) for each in self.hparams.layers.split("-")] if self.hparams.layers else [self.hparams.width]
        self.fc = nn.Linear(self.hparams.width, len(sizes))


class Annotated(nn.Module):
    def __init__(self, options: Options):
        super().__init__()
        self.fc = nn.Linear(options.width, options.head.classes)


class Lacking(nn.Module):
    def __init__(self, setup):
        super().__init__()
        if setup.stem is None:
            self.fc = nn.Linear(setup.width, 2)
        else:
            self.fc = setup.stem.made()


class PackingConfig:
    def __init__(self, longest: int):
        self.longest = longest


class Encoding(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.fc = nn.Linear(config.width, config.depth)


class Fetched:
    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, **kwargs):
        assert "bert" in pretrained_model_name_or_path
        return cls()


class Tower(nn.Module):
    def __init__(self, model_name):
        super().__init__()
        self.config = Fetched.from_pretrained(model_name)


class Scalar(nn.Module):
    def __init__(self, units=None):
        super().__init__()
        if not units:
            raise ValueError("`units` must be given")
        self.units = units if isinstance(units, float) else float(units.item() if isinstance(units, Tensor) else units)


class Typed(nn.Module):
    def __init__(self, kind: type[nn.modules.conv._ConvNd], width: int):
        super().__init__()
        self.conv = kind(width, width, 3)


class Known(nn.Module):
    def __init__(self, op, width):
        super().__init__()
        if op == nn.Conv1d:
            self.dim = 1
        elif op == nn.Conv2d:
            self.dim = 2
        else:
            raise RuntimeError(f"Invalid op: {op}")
        self.conv = op(width, width, 3)


class Valued(nn.Module):
    def __init__(self, borders: Tensor):
        super().__init__()
        assert borders.to(torch.get_default_device()).sum().item() > 0
        self.register_buffer("borders", borders)


class Registry:
    def __init__(self, name):
        self.name = name
        self.table = {}

    def register(self, cls):
        self.table[cls.__name__] = cls
        return cls

    def made(self, options):
        options = dict(options)
        kind = options.pop("type")
        if kind not in self.table:
            raise KeyError(f"{kind} is not in the {self.name} registry")
        return self.table[kind](**options)


STEMS, HEADS = Registry("stem"), Registry("head")


@STEMS.register
class Stem(nn.Module):
    depths: ClassVar = {18: (2, 2), 34: (3, 4)}

    def __init__(self, depth):
        super().__init__()
        if depth not in self.depths:
            raise KeyError(f"invalid depth {depth} for this stem")
        self.fc = nn.Linear(depth, 4)


@HEADS.register
class Head(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.fc = nn.Linear(4, num_classes)


class Staged(nn.Module):
    def __init__(self, stem: dict, head: dict | None = None):
        super().__init__()
        self.stem = STEMS.made(stem)
        head.update({"num_classes": head.get("num_classes", 5)})
        self.head = HEADS.made(head)


class Scheduled(nn.Module):
    def __init__(self, scheduler, sizes: dict[tuple[str, str], nn.Module]):
        super().__init__()
        self.register_buffer("alphas", torch.tensor([scheduler.alpha(each) for each in range(scheduler.steps)]))
        self.parts = nn.ModuleDict({"_".join(each): part for each, part in sizes.items()})


class Tasks(nn.Module):
    def __init__(self, tasks, task_dims):
        super().__init__()
        if len(tasks) != len(task_dims):
            raise ValueError("so many tasks as sizes")
        self.heads = nn.ModuleDict({each: nn.Linear(4, size) for each, size in zip(tasks, task_dims, strict=True)})


class Weighted(nn.Module):
    def __init__(self, parts: dict[str, nn.Module], weights: dict[str, float]):
        super().__init__()
        assert set(parts) >= set(weights)
        self.parts = nn.ModuleDict(parts)


def searched(cls):
    return Search(cls.__name__, cls, {**globals(), "nn": nn}, partial(attempt, real=False))


@pytest.mark.parametrize(
    ("cls", "expression"),
    [
        (
            Searched,
            (
                "Searched(genotype=SimpleNamespace(reduce=[('none', 2), ('none', 2)], reduce_concat=[64, 64], "
                "normal=[('none', 2), ('none', 2)], normal_concat=[64, 64]), width=64)"
            ),
        ),
        (Towers, "Towers(users=[('a', 64), ('b', 64)], items=[('a', 64), ('b', 64)], width=64)"),
        (Named, "Named(columns=[('a', 1000), ('b', 1000)])"),
        (Vocoder, "Vocoder(h=SimpleNamespace(block='1', dilations=[(2, 2), (2, 2)], width=64))"),
        (Synthesizer, "Synthesizer(width=64, block='1', dilations=[(2, 2), (2, 2)])"),
        (Wave, "Wave(layer_size=2, width=64)"),
        (WithLoss, "WithLoss(loss_config={'target': 'torch.nn.Identity'})"),
        (Old, "Old(hparams=Options({'in_dim': 64, 'n_out': 64}))"),
        (AnyHow, "AnyHow(in_dim=64)"),
        (
            Planned,
            (
                "Planned(plans={'configurations': {'a': {'kernel_sizes': [(2, 2), (2, 2)]}, "
                "'b': {'kernel_sizes': [(2, 2), (2, 2)]}}}, configuration='a')"
            ),
        ),
        (
            Words,
            (
                "Words(vocab=type('Sized', (SimpleNamespace,), {'__len__': lambda self: 1000})"
                "(stoi={'<pad>': 0, '<unk>': 1}))"
            ),
        ),
        (Acting, "Acting(space=Box(low=64, high=64))"),
        (Hyper, "Hyper(target=torch.nn.Linear(64, 64), width=64)"),
        (Coupling, "Coupling(factory=torch.nn.Linear, context=32)"),
        (
            Prior,
            (
                "Prior(prior=torch.distributions.Normal(0.0, 1.0), "
                "base=lambda *_, **__: torch.distributions.Normal(0.0, 1.0))"
            ),
        ),
        (
            Losses,
            "Losses(losses={'a': torch.nn.Identity(), 'b': torch.nn.Identity()}, weights={'a': 0.1, 'b': 0.1})",
        ),
        (
            Prompted,
            ("Prompted(clip=SimpleNamespace(token_embedding=torch.nn.Embedding(1000, 64)), names=['relu', 'relu'])"),
        ),
        (Strict, "Strict(units=64, size=64)"),
        (Detector, "Detector(cfg=Options({'MODEL': {'WIDTH': 64, 'NUM_CLASSES': 10}}))"),
        (Grayscale, "Grayscale(n_channels=3, n_classes=10)"),
        (Wanting, "Wanting(k=2)"),
        (Choosing, "Choosing(extractor='inception')"),
        (Annotated, "Annotated(options=Options({'width': 64, 'head': {'classes': 64}}))"),
        (Lacking, "Lacking(setup=SimpleNamespace(stem=None, width=64))"),
        (Encoding, "Encoding(config=SimpleNamespace(width=64, depth=2))"),
        (Tower, "Tower(model_name='bert-base-uncased')"),
        (Valued, "Valued(borders=torch.ones(64))"),
        (Staged, "Staged(stem={'type': 'Stem', 'depth': 18}, head={'type': 'Head', 'num_classes': 10})"),
        (
            Scheduled,
            (
                "Scheduled(scheduler=SimpleNamespace(steps=2, alpha=lambda *_, **__: 1), "
                "sizes={('a', 'a'): torch.nn.Identity(), ('b', 'b'): torch.nn.Identity()})"
            ),
        ),
        (Tasks, "Tasks(tasks=['a', 'b'], task_dims=(64, 64))"),
        (
            Weighted,
            "Weighted(parts={'a': torch.nn.Identity(), 'b': torch.nn.Identity()}, weights={'a': 0.1, 'b': 0.1})",
        ),
        (Typed, "Typed(kind=torch.nn.Conv2d, width=64)"),
        (Known, "Known(op=torch.nn.Conv2d, width=64)"),
        (Scalar, "Scalar(units=64)"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_they_are_found(cls, expression):
    search = searched(cls)
    result = search.run()
    assert result is not None, (search.tried, search.error)
    assert result[0] == expression


def test_what_a_file_gives_another_name_is_followed():
    usage = usage_of(Searched)
    assert usage["genotype.reduce_concat"].kind == usage["genotype.normal_concat"].kind == "sequence"
    assert usage["genotype.reduce[]"].turned


def test_a_number_of_parts_is_told_from_a_width():
    usage = usage_of(Wave)
    assert (usage["layer_size"].counts, usage["width"].counts) == (True, False)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The required argument `k` is missing.", ("k",)),
        ("`width` must be specified", ("width",)),
        ("please provide the argument 'depth'", ("depth",)),
        ("missing the option 'depth'", ("depth",)),
        ("the parameter size should be given", ("size",)),
        (
            "2 errors for Net\nwidth\n  field required (type=value_error.missing)\ndepth\n  Field required [",
            ("width", "depth"),
        ),
        ("'auto' is not a known mode", ()),
    ],
)
def test_arguments_that_a_message_misses(text, found):
    assert missing_in(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("'x' is not on the list provided (vgg16, resnet-50)", ["'vgg16'", "'resnet-50'", "'x'"]),
        ("unknown kind, try {wide|deep}", ["'wide'", "'deep'"]),
        ("it has to be smaller (see the paper of 2017, section 3)", []),
        ("mode should be one of: linear, cubic", ["'linear'", "'cubic'"]),
    ],
)
def test_options_that_a_message_lists(text, found):
    assert quoted(text) == found


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("DEPTHS", "2"),
        ("NUM_CLASSES", "10"),
        ("upsample_rates", "2"),
        ("sample_rate", "16000"),
        ("n_fft", "512"),
        ("drop_rate", "0.1"),
        ("text_model_name_or_path", "'bert-base-uncased'"),
        ("N", "2"),
        ("use_batch_norm", "True"),
        ("use_dropout", "True"),
        ("proj_kernel", "3"),
    ],
)
def test_usual_values(name, first):
    assert usual_values(name)[0] == first


def test_items_of_a_list_that_is_asked_by_name():
    with pytest.raises(TypeError) as caught:
        operator.getitem([1], "kind")
    complaint = complaint_of(caught.value)
    assert (complaint.kind, complaint.got) == ("mapping", "list")


def test_what_an_object_is_made_of_is_followed():
    usage = usage_of(Synthesizer)
    assert usage["dilations[]"].kind == "sequence"
    assert "h" not in usage


def test_methods_that_a_constructor_calls_are_read():
    assert {"config.layers", "config.width"} <= usage_of(Later).keys()


def test_what_took_too_long_is_made_smaller():
    assert complaint_of(OutOfPatience()).values == ("2", "1")


SLOW = """
import time
until = time.process_time() + 0.4
while time.process_time() < until:
    pass
"""


class Importing(nn.Module):
    def __init__(self, kind):
        super().__init__()
        importlib.import_module("slow_to_import")
        if kind not in {"wide", "deep"}:
            raise ValueError(kind)


def test_the_time_of_imports_is_not_that_of_the_search(tmp_path, monkeypatch):
    (tmp_path / "slow_to_import.py").write_text(SLOW)
    monkeypatch.syspath_prepend(tmp_path)
    assert searched(Importing).run(seconds=0.3) is not None
    sys.modules.pop("slow_to_import")


class Starting(nn.Module):
    def __init__(self, width, depth, heads, mode):
        super().__init__()
        subprocess.run([sys.executable, "-S", "-c", SLOW], check=True)
        raise ValueError("no accelerator")


def test_the_time_of_programs_that_are_started_is_that_of_the_search():
    search = searched(Starting)
    assert search.run(seconds=0.3) is None
    assert search.trials == 1


GIVEN = []


class Reading(nn.Module):
    def __init__(self, config_path):
        super().__init__()
        GIVEN.append(config_path)
        raise ValueError("unknown format")


def test_no_number_is_given_for_a_file():
    assert searched(Reading).run() is None
    assert GIVEN
    assert not any(isinstance(each, int) for each in GIVEN)


class Stage(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(3, each, options.encoder.kernel_size) for each in options.encoder.widths)
        self.head = nn.Linear(options.decoder.width, options.decoder.num_classes)


class Encoder(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.fc = nn.Linear(options.width, 2)


def test_a_section_of_a_configuration_is_no_module():
    expression, root = Search("Stage", Stage, globals(), partial(attempt, real=False)).run()
    assert "Encoder(" not in expression
    assert "encoder=SimpleNamespace(" in expression
    assert len(root.layers) == 2


class Together(nn.Module):
    def __init__(self, options):
        super().__init__()
        widths, depths = options["widths"], options["depths"]
        assert len(widths) == len(depths)
        assert max(options.get("indices", (0, 1, 2, 3))) < len(depths)
        self.layers = nn.ModuleList(nn.Linear(width, 2) for width in widths)


def test_lists_of_one_owner_get_another_length_together():
    search = Search("Together", Together, globals(), partial(attempt, real=False))
    _, root = search.run()
    assert len(root.layers) == 4
    assert search.trials <= 5


def test_a_default_that_only_says_that_there_must_be_something_is_none(worker, model):
    text = """
from torch import nn

class Net(nn.Module):
    def __init__(self, width: int = 8, config=...):
        super().__init__()
        self.fc = nn.Linear(width, config.depth)

    def forward(self, x):
        return self.fc(x)
"""
    net = of(worker.trace(model(text)), "Net")
    assert net.construct is not None
    assert "config=SimpleNamespace(depth=" in net.construct.expression


def test_what_was_tried_in_vain_is_told_in_one_line(worker, model):
    text = """
from torch import nn

class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        raise ValueError("2 errors\\n  one\\n  two")

    def forward(self, x):
        return x
"""
    (problem,) = of(worker.trace(model(text)), "Net").problems
    told = f"{problem.message} {problem.explanation}"
    assert "ValueError: 2 errors one two" in told


def test_that_something_took_too_long_is_told_in_words(worker, model):
    text = """
from torch import nn

class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        while id(width):
            pass

    def forward(self, x):
        return x
"""
    (problem,) = of(worker.trace(model(text)), "Net").problems
    assert problem.explanation == "tried `Net(width=64)`: it took too long"


class Quadratic(nn.Module):
    """Makes a mask entry by entry."""

    def __init__(self, width, sequence_length, heads):
        super().__init__()
        self.mask = torch.ones(sequence_length**2)
        for at in range(sequence_length**2 * 200):
            self.mask[at % len(self.mask)] = float(at)
        self.fc = nn.Linear(width, width // heads)


def test_what_takes_too_long_with_usual_numbers_is_made_with_small_ones():
    search = Search("Quadratic", Quadratic, {"torch": torch, "Quadratic": Quadratic}, partial(attempt, real=False))
    found = search.run()
    assert found is not None
    assert found[0] == "Quadratic(width=8, sequence_length=8, heads=4)"
    assert search.trials == 2

"""Arguments that are more than a number: configurations, modules, classes, lists, tables, and what errors ask for."""

import abc
import argparse
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import ClassVar, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from fxworker.arguments import Search
from fxworker.building import attempt
from fxworker.complaints import complaint_of
from fxworker.usage import usage_of

ACTIVATIONS = {"swish": nn.SiLU, "mish": nn.Mish}


class Namespace(nn.Module):
    def __init__(self, config):
        super().__init__()
        assert config.n_embd % config.n_head == 0
        self.fc = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.inner = Deeper(config)


class Deeper(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.fc = nn.Linear(cfg.n_embd, cfg.model.width)
        self.drop = nn.Dropout(getattr(cfg, "dropout", 0.1))


class Mapping(nn.Module):
    def __init__(self, opt):
        super().__init__()
        self.emb = nn.Embedding(opt["vocab_size"], opt["dim"])
        self.layers = opt.get("layers", 2)


@dataclass
class Settings:
    width: int
    depth: int = 2


class Required(nn.Module):
    def __init__(self, settings: Settings):
        super().__init__()
        self.fc = nn.Linear(settings.width, settings.depth)


class Basic(nn.Module):
    expansion = 2

    def __init__(self, inner, outer):
        super().__init__()
        self.conv = nn.Conv2d(inner, outer * self.expansion, 3)


class Stack(nn.Module):
    def __init__(self, block, layers):
        super().__init__()
        self.one = self._make(block, layers[0])
        self.two = self._make(block, layers[3])
        self.out = nn.Linear(block.expansion, 3)

    def _make(self, block, count):
        return nn.Sequential(*(block(4, 4) for _ in range(count)))


class Pairs(nn.Module):
    def __init__(self, spec, sizes):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(a, b, k) for a, b, k in spec)
        _first, _second, _third = sizes


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.hid_dim = width


class Wrapper(nn.Module):
    def __init__(self, encoder, net):
        super().__init__()
        self.encoder = encoder
        self.fc = nn.Linear(encoder.hid_dim, net.out_features_of_it)
        self.net = net

    def forward(self, x):
        return self.net(self.encoder(x))


class Table(nn.Module):
    def __init__(self, act, unknown):
        super().__init__()
        self.act = ACTIVATIONS[act]()
        if unknown not in ["left", "right"]:
            raise ValueError(unknown)


class Told(nn.Module):
    def __init__(self, thing):
        super().__init__()
        self._check(thing)

    def _check(self, value):
        if not (isinstance(value, str) and value.startswith("ve")):
            raise ValueError(f"thing must be one of 'very', 'veritable', not {value}")


class Buffers(nn.Module):
    def __init__(self, betas, names):
        super().__init__()
        self.register_buffer("betas", betas)
        self.register_buffer("alphas", torch.cumprod(1.0 - betas, 0))
        self.index = {name: at for at, name in enumerate(names)}
        self.emb = nn.Embedding(len(names), 4)


class Keywords(Encoder):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)


class Factory(nn.Module):
    def __init__(self, width, make_norm):
        super().__init__()
        self.norm = make_norm(width)
        assert isinstance(self.norm, nn.Module)


class Doubtful(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        if dim // heads != 9:
            raise ValueError("a head must have 9 features")


class Column(NamedTuple):
    name: str
    size: int
    width: int = 4


class Columns(nn.Module):
    """Takes lists of records that it tells by their class, one of which is only ever added to the other."""

    def __init__(self, wide, deep):
        super().__init__()
        both = wide + deep
        chosen = [each for each in both if isinstance(each, Column)]
        self.tables = nn.ModuleDict({each.name: nn.Embedding(each.size, each.width) for each in chosen})
        assert len({each.name for each in deep}) == 2


class Loose(nn.Module):
    """Takes a list of records of no class."""

    def __init__(self, stages):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(stage.width, stage.outer) for stage in stages))


class Kernels(nn.Module):
    def __init__(self, parts):
        super().__init__()
        for part in parts:
            if not isinstance(part, Encoder):
                raise TypeError("only encoders fit together")
        self.parts = nn.ModuleList(parts)


class Annotated(nn.Module):
    def __init__(self, columns: list[Column]):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(each.size, each.width) for each in columns)


class Prefixed(nn.Module):
    def __init__(self, fields):
        super().__init__()
        self.names = list(map(lambda each: "past_" + each, fields))  # noqa: C417 - What people write.


BINARY, DENSE = "binary", "dense"


class Named(nn.Module):
    def __init__(self, mode):
        super().__init__()
        assert mode in {BINARY, DENSE}


class Reversed(nn.Module):
    """What is too short is known under another name where that shows."""

    def __init__(self, outer, count=5):
        super().__init__()
        inner = outer[1:]
        sizes = [*inner[::-1], 32]
        self.layers = nn.ModuleList(nn.Linear(sizes[at], sizes[at + 1]) for at in range(count))


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depth = width


class Levels(nn.Module):
    def __init__(self, levels: list, padding):
        super().__init__()
        assert levels in [[0, 1, 2, 3], [1, 2, 3], [3]]
        if padding != (2, 1):
            raise ValueError(padding)
        self.widths = [256, 512, 1024, 2048][4 - len(levels) :]


class Holding(nn.Module):
    """Its parts are called like classes of the file, and kept in one statement."""

    def __init__(self, encoder, attention, width):
        super().__init__()
        self.encoder, self.attention = encoder, attention
        self.fc = nn.Linear(width, 3)

    def forward(self, x):
        return self.attention(self.encoder(x), self.encoder.hid_dim)


class Secretive:
    """Answers no question."""

    def __getattr__(self, name):
        raise ImportError(name)

    def __call__(self):
        raise ImportError


SECRETIVE = Secretive()


class Optional(nn.Module):
    def __init__(self, width, kind):
        super().__init__()
        self.fc = nn.Linear(width, 3) if kind == "plain" else SECRETIVE.make(width, kind)


class Spread(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.first = Basic(**options["basic"])
        self.second = Encoder(**options["encoder"])


class Evaluated(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.part = eval(kind)(4, 4)


class Hashed(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.known = {sizes: nn.Linear(sizes[0], sizes[1])}


class Odd(nn.Module):
    def __init__(self, taps):
        super().__init__()
        if taps & 1 == 0:
            raise ValueError("taps must be odd")


class Masked(nn.Module):
    def __init__(self, degrees, features):
        super().__init__()
        self.register_buffer("mask", (torch.arange(features)[:, None] >= degrees).float())


CLASSES = [
    Namespace,
    Mapping,
    Required,
    Stack,
    Pairs,
    Wrapper,
    Table,
    Told,
    Buffers,
    Keywords,
    Factory,
]
CLASSES += [
    Columns,
    Loose,
    Kernels,
    Annotated,
    Prefixed,
    Named,
    Reversed,
    Masked,
    Levels,
    Holding,
    Optional,
    Odd,
    Spread,
    Evaluated,
    Hashed,
]


def scope() -> dict:
    return {"SimpleNamespace": SimpleNamespace, **globals()}


def searched(cls: type) -> Search:
    return Search(cls.__name__, cls, scope(), partial(attempt, real=False))


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_they_are_found_and_written_as_an_expression(cls):
    search = searched(cls)
    found = search.run()
    assert found is not None, (search.tried, search.error)
    expression, root = found
    assert type(root) is cls
    assert type(eval(expression, scope())) is cls
    assert search.trials <= 12


def test_the_expression_says_no_more_than_is_needed():
    expression, _ = searched(Mapping).run()
    assert expression == "Mapping(opt={'vocab_size': 1000, 'dim': 64})"
    expression, _ = searched(Required).run()
    assert expression == "Required(settings=Settings(width=64))"
    expression, _ = searched(Holding).run()
    assert expression == "Holding(encoder=Encoder(width=64), attention=Attention(width=64), width=64)"
    expression, _ = searched(Stack).run()
    assert expression == "Stack(block=Basic, layers=[2, 2, 2, 2])"


def test_items_of_a_list_are_told_apart():
    expression, _ = searched(Annotated).run()
    assert expression == "Annotated(columns=[Column(name='name0', size=64), Column(name='name1', size=64)])"


class Displayed(nn.Module):
    """Has a list where the type of one is meant."""

    def __init__(self, dims: [int], width: int, *, names: {str: int}):
        super().__init__()
        sizes = [width, *dims]
        self.layers = nn.Sequential(*(nn.Linear(one, other) for one, other in itertools.pairwise(sizes)))
        self.heads = nn.ModuleDict({name: nn.Linear(sizes[-1], size) for name, size in names.items()})


def test_a_list_of_a_type_is_an_annotation_of_lists():
    _, found = searched(Displayed).run()
    assert len(found.layers) >= 2
    assert len(found.heads) >= 1


def test_a_class_that_the_file_does_not_name_is_named_by_its_package():
    search = Search("Annotated", Annotated, {"Annotated": Annotated}, partial(attempt, real=False))
    expression, _ = search.run()
    assert f"[{__name__}.Column(name='name0', size=64), " in expression


def test_what_a_package_lacks_ends_the_search():
    class Lacking(nn.Module):
        def __init__(self, dim, depth):
            super().__init__()
            import no_such_package  # noqa: F401

    search = Search("Lacking", Lacking, {"Lacking": Lacking}, partial(attempt, real=False))
    assert search.run() is None
    assert search.trials == 1
    assert isinstance(search.error, ModuleNotFoundError)


def test_what_constructors_do_tells_what_a_parameter_is():
    kinds = {path: use.kind for path, use in usage_of(Namespace).items()}
    assert kinds["config"] == "object"
    assert kinds["config.n_embd"] == "number"
    assert kinds["config.model.width"] == "number"
    kinds = {path: use.kind for path, use in usage_of(Stack).items()}
    assert kinds["layers"] == "sequence"
    assert usage_of(Stack)["block"].kinds.keys() == {"class", "object"}
    assert usage_of(Stack)["layers"].least == 4
    assert usage_of(Pairs)["spec[]"].count == 3
    assert usage_of(Pairs)["sizes"].count == 3
    assert usage_of(Table)["act"].literals == ["'swish'", "'mish'"]
    assert usage_of(Buffers)["betas"].kind == "tensor"


def raised(work):
    try:
        work()
    except Exception as error:  # noqa: BLE001 - any exception is what is read.
        return complaint_of(error)
    raise AssertionError


def test_errors_say_what_they_want():
    assert raised(lambda: len(3)).kind == "sequence"
    assert raised(3).kind == "class"
    assert raised(lambda: 3 + None).kind == "number"
    assert raised(lambda: "a".nothing).lacks == "nothing"
    assert raised(lambda: (3).lower).kind == "string"
    assert raised(lambda: Basic(1)).missing == ("outer",)
    assert raised(lambda: Basic(1, 2, three=3)).unexpected == "three"
    assert raised(lambda: ACTIVATIONS["none"]).values == ("'swish'", "'mish'")

    def unpack(pair):
        _one, _two, _three = pair

    assert raised(lambda: unpack((1, 2))).length == 3


class Listed(nn.Module):
    def __init__(self, blocks=None):
        super().__init__()
        assert isinstance(blocks, list), "blocks should be a list"


def test_what_a_message_says_in_words_is_heard():
    expression, _ = searched(Listed).run()
    assert expression.startswith("Listed(blocks=[")


class Part(nn.Module, abc.ABC):
    @abc.abstractmethod
    def forward(self, x): ...


class WidePart(Part):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, 2 * width)

    def forward(self, x):
        return self.fc(x)


class Parts(nn.Module):
    def __init__(self, first: Part, others: Sequence[Part]):
        super().__init__()
        if len(others) == 0:
            raise ValueError("arg 'others' was empty!")
        self.parts = nn.ModuleList([first, *others])


class Chosen(nn.Module):
    """Its `kind` is "LSTM" or "GRU"."""

    def __init__(self, kind, width):
        super().__init__()
        self.rnn = getattr(nn, kind)(input_size=width, hidden_size=width, num_layers=2)


class Looking(nn.Module):
    def __init__(self, **kwargs):
        super().__init__()
        self.fc = nn.Linear(kwargs["width"], kwargs.pop("depth"))


class Spreading(nn.Module):
    def __init__(self, options: dict):
        super().__init__()
        if not all(isinstance(each, int) for each in options.values()):
            raise RuntimeError
        self.part = WidePart(**options)
        assert self.part.fc.in_features > 1


class Versatile(nn.Module):
    settings: ClassVar = {"small": {"width": 8}, "large": {"width": 16}}

    def __init__(self, size):
        super().__init__()
        if isinstance(size, str):
            assert size in self.settings
            size = self.settings[size]
        self.fc = nn.Linear(size["width"], 2)


class Space:
    pass


class Steps(Space):
    def __init__(self, n):
        self.n = n


class Box(Space):
    def __init__(self, shape):
        self.shape = shape


class Acting(nn.Module):
    def __init__(self, space: Space):
        super().__init__()
        if isinstance(space, Box):
            width = 4
        elif isinstance(space, Steps | int):
            width = 2
        else:
            raise TypeError("Unsupported space.")
        self.fc = nn.Linear(4, width)


class Meta(type):
    def __call__(cls, *args, **kwargs):
        return super().__call__(*args, **kwargs)


class Handed(nn.Module, metaclass=Meta):
    def __init__(self, *, width=None, other=None):
        super().__init__()
        if width is None and other is None:
            raise ValueError("At least one of `width` or `other` must be given.")
        self.fc = nn.Linear(width or 2, 2)


class Marking(nn.Module):
    def __init__(self, model):
        super().__init__()
        last = model.stages[-1]
        last.in_place = False
        self.model = model


@pytest.mark.parametrize(
    "cls", [Parts, Chosen, Looking, Spreading, Versatile, Acting, Handed, Marking], ids=lambda cls: cls.__name__
)
def test_they_are_found_by_what_stands_around(cls):
    result = searched(cls).run()
    assert result is not None, cls
    assert isinstance(result[1], cls)


def test_a_subclass_is_given_for_a_class_that_is_only_there_to_be_inherited_from():
    expression, _ = searched(Parts).run()
    assert expression == "Parts(first=WidePart(width=64), others=[WidePart(width=64), WidePart(width=64)])"


def test_what_a_mapping_is_handed_on_to_says_what_is_in_it():
    expression, _ = searched(Spreading).run()
    assert expression == "Spreading(options={'width': 64})"


class Tagger(nn.Module):
    def __init__(self, tokenizer, vocab):
        super().__init__()
        self.emb = nn.Embedding(len(tokenizer), 8, padding_idx=tokenizer.pad_token_id)
        self.out = nn.Embedding(len(vocab), 8, padding_idx=vocab["<pad>"])


class Updated(nn.Module):
    def __init__(self, **kwargs):
        super().__init__()
        self.__dict__.update(kwargs)
        self.fc = nn.Linear(self.wide, self.deep)


class Process(nn.Module):
    def __init__(self, train_x: Tensor, train_y: Tensor):
        super().__init__()
        if train_x.dim() != 2 or train_y.shape[-1] != 1:
            raise ValueError("Expected train_x of shape n x d and train_y of shape n x 1.")
        self.register_buffer("x", train_x)


class Relations(nn.Module):
    def __init__(self, edge_types, sizes: dict):
        super().__init__()
        self.relations = nn.ModuleDict({"_".join(each): nn.Linear(2, 2) for each in edge_types})
        self.sizes = nn.ModuleDict({name: nn.Linear(size, 2) for name, size in sizes.items()})


class Mirror(nn.Module):
    def __init__(self, other: Relations):
        super().__init__()
        self.relations = other.relations


BLOCKS = {}


def made(options, **kwargs):
    options = dict(options)
    return BLOCKS[options.pop("type")](**options, **kwargs)


class Registered(nn.Module):
    def __init__(self, block, others):
        super().__init__()
        self.first = made(block)
        self.others = nn.ModuleList([made(others, width=each) for each in (2, 3)])


BLOCKS["wide"] = WidePart


@dataclass
class Missing:
    width: int = "???"
    depth: int = 2


class Configured(nn.Module):
    def __init__(self, config: Missing):
        super().__init__()
        self.fc = nn.Linear(config.width, config.depth)


@pytest.mark.parametrize(
    ("cls", "expression"),
    [
        (
            Tagger,
            (
                "Tagger(tokenizer=type('Sized', (SimpleNamespace,), {'__len__': lambda self: 1000})(pad_token_id=0), "
                "vocab={'<pad>': 0})"
            ),
        ),
        (Updated, "Updated(wide=64, deep=64)"),
        (Process, "Process(train_x=torch.ones(64, 64), train_y=torch.ones(64, 1))"),
        (Relations, "Relations(edge_types=[('a', 'to', 'b'), ('b', 'to', 'a')], sizes={'a': 64, 'b': 64})"),
        (
            Mirror,
            "Mirror(other=Relations(edge_types=[('a', 'to', 'b'), ('b', 'to', 'a')], sizes={'a': 64, 'b': 64}))",
        ),
        (Registered, "Registered(block={'type': 'wide', 'width': 64}, others={'type': 'wide'})"),
        (Configured, "Configured(config=Missing(width=64))"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_what_files_of_researchers_take(cls, expression):
    result = searched(cls).run()
    assert result is not None
    assert result[0] == expression


class Parsed(nn.Module):
    def __init__(self, hparams, args: argparse.Namespace):
        super().__init__()
        if not isinstance(hparams, argparse.Namespace | dict):
            raise ValueError(f"Unsupported config type of {type(hparams)}.")  # noqa: TRY004 — As a library does it.
        self.fc = nn.Linear(hparams.n_channels, args.n_classes)


def test_what_a_command_line_gives_is_given():
    expression, _ = searched(Parsed).run()
    given = "hparams=argparse.Namespace(n_channels=64), args=argparse.Namespace(n_classes=10)"
    assert expression == f"Parsed({given})"


def test_an_error_about_a_namespace_says_what_it_got():
    complaint = raised(lambda: len(SimpleNamespace()))
    assert (complaint.kind, complaint.got) == ("sequence", "SimpleNamespace")


class Irreps(tuple):  # noqa: SLOT001 — As libraries have it.
    """Kinds of numbers, each with how many there are of it; of nothing by default."""

    def __new__(cls, irreps=None):
        parts = [] if irreps is None else [each.split("x") for each in irreps.split(" + ")]
        return super().__new__(cls, [(int(count), kind) for count, kind in parts])

    @property
    def dim(self):
        return sum(count * (2 * int(kind[0]) + 1) for count, kind in self)


class Equivariant(nn.Module):
    def __init__(self, irreps_in: Irreps, irreps_out: Irreps):
        super().__init__()
        self.fc = nn.Linear(irreps_in.dim, irreps_out.dim)


def test_a_sequence_that_is_empty_by_default_is_made_of_what_its_parameter_usually_is():
    search = Search("Equivariant", Equivariant, {**globals(), "Irreps": Irreps}, partial(attempt, real=False))
    expression, root = search.run()
    kinds = "Irreps(irreps='8x0e + 8x1o')"
    assert expression == f"Equivariant(irreps_in={kinds}, irreps_out={kinds})"
    assert root.fc.weight.shape == (32, 32)

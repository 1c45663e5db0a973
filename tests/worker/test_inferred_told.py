"""What an error tells about arguments besides a kind or a name: an item, a size, a key, how deep a list is."""

import copy
import inspect
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch
from torch import nn

from fxworker.arguments import Search
from fxworker.building import attempt
from fxworker.complaints import Complaint
from fxworker.variations import of_length_throughout, rising


class Levels(nn.Module):
    def __init__(self, levels):
        super().__init__()
        self.middle = levels.index(0.5)
        self.fc = nn.Linear(4, len(levels))


class Watching(nn.Module):
    def __init__(self, obs_shape):
        super().__init__()
        self.obs_shape = obs_shape
        self.eyes = nn.Sequential(nn.Conv2d(obs_shape[0], 8, 8, 4), nn.Conv2d(8, 8, 4, 2), nn.Conv2d(8, 8, 3, 1))
        self.fc = nn.Linear(self.seen(), 4)

    def seen(self):
        with torch.no_grad():
            return self.eyes(torch.zeros(1, *self.obs_shape)).flatten(1).shape[1]


class Roles(nn.Module):
    def __init__(self, roles: dict[str, dict[str, list[str]]]):
        super().__init__()
        self.roles = roles
        self.fc = nn.Linear(len(self.roles[PART]["static"]), len(self.roles[PART]["moving"]))


PART = "enc" + "oder"


class Bins(nn.Module):
    def __init__(self, bins: list[torch.Tensor]):
        super().__init__()
        if any(bool((each[:-1] >= each[1:]).any()) for each in bins):
            raise ValueError("Bin edges must be sorted.")
        self.fc = nn.Linear(len(bins), 4)


class Unassigned(nn.Module):
    """Makes a variable under conditions that its defaults do not meet."""

    def __init__(self, kind=None, flavor=None):
        super().__init__()
        if kind == "narrow" and flavor is None:
            width = 4
        elif isinstance(kind, dict):
            width = kind["width"]
        self.fc = nn.Linear(width, 4)


MODELS = {**vars(nn), "make_net": lambda: nn.Linear(4, 4)}


class FromModule(nn.Module):
    def __init__(self, arch):
        super().__init__()
        self.net = MODELS[arch]()


class Wide(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.fc = nn.Linear(width, depth)


class Narrow(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, 2)


class Evaluated(nn.Module):
    def __init__(self, kind, options):
        super().__init__()
        self.net = eval(kind)(width=8, depth=4)
        self.head = globals()[options["head"]](8)


class Rest(nn.Module):
    def __init__(self, total: int, used: int, kept: int):
        super().__init__()
        self.fc = nn.Linear(total - used - kept, 4)


class Seen(nn.Module):
    def __init__(self, seen: int):
        super().__init__()
        if isinstance(seen, dict):
            seen = sum(each for _, each in seen.items())
        elif not isinstance(seen, int):
            raise TypeError("nothing is seen")
        self.fc = nn.Linear(seen, 4)


def even(widths, ratios):
    for width, ratio in zip(widths, ratios, strict=True):
        assert width // ratio % width == 0


class Grouped(nn.Module):
    def __init__(self, widths: list[int], ratios: list[int]):
        super().__init__()
        even(widths, ratios)
        self.fc = nn.Linear(sum(widths), 4)


class Chosen(nn.Module):
    def __init__(self, depths, blocks):
        super().__init__()
        self.fc = nn.Linear(sum(depths), 4)
        self.blocks = [KINDS[blocks[at]] for at, _ in enumerate(depths)]


KINDS = {"plain": nn.Identity, "wide": nn.Linear}


class Counted(nn.Module):
    def __init__(self, num_all, num_own, kinds):
        super().__init__()
        self.num_own = num_own
        assert self.num_own * 3 + len(kinds) == num_all
        self.fc = nn.Linear(num_own, num_all)
        self.kinds = nn.ModuleList([nn.Linear(each, 4) for each in kinds])


class Looked(nn.Module):
    def __init__(self, table, options):
        super().__init__()
        self.key = options["item_field"] + options["list_tail"]
        self.weight = nn.Parameter(torch.ones(table[options["user_field"]]))


class Staged(nn.Module):
    def __init__(self, *, stages=2, units=3, levels=()):
        super().__init__()
        self.stages = stages
        if len(levels) != self.stages * units:
            raise ValueError(f"{len(levels)} are not as many as there are stages and units")
        self.fc = nn.Linear(4, len(levels))


class Plain(nn.Module):
    expansion = 2

    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, width)


class Picking(nn.Module):
    def __init__(self, block, layers):
        super().__init__()
        if block == "Plain":
            block = Plain
        else:
            raise NotImplementedError(f"{block} is not implemented.")
        self.width = 8 * block.expansion
        self.layers = nn.Sequential(*[block(self.width) for _ in range(layers)])


class Embedder(nn.Module):
    def forward(self, x):
        raise NotImplementedError


COUNTED = []


class AsRead(Embedder):
    def __init__(self, path="somewhere", other="elsewhere", a=1, b=2, c=3, d=4):
        super().__init__()
        COUNTED.append(path)
        raise FileNotFoundError(2, "No such file or directory", path)

    def forward(self, x):
        return x


class Made(Embedder):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return self.fc(x)


class Embedding(nn.Module):
    def __init__(self, embedders: dict[str, Embedder]):
        super().__init__()
        self.embedders = nn.ModuleDict(embedders)
        assert all(isinstance(each, Embedder) for each in embedders.values())


@pytest.mark.parametrize(
    ("cls", "expression"),
    [
        (Grouped, "Grouped(widths=[1, 1], ratios=[2, 2])"),
        (Chosen, "Chosen(depths=(2, 2), blocks=('plain', 'plain'))"),
        (Counted, "Counted(num_all=194, num_own=64, kinds=[64, 64])"),
        (
            Looked,
            "Looked(table={'a': 64, 'b': 64}, options={'item_field': 'a', 'list_tail': 'relu', 'user_field': 'a'})",
        ),
        (Levels, "Levels(levels=[0.5, 0.5])"),
        (Watching, "Watching(obs_shape=(3, 96, 96))"),
        (Evaluated, "Evaluated(kind='Wide', options={'head': 'Narrow'})"),
        (Rest, "Rest(total=512, used=64, kept=64)"),
        (Seen, "Seen(seen=64)"),
        (Staged, "Staged(levels=[64, 64, 64, 64, 64, 64])"),
        (Picking, "Picking(block='Plain', layers=2)"),
        (Embedding, "Embedding(embedders={'a': Made(width=64), 'b': Made(width=64)})"),
    ],
)
def test_they_are_found(cls, expression):
    search = Search(cls.__name__, cls, {"SimpleNamespace": SimpleNamespace, **globals()}, partial(attempt, real=False))
    found = search.run()
    assert found is not None, (search.tried, search.error)
    assert found[0] == expression


def test_another_class_is_tried_at_once_where_one_reads_a_file_that_is_not_there():
    COUNTED.clear()
    assert Search("Embedding", Embedding, globals(), partial(attempt, real=False)).run() is not None
    assert len(COUNTED) <= 3


def test_a_table_with_any_keys_gets_those_that_are_asked_for():
    search = Search("Roles", Roles, globals(), partial(attempt, real=False))
    found = search.run()
    assert found is not None, (search.tried, search.error)
    assert found[1].roles["encoder"].keys() >= {"static", "moving"}


def test_lists_of_lists_are_made_as_long_throughout():
    assert of_length_throughout("((3,),)", 2) == ["((3, 3), (3, 3))"]
    assert of_length_throughout("[[2, 3], [4, 5]]", 1) == ["[[2]]"]
    assert of_length_throughout("(3,)", 2) == ["(3, 3)"]
    assert of_length_throughout("[64, 32]", 2) == ["[64, 32]"]


class Builder:
    PARTS: ClassVar[dict[str, type]] = {}

    def build(self, cfg):
        cfg = copy.deepcopy(cfg)
        kind = cfg.pop("type")
        return self.PARTS[kind](**cfg)


class ActBuilder(Builder):
    PARTS: ClassVar[dict[str, type]] = {"ReLU": nn.ReLU, "GELU": nn.GELU}

    def build(self, act_cfg):
        return nn.Identity() if act_cfg is None else super().build(act_cfg)


build_act = ActBuilder().build


class FromRegistry(nn.Module):
    """Hands what is called a configuration on to a method of a registry, which has another one do the work."""

    def __init__(self, width, act_cfg):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(width, width), build_act(act_cfg))


class SeveralFromRegistry(nn.Module):
    def __init__(self, width, act_cfgs=None):
        super().__init__()
        assert act_cfgs is not None, "argument act_cfgs should be given"
        self.fc = nn.Linear(width, width)
        self.acts = nn.ModuleList([build_act(act_cfgs[0]), build_act(act_cfgs[1])])


class Copying(nn.Module):
    """Hands on what the code asks for what mappings have, where nothing tells that it is one."""

    def __init__(self, width, options):
        super().__init__()
        self.fc = nn.Linear(width, make_smaller(options))


def make_smaller(options, given=()):
    known = next(each.copy() for each in (options, *given))
    return known.pop("width") // 2


class Unpaired(nn.Module):
    """Makes tables of what is nothing by default, one after the other."""

    def __init__(self, n_words, n_tags=None, n_chars=None, n_lemmas=None, size=16, other=8):
        super().__init__()
        self.words = nn.Embedding(n_words, size)
        self.tags = nn.Embedding(num_embeddings=n_tags, embedding_dim=size)
        self.chars = nn.Embedding(num_embeddings=n_chars, embedding_dim=other)
        self.lemmas = nn.Embedding(num_embeddings=n_lemmas, embedding_dim=other)


VARIANTS = {"small_net": {"width": 8, "depths": (1, 2), "scale": 0.5}, "large_net": {"width": 16, "depths": (2, 2)}}


class Demanding(nn.Module):
    """Has a table of what goes together, and asserts it one by one."""

    def __init__(self, kind, width=64, depths=(3, 3), scale=1.0):
        super().__init__()
        self.width, self.depths, self.scale = width, depths, scale
        for key, value in VARIANTS[kind].items():
            assert getattr(self, key) == value
        self.fc = nn.Linear(width, sum(depths))


class Listed(nn.Module):
    def __init__(self, kind, way):
        super().__init__()
        assert kind in list(VARIANTS), "no such thing"
        if way not in VARIANTS:
            raise ValueError("no such way")
        self.fc = nn.Linear(4, 4)


class TwoOfThree(nn.Module):
    def __init__(self, low=None, high=None, count=None):
        super().__init__()
        if sum(each is not None for each in (low, high, count)) < 2:
            raise ValueError("at least two of them are needed")
        self.fc = nn.Linear(4, 4)


class Huge(nn.Module):
    """Takes long to make as much as there is by default."""

    def __init__(self, width, rows=1 << 20, columns=1 << 20):
        super().__init__()
        self.table = [at % 7 for at in range(rows * columns)]
        self.fc = nn.Linear(width, len(self.table))


class Signed(nn.Module):
    def __init__(self, part):
        super().__init__()
        self.part = part
        self.names = list(inspect.signature(self.part.loss).parameters)


class Helped(nn.Module):
    """Has a part for each of several configurations, if there are any."""

    def __init__(self, cfg):
        super().__init__()
        self.fc = nn.Linear(cfg["width"], 4)
        self.help(cfg["helpers"])

    def help(self, helpers):
        if helpers is None:
            return
        self.helpers = nn.ModuleList([nn.Linear(each["size"], each["no_such_size"]()) for each in helpers])


class Deep(nn.Module):
    """Has configurations in configurations in configurations, and so on, all of which need something."""

    @dataclass(kw_only=True, slots=True)
    class Config:
        size: int

    @dataclass(kw_only=True, slots=True)
    class Inner:
        one: "Deep.Config"
        other: "Deep.Config"

    @dataclass(kw_only=True, slots=True)
    class Middle:
        inner: "Deep.Inner"

    @dataclass(kw_only=True, slots=True)
    class Outer:
        middle: "Deep.Middle"

    @dataclass(kw_only=True, slots=True)
    class Whole:
        outer: "Deep.Outer"

    def __init__(self, whole: Whole):
        super().__init__()
        inner = whole.outer.middle.inner
        self.fc = nn.Linear(inner.one.size, inner.other.size)


DEEP = (
    "Deep(whole=Deep.Whole(outer=Deep.Outer(middle=Deep.Middle(inner=Deep.Inner("
    "one=Deep.Config(size=64), other=Deep.Config(size=64))))))"
)


class Nested(nn.Module):
    """Has the class of its configuration in itself, and annotations that are texts, of which one stands for nothing."""

    @dataclass(kw_only=True, slots=True)
    class Config:
        steps: int
        parts: "list[str]"

    def __init__(self, config: "Config", rest: "no_such_thing.Part" = None):  # noqa: F821
        super().__init__()
        self.config = config
        self.fc = nn.Linear(config.steps, len(config.parts))


@pytest.mark.parametrize(
    ("cls", "expression", "trials"),
    [
        (Nested, "Nested(config=Nested.Config(steps=64, parts=['a', 'b']))", 1),
        (Helped, "Helped(cfg={'width': 64, 'helpers': None})", 1),
        (Deep, DEEP, 3),
        (FromRegistry, "FromRegistry(width=64, act_cfg={'type': 'ReLU'})", 1),
        (SeveralFromRegistry, "SeveralFromRegistry(width=64, act_cfgs=[{'type': 'ReLU'}, {'type': 'ReLU'}])", 2),
        (Copying, "Copying(width=64, options={'width': 64})", 4),
        (Unpaired, "Unpaired(n_words=1000, n_tags=1000, n_chars=1000, n_lemmas=1000)", 4),
        (Demanding, "Demanding(kind='small_net', width=8, depths=(1, 2), scale=0.5)", 2),
        (Listed, "Listed(kind='small_net', way='small_net')", 1),
        (TwoOfThree, "TwoOfThree(low=64, high=64)", 6),
        (Huge, "Huge(width=64, rows=64, columns=64)", 2),
        (Signed, "Signed(part=SimpleNamespace(loss=torch.nn.Identity()))", 1),
    ],
)
def test_registries_tables_and_what_is_nothing_by_default(cls, expression, trials):
    scope = {cls.__name__: cls, "torch": torch, "SimpleNamespace": SimpleNamespace}
    search = Search(cls.__name__, cls, scope, partial(attempt, real=False))
    expression_found = (search.run() or ("",))[0].replace(f"{__name__}.", "")
    assert expression_found == expression, (search.tried, search.error)
    assert search.trials <= trials


@pytest.mark.parametrize(
    ("cls", "expression"),
    [
        (Bins, "Bins(bins=[torch.arange(64.0), torch.arange(64.0)])"),
        (Unassigned, "Unassigned(kind={'width': 64})"),
        (FromModule, "FromModule(arch='make_net')"),
    ],
)
def test_orders_variables_and_names_of_modules(cls, expression):
    search = Search(cls.__name__, cls, {cls.__name__: cls, "torch": torch}, partial(attempt, real=False))
    assert (search.run() or ("",))[0] == expression, (search.tried, search.error)
    assert search.trials <= 4


class Checked:
    """A configuration that knows its keys, and says which it wants."""

    def __init__(self, table: dict):
        self._old = table["old"] + 1 if len(table) > 1 else None
        unknown = [each for each in table if each != "rows"]
        if unknown:
            raise ValueError(f"{unknown} are not recognized config keys.")
        self._table = table

    @property
    def rows(self):
        return self._value("rows")

    def _value(self, key):
        if key not in self._table.keys():  # noqa: SIM118 — As a library does it.
            raise ValueError(f"{key} is not there (.yml).")
        return self._table[key]


class OfChecked(nn.Module):
    def __init__(self, cfg: Checked):
        super().__init__()
        self.fc = nn.Linear(cfg.rows, 2)


class Lax(nn.Module):
    def __init__(self, width, keep=False):
        super().__init__()
        if not keep:
            raise ValueError("Nothing is kept. To override this error, set ``keep`` to True.")
        self.fc = nn.Linear(width, 2)


class Embedded(nn.Module):
    def __init__(self, matrix, pretrained):
        super().__init__()
        self.words = nn.Embedding.from_pretrained(torch.tensor(matrix, dtype=torch.float))
        self.tags = nn.Embedding.from_pretrained(pretrained)


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.parametrize(
    ("cls", "expression", "trials"),
    [
        (OfChecked, "OfChecked(cfg=Checked(table={'rows': 0}))", 3),
        (Lax, "Lax(width=64, keep=True)", 2),
        (Embedded, "Embedded(matrix=torch.ones(64, 64), pretrained=torch.ones(64, 64))", 3),
    ],
)
def test_keys_and_values_that_a_message_or_a_condition_names(cls, expression, trials):
    scope = {"Checked": Checked, cls.__name__: cls, "torch": torch}
    search = Search(cls.__name__, cls, scope, partial(attempt, real=False))
    assert (search.run() or ("",))[0].replace(f"{__name__}.", "") == expression, (search.tried, search.error)
    assert search.trials <= trials


def test_numbers_that_are_to_be_in_order():
    wanted = Complaint(words=("must", "be", "increasing"))
    assert rising("[64, 64, 64]", wanted) == ["[64, 128, 192]"]
    assert rising("(2, 4)", wanted) == rising("[64, 64]", Complaint(words=("too", "long"))) == []


def numbers_of(path):
    if path.endswith("npz"):
        return 4
    if path.endswith((".json", ".yaml")):
        return 8
    raise ValueError(f"No such format: {path}")


class Stored(nn.Module):
    def __init__(self, kind, weights_path):
        super().__init__()
        if not kind.startswith("deep"):
            raise ValueError("Nothing is known of it")
        self.fc = nn.Linear(numbers_of(weights_path), 4)


def test_a_text_begins_and_ends_as_code_asks_for():
    found = Search("Stored", Stored, globals(), partial(attempt, real=False)).run()
    assert found is not None
    assert "weights_path='weights.json'" in found[0]
    assert "kind='deep" in found[0]

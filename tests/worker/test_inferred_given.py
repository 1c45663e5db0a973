"""What only shows while a model is constructed: who is given which part of a configuration."""

from types import SimpleNamespace

import pytest
from torch import nn

from fxworker.arguments import Search
from fxworker.building import attempt
from fxworker.complaints import complaint_of

STEMS = {}


class Deep(nn.Module):
    def __init__(self, options, width):
        super().__init__()
        assert len(options.DEPTHS) == len(options.WIDTHS), "one width for each"
        self.parts = nn.ModuleList(nn.Linear(width, each) for each in options.WIDTHS)
        self.half = width // options.RATIO


class Table(nn.Module):
    def __init__(self, options, width):
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(width, each) for each in options["widths"])
        self.drop = nn.Dropout(options["rate"])


STEMS |= {"Deep": Deep, "Table": Table}


class ByName(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.stem = STEMS[cfg.MODEL.STEM.TYPE](cfg.MODEL.STEM, cfg.MODEL.WIDTH)
        self.head = nn.Linear(cfg.MODEL.WIDTH, cfg.MODEL.HEAD.JOINTS)


class ByEntry(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.stem = STEMS[cfg["stem"]["type"]](cfg["stem"], cfg["width"])


class Either(nn.Module):
    def __init__(self, genotype, reduce):
        super().__init__()
        self.names, self.at = zip(*(genotype.reduced if reduce else genotype.normal), strict=True)
        self.inner = nn.Linear(4, sum(self.at))


class Letters(nn.Module):
    def __init__(self, letters: str):
        super().__init__()
        self.rnn = nn.GRU(len({each: at for at, each in enumerate(letters)}) + 1, 4)


class Asked(nn.Module):
    """Asks for what may be there in all ways; what is there has to be right."""

    def __init__(self, config):
        super().__init__()
        pooling = config["pooling"] if "pooling" in config else "mean"  # noqa: SIM401 — As many write it.
        self.plain = "plain" in config and config["plain"]
        if "weights" in config:
            raise FileNotFoundError(config["weights"])
        if pooling not in {"mean", "max"} or self.plain:
            raise ValueError
        self.fc = nn.Linear(config["width"], 2)


class AskedOf(nn.Module):
    def __init__(self, config):
        super().__init__()
        if hasattr(config, "checkpoint"):
            raise FileNotFoundError(config.checkpoint)
        self.fc = nn.Linear(config.width, 2)


class Missed(nn.Module):
    def __init__(self, config):
        super().__init__()
        if "width" not in config:
            raise KeyError("width")
        self.fc = nn.Linear(config["width"], 2 if "num_classes" in config else config["num_classes"])


class Replacing(nn.Module):
    """Has something for what its configuration may lack."""

    def __init__(self, config):
        super().__init__()
        self.dropout = nn.Dropout(getattr(config, "dropout", 0.1))
        self.fc = nn.Linear(getattr(config, "width"), 2)  # noqa: B009 — As many write it.


class Unreplaced(nn.Module):
    """Has nothing that does for what its configuration may lack."""

    def __init__(self, config):
        super().__init__()
        inner = getattr(config, "intermediate_size", None)
        self.fc = nn.Linear(config.width, inner)


FIRST, SECOND = "upos", "xpos"


class ByConstant(nn.Module):
    """Looks up by names that stand for texts."""

    def __init__(self, tables):
        super().__init__()
        self.one = nn.Embedding(len(tables[FIRST]), 4)
        self.other = nn.Embedding(len(tables[SECOND]), 4)


class ForAny(nn.Module):
    def __init__(self, input_dim, **_others):
        super().__init__()
        self.fc = nn.Linear(input_dim, 2)


class Emptied(nn.Module):
    """Hands on the attributes of its configuration."""

    def __init__(self, config, other):
        super().__init__()
        self.one = ForAny(**config.__dict__) if config.name == "any" else nn.Identity()
        self.other = ForAny(**vars(other))


class OfSections(nn.Module):
    """Asks a configuration with sections which keys it has."""

    def __init__(self, cfg):
        super().__init__()
        for key in ("align_corners", "norm_cfg"):
            if key in cfg:
                setattr(self, key, cfg[key])
        self.norm = nn.Identity() if self.norm_cfg is None else nn.BatchNorm2d(**self.norm_cfg)
        self.head = nn.Linear(cfg["head"]["width"], cfg["num_classes"])
        self.extra = nn.Linear(cfg["head"]["width"], 2 if self.align_corners else 3)


class Columns(nn.Module):
    """Looks names up in a table that nothing else says the keys of."""

    def __init__(self, enc_dict, config):
        super().__init__()
        self.enc_dict, self.config = enc_dict, config
        self.first = nn.Embedding(self.enc_dict[self.config["item_col"]]["vocab_size"], config["width"])
        self.others = nn.ModuleList(nn.Embedding(self.enc_dict[each]["vocab_size"], 4) for each in config["cate_cols"])


class Tokens:
    def __init__(self, tokens, special):
        self.every = special + tokens


class Reading(nn.Module):
    def __init__(self, dataset, keys: list[str]):
        super().__init__()
        self.dataset = dataset
        self.parts = nn.ModuleDict({each: nn.Embedding(len(self.tokens(each).every), 4) for each in keys})

    def tokens(self, key):
        return Tokens(tokens=self.dataset.get_all_tokens(key=key), special=["<pad>"])


class Short(nn.Module):
    def __init__(self, length, n_fft=128):
        super().__init__()
        if length // n_fft < 4:
            raise ValueError("The signal is too short")
        self.fc = nn.Linear(length, 2)


def total(numbers, words, others):
    return sum(each["dimension"] for part in (numbers, words, others) for each in part.values())


class Dealt(nn.Module):
    def __init__(self, information: tuple, width=4):
        super().__init__()
        self.fc = nn.Linear(total(*information), width)


class Made(nn.Module):
    def __init__(self, numbers, words, width):
        super().__init__()

        def embedding(info):
            return nn.Embedding(info["categories"], width)

        self.numbers = nn.ModuleList(nn.Linear(each["dimension"], width) for each in numbers.values())
        self.words = nn.ModuleList(embedding(each) for each in words.values())


class Passing(nn.Module):
    def __init__(self, information: tuple):
        super().__init__()
        self.made = Made(*information, width=4)


class Kinds(nn.Module):
    def __init__(self, kind=None, width=4, depth=2, rate=0.1, scale=1.0, shift=0.0, groups=1, bias=True):
        super().__init__()
        if kind == "narrow":
            self.fc = nn.Linear(width, 1)
        else:
            raise ValueError(f"unrecognized kind '{kind}'")


class OfAKind(nn.Module):
    def __init__(self, channels, given_kind=None):
        super().__init__()
        self.inner = Kinds(
            width=channels,
            depth=2,
            rate=0.1,
            scale=1.0,
            shift=0.0,
            groups=1,
            bias=True,
            # The last of many lines.
            #
            kind=given_kind,
        )


class Middling(nn.Module):
    def __init__(self, width, block_type=None, kind=None, gate=None, shape=None):
        super().__init__()
        self.kinds = nn.Sequential(*(Kinds(block_type, width) for _ in range(2)))


class Outermost(nn.Module):
    """Has many parameters that are called like what is wrong, and one that is it."""

    def __init__(self, width, kind=None, block_kind=None, gate_kind=None, type_of_kind=None, mine=None):
        super().__init__()
        self.middle = Middling(width, kind=kind, gate=gate_kind, shape=type_of_kind, block_type=mine)


class Flagged(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.fc = nn.Linear(4, 2 + int(config["use_bias"]))


class Spectra(nn.Module):
    def __init__(self, fft_sizes, hop_sizes):
        super().__init__()
        self.parts = nn.ModuleList(
            nn.Conv1d(1, size, size, hop) for size, hop in zip(fft_sizes, hop_sizes, strict=True)
        )


class Tensors(dict):
    """A mapping of a class of its own."""


class Observing(nn.Module):
    def __init__(self, obs: Tensors, groups: dict[str, list[str]], chosen: str):
        super().__init__()
        self.fc = nn.Linear(self.width(obs, groups, chosen), 2)

    def width(self, obs: Tensors, groups: dict[str, list[str]], chosen: str):
        found = groups[chosen]
        assert all(len(obs[each].shape) == 2 for each in found)
        return sum(obs[each].shape[-1] for each in found)


class Sparse(nn.Module):
    """Makes something of those entries alone that say how large they are."""

    def __init__(self, enc_dict):
        super().__init__()
        self.parts = nn.ModuleDict()
        for name in enc_dict:
            if "vocab_size" in enc_dict[name]:
                self.parts[name] = nn.Embedding(enc_dict[name]["vocab_size"], 4)


BOTH = "{'a': {'dimension': 2}, 'b': {'dimension': 2}}"
SCOPE = {"SimpleNamespace": SimpleNamespace}


@pytest.mark.parametrize("cls", [ByName, ByEntry, Either, Letters, Reading, Short, OfAKind, Observing])
def test_they_are_built(cls):
    found = Search(cls.__name__, cls, {**SCOPE, cls.__name__: cls}, attempt).run()
    assert found is not None


@pytest.mark.parametrize(
    ("cls", "expression"),
    [
        (Asked, "Asked(config={'width': 64})"),
        (AskedOf, "AskedOf(config=SimpleNamespace(width=64))"),
        (Missed, "Missed(config={'width': 64, 'num_classes': 10})"),
        (Replacing, "Replacing(config=SimpleNamespace(width=64))"),
        (ByConstant, "ByConstant(tables={'upos': [64, 64], 'xpos': [64, 64]})"),
        (
            Emptied,
            "Emptied(config=SimpleNamespace(name='any', input_dim=64), other=SimpleNamespace(input_dim=64))",
        ),
        (Sparse, "Sparse(enc_dict={'a': {'vocab_size': 1000}, 'b': {'vocab_size': 1000}})"),
    ],
)
def test_what_is_only_asked_for_is_left_out(cls, expression):
    search = Search(cls.__name__, cls, {**SCOPE, cls.__name__: cls}, attempt)
    assert search.run()[0] == expression
    assert search.trials <= 2


def test_what_is_asked_of_a_configuration_with_sections_is_no_place_in_a_vocabulary():
    expression, root = Search("OfSections", OfSections, {**SCOPE, "OfSections": OfSections}, attempt).run()
    assert "'head': {'width': 64}, 'num_classes': 10" in expression
    assert root.norm_cfg is None


def test_what_may_be_lacking_is_given_where_what_is_taken_for_it_will_not_do():
    search = Search("Unreplaced", Unreplaced, {**SCOPE, "Unreplaced": Unreplaced}, attempt)
    assert search.run()[0] == "Unreplaced(config=SimpleNamespace(width=64, intermediate_size=64))"
    assert search.trials <= 4


def test_names_are_looked_up_in_a_table_that_has_them():
    expression, _ = Search("Columns", Columns, {**SCOPE, "Columns": Columns}, attempt).run()
    assert "enc_dict={'a': {'vocab_size': 1000}" in expression
    assert "'item_col': 'a', 'cate_cols': ['a', 'a']" in expression


@pytest.mark.parametrize(
    ("cls", "expression"),
    [
        (
            Dealt,
            f"Dealt(information=[{BOTH}, {BOTH}, {BOTH}])",
        ),
        (
            Passing,
            f"Passing(information=[{BOTH}, {BOTH.replace('dimension', 'categories')}])",
        ),
    ],
)
def test_what_is_dealt_out_is_what_the_receiver_takes(cls, expression):
    search = Search(cls.__name__, cls, {**SCOPE, cls.__name__: cls}, attempt)
    assert (search.run() or ("",))[0] == expression, (search.tried, search.error)


@pytest.mark.parametrize(
    ("cls", "expression"),
    [
        (Flagged, "Flagged(config={'use_bias': True})"),
        (Spectra, "Spectra(fft_sizes=[512, 512], hop_sizes=[128, 128])"),
    ],
)
def test_what_a_person_would_write(cls, expression):
    assert Search(cls.__name__, cls, {**SCOPE, cls.__name__: cls}, attempt).run()[0] == expression


def test_what_was_handed_on_under_other_names_is_changed_first():
    search = Search("Outermost", Outermost, {**SCOPE, "Outermost": Outermost}, attempt)
    assert search.run()[0] == "Outermost(width=64, mine='narrow')"
    assert search.trials <= 4


def test_what_a_constructor_turns_out_to_read_is_given_at_once():
    search = Search("ByName", ByName, {**SCOPE, "ByName": ByName}, attempt)
    expression, _ = search.run()
    assert "TYPE='Deep', DEPTHS=" in expression
    assert search.trials <= 8


def test_where_a_value_is_that_lacks_something():
    cfg = SimpleNamespace(MODEL=SimpleNamespace(STEM=SimpleNamespace(TYPE="Deep"), WIDTH=8))
    try:
        eval(compile("ByName(cfg)", "<inferred>", "eval"), {"ByName": ByName, "cfg": cfg})
    except AttributeError as error:
        told = complaint_of(error)
    assert (told.place, told.reader, told.lacks) == ("cfg.MODEL.STEM", (Deep, "options"), "DEPTHS")

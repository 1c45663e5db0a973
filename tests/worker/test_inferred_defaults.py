"""Constructors whose defaults do not go together, that know words, names of models, and constants of other modules."""

import functools
import sys
import types
from functools import partial
from types import SimpleNamespace  # noqa: F401 — What expressions name.

import pytest
import torch
from torch import nn

from fxworker.arguments import Search
from fxworker.building import attempt
from fxworker.choices import Group
from fxworker.proposing import Proposals
from tests.worker.harness import of


class Words(nn.Module):
    """Collects words in an object of its own."""

    class Vocabulary:
        def __init__(self):
            self.words = {}

        def add(self, text):
            for each in text.encode("ascii", "ignore").split():
                self.words.setdefault(each, len(self.words))

    def __init__(self, texts):
        super().__init__()
        self.vocabulary = self.Vocabulary()
        for text in texts:
            self.vocabulary.add(text)
        self.embedding = nn.Embedding(len(self.vocabulary.words), 4)


class Styled(nn.Module):
    def __init__(self, width=4, depth=3, styles=["plain"]):  # noqa: B006 — As people write it.
        super().__init__()
        assert len(styles) == depth
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in styles])


class Counted(nn.Module):
    def __init__(self, words=None, tags=None, lemmas=None, kinds=("tag", "lemma")):
        super().__init__()
        self.word = nn.Embedding(100, 4)
        if "tag" in kinds:
            self.tag = nn.Embedding(tags, 4)
        if "lemma" in kinds:
            self.lemma = nn.Embedding(lemmas, 4)


class Heir(Counted):
    def __init__(self, tags=None, lemmas=None):
        super().__init__(tags=tags, lemmas=lemmas)


names = types.ModuleType("names_of_kinds")
names.FIXED, names.LEARNED = "fixed", "learned"


class Positions(nn.Module):
    def __init__(self, kind_of_weight: str, width: int):
        super().__init__()
        if kind_of_weight == names.FIXED:
            self.weight = torch.zeros(width)
        elif kind_of_weight == names.LEARNED:
            self.weight = nn.Parameter(torch.zeros(width))
        else:
            raise ValueError(f"{kind_of_weight!r} is not supported")


heads = types.ModuleType("heads_of_a_project")


class NarrowHead(nn.Module):
    pass


NarrowHead.__module__ = heads.__name__
heads.NarrowHead, heads.Linear = NarrowHead, nn.Linear


class Headed(nn.Module):
    def __init__(self, head: str):
        super().__init__()
        self.head = getattr(heads, head)()


trunks = types.ModuleType("trunks_of_a_project")


class ShortTrunk(nn.Module):
    pass


ShortTrunk.__module__ = f"{trunks.__name__}.short"
trunks.ShortTrunk, trunks.Linear = ShortTrunk, nn.Linear


class Trunked(nn.Module):
    def __init__(self, trunk: str):
        super().__init__()
        self.trunk = getattr(trunks, trunk)()


class Sized(nn.Module):
    def __init__(self, factory):
        super().__init__()
        self.encoder = factory.make_encoder()
        self.core = factory.make_core(self.encoder.get_out_size())


class Buffered(nn.Module):
    def __init__(self, part, more=None):
        super().__init__()
        self.register_buffer("numbers", None)
        self.width = part.width
        self.numbers = part.numbers


class Listed(nn.Module):
    def __init__(self, parts):
        super().__init__()
        self.parts = nn.ModuleList()
        for each in parts:
            self.parts.append(each)


class Shaped(nn.Module):
    def __init__(self, values):
        super().__init__()
        first = values[0]
        self.fc = nn.Linear(self.rows(first), 2)

    @staticmethod
    def rows(value):
        return value.shape[0]


class Keywords(dict):
    """A mapping that takes nothing but its entries by name, and gives them as attributes."""

    def __init__(self, **entries):
        super().__init__(entries)
        self.__dict__ = self


class OfKeywords(nn.Module):
    def __init__(self, options: Keywords):
        super().__init__()
        self.fc = nn.Linear(options.width, options.depth)


class Joined(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.fc = nn.Linear(sum([*self.kept(sizes), 1]), 2)

    def kept(self, sizes):
        return sizes


@functools.lru_cache
def area(shape):
    return shape[0] * shape[1]


class Cached(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.fc = nn.Linear(area(shape), 2)


@pytest.mark.parametrize(
    ("cls", "expression", "trials"),
    [
        (Words, "Words(texts=['a', 'b'])", 2),
        (Styled, "Styled(styles=['plain', 'plain', 'plain'])", 2),
        (Counted, "Counted(tags=1000, lemmas=1000)", 8),
        (Heir, "Heir(tags=1000, lemmas=1000)", 8),
        (Positions, "Positions(kind_of_weight='fixed', width=64)", 2),
        (Buffered, "Buffered(part=SimpleNamespace(width=64, numbers=torch.ones(64)))", 2),
        (Shaped, "Shaped(values=[torch.ones(64, 64), torch.ones(64, 64)])", 2),
        (OfKeywords, "OfKeywords(options=Keywords(width=64, depth=2))", 1),
        (Joined, "Joined(sizes=[64, 64])", 3),
        (Cached, "Cached(shape=(64, 64))", 6),
        (Headed, "Headed(head='NarrowHead')", 4),
        (Trunked, "Trunked(trunk='ShortTrunk')", 4),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_what_makes_them_go_together_is_found(cls, expression, trials, monkeypatch):
    for each in (heads, trunks):
        monkeypatch.setitem(sys.modules, each.__name__, each)
    search = Search(cls.__name__, cls, globals(), partial(attempt, real=False))
    result = search.run()
    assert result is not None, (search.tried, search.error)
    assert result[0] == expression
    assert search.trials <= trials


def test_a_function_that_gets_a_size_gives_a_number():
    search = Search("Sized", Sized, globals(), partial(attempt, real=False))
    expression, _ = search.run()
    assert "{'get_out_size': lambda *_, **__: 64}" in expression


class Section(dict):
    """Gives its entries as attributes, and has a method of its own."""

    def __getattr__(self, name):
        return self[name]

    def resolved(self):
        return self


class Configured(nn.Module):
    def __init__(self, section: Section):
        super().__init__()
        self.fc = nn.Linear(section.resolved().get("width", 4), section.depth)


def test_what_the_class_of_a_mapping_has_is_no_entry_of_it():
    proposals = Proposals(globals(), Configured, inner=False)
    choice = {"": Group("call", "Configured", Configured), "section": Group("mapping", "Section")}
    assert proposals.fields(choice, "section") == ["depth"]


class Pretrained(nn.Module):
    def __init__(self, model):
        super().__init__()
        from transformers import AutoModel

        self.body = AutoModel.from_pretrained(model)


def test_what_weights_are_fetched_for_is_the_name_of_a_model():
    proposals = Proposals(globals(), Pretrained, inner=False)
    assert proposals.of({"": Group("call", "Pretrained", Pretrained)}, "model")[0] == "'bert-base-uncased'"


SEVERAL = """
from torch import nn

class Longest(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.widest = max([each.in_features for each in layers])
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        return [layer(x) for layer in self.layers]
"""


def test_a_constructor_of_any_number_of_things_may_want_some(worker, model):
    net = of(worker.trace(model(SEVERAL)), "Longest")
    assert net.construct.expression == "Longest(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))"


GRID = """
import torch
from torch import nn

class Grid(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        self.places = nn.Parameter(torch.zeros(1, length, width))
        side = int((length - 1) ** 0.5)
        self.places.data.copy_(torch.rand(1, side * side + 1, width))

    def forward(self, x):
        return x + self.places
"""


def test_values_that_do_not_fit_in_a_tensor_are_refused_without_values_too(worker, model):
    grid = of(worker.trace(model(GRID)), "Grid")
    length = int(grid.construct.expression.partition("length=")[2].partition(",")[0])
    assert int((length - 1) ** 0.5) ** 2 + 1 == length
    assert grid.inputs is not None


def test_values_that_do_not_fit_in_a_tensor_are_told_where_they_are_written(worker, model):
    text = GRID.replace("self, length, width", "self").replace("length", "30").replace("width", "8")
    (problem,) = of(worker.trace(model(text)), "Grid").problems
    assert (problem.code, problem.location.span.line) == ("FX102", 10)


class Searcher(nn.Module):
    """Goes on for a part of the steps that it is given."""

    def __init__(self, min_decode_ratio, max_decode_ratio, mask_ratio, mlp_ratio):
        super().__init__()
        if not 0 <= min_decode_ratio < max_decode_ratio <= 1 or not 0 < mask_ratio <= 1:
            raise RuntimeError
        self.mlp = nn.Linear(8, int(8 * mlp_ratio))


def test_proportions_are_such():
    search = Search("Searcher", Searcher, {"torch": torch, "Searcher": Searcher}, partial(attempt, real=False))
    found = search.run()
    assert found is not None
    assert found[0] == "Searcher(min_decode_ratio=0, max_decode_ratio=0.5, mask_ratio=0.5, mlp_ratio=2)"


class Lagged(nn.Module):
    """Looks back by steps that are told apart, for one of two lengths."""

    def __init__(self, lags_seq, horizon, prediction_length):
        super().__init__()
        assert len(set(lags_seq)) == len(lags_seq), "no duplicated lags allowed!"
        if horizon is not None and prediction_length is not None:
            raise ValueError("Exactly one of `horizon` and `prediction_length` should be set at a time")
        self.fc = nn.Linear(len(lags_seq), horizon or prediction_length)


def test_what_may_not_be_the_same_is_told_apart_and_what_excludes_another_is_left_out():
    search = Search("Lagged", Lagged, {"torch": torch, "Lagged": Lagged}, partial(attempt, real=False))
    expression, root = search.run()
    assert expression.startswith("Lagged(lags_seq=[1, 2")
    assert expression.count("None") == 1
    assert root.fc.in_features > 1


KEYED = """
import torch
from torch import nn

class Base(nn.Module):
    def __init__(self, **kwargs):
        super().__init__()
        self.width = kwargs["width"] if "width" in kwargs else None

class Rotated(Base):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.rotation = made(self.width)

    def forward(self, x):
        return x @ self.rotation

def made(n):
    return nn.Parameter(torch.empty(n, n))
"""


@pytest.mark.parametrize(
    "text", [KEYED, KEYED.replace('kwargs["width"] if "width" in kwargs else None', 'kwargs.get("width")')]
)
def test_what_keywords_are_looked_at_for_is_given_where_it_is_missed(worker, model, text):
    found = of(worker.trace(model(text)), "Rotated")
    assert found.construct.expression == "Rotated(width=64)"
    assert (found.status, found.problems) == ("complete", ())


def test_what_nobody_can_give_is_a_mistake(worker, model):
    text = KEYED.replace("**kwargs", "").replace("kwargs", "{}")
    (problem,) = of(worker.trace(model(text)), "Rotated").problems
    assert (problem.code, problem.location.span.line) == ("FX102", 19)


class Typed(nn.Module):
    """Names a type in what it says of a mistake, and a kind that it knows in another."""

    def __init__(self, names, kind="fast"):
        super().__init__()
        if not isinstance(names, (list, tuple)) or not all(isinstance(each, str) for each in names):
            raise TypeError("names must be strings, not 'tuple'")
        if kind not in {"fast", "slow"}:
            raise ValueError(f"unknown kind {kind!r}")
        self.parts = nn.ModuleDict({each: nn.Linear(4, 4) for each in names})


def test_the_name_of_a_type_is_none_that_is_asked_for():
    search = Search("Typed", Typed, {"torch": torch, "Typed": Typed}, partial(attempt, real=False))
    expression, _ = search.run()
    assert "'tuple'" not in expression


def small_trunk(pretrained=True, **more):
    """Make a trunk, with weights that are not there."""
    trunk = nn.Linear(4, more.get("width", 8))
    if pretrained:
        weights = {}
        trunk.classes = weights[list(weights)[-1]]
    return trunk


class Dispatched(nn.Module):
    """Calls a function of the module by the name that it is given."""

    def __init__(self, base_name, pretrained=True):
        super().__init__()
        self.trunk = globals()[base_name](pretrained=pretrained, width=16)


def test_a_name_that_is_looked_up_is_that_of_a_function_that_takes_what_it_is_given():
    search = Search("Dispatched", Dispatched, globals(), partial(attempt, real=False))
    expression, _ = search.run()
    assert expression == "Dispatched(base_name='small_trunk', pretrained=False)"

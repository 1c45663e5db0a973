"""Arguments that only the methods of a model say anything about: the constructor does no more than to keep them."""

import copy
import enum
import sys
import types
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from fxworker.arguments import Search
from fxworker.building import attempt


class Kept(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.value = value


class Squeezing(Kept):
    def forward(self, x):
        return x.squeeze(dim=self.value)


class Opening(Kept):
    def forward(self, x):
        return x.unsqueeze(self.value)


class Over(Kept):
    def forward(self, x):
        return sum(x * each for each in self.value)


class Counted(Kept):
    def forward(self, x):
        for at, each in enumerate(self.value):
            x = x + at * each
        return x


class Chosen(Kept):
    def forward(self, x):
        if self.value == "poisson":
            return x.exp()
        raise NotImplementedError(self.value)


class Looked(Kept):
    def forward(self, x):
        return x[: self.value["input"], : self.value["output"]]


class Tabled(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.methods = {"mean": lambda x: x.mean(), "sum": lambda x: x.sum()}
        self.method = self.methods[value]


class TabledBelow(nn.Module):
    def __init__(self, value):
        super().__init__()
        layers = nn.ModuleDict({"wide": nn.Linear(9, 9), "narrow": nn.Linear(3, 3)})
        self.layer = layers[value]


class Got(Kept):
    def forward(self, x):
        losses = {"mse": torch.nn.functional.mse_loss, "l1": torch.nn.functional.l1_loss}
        return losses.get(self.value)(x, x)


class Kind(enum.Enum):
    SMALL = "small"
    LARGE = "large"


class OfAnother(Kept):
    def forward(self, value):
        return [each for each in value if each != "none"]


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (Squeezing, "1"), (Opening, "1"), (Over, "[64, 64]"), (Counted, "[64, 64]"), (Chosen, "'poisson'"),
        (Looked, "{'input': 64, 'output': 64}"), (OfAnother, "64"),
        (Got, "'mse'"), (Tabled, "'mean'"), (TabledBelow, "'wide'"),
    ],
)  # fmt: skip
def test_what_a_method_does_with_it_says_what_it_is(cls, expected):
    expression, _ = Search(cls.__name__, cls, {cls.__name__: cls}, partial(attempt, real=False)).run()
    assert expression == f"{cls.__name__}(value={expected})"


class Batched(nn.Module):
    def __init__(self, batch_size, seed, number_of_series, dec_num_layer):
        super().__init__()
        self.rnn = nn.LSTM(number_of_series, 4, num_layers=dec_num_layer)
        self.batch_size, self.seed = batch_size, seed


def test_names_say_how_much():
    expression, _ = Search("Batched", Batched, {"Batched": Batched}, partial(attempt, real=False)).run()
    assert expression == "Batched(batch_size=2, seed=0, number_of_series=2, dec_num_layer=2)"


class OneOf(nn.Module):
    def __init__(self, kind):
        super().__init__()
        if kind is Kind.LARGE:
            self.fc = nn.Linear(9, 9)
        else:
            raise ValueError(kind)


class ByName(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.kind = Kind[config.kind]


class ByValue(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = Kind(kind)


class InAnyCase(nn.Module):
    def __init__(self, config):
        super().__init__()
        if config.head.lower() == "regression":
            self.head = nn.Linear(config.width, 1)


class KeptInOtherLetters(nn.Module):
    def __init__(self, reduction):
        super().__init__()
        self.reduction = reduction.lower()

    def forward(self, x):
        if self.reduction == "mean":
            pooled = x.mean(1)
        elif self.reduction == "max":
            pooled = x.amax(1)
        return pooled


class KeptByItsFirstLetter(nn.Module):
    def __init__(self, direction: str):
        super().__init__()
        self.direction = direction[0].lower()
        if self.direction not in "ft":
            raise ValueError(direction)

    def forward(self, x):
        if self.direction == "f":
            axis = 1
        elif self.direction == "t":
            axis = 2
        return x.softmax(axis)


WORDS = {"<pad>": 0, "<unk>": 1, "a": 2, "b": 3}


class Words(nn.Module):
    def __init__(self, char2idx, id_to_tag):
        super().__init__()
        self.embed = nn.Embedding(len(char2idx), len(id_to_tag))


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (OneOf, "kind=Kind.LARGE"), (ByName, "config=SimpleNamespace(kind='SMALL')"), (ByValue, "kind='small'"),
        (InAnyCase, "config=SimpleNamespace(head='regression', width=64)"),
        (KeptInOtherLetters, "reduction='mean'"), (KeptByItsFirstLetter, "direction='f'"),
        (Words, f"char2idx={WORDS}, id_to_tag={ {at: word for word, at in WORDS.items()} }"),
    ],
)  # fmt: skip
def test_what_a_constructor_compares_and_looks_up(cls, expected):
    scope = {cls.__name__: cls, "Kind": Kind, "SimpleNamespace": SimpleNamespace}
    expression, _ = Search(cls.__name__, cls, scope, partial(attempt, real=False)).run()
    assert expression == f"{cls.__name__}({expected})"


class ByTable(nn.Module):
    def __init__(self, params):
        super().__init__()
        for name, value in params.items():
            setattr(self, name, value)
        self.fc = nn.Linear(self.input_dim, self.num_classes)


class Updated(nn.Module):
    def __init__(self, width, params):
        super().__init__()
        self.__dict__.update(params)
        self.fc = nn.Linear(width, self.num_classes)


class Missing(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, self.num_classes)


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (ByTable, "ByTable(params={'input_dim': 64, 'num_classes': 10})"),
        (Updated, "Updated(width=64, params={'num_classes': 10})"),
    ],
)
def test_what_a_table_gives_to_the_model_itself(cls, expected):
    expression, _ = Search(cls.__name__, cls, {cls.__name__: cls}, partial(attempt, real=False)).run()
    assert expression == expected


def test_what_nothing_gives_to_the_model_is_its_own_mistake():
    assert Search("Missing", Missing, {"Missing": Missing}, partial(attempt, real=False)).run() is None


class Told(nn.Module):
    def __init__(self, n_question, num_skill, num_rounds):
        super().__init__()
        self.questions = nn.Embedding(n_question * 2 + 1, 8)
        self.skills = nn.Embedding(num_skill, 8)
        self.rounds = nn.ModuleList(nn.Linear(8, 8) for _ in range(num_rounds))


def test_what_has_a_vector_each_is_a_vocabulary():
    expression, _ = Search("Told", Told, {"Told": Told}, partial(attempt, real=False)).run()
    assert expression == "Told(n_question=1000, num_skill=1000, num_rounds=2)"


class Copied(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = copy.deepcopy(cfg)
        self.fc = nn.Linear(self.cfg.width, 2)


def test_what_python_does_with_any_value_says_nothing_of_it():
    scope = {"Copied": Copied, "SimpleNamespace": SimpleNamespace}
    expression, _ = Search("Copied", Copied, scope, partial(attempt, real=False)).run()
    assert expression == "Copied(cfg=SimpleNamespace(width=64))"


class Keyed(nn.Module):
    def __init__(self, width, **kwargs):
        super().__init__()
        self.keys = kwargs["model_keys"]
        self.parts = nn.ModuleDict({key: nn.Linear(width, kwargs["out"]) for key in self.keys})
        if kwargs.pop("kind") not in ("deep", "flat"):
            raise ValueError("kind")
        for each in kwargs.get("more", ()):
            self.parts[each] = nn.Identity()


def test_what_is_read_from_keywords_is_a_parameter_as_others_are():
    expression, _ = Search("Keyed", Keyed, {"Keyed": Keyed}, partial(attempt, real=False)).run()
    assert expression == "Keyed(width=64, model_keys=['a', 'b'], out=64, kind='deep')"


SPACES = """
class Space:
    pass

class Discrete(Space):
    def __init__(self, n, start=0):
        assert isinstance(n, int)
        self.n = n

class Box(Space):
    def __init__(self, low, high, shape=None, dtype=None):
        self.shape = tuple(shape)

class Dict(Space):
    def __init__(self, spaces):
        self.spaces = dict(spaces)
"""


@pytest.mark.parametrize(
    ("imported", "expected"),
    [
        (("Space", "Discrete", "Box"), "actions={'a': Discrete(4), 'b': Discrete(4)}, seen=Box(-1.0, 1.0, (4,))"),
        (
            ("Discrete",),
            "actions={'a': Discrete(4), 'b': Discrete(4)}, seen=gymnasium.spaces.Box(-1.0, 1.0, (4,))",
        ),
    ],
)
def test_spaces_of_environments_are_made_as_their_packages_make_them(monkeypatch, imported, expected):
    package, spaces = types.ModuleType("gymnasium"), types.ModuleType("gymnasium.spaces")
    package.spaces = spaces
    monkeypatch.setitem(sys.modules, "gymnasium", package)
    monkeypatch.setitem(sys.modules, "gymnasium.spaces", spaces)
    exec(SPACES, vars(spaces))
    for each in ("Space", "Discrete", "Box", "Dict"):
        vars(spaces)[each].__module__ = spaces.__name__

    class Policy(nn.Module):
        def __init__(self, actions, seen):
            super().__init__()
            self.fc = nn.Linear(seen.shape[0], sum(each.n for each in actions.values()))

    Policy.__init__.__annotations__ |= {"actions": dict[str, spaces.Discrete], "seen": spaces.Space}
    scope = {"Policy": Policy, **{each: vars(spaces)[each] for each in imported}}
    expression, _ = Search("Policy", Policy, scope, partial(attempt, real=False)).run()
    assert expression == f"Policy({expected})"

    class Seeing(nn.Module):
        def __init__(self, seen: spaces.Box):
            super().__init__()
            self.fc = nn.Conv2d(seen.shape[0], 4, seen.shape[1] // 32 + len(seen.shape[2:]))

    expression, _ = Search("Seeing", Seeing, {"Seeing": Seeing}, partial(attempt, real=False)).run()
    assert expression == "Seeing(seen=gymnasium.spaces.Box(0, 255, (3, 64, 64), 'uint8'))"

    class Sensing(nn.Module):
        def __init__(self, seen: spaces.Space):
            super().__init__()
            self.parts = nn.ModuleDict({key: nn.Linear(*each.shape, 2) for key, each in seen.spaces.items()})

    expression, _ = Search("Sensing", Sensing, {"Sensing": Sensing}, partial(attempt, real=False)).run()
    assert expression == "Sensing(seen=gymnasium.spaces.Dict({'a': gymnasium.spaces.Box(-1.0, 1.0, (4,))}))"

"""Arguments that are looked up by number or by name further in: items that are not there, tables in lists and objects.

So are those that code complains about as it handles another error.
"""

from dataclasses import dataclass, fields
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from fxworker.arguments import Search
from fxworker.beyond import Beyond, numbered, taken_beyond
from fxworker.building import attempt
from fxworker.choices import Group
from fxworker.complaints import complaint_of
from fxworker.meta import idle_initialisation
from fxworker.proposing import Proposals


class Teacher(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))


class Student(nn.Module):
    """Calls what a text names that is written out of an entry."""

    def __init__(self, config):
        super().__init__()
        self.teacher = eval(f"{config['teacher']}")(width=config["width"], depth=2)


class Levels(nn.Module):
    """Takes items of a list by numbers that it is given."""

    def __init__(self, widths: list[int], levels: list[int], last: int):
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(widths[each], 2) for each in levels)
        self.fc = nn.Linear(widths[last], 2)


class Combining(nn.Module):
    def __init__(self, table, wanted):
        super().__init__()
        self.parts = nn.ModuleList(nn.Conv2d(table[each]["chs"], 2, table[each]["kernel"][0]) for each in wanted)


class Layers(nn.Module):
    """Hands a list on, whose items it does not look at itself."""

    def __init__(self, table, wanted):
        super().__init__()
        self.parts = nn.ModuleList(Combining(sorted(table, key=str), each) for each in wanted)


class Store:
    def __init__(self, table):
        self.table = table

    def want(self, name):
        return self.table[name]


class Stored(nn.Module):
    """Asks an object of its own for entries of a table that it has put there."""

    def __init__(self, config):
        super().__init__()
        store = Store(config)
        names = [f"width_{each}" for each in range(3)]
        self.parts = nn.ModuleList(nn.Linear(store.want(each), 2) for each in names)


class Handling(nn.Module):
    """Says nothing of what it misses, but raises that while it handles the error that does."""

    def __init__(self, **kwargs):
        super().__init__()
        try:
            width = kwargs["width"]
        except KeyError as error:
            raise ValueError("Bad arguments") from error
        self.fc = nn.Linear(width, 2)


class Saying(nn.Module):
    """Says in words what key it misses."""

    def __init__(self, **kwargs):
        super().__init__()
        try:
            width = kwargs["width"]
        except KeyError:
            raise KeyError("'width' is not provided in kwargs") from None
        self.fc = nn.Linear(width, 2)


class Popping(nn.Module):
    def __init__(self, **kwargs):
        super().__init__()
        if (width := kwargs.pop("width", None)) is None:
            raise ValueError("Nothing to go by")
        depth = kwargs.get("depth")
        if depth is None:
            raise ValueError("Nothing to go by")
        self.parts = nn.ModuleList(nn.Linear(width, 2) for _ in range(depth))


class Vocabulary:
    """Has what it needs only once it was read from a file."""

    def size(self):
        return len(self.words)


class Tagger(nn.Module):
    """Wants an object in a table, of a class that lacks what it needs, and has more arguments that may be left out."""

    def __init__(self, vocab, matrix=None, cache=None, tokenizer=None, model=None):
        super().__init__()
        self.matrix, self.cache, self.tokenizer, self.model = matrix, cache, tokenizer, model
        if not isinstance(vocab["tags"], Vocabulary):
            self.tags = nn.Embedding(len(vocab["tags"]), 4)
        else:
            self.tags = nn.Embedding(vocab["tags"].size(), 4)


class Counting(nn.Module):
    """Leaves out what a vocabulary has first, in a base."""

    def __init__(self, vocab):
        super().__init__()
        self.count = len(vocab["words"]) - 4


class Counted(Counting):
    def __init__(self, vocab):
        super().__init__(vocab)
        self.fc = nn.Linear(8, self.count)


class Columns(nn.Module):
    """Puts down which columns are numbers, in values that a constructor has."""

    def __init__(self, width, columns):
        super().__init__()
        self.numbers = torch.ones(width, dtype=torch.bool)
        self.numbers[columns] = False
        self.fc = nn.Linear(width, 2)


class Initialised(nn.Module):
    """Fills weights as only a matrix can be filled."""

    def __init__(self, shared):
        super().__init__()
        nn.init.xavier_normal_(shared.weight, gain=2.0)
        self.shared = shared


@dataclass
class Sizes:
    width: int
    heads: int
    depth: int = 2


def made_of(cls, given):
    known = {each.name for each in fields(cls)}
    return cls(**{name: value for name, value in given.items() if name in known})


class Sifting(nn.Module):
    """Takes from a table within a table what a class knows."""

    def __init__(self, config):
        super().__init__()
        parts, sizes = config["block"]["count"], made_of(Sizes, config["block"])
        self.parts = nn.ModuleList(nn.Linear(sizes.width, sizes.heads) for _ in range(parts))


TAGGER = (
    "Tagger(vocab={'tags': type('Sized', (SimpleNamespace,), {'__len__': lambda self: 1000})"
    "(size=lambda *_, **__: 64)})"
)
LAYERS = "Layers(table=[{'chs': 64, 'kernel': (3, 3)}, {'chs': 64, 'kernel': (3, 3)}], wanted=[(0, 1), (0, 1)])"


@pytest.mark.parametrize(
    ("cls", "expression", "trials"),
    [
        (Levels, "Levels(widths=[64, 64], levels=[0, 1], last=0)", 5),
        (Layers, LAYERS, 40),
        (Columns, "Columns(width=64, columns=0)", 3),
        (Initialised, "Initialised(shared=SimpleNamespace(weight=torch.ones(64, 64)))", 10),
        (Stored, "Stored(config={'width_0': 64, 'width_1': 64, 'width_2': 64})", 6),
        (Handling, "Handling(width=64)", 2),
        (Saying, "Saying(width=64)", 2),
        (Popping, "Popping(width=64, depth=2)", 3),
        (Tagger, TAGGER, 6),
        (Counted, "Counted(vocab={'words': [64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64]})", 3),
        (Student, "Student(config={'teacher': 'Teacher', 'width': 64})", 2),
        (Sifting, "Sifting(config={'block': {'count': 2, 'width': 64, 'heads': 4}})", 3),
    ],
)
def test_they_are_found(cls, expression, trials):
    idle_initialisation()
    scope = {cls.__name__: cls, "torch": torch, "SimpleNamespace": SimpleNamespace}
    search = Search(cls.__name__, cls, scope, partial(attempt, real=False))
    assert (search.run() or ("",))[0] == expression, (search.tried, search.error)
    assert search.trials <= trials


class NetWrapper(nn.Module):
    """Is called after what it wraps, and is no wrapper of itself."""

    def __init__(self, net, width, depth):
        super().__init__()
        self.net = net
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        return self.net(x)


class Outer(nn.Module):
    """Has something around the same."""

    def __init__(self, net, size):
        super().__init__()
        self.inner = NetWrapper(net, size, 2)
        self.device = next(net.parameters()).device

    def forward(self, x):
        return self.inner(x)


def test_a_class_is_nowhere_within_a_call_of_itself():
    proposals = Proposals({"NetWrapper": NetWrapper, "Outer": Outer}, Outer, inner=False)
    choice = {"": Group("call", "Outer", Outer), "net": Group("call", "NetWrapper", NetWrapper)}
    inner = [each.cls for each in proposals.of(choice, "net.net") if isinstance(each, Group)]
    assert NetWrapper not in inner
    assert Outer not in inner


def test_a_number_beyond_the_end_is_told_with_how_many_items_there_are():
    def beyond(take):
        with pytest.raises(Exception, match=r".") as raised:
            take()
        return taken_beyond(raised.value)

    several, at = [1, 2, 3], 64
    assert beyond(lambda: several[at]) == Beyond(64, 3, ("at",))
    assert beyond(lambda: torch.ones(2)[at]) == Beyond(64, 2)
    assert beyond(lambda: {}["at"]) is None
    assert numbered("[64, 64, 64]", Beyond(64, 2)) == "[0, 1, 0]"
    assert numbered("(64, 8)", Beyond(64)) == "(0, 1)"
    assert numbered("[(2, 2), [4]]", Beyond(2, 2)) == "[(0, 1), [4]]"
    assert (numbered("64", Beyond(64)), numbered("8", Beyond(64)), numbered("'64'", Beyond(64))) == ("0", "", "")


KEY = "place"


def choosy(table):
    if KEY in table:
        if table[KEY] != 1:
            raise ValueError("This is strange")
        raise ValueError("This as well")


def test_an_entry_that_is_there_and_not_liked_is_told():
    with pytest.raises(ValueError, match="strange") as raised:
        choosy({KEY: 2, "other": 3})
    assert complaint_of(raised.value).refused == (KEY,)

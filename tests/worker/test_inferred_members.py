"""Arguments that are members of enumerations, and tables whose keys are such members."""

import enum
from functools import partial

import pytest
from torch import nn

from fxworker.arguments import Search
from fxworker.building import attempt


class Sort(enum.Enum):
    NUMBERS = "numbers"
    WORDS = "words"


class Weight(enum.StrEnum):
    LIGHT = "light"
    HEAVY = "heavy"


class Encoder(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.fc = nn.Linear(width, 4)


class Columns(nn.Module):
    def __init__(self, encoders: dict[Sort, Encoder]):
        super().__init__()
        self.encoders = nn.ModuleDict({sort.value: each.fc for sort, each in encoders.items()})


class Widths(nn.Module):
    def __init__(self, widths: dict[Sort, int]):
        super().__init__()
        self.layers = nn.ModuleDict({sort.name: nn.Linear(each, 4) for sort, each in widths.items()})


class Counted(nn.Module):
    def __init__(self, encoders: dict[int, Encoder]):
        super().__init__()
        self.layers = nn.ModuleList(encoders[at].fc for at in range(len(encoders)))


class ByMember(nn.Module):
    def __init__(self, sort):
        super().__init__()
        self.act = {Sort.NUMBERS: nn.ReLU(), Sort.WORDS: nn.GELU()}[sort]


LAYERS = {Sort.NUMBERS: nn.Linear, Sort.WORDS: nn.Embedding}
BY_WEIGHT = {Weight.LIGHT: 4, Weight.HEAVY: 64}


def layer_of(given):
    return LAYERS[given](8, 4)


class LookedUp(nn.Module):
    def __init__(self, given):
        super().__init__()
        self.layer = layer_of(given)


class Weighed(nn.Module):
    def __init__(self, given):
        super().__init__()
        self.layer = nn.Linear(BY_WEIGHT[given], given.name.count("H") + 1)


@pytest.mark.parametrize("cls", [Columns, Widths, Counted, ByMember, LookedUp, Weighed])
def test_it_is_built(cls):
    search = Search(cls.__name__, cls, globals(), partial(attempt, real=False))
    found = search.run()
    assert found is not None, (search.tried, search.error)


@pytest.mark.parametrize(("cls", "said"), [(Widths, "Sort.NUMBERS: 64"), (ByMember, "sort=Sort.NUMBERS")])
def test_members_are_written_as_the_file_names_them(cls, said):
    expression, _ = Search(cls.__name__, cls, globals(), partial(attempt, real=False)).run()
    assert said in expression

"""What constructors go over: entries of mappings, several parameters at once, records with parts of their own."""

from types import SimpleNamespace

import pytest
from torch import nn

from fxworker.arguments import Search
from fxworker.building import attempt
from fxworker.conventions import usual_values
from fxworker.evidence import Use


class Grid(nn.Module):
    def __init__(self, grid):
        super().__init__()
        self.limits(**grid)

    def limits(self, x, y, z, **_):
        self.lower = [each[0] for each in [x, y, z]]
        self.counts = [(each[1] - each[0]) / each[2] for each in (x, y, z)]


class Heads(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = nn.ModuleDict({name: nn.Linear(4, part["width"]) for name, part in config["heads"].items()})


class Columns(nn.Module):
    def __init__(self, columns, width):
        super().__init__()
        self.dense, self.sparse = columns
        self.tables = nn.ModuleList(nn.Embedding(each["count"], each["width"]) for each in self.sparse)
        self.linear = nn.Linear(len(self.dense), width)


class Words(nn.Module):
    def __init__(self, data):
        super().__init__()
        self.table = nn.Embedding(data.alphabet.size(), data.width)
        self.tables = nn.ModuleList()
        for at in range(data.count):
            self.tables.append(nn.Embedding(data.alphabets[at].size(), data.widths[at]))


@pytest.mark.parametrize("cls", [Grid, Heads, Columns, Words])
def test_they_are_built(cls):
    found = Search(cls.__name__, cls, {cls.__name__: cls, "SimpleNamespace": SimpleNamespace}, attempt).run()
    assert found is not None


def test_several_entries_of_a_mapping_have_what_is_read():
    expression, net = Search("Heads", Heads, {"Heads": Heads}, attempt).run()
    assert len(net.heads) > 0
    assert expression.count("'width'") == len(net.heads)


def test_a_text_is_gone_over_as_well():
    use = Use(kinds={"string": 38, "sequence": 2})
    assert use.kind == "string"
    assert Use(kinds={"string": 2, "sequence": 2}).kind == "sequence"


def test_words_in_names():
    assert usual_values("diffusion_steps")[0] == "2"
    assert usual_values("layer_norm_eps")[0] == "0.1"
    assert usual_values("alphabets") == ()
    assert usual_values("no_heads_ipa")[0] == "2"
    assert usual_values("no_bias")[0] == "True"

"""Files of data that a constructor reads and nobody has: the model is built with what such a file may hold."""

import importlib
import os
import sys
from functools import partial

import pytest
import torch
from torch import nn

from fxworker import data_files
from fxworker.arguments import Search
from fxworker.building import attempt

pytestmark = pytest.mark.usefixtures("imports_undone")

HEAD = """\
import csv
import json
import pickle
from pathlib import Path
import numpy as np
import torch
from torch import nn
"""


@pytest.fixture
def net(tmp_path, monkeypatch):
    """Return a function that gives the model of a class whose constructor has a body, in a project of its own."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(data_files, "is_of_project", lambda path: path.startswith(str(tmp_path)))

    def made(*body, argument="'nowhere/data'"):
        lines = "".join(f"        {each}\n" for each in body)
        text = f"{HEAD}class Net(nn.Module):\n    def __init__(self, path):\n        super().__init__()\n{lines}"
        (tmp_path / "project_file.py").write_text(text)
        sys.modules.pop("project_file", None)
        importlib.invalidate_caches()
        module = importlib.import_module("project_file")
        return attempt(lambda: module.Net(argument.strip("'")))

    return made


def test_a_vocabulary_has_some_words(net):
    built = net(
        "self.words = json.load(open(path))",
        "self.pad = self.words['<pad>']",
        "self.emb = nn.Embedding(len(self.words), 8, padding_idx=self.pad)",
    )
    assert built.emb.num_embeddings == 4


def test_lines_may_be_words_and_words_with_numbers(net):
    built = net(
        "with open(path, encoding='utf8') as lines:",
        "    self.words = [line.rstrip('\\n') for line in lines]",
        "rows = [line.split() for line in Path(path + '.vec').read_text().splitlines()]",
        "table = {word: float(number) for word, number in rows}",
        "with open(path + '.ids') as rows:",
        "    numbers = dict((row.strip().split('\\t')[1], int(row.split('\\t')[0])) for row in rows)",
        "self.emb = nn.Embedding(len(self.words) + len(table) + len(numbers), 8)",
    )
    assert built.emb.num_embeddings == 6


def test_the_text_of_a_table_is_one_whose_entries_are_what_their_names_say(net):
    built = net("table = json.loads(Path(path).read_text())", "self.fc = nn.Linear(table['num_heads'], table['odd'])")
    assert (built.fc.in_features, built.fc.out_features) == (4, 64)


def test_what_is_pickled_may_be_arrays(net):
    built = net(
        "with open(path, 'rb') as file:",
        "    data = pickle.load(file, encoding='latin1')",
        "self.register_buffer('template', torch.tensor(data['template']))",
        "self.register_buffer('weights', torch.tensor(data['regressor'].toarray()))",
    )
    assert built.template.shape == built.weights.shape == (64, 64)


def test_several_arrays_may_be_in_one_file(net):
    built = net("mean = np.load(path)", "self.register_buffer('mean', torch.from_numpy(mean['pose'][:]))")
    assert built.mean.shape == (64, 64)


def test_the_error_is_the_one_that_came_furthest(net):
    with pytest.raises(FileNotFoundError):
        net("self.first = open(path + '/a').read() + 1")
    with pytest.raises(ZeroDivisionError):
        net("self.words = json.load(open(path))", "self.fc = nn.Linear(len(self.words) // 0, 8)")


def test_what_is_written_is_not_supplied(net):
    with pytest.raises(FileNotFoundError):
        net("open(path, 'w').write('a')")
    with pytest.raises(FileNotFoundError):
        net("Path(path).write_text('a')")


def test_a_file_that_the_project_has_is_not_made_up(net, tmp_path):
    (tmp_path / "words.json").write_text("{}")
    with pytest.raises(FileNotFoundError):
        net("self.words = json.load(open(path))", argument="'nowhere/words.json'")


class Joined(nn.Module):
    def __init__(self, folder):
        super().__init__()
        self.names = os.path.join(folder, "names")  # noqa: PTH118 — As models have it.
        self.fc = nn.Linear(8, 2)


def test_what_is_joined_to_a_path_is_one():
    search = Search("Joined", Joined, {"torch": torch, "Joined": Joined}, partial(attempt, real=False))
    assert search.run() is not None, (search.tried, search.error)
    assert search.trials == 1

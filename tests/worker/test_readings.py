"""What a trace follows from besides modules: the files that the project's code opens to read."""

import io
import os
import time
from functools import partial

import pytest
from torch import nn

from fxworker import readings, tampering
from fxworker.arguments import Search
from fxworker.building import attempt
from tests.worker.harness import of

NET = """\
import json
from pathlib import Path

import torch
from torch import nn

HERE = Path(__file__).parent
SIZES = json.loads((HERE / "sizes.json").read_text())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(SIZES["width"], 4)

    def forward(self, x):
        return self.fc(x)
"""


def parameters(report):
    return of(report, "Net").facts.parameters


def test_a_file_that_is_read_is_among_those_that_a_report_follows_from(worker, model):
    sizes = model('{"width": 4}', "sizes.json")
    report = worker.trace(model(NET))
    assert parameters(report) == 4 * 4 + 4
    assert report.dependencies == (str(sizes),)


def test_a_file_that_is_read_while_a_module_is_imported_counts_as_the_module_does(worker, model):
    sizes = model('{"width": 4}', "sizes.json")
    lib = model("import json\nSIZES = json.load(open('sizes.json'))\n", "lib.py")
    path = model("from lib import SIZES\n" + NET.replace("SIZES = ", "OTHERS = "))
    report = worker.trace(path)
    assert report.dependencies == (str(lib), str(sizes))
    sizes.write_text('{"width": 64}')
    assert parameters(worker.trace(path)) == 64 * 4 + 4


def test_what_was_built_ahead_from_a_file_that_has_changed_is_not_used(worker, model):
    sizes, path = model('{"width": 4}', "sizes.json"), model(NET)
    worker.edit(path, NET)
    for width in (5, 6, 7):
        time.sleep(1.0)
        sizes.write_text(f'{{"width": {width}}}')
        report = worker.edit(path, NET.replace("return self.fc(x)", f"return self.fc(x) + {width}"))
        assert parameters(report) == width * 4 + 4


def test_what_is_written_as_well_is_no_reason_to_trace_again(worker, model, tmp_path):
    model('{"width": 4}', "sizes.json")
    kept = model("0", "kept.txt")
    moved = model("0", "moved.txt")
    text = NET.replace(
        "class Net",
        'KEPT = (HERE / "kept.txt").read_text(), (HERE / "kept.txt").write_text("1")\n'
        'MOVED = (HERE / "moved.txt").read_text(), (HERE / "new.txt").write_text("1"), '
        '(HERE / "new.txt").replace(HERE / "moved.txt")\n\n\nclass Net:\n    last = KEPT, MOVED\n\n\nclass Net',
        1,
    ).replace("class Net:", "class Last:").replace("nn.Linear(", "nn.Linear(len(Last.last) * 0 + ")  # fmt: skip
    report = worker.trace(model(text))
    assert (kept.read_text(), moved.read_text()) == ("1", "1")
    assert report.dependencies == (str(tmp_path / "sizes.json"),)


class Counting(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(len(_read(width)), 4)


def _read(name):
    with open(name) as file:  # noqa: PTH123 — As user code does.
        return file.read()


@pytest.fixture
def noting(monkeypatch, tmp_path):
    for module, name in ((io, "open"), (os, "open"), (os, "rename"), (os, "replace")):
        monkeypatch.setattr(module, name, getattr(module, name))
    monkeypatch.setattr(readings, "_folders", [])
    before = io.open
    readings.note_below([str(tmp_path)])
    yield
    tampering.expect("open", before)


@pytest.mark.usefixtures("noting")
def test_no_file_is_closed_by_a_number_that_was_made_up(tmp_path):
    held = os.dup2(os.open(os.devnull, os.O_RDONLY), 64)
    search = Search("Counting", Counting, globals(), partial(attempt, real=False))
    search.run()
    os.close(held)  # It is still there.
    with os.fdopen(os.open(tmp_path / "words", os.O_WRONLY | os.O_CREAT), "w") as stream:
        stream.write("a b")
    assert _read(str(tmp_path / "words")) == "a b"

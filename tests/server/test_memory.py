"""What is remembered of a class between sessions."""

import json
import os

import pytest

from fxls.discovery import discover
from fxls.memory import Memory
from fxworker.wire import Construct, Location, Problem, Span, TargetReport, TraceReport

TEXT = """
from torch import nn

class Net(nn.Module):
    def __init__(self, width, depth=2):
        super().__init__()

    def forward(self, x):
        return x
"""


def report(path: str, expression: str = "Net(width=64)", source: str = "inferred", problems=()) -> TraceReport:
    construct = Construct(expression, source)
    target = TargetReport("Net", "class", Span(4, 6, 4, 9), "complete", construct, problems=problems)
    return TraceReport(1, path, "", "complete", (target,))


def constructs(memory: Memory, path: str, text: str = TEXT) -> list[tuple[str, str]]:
    (target,) = memory.recalled(discover(path, text)).targets
    return [(each.expression, each.source) for each in target.constructs]


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "net.py")


def test_what_was_inferred_comes_back_in_the_next_session(tmp_path, path):
    Memory(tmp_path / "cache").remember(discover(path, TEXT), report(path))
    assert constructs(Memory(tmp_path / "cache"), path) == [("Net(width=64)", "remembered")]


def test_it_comes_behind_what_the_file_says(tmp_path, path):
    Memory(tmp_path / "cache").remember(discover(path, TEXT), report(path))
    text = TEXT.replace("class Net", "# fx: Net(3)\nclass Net")
    found = constructs(Memory(tmp_path / "cache"), path, text)
    assert found == [("Net(3)", "directive"), ("Net(width=64)", "remembered")]


def test_another_signature_or_file_is_another_class(tmp_path, path):
    Memory(tmp_path / "cache").remember(discover(path, TEXT), report(path))
    memory = Memory(tmp_path / "cache")
    assert constructs(memory, path, TEXT.replace("width,", "width, height,")) == []
    assert constructs(memory, path, TEXT.replace("return x", "return x + 1")) != []
    assert constructs(memory, str(tmp_path / "other.py")) == []


def test_within_a_session_the_answer_stays_the_same(tmp_path, path):
    memory = Memory(tmp_path / "cache")
    assert constructs(memory, path) == []
    memory.remember(discover(path, TEXT), report(path))
    assert constructs(memory, path) == []


@pytest.mark.parametrize("source", ["directive", "call", "no arguments", "remembered"])
def test_only_what_was_inferred_is_kept(tmp_path, path, source):
    Memory(tmp_path / "cache").remember(discover(path, TEXT), report(path, source=source))
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", '{"program": 1}', '{"program": "?", "path": "", "constructs": {}}', "\xff"]
)
def test_a_damaged_file_is_as_good_as_none(tmp_path, path, damage):
    folder = tmp_path / "cache"
    Memory(folder).remember(discover(path, TEXT), report(path))
    (file,) = folder.iterdir()
    file.write_bytes(damage.encode("latin-1"))
    assert constructs(Memory(folder), path) == []
    Memory(folder).remember(discover(path, TEXT), report(path))
    assert constructs(Memory(folder), path) == [("Net(width=64)", "remembered")]


def test_what_another_server_wrote_is_kept(tmp_path, path):
    folder = tmp_path / "cache"
    other = TEXT.replace("class Net", "class Other")
    one, two = Memory(folder), Memory(folder)
    assert constructs(one, path) == constructs(two, path) == []
    one.remember(discover(path, TEXT), report(path))
    found = report(path, "Other(width=3)")
    target = found.targets[0]
    changed = TargetReport("Other", "class", target.name, "complete", target.construct)
    two.remember(discover(path, other), TraceReport(1, path, "", "complete", (changed,)))
    (file,) = folder.iterdir()
    assert sorted(json.loads(file.read_text())["constructs"].values()) == ["Net(width=64)", "Other(width=3)"]


def test_a_folder_that_cannot_be_written_does_no_harm(tmp_path, path):
    (tmp_path / "file").write_text("")
    Memory(tmp_path / "file" / "cache").remember(discover(path, TEXT), report(path))


def test_what_another_version_of_the_program_found_does_not_count(tmp_path, monkeypatch):
    path = str(tmp_path / "net.py")
    Memory(tmp_path / "cache").remember(discover(path, TEXT), report(path))
    assert constructs(Memory(tmp_path / "cache"), path)
    monkeypatch.setattr("fxls.memory.program", lambda: "another version")
    assert not constructs(Memory(tmp_path / "cache"), path)


def test_the_oldest_files_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("fxls.memory._MOST_FILES", 3)
    for number in range(6):
        path = str(tmp_path / f"net{number}.py")
        Memory(tmp_path / "cache").remember(discover(path, TEXT), report(path))
        for file in (tmp_path / "cache").iterdir():
            os.utime(file, (file.stat().st_mtime - 10, file.stat().st_mtime - 10))
    assert len(list((tmp_path / "cache").iterdir())) == 3
    assert constructs(Memory(tmp_path / "cache"), str(tmp_path / "net5.py"))
    assert not constructs(Memory(tmp_path / "cache"), str(tmp_path / "net0.py"))


def test_what_builds_a_model_only_as_a_mistake_wants_it_is_not_kept(tmp_path, path):
    unfit = Problem("FX201", "does not fit", Location(path, Span(9, 8, 9, 20)), "information", "Net")
    Memory(tmp_path / "cache").remember(discover(path, TEXT), report(path, problems=(unfit,)))
    assert not (tmp_path / "cache").exists()

"""Which edits ask for a new trace of which models: a report is kept only where nothing that it follows from changed."""

import os
from dataclasses import replace

import pytest

from fxls.discovery import discover
from fxls.reusing import known_of
from fxworker.wire import Overlay
from tests.worker.harness import Worker, of

FILE = """\
import dataclasses
import torch
from torch import nn

import registry
from other import far

WIDTH = 4
TABLE = {}


@dataclasses.dataclass
class Config:
    width: int = 4


def helper(x):
    return x * 2


def inner(x):
    return helper(x) + 1


class Base(nn.Module):
    def scaled(self, x):
        return x * 3


class First(Base):
    def __init__(self, config: Config = Config()):
        super().__init__()
        self.layer = nn.Linear(config.width, WIDTH)

    def forward(self, x):
        return far(inner(self.scaled(self.layer(x))))


class Part(nn.Module):
    def forward(self, x):
        return x + 2


class Second(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Part()

    def forward(self, x):
        return self.part(x).relu()


@registry.register
class Third(nn.Module):
    def forward(self, x):
        return x - 1
"""

REGISTRY = "FOUND = {}\n\n\ndef register(cls):\n    FOUND[cls.__name__] = cls\n    return cls\n"


@pytest.fixture(scope="module")
def worker():
    process = Worker()
    yield process
    process.close()


@pytest.fixture
def model(tmp_path):
    (tmp_path / "registry.py").write_text(REGISTRY)
    (tmp_path / "other.py").write_text("def far(x):\n    return x + 5\n")
    path = tmp_path / "model.py"
    path.write_text(FILE)
    return path


def traced(worker, path, text, known=(), overlays=()):
    asked = replace(worker.request(path, text, overlays=overlays), known=known)
    worker.send(asked)
    return worker.receive()


def unchanged(worker, path, old, new, text=FILE):
    """Return the targets that are not traced again after an edit."""
    assert old in text
    before = traced(worker, path, text)
    edited = text.replace(old, new, 1)
    after = traced(worker, path, edited, known_of(before))
    whole = traced(worker, path, edited)
    for one, other in zip(after.targets, whole.targets, strict=True):
        assert (one.qualname, one.status, one.enclosed_by, one.module_path) == (
            other.qualname, other.status, other.enclosed_by, other.module_path,
        )  # fmt: skip
    return {each.qualname for each in after.targets if each.unchanged}


EDITS = {
    "a forward": ("self.part(x).relu()", "self.part(x).tanh()", {"First"}),
    "another forward": ("return far(inner(", "y = 1\n        return far(inner(", {"Second"}),
    "a part": ("return x + 2", "return x + 3", {"First"}),
    "a helper of a helper": ("return x * 2", "return x * 4", {"Second"}),
    "a base class": ("return x * 3", "return x * 4", {"Second"}),
    "a global": ("WIDTH = 4", "WIDTH = 8", set()),
    "a global that nothing uses": ("TABLE = {}", "TABLE = {1: 2}", {"First", "Second"}),
    "a class that is looked up": ("width: int = 4", "width: int = 6", {"Second"}),
    "lines above": ("WIDTH = 4", "\n\nWIDTH = 4", {"First", "Second"}),
    "what a registry may hold": ("return x - 1", "return x - 2", set()),
    "what is taken instead": ("WIDTH = 4", "# fx: WIDTH = 8\nWIDTH = 4", set()),
    "an import": ("import dataclasses", "import dataclasses\nimport math", set()),
    "a new class": (
        "@registry",
        "class More(nn.Module):\n    def forward(self, x):\n        return x\n\n\n@registry",
        set(),
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_model_is_traced_again_if_something_that_it_may_reach_changed(worker, model, edit):
    old, new, kept = EDITS[edit]
    assert unchanged(worker, model, old, new) - {"Third"} == kept


HIDDEN = {
    "globals": ("def helper(x):\n", "def helper(x):\n    globals()\n"),
    "a subclass hook": ("    def scaled", "    def __init_subclass__(cls):\n        pass\n\n    def scaled"),
    "a global statement": ("def helper(x):\n", "def helper(x):\n    global WIDTH\n"),
    "a changed table": ("def helper(x):\n", "def helper(x):\n    TABLE[0] = x\n"),
    "a changed class": ("def helper(x):\n", "def helper(x):\n    Part.more = 1\n"),
    "a patch of torch": ("def helper(x):\n", "def helper(x):\n    torch.relu = None\n"),
    "a switch": ("def helper(x):\n", "def helper(x):\n    torch.set_default_dtype(torch.float32)\n"),
    "a setattr": ("def helper(x):\n", "def helper(x):\n    setattr(Part, 'more', 1)\n"),
    "a failure": ("WIDTH = 4", "WIDTH = {}[1]"),
}


@pytest.mark.parametrize("hidden", HIDDEN)
def test_where_names_do_not_tell_everything_is_traced_again(worker, model, hidden):
    old, new = HIDDEN[hidden]
    assert unchanged(worker, model, "self.part(x).relu()", "self.part(x).tanh()", FILE.replace(old, new, 1)) == set()


def test_a_model_whose_parts_are_found_in_a_table_is_traced_again(worker, model):
    text = FILE.replace("self.part = Part()", "self.part = registry.FOUND['Third']()")
    assert unchanged(worker, model, "return x - 1", "return x - 2", text) == set()


def test_a_file_that_is_imported_counts(worker, model):
    before = traced(worker, model, FILE)
    assert of(before, "First").key
    other = model.parent / "other.py"
    other.write_text("def far(x):\n    return x + 50\n")
    os.utime(other, ns=(1, 1))
    after = traced(worker, model, FILE, known_of(before))
    assert not any(each.unchanged for each in after.targets)
    assert "50" in of(after, "First").code


def test_an_unsaved_text_of_an_imported_file_counts(worker, model):
    before = traced(worker, model, FILE)
    unsaved = (Overlay(str(model.parent / "other.py"), "def far(x):\n    return x + 70\n"),)
    after = traced(worker, model, FILE, known_of(before), unsaved)
    assert not any(each.unchanged for each in after.targets)
    assert "70" in of(after, "First").code


def test_another_way_to_build_asks_for_a_trace(worker, model):
    before = traced(worker, model, FILE)
    text = FILE.replace("class First", "# fx: First(Config(8))\nclass First")
    assert discover(str(model), text).targets != discover(str(model), FILE).targets
    after = traced(worker, model, text, known_of(before))
    assert not of(after, "First").unchanged
    assert of(after, "Second").unchanged


def test_another_value_to_take_instead_asks_for_a_trace(worker, model):
    text = FILE.replace("WIDTH = 4", "# fx: WIDTH = 8\nWIDTH = 4")
    assert unchanged(worker, model, "WIDTH = 8", "WIDTH = 6", text) == set()


def test_what_was_inferred_is_not_forgotten_by_traces_that_leave_a_model_out(worker, model):
    before = traced(worker, model, FILE)
    text = FILE.replace("relu()", "tanh()")
    after = traced(worker, model, text, known_of(before))
    assert of(after, "First").unchanged
    again = traced(worker, model, text)
    assert of(again, "First").inputs == of(before, "First").inputs


REGISTERING = """\
import functools
import weakref

FOUND, WEAK, FUNCTIONS = {}, weakref.WeakSet(), []


def documented(made):
    made.__doc__ = "What it does."
    return made


def wrapped(cls):
    forward = cls.forward

    @functools.wraps(forward)
    def called(self, *args):
        return forward(self, *args)

    cls.forward = called
    return cls


def kept(made):
    FOUND[made.__name__] = made
    return made


def weakly(made):
    WEAK.add(made)
    return made


def bound(cls):
    cls.again = classmethod(lambda _: cls())
    return cls


def replaced(function):
    FUNCTIONS.append(function)
    return functools.wraps(function)(lambda x: function(x))


class Silent:
    def __init_subclass__(cls):
        cls.told = True


class Noting:
    def __init_subclass__(cls):
        FOUND[cls.__name__] = cls
"""

HOLDING = {
    "nothing but its text": ("@documented", "", True),
    "a method around another": ("@wrapped", "", True),
    "a table": ("@kept", "", False),
    "a weak table": ("@weakly", "", False),
    "one of its own functions": ("@bound", "", True),
    "a hook that keeps nothing": ("", "Silent", True),
    "a hook that keeps it": ("", "Noting", False),
    "both": ("@documented", "Noting", False),
}

DECORATED = """\
from torch import nn

from registry import Noting, Silent, bound, documented, kept, replaced, weakly, wrapped


class Other(nn.Module):
    def forward(self, x):
        return x + 2


@documented
def plain(x):
    return x * 2


{decorator}
class Third(nn.Module, {base}):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return plain(x) - 1
"""


@pytest.mark.parametrize("how", HOLDING)
@pytest.mark.parametrize("edit", [("plain(x) - 1", "plain(x) - 2"), ("x * 2", "x * 3")])
def test_what_holds_a_definition_that_is_edited_is_seen(worker, model, how, edit):
    decorator, base, alone = HOLDING[how]
    (model.parent / "registry.py").write_text(REGISTERING)
    text = DECORATED.format(decorator=decorator, base=base).replace("\n\n\n\nclass", "\n\n\nclass")
    assert unchanged(worker, model, *edit, text) == ({"Other"} if alone else set())


@pytest.mark.parametrize("decorator", ["kept", "weakly", "replaced"])
def test_what_holds_a_function_that_is_edited_is_seen(worker, model, decorator):
    (model.parent / "registry.py").write_text(REGISTERING)
    text = DECORATED.format(decorator="@documented", base="Silent").replace("@documented\ndef", f"@{decorator}\ndef")
    assert unchanged(worker, model, "x * 2", "x * 3", text) == set()

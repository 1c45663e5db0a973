"""What a child does ahead of its request: which edits are put in place, and which ask for a child that begins anew."""

import sys
import time

import pytest

from fxls.discovery import discover
from fxworker.loading import Document
from fxworker.prepared import prepare
from fxworker.rehearsal import is_rehearsed
from fxworker.tracing import trace
from fxworker.wire import Limits, TraceRequest
from tests.worker.harness import Worker, all_problems, of

NET = """\
import functools

import torch
from torch import nn

SCALE = 2


def helper(x):
    return x * SCALE


def at_import():
    return 3


COUNT = at_import()


def keeping(function):
    @functools.wraps(function)
    def kept(*args, **kwargs):
        return function(*args, **kwargs)

    return kept


class Block(nn.Module):
    def __init__(self, width: int = 4):
        super().__init__()
        self.layer = nn.Linear(width, self.width_of(width))

    def width_of(self, width):
        return width

    @keeping
    def forward(self, x):
        return self.layer(x)


class Net(nn.Module):
    '''A model.'''

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(4) for _ in range(COUNT))

    @staticmethod
    def half(x):
        return x / 2

    @property
    def scale(self):
        return 1

    def forward(self, x):
        '''Go through it.'''
        for block in self.blocks:
            x = block(x)
        return helper(x) * self.scale + self.half(x)
"""

PUT_IN_PLACE = {
    "a statement": ("            x = block(x)", "            x = block(x) + 1"),
    "a line": ("        for block in", "        y = 1\n        for block in"),
    "a line above": ("SCALE = 2", "\n\nSCALE = 2"),
    "a docstring of a function": ("Go through it.", "Go."),
    "a function": ("return x * SCALE", "return x - SCALE"),
    "a static method": ("return x / 2", "return x.relu()"),
    "a property": ("return 1", "return 2"),
    "a wrapper": ("        return function(*args, **kwargs)", "        return function(*args, **kwargs) * 3"),
    "a wrapped method": ("return self.layer(x)", "return self.layer(x).relu()"),
    "a problem": ("            x = block(x)", "            x = block(x) if x.sum() > 0 else x"),
}

DONE_ANEW = {
    "a constant": ("SCALE = 2", "SCALE = 5"),
    "a constructor": ("self.blocks = nn", "self.modules_ = 1\n        self.blocks = nn"),
    "what a constructor calls": ("        return width\n", "        return width * 1\n"),
    "what the file runs": ("return 3", "return 2"),
    "what a decorator runs": ("    @functools.wraps", "    function = function or None\n\n    @functools.wraps"),
    "parameters": ("    def forward(self, x):\n        '''", "    def forward(self, x, y=None):\n        '''"),
    "a name": ("def helper(x):", "def other(x):"),
    "a new method": ("    @property", "    def more(self, x):\n        return x\n\n    @property"),
    "a base class": ("class Block(nn.Module)", "class Block(nn.Identity)"),
    "a docstring of a class": ("A model.", "The model."),
    "a decorator": ("    @keeping\n", ""),
    "a default": ("width: int = 4", "width: int = 8"),
    "an import": ("import functools\n", "import functools\nimport math\n"),
    "a decorator that registers": ("class Block(nn.Module)", "@TABLE.register\nclass Block(nn.Module)"),
    "no program": ("return x * SCALE", "return x *"),
}


def request(path, text):
    return TraceRequest(1, str(path), text, discover(str(path), text).targets, (str(path.parent),), (), Limits(60))


def traced(request, document, prepared=None, loaded=None):
    built = set()
    report = trace(request, document, lambda *_: None, lambda _, names: built.update(names), prepared=prepared,
                   loaded=loaded)  # fmt: skip
    return report, frozenset(built)


@pytest.fixture
def place(tmp_path, monkeypatch):
    path = tmp_path / "prepared_net.py"
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    monkeypatch.chdir(tmp_path)
    yield path
    sys.modules.pop("prepared_net", None)


def opened(first):
    document = Document.of(first)
    document.enter(first)
    document.import_ahead(first)
    return document


def ready(path, text=NET):
    first = request(path, text)
    traced_before = opened(first)
    _, built = traced(first, traced_before)
    assert built == {"Net"}
    # A template, which forks the processes that trace, has executed nothing itself.
    document = opened(first)
    document.hints = traced_before.hints
    prepared = prepare(first, document, built)
    assert prepared is not None
    assert is_rehearsed(first, document, prepared)
    return document, prepared


def same_but_for_time(report):
    targets = [
        (each.qualname, each.status, each.name, each.construct, each.inputs, each.facts, each.nodes, each.code,
         each.problems, each.guards, each.enclosed_by)
        for each in report.targets
    ]  # fmt: skip
    return report.digest, report.status, targets, report.problems


@pytest.mark.parametrize("what", PUT_IN_PLACE)
def test_an_edit_of_bodies_is_put_in_place_and_the_report_is_that_of_the_text(place, what):
    document, prepared = ready(place)
    assert NET.count(PUT_IN_PLACE[what][0]) == 1
    edited = request(place, NET.replace(*PUT_IN_PLACE[what]))
    loaded = prepared.taken(edited)
    assert loaded is not None
    report, built = traced(edited, document, prepared, loaded)
    assert built >= {"Net"}
    afresh, _ = traced(edited, document)
    assert same_but_for_time(report) == same_but_for_time(afresh)
    assert of(report, "Net").nodes


@pytest.mark.parametrize("what", DONE_ANEW)
def test_an_edit_that_may_matter_to_what_was_done_is_not_taken(place, what):
    _, prepared = ready(place)
    assert NET.count(DONE_ANEW[what][0]) == 1
    assert prepared.taken(request(place, NET.replace(*DONE_ANEW[what]))) is None


def test_a_function_that_something_was_made_of_is_not_changed(place):
    text = NET.replace("    @keeping\n", "    @torch.jit.ignore\n").replace(
        "def helper(x):", "@torch.jit.script\ndef helper(x):\n    # SCALE is not known to it\n"
    ).replace("x * SCALE", "x * 2")  # fmt: skip
    _, prepared = ready(place, text)
    assert prepared.taken(request(place, text.replace("x * 2", "x * 3"))) is None


@pytest.mark.parametrize(
    "fault", [("SCALE = 2", "SCALE = 1 / 0"), ("return width\n", "return width / 0\n"), ("return 3", "return 3 +")]
)
def test_a_text_that_fails_is_not_prepared(place, fault):
    document, _ = ready(place)
    assert prepare(request(place, NET.replace(*fault)), document, frozenset({"Net"})) is None


def test_a_text_that_traces_itself_is_prepared_all_the_same(place):
    text = NET.replace("    return 3", "    import sys\n\n    sys.settrace(None)\n    return 3")
    _, prepared = ready(place, text)
    assert prepared.taken(request(place, text.replace("return 3", "return 2"))) is None


def test_what_the_compiler_warns_of_is_put_in_place_too(place):
    text = NET.replace("return self.layer(x)", "return self.layer(x) if 3 is 3 else x")
    document, prepared = ready(place, text)
    edited = request(place, text.replace("self.layer(x) if", "self.layer(x).relu() if"))
    with pytest.warns(SyntaxWarning, match="is"):
        loaded = prepared.taken(edited)
    assert loaded is not None
    report, _ = traced(edited, document, prepared, loaded)
    assert "relu" in of(report, "Net").code


def test_what_a_model_of_another_construction_was_built_for_is_not_used(place):
    document, prepared = ready(place)
    edited = request(place, NET.replace("class Block", "# fx: Block(width=6)\nclass Block"))
    loaded = prepared.taken(edited)
    assert loaded is not None
    (block,) = (each for each in edited.targets if each.qualname == "Block")
    assert prepared.model(block) is None
    report, built = traced(edited, document, prepared, loaded)
    assert built == {"Block", "Net"}
    assert of(report, "Block").construct.expression == "Block(width=6)"


LEAVES_TRACES = """\
import random
import warnings

import torch
from torch import nn

CALLS = 0
KEPT = []


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.kept = {}
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        global CALLS
        CALLS += 1
        self.calls += 1
        self.kept["last"] = x
        print("forward was called")
        warnings.warn("forward warns")
        for _ in range(CALLS + self.calls + random.randrange(9)):
            x = self.layer(x)
        return x
"""


def test_a_rehearsal_is_not_heard_and_what_it_changed_is_put_back(place, capfd):
    document, prepared = ready(place, LEAVES_TRACES)
    assert prepared.loaded.namespace["CALLS"] == 0
    ((_, subject),) = prepared.built.values()
    assert (subject.built.root.calls, subject.built.root.kept) == (0, {})
    capfd.readouterr()
    edited = request(place, LEAVES_TRACES.replace("x = self.layer(x)", "x = self.layer(x) + 1"))
    loaded = prepared.taken(edited)
    assert loaded is not None
    with pytest.warns(UserWarning, match="forward warns"):
        report, _ = traced(edited, document, prepared, loaded)
    assert "forward was called" in capfd.readouterr().out
    afresh, _ = traced(edited, document)
    assert same_but_for_time(report) == same_but_for_time(afresh)


def test_what_a_rehearsal_reads_anew_is_forgotten(place):
    document, prepared = ready(place)
    edited = request(place, NET.replace("x = block(x)", "x = block(x) + 1"))
    before, after = prepared.loaded.slice.statements, document.slice(edited).statements
    assert [one.binds for one, other in zip(before, after, strict=True) if one is not other] == [{"Net"}]


@pytest.mark.parametrize("keeps", ["KEPT.append(x)", "type(self).last = x", "torch.last = x"])
def test_a_model_that_keeps_something_of_a_trace_is_not_rehearsed(place, monkeypatch, keeps):
    monkeypatch.setattr("torch.last", None, raising=False)
    first = request(place, LEAVES_TRACES.replace('self.kept["last"] = x', keeps))
    document = Document.of(first)
    document.enter(first)
    prepared = prepare(first, document, frozenset({"Net"}))
    assert prepared is not None
    assert not is_rehearsed(first, document, prepared)


# Through a worker.

SLOW = NET.replace("        self.blocks", "        import time\n\n        time.sleep(0.4)\n        self.blocks")


@pytest.fixture
def worker():
    worker = Worker()
    yield worker
    assert worker.close() == 0


def test_what_was_done_ahead_is_not_paid_for_again(worker, tmp_path):
    path = tmp_path / "net.py"
    worker.edit(path, SLOW)

    def built_ahead(number):
        time.sleep(2.0)  # A busy machine may need more than one turn of it.
        net = of(worker.edit(path, SLOW.replace("block(x)", f"block(x) + {number}")), "Net")
        assert sum(node.target == "operator.add" for node in net.nodes) == 4
        return net.timings.build < 300

    assert any(map(built_ahead, range(10)))


def test_what_is_not_installed_is_told_after_each_edit(worker, tmp_path):
    path, text = tmp_path / "net.py", "import not_installed_anywhere\n" + SLOW

    def is_told(number):
        time.sleep(2.0)
        report = worker.edit(path, "\n" * number + text.replace("block(x)", f"block(x) + {number}"))
        assert [(each.code, each.location.span.line) for each in report.problems] == [("FX101", number + 1)]
        return of(report, "Net").timings.build < 300

    assert any(map(is_told, range(10)))


def test_a_model_that_cannot_be_rehearsed_is_built_ahead_all_the_same(worker, tmp_path):
    path = tmp_path / "net.py"
    text = SLOW.replace("        for block", "        type(self).last = x\n        for block")
    worker.edit(path, text)

    def built_ahead(number):
        time.sleep(2.0)
        net = of(worker.edit(path, text.replace("block(x)", f"block(x) + {number}")), "Net")
        assert sum(node.target == "operator.add" for node in net.nodes) == 4
        return net.timings.build < 300

    assert sum(map(built_ahead, range(6))) >= 2


def test_a_model_that_is_traced_quickly_is_rehearsed_at_once(worker, tmp_path):
    path, traces = tmp_path / "net.py", tmp_path / "traces"
    text = NET.replace("        for block", f"        open({str(traces)!r}, 'a').write('.')\n        for block")
    assert worker.edit(path, text).status == "complete"
    assert changes(traces.stat, 20.0)


def test_a_model_that_is_traced_slowly_is_not_rehearsed(worker, tmp_path):
    path, traces = tmp_path / "net.py", tmp_path / "traces"
    slow = f"        open({str(traces)!r}, 'a').write('.')\n        __import__('time').sleep(0.6)\n        for block"
    assert worker.edit(path, NET.replace("        for block", slow)).status == "complete"
    assert not changes(traces.stat, 4.0)


def changes(look, seconds):
    """Whether what a function returns becomes something else within a time."""
    before, end = look(), time.monotonic() + seconds
    while look() == before and time.monotonic() < end:
        time.sleep(0.05)
    return look() != before


def test_nothing_is_printed_by_a_rehearsal(worker, tmp_path):
    path = tmp_path / "net.py"
    text = SLOW.replace("        for block", "        print('forward')\n        for block")
    worker.edit(path, text)
    outputs = {worker.edit(path, text.replace("block(x)", "block(x) - 1")).output}

    def built_ahead(number):
        time.sleep(2.0)
        report = worker.edit(path, text.replace("block(x)", f"block(x) + {number}"))
        outputs.add(report.output)
        return of(report, "Net").timings.build < 300

    assert any(map(built_ahead, range(10)))
    assert outputs == {"forward\n"}


def test_an_edit_that_is_declined_is_traced_by_another_child(worker, tmp_path):
    path = tmp_path / "net.py"
    worker.edit(path, NET)
    time.sleep(1.0)
    report = worker.edit(path, NET.replace("range(COUNT)", "range(COUNT + 2)"))
    assert report.status == "complete"
    assert sum(node.op == "call_module" for node in of(report, "Net").nodes) == 5


def test_a_constructor_that_hangs_when_nobody_asked_harms_no_trace(worker, tmp_path):
    path, mark = tmp_path / "net.py", tmp_path / "mark"
    text = NET.replace(
        "    return 3",
        f"    import pathlib, threading\n    mark = pathlib.Path({str(mark)!r})\n"
        "    while mark.exists() and mark.read_text() == 'hang':\n        threading.Event().wait()\n"
        "    mark.write_text('hang')\n    return 3",
    )
    assert not all_problems(worker.edit(path, text))
    time.sleep(0.5)
    mark.write_text("go on")
    report = worker.edit(path, text.replace("block(x)", "block(x) + 1"))
    assert report.status == "complete"


def test_nothing_is_done_ahead_for_who_only_asks(worker, tmp_path):
    path = tmp_path / "net.py"
    worker.trace(path, SLOW)
    time.sleep(2.0)
    net = of(worker.trace(path, SLOW.replace("block(x)", "block(x) + 1")), "Net")
    assert net.timings.build > 400


def test_files_that_led_to_problems_are_parsed_once_and_problems_stay_the_same(own_worker, model):
    path = model("def asked(x):\n    return 1 if x.sum() > 0 else 2\n", "beside.py").with_name("net.py")
    text = (
        "import torch\nfrom beside import asked\n\n\n"
        "class Net(torch.nn.Module):\n    def forward(self, x):\n        return x * asked(x)\n"
    )
    path.write_text(text)
    first = all_problems(own_worker.trace(path, text))
    assert [each.code for each in first] == ["FX001"]
    for number in range(3):
        edited = text + f"\n\nNUMBER = {number}\n"
        assert all_problems(own_worker.trace(path, edited)) == first


LEARNS = """\
import torch
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.kept = nn.Linear(4, 8), torch.tensor(())

    def learn(self, examples: Tensor):
        self.kept = self.layer(examples)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cdist(self.layer(x), self.kept)


NETS = [Net()]
"""


def test_a_model_is_prepared_as_ready_as_it_was(place):
    _, prepared = ready(place, LEARNS)
    _, subject = prepared.built["Net"]
    assert subject.built.construct.expression == "[(model := Net()).learn(torch.randn(2, 4)), model][1]"

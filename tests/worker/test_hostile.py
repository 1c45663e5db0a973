"""User code that does its worst: each request has its one answer, on the guilty line, and nothing is left running."""

import os
import signal
import time

import pytest

from fxworker.encoding import encode
from fxworker.wire import Limits, TraceReport
from tests.worker.harness import all_problems, below, eventually, is_alive, marked, of, only_problem

SHORT = Limits(seconds=1.0)

BUSY = """\
import os
from torch import nn


class Net(nn.Module):
    def __init__(self, width=1 + os.nice(0)):
        super().__init__()
        self.fc = nn.Linear(4, width)

    def forward(self, x):
        return self.fc(x)


net = Net()
"""

NET = """\
import ctypes
import mmap
import os
import signal
import sys
import threading
import time

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        CONSTRUCTOR

    def forward(self, x):
        FORWARD
        return self.fc(x)
"""
FINE = "pass"


def net(constructor: str = FINE, forward: str = FINE, top: str = "") -> str:
    def block(text: str) -> str:
        return text.replace("\n", "\n        ")

    return (
        NET.replace("CONSTRUCTOR", block(constructor))
        .replace("FORWARD", block(forward))
        .replace("\n\n\nclass", f"\n{top}\n\n\nclass" if top else "\n\n\nclass")
    )


def assert_next_edit_is_answered(worker, path) -> None:
    assert worker.trace(path, net()).status == "complete"


HANGS = {
    "a loop": ("while True:\n    pass", "pass"),
    "sleep": ("time.sleep(1000)", "time.sleep(1000)"),
    "a loop in C that keeps the lock": ("sum(range(10**12))", "sum(range(10**12))"),
    "a lock": (
        "threading.Lock().acquire() and threading.Event().wait()",
        "threading.Lock().acquire() and threading.Event().wait()",
    ),
}


@pytest.mark.parametrize("place", ["constructor", "forward"])
@pytest.mark.parametrize("name", HANGS)
def test_a_hang_is_told_on_its_line(worker, model, name, place):
    code, expected = HANGS[name]
    text = net(**{place: code})
    path = model(text)
    started = time.monotonic()
    problem = only_problem(worker.trace(path, limits=SHORT))
    assert time.monotonic() - started < 8
    assert problem.code == "FX104"
    assert problem.target == "Net"
    if name == "a lock":
        assert text.split("\n")[problem.location.span.line - 1].strip() == expected
    else:
        assert marked(text, problem.location) in {expected, "while True:"}
    assert_next_edit_is_answered(worker, path)


def test_a_hang_at_import_is_told_on_its_line(worker, model):
    text = net(top="time.sleep(1000)\nX = time.sleep(1000)").replace("nn.Linear(4, 4)", "nn.Linear(X, 4)")
    path = model(text)
    problem = only_problem(worker.trace(path, limits=SHORT))
    assert problem.code == "FX104"
    assert marked(text, problem.location) == "time.sleep(1000)"
    assert problem.location.span.line == text[: text.index("X = time")].count("\n") + 1
    assert_next_edit_is_answered(worker, path)


def test_an_import_that_hangs_is_told_on_the_import_with_the_line_it_hangs_in(worker, model, tmp_path):
    model("import time\n\ntime.sleep(1000)\n", "slow_helper.py")
    text = net().replace("import torch\n", "import slow_helper\nimport torch\n").replace("4, 4", "slow_helper.N, 4")
    path = model(text)
    problem = only_problem(worker.trace(path, limits=SHORT))
    assert problem.code == "FX104"
    assert marked(text, problem.location) == "import slow_helper"
    assert problem.related[0].location.path == str(tmp_path / "slow_helper.py")
    assert problem.related[0].location.span.line == 3
    assert_next_edit_is_answered(worker, path)


def test_what_traces_yields_to_the_editor_and_what_measures_does_not(worker, model):
    facts = of(worker.trace(model(BUSY)), "Net").facts
    assert facts.parameters == 5 * (1 + os.nice(0) + 4)
    assert os.getpriority(os.PRIO_PROCESS, worker.process.pid) == os.nice(0)


def test_a_hanging_model_does_not_hide_the_others(worker, model):
    text = (
        net(forward="while True:\n    pass")
        + """

class Other(nn.Module):
    def forward(self, x):
        return x.relu()
"""
    )
    report = worker.trace(model(text), limits=SHORT)
    assert report.status == "partial"
    assert of(report, "Other").status == "complete"
    assert [problem.code for problem in of(report, "Net").problems] == ["FX104"]
    assert [each.qualname for each in report.targets] == ["Net", "Other"]


DEATHS = {
    "exit": ("os._exit(3)", "os._exit(3)"),
    "a segmentation fault": ("ctypes.string_at(0)", "ctypes.string_at(0)"),
    "abort": ("os.abort()", "os.abort()"),
    "a signal": ("os.kill(os.getpid(), signal.SIGKILL)", "os.kill(os.getpid(), signal.SIGKILL)"),
    "a signal to the group": ("os.killpg(0, signal.SIGKILL)", "os.killpg(0, signal.SIGKILL)"),
    "terminate": ("signal.raise_signal(signal.SIGTERM)", "signal.raise_signal(signal.SIGTERM)"),
    "another program": ("os.execv('/bin/true', ['true'])", "os.execv('/bin/true', ['true'])"),
}


@pytest.mark.parametrize("place", ["constructor", "forward"])
@pytest.mark.parametrize("name", DEATHS)
def test_a_death_is_told_on_its_line(worker, model, name, place):
    code, expected = DEATHS[name]
    text = net(**{place: code})
    path = model(text)
    problem = only_problem(worker.trace(path))
    assert problem.code == "FX105"
    assert marked(text, problem.location) == expected
    assert_next_edit_is_answered(worker, path)


@pytest.mark.parametrize("name", DEATHS)
def test_a_death_in_an_imported_module_is_told_on_the_import(worker, model, name):
    code = DEATHS[name][0]
    model(f"import ctypes, os, signal\n{code}\nN = 4\n", "deadly.py")
    text = net().replace("import torch\n", "import deadly\nimport torch\n").replace("4, 4", "deadly.N, 4")
    path = model(text)
    problem = only_problem(worker.trace(path))
    assert problem.code == "FX105"
    assert marked(text, problem.location) == "import deadly"
    assert_next_edit_is_answered(worker, path)


def test_a_stack_overflow_in_c_is_told(worker, model):
    text = net(forward="sys.setrecursionlimit(10**9)\nself(x)")
    problem = only_problem(worker.trace(model(text)))
    assert problem.code in {"FX105", "FX009"}
    assert_next_edit_is_answered(worker, model(text))


def test_endless_recursion_is_an_exception_like_any_other(worker, model):
    text = net(forward="self.forward(x)")
    problem = only_problem(worker.trace(model(text)))
    assert problem.code == "FX009"
    assert marked(text, problem.location) == "self.forward(x)"
    text = net(constructor="Net()")
    problem = only_problem(worker.trace(model(text)))
    assert problem.code == "FX102"
    assert marked(text, problem.location).startswith(("Net()", "nn.Linear", "super().__init__()", "super()"))


@pytest.mark.parametrize(
    "hog",
    [
        "[bytearray(1 << 28) for _ in range(1000)]",
        "torch.empty(200 << 30, dtype=torch.uint8, device='cpu').fill_(1)",
        "[torch.ones(1 << 26).numpy() for _ in range(1000)]",
        "[(each := mmap.mmap(-1, 1 << 28), each.write(bytes(1 << 28))) for _ in range(8)]; time.sleep(60)",
        "[os.write(os.memfd_create('x'), bytes(1 << 28)) for _ in range(8)]; time.sleep(60)",
    ],
)
def test_memory_is_bounded(worker, model, hog):
    text = net(forward=f"y = {hog}")
    report = worker.trace(model(text), limits=Limits(seconds=20.0, memory=1 << 30))
    problem = only_problem(report)
    assert problem.code in {"FX009", "FX105", "FX006"}
    assert problem.location.span.line == text[: text.index("y = ")].count("\n") + 1
    assert_next_edit_is_answered(worker, model(text))


def test_a_flood_of_output_is_bounded(worker, model):
    text = net(forward="for _ in range(100_000):\n    print('x' * 1000)\nprint('the end')")
    report = worker.trace(model(text), limits=Limits(seconds=30.0))
    assert report.status == "complete"
    assert report.output.endswith("the end\n")
    assert len(report.output) < 100_000


def test_forged_answers_on_every_descriptor_change_nothing(worker, model):
    forged = r"""
line = b'["TraceReport",[],[1,"/","x","complete",[],[],[],[0,0,0,0,0],""]]\n'
for fd in range(3, 64):
    try:
        os.set_blocking(fd, False)
        os.write(fd, line)
    except OSError:
        pass
sys.stdout.write(line.decode())
sys.stdout.flush()
os.write(1, line)
""".strip()
    path = model(net(forward=forged))
    report = worker.trace(path)
    assert report.path == str(path)
    assert_next_edit_is_answered(worker, path)


def test_closed_descriptors(worker, model):
    path = model(net(forward="os.closerange(0, 256)"))
    report = worker.trace(path)
    assert {problem.code for problem in all_problems(report)} <= {"FX105"}
    assert_next_edit_is_answered(worker, path)


@pytest.mark.parametrize("error", ["SystemExit(1)", "KeyboardInterrupt()", "GeneratorExit()", "BaseException('odd')"])
def test_every_exception_is_a_problem(worker, model, error):
    text = net(forward=f"raise {error}")
    problem = only_problem(worker.trace(model(text)))
    assert problem.code == "FX009"
    assert marked(text, problem.location) == f"raise {error}"
    text = net(constructor=f"raise {error}")
    problem = only_problem(worker.trace(model(text)))
    assert problem.code == "FX102"
    assert marked(text, problem.location) == f"raise {error}"
    text = net(top=f"def fail():\n    raise {error}\n\n\nX = fail()").replace("nn.Linear(4", "nn.Linear(X")
    problem = only_problem(worker.trace(model(text)))
    assert problem.code == "FX101"
    assert marked(text, problem.location) == f"raise {error}"


def test_an_exception_whose_text_raises(worker, model):
    top = "class Odd(Exception):\n    def __str__(self):\n        raise SystemExit"
    problem = only_problem(worker.trace(model(net(forward="raise Odd()", top=top))))
    assert problem.code == "FX009"
    assert problem.original == "Odd: <its text cannot be had: SystemExit>"
    assert_next_edit_is_answered(worker, model(net()))


def test_input_finds_nothing_to_read(worker, model):
    text = net(forward="input('password: ')")
    problem = only_problem(worker.trace(model(text)))
    assert problem.code == "FX009"
    assert "EOFError" in problem.original


def test_threads_and_farewells_do_not_keep_the_child(worker, model):
    code = "import atexit\natexit.register(time.sleep, 1000)\nthreading.Thread(target=time.sleep, args=(1000,)).start()"
    text = net(forward=code)
    path = model(text)
    started = time.monotonic()
    assert worker.trace(path).status == "complete"
    assert time.monotonic() - started < 9
    assert_next_edit_is_answered(worker, path)


def test_a_finaliser_that_hangs(worker, model):
    top = "class Sticky:\n    def __del__(self):\n        time.sleep(1000)"
    text = net(forward="Sticky()", top=top)
    problem = only_problem(worker.trace(model(text), limits=SHORT))
    assert problem.code == "FX104"
    assert "time.sleep(1000)" in text.split("\n")[problem.location.span.line - 1]


def test_monkey_patched_torch_is_forgotten(worker, model):
    code = "torch.relu = None\nnn.Module.__call__ = None\nsys.modules.clear()\nsys.path.clear()"
    path = model(net(forward=code))
    worker.trace(path)
    assert_next_edit_is_answered(worker, path)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\r"),
        lambda text: text.replace("class", "\x0cclass"),
        lambda text: text + "# a\u2028b\nx = '\u2028\x85'\n",
        lambda text: text + "x = '" + "x" * (1 << 22) + "'\n",
    ],
    ids=["byte order mark", "CRLF", "CR", "form feeds", "other separators", "a long line"],
)
def test_what_python_reads_is_traced(worker, model, change):
    path = model(net())
    report = worker.trace(path, change(net()))
    assert (report.status, all_problems(report)) == ("complete", [])


@pytest.mark.parametrize("what", ["directory", "pipe", "circle"])
def test_an_import_of_what_is_no_file_is_told_until_it_is_one(worker, model, tmp_path, what):
    odd = tmp_path / "odd.py"
    {"directory": odd.mkdir, "pipe": lambda: os.mkfifo(odd), "circle": lambda: odd.symlink_to(odd)}[what]()
    path = model("import odd\n" + net())
    assert [problem.code for problem in all_problems(worker.trace(path, limits=SHORT))] == ["FX101"]
    odd.rmdir() if what == "directory" else odd.unlink()
    odd.write_text("")
    assert all_problems(worker.trace(path)) == []


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("__import__('json').dumps = None", "json.dumps"),
        ("__import__('dataclasses').fields = None", "dataclasses.fields"),
        ("nn.Module.named_modules = None", "torch.nn.Module.named_modules"),
    ],
)
def test_what_was_replaced_is_named(worker, model, code, name):
    path = model(net(forward=code))
    problem = only_problem(worker.trace(path))
    assert (problem.code, f"`{name}`" in problem.message) == ("FX105", True), problem
    assert_next_edit_is_answered(worker, path)


def test_code_that_fails_where_it_is_asked_something_is_told_on_its_line(worker, model):
    text = net(forward="raise Odd()").replace(
        "class Net", "class Odd(Exception):\n    __class__ = property(lambda self: 1 / 0)\n\n\nclass Net", 1
    )
    problem = only_problem(worker.trace(model(text)))
    assert (problem.code, "ZeroDivisionError" in problem.message) == ("FX105", True), problem
    assert "1 / 0" in text.split("\n")[problem.location.span.line - 1]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("self.parent = weakref.proxy(Parent())", "weakly-referenced object no longer exists"),
        ("self.parent = weakref.proxy(PARENT)", "'weakref.CallableProxyType': `parent` is a module without a hash"),
        ("self.parent = Equal()", "'Equal': `parent` is a module without a hash"),
    ],
)
def test_a_model_whose_modules_cannot_be_told_apart_is_told_alone(worker, model, body, told):
    source = net(body, top="import weakref\n").replace(
        "class Net(",
        "class Parent(nn.Module):\n    def forward(self, x):\n        return x\n\n\nPARENT = Parent()\n\n\n"
        "class Equal(Parent):\n    def __eq__(self, other):\n        return True\n\n\nclass Net(",
    )
    report = worker.trace(model(source))
    (problem,) = of(report, "Net").problems
    assert told in problem.message
    assert of(report, "Parent").status == "complete"


def test_a_fork_that_comes_back_answers_once(worker, model):
    path = model(net(forward="os.fork()"))
    assert worker.trace(path).status == "complete"
    assert_next_edit_is_answered(worker, path)
    assert worker.messages.empty()


def test_children_of_the_child_are_ended(worker, model, tmp_path):
    code = """
import subprocess
quick = subprocess.Popen(["sleep", "1000"])
hidden = subprocess.Popen(["sleep", "1001"], start_new_session=True)
open(PATH, "w").write(f"{quick.pid} {hidden.pid}")
""".strip().replace("PATH", repr(str(tmp_path / "pids")))
    path = model(net(forward=code))
    assert worker.trace(path).status == "complete"
    pids = [int(word) for word in (tmp_path / "pids").read_text().split()]
    assert eventually(lambda: not any(map(is_alive, pids)))


def test_a_deleted_working_directory(worker, model, tmp_path):
    path = model(net(forward="import shutil\nshutil.rmtree(os.getcwd())"), "gone/net.py")
    assert worker.trace(path, roots=(tmp_path / "gone",)).status == "complete"
    assert worker.trace(path, net(), roots=(tmp_path / "gone",)).status == "complete"


def test_a_cancelled_request_is_answered_at_once(worker, model):
    path = model(net(forward="while True:\n    pass"))
    worker.trace(path, net())
    request = worker.start(path, limits=Limits(seconds=60.0))
    time.sleep(0.5)
    started = time.monotonic()
    worker.cancel(request.id)
    report = worker.receive()
    assert isinstance(report, TraceReport)
    assert (report.id, report.status, report.problems) == (request.id, "not traced", ())
    assert time.monotonic() - started < 2
    assert_next_edit_is_answered(worker, path)


def test_a_request_that_is_cancelled_while_its_imports_run(worker, model):
    path = model("import time\ntime.sleep(0)\nfrom slow import N\n" + net())
    model("import time\ntime.sleep(30)\nN = 1\n", "slow.py")
    request = worker.start(path, net(top="from slow import N").replace("4, 4", "N, 4"), limits=Limits(seconds=60.0))
    time.sleep(0.3)
    worker.cancel(request.id)
    report = worker.receive(5.0)
    assert isinstance(report, TraceReport)
    assert (report.id, report.status) == (request.id, "not traced")
    assert_next_edit_is_answered(worker, path)


def test_the_newest_request_for_a_file_wins(worker, model):
    path = model(net(forward="while True:\n    pass"))
    worker.trace(path, net())
    started = time.monotonic()
    slow = [worker.start(path, limits=Limits(seconds=60.0)) for _ in range(5)]
    last = worker.start(path, net(forward="x = x + 1"))
    reports = [worker.receive() for _ in range(6)]
    assert time.monotonic() - started < 10
    assert [report.id for report in reports] == [*(request.id for request in slow), last.id]
    assert [report.status for report in reports] == ["not traced"] * 5 + ["complete"]


def test_the_newest_request_wins_while_imports_run(worker, model):
    model("import time\ntime.sleep(30)\nN = 4\n", "slow.py")
    slow = net().replace("import torch\n", "from slow import N\nimport torch\n").replace("4, 4", "N, 4")
    path = model(slow)
    first = worker.start(path, slow, limits=Limits(seconds=60.0))
    second = worker.start(path, slow, limits=Limits(seconds=60.0))
    third = worker.start(path, net())
    reports = [worker.receive(10.0) for _ in range(3)]
    assert [report.id for report in reports] == [first.id, second.id, third.id]
    assert [report.status for report in reports] == ["not traced", "not traced", "complete"]


def test_a_file_that_is_given_the_time_of_the_one_before_is_another(worker, model):
    lib = model("N = 4\n", "lib.py")
    path = model(net().replace("import torch\n", "from lib import N\nimport torch\n").replace("4, 4", "N, 4"))
    assert of(worker.trace(path), "Net").facts.parameters == 4 * 4 + 4
    then = lib.stat()
    lib.write_text("N = 8\n")
    os.utime(lib, ns=(then.st_atime_ns, then.st_mtime_ns))
    assert of(worker.trace(path), "Net").facts.parameters == 8 * 4 + 4


def test_the_newest_request_wins_where_what_they_import_has_changed(worker, model):
    """The older one learns of it first, and the newer one is on its way to the same process by then."""
    model("N = 4\n", "lib.py")
    text = net().replace("import torch\n", "from lib import N\nimport torch\n").replace("4, 4", "N, 4")
    path = model(text)
    assert worker.trace(path, text).status == "complete"
    model("N = 44\n", "lib.py")
    older, newer = (worker.request(path, each) for each in (text, text + "\nX = 1\n"))
    worker.process.stdin.write(encode(older) + encode(newer))
    worker.process.stdin.flush()
    reports = [worker.receive(10.0) for _ in range(2)]
    assert [(each.id, each.status) for each in reports] == [(older.id, "not traced"), (newer.id, "complete")]
    assert of(reports[1], "Net").facts.parameters == 44 * 4 + 4


@pytest.mark.parametrize("way", ["close", "kill"])
def test_nothing_is_left_when_the_client_or_the_template_goes(own_worker, model, way):
    worker = own_worker
    code = "import subprocess\nsubprocess.Popen(['sleep', '1000'])\nwhile True:\n    pass"
    path = model(net(forward=code))
    worker.trace(path, net())
    worker.start(path, limits=Limits(seconds=60.0))
    other = model(net(), "other.py")
    worker.trace(other)
    time.sleep(0.5)
    pids = below(worker.process.pid) - {worker.process.pid}
    assert len(pids) >= 5
    if way == "close":
        assert worker.close() == 0
    else:
        os.kill(worker.process.pid, signal.SIGKILL)
        worker.process.wait()
    assert eventually(lambda: not any(map(is_alive, pids))), [pid for pid in pids if is_alive(pid)]


def test_nothing_is_left_when_the_client_goes_while_imports_run(own_worker, model):
    model("import time\ntime.sleep(30)\nN = 4\n", "slow.py")
    slow = net().replace("import torch\n", "from slow import N\nimport torch\n").replace("4, 4", "N, 4")
    own_worker.start(model(slow), limits=Limits(seconds=60.0))
    assert eventually(lambda: len(below(own_worker.process.pid)) > 1, 30.0)
    time.sleep(0.5)
    pids = below(own_worker.process.pid) - {own_worker.process.pid}
    assert own_worker.close() == 0
    assert eventually(lambda: not any(map(is_alive, pids)))


@pytest.mark.parametrize("way", ["close", "kill"])
def test_nothing_is_left_when_the_client_goes_while_an_import_of_a_trace_is_repeated(own_worker, model, way):
    marker = model("", "imported").with_name("marker")
    again = f"import os, time\nwhile os.path.exists({str(marker)!r}):\n    pass\nopen({str(marker)!r}, 'w').close()\n"
    model(f"{again}time.sleep(0.1)\nN = 4\n", "once.py")
    code = net().replace("super().__init__()", "super().__init__()\n        from once import N")
    assert own_worker.trace(model(code)).status == "complete"
    time.sleep(0.3)
    pids = below(own_worker.process.pid) - {own_worker.process.pid}
    assert pids
    if way == "close":
        assert own_worker.close() == 0
    else:
        os.kill(own_worker.process.pid, signal.SIGKILL)
        own_worker.process.wait()
    assert eventually(lambda: not any(map(is_alive, pids)))


def test_documents_are_bounded(own_worker, model):
    for number in range(12):
        assert own_worker.trace(model(net(), f"net{number}.py")).status == "complete"
    time.sleep(0.3)
    # The template, and for each of eight documents its template, a spare, and one that has done the last work ahead.
    assert eventually(lambda: len(below(own_worker.process.pid)) <= 25)
    assert own_worker.close() == 0


GUESSES = {
    "a loop": "while type(x).__name__ != 'Proxy':\n    pass",
    "a loop in C": "while type(x).__name__ != 'Proxy':\n    sum(range(10**12))",
    "an exit": "if type(x).__name__ != 'Proxy':\n    os._exit(1)",
    "an exception": "if type(x).__name__ != 'Proxy':\n    raise SystemExit",
}


@pytest.mark.parametrize("name", GUESSES)
def test_a_guess_that_goes_badly_leaves_inputs_unknown(worker, model, name):
    path = model(net(forward=GUESSES[name]))
    started = time.monotonic()
    report = worker.trace(path, limits=Limits(seconds=4.0))
    first = time.monotonic() - started
    assert report.status == "complete"
    problem = only_problem(report)
    assert (problem.code, problem.severity) == ("FX202", "information")
    assert "takes longer than 2 s, or ends the process" in problem.explanation
    assert of(report, "Net").inputs is None
    assert of(report, "Net").nodes
    # The next trace remembers, as long as the definition stays.
    started = time.monotonic()
    assert (
        worker.trace(path, net(forward=GUESSES[name]) + "\n# edited\n", limits=Limits(seconds=4.0)).status == "complete"
    )
    # A machine under load is slow in both; only the guess that hung is saved.
    second = time.monotonic() - started
    assert second < (first - 1 if "loop" in name else 5)


def test_arguments_whose_guess_hangs_are_not_known(worker, model):
    text = net(constructor="while width:\n    pass").replace("def __init__(self)", "def __init__(self, width)")
    problem = only_problem(worker.trace(model(text), limits=Limits(seconds=8.0)))
    assert (problem.code, problem.severity) == ("FX103", "information")


def test_arguments_that_were_inferred_are_kept_where_a_guess_of_inputs_goes_badly(worker, model):
    text = net(forward=GUESSES["an exit"]).replace("def __init__(self)", "def __init__(self, width)")
    path = model(text)
    for _ in range(2):
        report = worker.trace(path)
        assert only_problem(report).code == "FX202"
        assert of(report, "Net").construct.expression == "Net(width=64)"
        assert of(report, "Net").nodes


INCOMPARABLE = """import torch
from torch import nn


class Record:
    __module__ = "torch.records"

    def __eq__(self, other):
        raise NotImplementedError("not comparable")

    __hash__ = object.__hash__


class Base(nn.Module):
    def build(self, width):
        self.fc = nn.Linear(width, 2)


class Net(Base):
    metadata = Record()

    def __init__(self, width, record=Record()):
        super().__init__()
        super().build(width)
        self.record = record

    def forward(self, x: Record()):
        return self.fc(x)
"""


def test_what_cannot_be_compared_and_has_no_name_does_no_harm(worker, tmp_path):
    path = tmp_path / "net.py"
    path.write_text(INCOMPARABLE)
    target = of(worker.trace(path), "Net")
    assert (target.construct.expression, target.status, target.problems) == ("Net(width=64)", "complete", ())
    assert "self.fc(x)" in target.code

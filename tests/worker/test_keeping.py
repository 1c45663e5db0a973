"""What a worker keeps ready between requests: as many files, and as much memory, as it was told."""

import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from fxworker.limits import own_memory
from fxworker.wire import Keep, TraceReport

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked at in /proc")

NET = "import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x + 1\n"
HEAVY = "BALLAST = bytearray(b'x' * (100 << 20))\n"


def kept(worker) -> dict[int, int]:
    """Return the document templates of a worker, with the memory that each of them holds."""
    mine = worker.process.pid
    children = Path(f"/proc/{mine}/task/{mine}/children").read_text("ascii").split()
    return {int(pid): own_memory(mine, int(pid)) for pid in children}


def ask(worker, path, keep) -> int:
    """Trace a file; return the process of its document template."""
    before = set(kept(worker))
    worker.send(replace(worker.request(path), keep=keep))
    report = worker.receive()
    assert isinstance(report, TraceReport)
    assert report.status == "complete", report
    return next(iter(set(kept(worker)) - before), 0)


def until(condition) -> bool:
    """Whether something becomes true within some seconds."""
    for _ in range(200):
        with suppress(OSError):
            if condition():
                return True
        time.sleep(0.05)
    return False


def test_the_files_that_were_used_longest_ago_are_given_up(own_worker, model):
    keep = Keep(documents=2)
    first = ask(own_worker, model(NET, "first.py"), keep)
    second = ask(own_worker, model(NET, "second.py"), keep)
    assert ask(own_worker, model(NET, "first.py"), keep) == 0, "it is kept"
    third = ask(own_worker, model(NET, "third.py"), keep)
    assert until(lambda: set(kept(own_worker)) == {first, third})
    assert second not in kept(own_worker)
    assert ask(own_worker, model(NET, "second.py"), keep), "a file that was given up is begun anew"


def test_fewer_files_are_kept_as_soon_as_that_is_said(own_worker, model):
    for name in ("a.py", "b.py", "c.py"):
        ask(own_worker, model(NET, name), Keep())
    assert len(kept(own_worker)) == 3
    ask(own_worker, model(NET, "c.py"), Keep(documents=1))
    assert until(lambda: len(kept(own_worker)) == 1)


def test_files_are_given_up_that_hold_too_much_memory(own_worker, model):
    keep = Keep(memory=150 << 20)
    model(HEAVY, "ballast.py")
    heavy = NET.replace("import torch\n", "import torch\nimport ballast\n").replace("+ 1", "+ len(ballast.BALLAST)")
    small = ask(own_worker, model(NET, "small.py"), keep)
    first = ask(own_worker, model(heavy, "first.py"), keep)
    time.sleep(1.5)
    assert {small, first} <= set(kept(own_worker))
    second = ask(own_worker, model(heavy, "second.py"), keep)
    assert until(lambda: first not in kept(own_worker) and sum(kept(own_worker).values()) <= keep.memory)
    assert second in kept(own_worker)


def test_the_file_that_was_asked_about_last_is_kept_however_large_it_is(own_worker, model):
    keep = Keep(memory=20 << 20)
    model(HEAVY, "ballast.py")
    heavy = NET.replace("import torch\n", "import torch\nimport ballast\n").replace("+ 1", "+ len(ballast.BALLAST)")
    first = ask(own_worker, model(heavy, "first.py"), keep)
    time.sleep(1.5)
    assert list(kept(own_worker)) == [first]
    assert kept(own_worker)[first] > keep.memory


def test_a_template_of_a_small_file_holds_less_than_sixty_mebibytes(own_worker, model):
    pid = ask(own_worker, model(NET), Keep())
    time.sleep(1.0)
    assert 0 < kept(own_worker)[pid] < 60 << 20


def test_what_torch_loads_late_is_shared_by_the_templates_after_the_first_answer(worker, model, tmp_path):
    model(NET, "first.py")
    ask(worker, tmp_path / "first.py", Keep())
    model("import sys\nLOADED = 'sympy' in sys.modules\n", "said.py")
    net = f"from said import LOADED\n{NET}".replace("x + 1", "x + 1 if LOADED else x")

    def is_loaded() -> bool:
        path = model(net, f"other{time.monotonic_ns()}.py")
        worker.send(worker.request(path))
        report = worker.receive()
        return "add" in [node.name for node in report.targets[0].nodes]

    assert until(is_loaded)

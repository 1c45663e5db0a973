"""Workers for the tests: one that is shared, and one that a test may end."""

import abc
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from fxworker.absences import ABSENCES
from fxworker.importing import StandIns
from tests.support.corpus import CORPUS
from tests.worker.harness import Worker


@pytest.fixture(scope="session")
def shared_worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.process.kill()


@pytest.fixture
def worker(shared_worker: Worker) -> Worker:
    """The worker of all tests that do not end it; every test begins with nothing to read."""
    assert shared_worker.process.poll() is None
    assert shared_worker.messages.empty()
    return shared_worker


@pytest.fixture(scope="session")
def library_worker() -> Iterator[Worker]:
    """A worker that imports the model libraries, for tests that are marked `corpus`."""
    worker = Worker(env={"PYTHONPATH": str(CORPUS)})
    yield worker
    worker.process.kill()


@pytest.fixture
def own_worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.process.kill()
    worker.process.wait()


@pytest.fixture
def model(tmp_path: Path):
    """Write a model file and return its path."""

    def write(text: str, name: str = "net.py") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


@pytest.fixture
def imports_undone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Import from the test's folder; afterwards nothing is imported that was not before, nor stood in for.

    What torch has imported of itself stays: some of it registers operators, which can be done once.
    """
    monkeypatch.syspath_prepend(str(tmp_path))
    for owner, name in (
        (torch.jit, "script"),
        (torch.nn.Module, "add_module"),
        (warnings, "filterwarnings"),
        (warnings, "simplefilter"),
        (abc.ABCMeta, "register"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    before = set(sys.modules)
    yield
    ABSENCES.names.clear()
    ABSENCES.found.clear()
    ABSENCES.broken.clear()
    sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, StandIns)]
    for name in set(sys.modules) - before:
        if name.partition(".")[0] != torch.__name__:
            del sys.modules[name]

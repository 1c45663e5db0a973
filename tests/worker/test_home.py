"""A home folder that is thrown away, in place of the person's."""

import asyncio
import os
import sys
import tempfile
from pathlib import Path

import pytest

from fxls.workers.pool import PooledWorker
from fxls.workers.python_env import PythonEnv
from fxworker import home
from tests.worker.harness import Worker

NET = """
import os
import site
from pathlib import Path

from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        cache = Path.home() / ".cache"
        cache.mkdir(parents=True, exist_ok=True)
        (cache / "kept").write_text(site.getuserbase())
        hub = os.environ.get("HF_HOME") or os.environ.get("XDG_CACHE_HOME")
        raise RuntimeError(f"at home in {Path.home()}, {hub}, {site.getuserbase()}")

    def forward(self, x):
        return x
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(NET)
    return path


def test_models_are_at_home_in_the_chosen_folder(path, tmp_path):
    chosen = tmp_path / "home"
    chosen.mkdir()
    worker = Worker(env={home.CHOSEN: str(chosen), "HF_HOME": "/mine", "XDG_CACHE_HOME": "/mine"})
    try:
        (problem,) = worker.trace(path).targets[0].problems
    finally:
        worker.close()
    # What is installed for the person alone is still looked for where the person has it.
    base = os.environ.get("PYTHONUSERBASE", str(Path.home() / ".local"))
    assert f"at home in {chosen}, None, {base}" in problem.message
    assert (chosen / ".cache" / "kept").exists()


def test_without_one_they_are_at_home_where_the_person_is(path):
    worker = Worker(env={"HF_HOME": "/mine"})
    try:
        (problem,) = worker.trace(path).targets[0].problems
    finally:
        worker.close()
    assert f"at home in {Path.home()}, /mine" in problem.message


async def test_a_worker_has_its_own_until_it_ends(path, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    worker = PooledWorker(PythonEnv((sys.executable,), "test", temporary_home=True))
    request = Worker.request(Numbered(), path)
    report = await worker.trace(request)
    (folder,) = tmp_path.glob("fxls-home-*")
    assert f"at home in {folder}" in report.targets[0].problems[0].message
    await worker.close()
    async with asyncio.timeout(10):
        while folder.exists():
            await asyncio.sleep(0.01)


class Numbered:
    """Enough of a worker to make requests."""

    number = 0

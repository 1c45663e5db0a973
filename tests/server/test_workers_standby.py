"""Spawned workers, as on Windows and macOS, forced here: what a person sees is what they see of forked ones."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest
import pytest_asyncio

import fxworker
from fxls.discovery import discover
from fxls.workers.pool import WorkerPool, spawns
from fxls.workers.python_env import PythonEnv
from fxls.workers.standby import StandbyWorker
from fxworker.encoding import decode, encode
from fxworker.wire import Limits, TraceReport, TraceRequest
from tests.server.client import Client
from tests.soak import processes
from tests.worker.harness import eventually

HEAD = """\
import os
import time

import torch


class Net(torch.nn.Module):
    def forward(self, x):
"""
NET = HEAD + "        return x.relu()\n"
BRANCH = HEAD + "        if x.sum() > 0:\n            return x\n        return -x\n"
OTHER = "\n\nclass Other(torch.nn.Module):\n    def forward(self, x):\n        return x.tanh()\n"

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory):
    mark = f"{time.time_ns()}"
    folder = tmp_path_factory.mktemp("server")
    client = await Client.start(
        env={"FXLS_START": "spawn", "XDG_CACHE_HOME": str(folder / "cache"), processes.MARK: mark}
    )
    await client.initialize({"interpreter": [sys.executable], "trace": {"timeout": 8}})
    client.mark = mark
    yield client
    assert await client.finish() == 0
    assert b"Traceback" not in client.stderr
    await client.stop()
    assert eventually(lambda: not processes.marked(mark))


@pytest_asyncio.fixture(loop_scope="module")
async def uri(client, tmp_path):
    uri = (tmp_path / "net.py").as_uri()
    yield uri
    client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})


def where(found):
    return [(each["code"], each["range"]["start"]["line"] + 1) for each in found]


async def test_what_starts_processes_is_chosen_by_the_system_or_the_environment(monkeypatch):
    assert not spawns()
    assert not isinstance(WorkerPool().client(PythonEnv(("python",), "")), StandbyWorker)
    monkeypatch.setenv("FXLS_START", "spawn")
    assert isinstance(WorkerPool().client(PythonEnv(("python",), "")), StandbyWorker)


async def test_edits_are_answered(client, uri):
    client.open(uri, BRANCH)
    assert where(await client.diagnostics(uri, 1, 120)) == [("FX001", 9)]
    client.change(uri, 2, NET)
    assert await client.diagnostics(uri, 2, 120) == []
    for _ in range(100):
        report = await client.request("fxls/report", {"uri": uri})
        if report["fresh"] and report["version"] == 2 and report["status"] == "complete":
            break
        await asyncio.sleep(0.1)
    assert report["status"] == "complete"


async def test_the_newest_edit_wins(client, uri):
    client.open(uri, HEAD + "        time.sleep(1000)\n")
    await asyncio.sleep(1)
    for version in range(2, 6):
        client.change(uri, version, HEAD + f"        time.sleep({version}000)\n")
        await asyncio.sleep(0.05)
    client.change(uri, 6, NET)
    assert await client.diagnostics(uri, 6, 120) == []
    assert client.published(uri, 3) == []


async def test_a_hang_is_told_on_its_line_and_hides_no_other_model(client, uri):
    client.open(uri, HEAD + "        time.sleep(1000)\n        return x\n" + OTHER)
    assert where(await client.diagnostics(uri, 1, 120)) == [("FX104", 9)]
    report = await client.request("fxls/report", {"uri": uri})
    assert [each["status"] for each in report["targets"]] == ["not traced", "complete"]


async def test_a_guess_that_hangs_takes_nothing_from_what_is_known(client, uri):
    stuck = HEAD + "        if type(x).__name__ != 'Proxy':\n            sum(range(10**12))\n        return x.relu()\n"
    client.open(uri, stuck + OTHER)
    await client.until(lambda: any(each["diagnostics"] for each in client.published(uri, 1)), 120)
    found = await client.diagnostics(uri, 1)
    assert [(each["code"], each["severity"]) for each in found] == [("FX104", 3)]
    report = await client.request("fxls/report", {"uri": uri})
    assert [each["status"] for each in report["targets"]] == ["complete", "complete"]


@pytest.mark.parametrize("code", ["os._exit(3)", "os.kill(os.getpid(), 9)", "os.abort()"])
async def test_a_death_is_told_on_its_line(client, uri, code):
    client.open(uri, HEAD + f"        {code}\n        return x\n")
    assert where(await client.diagnostics(uri, 1, 120)) == [("FX105", 9)]
    client.change(uri, 2, NET)
    assert await client.diagnostics(uri, 2, 120) == []


@pytest.mark.parametrize(
    "deed",
    [
        "os.closerange(3, 99)",
        "[os.dup2(os.open(os.devnull, os.O_RDWR), each) for each in range(3, 99) if not tried(os.close, each)]",
        "[tried(os.write, each, b'[]\\n[\"TraceReport\",') for each in range(3, 99)]",
    ],
)
async def test_what_is_done_to_descriptors_keeps_no_answer_back(client, uri, deed):
    tried = (
        "def tried(*deed):\n    try:\n        return deed[0](*deed[1:])\n    except OSError:\n        return 1\n\n\n"
    )
    client.open(
        uri,
        BRANCH.replace("class Net", f"{tried}DEED = {deed}\n\n\nclass Net").replace(
            "x.sum() > 0", "x.sum() > len(f'{DEED}') * 0"
        ),
    )
    (found,) = await client.diagnostics(uri, 1)
    assert found["code"] == "FX001"


async def test_a_process_that_is_killed_from_outside_is_replaced(client, uri):
    client.open(uri, NET)
    await client.diagnostics(uri, 1, 120)
    for each in processes.marked(client.mark):
        if each.pid != client.process.pid:
            processes.kill(each)
    client.change(uri, 2, BRANCH)
    assert where(await client.diagnostics(uri, 2, 120)) == [("FX001", 9)]


async def test_an_interpreter_without_torch_is_a_problem(tmp_path):
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    python.chmod(0o755)
    worker = StandbyWorker(PythonEnv((str(python),), "configured"))
    assert "torch" in (await worker.environment()).problem
    await worker.close()


async def test_a_command_that_does_not_start_is_a_problem():
    worker = StandbyWorker(PythonEnv(("/no/such/python",), "configured"))
    assert "cannot be started" in (await worker.environment()).problem
    await worker.close()


async def test_the_worker_needs_nothing_that_only_unix_has(tmp_path):
    """The modules and functions that Windows lacks are taken away, and a model is traced all the same."""
    main = Path(fxworker.__file__).with_name("__main__.py")
    script = f"""
import os, runpy, signal, sys
import torch, torch._dynamo  # For another system they would be other files.
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
for name in ("fork", "pidfd_open", "setsid", "killpg", "memfd_create", "getpgrp", "register_at_fork", "O_PATH"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGALRM", "setitimer", "SIGUSR1", "SIGHUP", "ITIMER_REAL"):
    delattr(signal, name)
sys.platform = "unknown"
import faulthandler
del faulthandler.register
sys.argv = [{str(main)!r}, "--one", {str(tmp_path / "box")!r}]
runpy.run_path({str(main)!r}, run_name="__main__")
"""
    (tmp_path / "box").touch()
    wrapper = tmp_path / "python"
    (tmp_path / "start.py").write_text(script)
    wrapper.write_text(f"#!/bin/sh\nexec {sys.executable} {tmp_path / 'start.py'}\n")
    wrapper.chmod(0o755)
    targets = discover("/p/net.py", NET).targets
    request = TraceRequest(7, str(tmp_path / "net.py"), NET, targets, limits=Limits(seconds=30.0))
    with subprocess.Popen([wrapper], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdin.write(encode(request))
        process.stdin.flush()  # Closing it would end the process: that is how it knows that the server is gone.
        lines = [decode(line) for line in process.stdout]
        errors = process.stderr.read().decode()
    assert lines[0].problem == ""
    assert isinstance(lines[-1], TraceReport), errors
    assert (lines[-1].id, lines[-1].status, lines[-1].targets[0].problems) == (7, "complete", ()), errors
